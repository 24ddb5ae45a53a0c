import { expect, test } from "vitest";
import { KIND } from "../src/frames.ts";
import { resultOf, runProgram } from "./peer.ts";

const logsOf = async (code: string): Promise<readonly string[]> => {
  const { logs, end } = await runProgram(code);
  expect(end.kind).toBe("done");
  return logs;
};

test("redirect() keeps the order of console and both streams (WT-050, WT-056)", async () => {
  const code = `console.log("1"); process.stdout.write("2\\n"); process.stderr.write("3"); console.log("4"); process.stdout.write("")`;
  expect(await logsOf(code)).toEqual(["1", "2\n", "3", "4", ""]);
});

test("redirect() returns true and calls back later, once, with null (WT-051, WT-052)", async () => {
  const code = `const seen = []; const note = (kind) => (error) => seen.push([kind, error]);
    const returned = [process.stdout.write("a", note("second")), process.stdout.write("b", "utf8", note("third"))];
    const before = seen.length;
    await new Promise((resolve) => process.stdout.write("x".repeat(100_000), resolve));
    return { returned, before, seen }`;
  expect(await resultOf(code)).toEqual({
    returned: [true, true],
    before: 0,
    seen: [
      ["second", null],
      ["third", null],
    ],
  });
});

test("redirect() calls back for a write that the budget dropped (WT-052, BF-006)", async () => {
  const limits: unknown[] = [];
  const { calls, logs } = await runProgram(
    `process.stdout.write("x".repeat(100)); await new Promise((resolve) => process.stdout.write("y", resolve)); await tools.flushed(1)`,
    {
      maxOutputBytes: 32,
      bindings: { tools: { flushed: () => null } },
      intercept: (message) => {
        if (message.kind !== KIND.LIMIT) return false;
        limits.push(message);
        return true;
      },
    },
  );
  expect(calls).toHaveLength(1);
  expect(logs).toEqual(["x".repeat(28)]);
  expect(limits).toHaveLength(1);
});

test("redirect() decodes bytes and honours encodings (WT-053, WT-054, WT-055)", async () => {
  const code = `process.stdout.write(Buffer.from("é")); process.stdout.write("aGk=", "base64");
    process.stdout.write(new Uint8Array([104, 105])); process.stdout.write("6869", "hex");
    process.stdout.write(new DataView(new Uint8Array([104, 105]).buffer)); process.stdout.write("\\ud800")`;
  expect(await logsOf(code)).toEqual(["é", "hi", "hi", "hi", "hi", "\ud800"]);
});

test.each([
  ["5", "ERR_INVALID_ARG_TYPE"],
  ["{}", "ERR_INVALID_ARG_TYPE"],
  ["null", "ERR_STREAM_NULL_VALUES"],
  ['"a", "no-such-encoding"', "ERR_UNKNOWN_ENCODING"],
])("redirect() refuses write(%s) as Node does (WT-055)", async (written, code) => {
  const value = await resultOf(
    `try { process.stdout.write(${written}) } catch (e) { return [e instanceof TypeError, e.code] }`,
  );
  expect(value).toEqual([true, code]);
});

test("redirect() joins a character that two writes share (WT-060, GP-006)", async () => {
  const code = `const euro = Buffer.from("a€");
    process.stdout.write(euro.subarray(0, 2)); process.stdout.write(euro.subarray(2)); process.stdout.write("b");
    process.stdout.write(euro.subarray(0, 3)); process.stdout.write("c"); process.stderr.write(euro.subarray(0, 2))`;
  expect(await logsOf(code)).toEqual(["a", "€", "b", "a", "\ufffdc", "a", "\ufffd"]);
});

test("redirect() makes no entry of a chunk without bytes (WT-056)", async () => {
  const code = `const { execSync } = await import("node:child_process");
    process.stdout.write(""); process.stdout.write(Buffer.alloc(0)); execSync("true"); console.log("end")`;
  expect(await logsOf(code)).toEqual(["", "end"]);
});

test("redirect() takes writes through the prototype and the real console at once (WT-049, WT-059, GP-007)", async () => {
  const code = `const { Writable } = await import("node:stream");
    console.log("1"); Writable.prototype.write.call(process.stdout, "2"); globalThis.console.log("3");
    globalThis.console.error("4"); process.stdout.cork(); Writable.prototype.write.call(process.stdout, "5");
    Writable.prototype.write.call(process.stdout, "6"); process.stdout.uncork(); console.log("7")`;
  expect(await logsOf(code)).toEqual(["1", "2", "3\n", "4\n", "5", "6", "7"]);
});

test("redirect() takes the output of nested workers (WT-059)", async () => {
  const code = `const { Worker } = await import("node:worker_threads");
    const worker = new Worker('process.stdout.write("inner")', { eval: true });
    await new Promise((resolve) => worker.on("exit", resolve)); await new Promise((resolve) => setTimeout(resolve, 50))`;
  expect(await logsOf(code)).toEqual(["inner"]);
});

test("redirect() sends what was written before an exit and a hot loop (WT-058, WT-164)", async () => {
  const code = `for (let i = 0; i < 300; i++) process.stdout.write(String(i)); process.exit(7)`;
  const { logs, end } = await runProgram(code);
  expect(end).toEqual({ kind: "exit", code: 7 });
  expect(logs).toEqual(Array.from({ length: 300 }, (_, index) => String(index)));
});
