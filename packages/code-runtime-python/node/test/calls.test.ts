import { expect, test } from "vitest";
import type { BindingFunction } from "../src/index.ts";
import { create, failed, failure, ok, run } from "./host.ts";

const tools = (functions: Record<string, BindingFunction>) => [
  { globalName: "tools", functions, errorClass: { name: "ToolError", memberNameProperty: "tool" } },
];

test("run() calls a binding with the argument and gives its result (PY-176)", async () => {
  const seen: unknown[] = [];
  const add = ({ a, b }: { a: number; b: number }): number => {
    seen.push([a, b]);
    return a + b;
  };
  expect(
    await run("return await tools.add({'a': 1, 'b': 2})", { bindings: tools({ add }) }),
  ).toEqual(ok(3));
  expect(seen).toEqual([[1, 2]]);
});

test.each([
  ["an Error", new Error("no such city"), "no such city"],
  ["a string", "plain", "plain"],
  ["a number", 7, "7"],
  ["an object that does not convert", Object.create(null), "<unrenderable binding error>"],
  ["an Error without message", Object.assign(new Error(), { message: undefined }), "undefined"],
])(
  "run() gives the program the text of what a binding throws when it is %s (PY-183, PY-184, PY-187)",
  async (_, thrown, text) => {
    const program = `
try:
    await tools.fail(None)
except ToolError as error:
    return [str(error), error.tool, type(error).__mro__[1] is Exception]`;
    const fail = (): never => {
      throw thrown;
    };
    expect(await run(program, { bindings: tools({ fail }) })).toEqual(ok([text, "fail", true]));
  },
);

test.each([
  ["NaN", Number.NaN, "$: NaN is not JSON"],
  ["undefined", undefined, "$: undefined is not JSON"],
  ["a class instance", { at: new Date(0) }, "$.at: Date is not JSON"],
])("run() refuses a result when it is %s (PY-188)", async (_, value, reason) => {
  const program = "try:\n    await tools.f(1)\nexcept ToolError as error:\n    return str(error)";
  expect(await run(program, { bindings: tools({ f: () => value }) })).toEqual(
    ok(`Binding resolution must be lossless JSON: ${reason}`),
  );
});

test("run() refuses a lossy argument in the program, and later calls go on (PY-185, PY-186)", async () => {
  const seen: unknown[] = [];
  const program = `
try:
    await tools.f(float('nan'))
except ToolError as error:
    print(type(error).__name__)
return await tools.f(2)`;
  const f = (value: unknown): unknown => {
    seen.push(value);
    return value;
  };
  expect(await run(program, { bindings: tools({ f }) })).toEqual(ok(2, ["ToolError"]));
  expect(seen).toEqual([2]);
});

test("run() delivers large and deep values both ways (PY-189, PY-190, PY-191)", async () => {
  const program = `
deep = []
for _ in range(100_000):
    deep = [deep]
echoed = await tools.f(deep)
depth = 0
while echoed:
    echoed, depth = echoed[0], depth + 1
exact = await tools.f([2**60, 1.0, -(2**53), 0.1])
long = await tools.f('x' * (4 * 1048576))
wide = await tools.f(['y' * 4096] * 50)
return [depth, exact == [2**60, 1, -(2**53), 0.1], type(exact[1]).__name__, len(long), len(wide)]`;
  expect(await run(program, { bindings: tools({ f: (value: unknown) => value }) })).toEqual(
    ok([100_000, true, "int", 4 * 1_048_576, 50]),
  );
});

test("run() serves 5,000 calls of one gather, instant and slow (PY-196, PY-281, PY-283)", async () => {
  const program =
    "import asyncio\nreturn sum(await asyncio.gather(*[tools.f(i) for i in range(5000)]))";
  let most = 0;
  let now = 0;
  const slow = async (value: number): Promise<number> => {
    most = Math.max(most, ++now);
    await new Promise((resolve) => void setTimeout(resolve, 1));
    now--;
    return value;
  };
  expect(await run(program, { bindings: tools({ f: (value: number) => value }) })).toEqual(
    ok(12_497_500),
  );
  expect(await run(program, { bindings: tools({ f: slow }) })).toEqual(ok(12_497_500));
  expect(most).toBeLessThanOrEqual(1_024);
});

