import { expect, test } from "vitest";
import { KIND, PROTOCOL_VERSION } from "../src/frames.ts";
import { type Options, resultOf, runProgram, TOOL_ERROR } from "./peer.ts";

test("worker says HELLO with version and nonce before anything else", async () => {
  const seen: unknown[] = [];
  await runProgram("console.log(1)", {
    intercept: (message) => {
      seen.push(
        message.kind === KIND.HELLO ? [message.version, message.nonce.length] : message.kind,
      );
      return false;
    },
  });
  expect(seen).toEqual([[PROTOCOL_VERSION, 16], KIND.LOG, KIND.DONE]);
});

test("worker leaves only TMPDIR in the environment, which children inherit (WT-034, WT-035, WT-036)", async () => {
  const code = `const { execFileSync } = await import("node:child_process"); const cwd = process.cwd();
    return [Object.keys(process.env), process.env.TMPDIR === cwd, execFileSync("/bin/sh", ["-c", "echo $TMPDIR"]).toString().trim() === cwd, process.execArgv.includes("--permission")]`;
  expect(await resultOf(code)).toEqual([["TMPDIR"], true, true, false]);
});

test("worker hides how it was started", async () => {
  const code = `const threads = await import("node:worker_threads"); const plain = threads.default;
    return [threads.workerData, threads.parentPort, plain.workerData, plain.parentPort, threads.isMainThread, process.argv]`;
  expect(await resultOf(code)).toEqual([null, null, null, null, false, ["node", "program.ts"]]);
});

test("worker keeps no state from another run (SC-043, WT-038)", async () => {
  await resultOf("globalThis.left = 1; return left");
  expect(await resultOf("return typeof globalThis.left")).toBe("undefined");
});

test("worker stops when its socket is gone", async () => {
  const { end } = await runProgram("await new Promise(() => {})", {
    intercept: (message, socket) => {
      if (message.kind === KIND.HELLO) socket.destroy();
      return message.kind === KIND.HELLO;
    },
  });
  expect(end).toEqual({ kind: "exit", code: 0 });
});

test("worker stops when its socket is gone and it writes (WT-044)", async () => {
  const { end } = await runProgram("for (;;) console.log('x'.repeat(1000))", {
    intercept: (message, socket) => {
      if (message.kind === KIND.LOG) socket.destroy();
      return message.kind === KIND.LOG;
    },
  });
  expect(end).toEqual({ kind: "exit", code: 0 });
});

const options: Options = {
  bindings: {
    tools: {
      add: (x) => (x as { a: number }).a + 1,
      echo: (x) => x,
      fail: () => {
        throw new Error("typed");
      },
    },
  },
  errorClass: TOOL_ERROR,
};

/** Checks every boundary once: a call, a refused argument, a typed failure, a log, a lossy and a good value. */
const CHECK = `
  const result = {};
  console.log("entry", 1);
  result.sum = await tools.add({ a: 1 });
  result.echo = await tools.echo({ deep: [{ "k": [1, "é"] }], t: [] });
  try { await tools.add(date) } catch (e) { result.lossy = [e.name, e.toolName, e.message] }
  try { await tools.fail({}) } catch (e) { result.typed = [e.name, e.toolName, e.message] }
  process.stdout.write("written");
  return result;`;

const EXPECTED = {
  sum: 2,
  echo: { deep: [{ k: [1, "é"] }], t: [] },
  lossy: [
    "ToolCallError",
    "add",
    "Cannot call tools.add: the argument must be lossless JSON: $: Date is not JSON, expected date.toISOString()",
  ],
  typed: ["ToolCallError", "fail", "typed"],
};

