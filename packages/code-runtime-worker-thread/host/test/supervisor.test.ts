import { readdirSync, realpathSync } from "node:fs";
import { createRequire } from "node:module";
import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import { KIND } from "../src/frames.ts";
import { MAX_ERROR_CHARS, renderWorkerError } from "../src/supervisor.ts";
import { HostProcess, json, parsed, temporaryFolder } from "./fixtures/process.ts";

let folder: { path: string; remove: () => Promise<void> };
const hosts: HostProcess[] = [];

beforeAll(async () => {
  folder = await temporaryFolder();
  const { buildInto } = (await import("../../scripts/build.mjs" as string)) as {
    buildInto: (folder: string, entries: Record<string, string>) => Promise<string[]>;
  };
  await buildInto(`${folder.path}/`, { host: "main.ts", worker: "../test/fixtures/worker.ts" });
});

afterEach(async () => {
  await Promise.all(hosts.splice(0).map((host) => host.kill()));
});

afterAll(() => folder.remove());

/** A started host that has said READY. */
async function start(): Promise<HostProcess> {
  const host = new HostProcess(folder.path);
  hosts.push(host);
  const { version, node } = await host.next(KIND.READY);
  expect([version, Buffer.from(node).toString()]).toEqual([2, process.versions.node]);
  return host;
}

/** A host whose worker does something while run 1 is prepared. */
async function running(behaviour: string, heapMb?: number): Promise<HostProcess> {
  const host = await start();
  host.begin(behaviour, heapMb);
  const { run, prepared } = await host.next(KIND.PREPARED);
  expect([run, parsed(prepared)]).toEqual([1, { code: "return 1", prologue: "", map: null }]);
  return host;
}

// The exit code of a terminated worker is 1, or 0 when it had not finished booting.
const clean = { error: null, changed: null };

test("the host serves one run after another when each worker is terminated", async () => {
  const host = await running("");
  host.send(KIND.TERMINATE, 1);
  expect(await host.gone()).toMatchObject({ run: 1, detail: clean });
  for (const run of [2, 3]) {
    host.spawnWorker("");
    host.prepare(run, "enum A { B }\nreturn A.B");
    const { prepared } = await host.next(KIND.PREPARED);
    expect(parsed(prepared)).toMatchObject({ prologue: "", map: { version: 3 } });
    host.send(KIND.TERMINATE, run);
    expect(await host.gone()).toMatchObject({ run, detail: clean });
  }
  host.hangUp();
  expect(await host.exited).toEqual({ code: 0, signal: null });
  expect(host.printed).toBe("");
});

test("the host refuses a program when its syntax is wrong, and prepares the next (WT-012)", async () => {
  const host = await start();
  host.spawnWorker("");
  host.prepare(1, "foo(;");
  const { run, message, retire } = await host.next(KIND.REFUSED);
  expect([run, parsed(message), retire]).toEqual([
    1,
    "SyntaxError: Expression expected\n  1 | foo(;\n    |     ^\n    at program.ts:1:5",
    false,
  ]);
  host.send(KIND.TERMINATE, 1);
  expect(await host.gone()).toMatchObject({ run: 1, detail: clean });
  expect(host.printed).toBe("");
});

test("the host keeps lone surrogates when a program has them", async () => {
  const host = await start();
  host.spawnWorker("");
  host.prepare(1, "return '\ud800'");
  expect(parsed((await host.next(KIND.PREPARED)).prepared)).toMatchObject({
    code: "return '\ud800'",
  });
});

test("the host asks for its retirement when the stripper broke", async () => {
  const host = await start();
  host.spawnWorker("");
  host.prepare(1, `return ${"(".repeat(2_000)}1${")".repeat(2_000)}`);
  expect((await host.next(KIND.REFUSED)).retire).toBe(true);
  expect(host.printed).toBe("");
});

test("the host refuses a run when its directory is missing", async () => {
  const host = await start();
  host.spawnWorker("");
  host.prepare(1, "return 1", "/nonexistent/directory");
  const { message, retire } = await host.next(KIND.REFUSED);
  expect([parsed(message), retire]).toEqual([
    "Cannot enter the working directory of the run",
    true,
  ]);
});

test("the worker runs in the directory of its run when that was prepared", async () => {
  const host = await start();
  host.spawnWorker("setTimeout(() => { throw new Error(process.cwd()) }, 200)");
  host.prepare(1, "return 1", folder.path);
  await host.next(KIND.PREPARED);
  const error = `Error: ${realpathSync(folder.path)}`;
  expect(await host.gone()).toEqual({ run: 1, detail: { exitCode: 1, error, changed: null } });
});

