import { execFileSync } from "node:child_process";
import { SourceMap } from "node:module";
import fc from "fast-check";
import { expect, test } from "vitest";
import { type Prepared, prepare } from "../src/strip.ts";

function prepared(program: string): Prepared {
  const outcome = prepare(program);
  if ("message" in outcome) throw new Error(outcome.message);
  return outcome;
}

function message(program: string): string {
  const outcome = prepare(program);
  if (!("message" in outcome)) throw new Error(`Cannot expect a refusal of ${program}`);
  expect(outcome.retire).toBe(false);
  return outcome.message;
}

const AsyncFunction = (async () => {}).constructor as new (
  ...args: string[]
) => (...values: unknown[]) => Promise<unknown>;
const run = (program: string): Promise<unknown> =>
  new AsyncFunction(`"use strict";${prepared(program).code}\n`)();

test.each([
  ["const x: number = 1; return x", 1],
  ["interface A { b: string }\ntype C = A | number\nreturn 2", 2],
  ["const f = <T,>(x: T): T => x; return f<number>(3)", 3],
  ["return ({ a: 4 } as { a: number } satisfies object)!.a", 4],
  ["declare enum E { A }\ndeclare const q: number\nreturn 5", 5],
  [
    "abstract class A { abstract m(): void; private x?: number; readonly y!: string; z = 6 }\nclass B extends A { m() {} }\nreturn new B().z",
    6,
  ],
  ["function f(x: number): number\nfunction f(x: any) { return x }\nreturn f(7)", 7],
  ["let x!: number\nx = 8\nreturn x", 8],
  ["declare global { var g: number }\nreturn 9", 9],
  ["let fs: typeof import('fs') | undefined; return 10", 10],
])(
  "prepare() keeps every position when types are erased from %j (WT-015, WT-016)",
  async (program, value) => {
    const { code, prologue, map } = prepared(program);
    expect({ prologue, map, length: code.length }).toEqual({
      prologue: "",
      map: null,
      length: program.length,
    });
    expect(code.split("\n").map((line) => line.length)).toEqual(
      program.split("\n").map((line) => line.length),
    );
    expect(await run(program)).toBe(value);
  },
);

test.each([
  ["enum A { B, C = 'c' }\nreturn [A.B, A[0], A.C]", [0, "B", "c"]],
  ["const enum A { B = 2 }\nreturn A.B", 2],
  ["namespace N { export const a = 3 }\nreturn N.a", 3],
  ["module N { export const a = 3 }\nreturn N.a", 3],
  [
    "class A { constructor(public x: number, readonly y = 5) {} }\nreturn [new A(4).x, new A(4).y]",
    [4, 5],
  ],
  ["return <number>(6 as unknown)", 6],
])(
  "prepare() transforms the syntax when it cannot be erased from %j (better than WT-017, WT-018)",
  async (program, value) => {
    expect(prepared(program).map).toMatchObject({ version: 3, sources: ["program.ts"], names: [] });
    expect(await run(program)).toEqual(value);
  },
);

test("prepare() maps transformed code to the program when lines moved", () => {
  const program = "enum Color { Red }\nconst a: number = 1\n\n  throw new Error(Color[a])";
  const { code, map } = prepared(program);
  const lines = code.split("\n");
  const line = lines.findIndex((text) => text.includes("throw"));
  const column = (lines[line] as string).indexOf("throw");
  const entry = new SourceMap(map as never).findEntry(line, column);
  expect(entry).toMatchObject({ originalSource: "program.ts", originalLine: 3, originalColumn: 2 });
});

test("prepare() maps every generated token inside the program when the program is transformed", () => {
  const body = fc.array(
    fc.constantFrom(
      "enum E1 { A }",
      "let a: number = 1",
      "namespace N { export const b = '中😀' }",
      "",
      "a;",
      "// c",
    ),
    { minLength: 1, maxLength: 6 },
  );
  fc.assert(
    fc.property(body, (lines) => {
      const program = ["enum First { A }", ...new Set(lines)].join("\n");
      const { code, map } = prepared(program);
      const source = program.split("\n");
      const reader = new SourceMap(map as never);
      code.split("\n").forEach((text, line) => {
        const entry = reader.findEntry(line, text.search(/\S|$/));
        if (!("originalLine" in entry)) return;
        expect(entry.originalLine).toBeGreaterThanOrEqual(0);
        expect(source[entry.originalLine]?.length).toBeGreaterThanOrEqual(entry.originalColumn);
      });
    }),
    { numRuns: 60 },
  );
});