test("run() delivers a value when exactly 1,024 calls are outstanding (PY-197)", async () => {
  const program = `
import asyncio
tasks = [asyncio.ensure_future(tools.f(i)) for i in range(1024)]
await asyncio.sleep(0.2)
return 'done'`;
  const never = (): Promise<never> => new Promise(() => {});
  expect(await run(program, { bindings: tools({ f: never }) })).toEqual(ok("done"));
});

test("run() takes no more than 1,024 calls when none ever settles, and the wall ends it (PY-282)", async () => {
  let calls = 0;
  const never = (): Promise<never> => {
    calls++;
    return new Promise(() => {});
  };
  const program = "import asyncio\nawait asyncio.gather(*[tools.f(i) for i in range(5000)])";
  const result = await run(program, { bindings: tools({ f: never }), maxWallMs: 1_500 });
  expect(result).toEqual(failed("timeout", "wall-clock ceiling exceeded: 1500 ms"));
  expect(calls).toBe(1_024);
});

test("run() delivers a value when the program returns while a large reply is written (PY-198)", async () => {
  const program = `
import asyncio
task = asyncio.ensure_future(tools.big(None))
await tools.quick(None)
return 'done'`;
  const big = (): string => "x".repeat(32 * 1_048_576);
  expect(await run(program, { bindings: tools({ big, quick: () => 1 }) })).toEqual(ok("done"));
});

test("run() drops a result when it comes after the wall (PY-192, PY-261)", async () => {
  let walked = 0;
  const late = async (): Promise<unknown> => {
    await new Promise((resolve) => void setTimeout(resolve, 900));
    return {
      get value() {
        walked++;
        return 1;
      },
    };
  };
  const result = await run("return await tools.late(None)", {
    bindings: tools({ late }),
    maxWallMs: 500,
    bindingGraceMs: 2_000,
  });
  expect(result).toEqual(failed("timeout", "wall-clock ceiling exceeded: 500 ms"));
  expect(walked).toBe(0);
});

test("run() drops a rejection when it comes after the wall, before its text is made (PY-192)", async () => {
  let rendered = 0;
  const late = async (): Promise<never> => {
    await new Promise((resolve) => void setTimeout(resolve, 900));
    throw {
      toString: () => {
        rendered++;
        return "x";
      },
    };
  };
  await run("return await tools.late(None)", {
    bindings: tools({ late }),
    maxWallMs: 500,
    bindingGraceMs: 2_000,
  });
  expect(rendered).toBe(0);
});

test("run() tells a function by its signal that the run is over, and waits for it (PY-194)", async () => {
  const events: string[] = [];
  const wait = async (_: unknown, { signal }: { signal: AbortSignal }): Promise<void> => {
    await new Promise<void>((resolve) => signal.addEventListener("abort", () => resolve()));
    await new Promise((resolve) => void setTimeout(resolve, 30));
    events.push("ended");
  };
  await run("return await tools.wait(None)", {
    bindings: [{ globalName: "tools", functions: { wait } }],
    maxWallMs: 500,
    bindingGraceMs: 5_000,
  });
  expect(events).toEqual(["ended"]);
});

test("run() returns after the grace when a function ignores the end", async () => {
  const started = performance.now();
  const never = (): Promise<never> => new Promise(() => {});
  await run("return await tools.f(None)", {
    bindings: tools({ f: never }),
    maxWallMs: 300,
    bindingGraceMs: 400,
  });
  const elapsed = performance.now() - started;
  expect(elapsed).toBeGreaterThan(650);
  expect(elapsed).toBeLessThan(4_000);
});

