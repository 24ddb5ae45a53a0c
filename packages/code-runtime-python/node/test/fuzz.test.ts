/** Drawn values, configs, requests and damaged frames; `tests/fuzz` compares the same with the Python host. */

import fc from "fast-check";
import { expect, test } from "vitest";
import { checkConfig, type PythonConfig } from "../src/config.ts";
import { BindingNameError, ConfigError, RequestError } from "../src/errors.ts";
import type { CodeRunRequest, PythonCodeRuntime } from "../src/index.ts";
import { encode, LosslessJsonError, measure, snapshot } from "../src/json.ts";
import { LineReader } from "../src/reader.ts";
import { parseChildFrame } from "../src/validate.ts";
import type { JsonValue } from "../src/wire.ts";
import { create } from "./host.ts";
import { bytesOf, frames, hostile } from "./vectors.ts";

// `make test` draws the same examples each time; `make fuzz` draws so many times as many at random.
const FACTOR = Number(process.env.CODE_RUNTIME_FUZZ_FACTOR ?? 0);
const TIMEOUT_MS = FACTOR === 0 ? 300_000 : 86_400_000;
const drawn = (numRuns: number): { numRuns: number; seed?: number } =>
  FACTOR === 0 ? { numRuns, seed: 1 } : { numRuns: numRuns * FACTOR };
// What runs processes is not shrunk within the time of `make test`.
const drawnSlowly = (numRuns: number): object => ({
  ...drawn(numRuns),
  ...(FACTOR === 0 ? { endOnFailure: true } : {}),
});

const units = fc.string({
  unit: fc.oneof(
    fc.constantFrom("\ud800", "\udfff", "😀", "\u2028", "\0", '"', "\\"),
    fc.integer({ min: 0, max: 0xffff }).map((unit) => String.fromCharCode(unit)),
  ),
  maxLength: 8,
});
const keys = fc.oneof(
  units,
  fc.constantFrom("__proto__", "constructor", "toJSON", "0", "10", "-1"),
);
const numbers = fc.oneof(
  fc.double({ noNaN: true, noDefaultInfinity: true }).map((value) => value + 0),
  fc.maxSafeInteger(),
  fc.constantFrom(2 ** 53, 2 ** 53 + 2, -(2 ** 1023), 1e21, 1e22, 5e-324, 1e-7, 0.1),
);
const { json } = fc.letrec((tie) => ({
  json: fc.oneof(
    { maxDepth: 6, depthSize: "small" },
    fc.constantFrom(null, true, false),
    numbers,
    units,
    fc.array(tie("json"), { maxLength: 4 }),
    fc
      .array(fc.tuple(keys, tie("json")), { maxLength: 4 })
      .map((entries) => Object.fromEntries(entries) as unknown),
  ),
})) as { json: fc.Arbitrary<JsonValue> };
const anything = fc.anything({
  withBigInt: true,
  withBoxedValues: true,
  withDate: true,
  withMap: true,
  withSet: true,
  withNullPrototype: true,
  withObjectString: true,
  withSparseArray: true,
  withTypedArray: true,
  withUnicodeString: true,
});

test(
  "snapshot() takes what encode() and measure() agree on, or refuses, when the value is any",
  () => {
    fc.assert(
      fc.property(anything, (value) => {
        let taken: ReturnType<typeof snapshot>;
        try {
          taken = snapshot(value);
        } catch (error) {
          expect(error).toBeInstanceOf(LosslessJsonError);
          return;
        }
        const text = encode(taken);
        expect(encode({ ...taken, isPlain: false })).toBe(text);
        expect(encode(snapshot(JSON.parse(text)))).toBe(text);
        expect(measure(taken.value, Number.POSITIVE_INFINITY)).toBe(Buffer.byteLength(text));
      }),
      drawn(1_000),
    );
  },
  TIMEOUT_MS,
);

const FIELDS = Object.keys({
  cpuSeconds: 0,
  maxWallMs: 0,
  memoryMb: 0,
  addressSpaceMb: 0,
  maxLogBytes: 0,
  maxValueBytes: 0,
  graceMs: 0,
  bindingGraceMs: 0,
  maxConcurrentRuns: 0,
  pythonBin: 0,
} satisfies Record<keyof PythonConfig, number>);
const seen = fc.oneof(
  fc.constantFrom(0, -0, 1, -1, 0.5, 63, 64, 65, 2 ** 31 - 1, 2 ** 31, 2 ** 33, 2 ** 53, 1e308),
  fc.constantFrom(Number.NaN, Number.POSITIVE_INFINITY, null, undefined, true, "", "1", "\0", 1n),
  fc.double(),
  anything,
);

