import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import {
  BindingNameError,
  LogObserverError,
  PythonCodeRuntime,
  RequestError,
  RuntimeDisposedError,
} from "../src/index.ts";
import { readChild, Stage } from "../src/staging.ts";
import { create, failed, failure, interpreters, lives, ok, run } from "./host.ts";

// A folder of this file's own, so that other files' runs do not show up, and what is left does.
const temporary = mkdtempSync(join(tmpdir(), "runtime-test-"));
process.env.TMPDIR = temporary;
afterAll(() => {
  const left = readdirSync(temporary);
  rmSync(temporary, { recursive: true });
  expect(left).toEqual([]);
});

const stages = (): string[] => readdirSync(temporary);

/** Waits for a fact, at most 3 s. */
async function until(fact: () => boolean): Promise<void> {
  const deadline = performance.now() + 3_000;
  while (!fact()) {
    if (performance.now() > deadline) throw new Error("the fact did not come");
    await new Promise((resolve) => void setTimeout(resolve, 20));
  }
}

// Requests

test("run() rejects when the runtime is disposed (PY-037)", async () => {
  const runtime = await create();
  await runtime.dispose();
  await expect(runtime.run({ program: "return 1" })).rejects.toThrow(RuntimeDisposedError);
  await expect(runtime.run({ program: "return 1" })).rejects.toThrow(
    "Cannot run a program: PythonCodeRuntime is disposed, expected a call before the end of its disposal",
  );
});

test("run() rejects a bad request and starts nothing (PY-038 to PY-044)", async () => {
  const runtime = await create({ pythonBin: "python3" });
  const f = { f: () => 1 };
  await expect(
    runtime.run({ program: "", bindings: [{ globalName: "$tools", functions: f }] }),
  ).rejects.toThrow(BindingNameError);
  await expect(
    runtime.run({ program: "", bindings: [{ globalName: "lambda", functions: f }] }),
  ).rejects.toThrow(
    'Cannot declare bindings: bindings[0].globalName is "lambda", expected a word that neither TypeScript nor Python reserves',
  );
  for (const [request, text] of [
    [null, "request is null, expected an object"],
    [{ program: 1 }, "program is 1, expected a string"],
    [{ program: "", signal: {} }, "signal is an object, expected an AbortSignal"],
    [{ program: "", onLog: 1 }, "onLog is 1, expected a function of one string"],
    [{ program: "", maxWallMs: 0 }, "maxWallMs is 0, expected a positive number of milliseconds"],
  ] as const) {
    const running = runtime.run(request as never);
    await expect(running).rejects.toThrow(RequestError);
    await expect(running).rejects.toThrow(`Cannot run a program: ${text}`);
  }
});

test("run() resolves as abort when the signal is aborted before, after the bindings are checked (PY-049, PY-050)", async () => {
  const runtime = await create();
  const before = stages();
  const signal = AbortSignal.abort("not needed");
  expect(await runtime.run({ program: "return 1", signal })).toEqual(failed("abort", "not needed"));
  const odd = AbortSignal.abort(Object.create(null));
  expect(await runtime.run({ program: "return 1", signal: odd })).toEqual(
    failed("abort", "<unrenderable abort reason>"),
  );
  await expect(
    runtime.run({ program: "", signal, bindings: [{ globalName: "class", functions: {} }] }),
  ).rejects.toThrow(BindingNameError);
  expect(stages()).toEqual(before);
});

test("run() never raises the wall of the runtime (PY-051)", async () => {
  const result = await run("import time; time.sleep(30)", { maxWallMs: 400 });
  expect(result).toEqual(failed("timeout", "wall-clock ceiling exceeded: 400 ms"));
  const runtime = await create({ maxWallMs: 500 });
  expect(await runtime.run({ program: "import time; time.sleep(30)", maxWallMs: 60_000 })).toEqual(
    failed("timeout", "wall-clock ceiling exceeded: 500 ms"),
  );
});

// Staging

