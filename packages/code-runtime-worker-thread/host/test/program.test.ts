import { expect, test } from "vitest";
import { prepare } from "../src/strip.ts";
import { exceptionOf, resultOf, runProgram, TOOL_ERROR } from "./peer.ts";

const one = { bindings: { tools: { f: () => 1 } }, errorClass: TOOL_ERROR } as const;
const invalid = async (code: string): Promise<string> => {
  const { end } = await runProgram(code, one);
  if (end.kind !== "fail") throw new Error(`Cannot take the failure of ${end.kind}`);
  return `${end.failure}: ${end.message}`;
};

test("Run completes with the returned value, or with none (SC-009, SC-037, WT-023)", async () => {
  expect(await resultOf("return await Promise.resolve([1, null])")).toEqual([1, null]);
  for (const code of ["", "  \n", "// nothing", "return", "return undefined", "1 // last line"]) {
    expect((await runProgram(code)).end).toEqual({ kind: "done", json: "", value: undefined });
  }
  expect((await runProgram("return null")).end).toEqual({
    kind: "done",
    json: "null",
    value: null,
  });
});

test("compile() gives parameters in order, in strict mode (WT-024, WT-027, WT-028, WT-029)", async () => {
  const code = `return [typeof this, typeof require, arguments.length, arguments[0] === tools, arguments[1] === ToolCallError, arguments[2] === console]`;
  expect(await resultOf(code, one)).toEqual(["undefined", "undefined", 3, true, true, true]);
  expect(await exceptionOf("undeclared = 1")).toBe(
    `ReferenceError: undeclared is not defined
  1 | undeclared = 1
    |            ^
    at program.ts:1:12`,
  );
});

test("compile() lets a program assign its bindings but not redeclare them (WT-026)", async () => {
  expect(await resultOf("tools = 5; console = 6; return [tools, console]", one)).toEqual([5, 6]);
  for (const name of ["tools", "ToolCallError", "console"]) {
    expect(await exceptionOf(`\nconst ${name} = 1`, one)).toBe(
      `SyntaxError: Identifier '${name}' has already been declared
  2 | const ${name} = 1
    |       ^
    at program.ts:2:7`,
    );
  }
});

test.each([
  ['import tools from "node:fs"', 8, "tools"],
  ['import fs from "node:fs"; import { a, console } from "node:process"', 39, "console"],
  ['const x = "import"; import * as tools from "node:fs"', 33, "tools"],
  ['import { $tools as tools } from "node:fs"', 20, "tools"],
])(
  "compile() shows the import that takes a name of the run: %s (WT-026)",
  async (program, column, name) => {
    const code = ";";
    const prologue = `const ${name} = await import("node:fs");`;
    for (const line of [program, `// ${name}\n${program}`]) {
      const at = line === program ? 1 : 2;
      expect(await exceptionOf(code, { ...one, prologue, program: line })).toBe(
        `SyntaxError: Identifier '${name}' has already been declared
  ${at} | ${program}
    | ${" ".repeat(column - 1)}^
    at program.ts:${at}:${column}`,
      );
    }
  },
);

test.each([
  ["} async function x() {", "SyntaxError: Unexpected token 'async'"],
  ["}}); globalThis.escaped = 1; (async()=>{try{", "SyntaxError: Unexpected token '}'"],
  ["} finally {} globalThis.escaped = 1; try {", "SyntaxError: Unexpected token 'finally'"],
  ["} catch (e) {", "SyntaxError: Unexpected token 'catch'"],
  ["import.meta", "SyntaxError: Cannot use 'import.meta' outside a module"],
  ["const x = yield 1", "SyntaxError: Unexpected strict mode reserved word"],
  ["#!/usr/bin/node", "SyntaxError: Invalid or unexpected token"],
])("compile() refuses %s (WT-022, WT-028, WT-032)", async (code, header) => {
  expect((await exceptionOf(code)).split("\n")[0]).toBe(header);
});

test("compile() shows the place of an octal escape, below which Node puts no caret", async () => {
  const code = "const a = 1\nreturn '\\1'";
  expect(await exceptionOf(code, { ...one, program: code })).toBe(
    `SyntaxError: Octal escape sequences are not allowed in strict mode.
  2 | return '\\1'
    |          ^
    at program.ts:2:10`,
  );
});

test("compile() takes what a function body may hold (WT-028, WT-032)", async () => {
  const code = `"use strict"; const { sep } = await import("node:path"); const seen = [];
    for await (const x of [1, Promise.resolve(2)]) seen.push(x); return [sep, seen]; seen.push(3)`;
  expect(await resultOf(code)).toEqual(["/", [1, 2]]);
});

