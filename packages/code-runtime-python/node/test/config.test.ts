import { execFileSync } from "node:child_process";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import { checkConfig, frameCap, type PythonConfig } from "../src/config.ts";
import { ConfigError } from "../src/errors.ts";
import { PythonCodeRuntime } from "../src/index.ts";

const MIB = 1_048_576;
const GIB = 1_024 * MIB;

function refusal(config: unknown, heap = 4 * GIB): string {
  try {
    checkConfig(config as PythonConfig, "linux", heap);
  } catch (error) {
    expect(error).toBeInstanceOf(ConfigError);
    return (error as ConfigError).message.replace("Cannot configure PythonCodeRuntime: ", "");
  }
  throw new Error("the configuration was taken");
}

test("checkConfig() gives the documented defaults when nothing is set (PY-011)", () => {
  expect(checkConfig({}, "linux", 4 * GIB)).toEqual({
    cpuSeconds: 60,
    maxWallMs: 600_000,
    memoryMb: 512,
    addressSpaceBytes: 4_096 * MIB,
    maxLogBytes: 8 * MIB,
    maxValueBytes: 8 * MIB,
    graceMs: 3_000,
    bindingGraceMs: 5_000,
    maxConcurrentRuns: 32,
    pythonBin: "python3",
    maxFrameBytes: 64 * MIB,
  });
  expect(checkConfig({ maxConcurrentRuns: null }).maxConcurrentRuns).toBe(Number.POSITIVE_INFINITY);
  expect(checkConfig({ cpuSeconds: undefined }).cpuSeconds).toBe(60);
});

const numbers = [
  "cpuSeconds",
  "maxWallMs",
  "memoryMb",
  "addressSpaceMb",
  "maxLogBytes",
  "maxValueBytes",
  "graceMs",
];

test.each(numbers)(
  "checkConfig() refuses %s when it is not a positive number (PY-002)",
  (field) => {
    for (const value of [0, -1, Number.NaN, Number.POSITIVE_INFINITY, "1", null, 1n]) {
      const shown =
        typeof value === "string" ? '"1"' : typeof value === "bigint" ? "a bigint" : value;
      expect(refusal({ [field]: value })).toBe(`${field} is ${shown}, expected a positive number`);
    }
  },
);

test.each([
  [
    "PY-003",
    { cpuSeconds: 1.5 },
    "cpuSeconds is 1.5, expected an exact integer, at most 9007199254740990 s",
  ],
  [
    "PY-004",
    { cpuSeconds: 1e100 },
    "cpuSeconds is 1e+100, expected an exact integer, at most 9007199254740990 s",
  ],
  [
    "PY-005",
    { addressSpaceMb: 1e308 },
    "addressSpaceMb is 1e+308, expected at most 8589934591 MiB",
  ],
  ["PY-006", { maxLogBytes: 100.5 }, "maxLogBytes is 100.5, expected an exact integer of bytes"],
  [
    "PY-006",
    { maxValueBytes: 1024.5 },
    "maxValueBytes is 1024.5, expected an exact integer of bytes",
  ],
  [
    "PY-007",
    { maxLogBytes: 67_108_801 },
    "maxLogBytes is 67108801, expected at most 67108800 bytes, what the longest frame leaves",
  ],
  [
    "PY-007",
    { maxValueBytes: 67_108_801 },
    "maxValueBytes is 67108801, expected at most 67108800 bytes, what the longest frame leaves",
  ],
  ["PY-008", { maxLogBytes: 63 }, "maxLogBytes is 63, expected at least 64 bytes"],
  [
    "PY-009",
    { addressSpaceMb: 64 },
    "addressSpaceMb is 64, expected more than the 67108864 bytes that the interpreter needs",
  ],
  [
    "PY-009",
    { addressSpaceMb: 32 },
    "addressSpaceMb is 32, expected more than the 67108864 bytes that the interpreter needs",
  ],
  [
    "PY-010",
    { addressSpaceMb: 256, maxLogBytes: 50_000_000 },
    "maxLogBytes is 50000000, expected at most 16777215 bytes, which take up to 12 times as much of addressSpaceMb",
  ],
  [
    "PY-010",
    { addressSpaceMb: 256, maxValueBytes: 50_000_000 },
    "maxValueBytes is 50000000, expected at most 16777215 bytes, which take up to 12 times as much of addressSpaceMb",
  ],
  [
    "PY-011",
    { addressSpaceMb: 512, maxLogBytes: 48 * MIB },
    "maxLogBytes is 50331648, expected at most 39146837 bytes, which take up to 12 times as much of addressSpaceMb",
  ],
  [
    "PY-012",
    { addressSpaceMb: 64 + 12, maxValueBytes: MIB, maxLogBytes: 64 },
    "maxValueBytes is 1048576, expected at most 1048575 bytes, which take up to 12 times as much of addressSpaceMb",
  ],
  [
    "PY-014",
    { maxWallMs: 2_147_483_648 },
    "maxWallMs is 2147483648, expected at most 2147483647 ms",
  ],
  ["PY-015", { graceMs: 2_147_481_648 }, "graceMs is 2147481648, expected at most 2147481647 ms"],
  ["PY-027", { pythonBin: "" }, 'pythonBin is "", expected a name or path, not empty, without NUL'],
  [
    "PY-027",
    { pythonBin: "a\0b" },
    'pythonBin is "a\\u0000b", expected a name or path, not empty, without NUL',
  ],
  ["-", { bindingGraceMs: -1 }, "bindingGraceMs is -1, expected a number from 0 to 2147483647 ms"],
  ["-", { maxConcurrentRuns: 0 }, "maxConcurrentRuns is 0, expected an integer from 1, or null"],
  [
    "-",
    { maxWall: 1 },
    'config is "maxWall", expected one of cpuSeconds, maxWallMs, memoryMb, addressSpaceMb, maxLogBytes, maxValueBytes, graceMs, bindingGraceMs, maxConcurrentRuns, pythonBin',
  ],
  ["-", null, "config is null, expected an object of fields"],
] as const)(
  "checkConfig() names field, limit and value when it refuses (%s) %j",
  (_, config, text) => {
    expect(refusal(config)).toBe(text);
  },
);