test("run() starts a copy of the child in a folder of its own, which is gone afterwards (PY-052, PY-053)", async () => {
  const runtime = await create();
  const program = `
import os, stat
with open('/proc/self/cmdline', 'rb') as file:
    script = file.read().split(b'\\0')[3].decode()
stage = os.path.dirname(os.path.dirname(script))
return [script, stat.S_IMODE(os.stat(stage).st_mode), os.getcwd(), os.listdir('.')]`;
  const results = await Promise.all([1, 2].map(() => runtime.run({ program })));
  const paths = results.map((result) => (result.value as [string, number, string, string[]])[0]);
  for (const [index, result] of results.entries()) {
    const stage = (paths[index] as string).replace("/child/__main__.py", "");
    expect(result.value).toEqual([`${stage}/child/__main__.py`, 0o700, `${stage}/work`, []]);
    expect(stage).toMatch(new RegExp(`^${tmpdir()}/code-runtime-node-${process.pid}-`));
    expect(existsSync(stage)).toBe(false);
  }
  expect(paths[0]).not.toBe(paths[1]);
});

test("run() succeeds when the program overwrites its own child, and the next run is unaffected (PY-057)", async () => {
  const runtime = await create();
  const program = `
import glob, os
with open('/proc/self/cmdline', 'rb') as file:
    folder = os.path.dirname(file.read().split(b'\\0')[3].decode())
for path in glob.glob(folder + '/*.py'):
    with open(path, 'w') as file:
        file.write('raise SystemExit(9)')
return await tools.f(1)`;
  const bindings = [{ globalName: "tools", functions: { f: (value: number) => value } }];
  expect(await runtime.run({ program, bindings })).toEqual(ok(1));
  expect(await runtime.run({ program: "return 2" })).toEqual(ok(2));
});

test("run() uses the child as it was at load when the package's files change (PY-057)", () => {
  const files = readChild();
  expect(files.map(({ name }) => name)).toContain("__main__.py");
  const stage = new Stage(files);
  try {
    for (const { name, content } of files) {
      expect(readFileSync(join(stage.path, "child", name)).equals(content)).toBe(true);
    }
  } finally {
    rmSync(stage.path, { recursive: true });
  }
});

test("run() resolves as worker-exit when the temporary folder is unusable (PY-055, PY-056)", async () => {
  const runtime = await create();
  const folder = mkdtempSync(join(tmpdir(), "unusable-"));
  const file = join(folder, "file");
  writeFileSync(file, "");
  const before = process.env.TMPDIR;
  process.env.TMPDIR = file;
  try {
    const result = await runtime.run({ program: "return 1" });
    expect(result.logs).toEqual([]);
    expect(failure(result)[0]).toBe("worker-exit");
    expect(failure(result)[1]).toMatch(
      /^the Python process was not started: staging failed: ENOTDIR/,
    );
    process.env.TMPDIR = folder;
    const files = [...readChild(), { name: "no/such/folder.py", content: Buffer.from("") }];
    expect(() => new Stage(files)).toThrow("ENOENT");
    expect(readdirSync(folder)).toEqual(["file"]);
  } finally {
    if (before === undefined) delete process.env.TMPDIR;
    else process.env.TMPDIR = before;
    rmSync(folder, { recursive: true });
  }
});

test("run() delivers the outcome when its folder cannot be removed (PY-058)", async () => {
  const program =
    "import os\nstage = os.path.realpath('..')\nos.rename(stage, stage + '-moved')\nreturn 1";
  expect(await run(program)).toEqual(ok(1));
  for (const name of stages().filter((name) => name.endsWith("-moved"))) {
    rmSync(join(tmpdir(), name), { recursive: true });
  }
});

// Start

test("run() gives the child its arguments, session, folder and TMPDIR only (PY-059, PY-060, PY-061, PY-063)", async () => {
  const program = `
import os, sys
with open('/proc/self/cmdline', 'rb') as file:
    arguments = file.read().split(b'\\0')[1:3]
own = {name: value for name, value in os.environ.items() if name != 'LC_CTYPE'}
return [
    [argument.decode() for argument in arguments],
    os.getsid(0) == os.getpid() == os.getpgid(0),
    own == {'TMPDIR': os.getcwd()},
    os.environ.get('LC_CTYPE', 'C.UTF-8'),
    sys.flags.isolated, sys.flags.utf8_mode, sys.stdout.encoding,
]`;
  expect(await run(program)).toEqual(ok([["-u", "-I"], true, true, "C.UTF-8", 1, 1, "utf-8"]));
});