test("compile() takes two functions of one name, as a body does", async () => {
  expect(
    await resultOf("function f() { return 1 }\nvar f;\nfunction f() { return 2 }\nreturn f()"),
  ).toBe(2);
});

test("compile() puts rewritten imports before the program (WT-019)", async () => {
  const prologue = 'const {sep} = await import("node:path");';
  expect(await resultOf("return sep", { prologue })).toBe("/");
  expect(await exceptionOf("\nlet sep", { prologue })).toBe(
    `SyntaxError: Identifier 'sep' has already been declared
  2 | let sep
    |     ^
    at program.ts:2:5`,
  );
});

test("compile() resolves relative imports in the run's directory, without its path (WT-030, GP-012)", async () => {
  const code = `const { writeFileSync } = await import("node:fs"); writeFileSync("mine.mjs", "export const x = 7");
    const { x } = await import("./mine.mjs"); console.log(x); await import("./absent.mjs")`;
  const { logs, end } = await runProgram(code);
  expect(logs).toEqual(["7"]);
  expect(end).toEqual({
    kind: "fail",
    failure: "exception",
    message: "Error [ERR_MODULE_NOT_FOUND]: Cannot find module './absent.mjs' imported from ./",
  });
});

test("Run refuses a lossy completion with path and reason (WT-115, SC-042)", async () => {
  expect(await invalid("return { items: [1, { when: new Date(0) }] }")).toBe(
    "invalid-output: The completion must be lossless JSON: $.items[1].when: Date is not JSON, expected date.toISOString()",
  );
  expect(await invalid("return { rows: tools.f(1) }")).toBe(
    "invalid-output: The completion must be lossless JSON: $.rows: a Promise (call of tools.f was not awaited), expected a value: add await",
  );
  expect(await invalid("return [Promise.resolve(1)]")).toBe(
    "invalid-output: The completion must be lossless JSON: $[0]: a Promise that was not awaited, expected a value: add await",
  );
});

test.each([
  ["return '€'", 7, "done"],
  ["return '€'", 6, "limit"],
  ["console.log('abc'); return 'xy'", 11, "done"],
  ["console.log('abc'); return 'xy'", 10, "limit"],
  ["console.log('abc'); throw 'xy'", 11, "fail"],
  ["console.log('abc'); throw 'xy'", 10, "limit"],
  ["return 10", 4, "done"],
  ["return 100", 4, "limit"],
  ["throw ''", 4, "fail"],
  ["throw 'x'", 4, "limit"],
  ["return new Date()", 20, "limit"],
  ["return 'x'.repeat(10000)", 64, "limit"],
  ["throw new Error('x'.repeat(1000000))", 64, "limit"],
  ["console.log(''); console.log(''); return null", 11, "done"],
  ["console.log(''); console.log(''); return null", 10, "limit"],
])(
  "Run ends %s under %i bytes as %s (WT-069 to WT-074, WT-086 to WT-088)",
  async (code, maxOutputBytes, kind) => {
    expect((await runProgram(code, { maxOutputBytes })).end.kind).toBe(kind);
  },
);

test("Run sends the part of a log that fits, then the limit, and nothing more (WT-079, WT-080)", async () => {
  const code = 'console.log("12345"); console.log("123456"); console.log("later"); for (;;);';
  const { logs, end } = await runProgram(code, { maxOutputBytes: 15 });
  expect(logs).toEqual(["12345", "123"]);
  expect(end).toEqual({ kind: "limit" });
});

test("Run keeps a large completion exact (WT-090)", async () => {
  const value = await resultOf("return Array.from({ length: 50000 }, (_, i) => ({ i, s: '\"é' }))");
  expect(value).toEqual(Array.from({ length: 50_000 }, (_, i) => ({ i, s: '"é' })));
});

test("Run returns a completion of a million levels (WT-111)", async () => {
  const { end } = await runProgram(
    "let v = {}; for (let i = 1; i < 1e6; i++) v = { a: v }; return v",
    {
      intercept: () => false,
    },
  );
  expect(end.kind === "done" && end.json.length).toBe(999_999 * 6 + 2);
}, 30_000);

