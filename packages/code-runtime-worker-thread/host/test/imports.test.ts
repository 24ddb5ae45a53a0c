import fc from "fast-check";
import { expect, test } from "vitest";
import { ImportRewriter } from "../src/imports.ts";
import { scan } from "../src/scan.ts";
import { prepare } from "../src/strip.ts";

/** The code and prologue of a program that must be accepted. */
function prepared(program: string): { code: string; prologue: string } {
  const outcome = prepare(program);
  if ("message" in outcome) throw new Error(outcome.message);
  return { code: outcome.code, prologue: outcome.prologue };
}

function message(program: string): string {
  const outcome = prepare(program);
  if (!("message" in outcome)) throw new Error(`Cannot expect a refusal of ${program}`);
  expect(outcome.retire).toBe(false);
  return outcome.message;
}

/** Runs a prepared program as the worker does. */
async function run(program: string): Promise<unknown> {
  const { code, prologue } = prepared(program);
  // Dynamic imports need a host: a module of a data URL has one, a Function under vitest has none.
  const source = `export default async () => {"use strict";${prologue}\n${code}\n}`;
  const module = (await import(
    /* @vite-ignore */ `data:text/javascript,${encodeURIComponent(source)}`
  )) as { default: () => Promise<unknown> };
  return module.default();
}

test.each([
  ['import fs from "node:fs"', 'const {default: fs} = await import("node:fs");'],
  ["import * as fs from 'fs'", 'const fs = await import("fs");'],
  ['import {join} from "path"', 'const {join} = await import("path");'],
  [
    'import {join, sep as s, default as p} from "node:path"',
    'const {join, sep: s, default: p} = await import("node:path");',
  ],
  ['import p, {join,} from "path"', 'const {default: p, join} = await import("path");'],
  ['import p, * as ns from "path"', 'const ns = await import("path"), {default: p} = ns;'],
  ['import "node:os"', 'await import("node:os");'],
  ['import {} from "node:os"', 'await import("node:os");'],
  ['import {"join" as j} from "path"', 'const {join: j} = await import("path");'],
  ['import {readFile} from "fs/promises"', 'const {readFile} = await import("fs/promises");'],
  ['import fs = require("fs")', 'const {default: fs} = await import("fs");'],
  ['import type from "path"', 'const {default: type} = await import("path");'],
  ['import type, {join} from "path"', 'const {default: type, join} = await import("path");'],
  ['import {type as join2} from "./x"', undefined],
  ['import type Stats from "./stats"', ""],
  ['import type {Stats} from "lodash"', ""],
  ['import type * as T from "lodash"', ""],
  ['import type from from "lodash"', ""],
  ['import type fs = require("lodash")', ""],
  ['import {type Stats, type Dirent as D} from "lodash"', ""],
  ['import {type Stats, statSync} from "fs"', 'const {statSync} = await import("fs");'],
  [
    'import /* a */ {\n  join, // "b"\n  sep\n} /* c */ from /* d */ "path" // e',
    'const {join, sep} = await import("path");',
  ],
])("prepare() rewrites the import when it is %j", (declaration, prologue) => {
  if (prologue === undefined) return void expect(message(declaration)).toContain("./x");
  for (const program of [declaration, `${declaration};`, `// c\n${declaration}\nreturn 1`]) {
    const outcome = prepared(program);
    expect(outcome.prologue).toBe(prologue);
    expect(outcome.code).toHaveLength(program.length);
    expect(outcome.code.split("\n").length).toBe(program.split("\n").length);
    expect(outcome.code.replace(/\/\/.*/g, "").trim()).toMatch(/^;\s*(return 1)?$/);
  }
});