test("run() gives the program an empty stdin (PY-062)", async () => {
  const program =
    "import sys\nprint(repr(sys.stdin.read()))\ntry:\n    input()\nexcept EOFError:\n    return 'end'";
  expect(await run(program)).toEqual(ok("end", ["''"]));
});

test("run() resolves as worker-exit when no process can be made (PY-064, PY-065)", async () => {
  const folder = mkdtempSync(join(tmpdir(), "interpreter-"));
  const path = join(folder, "python");
  writeFileSync(path, "#!/bin/sh\necho cpython 3 11 0\n", { mode: 0o755 });
  const runtime = await create({ pythonBin: path });
  rmSync(folder, { recursive: true });
  const before = stages();
  expect(await runtime.run({ program: "return 1" })).toEqual(
    failed("worker-exit", `the Python process was not started: spawn error: spawn ${path} ENOENT`),
  );
  expect(stages()).toEqual(before);
});

test.each([
  ["exits at once", "exit 3", "ended with code 3"],
  ["closes fd 3 and goes on", "exec 3>&-; sleep 0.2; exit 0", "ended with code 0"],
  ["sends no boot-ack", "echo nonsense >&3; exit 4", "ended with code 4"],
])(
  "run() resolves as worker-exit when the interpreter %s (PY-066, PY-067, PY-069)",
  async (_, text, how) => {
    const folder = mkdtempSync(join(tmpdir(), "interpreter-"));
    const path = join(folder, "python");
    writeFileSync(path, `#!/bin/sh\n[ "$2" = -c ] && { echo cpython 3 11 0; exit; }\n${text}\n`, {
      mode: 0o755,
    });
    expect(await run("return 1".repeat(100_000), { pythonBin: path })).toEqual(
      failed("worker-exit", `the Python process ${how} before completing`),
    );
    rmSync(folder, { recursive: true });
  },
);

test("run() applies the limits before the program runs (PY-070, PY-071, PY-072)", async () => {
  const program = `
import resource
names = ('RLIMIT_CORE', 'RLIMIT_CPU', 'RLIMIT_AS')
return [list(resource.getrlimit(getattr(resource, name))) for name in names]`;
  const bytes = 1_024 * 1_048_576;
  const result = await run(program, { cpuSeconds: 30, addressSpaceMb: 1_024 });
  expect(result).toEqual(
    ok([
      [0, 0],
      [30, 31],
      [bytes, bytes],
    ]),
  );
});

/** An interpreter under limits or signal settings that its parent has given it. */
function wrapped(setup: string): { path: string; remove: () => void } {
  const folder = mkdtempSync(join(tmpdir(), "interpreter-"));
  const path = join(folder, "python");
  writeFileSync(
    path,
    `#!/bin/bash\n${setup}\nexec python3 "$@"\n`.replace("python3", which("python3")),
    { mode: 0o755 },
  );
  return { path, remove: () => rmSync(folder, { recursive: true }) };
}

const which = (name: string): string =>
  (process.env.PATH ?? "")
    .split(":")
    .map((folder) => join(folder, name))
    .find(existsSync) as string;

test("run() keeps limits that are stricter than its own (PY-073, PY-074)", async () => {
  const { path, remove } = wrapped("ulimit -S -t 5; ulimit -v 262144");
  const program =
    "import resource\nreturn [resource.getrlimit(resource.RLIMIT_CPU)[0], resource.getrlimit(resource.RLIMIT_AS)[0]]";
  const small = { maxLogBytes: 65_536, maxValueBytes: 32_768 };
  expect(await run(program, { pythonBin: path, cpuSeconds: 30, ...small })).toEqual(
    ok([5, 256 * 1_048_576]),
  );
  remove();
});

test("run() fails at boot when an inherited limit leaves no room for the budgets (PY-075, PY-076)", async () => {
  const { path, remove } = wrapped("ulimit -v 131072");
  const [kind, message] = failure(await run("return 1", { pythonBin: path }));
  expect(kind).toBe("exception");
  expect(message).toContain("limit");
  expect(message).not.toContain("code-runtime-");
  remove();
});

