import { expect, test } from "vitest";
import { KIND } from "../src/frames.ts";
import { exceptionOf, type Options, resultOf, runProgram, TOOL_ERROR } from "./peer.ts";

const tools = (functions: Record<string, (argument: never) => unknown>): Options => ({
  bindings: { tools: functions as Record<string, (argument: unknown) => unknown> },
  errorClass: TOOL_ERROR,
});
const failing = tools({
  fail: () => {
    throw new Error("out of order");
  },
});
const add = tools({ add: ({ a, b }: { a: number; b: number }) => a + b });

test("Bindings pass one argument and one value of any root (SC-029, WT-118)", async () => {
  const echo = tools({ echo: (value) => value });
  const code = `const values = [null, 0, -1.5, "€\\ud800", true, [], {}, [[{ "": { __proto__: null } }]], { ["__proto__"]: 1 }];
    const back = []; for (const value of values) back.push(await tools.echo(value)); return back`;
  expect(JSON.stringify(await resultOf(code, echo))).toBe(
    '[null,0,-1.5,"€\\ud800",true,[],{},[[{"":{}}]],{"__proto__":1}]',
  );
});

test("Bindings have no prototype and fixed members (WT-118, WT-025)", async () => {
  const code = `let refused; try { tools.add = 1 } catch (e) { refused = e instanceof TypeError }
    tools.extra = 2;
    const { value, ...flags } = Object.getOwnPropertyDescriptor(tools, "add");
    return [Object.getPrototypeOf(tools), typeof tools.toString, Object.keys(tools), flags, refused, typeof globalThis.tools, value.name]`;
  expect(await resultOf(code, add)).toEqual([
    null,
    "undefined",
    ["add", "extra"],
    { writable: false, enumerable: true, configurable: false },
    true,
    "undefined",
    "add",
  ]);
});

test("Bindings take any member name (SC-026, WT-120)", async () => {
  const names = ["__proto__", "constructor", "toString", "hasOwnProperty", "", "a b", "then"];
  const functions = Object.fromEntries(names.map((name) => [name, () => name]));
  Object.defineProperty(functions, "__proto__", { value: () => "__proto__", enumerable: true });
  const code = `const seen = []; for (const name of ${JSON.stringify(names)}) seen.push(await tools[name]({})); return seen`;
  expect(await resultOf(code, { bindings: { tools: functions } })).toEqual(names);
});

test("Bindings keep namespaces apart (WT-140, WT-024, WT-029)", async () => {
  const options: Options = {
    bindings: { a: { f: () => "a" }, b: { f: () => "b" } },
    errorClass: TOOL_ERROR,
  };
  const code =
    "return [await a.f(1), await b.f(1), arguments.length, arguments[2] === ToolCallError]";
  expect(await resultOf(code, options)).toEqual(["a", "b", 4, true]);
});

test("Bindings issue ids from 1 for all namespaces (WT-133)", async () => {
  const ids: number[] = [];
  await runProgram("await a.f(1); await b.f(1); await a.f(1)", {
    bindings: { a: { f: () => 1 }, b: { f: () => 1 } },
    intercept: (message) => {
      if (message.kind === KIND.CALL) ids.push(message.id);
      return false;
    },
  });
  expect(ids).toEqual([1, 2, 3]);
});

test("Bindings refuse a lossy argument before the call has an id (WT-122, SC-030)", async () => {
  const ids: number[] = [];
  const code = `const texts = [];
    for (const bad of [new Date(0), { items: [0, { when: undefined }] }, 1n, [,1], Promise.resolve(1), tools.add({a: 1, b: 1})]) {
      try { await tools.add(bad) } catch (e) { texts.push([e instanceof ToolCallError, e.toolName, e.message]) }
    }
    await tools.add({ a: 1, b: 2 }); return texts`;
  const start = "Cannot call tools.add: the argument must be lossless JSON: ";
  expect(
    await resultOf(code, {
      ...add,
      intercept: (message) => {
        if (message.kind === KIND.CALL) ids.push(message.id);
        return false;
      },
    }),
  ).toEqual(
    [
      "$: Date is not JSON, expected date.toISOString()",
      "$.items[1].when: undefined is not JSON, expected null, or no such member",
      "$: BigInt is not JSON, expected Number(x) or String(x)",
      "$: an array with holes is not JSON, expected plain objects, arrays, strings, finite numbers, booleans or null",
      "$: a Promise that was not awaited, expected a value: add await",
      "$: a Promise (call of tools.add was not awaited), expected a value: add await",
    ].map((text) => [true, "add", start + text]),
  );
  expect(ids).toEqual([1, 2]);
});

test("Bindings refuse a call without argument and one with more (WT-121)", async () => {
  const code = `const texts = []; for (const call of [() => tools.add(), () => tools.add(1, 2), () => Promise.all([1].map(tools.add))]) {
      try { await call() } catch (e) { texts.push(e.message) } } return texts`;
  expect(await resultOf(code, add)).toEqual([
    "Cannot call tools.add: no argument, expected one that is lossless JSON: write tools.add({}) if it takes none",
    "Cannot call tools.add: 2 arguments, expected one: write tools.add({ ... }) with named members, and (item) => tools.add(item) where a callback is wanted",
    "Cannot call tools.add: 3 arguments, expected one: write tools.add({ ... }) with named members, and (item) => tools.add(item) where a callback is wanted",
  ]);
});

test("Bindings explain an undeclared member when its error is uncaught (WT-119)", async () => {
  expect(await exceptionOf("const x = 1;\nawait tools.sub({})", add)).toBe(
    `TypeError: tools.sub is not a function
tools has no member sub; declared: add
  2 | await tools.sub({})
    |             ^
    at program.ts:2:13`,
  );
});