test("checkConfig() takes every field at its limit (PY-004, PY-005, PY-007, PY-008, PY-014, PY-015)", () => {
  for (const config of [
    { cpuSeconds: Number.MAX_SAFE_INTEGER - 1 },
    { addressSpaceMb: 8_589_934_591 },
    { addressSpaceMb: 512.3 },
    { addressSpaceMb: 4_096, maxLogBytes: 67_108_800, maxValueBytes: 67_108_800 },
    { maxLogBytes: 64, maxValueBytes: 1 },
    { maxWallMs: 2_147_483_647 },
    { maxWallMs: 0.5 },
    { graceMs: 2_147_481_647 },
  ]) {
    expect(checkConfig(config, "linux", 4 * GIB)).toBeDefined();
  }
  expect(checkConfig({ addressSpaceMb: 512.3 }).addressSpaceBytes).toBe(Math.floor(512.3 * MIB));
});

test("checkConfig() refuses Windows and checks the same on macOS (PY-001, PY-013)", () => {
  expect(() => checkConfig({}, "win32")).toThrow(
    "Cannot configure PythonCodeRuntime: platform is win32, expected Linux, macOS or another Unix",
  );
  expect(() => checkConfig({ addressSpaceMb: 64 }, "darwin")).toThrow("addressSpaceMb is 64");
});

test("checkConfig() reports the first fault in the order of the fields when there are several (PY-020)", () => {
  const faults: Record<string, unknown> = {
    graceMs: 2_147_481_648,
    pythonBin: "",
    addressSpaceMb: 1e308,
    cpuSeconds: 1.5,
    maxWallMs: 2_147_483_648,
    maxLogBytes: 63,
  };
  const order = [
    "cpuSeconds",
    "addressSpaceMb",
    "pythonBin",
    "maxWallMs",
    "graceMs",
    "maxLogBytes",
  ];
  for (const field of order) {
    expect(refusal(faults).split(" ")[0]).toBe(field);
    delete faults[field];
  }
});

test("frameCap() follows the heap when it is small (PY-016)", () => {
  expect([4_096, 304, 128].map((mib) => frameCap(mib * MIB) / MIB)).toEqual([64, 15, 4]);
});

test("create() refuses a budget when the host's heap could not parse it (PY-017)", () => {
  expect(refusal({ maxValueBytes: 50 * MIB, addressSpaceMb: 1_024 }, 128 * MIB)).toBe(
    `maxLogBytes is 8388608, expected at most ${4 * MIB - 64} bytes, what the longest frame leaves`,
  );
  expect(refusal({ maxValueBytes: 50 * MIB, maxLogBytes: 64 }, 128 * MIB)).toBe(
    `maxValueBytes is 52428800, expected at most ${4 * MIB - 64} bytes, what the longest frame leaves`,
  );
});

test("parseChildFrame() survives a frame at the cap when the host's heap is small (PY-018)", () => {
  const source = (name: string): string =>
    fileURLToPath(new URL(`../src/${name}.ts`, import.meta.url));
  const script = `
    const { checkConfig } = await import(${JSON.stringify(source("config"))});
    const { parseChildFrame } = await import(${JSON.stringify(source("validate"))});
    const { maxFrameBytes } = checkConfig({ maxLogBytes: 64, maxValueBytes: 64 });
    if (maxFrameBytes !== 4 * 1048576) process.exit(2);
    const line = Buffer.alloc(maxFrameBytes);
    let at = line.write('{"type":"done","value":{');
    for (let index = 0; ; index++) {
      const entry = (index > 0 ? "," : "") + '"' + index.toString(36) + '":0';
      if (at + entry.length + 2 > maxFrameBytes) break;
      at += line.write(entry, at);
    }
    at += line.write("}}", at);
    if (parseChildFrame(line.subarray(0, at))?.kind !== "done") process.exit(3);`;
  execFileSync(process.execPath, [
    "--no-warnings",
    "--max-old-space-size=128",
    "--input-type=module",
    "-e",
    script,
  ]);
});

test("create() starts nothing when a field is refused (PY-019, PY-020)", async () => {
  const refused = PythonCodeRuntime.create({ maxLogBytes: 63, pythonBin: "/no/such/python" });
  await expect(refused).rejects.toThrow("maxLogBytes is 63, expected at least 64 bytes");
});