test("run() ends a CPU loop when the parent ignores SIGXCPU (PY-077)", async () => {
  const { path, remove } = wrapped("trap '' XCPU");
  expect(failure(await run("while True: pass", { pythonBin: path, cpuSeconds: 1 }))).toEqual([
    "timeout",
    "CPU limit reached: at most 1 s of processor time (cpuSeconds)",
  ]);
  remove();
});

// Ends

test.each([
  ["exits with 7", "PY-216", "import os; os._exit(7)", "ended with code 7"],
  ["exits with 0", "PY-216", "import os; os._exit(0)", "ended with code 0"],
  ["kills itself", "PY-217", "import os; os.kill(os.getpid(), 9)", "was ended by SIGKILL"],
  ["crashes", "PY-217", "import ctypes; ctypes.string_at(0)", "was ended by SIGSEGV"],
  ["aborts", "PY-217", "import os; os.abort()", "was ended by SIGABRT"],
  [
    "terminates itself",
    "PY-217",
    "import os, signal; signal.signal(15, signal.SIG_DFL); os.kill(os.getpid(), 15)",
    "was ended by SIGTERM",
  ],
  [
    "sends itself SIGXCPU without having used CPU time",
    "PY-218",
    "import os; os.kill(os.getpid(), 24)",
    "was ended by SIGXCPU",
  ],
])("run() ends as worker-exit when the program %s (%s)", async (_, _spec, program, how) => {
  expect(await run(program)).toEqual(
    failed("worker-exit", `the Python process ${how} before completing`),
  );
});

test("run() keeps what was printed before any end (PY-128, PY-262)", async () => {
  const printed =
    "import os, sys\nprint('first')\nsys.stdout.write('open'); sys.stdout.flush()\nos.write(1, b'native')\n";
  const logs = ["first", "open", "native"];
  const killed = await run(`${printed}os.kill(os.getpid(), 9)`);
  expect(killed).toEqual(
    failed("worker-exit", "the Python process was ended by SIGKILL before completing", logs),
  );
  const late = await run(`${printed}import time; time.sleep(30)`, { maxWallMs: 800 });
  expect(late).toEqual(failed("timeout", "wall-clock ceiling exceeded: 800 ms", logs));
});

test("run() honours a done that was written just before an exit (PY-219)", async () => {
  const program = "import atexit, os\natexit.register(lambda: os._exit(5))\nreturn 'x' * 3_000_000";
  expect((await run(program)).value).toBe("x".repeat(3_000_000));
});

test("run() ends a CPU loop as timeout (PY-234, PY-235)", async () => {
  expect(await run("print('started')\nwhile True: pass", { cpuSeconds: 1 })).toEqual(
    failed("timeout", "CPU limit reached: at most 1 s of processor time (cpuSeconds)", ["started"]),
  );
  expect(await run("import time; time.sleep(1.5)\nreturn 1", { cpuSeconds: 1 })).toEqual(ok(1));
});

test("run() ends a loop as timeout when the program ignores SIGXCPU and the hard limit kills it (PY-236, 5.1 item 9)", async () => {
  const program = "import signal\nsignal.signal(signal.SIGXCPU, signal.SIG_IGN)\nwhile True: pass";
  expect(failure(await run(program, { cpuSeconds: 1 }))).toEqual([
    "timeout",
    "CPU limit reached: at most 1 s of processor time (cpuSeconds)",
  ]);
});

test("run() ends as worker-exit naming memoryMb when the tree is over it", async () => {
  const program =
    "import time\nx = bytearray(300 * 1048576)\nfor i in range(0, len(x), 4096): x[i] = 1\ntime.sleep(20)";
  expect(await run(program, { memoryMb: 128 })).toEqual(
    failed(
      "worker-exit",
      "memory limit reached: the program and its processes used more than 128 MiB (memoryMb)",
    ),
  );
  const forks = `import os, time\nfor _ in range(4):\n    if os.fork() == 0:\n        x = bytearray(60 * 1048576)\n        for i in range(0, len(x), 4096): x[i] = 1\n        time.sleep(20)\n        os._exit(0)\ntime.sleep(20)`;
  expect(failure(await run(forks, { memoryMb: 128 }))[0]).toBe("worker-exit");
});