test("Run reports an error in a timer and an unhandled rejection (WT-166, GP-005)", async () => {
  expect(
    await exceptionOf("setTimeout(function late() { null.x }, 1);\nawait new Promise(() => {})"),
  ).toBe(
    `TypeError: Cannot read properties of null (reading 'x')
  1 | setTimeout(function late() { null.x }, 1);
    |                                   ^
    at Timeout.late [as _onTimeout] (program.ts:1:35)`,
  );
  expect(
    await exceptionOf("Promise.reject(new RangeError('r'));\nawait new Promise(() => {})"),
  ).toBe(
    `RangeError: r
  1 | Promise.reject(new RangeError('r'));
    |                ^
    at program.ts:1:16
Nothing awaited the promise when it failed`,
  );
  expect(await exceptionOf("Promise.reject(42); await new Promise(() => {})")).toBe(
    "42\nNothing awaited the promise when it failed",
  );
});

test("Run leaves errors to the program's own handlers (WT-166)", async () => {
  const code = `const seen = []; process.on("unhandledRejection", (e) => seen.push(e)); process.on("uncaughtException", (e) => seen.push(e.message));
    Promise.reject(1); setTimeout(() => { throw new Error("t") }, 1); await new Promise((resolve) => setTimeout(resolve, 30)); return seen`;
  expect(await resultOf(code)).toEqual([1, "t"]);
});

test("Run lets the completion win over later errors (WT-167)", async () => {
  const { end } = await runProgram("Promise.reject(1); setTimeout(() => { throw 2 }); return 3", {
    afterEnd: () => new Promise((resolve) => setTimeout(resolve, 50)),
  });
  expect(end).toEqual({ kind: "done", json: "3", value: 3 });
});

test("Run reports process.exit by its code (WT-164)", async () => {
  for (const code of [0, 7]) {
    const { logs, end } = await runProgram(`console.log("before"); process.exit(${code})`);
    expect([logs, end]).toEqual([["before"], { kind: "exit", code }]);
  }
});

test("Run keeps waiting for a program that waits for nothing (WT-155)", async () => {
  let late = false;
  const { end } = await runProgram(
    "setTimeout(() => {}, 1); console.log('waiting'); await new Promise(() => {})",
    {
      intercept: (message, socket) => {
        if (message.kind === 50) {
          setTimeout(() => {
            late = true;
            socket.destroy();
          }, 150);
        }
        return false;
      },
    },
  );
  expect([late, end]).toEqual([true, { kind: "exit", code: 0 }]);
});

test("Run maps positions of a transformed program (WT-147)", async () => {
  const program = "enum Colour { Red }\n\n  throw new Error('x')";
  const code = "const Colour = {Red: 0}; throw new Error('x')";
  // Generated 1:1 is written 1:1, generated 1:26 is written 3:3, generated 1:32 is written 3:9.
  const map = { mappings: "AAAA,yBAEE,MAAM" };
  expect(await exceptionOf(code, { program, map })).toBe(
    `Error: x
  3 |   throw new Error('x')
    |         ^
    at program.ts:3:9`,
  );
});

test("Run shows positions of TypeScript that had to be transformed (WT-017, WT-147)", async () => {
  const program = `enum Colour { Red = "red", Blue = "blue" }
class Box { constructor(private readonly colour: Colour) {}
  open(): never {
    const colour: string = this.colour; throw new Error(colour);
  }
}
const box = new Box(Colour.Blue);
  box.open();`;
  const prepared = prepare(program);
  if (!("code" in prepared)) throw new Error("Cannot prepare the program");
  const { code, prologue, map } = prepared;
  expect(map).not.toBe(null);
  const options = { program, prologue, map: map as { mappings: string } };
  expect(await exceptionOf(code, options)).toBe(`Error: blue
  4 |     const colour: string = this.colour; throw new Error(colour);
    |                                               ^
    at Box.open (program.ts:4:47)
    at program.ts:8:7`);
});

test("compile() takes what this engine knows and refuses what it does not (WT-031)", async () => {
  expect(
    await resultOf(
      "let open = 1; { using file = { [Symbol.dispose]() { open = 0 } }; } return open",
    ),
  ).toBe(0);
  expect((await exceptionOf("@d class A {}")).split("\n")[0]).toBe(
    "SyntaxError: Invalid or unexpected token",
  );
});

test("Run takes undefined as no value, but not inside a value (WT-098)", async () => {
  expect((await runProgram("return void 0")).end).toEqual({
    kind: "done",
    json: "",
    value: undefined,
  });
  expect(await invalid("return [undefined]")).toBe(
    "invalid-output: The completion must be lossless JSON: $[0]: undefined is not JSON, expected null, or no such member",
  );
});

test("Run does not charge arguments and resolutions to the output (WT-095)", async () => {
  const big = "x".repeat(10_000_000);
  const options = { bindings: { tools: { f: () => big } }, maxOutputBytes: 16 };
  expect(await resultOf("return (await tools.f('y'.repeat(1e6))).length", options)).toBe(
    10_000_000,
  );
});