test(
  "checkConfig() takes a config or names the field that it refuses when its fields are any",
  () => {
    const config = fc.dictionary(fc.oneof(fc.constantFrom(...FIELDS), keys), seen, { maxKeys: 3 });
    fc.assert(
      fc.property(fc.oneof(config, anything), (value) => {
        try {
          checkConfig(value as PythonConfig, "linux", 2 ** 32);
        } catch (error) {
          expect(error).toBeInstanceOf(ConfigError);
          const { field, message } = error as ConfigError;
          expect(message.startsWith(`Cannot configure PythonCodeRuntime: ${field} is `)).toBe(true);
          expect(message.length).toBeLessThan(1_000);
          // The default of a budget may not fit into a smaller address space.
          const given = typeof value === "object" && value !== null ? Object.keys(value) : [];
          const budgets = given.includes("addressSpaceMb") ? ["maxLogBytes", "maxValueBytes"] : [];
          expect(["config", ...given, ...budgets]).toContain(field);
        }
      }),
      drawn(2_000),
    );
  },
  TIMEOUT_MS,
);

test(
  "run() rejects with an error of the package when the request is any",
  async () => {
    const runtime = await create();
    const names = fc.oneof(units, fc.constantFrom("tools", "class", "E", "name"), anything);
    const part = fc.record(
      {
        globalName: names,
        functions: fc.oneof(anything, fc.constant({ f: () => 1 })),
        errorClass: fc.oneof(anything, fc.record({ name: names, memberNameProperty: names })),
      },
      { requiredKeys: [] },
    );
    const request = fc.oneof(
      anything,
      fc.record(
        {
          program: fc.oneof(fc.constant("return 1"), anything),
          bindings: fc.oneof(fc.array(fc.oneof(part, anything), { maxLength: 3 }), anything),
          maxWallMs: fc.constant(0),
          signal: fc.oneof(anything, fc.constant(AbortSignal.abort("before"))),
        },
        { requiredKeys: ["program", "maxWallMs"] },
      ),
      // A signal that is aborted, so that nothing starts where the bindings are in order.
      fc.record({
        program: fc.constant("return 1"),
        bindings: fc.oneof(
          fc.array(fc.oneof(part, anything), { maxLength: 3 }),
          fc.sparseArray(part, { maxLength: 3, noTrailingHole: false }),
        ),
        signal: fc.constant(AbortSignal.abort("before")),
      }),
    );
    await fc.assert(
      fc.asyncProperty(request, async (value) => {
        const running = runtime.run(value as CodeRunRequest);
        const result = await running.catch((error: unknown) => {
          expect([RequestError, BindingNameError]).toContain((error as Error).constructor);
          return undefined;
        });
        if (result !== undefined)
          expect(result.error).toEqual({ kind: "abort", message: "before" });
      }),
      drawn(1_000),
    );
  },
  TIMEOUT_MS,
);

test("run() rejects bindings when the list has a hole", async () => {
  const runtime = await create();
  const running = runtime.run({ program: "return 1", bindings: new Array(1) });
  await expect(running).rejects.toThrow(
    "Cannot run a program: bindings[0] is undefined, expected a namespace",
  );
});

const honest = frames
  .filter(({ shape }) => ["BootAck", "Call", "Log", "Done"].includes(shape))
  .map(({ line }) => Buffer.from(line));

// Those that mean something in JSON or UTF-8; all of them in `make fuzz`.
const TELLING = Buffer.from('\0\t "\\{}[]:,-.0eE/u\x7f\x80\xbf\xc2\xe2\xed\xef\xf0\xff', "latin1");
const BYTES = FACTOR === 0 ? TELLING : Buffer.from(Array.from({ length: 256 }, (_, byte) => byte));

test(
  "parseChildFrame() rebuilds or drops a line when any byte is any other, left out or cut",
  () => {
    const kinds = new Set(["boot-ack", "call", "log", "done", "fail"]);
    const judge = (line: Buffer): void => {
      const message = parseChildFrame(line);
      if (message !== undefined && !kinds.has(message.kind)) throw new Error(line.toString("hex"));
    };
    for (const line of honest.filter(({ length }) => length < 300)) {
      for (let at = 0; at < line.length; at++) {
        const damaged = Buffer.from(line);
        for (const byte of BYTES) {
          damaged[at] = byte;
          judge(damaged);
        }
        judge(line.subarray(0, at));
        judge(Buffer.concat([line.subarray(0, at), line.subarray(at + 1)]));
        judge(Buffer.concat([line.subarray(0, at + 1), line.subarray(at)]));
      }
    }
  },
  TIMEOUT_MS,
);