test("run() ends as timeout when the wall is over, within its grace (PY-252, PY-253)", async () => {
  const started = performance.now();
  expect(await run("import time; time.sleep(30)", { maxWallMs: 500, graceMs: 200 })).toEqual(
    failed("timeout", "wall-clock ceiling exceeded: 500 ms"),
  );
  expect(performance.now() - started).toBeLessThan(2_000);
});

test("run() starts the wall when a process is assigned, not while it waits", async () => {
  const runtime = await create({ maxConcurrentRuns: 1, maxWallMs: 2_500 });
  const program = "import time; time.sleep(1)\nreturn 1";
  const results = await Promise.all([1, 2, 3].map(() => runtime.run({ program })));
  expect(results).toEqual([ok(1), ok(1), ok(1)]);
});

test("run() ends as abort when the signal fires, and leaves no listener (PY-254, PY-263)", async () => {
  const controller = new AbortController();
  let listeners = 0;
  const { signal } = controller;
  const [add, remove] = [
    signal.addEventListener.bind(signal),
    signal.removeEventListener.bind(signal),
  ];
  signal.addEventListener = ((...all: Parameters<typeof add>) => {
    listeners++;
    add(...all);
  }) as typeof add;
  signal.removeEventListener = ((...all: Parameters<typeof remove>) => {
    listeners--;
    remove(...all);
  }) as typeof remove;
  const running = run("print('on')\nimport time; time.sleep(30)", {
    signal,
    onLog: () => controller.abort(new Error("enough")),
  });
  expect(await running).toEqual(failed("abort", "enough", ["on"]));
  expect(listeners).toBe(0);
  controller.abort("again");
});

test("run() ends as abort when the reason does not convert (PY-255)", async () => {
  const controller = new AbortController();
  const running = run("print('on')\nimport time; time.sleep(30)", {
    signal: controller.signal,
    onLog: () =>
      controller.abort({
        toString: () => {
          throw new Error("no");
        },
      }),
  });
  expect(await running).toEqual(failed("abort", "<unrenderable abort reason>", ["on"]));
});

test("run() ends as abort when it is aborted in the same turn, during boot, or while it waits (PY-054, PY-256)", async () => {
  const runtime = await create({ maxConcurrentRuns: 1 });
  const controllers = [1, 2, 3].map(() => new AbortController());
  const before = stages();
  const runs = controllers.map(({ signal }) =>
    runtime.run({ program: "import time; time.sleep(30)", signal }),
  );
  controllers[2]?.abort("waiting");
  expect(await runs[2]).toEqual(failed("abort", "waiting"));
  controllers[1]?.abort("waiting too");
  await new Promise((resolve) => void setTimeout(resolve, 15));
  controllers[0]?.abort("boot");
  expect(await Promise.all(runs)).toEqual(
    ["boot", "waiting too", "waiting"].map((text) => failed("abort", text)),
  );
  expect(await runtime.run({ program: "return 1" })).toEqual(ok(1));
  expect(stages()).toEqual(before);
});

test("dispose() ends every run as abort and waits for the processes (PY-257, PY-258, PY-263)", async () => {
  const runtime = await PythonCodeRuntime.create({ graceMs: 500, bindingGraceMs: 100 });
  const pids: number[] = [];
  const program = "import os\nawait tools.pid(os.getpid())\nimport time; time.sleep(30)";
  const bindings = [{ globalName: "tools", functions: { pid: (pid: number) => pids.push(pid) } }];
  const runs = [1, 2, 3].map(() => runtime.run({ program, bindings }));
  await until(() => pids.length === 3);
  const same = runtime.run({ program: "return 1" });
  await runtime.dispose();
  expect(pids.filter(lives)).toEqual([]);
  expect(await Promise.all([...runs, same])).toEqual(
    [1, 2, 3, 4].map(() => failed("abort", "disposed")),
  );
  await runtime.dispose();
});

test("dispose() waits for a program that traps SIGTERM until it is killed (PY-259, PY-264, PY-265)", async () => {
  const runtime = await PythonCodeRuntime.create({ graceMs: 400 });
  let pid = 0;
  const program =
    "import os, signal, time\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\nawait tools.pid(os.getpid())\nwhile True: time.sleep(0.05)";
  const functions = { pid: (seen: number) => (pid = seen) };
  const running = runtime.run({ program, bindings: [{ globalName: "tools", functions }] });
  await until(() => pid > 0);
  const started = performance.now();
  await runtime.dispose();
  expect(performance.now() - started).toBeGreaterThan(300);
  expect(lives(pid)).toBe(false);
  expect(await running).toEqual(failed("abort", "disposed"));
});