test.each([
  ["Array.isArray", "Array.isArray = () => false"],
  [
    "Array.prototype",
    `for (const name of ["at", "includes", "pop", "push", "map", "find", "slice", "join", "shift", "indexOf"]) Array.prototype[name] = () => { throw new Error("used") };
     Array.prototype.constructor = null; Array.prototype[Symbol.iterator] = () => { throw new Error("used") }`,
  ],
  [
    "Object",
    `for (const name of ["defineProperty", "getOwnPropertyDescriptor", "getPrototypeOf", "keys", "hasOwn", "is", "create", "freeze", "entries"]) Object[name] = () => { throw new Error("used") }`,
  ],
  [
    "Object.prototype",
    `for (const name of ["get", "value", "writable", "error", "type", "kind", "next", "parent", "code", "path"]) Object.prototype[name] = () => { throw new Error("used") };
     Object.prototype.propertyIsEnumerable = Object.prototype.hasOwnProperty = Object.prototype.toString = null; Object.prototype.constructor = null`,
  ],
  ["Number", "Number.isFinite = Number.isSafeInteger = Number.isInteger = () => false"],
  [
    "Reflect",
    "for (const name of Object.getOwnPropertyNames(Reflect)) Reflect[name] = () => { throw new Error('used') }",
  ],
  [
    "Set and Map",
    `for (const C of [Set, Map, WeakMap, WeakSet]) for (const name of ["add", "delete", "has", "get", "set"]) C.prototype[name] = () => { throw new Error("used") }`,
  ],
  [
    "String.prototype",
    `for (const name of ["charCodeAt", "codePointAt", "slice", "split", "indexOf", "startsWith", "replace", "toString"]) String.prototype[name] = () => { throw new Error("used") }`,
  ],
  [
    "Buffer",
    "Buffer.byteLength = Buffer.from = Buffer.prototype.utf8Write = Buffer.prototype.utf8Slice = () => { throw new Error('used') }",
  ],
  [
    "typed arrays",
    "Object.defineProperty(Object.getPrototypeOf(Uint8Array.prototype), 'length', { get() { throw new Error('used') } })",
  ],
  [
    "Function.prototype",
    "Function.prototype.call = Function.prototype.apply = Function.prototype.bind = Function.prototype.toString = () => { throw new Error('used') }",
  ],
  ["JSON", "JSON.stringify = JSON.parse = () => { throw new Error('used') }"],
  [
    "Promise.prototype",
    "Promise.prototype.then = Promise.prototype.catch = () => { throw new Error('used') }; Promise.resolve = null",
  ],
  [
    "Promise.prototype.constructor",
    "Promise.prototype.constructor = class { constructor() { throw new Error('used') } }; Object.defineProperty(Promise, Symbol.species, { value: class { constructor() { throw new Error('used') } } })",
  ],
  [
    "then of Object.prototype",
    "Object.prototype.then = function (resolve) { resolve('hijacked') }",
  ],
  ["then of Array.prototype", "Array.prototype.then = function (resolve) { resolve('hijacked') }"],
  [
    "a getter then of Object.prototype",
    "Object.defineProperty(Object.prototype, 'then', { configurable: true, get() { return (resolve) => resolve('hijacked') } })",
  ],
  [
    "fs",
    "const fs = (await import('node:fs')).default; fs.writeSync = fs.readSync = () => { throw new Error('used') }",
  ],
  [
    "util",
    "const util = (await import('node:util')).default; util.inspect = () => 'forged'; util.types.isProxy = () => true",
  ],
  [
    "the event loop",
    "globalThis.queueMicrotask = globalThis.setImmediate = process.nextTick = () => { throw new Error('used') }",
  ],
  [
    "Error",
    "Error.prepareStackTrace = () => { throw new Error('used') }; Error.captureStackTrace = null; Error.stackTraceLimit = 0",
  ],
  [
    "globals",
    `for (const name of ["Array", "Buffer", "Error", "Function", "Number", "Object", "Reflect", "Set", "Map", "WeakMap", "String", "Promise", "Symbol", "BigInt", "Uint8Array", "TextDecoder", "TextEncoder", "Math", "JSON", "Atomics", "process", "performance"]) {
       if (name !== "process") globalThis[name] = undefined }`,
  ],
  [
    "array index setters",
    `for (const index of ["0", "1", "2", "-1"]) Object.defineProperty(Array.prototype, index, { configurable: true, set() { throw new Error("used") }, get() { return undefined } })`,
  ],
])(
  "worker works when a program has replaced %s (WT-192, WT-193, GP-008)",
  async (name, mutation) => {
    // console.log shows the number through Node's own inspect, which index setters do reach.
    const check = name === "array index setters" ? CHECK.replace('"entry", 1', '"entry 1"') : CHECK;
    const { logs, end } = await runProgram(
      `const date = new Date(0); ${mutation};${check}`,
      options,
    );
    expect(end).toEqual({ kind: "done", json: expect.any(String), value: EXPECTED });
    expect(logs).toEqual(["entry 1", "written"]);
  },
);

test.each([
  "Object.prototype.then = function (resolve) { resolve('hijacked') }; return { a: 1 }",
  "Array.prototype.then = function (resolve) { resolve('hijacked') }; const v = { a: 1 }; return v",
  "Object.defineProperty(Object.prototype, 'then', { writable: true, value: (resolve) => resolve('hijacked') }); return { a: 1 }",
  "Promise.prototype.then = function (resolve) { resolve('hijacked') }; return tools.echo({ a: 1 })",
  "const v = Promise.resolve({ a: 1 }); Promise.prototype.then = function (resolve) { resolve('hijacked') }; return v",
])("worker returns the value itself for %s (GP-008)", async (code) => {
  expect(await resultOf(code, options)).toEqual({ a: 1 });
});

test("worker fails a run whose completion cannot be read (GP-008)", async () => {
  const code = `Object.defineProperty(Object.prototype, "then", { value: (resolve) => resolve("hijacked") }); return { a: 1 }`;
  expect((await runProgram(code)).end).toEqual({
    kind: "fail",
    failure: "exception",
    message:
      "Cannot read the completion: then of Object.prototype, Array.prototype or Promise.prototype was replaced for good",
  });
});

test("worker refuses forged prototypes after such mutations (WT-194)", async () => {
  const code = `Array.isArray = () => true; Object.getPrototypeOf = () => Object.prototype; Function.prototype.toString = () => "function Object() { [native code] }";
    function Fake() {} Fake.prototype.constructor = Fake; const bad = [];
    for (const value of [new Fake(), new Date(0), Object.setPrototypeOf([], Object.create(Array.prototype))]) {
      try { await tools.echo(value); bad.push("passed") } catch (e) { bad.push(e.name) } } return bad`;
  expect(await resultOf(code, options)).toEqual([
    "ToolCallError",
    "ToolCallError",
    "ToolCallError",
  ]);
});

test("worker lives on when a program drops every handle it can find (WT-165)", async () => {
  const code = `process.removeAllListeners(); for (const handle of process._getActiveHandles?.() ?? []) handle.unref?.();
    const value = await tools.add({ a: 1 }); return value`;
  const { end } = await runProgram(code, options);
  // Without a handle to wait for, Node may end the worker: that is the program's own doing.
  expect([
    { kind: "done", json: "2", value: 2 },
    { kind: "exit", code: 0 },
  ]).toContainEqual(end);
});
