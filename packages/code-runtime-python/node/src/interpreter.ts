/** Finds the interpreter and checks, once for each runtime, that it is a CPython of 3.10 or later. */

import { type ChildProcess, spawn } from "node:child_process";
import { accessSync, constants, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { delimiter, isAbsolute, join, resolve } from "node:path";
import { ConfigError, describe } from "./errors.ts";

const PROBE_MS = 5_000;
const PROBE_BYTES = 1_024;
const PROBE = "import sys; print(sys.implementation.name, *sys.version_info[:3])";
const MIN_MINOR = 10;

/**
 * Resolve a name or path to an absolute path.
 *
 * A name is looked for in the absolute folders of PATH only, so that the working directory never decides.
 *
 * @param pythonBin - A name, or a path with a slash.
 * @param path - The search path.
 * @returns An absolute path of an executable regular file.
 * @throws ConfigError when there is none.
 */
export function resolveInterpreter(
  pythonBin: string,
  path: string = process.env.PATH ?? "",
): string {
  if (pythonBin.includes("/")) {
    const absolute = resolve(pythonBin);
    if (isExecutableFile(absolute)) return absolute;
    throw new ConfigError("pythonBin", describe(pythonBin), "an executable regular file");
  }
  for (const folder of path.split(delimiter)) {
    const candidate = join(folder, pythonBin);
    if (isAbsolute(folder) && isExecutableFile(candidate)) return candidate;
  }
  throw new ConfigError("pythonBin", describe(pythonBin), "a name that resolves on PATH");
}

function isExecutableFile(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return statSync(path).isFile();
  } catch {
    return false;
  }
}

/**
 * Ask an interpreter for its version.
 *
 * @param path - An absolute path.
 * @param timeoutMs - When it is killed.
 * @throws ConfigError when it is no CPython of 3.10 or later, or does not answer.
 */
export async function probeInterpreter(path: string, timeoutMs: number = PROBE_MS): Promise<void> {
  const answer = await ask(path, timeoutMs);
  const match = /^(\S+) (\d+) (\d+) (\d+)$/.exec(answer.trim());
  if (match === null) {
    throw new ConfigError(
      "pythonBin",
      describe(path),
      "an interpreter that reports a CPython version",
    );
  }
  const [, implementation = "", major = "", minor = "", patch = ""] = match;
  if (implementation !== "cpython") {
    throw new ConfigError("pythonBin", `${describe(path)} (${implementation})`, "CPython");
  }
  if (Number(major) < 3 || (Number(major) === 3 && Number(minor) < MIN_MINOR)) {
    const seen = `${describe(path)} (CPython ${major}.${minor}.${patch})`;
    throw new ConfigError("pythonBin", seen, "CPython 3.10 or later");
  }
}

async function ask(path: string, timeoutMs: number): Promise<string> {
  const failed = (why: string): ConfigError =>
    new ConfigError(
      "pythonBin",
      `${describe(path)}, whose version probe failed (${why})`,
      "CPython",
    );
  return await new Promise((done, fail) => {
    let child: ChildProcess;
    try {
      child = spawn(path, ["-I", "-c", PROBE], {
        env: { TMPDIR: tmpdir() },
        stdio: ["ignore", "pipe", "ignore"],
        detached: true,
      });
    } catch (error) {
      fail(failed(String(error)));
      return;
    }
    let text = "";
    let why = "";
    const kill = (reason: string): void => {
      why ||= reason;
      // The group: a wrapper script may have started the interpreter, and ignore signals itself.
      try {
        if (child.pid !== undefined) process.kill(-child.pid, "SIGKILL");
      } catch {
        child.kill("SIGKILL");
      }
      child.stdout?.destroy();
    };
    const timer = setTimeout(() => kill(`no answer after ${timeoutMs} ms`), timeoutMs);
    child.stdout?.on("data", (chunk: Buffer) => {
      text += chunk.toString("utf8");
      if (text.length > PROBE_BYTES) kill(`more than ${PROBE_BYTES} bytes of output`);
    });
    child.stdout?.on("error", () => {});
    child.on("error", (error) => {
      clearTimeout(timer);
      fail(failed(error.message));
    });
    child.on("close", (code, signal) => {
      clearTimeout(timer);
      if (why === "" && code !== 0) why = code === null ? `signal ${signal}` : `exit code ${code}`;
      if (why === "") done(text);
      else fail(failed(why));
    });
  });
}
