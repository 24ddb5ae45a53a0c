import { expect, test } from "vitest";
import { resultOf, runProgram } from "./peer.ts";

const logsOf = async (code: string): Promise<readonly string[]> => {
  const { logs, end } = await runProgram(code);
  expect(end).toEqual({ kind: "done", json: "", value: undefined });
  return logs;
};

test("createConsole() has exactly five methods and no prototype (WT-040)", async () => {
  const value = await resultOf("return [Object.getPrototypeOf(console), Reflect.ownKeys(console)]");
  expect(value).toEqual([null, ["log", "info", "warn", "error", "debug"]]);
});

test("joinArguments() makes one entry for each call (WT-041, WT-042, WT-043, WT-044)", async () => {
  const code = `console.log("a", {x: 1, y: 2}, "b"); console.info(); console.warn(""); console.error("%s", 1);
    console.debug("two\\nlines"); console.log(undefined, null, 3)`;
  expect(await logsOf(code)).toEqual([
    "a { x: 1, y: 2 } b",
    "",
    "",
    "%s 1",
    "two\nlines",
    "undefined null 3",
  ]);
});

test("joinArguments() shows values as Node does, within its limits (WT-045, WT-046)", async () => {
  const code = `console.log({a: {b: {c: {d: {e: {f: 1}}}}}});
    console.log(Array.from({length: 102}, () => 0).length, [1, , 3], new Map([[1, 2]]), -0, 5n, Symbol("s"));
    console.log(function named() {}, class A {}, new Date(0));
    console.log(["x".repeat(10_001)]); console.log("y".repeat(20_000));
    console.log(Array.from({length: 101}, () => 0))`;
  const logs = await logsOf(code);
  expect(logs.slice(0, 3)).toEqual([
    "{\n  a: {\n    b: { c: { d: { e: [Object] } } }\n  }\n}",
    "102 [ 1, <1 empty item>, 3 ] Map(1) { 1 => 2 } -0 5n Symbol(s)",
    "[Function: named] [class A] 1970-01-01T00:00:00.000Z",
  ]);
  expect(logs[3]).toContain("... 1 more character");
  expect(logs[4]).toBe("y".repeat(20_000));
  expect(logs[5]).toContain("... 1 more item");
});

test("joinArguments() shows the frames of the program only (WT-047, GP-005)", async () => {
  const code = `function f() { return new TypeError("bad") }
const error = f();
console.log(error);
console.log({inside: [error]});
try { (await import("node:fs")).readFileSync("/nowhere") } catch (e) { console.log(e) }`;
  const [direct, inside, native] = await logsOf(code);
  expect(direct).toBe("TypeError: bad\n    at f (program.ts:1:23)\n    at program.ts:2:15");
  expect(inside).toBe(
    "{\n  inside: [\n    TypeError: bad\n        at f (program.ts:1:23)\n        at program.ts:2:15\n  ]\n}",
  );
  expect(native).toBe(`Error: ENOENT: no such file or directory, open '/nowhere'
    at program.ts:5:33 {
  errno: -2,
  code: 'ENOENT',
  syscall: 'open',
  path: '/nowhere'
}`);
});

test("joinArguments() hides host frames when the program formats stacks itself (WT-047)", async () => {
  const code = `Error.prepareStackTrace = undefined; console.log(new Error("x"))`;
  expect(await logsOf(code)).toEqual(["Error: x\n    at program.ts:1:50"]);
});

test("joinArguments() passes on what an inspect method throws (WT-048)", async () => {
  const code = `const custom = Symbol.for("nodejs.util.inspect.custom");
    try { console.log({ [custom]() { throw new Error("mine") } }) } catch (e) { console.log(e.message) }
    console.log(new Proxy({a: 1}, { get() { throw new Error("trap") }, ownKeys() { throw new Error("trap") } }))`;
  expect(await logsOf(code)).toEqual(["mine", "{ a: 1 }"]);
});

test("createConsole() works when built-ins are gone (WT-192, WT-193)", async () => {
  const code = `Array.prototype.map = Array.prototype.join = JSON.stringify = undefined;
    String.prototype.slice = String.prototype.indexOf = undefined; globalThis.String = undefined;
    Array.prototype[Symbol.iterator] = undefined; globalThis.Error = undefined; Object.prototype.get = () => 1;
    console.log("a", 1, [2]); console.log(new RangeError("r"))`;
  const logs = await logsOf(code);
  expect(logs[0]).toBe("a 1 [ 2 ]");
  expect(logs[1]).toBe("RangeError: r\n    at program.ts:4:43");
});