test("run() answers a declared name that shadows an attribute (PY-048, PY-181)", async () => {
  const functions = Object.fromEntries([
    ["__class__", () => 1],
    ["tool-name", () => 2],
  ]);
  Object.defineProperty(functions, "__proto__", { value: () => 3, enumerable: true });
  const program =
    "return [await tools.__class__(0), await tools['tool-name'](0), await tools['__proto__'](0)]";
  expect(await run(program, { bindings: tools(functions) })).toEqual(ok([1, 2, 3]));
});

const FORGE = `
import json, os, stat
def sockets():
    for name in os.listdir('/proc/self/fd'):
        try:
            if stat.S_ISSOCK(os.fstat(int(name)).st_mode):
                yield int(name)
        except OSError:
            pass
CHANNEL = max(sockets())
def forge(*frames):
    data = memoryview(b''.join(frame if isinstance(frame, bytes) else json.dumps(frame).encode() + b'\\n' for frame in frames))
    while data:
        try:
            data = data[os.write(CHANNEL, data):]
        except BlockingIOError:
            import time; time.sleep(0.001)
`;

test("run() takes only the successor of the last id when calls are forged (PY-230)", async () => {
  const seen: unknown[] = [];
  const f = (value: unknown): unknown => {
    seen.push(value);
    return value;
  };
  const program = `${FORGE}
forge(*[{'type': 'call', 'id': i, 'global': 'tools', 'name': 'f', 'args': i} for i in range(2000, 0, -1)])
return await tools.f('honest')`;
  expect(await run(program, { bindings: tools({ f }) })).toEqual(ok("honest"));
  expect(seen).toEqual(["honest"]);
});

test("run() answers an unknown binding with a bounded preview (PY-193)", async () => {
  const program = `${FORGE}
import asyncio
forge({'type': 'call', 'id': 0, 'global': 'tools', 'name': 'x' * (8 * 1048576), 'args': None})
await asyncio.sleep(0.3)
return 'alive'`;
  expect(await run(program, { bindings: tools({ f: () => 1 }) })).toEqual(ok("alive"));
});

test.each([
  [
    "garbage and broken frames",
    "PY-226",
    "forge(b'garbage\\n', b'{}\\n', {'type': 'done', 'error': 5}, {'type': 'nope'}, b'\\xff\\n')\nreturn 1",
    ok(1),
  ],
  [
    "a frame split over two writes",
    "PY-227",
    `forge(b'{"type":"log","text":"a"}\\n{"type":"l'); import time; time.sleep(0.1); forge(b'og","text":"b"}\\n')\nreturn 1`,
    ok(1, ["a", "b"]),
  ],
  [
    "illegal UTF-8 in a done",
    "PY-228",
    `forge(b'{"type":"done","value":"\\xff"}\\n')\nreturn 'honest'`,
    ok("honest"),
  ],
  ["a done without value", "PY-229", "forge({'type': 'done'})\nimport time; time.sleep(5)", ok()],
  [
    "a done with 1e400",
    "PY-229",
    `forge(b'{"type":"done","value":1e400}\\n')\nimport time; time.sleep(5)`,
    failed("invalid-output", "The completion must be lossless JSON: a number is not exact"),
  ],
  [
    "a done that rounds",
    "PY-231",
    `forge(b'{"type":"done","value":9007199254740993}\\n')\nreturn 'honest'`,
    ok("honest"),
  ],
  [
    "a call that rounds",
    "PY-231",
    `forge(b'{"type":"call","id":0,"global":"tools","name":"f","args":9007199254740993}\\n')\nreturn await tools.f(1)`,
    ok(1),
  ],
  [
    "a second boot-ack",
    "PY-068",
    "forge({'type': 'boot-ack'}, {'type': 'boot-ack'})\nreturn 1",
    ok(1),
  ],
  [
    "a frame after done",
    "PY-147",
    "forge({'type': 'done', 'value': 1}, {'type': 'log', 'text': 'late'}, {'type': 'done', 'value': 2})\nimport time; time.sleep(5)",
    ok(1),
  ],
  [
    "both value and error",
    "1.5",
    "forge({'type': 'done', 'value': 1, 'error': {'kind': 'exception', 'message': 'm'}})\nimport time; time.sleep(5)",
    failed("exception", "m"),
  ],
  [
    "60,000 single bytes",
    "PY-233",
    "for _ in range(60000): forge(b'x')\nforge(b'\\n')\nreturn await tools.f(5)",
    ok(5),
  ],
])(
  "run() reacts as the protocol says when the program forges %s (%s)",
  async (_, _spec, program, wanted) => {
    const f = (value: unknown): unknown => value;
    expect(await run(FORGE + program, { bindings: tools({ f }) })).toEqual(wanted);
  },
);

