import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import {
  copyFileSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, expect, test } from "vitest";
import { PythonCodeRuntime } from "../src/index.ts";
import { Family, statOf } from "../src/proc.ts";
import { ProgramProcess } from "../src/process.ts";
import { lives, run } from "./host.ts";

const folder = mkdtempSync(join(tmpdir(), "process-"));
afterAll(() => rmSync(folder, { recursive: true }));

const index = fileURLToPath(new URL("../src/index.ts", import.meta.url));

/** Starts a host of its own that runs this code, with `runtime` at hand. */
function host(code: string): ChildProcess {
  const script = join(folder, `host-${Math.random()}.ts`);
  writeFileSync(
    script,
    `import { PythonCodeRuntime } from ${JSON.stringify(index)};\nconst runtime = await PythonCodeRuntime.create({ graceMs: 300 });\n${code}`,
  );
  const options = ["--no-warnings", "--experimental-strip-types", script];
  return spawn(process.execPath, options, { stdio: ["ignore", "pipe", "inherit"] });
}

async function output(
  child: ChildProcess,
  isEnough: (text: string) => boolean = () => false,
): Promise<string> {
  let text = "";
  for await (const chunk of child.stdout as AsyncIterable<Buffer>) {
    text += chunk.toString();
    if (isEnough(text)) break;
  }
  return text;
}

/** The folders that a host has left. */
const foldersOf = ({ pid }: ChildProcess): string[] =>
  readdirSync(tmpdir()).filter((name) => name.startsWith(`code-runtime-node-${pid}-`));

async function until(fact: () => boolean): Promise<void> {
  const deadline = performance.now() + 3_000;
  while (!fact()) {
    if (performance.now() > deadline) throw new Error("the fact did not come");
    await new Promise((resolve) => void setTimeout(resolve, 20));
  }
}

test("run() keeps the host alive until its result, and nothing keeps it after (PY-270)", async () => {
  const child = host(`
    const program = "import signal, time\\nsignal.signal(15, signal.SIG_IGN)\\nwhile True: time.sleep(0.05)";
    console.log(JSON.stringify(await runtime.run({ program, maxWallMs: 400 })));`);
  expect(JSON.parse(await output(child))).toEqual({
    logs: [],
    logsTruncated: false,
    error: { kind: "timeout", message: "wall-clock ceiling exceeded: 400 ms" },
  });
  await until(() => child.exitCode !== null);
  expect(child.exitCode).toBe(0);
});

const REPORT = `
  const functions = { pid: (pid: number) => { console.log(pid); return 1; } };
  const bindings = [{ globalName: "tools", functions }];
  void runtime.run({ program: PROGRAM, bindings });`;

test("a host that exits kills its programs", async () => {
  const program = "import os\nawait tools.pid(os.getpid())\nwhile True: pass";
  const child = host(
    `const PROGRAM = ${JSON.stringify(program)};${REPORT}\nsetTimeout(() => process.exit(0), 1_200);`,
  );
  const pid = Number(await output(child));
  expect(pid).toBeGreaterThan(1);
  await until(() => !lives(pid));
  expect(foldersOf(child)).toEqual([]);
});

test("a program that waits ends when its host is killed", async () => {
  const program = "import asyncio, os\nawait tools.pid(os.getpid())\nawait asyncio.sleep(60)";
  const child = host(`const PROGRAM = ${JSON.stringify(program)};${REPORT}`);
  const pid = Number(await output(child, (text) => text.includes("\n")));
  expect(lives(pid)).toBe(true);
  child.kill("SIGKILL");
  await until(() => !lives(pid));
  expect(foldersOf(child)).toHaveLength(1);
  await PythonCodeRuntime.create();
  expect(foldersOf(child)).toEqual([]);
});

test("statOf() counts a zombie as dead (PY-272)", async () => {
  const script =
    "import os, sys\npid = os.fork()\nif pid == 0: os._exit(0)\nos.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)\nprint(pid, flush=True)\nsys.stdin.read()";
  const child = spawn("python3", ["-c", script], { stdio: ["pipe", "pipe", "inherit"] });
  const zombie = Number(await output(child, (text) => text.includes("\n")));
  expect(statOf(zombie)?.isDead).toBe(true);
  expect(statOf(child.pid as number)?.isDead).toBe(false);
  expect(new Family(child.pid as number, "/none").look()).toEqual([child.pid]);
  child.stdin?.end();
  await until(() => child.exitCode !== null);
});

test("statOf() reads a process whose name has spaces and parentheses (PY-274)", async () => {
  const path = join(folder, "a) S 1 (b");
  copyFileSync("/bin/sleep", path);
  const child = spawn(path, ["30"], { stdio: "ignore", detached: true });
  const pid = child.pid as number;
  await until(() => readFileSync(`/proc/${pid}/stat`, "latin1").includes("(a) S 1 (b)"));
  const started = Number(execFileSync("ps", ["-o", "sid=", "-p", `${pid}`], { encoding: "utf8" }));
  expect(statOf(pid)).toMatchObject({ parent: process.pid, session: started, isDead: false });
  child.kill("SIGKILL");
  await until(() => child.signalCode !== null);
});

test("Family.signal() hits only what it has seen with the same start time (PY-274)", async () => {
  const [mine, stranger] = [1, 2].map(() => spawn("/bin/sleep", ["30"], { stdio: "ignore" })) as [
    ChildProcess,
    ChildProcess,
  ];
  const family = new Family(mine.pid as number, "/none");
  expect(family.signal(stranger.pid as number, "SIGKILL")).toBe(false);
  expect(family.signal(mine.pid as number, "SIGKILL")).toBe(true);
  await until(() => mine.signalCode !== null);
  expect(family.signal(mine.pid as number, "SIGKILL")).toBe(false);
  expect([family.look(), family.sweep(), family.cpuSeconds]).toEqual([[], [], undefined]);
  expect(lives(stranger.pid as number)).toBe(true);
  stranger.kill();
});

test("ProgramProcess signals nothing after the process is gone (PY-273, PY-244)", async () => {
  const script = join(folder, "script.py");
  writeFileSync(script, "import time; time.sleep(60)");
  const python = execFileSync("python3", ["-c", "import sys; print(sys.executable)"], {
    encoding: "utf8",
  }).trim();
  const program = new ProgramProcess({
    interpreter: python,
    script,
    directory: folder,
    memoryBytes: 2 ** 30,
    graceMs: 200,
    onMemory: () => {},
    onExit: () => {},
    onChunk: () => {},
  });
  program.end(false);
  program.end(false);
  expect(await program.closed).toMatchObject({ code: null, signal: "SIGTERM" });
  const signals: unknown[] = [];
  const kill = process.kill;
  process.kill = (...all) => {
    signals.push(all);
    return true;
  };
  try {
    program.kill();
    program.end(true);
    await new Promise((resolve) => void setTimeout(resolve, 400));
  } finally {
    process.kill = kill;
  }
  expect(signals).toEqual([]);
});

test("a program has the rights of the host's user (PY-291)", async () => {
  const program = "import os\nos.kill(os.getppid(), 0)\nreturn [os.getppid(), os.getuid()]";
  expect((await run(program)).value).toEqual([process.pid, process.getuid?.()]);
});