test("run() lets finally blocks and exit handlers run after done", async () => {
  const folder = mkdtempSync(join(tmpdir(), "exit-"));
  const program = `
import asyncio, atexit
def note(text):
    with open('${folder}/' + text, 'w'):
        pass
async def pending():
    try:
        await asyncio.sleep(60)
    finally:
        note('finally')
task = asyncio.ensure_future(pending())
await asyncio.sleep(0)
atexit.register(note, 'atexit')
return 1`;
  expect(await run(program)).toEqual(ok(1));
  expect(readdirSync(folder).sort()).toEqual(["atexit", "finally"]);
  rmSync(folder, { recursive: true });
});

const ESCAPES: readonly (readonly [string, string, string])[] = [
  ["a grandchild in a session of its own that holds the pipes", "PY-267", "os.setsid()"],
  [
    "a grandchild in a session of its own without the pipes",
    "PY-268",
    "os.setsid(); os.close(1); os.close(2); os.close(0)",
  ],
  [
    "a child of the same group that ignores SIGTERM",
    "PY-269",
    "signal.signal(signal.SIGTERM, signal.SIG_IGN); os.close(1); os.close(2)",
  ],
  ["a grandchild in a group of its own", "PY-268", "os.setpgid(0, 0)"],
  ["a grandchild that left the folder too", "5.3 item 11", "os.setsid(); os.chdir('/')"],
];

test.each(ESCAPES)(
  "run() leaves nothing behind when the program starts %s (%s; PY-260, PY-266, PY-275)",
  async (_, _spec, leave) => {
    const program = `
import os, signal, time
reader, writer = os.pipe()
if os.fork() == 0:
    ${leave}
    if os.fork() == 0:
        os.write(writer, str(os.getpid()).encode() + b'\\n')
        os.close(writer)
        time.sleep(60)
    os._exit(0)
os.close(writer)
text = b''
while not text.endswith(b'\\n'):
    text += os.read(reader, 100)
return int(text)`;
    const started = performance.now();
    const { value } = await run(program);
    expect(lives(value as number)).toBe(false);
    expect(performance.now() - started).toBeLessThan(4_000);
  },
);

test("run() ends and leaves nothing when the program is a fork bomb of 200", async () => {
  const folder = mkdtempSync(join(tmpdir(), "bomb-"));
  const program = `
import os, time
def bomb(depth):
    for _ in range(3):
        if os.fork() == 0:
            open('${folder}/' + str(os.getpid()), 'w').close()
            os.setsid()
            if len(os.listdir('${folder}')) < 200:
                bomb(depth + 1)
            time.sleep(60)
            os._exit(0)
bomb(0)
time.sleep(60)`;
  expect(failure(await run(program, { maxWallMs: 2_500 }))[0]).toMatch(/timeout|worker-exit/);
  const pids = readdirSync(folder).map(Number);
  expect(pids.length).toBeGreaterThan(20);
  expect(pids.filter(lives)).toEqual([]);
  rmSync(folder, { recursive: true });
});

test("run() ends when the program stops itself and its group", async () => {
  const started = performance.now();
  const result = await run("import os, signal\nos.killpg(0, signal.SIGSTOP)", { maxWallMs: 600 });
  expect(result).toEqual(failed("timeout", "wall-clock ceiling exceeded: 600 ms"));
  expect(performance.now() - started).toBeLessThan(4_000);
});

test("run() ends at once when the host loop was blocked past both timers (PY-271)", async () => {
  let pid = 0;
  const functions = {
    block: (seen: number) => {
      pid = seen;
      setTimeout(() => {
        const end = performance.now() + 1_200;
        while (performance.now() < end);
      }, 50);
      return 1;
    },
  };
  const program =
    "import os, signal, time\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\nawait tools.block(os.getpid())\nwhile True: time.sleep(0.05)";
  const result = await run(program, {
    bindings: [{ globalName: "tools", functions }],
    maxWallMs: 400,
    graceMs: 200,
  });
  expect(result).toEqual(failed("timeout", "wall-clock ceiling exceeded: 400 ms"));
  expect(lives(pid)).toBe(false);
});