test("Bindings reject with the declared error class (SC-031, SC-032, WT-129, WT-130)", async () => {
  const code = `try { await tools.fail({}) } catch (e) {
      const { value, ...flags } = Object.getOwnPropertyDescriptor(e, "toolName");
      const made = new ToolCallError("m", "text");
      return [e instanceof ToolCallError, e instanceof Error, Object.keys(e), e.name, e.toolName, e.message, String(e), flags,
        ToolCallError.name, made.toolName, made.message, e.stack.split("\\n").length] }`;
  expect(await resultOf(code, failing)).toEqual([
    true,
    true,
    ["name", "toolName"],
    "ToolCallError",
    "fail",
    "out of order",
    "ToolCallError: out of order",
    { writable: false, enumerable: true, configurable: false },
    "ToolCallError",
    "m",
    "text",
    2,
  ]);
});

test("Bindings reject with a plain Error without a class (SC-033)", async () => {
  const { bindings } = failing;
  const code = `try { await tools.fail({}) } catch (e) { return [e.constructor === Error, e.message, Object.keys(e)] }`;
  expect(await resultOf(code, { bindings: bindings as NonNullable<Options["bindings"]> })).toEqual([
    true,
    "out of order",
    [],
  ]);
});

test("Bindings end the run with the place of an uncaught rejection (WT-131)", async () => {
  expect(
    await exceptionOf(
      "async function go() {\n  return await tools.fail({});\n}\nawait go()",
      failing,
    ),
  ).toBe(
    `ToolCallError: out of order
  2 |   return await tools.fail({});
    |                      ^
    at go (program.ts:2:22)
    at program.ts:4:7`,
  );
});

test("Bindings name the call whose failure nobody awaited (WT-141)", async () => {
  expect(await exceptionOf("tools.fail({});\nawait new Promise(() => {})", failing)).toBe(
    `ToolCallError: out of order
  1 | tools.fail({});
    |       ^
    at program.ts:1:7
Nothing awaited the call of tools.fail when it failed: write await tools.fail(...), or Promise.all for several calls`,
  );
});

test("Bindings settle each call once and ignore unknown replies (WT-132)", async () => {
  const { encodeFrame } = await import("../src/frames.ts");
  const value = await resultOf("return [await tools.f(1), await tools.f(2)]", {
    bindings: { tools: { f: (n) => n } },
    intercept: (message, socket) => {
      if (message.kind !== KIND.CALL) return false;
      const reply = (id: number, text: string): boolean =>
        socket.write(encodeFrame(KIND.REPLY, id, true, Buffer.from(text)));
      reply(99, "0");
      reply(message.id, "1");
      reply(message.id, "2");
      return true;
    },
  });
  expect(value).toEqual([1, 1]);
});

test("Bindings send calls that nobody awaits and do not wait for them (WT-135, WT-136)", async () => {
  const { calls, end } = await runProgram("tools.f(1); tools.f(2); return 3", {
    bindings: { tools: { f: () => new Promise(() => {}) } },
  });
  expect(end).toEqual({ kind: "done", json: "3", value: 3 });
  expect(calls.map(({ argument }) => argument)).toEqual(["1", "2"]);
});

test("Bindings send nothing after the end (WT-137, WT-167)", async () => {
  const { calls, logs } = await runProgram(
    `setTimeout(() => { console.log("late"); process.stdout.write("late"); tools.f(1); null.x }, 5); return 1`,
    {
      bindings: { tools: { f: () => 1 } },
      afterEnd: () => new Promise((resolve) => setTimeout(resolve, 60)),
    },
  );
  expect([calls, logs]).toEqual([[], []]);
});

test("Bindings take 5,000 calls in flight without a deadlock (WT-134, GP-014)", async () => {
  const text = "x".repeat(500);
  const value = await resultOf(
    `const all = await Promise.all(Array.from({ length: 5000 }, (_, i) => tools.f({ i, text: "${text}" })));
     return all.every((back, i) => back.i === i)`,
    { bindings: { tools: { f: (argument) => argument } } },
  );
  expect(value).toBe(true);
});

test("Bindings take a value of a million levels both ways (WT-111)", async () => {
  const deep = "[".repeat(1_000_000) + "]".repeat(1_000_000);
  const { encodeFrame } = await import("../src/frames.ts");
  let argument = "";
  const { end } = await runProgram(
    "let v = []; for (let i = 1; i < 1e6; i++) v = [v]; return await tools.f(v)",
    {
      bindings: { tools: { f: () => 1 } },
      intercept: (message, socket) => {
        if (message.kind === KIND.DONE) return false;
        if (message.kind !== KIND.CALL) return false;
        argument = Buffer.from(message.argument).toString();
        socket.write(encodeFrame(KIND.REPLY, message.id, true, Buffer.from("[[1]]")));
        return true;
      },
    },
  );
  expect(argument === deep).toBe(true);
  expect(end).toEqual({ kind: "done", json: "[[1]]", value: [[1]] });
});

test("Bindings copy an argument when the call is made (WT-110)", async () => {
  const code =
    "const argument = { a: 1, b: 1 }; const sum = tools.add(argument); argument.a = 50; return await sum";
  expect(await resultOf(code, add)).toBe(2);
});

test("Bindings called at the end of the stack leave the socket whole (WT-150)", async () => {
  const code = `let caught = 0;
    const dive = () => { try { dive() } catch { try { tools.add({ a: 1, b: 1 }).catch(() => {}) } catch { caught++ } } };
    const log = () => { console.log("x".repeat(100)); log() };
    dive(); try { log() } catch (e) { if (!(e instanceof RangeError)) throw e }
    return [await tools.add({ a: 2, b: 3 }), caught > 0]`;
  expect(await resultOf(code, add)).toEqual([5, true]);
});
