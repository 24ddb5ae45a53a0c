import { chmodSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, relative } from "node:path";
import { afterAll, expect, test } from "vitest";
import { PythonCodeRuntime } from "../src/index.ts";
import { probeInterpreter, resolveInterpreter } from "../src/interpreter.ts";

const folder = mkdtempSync(join(tmpdir(), "interpreter-"));
afterAll(() => rmSync(folder, { recursive: true }));

function script(name: string, text: string): string {
  const path = join(folder, name);
  writeFileSync(path, `#!/bin/sh\n${text}\n`);
  chmodSync(path, 0o755);
  return path;
}

test("resolveInterpreter() takes the first absolute PATH folder that has it (PY-021, PY-022, PY-023)", () => {
  const [empty, holder, other] = ["a", "b", "c"].map((name) => join(folder, name));
  for (const path of [empty, holder, other]) mkdirSync(path as string);
  mkdirSync(join(empty as string, "py"));
  for (const path of [holder, other]) {
    writeFileSync(join(path as string, "py"), "");
    chmodSync(join(path as string, "py"), 0o755);
  }
  const paths = ["", ".", relative(process.cwd(), holder as string), empty, holder, other].join(
    ":",
  );
  expect(resolveInterpreter("py", paths)).toBe(join(holder as string, "py"));
  expect(() => resolveInterpreter("py", `:.:${relative(process.cwd(), holder as string)}`)).toThrow(
    'Cannot configure PythonCodeRuntime: pythonBin is "py", expected a name that resolves on PATH',
  );
});

test("resolveInterpreter() refuses a name when PATH has none (PY-024)", () => {
  expect(() => resolveInterpreter("no-such-python")).toThrow(
    'Cannot configure PythonCodeRuntime: pythonBin is "no-such-python", expected a name that resolves on PATH',
  );
});

test("resolveInterpreter() refuses a path when it is no executable regular file (PY-025)", () => {
  writeFileSync(join(folder, "plain"), "");
  for (const name of ["missing", "plain", "."]) {
    const path = `${folder}/${name}`;
    expect(() => resolveInterpreter(path)).toThrow(
      `Cannot configure PythonCodeRuntime: pythonBin is ${JSON.stringify(path)}, expected an executable regular file`,
    );
  }
});

test("resolveInterpreter() resolves a relative path once against the working directory (PY-026)", () => {
  const path = script("relative", "exit 0");
  const given = relative(process.cwd(), path);
  expect(given).toContain("/");
  expect(resolveInterpreter(given)).toBe(path);
});

test.each([
  [
    "prints something else",
    "PY-031",
    "exec /bin/echo hello",
    "an interpreter that reports a CPython version",
  ],
  ["is PyPy", "PY-032", "echo pypy 3 10 14", "CPython"],
  ["is too old", "PY-033", "echo cpython 3 9 6", "CPython 3.10 or later"],
  ["is much too old", "PY-033", "echo cpython 2 99 0", "CPython 3.10 or later"],
  ["exits with an error", "PY-030", "exit 3", "CPython"],
  ["prints too much", "PY-030", "yes", "CPython"],
])("probeInterpreter() refuses an interpreter when it %s (%s)", async (name, _, text, expected) => {
  const path = script(name.replaceAll(" ", "-"), text);
  await expect(probeInterpreter(path)).rejects.toThrow(new RegExp(`expected ${expected}$`));
});

test("probeInterpreter() names the found version when it is too old (PY-033)", async () => {
  const path = script("old", "echo cpython 3 9 6");
  await expect(probeInterpreter(path)).rejects.toThrow(
    `Cannot configure PythonCodeRuntime: pythonBin is "${path}" (CPython 3.9.6), expected CPython 3.10 or later`,
  );
});

test("probeInterpreter() takes a later version (PY-033)", async () => {
  await probeInterpreter(script("later", "echo cpython 4 0 0"));
  await probeInterpreter(script("least", "echo cpython 3 10 0"));
});

test("probeInterpreter() kills a wrapper that ignores SIGTERM (PY-029, PY-030)", async () => {
  const path = script("stubborn", "trap '' TERM; while :; do sleep 1; done");
  const started = performance.now();
  await expect(probeInterpreter(path, 300)).rejects.toThrow(
    `pythonBin is "${path}", whose version probe failed (no answer after 300 ms), expected CPython`,
  );
  expect(performance.now() - started).toBeLessThan(4_000);
});

test("probeInterpreter() gives isolated mode and TMPDIR only (PY-029)", async () => {
  const path = script(
    "env",
    `[ "$1" = -I ] && [ "$(env | grep -v -e ^PWD -e ^_ -e ^SHLVL)" = "TMPDIR=${tmpdir()}" ] && echo cpython 3 11 0`,
  );
  await probeInterpreter(path);
});

test("run() uses the interpreter found at load when PATH changes, and does not probe again (PY-028, PY-035)", async () => {
  const real = resolveInterpreter("python3");
  const bin = join(folder, "bin");
  mkdirSync(bin);
  script("bin/python3", `echo x >> ${folder}/count; exec ${real} "$@"`);
  const before = process.env.PATH;
  process.env.PATH = `${bin}:${before}`;
  let runtime: PythonCodeRuntime;
  try {
    runtime = await PythonCodeRuntime.create();
  } finally {
    process.env.PATH = "/nonexistent";
  }
  try {
    expect(await runtime.run({ program: "return 1" })).toMatchObject({ value: 1 });
    const { readFileSync } = await import("node:fs");
    expect(readFileSync(join(folder, "count"), "utf8")).toBe("x\nx\n");
    // Deleted after load (PY-034).
    rmSync(bin, { recursive: true });
    const lost = await runtime.run({ program: "return 1" });
    expect(lost).toEqual({
      logs: [],
      logsTruncated: false,
      error: {
        kind: "worker-exit",
        message: `the Python process was not started: spawn error: spawn ${bin}/python3 ENOENT`,
      },
    });
  } finally {
    process.env.PATH = before;
    await runtime.dispose();
  }
});

test("create() takes a symbolic link to an interpreter (PY-036)", async () => {
  const link = join(folder, "link");
  symlinkSync(resolveInterpreter("python3"), link);
  const runtime = await PythonCodeRuntime.create({ pythonBin: link });
  expect(await runtime.run({ program: "return 2" })).toMatchObject({ value: 2 });
  await runtime.dispose();
});