test.each<[string, number, string | null, string]>([
  ["process.exit(7)", 7, null, "WT-164"],
  ["process.exit(0)", 0, null, "WT-164"],
  ["throw new TypeError('boo')", 1, "TypeError: boo", "WT-169"],
  ["setTimeout(() => { throw new RangeError('late') }, 1)", 1, "RangeError: late", "WT-166"],
  ["Promise.reject(new RangeError('never seen'))", 1, "RangeError: never seen", "WT-166"],
  ["throw 'text'", 1, "text", "WT-145"],
  ["throw null", 1, "null", "WT-145"],
  [
    "const e = new Error('x'); Object.defineProperty(e, 'stack', { get() { throw 1 } }); throw e",
    1,
    "Error: x",
    "WT-146",
  ],
  [
    "const e = new Error(''); e.stack = 'Error\\n    at f (program.ts:3:4)\\n    at /host/path.js:1:1'; throw e",
    1,
    "Error\n    at f (program.ts:3:4)",
    "WT-147",
  ],
  ["throw new Error('y'.repeat(1e6))", 1, `Error: ${"y".repeat(MAX_ERROR_CHARS - 7)}`, "bounded"],
])("the host reports the end of a worker when it is %j", async (behaviour, exitCode, error) => {
  const host = await running(behaviour);
  expect(await host.gone()).toEqual({ run: 1, detail: { exitCode, error, changed: null } });
});

test("the host survives heap exhaustion and names the limit when a worker hits it (WT-168)", async () => {
  const host = await running(
    "const a = []; for (;;) a.push(new Array(1000).fill(Math.random()))",
    32,
  );
  const error = "ERR_WORKER_OUT_OF_MEMORY";
  expect(await host.gone()).toEqual({ run: 1, detail: { exitCode: 1, error, changed: null } });
  host.spawnWorker("process.exit(3)");
  expect(await host.gone()).toEqual({
    run: 0,
    detail: { exitCode: 3, error: null, changed: null },
  });
});

test("the worker gets its boot data, an empty environment and no flags (WT-034, WT-035)", async () => {
  const host = await running(
    "throw JSON.stringify([[...nonce], nonce.buffer.byteLength, process.env, process.execArgv, process.argv.length])",
  );
  const error = JSON.stringify([new Array(16).fill(7), 16, {}, [], 2]);
  expect(await host.gone()).toEqual({ run: 1, detail: { exitCode: 1, error, changed: null } });
});

test("the host is unharmed when a worker posts 100,000 junk messages (WT-176)", async () => {
  const host = await running(
    "const { parentPort } = process.getBuiltinModule('worker_threads'); for (let i = 0; i < 100_000; i++) parentPort.postMessage({ kind: i, run: 1 }); process.exit(5)",
  );
  expect(await host.gone()).toEqual({
    run: 1,
    detail: { exitCode: 5, error: null, changed: null },
  });
  expect(host.printed).toBe("");
});

test.each([
  ["process.getBuiltinModule('v8').setFlagsFromString('--stack-size=900')", "V8 flags"],
  [
    "process.getBuiltinModule('os').setPriority(process.pid, 5)",
    "the process priority, settings of the system for the process",
  ],
  ["process.report.reportOnFatalError = true", "the diagnostic report settings"],
  [
    "const fs = process.getBuiltinModule('fs'); fs.closeSync(1); fs.openSync('/dev/full', 'w')",
    "descriptor 0, 1 or 2",
  ],
  [
    "process.getBuiltinModule('child_process').execFileSync('python3', ['-c', 'import os; os.set_blocking(2, False)'], { stdio: 'inherit' })",
    "descriptor 0, 1 or 2",
  ],
  ["process.title = 'mine'; process.chdir = null", null],
])(
  "the host names what a program changed for the process when it ran %j",
  async (code, changed) => {
    const host = await running(`${code}; process.exit(0)`);
    expect(await host.gone()).toEqual({ run: 1, detail: { exitCode: 0, error: null, changed } });
  },
);

test("the host reports busy time while the worker works and none while it waits (WT-151, WT-153)", async () => {
  const host = await running(
    "await new Promise((r) => setTimeout(r, 1_500)); for (const t = Date.now(); Date.now() - t < 300; ); await new Promise((r) => setTimeout(r, 60_000))",
  );
  const values = await busyUntilIdle(host, 280_000);
  // 300 ms of work; had the wait before it counted, it were 1,800 ms and more.
  expect(values.at(-1)).toBeLessThan(1_500_000);
});

/** Busy times until the worker has worked for so long and then been idle for a while. */
async function busyUntilIdle(host: HostProcess, leastUs: number): Promise<number[]> {
  const values: number[] = [];
  for (;;) {
    values.push((await host.next(KIND.BUSY)).busyUs);
    const [first = 0] = values.slice(-10);
    if (first > leastUs && (values.at(-1) as number) - first < 5_000) return values;
  }
}

test("the host leaves out of busy time what the worker waited for room", async () => {
  const host = await running(
    "for (let turn = 0; turn < 100; turn++) { const t = performance.now(); while (performance.now() - t < 10); Atomics.add(waited, 0, Math.round((performance.now() - t) * 900)) } await new Promise((r) => setTimeout(r, 60_000))",
  );
  const values = await busyUntilIdle(host, 60_000);
  expect(values).toEqual(values.toSorted((one, other) => one - other));
  // At least 1,000 ms of work, nine tenths of it told as waiting.
  expect(values.at(-1)).toBeLessThan(800_000);
});