// Output

test("run() tells an observer of each entry while the program runs", async () => {
  const told: string[] = [];
  const seen: number[] = [];
  const functions = { count: () => seen.push(told.length) };
  const program =
    "print('a')\nprint('b')\nimport asyncio; await asyncio.sleep(0.05)\nawait tools.count(None)\nprint('c')";
  const result = await run(program, {
    bindings: [{ globalName: "tools", functions }],
    onLog: (text) => told.push(text),
  });
  expect(result).toEqual(ok(undefined, ["a", "b", "c"]));
  expect([told, seen]).toEqual([["a", "b", "c"], [2]]);
});

test("run() rejects with the result when an observer throws", async () => {
  const running = run("print('a')\nprint('b')\nreturn 1", {
    onLog: () => {
      throw new Error("observer");
    },
  });
  await expect(running).rejects.toThrow(LogObserverError);
  await running.catch((error: LogObserverError) => {
    expect(error.result).toEqual(ok(1, ["a", "b"]));
    expect(error.cause).toEqual(new Error("observer"));
  });
});

test("run() drops logs behind one marker and goes on when they are over their budget (PY-164, PY-173, PY-174)", async () => {
  const marker = "[code-runtime] logs truncated at 64 bytes";
  expect(
    await run("import os\nprint('x' * 61)\nos.write(1, b'late\\n')\nreturn 1", { maxLogBytes: 64 }),
  ).toEqual({
    logs: [marker],
    logsTruncated: true,
    value: 1,
  });
  expect(await run("print('x' * 60)\nreturn 1", { maxLogBytes: 64 })).toEqual(
    ok(1, ["x".repeat(60)]),
  );
});

test("run() takes native output, line by line, whatever its chunks (PY-149, PY-151, PY-160)", async () => {
  const program = `
import os, sys
os.write(1, b'one\\ntw'); os.write(1, b'o\\n')
for byte in 'é€😀'.encode(): os.write(1, bytes([byte]))
os.write(1, b'\\n')
sys.__stdout__.write('dunder\\n')
return 1`;
  expect(await run(program)).toEqual(ok(1, ["one", "two", "é€😀", "dunder"]));
});

test("run() survives a flood without line end on a pipe (PY-155)", async () => {
  const result = await run("import os\nfor _ in range(500): os.write(1, b'x' * 4096)\nreturn 1", {
    maxLogBytes: 4_096,
  });
  expect(result).toEqual({
    logs: ["[code-runtime] logs truncated at 4096 bytes"],
    logsTruncated: true,
    value: 1,
  });
});

test("run() tells no value, None and a value apart", async () => {
  expect("value" in (await run("x = 1"))).toBe(false);
  expect("value" in (await run("return"))).toBe(false);
  expect(await run("return None")).toEqual(ok(null));
  expect(await run("return '\\ud800'")).toEqual(ok("\ud800"));
});

test("run() refuses a value over its budget, whatever is in it", async () => {
  const limit = { maxValueBytes: 100 };
  expect(await run("return 'x' * 98", limit)).toEqual(ok("x".repeat(98)));
  expect(await run("return 'x' * 99", limit)).toEqual(
    failed("output-limit", "The value is larger than 100 bytes"),
  );
});

test("run() reports a program's exception with its own lines", async () => {
  const [kind, message] = failure(await run("def f():\n    raise ValueError('x')\nf()"));
  expect(kind).toBe("exception");
  expect(message).toContain("raise ValueError('x')");
  expect(message).not.toContain("code-runtime-");
});

test.each(interpreters())("run() works when the interpreter is %s", async (pythonBin) => {
  const program =
    "import sys\nprint(sys.version_info[:2] >= (3, 10))\nreturn await tools.f({'a': [1, 2.5]})";
  const functions = { f: (value: { a: number[] }) => value.a };
  expect(await run(program, { pythonBin, bindings: [{ globalName: "tools", functions }] })).toEqual(
    ok([1, 2.5], ["True"]),
  );
});