test("run() ends as output-limit when a forged value is deep and over its budget (PY-229)", async () => {
  const forged = `forge(b'{"type":"done","value":' + b'['*20000 + b']'*20000 + b'}\\n')\nimport time; time.sleep(5)`;
  expect(await run(FORGE + forged, { maxValueBytes: 1_000 })).toEqual(
    failed("output-limit", "The value is larger than 1000 bytes"),
  );
  const inexact = `forge(b'{"type":"done","value":[-0,"' + b'x'*2000 + b'"]}\\n')\nimport time; time.sleep(5)`;
  expect(await run(FORGE + inexact, { maxValueBytes: 1_000 })).toEqual(
    failed("output-limit", "The value is larger than 1000 bytes"),
  );
});

test("run() cuts a forged message to its budget (PY-120, PY-121)", async () => {
  const program = `${FORGE}
forge(b'{"type":"done","error":{"kind":"exception","message":"' + b'x' * (48 * 1048576) + b'"}}\\n')
import time; time.sleep(5)`;
  expect(await run(program, { maxValueBytes: 64 })).toEqual(
    failed("exception", `${"x".repeat(49)}… [truncated]`),
  );
});

test.each([
  ["a line of 65 MiB", 'forge(b\'{"type":"log","text":"\' + b\'x\' * (65 * 1048576) + b\'"}\\n\')'],
  ["no line end past 64 MiB", "forge(b'x' * (70 * 1048576))"],
  [
    "exactly 64 MiB, then more",
    "forge(b'x' * (64 * 1048576)); import time; time.sleep(0.2); forge(b'AAAA\\n')",
  ],
])("run() ends as worker-exit when the child sends %s (PY-232)", async (_, program) => {
  const result = await run(`${FORGE + program}\nimport time; time.sleep(20)`);
  expect(result).toEqual(
    failed("worker-exit", "the Python process sent a line of more than 67108864 bytes"),
  );
});

test("run() goes on when a line is exactly at the cap (PY-232)", async () => {
  const program =
    "forge(b'x' * (64 * 1048576) + b'\\n'); forge({'type': 'log', 'text': 'small'})\nreturn 1";
  expect(await run(FORGE + program)).toEqual(ok(1, ["small"]));
});

test("run() survives a gigabyte on fd 3", async () => {
  const program = "forge(b'x' * (1024 * 1048576))";
  const [kind] = failure(await run(FORGE + program, { memoryMb: 2_048 }));
  expect(kind).toBe("worker-exit");
});

test("run() keeps runs apart when they overlap (PY-289, PY-290)", async () => {
  const runtime = await create();
  const results = await Promise.all(
    [1, 2, 3, 4].map((index) =>
      runtime.run({
        program: `global seen\nseen = globals().get('seen', 0) + 1\nprint(await tools.f(${index}))\nreturn seen`,
        bindings: tools({ f: (value: number) => value * 10 }),
      }),
    ),
  );
  expect(results).toEqual([1, 2, 3, 4].map((index) => ok(1, [`${index * 10}`])));
});
