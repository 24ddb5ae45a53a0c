// What every Node driver shares; the twin of bench/drivers/serving.py, which describes the protocol.

import { readFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { createInterface } from "node:readline";
import { fileURLToPath, pathToFileURL } from "node:url";

/** Import a package from the folder that `make bench-peers` installed the peers in. */
export function load(name) {
  const root = fileURLToPath(new URL(".work/node/package.json", import.meta.url));
  return import(pathToFileURL(createRequire(root).resolve(name)).href);
}

/** The version of an installed package. */
export async function versionOf(name) {
  const root = new URL(`.work/node/node_modules/${name}/package.json`, import.meta.url);
  return JSON.parse(await readFile(root, "utf8")).version;
}

function buildItems(kind, count) {
  return Array.from({ length: count }, (_, index) =>
    kind === "small"
      ? { id: index }
      : {
          id: index,
          name: `item ${index}`,
          tags: ["red", "large"],
          price: index + 0.5,
          stock: true,
          note: "on the shelf",
        },
  );
}

const prepared = { key: "", items: [] };

function prepare(kind, count) {
  const key = `${kind} ${count}`;
  if (prepared.key !== key) {
    prepared.items = buildItems(kind, count);
    prepared.key = key;
  }
  return prepared.items;
}

const holding = { held: 0, wanted: 0, allHeld: () => {}, released: Promise.resolve() };

/** The functions that programs of the benchmark call. */
export const functions = {
  echo: async (value) => value,
  make: async (asked) => prepare(asked.kind, asked.count),
  take: async (items) => [items.length, items[items.length - 1].id],
  hold: async (value) => {
    holding.held += 1;
    if (holding.held === holding.wanted) holding.allHeld();
    await holding.released;
    return value;
  },
};

const lines = [];
const readers = [];

function readLine() {
  return lines.length ? lines.shift() : new Promise((resolve) => readers.push(resolve));
}

const send = (answer) => process.stdout.write(`${JSON.stringify(answer)}\n`);

async function runMany(run, { program, repeat = 1, concurrency = 1, rest_ms = 0, prepare: data }) {
  if (data?.length) prepare(...data);
  const ms = [];
  let last = { value: null, logs: [] };
  let left = repeat;
  const work = async () => {
    while (left > 0) {
      left -= 1;
      if (rest_ms) await new Promise((resolve) => setTimeout(resolve, rest_ms));
      const begin = performance.now();
      last = await run(program);
      ms.push(performance.now() - begin);
    }
  };
  const begin = performance.now();
  await Promise.all(Array.from({ length: concurrency }, work));
  const total_ms = performance.now() - begin;
  const log_count = last.logs.length;
  return { ms, total_ms, value: last.value, log_count, last_log: last.logs.at(-1) ?? null };
}

async function holdMany(run, { program, count }) {
  let release;
  holding.held = 0;
  holding.wanted = count;
  holding.released = new Promise((resolve) => {
    release = resolve;
  });
  const allHeld = new Promise((resolve) => {
    holding.allHeld = resolve;
  });
  const runs = Array.from({ length: count }, () => run(program));
  await Promise.race([allHeld, Promise.all(runs)]);
  send({ held: holding.held });
  await readLine();
  release();
  return { value: (await Promise.all(runs)).map((outcome) => outcome.value) };
}

async function answer(subject, line) {
  const request = JSON.parse(line);
  try {
    if (request.op === "about") send(subject.about);
    else if (request.op === "run") send(await runMany(subject.run, request));
    else if (request.op === "hold") send(await holdMany(subject.run, request));
    else send({ error: `Cannot serve ${request.op}, expected about, run or hold` });
  } catch (error) {
    send({ error: String(error?.message ?? error).slice(0, 2_000) });
  }
}

/**
 * Answer until standard input ends.
 *
 * `subject.run` takes a program and resolves with its value and logs, or rejects; `subject.about`
 * is the answer to that request.
 */
export async function serve(subject) {
  if (process.argv.at(-2) === "--first") await answer(subject, process.argv.at(-1));
  const input = createInterface({ input: process.stdin });
  input.on("line", (line) => {
    const reader = readers.shift();
    if (reader) reader(line);
    else lines.push(line);
  });
  input.on("close", () => {
    for (const reader of readers) reader(undefined);
    lines.push(undefined);
  });
  for (let line = await readLine(); line !== undefined; line = await readLine()) {
    await answer(subject, line);
  }
  await subject.close?.();
  process.exit(0);
}