test.each([
  ["const x: number = ;", "Expression expected", "1:19", "WT-020"],
  ["const x =", "Expression expected", "1:10", "WT-020"],
  ["let a = 1\nfoo(;", "Expression expected", "2:5", "WT-020"],
  ["\tconst s = “hi”", "Unexpected character '“'", "1:12", "smart quotes"],
  ["'中😀é\u0301'; foo(;", "Expression expected", "1:14", "wide characters"],
  ["let a = 1\r\rfoo(;", "Expression expected", "3:5", "lone CR"],
  ["let a = 1\r\nfoo(;", "Expression expected", "2:5", "CR LF"],
  ["'\u2028'; foo(;", "Expression expected", "2:8", "U+2028 in a string"],
  [
    "with (a) {}",
    "The 'with' statement is not supported. All symbols in a 'with' block will have type 'any'.",
    "1:1",
    "WT-021",
  ],
  [
    "return 010",
    "Legacy octal literals are not available when targeting ECMAScript 5 and higher",
    "1:8",
    "WT-021",
  ],
  [
    "#!/usr/bin/env node\nreturn 1",
    "Cannot run a hashbang line: expected a program without it",
    "1:1",
    "WT-032",
  ],
  ["yield 1", "Expected ';', '}' or <eof>", "1:7", "WT-028"],
  ["if (a) {\n foo(", "Expression expected: the '(' is never closed", "2:5", "unclosed"],
  ["if (a) {", "Expected '}', got '<eof>': the '{' is never closed", "1:8", "unclosed"],
  // biome-ignore lint/suspicious/noTemplateCurlyInString: the text of a program.
  ["return `a${1}", "Unterminated template: the template is never closed", "1:8", "unclosed"],
  ["1 /* a", "Unterminated block comment: the comment is never closed", "1:3", "unclosed"],
  ["return 'abc", "Unterminated string constant", "1:8", "unclosed"],
  ['const s = "Hello\nWorld";\nreturn s', "Unterminated string constant", "1:11", "two lines"],
  ["log('a\nb')", "Unterminated string constant", "1:5", "two lines"],
  ["const s = 'it's'\nreturn s", "Expected a semicolon", "1:15", "a quote too many"],
  ["if (a) { b() } }\nc()", "Cannot close a block that the program did not open", "1:16", "stray"],
  ["enum A { B }\nfoo(;", "Expression expected", "2:5", "beside a transform"],
  [
    "class A { @dec m() {} }",
    "Cannot run a decorator: Node has none, expected a plain call of the function",
    "1:11",
    "WT-031",
  ],
  [
    "enum A { B }\n} function x() {",
    "Cannot close a block that the program did not open",
    "2:1",
    "WT-022",
  ],
  ["return '\ud800'; foo(;", "Expression expected", "1:17", "lone surrogate"],
])("prepare() tells reason and place when the program is %j", (program, reason, place) => {
  const text = message(program);
  const lines = text.split("\n");
  expect([lines[0], lines.at(-1)]).toEqual([
    `SyntaxError: ${reason}`,
    `    at program.ts:${place}`,
  ]);
  expect(text).not.toMatch(/node:|async function program|\/work|\/tmp|ERR_/);
});

test("prepare() shows the source line with a caret when the syntax is wrong (WT-012)", () => {
  expect(message("const a = 1\n\tconst x: number = ;")).toBe(
    "SyntaxError: Expression expected\n  2 | \tconst x: number = ;\n    | \t                  ^\n    at program.ts:2:20",
  );
});

test.each(["", " \n\t", "// only", "/* only */", "return 1 // last", "'use strict'\nreturn 1"])(
  "prepare() changes nothing when the program is %j (WT-023, WT-032)",
  (program) => {
    expect(prepared(program)).toEqual({ code: program, prologue: "", map: null });
  },
);