test("the host terminates a worker when it spins, waits on memory or runs a slow pattern", async () => {
  for (const code of [
    "for (;;);",
    "Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0)",
    "/^(a+)+$/.test('a'.repeat(50) + 'b')",
  ]) {
    const host = await running(code);
    while ((await host.next(KIND.BUSY)).busyUs < 20_000);
    host.send(KIND.TERMINATE, 1);
    expect(await host.gone()).toMatchObject({ run: 1, detail: clean });
  }
});

test("the host ignores a TERMINATE or PREPARE when the worker has already ended", async () => {
  const host = await running("process.exit(0)");
  await host.gone();
  host.send(KIND.TERMINATE, 1);
  host.prepare(2, "return 1");
  host.spawnWorker("process.exit(4)");
  expect(await host.gone()).toEqual({
    run: 0,
    detail: { exitCode: 4, error: null, changed: null },
  });
});

type Act = (host: HostProcess) => void;
const raw =
  (...bytes: number[]): Act =>
  (host) =>
    host.sendRaw(Buffer.from(bytes));
const spawning: Act = (host) => host.spawnWorker("");
const preparing =
  (run: number): Act =>
  (host) =>
    host.prepare(run, "");
const programOf =
  (...bytes: number[]): Act =>
  (host) =>
    host.send(KIND.PREPARE, 1, Buffer.from("/"), Buffer.from(bytes));

test.each<[string, Act[]]>([
  ["an unknown kind", [raw(0, 0, 0, 2, 0x91, 9)]],
  ["garbage", [raw(...Buffer.from("GET / HTTP/1.1"))]],
  ["an empty body", [raw(0, 0, 0, 0)]],
  ["a frame of another direction", [(host) => host.send(KIND.LOG, json("x"))]],
  ["a second SPAWN", [spawning, spawning]],
  ["a second PREPARE", [spawning, preparing(1), preparing(2)]],
  ["a PREPARE of run 0", [spawning, preparing(0)]],
  ["a heap of 0 MB", [(host) => host.spawnWorker("", 0)]],
  ["a program that is no string", [spawning, programOf(...Buffer.from("1"))]],
  ["a program that is no JSON", [spawning, programOf(...Buffer.from("{"))]],
  ["a program that is no UTF-8", [spawning, programOf(34, 0xff, 34)]],
  ["a cut frame", [raw(0, 0), (host) => host.endInput()]],
])("the host exits with 71 and prints nothing when it gets %s", async (_, acts) => {
  const host = await start();
  for (const act of acts) act(host);
  expect(await host.exited).toEqual({ code: 71, signal: null });
  expect(host.printed).toBe("");
});

test("the host exits with 0 when the control socket closes while its worker is spare", async () => {
  const host = await start();
  host.spawnWorker("");
  host.hangUp();
  expect(await host.exited).toEqual({ code: 0, signal: null });
});

test("the host kills itself when the control socket closes while a program blocks in native code", async () => {
  const host = await running(
    "process.getBuiltinModule('child_process').execFileSync('sleep', ['60'])",
  );
  await host.next(KIND.BUSY);
  const started = performance.now();
  host.hangUp();
  expect(await host.exited).toEqual({ code: null, signal: "SIGKILL" });
  expect(performance.now() - started).toBeLessThan(2_000);
});

test("a worker does not reach the main thread when it asks the inspector", async () => {
  const host = await start();
  host.spawnWorker(
    "const { Session } = process.getBuiltinModule('inspector'); new Session().connectToMainThread(); process.exit(9)",
  );
  // Node aborts the whole process: the run ends, and nothing of main was reached.
  expect(await host.exited).toEqual({ code: null, signal: "SIGABRT" });
});

test("SIGUSR1 starts no inspector when a program sends it", async () => {
  const host = await running(
    "process.kill(process.pid, 'SIGUSR1'); await new Promise((r) => setTimeout(r, 100)); throw String(process.getBuiltinModule('inspector').url())",
  );
  expect(await host.gone()).toEqual({
    run: 1,
    detail: { exitCode: 1, error: "undefined", changed: null },
  });
  expect(host.printed).toBe("");
});

test("the host leaves no descriptor behind when workers opened some", async () => {
  const host = await start();
  const count = () => readdirSync(`/proc/${host.child.pid}/fd`).length;
  const counts: number[] = [];
  for (let round = 0; round < 4; round++) {
    host.spawnWorker("process.getBuiltinModule('fs').openSync('/etc/passwd'); process.exit(0)");
    await host.gone();
    counts.push(count());
  }
  expect(new Set(counts.slice(1)).size).toBe(1);
});

test("renderWorkerError() gives a fixed text when a value cannot be rendered", () => {
  const hostile = { toString: () => createRequire("/")("./missing") };
  expect(renderWorkerError(hostile)).toBe("The worker's error could not be rendered");
  expect(renderWorkerError(Object.create(null))).toBe("The worker's error could not be rendered");
  expect(renderWorkerError(new RangeError(""))).toBe("RangeError");
});
