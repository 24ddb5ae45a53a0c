import { existsSync, readdirSync, readFileSync } from "node:fs";
import { afterAll } from "vitest";
import {
  type CodeRunRequest,
  type CodeRunResult,
  PythonCodeRuntime,
  type PythonConfig,
} from "../src/index.ts";

const runtimes: PythonCodeRuntime[] = [];

/** Makes a runtime that the file disposes at its end; grace times are short. */
export async function create(config: PythonConfig = {}): Promise<PythonCodeRuntime> {
  const runtime = await PythonCodeRuntime.create({ graceMs: 500, bindingGraceMs: 100, ...config });
  runtimes.push(runtime);
  return runtime;
}

afterAll(async () => {
  await Promise.all(runtimes.map((runtime) => runtime.dispose()));
});

/** Runs one program on a runtime of its own. */
export async function run(
  program: string,
  {
    bindings,
    signal,
    onLog,
    maxWallMs,
    ...config
  }: PythonConfig & Omit<CodeRunRequest, "program"> = {},
): Promise<CodeRunResult> {
  const runtime = await create(config);
  const wall = maxWallMs === undefined ? {} : { maxWallMs };
  const result = await runtime.run({ program, bindings, signal, onLog, ...wall });
  await runtime.dispose();
  return result;
}

/** A result without error. */
export const ok = (value?: unknown, logs: string[] = []): unknown =>
  value === undefined ? { logs, logsTruncated: false } : { logs, logsTruncated: false, value };

/** A result with an error. */
export const failed = (kind: string, message: string, logs: string[] = []): unknown => ({
  logs,
  logsTruncated: false,
  error: { kind, message },
});

/** The kind of a failure, and its message. */
export const failure = (result: CodeRunResult): [string, string] => [
  result.error?.kind ?? "",
  result.error?.message ?? "",
];

/** Whether a process lives; zombies do not. */
export function lives(pid: number): boolean {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, "latin1");
    return !/\) [ZX] /.test(stat);
  } catch {
    return false;
  }
}

/** The interpreters of 3.10 to 3.13 that this machine has, the default one first. */
export function interpreters(): string[] {
  const folder = `${process.env.HOME}/.pyenv/versions`;
  if (!existsSync(folder)) return ["python3"];
  const found = readdirSync(folder)
    .filter((name) => /^3\.1[0-3]\./.test(name))
    .map((name) => `${folder}/${name}/bin/python`);
  return ["python3", ...found.filter(existsSync)];
}