test("prepare() keeps every position when imports stand before and between statements", async () => {
  const program = [
    "/* head */ import fs, { existsSync as exists } from 'node:fs';",
    "import type { Stats } from 'node:fs'",
    "import * as path",
    '  from "path"',
    "const text: string = `import no from 'x'`",
    "import { EOL } from 'os'",
    "const pattern = /import `x` from \"y\"/.source // import z from 'z'",
    "const nested = { import: 1, text: 'import a from \"b\"' }.import",
    "import('node:fs')",
    "return [typeof fs.readFileSync, exists('/'), path.sep, text, EOL, pattern, nested]",
  ].join("\n");
  const { code, prologue } = prepared(program);
  expect(prologue).toBe(
    'const {default: fs, existsSync: exists} = await import("node:fs");const path = await import("path");const {EOL} = await import("os");',
  );
  expect(code.length).toBe(program.length);
  for (const word of [
    "const text",
    "const pattern",
    "const nested",
    "import('node:fs')",
    "return [",
  ]) {
    expect(code.indexOf(word)).toBe(program.indexOf(word));
  }
  expect(await run(program)).toEqual([
    "function",
    true,
    "/",
    "import no from 'x'",
    "\n",
    'import `x` from "y"',
    1,
  ]);
});

test("prepare() hoists an import when it follows its use", async () => {
  expect(await run('const a = join("a", "b")\nimport { join } from "node:path"\nreturn a')).toBe(
    "a/b",
  );
});

test("prepare() keeps statements apart when an import between them had no semicolon", async () => {
  expect(await run('const f = () => 1\nimport os from "os"\n;(() => os)()\nreturn f()')).toBe(1);
  expect(await run('let n = 1\nimport os from "os"\n[os].length\nreturn n')).toBe(1);
});

const WORKING = 'import { readFileSync } from "node:fs"';

test.each([
  [
    'import _ from "lodash"',
    `Cannot import "lodash": programs have no packages and no files of their own, expected a Node built-in, for example ${WORKING}`,
    "1:15",
  ],
  [
    "return 1\nimport a from './a.ts'",
    `Cannot import "./a.ts": programs have no packages and no files of their own, expected a Node built-in, for example ${WORKING}`,
    "2:15",
  ],
  [
    'import { readFile, nope as n } from "node:fs"',
    'Cannot import "nope" from "node:fs": the module has no such export (a type needs `import type`)',
    "1:20",
  ],
  [
    'import { constructor } from "fs"',
    'Cannot import "constructor" from "fs": the module has no such export (a type needs `import type`)',
    "1:10",
  ],
  [
    'import a from "fs" with { type: "json" }',
    "Cannot import with attributes: expected the import of a Node built-in without them",
    "1:20",
  ],
  [
    'import a from "fs" foo()',
    `Cannot read this import declaration: expected for example ${WORKING}`,
    "1:20",
  ],
  ["import", `Cannot read this import declaration: expected for example ${WORKING}`, "1:7"],
  ["import {a", `Cannot read this import declaration: expected for example ${WORKING}`, "1:10"],
  [
    'import {a b} from "fs"',
    `Cannot read this import declaration: expected for example ${WORKING}`,
    "1:12",
  ],
  [
    "import A = B.C",
    `Cannot read this import declaration: expected for example ${WORKING}`,
    "1:13",
  ],
  [
    'import { default as class } from "fs"',
    'Cannot import as "class": a reserved word, expected a name',
    "1:10",
  ],
  [
    'import fs from "fs"\nimport fs from "node:fs"',
    'Cannot import "fs" twice: expected one import of the name',
    "2:8",
  ],
  [
    'if (1) {\n  import fs from "fs"\n}',
    "Cannot import inside a block: expected import declarations at the top of the program",
    "2:3",
  ],
  [
    "const a = 1\nexport default a",
    "Cannot export from a program: expected `return` with the value instead",
    "2:1",
  ],
  [
    "export const a = 1",
    "Cannot export from a program: expected `return` with the value instead",
    "1:1",
  ],
  [
    "export * from 'fs'",
    "Cannot export from a program: expected `return` with the value instead",
    "1:1",
  ],
])(
  "prepare() refuses with reason and place when the program is %j (WT-019)",
  (program, reason, place) => {
    const lines = message(program).split("\n");
    expect([lines[0], lines.at(-1)]).toEqual([
      `SyntaxError: ${reason}`,
      `    at program.ts:${place}`,
    ]);
  },
);

test("prepare() takes `export {}` out when it only marks a module", async () => {
  expect(await run("export {}\nreturn 1")).toBe(1);
  expect(await run("const a = 1\nexport {};\nreturn a")).toBe(1);
});

test("prepare() refuses `export {} from` as an export", () => {
  for (const program of ["export {} from 'a'", 'export { }\nfrom"a"']) {
    expect(message(program)).toContain("Cannot export from a program: expected `return`");
  }
});

