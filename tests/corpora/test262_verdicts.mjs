/**
 * Takes every file of test262-parser-tests as a program: what does Node say, and what do we?
 *
 * Run as `node --experimental-vm-modules test262_verdicts.mjs`, from the sources and in one process, so
 * that all files take seconds. Nothing of a file runs. Writes one JSON object of file and verdict.
 */
import { readdirSync, readFileSync } from "node:fs";
import vm from "node:vm";
import { compile } from "../../packages/code-runtime-worker-thread/host/src/program.ts";
import { prepare } from "../../packages/code-runtime-worker-thread/host/src/strip.ts";

const corpus = new URL("../../node_modules/test262-parser-tests/", import.meta.url);
const AsyncFunction = (async () => {}).constructor;
// A worker's program has no other parameter when a run offers no bindings.
const NAMES = ["console"];

/** Why Node refuses a text, null when it parses: as a module, or as the body that a program is. */
function nodeRefusal(text, isModule) {
  try {
    if (isModule) new vm.SourceTextModule(text);
    else new AsyncFunction(...NAMES, `"use strict";\n${text}`);
    return null;
  } catch (error) {
    return error.message;
  }
}

/** The message that the program's author gets, null when the program would run. */
function ourRefusal(text, outcome) {
  if ("message" in outcome) return outcome.message;
  try {
    const { code, prologue } = outcome;
    compile({ program: text, code, prologue }, NAMES, undefined, () => {});
    return null;
  } catch (error) {
    return error.message;
  }
}

const verdicts = {};
for (const folder of ["pass", "pass-explicit", "fail", "early"]) {
  for (const name of readdirSync(new URL(folder, corpus)).sort()) {
    const file = `${folder}/${name}`;
    const text = readFileSync(new URL(file, corpus), "utf8");
    const outcome = prepare(text);
    verdicts[file] = {
      node: nodeRefusal(text, name.endsWith(".module.js")),
      ours: ourRefusal(text, outcome),
      // Whether another Node process has to take over: the stripper itself broke.
      retire: "retire" in outcome && outcome.retire,
      // A lone CR counts as the same line end.
      same: "code" in outcome && outcome.code === text.replace(/\r(?!\n)/g, "\n"),
    };
  }
}
process.stdout.write(JSON.stringify(verdicts));