test("LineReader.push() finds the whole lines when the stream is cut at any byte", () => {
  const stream = Buffer.concat(honest.flatMap((line) => [line, Buffer.from("\n")]));
  for (let at = 0; at <= stream.length; at += 1) {
    const held = new LineReader();
    const lines = held.push(stream.subarray(0, at));
    const start = at === 0 ? 0 : stream.lastIndexOf(10, at - 1) + 1;
    expect([lines.length, held.heldBytes]).toEqual([
      honest.filter(
        (_, index) => Buffer.concat(honest.slice(0, index + 1)).length + index + 1 <= at,
      ).length,
      at - start,
    ]);
  }
});

const FORGE = `
import os, stat
channel = max(int(name) for name in os.listdir("/proc/self/fd")
              if os.path.exists("/proc/self/fd/" + name) and stat.S_ISSOCK(os.fstat(int(name)).st_mode))
def raw(text):
    rest = bytes.fromhex(text)
    while rest:
        try:
            rest = rest[os.write(channel, rest):]
        except BlockingIOError:
            pass
`;
const tools = [{ globalName: "tools", functions: { echo: (value: JsonValue) => value } }];
const KINDS = ["exception", "timeout", "abort", "worker-exit", "invalid-output", "output-limit"];

async function expectHonestRun(runtime: PythonCodeRuntime): Promise<void> {
  const program = "print('a')\nreturn await tools.echo([1])";
  const after = await runtime.run({ program, bindings: tools });
  expect(after).toEqual({ logs: ["a"], logsTruncated: false, value: [1] });
}

test(
  "run() resolves with a typed result when the child sends damaged frames (PY-226, PY-292)",
  async () => {
    const runtime = await create();
    const lines = [...honest, ...hostile.map(bytesOf)].filter(({ length }) => length < 2_000);
    const edits = fc.array(fc.tuple(fc.nat(), fc.nat(255), fc.nat(2)), { maxLength: 3 });
    const list = fc.array(fc.constantFrom(...lines), { maxLength: 8 });
    const ends = fc.constantFrom("return 1", "os._exit(0)", "await tools.echo(1)");
    await fc.assert(
      fc.asyncProperty(list, edits, ends, async (some, changes, end) => {
        let stream = Buffer.concat(some.flatMap((line) => [line, Buffer.from("\n")]));
        for (const [at, byte, kind] of changes) {
          const place = at % (stream.length + 1);
          const middle = kind === 2 ? [] : [byte];
          const rest = stream.subarray(kind === 0 ? place : place + 1);
          stream = Buffer.concat([stream.subarray(0, place), Buffer.from(middle), rest]);
        }
        const program = `${FORGE}\nraw("${stream.toString("hex")}")\n${end}`;
        const { error, logs } = await runtime.run({ program, bindings: tools, maxWallMs: 2_000 });
        if (error !== undefined) expect(KINDS).toContain(error.kind);
        expect(logs.every((entry) => typeof entry === "string")).toBe(true);
        await expectHonestRun(runtime);
      }),
      drawnSlowly(6),
    );
  },
  TIMEOUT_MS,
);

test(
  "run() carries any JSON into a program and back unchanged (SC-029)",
  async () => {
    const runtime = await create();
    const program =
      "kept = []\nfor value in await tools.give(None):\n    kept.append(await tools.take(value))\nreturn kept";
    await fc.assert(
      fc.asyncProperty(fc.array(json, { maxLength: 20 }), async (values) => {
        const arrived: JsonValue[] = [];
        const take = (value: JsonValue): JsonValue => {
          arrived.push(value);
          return value;
        };
        const bindings = [{ globalName: "tools", functions: { give: () => values, take } }];
        const { error, value } = await runtime.run({ program, bindings });
        expect(error).toBe(undefined);
        const wanted = encode(snapshot(values));
        expect([encode(snapshot(arrived)), encode(snapshot(value))]).toEqual([wanted, wanted]);
      }),
      drawnSlowly(8),
    );
  },
  TIMEOUT_MS,
);