test("prepare() takes many leading imports in linear time", () => {
  const program = `${"import 'fs';\n".repeat(20_000)}return 1`;
  const started = performance.now();
  const rewriter = new ImportRewriter(program);
  expect(rewriter.takeLeading()).toBeUndefined();
  expect(rewriter.result.code).toHaveLength(program.length);
  expect(performance.now() - started).toBeLessThan(2_000);
});

test("prepare() refuses more late imports than it would parse for", () => {
  const late = Array.from({ length: 101 }, (_, index) => `import a${index} from 'fs'`).join("\n");
  expect(message(`return 1\n${late}`).split("\n")[0]).toBe(
    "SyntaxError: Cannot take more than 100 imports that follow other statements: expected them at the top",
  );
});

const fragment = fc.constantFrom(
  "import",
  "'import a from \"fs\"'",
  "\"import b from 'fs'\"",
  "`import c from 'fs'`",
  // biome-ignore lint/suspicious/noTemplateCurlyInString: the text of a program.
  "`${`import 'fs'`}`",
  "/import d from 'fs'/.source",
  "// import e from 'fs'\n",
  "/* import f from 'fs' */",
  "import('node:fs')",
  "{ import: 1 }.import",
  "1",
  " / 2 ",
  "a",
);

test("prepare() changes nothing when the word import is not a declaration", () => {
  fc.assert(
    fc.property(fc.array(fragment, { maxLength: 6 }), (parts) => {
      const program = `return [${parts.filter((part) => part !== "import").join(",")}]`.replace(
        /, \/ 2 /g,
        " / 2 ",
      );
      const outcome = prepare(program);
      if ("message" in outcome) return;
      expect(outcome).toEqual({ code: program, prologue: "", map: null });
    }),
  );
});

test("ImportRewriter leaves a program unchanged when it declares nothing", () => {
  fc.assert(
    fc.property(fc.string({ unit: "binary" }), (program) => {
      fc.pre(!/^\W*import/.test(program));
      const rewriter = new ImportRewriter(program);
      expect(rewriter.takeLeading()).toBeUndefined();
      expect(rewriter.result).toEqual({ code: program, prologue: "" });
    }),
  );
});

test("scan() finds only declarations outside every bracket", () => {
  const program = [
    "import a from 'a'",
    "x.import",
    "const r = 1 / 2; const s = /[/'`]import b from 'b'/",
    "if (x) /'/.test(y)",
    "const o = {a: 1} / 2 / 3; y! / 1 / 2; i++ / 1 / 2",
    // biome-ignore lint/suspicious/noTemplateCurlyInString: the text of a program.
    "const t = `${{ import: `${1}` }}import c from 'c'`",
    "function f() { import d from 'd' }",
    "import e from 'e'",
  ].join("\n");
  const found = scan(program);
  expect(found.sound).toBe(true);
  expect([...found.imports].map((at) => program.slice(at, at + 8))).toEqual([
    "import a",
    "import e",
  ]);
});

test("scan() names what is never closed", () => {
  const opener = (program: string) => scan(program).unclosed;
  expect(scan("f([1, {a: 2)").sound).toBe(false);
  expect(scan("f() }; {").stray).toBe(4);
  expect(opener("f([1")).toEqual({ offset: 2, opener: "[" });
  expect(opener("f(`a${b(`)")).toEqual({ offset: 8, opener: "`" });
  expect(opener("f(`a${b")).toEqual({ offset: 2, opener: "`" });
  expect(opener("f() /* a")).toEqual({ offset: 4, opener: "/*" });
  expect(opener("f('a\n')")).toEqual({ offset: 2, opener: "'" });
});

test("scan() does not recurse and stays linear when nesting is a million deep", () => {
  const started = performance.now();
  expect(scan(`${"(".repeat(1_000_000)}${")".repeat(1_000_000)}`).sound).toBe(true);
  expect(scan("`${".repeat(300_000)).unclosed?.opener).toBe("`");
  expect(scan(`"${"a".repeat(5_000_000)}"`).sound).toBe(true);
  expect(scan(`/${"a".repeat(5_000_000)}/`).sound).toBe(true);
  expect(performance.now() - started).toBeLessThan(10_000);
});
