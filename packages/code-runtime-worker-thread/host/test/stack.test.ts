import { expect, test } from "vitest";
import { exceptionOf, resultOf } from "./peer.ts";

test("renderThrown() shows class, message, source line and frames of the program (WT-143, WT-147)", async () => {
  const code = `class Odd extends Error { name = "Odd" }
function inner() {
\tthrow new Odd("two\\nlines");
}
await (async () => { await null; inner() })();`;
  expect(await exceptionOf(code)).toBe(`Odd: two
lines
  3 | \tthrow new Odd("two\\nlines");
    | \t      ^
    at inner (program.ts:3:8)
    at program.ts:5:34
    at async program.ts:5:1`);
});

test.each([
  ["const e = new Error('m'); delete e.stack; throw e", "m"],
  ["const e = new Error('m'); e.stack = 42; throw e", "42"],
  ["throw 'text'", "text"],
  ["throw 5", "5"],
  ["throw null", "null"],
  ["throw undefined", "undefined"],
  ["throw 12n", "12"],
  ["throw Symbol('s')", "Symbol(s)"],
  ["throw {a: 1}", "[object Object]"],
  ["throw { toString() { return 'mine' } }", "mine"],
])("renderThrown() shows %s as %s (WT-144, WT-145)", async (code, message) => {
  expect(await exceptionOf(code)).toBe(message);
});

test.each([
  "throw { toString() { throw 1 } }",
  "throw Object.create(null)",
  "const e = new Error('m'); Object.defineProperty(e, 'stack', { get() { throw 1 } }); throw e",
  "throw new Proxy(new Error('m'), { getPrototypeOf() { throw 1 } })",
  "throw new Proxy({}, { get() { throw 1 }, getPrototypeOf() { throw 1 } })",
])("renderThrown() gives a fixed text for %s (WT-146)", async (code) => {
  expect(await exceptionOf(code)).toBe(
    "Cannot render the thrown value: converting it to text failed",
  );
});

test("renderThrown() shows causes and members, each once (WT-148)", async () => {
  const code = `const root = new TypeError("root");
const middle = new Error("middle", { cause: root });
root.cause = middle;
throw new AggregateError([middle, "plain", root], "all", { cause: middle });`;
  expect(await exceptionOf(code)).toBe(`AggregateError: all
  4 | throw new AggregateError([middle, "plain", root], "all", { cause: middle });
    |       ^
    at program.ts:4:7
Caused by: Error: middle
  2 | const middle = new Error("middle", { cause: root });
    |                ^
    at program.ts:2:16
Caused by: TypeError: root
  1 | const root = new TypeError("root");
    |              ^
    at program.ts:1:14
Error 2 of 3: plain`);
});

test("renderThrown() ends a long chain of causes (WT-148)", async () => {
  const code = `let e = new Error("0"); for (let i = 1; i < 50; i++) e = new Error(String(i), { cause: e }); throw e`;
  const message = await exceptionOf(code);
  expect(message.match(/^Caused by: /gm)).toHaveLength(10);
  expect(message.endsWith("\nFurther causes are left out")).toBe(true);
});

test("renderThrown() obeys the program's own stack format and class test (WT-149)", async () => {
  expect(
    await exceptionOf("Error.prepareStackTrace = () => 'my stack'; throw new Error('x')"),
  ).toBe("my stack");
  const code = `Object.defineProperty(Error, Symbol.hasInstance, { value: () => false }); throw new Error("x")`;
  expect((await exceptionOf(code)).split("\n")[0]).toBe("Error: x");
  const own = `Error.prepareStackTrace = (e, s) => e + "\\n    at " + s[0] + "\\n    at /host/path.js:1:1";
throw new Error("x")`;
  expect(await exceptionOf(own)).toBe(
    `Error: x
  2 | throw new Error("x")
    |       ^
    at program.ts:2:7`,
  );
});

test("renderThrown() shows engine errors as ordinary exceptions (WT-150)", async () => {
  const overflow = await exceptionOf("const f = () => f();\nf()");
  expect(overflow.split("\n").slice(0, 4)).toEqual([
    "RangeError: Maximum call stack size exceeded",
    "  1 | const f = () => f();",
    "    |                 ^",
    "    at f (program.ts:1:17)",
  ]);
  expect((await exceptionOf("'x'.repeat(2 ** 30)")).split("\n")[0]).toBe(
    "RangeError: Invalid string length",
  );
  expect(
    (
      await exceptionOf("const f = () => { console.log(1); f() }; f()", { maxOutputBytes: 1e9 })
    ).split("\n")[0],
  ).toBe("RangeError: Maximum call stack size exceeded");
});

test("installStacks() shows no host frame to the program (WT-047, WT-147)", async () => {
  const code = `const stacks = [new Error("a").stack]; const holder = {}; Error.captureStackTrace(holder); stacks.push(holder.stack);
await new Promise((resolve) => setTimeout(() => { stacks.push(new Error("t").stack); resolve() }, 1)); return stacks`;
  expect(await resultOf(code)).toEqual([
    "Error: a\n    at program.ts:1:17",
    "Error\n    at program.ts:1:65",
    "Error: t\n    at Timeout._onTimeout (program.ts:2:63)",
  ]);
});

test("installStacks() shows no frame of what is put around a program (WT-147)", async () => {
  const revoked = "const { proxy, revoke } = Proxy.revocable({}, {}); revoke(); return proxy";
  const expected = "TypeError: Cannot perform 'get' on a proxy that has been revoked";
  expect(await exceptionOf(revoked)).toBe(expected);
  expect(await exceptionOf(`${revoked}\r\n\u2028`)).toBe(expected);
});