test.each([
  ["let a, b; for ([a, b] of ['xy']); for ([a] in { z: 1 }); return a + b", "zy"],
  ["let a; for ({ length: a } in { xyz: 1 }); return a", 3],
  ["return new (class { static constructor() {} })() instanceof Object", true],
  ["import { sep } from 'node:path'; let a; for ([a] in { z: 1 }); return a + sep", "z?"],
])(
  "prepare() leaves JavaScript as it is when only TypeScript refuses it: %j",
  async (program, value) => {
    const { code, map } = prepared(program);
    expect({ length: code.length, map }).toEqual({ length: program.length, map: null });
    // Only Node's own loader can import here; the prologue is pinned with the imports.
    expect(await new AsyncFunction("sep", `"use strict";${code}`)("?")).toBe(value);
  },
);

test.each([
  ["for (let [a]: string[] in b);", "1:10", "types beside it"],
  ["x.at(-1) = 4", "1:1", "V8 would throw when it gets there"],
  ["} for ([a] in b); {", "1:8", "another body"],
])("prepare() refuses %j although V8 might take it", (program, place) => {
  expect(message(program).split("\n").at(-1)).toBe(`    at program.ts:${place}`);
});

test("prepare() lets a wrapper escape fail at the body's own compilation (WT-022)", () => {
  for (const program of [
    "} async function x() {",
    "}; globalThis.escaped = 1; async () => {",
    "enum A { B }\n} async function x() { foo()",
  ]) {
    const outcome = prepare(program);
    if ("message" in outcome) continue;
    expect(() => new AsyncFunction(outcome.code)).toThrow(SyntaxError);
  }
  expect(Object.hasOwn(globalThis, "escaped")).toBe(false);
});

test("prepare() keeps a separator when the type before it goes", async () => {
  expect(await run("let a = 1\ntype A = number\n;(() => 2)()\nreturn a")).toBe(1);
  expect(
    await run("let a = 1\ninterface A { b: number; [c: string]: number };\n[a]\nreturn a"),
  ).toBe(1);
});

test("prepare() does not take quadratic time when a type leaves a long blank", () => {
  const program = `interface A { ${"a: number;\n ".repeat(100_000)} }\nreturn 1`;
  const started = performance.now();
  expect(prepared(program).code).toHaveLength(program.length);
  expect(performance.now() - started).toBeLessThan(3_000);
});

test("prepare() keeps lone surrogates and private-use characters when it erases and transforms", async () => {
  const text = "\ud800\ue000\udfff\ud83d\ude00\ue001\ud800";
  expect(await run(`const s: string = "${text}"; return s`)).toBe(text);
  expect(await run(`enum A { B }\nreturn [A.B, "${text}", \`${text}\`][1]`)).toBe(text);
});

test("prepare() keeps any string literal when types surround it", async () => {
  await fc.assert(
    fc.asyncProperty(fc.string({ unit: "binary" }), async (text) => {
      const literal = JSON.stringify(text).replace(/\\u(d[89a-f]..)/g, (_, hex: string) =>
        String.fromCharCode(Number.parseInt(hex, 16)),
      );
      const program = `const s: "${"é"}" | string = ${literal} as string; return s`;
      expect(prepared(program).code).toHaveLength(program.length);
      expect(await run(program)).toBe(text);
    }),
  );
});

test("prepare() asks for retirement when the stripper broke on deep nesting", () => {
  const script = `
    import { prepare } from ${JSON.stringify(new URL("../src/strip.ts", import.meta.url).href)};
    const deep = "return " + "(".repeat(2000) + "1" + ")".repeat(2000);
    console.log(JSON.stringify([prepare("return 1"), prepare(deep)]));`;
  // Another process: the stripper of this one must stay whole.
  const printed = execFileSync(process.execPath, [
    "--no-warnings",
    "--input-type=module",
    "-e",
    script,
  ]);
  expect(JSON.parse(printed.toString())).toEqual([
    { code: "return 1", prologue: "", map: null },
    {
      message:
        "SyntaxError: Cannot strip the types of this program: the type stripper failed on it, expected fewer levels of " +
        "nested or chained expressions (keep data in strings or files, and split long expressions)",
      retire: true,
    },
  ]);
});
