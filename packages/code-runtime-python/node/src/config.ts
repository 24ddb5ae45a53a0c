/**
 * The configuration and its gates; all of them are checked when a runtime is made, never by a run.
 */

import { getHeapStatistics } from "node:v8";
import { resourceLimits } from "node:worker_threads";
import { ConfigError, describe } from "./errors.ts";
import { ENVELOPE_BYTES, MAX_FRAME_BYTES, MIN_LOG_BYTES } from "./wire.ts";

/** Limits of a runtime; what is left out has its default. */
export interface PythonConfig {
  /** CPU time of the program's process in seconds; 60. */
  readonly cpuSeconds?: number | undefined;
  /** Time of a run in milliseconds, the start of the interpreter included; 600,000. */
  readonly maxWallMs?: number | undefined;
  /** Anonymous and shared memory of the program and all that it started, in MiB; 512. Linux only. */
  readonly memoryMb?: number | undefined;
  /** Address space of the program's process in MiB, the backstop of `memoryMb`; 4,096. Linux only. */
  readonly addressSpaceMb?: number | undefined;
  /** Budget of the logs as a JSON list, in bytes; 8 MiB. */
  readonly maxLogBytes?: number | undefined;
  /** Budget of the value as JSON, and of a failure message, in bytes; 8 MiB. */
  readonly maxValueBytes?: number | undefined;
  /** Milliseconds from SIGTERM to SIGKILL at the end of a run; 3,000. */
  readonly graceMs?: number | undefined;
  /** Milliseconds that `run` waits for binding calls that are still going on at its end; 5,000. */
  readonly bindingGraceMs?: number | undefined;
  /** Runs at once, further ones wait; null for no cap; 32. */
  readonly maxConcurrentRuns?: number | null | undefined;
  /** Name or path of a CPython of 3.10 or later; `python3`. */
  readonly pythonBin?: string | undefined;
}

/** A configuration with all defaults, checked. */
export interface CheckedConfig {
  readonly cpuSeconds: number;
  readonly maxWallMs: number;
  readonly memoryMb: number;
  readonly addressSpaceBytes: number;
  readonly maxLogBytes: number;
  readonly maxValueBytes: number;
  readonly graceMs: number;
  readonly bindingGraceMs: number;
  readonly maxConcurrentRuns: number;
  readonly pythonBin: string;
  readonly maxFrameBytes: number;
}

const MIB = 1_048_576;
const MAX_TIMER_MS = 2_147_483_647;
/** What the end of a run may take after its grace, so that both fit one timer. */
export const CLOSE_MARGIN_MS = 2_000;
/** What parsing a frame may cost on the host, as a multiple of the frame: dicts of short, different keys. */
const PARSE_MULTIPLE = 16;
/** What a Node process needs beside the frame. */
const HOST_BASELINE_BYTES = 64 * MIB;
/** What a CPython needs beside the budgets. */
const INTERPRETER_BYTES = 64 * MIB;
/** What a text may cost in the child: its Unicode form at four bytes a character, escaped and encoded. */
const BUDGET_MULTIPLE = 12;

const DEFAULTS = {
  cpuSeconds: 60,
  maxWallMs: 600_000,
  memoryMb: 512,
  addressSpaceMb: 4_096,
  maxLogBytes: 8 * MIB,
  maxValueBytes: 8 * MIB,
  graceMs: 3_000,
  bindingGraceMs: 5_000,
  maxConcurrentRuns: 32,
  pythonBin: "python3",
};

/**
 * Bound a frame so that parsing it cannot exhaust the host's own heap.
 *
 * @param heapLimitBytes - The limit of V8's heap.
 * @returns The longest line that is read, in bytes.
 */
export function frameCap(heapLimitBytes: number): number {
  const room = Math.floor((heapLimitBytes - HOST_BASELINE_BYTES) / PARSE_MULTIPLE);
  return Math.max(1, Math.min(MAX_FRAME_BYTES, room));
}

/**
 * Find the limit of this process's heap for what lives long.
 *
 * V8 reports old and young generation together, and the young one is 192 MiB by default; a frame has to fit
 * the old one. So an explicit limit of the old generation wins.
 *
 * @param options - Where such a limit may stand.
 * @returns The limit in bytes.
 */
export function heapLimit(
  options: string = [process.env.NODE_OPTIONS ?? "", ...process.execArgv].join(" "),
): number {
  const flags = [...options.matchAll(/--max[-_]old[-_]space[-_]size[= ](\d+)/g)];
  const flag = Number(flags.at(-1)?.[1] ?? 0) || Number.POSITIVE_INFINITY;
  const own = resourceLimits.maxOldGenerationSizeMb ?? Number.POSITIVE_INFINITY;
  return Math.min(getHeapStatistics().heap_size_limit, Math.min(flag, own) * MIB);
}

/**
 * Fill in defaults and check every field.
 *
 * @param config - What the host gave.
 * @param platform - Where it runs.
 * @param heapLimitBytes - The limit of V8's heap.
 * @returns The checked configuration.
 * @throws ConfigError for the first fault, naming the field, the limit and the value.
 */
export function checkConfig(
  config: PythonConfig = {},
  platform: string = process.platform,
  heapLimitBytes: number = heapLimit(),
): CheckedConfig {
  if (platform === "win32")
    throw new ConfigError("platform", "win32", "Linux, macOS or another Unix");
  if (typeof config !== "object" || config === null) {
    throw new ConfigError("config", describe(config), "an object of fields");
  }
  for (const name of Object.keys(config)) {
    if (!Object.hasOwn(DEFAULTS, name)) {
      throw new ConfigError("config", describe(name), `one of ${Object.keys(DEFAULTS).join(", ")}`);
    }
  }
  const given = Object.entries(config).filter(([, value]) => value !== undefined);
  const merged = { ...DEFAULTS, ...(Object.fromEntries(given) as PythonConfig) };
  const maxConcurrentRuns = merged.maxConcurrentRuns ?? Number.POSITIVE_INFINITY;
  checkNumbers({ ...merged, maxConcurrentRuns });
  const addressSpaceBytes = checkAddressSpace(merged.addressSpaceMb as number);
  checkPythonBin(merged.pythonBin);
  checkTimes(merged as typeof DEFAULTS);
  const maxFrameBytes = frameCap(heapLimitBytes);
  for (const name of ["maxLogBytes", "maxValueBytes"] as const) {
    checkBudget(name, merged[name] as number, maxFrameBytes);
  }
  if (addressSpaceBytes <= INTERPRETER_BYTES) {
    const expected = `more than the ${INTERPRETER_BYTES} bytes that the interpreter needs`;
    throw new ConfigError("addressSpaceMb", `${merged.addressSpaceMb}`, expected);
  }
  for (const name of ["maxLogBytes", "maxValueBytes"] as const) {
    checkExpansion(name, merged[name] as number, addressSpaceBytes);
  }
  const { addressSpaceMb: _, ...rest } = merged as typeof DEFAULTS;
  return { ...rest, maxConcurrentRuns, addressSpaceBytes, maxFrameBytes };
}

const POSITIVE = [
  "cpuSeconds",
  "maxWallMs",
  "memoryMb",
  "addressSpaceMb",
  "maxLogBytes",
  "maxValueBytes",
  "graceMs",
] as const;

function checkNumbers(config: { readonly [Key in keyof typeof DEFAULTS]?: unknown }): void {
  for (const name of POSITIVE) {
    const value = config[name];
    if (typeof value !== "number" || !Number.isFinite(value) || value <= 0) {
      throw new ConfigError(name, describe(value), "a positive number");
    }
  }
  const { bindingGraceMs, maxConcurrentRuns, cpuSeconds } = config;
  if (
    typeof bindingGraceMs !== "number" ||
    !(bindingGraceMs >= 0 && bindingGraceMs <= MAX_TIMER_MS)
  ) {
    const expected = `a number from 0 to ${MAX_TIMER_MS} ms`;
    throw new ConfigError("bindingGraceMs", describe(bindingGraceMs), expected);
  }
  const isCount = Number.isSafeInteger(maxConcurrentRuns) && (maxConcurrentRuns as number) >= 1;
  if (maxConcurrentRuns !== Number.POSITIVE_INFINITY && !isCount) {
    throw new ConfigError(
      "maxConcurrentRuns",
      describe(maxConcurrentRuns),
      "an integer from 1, or null",
    );
  }
  // The hard limit is a second more, and must be exact too.
  if (!Number.isSafeInteger(cpuSeconds) || !Number.isSafeInteger((cpuSeconds as number) + 1)) {
    const expected = `an exact integer, at most ${Number.MAX_SAFE_INTEGER - 1} s`;
    throw new ConfigError("cpuSeconds", describe(cpuSeconds), expected);
  }
}

function checkAddressSpace(addressSpaceMb: number): number {
  const bytes = addressSpaceMb * MIB;
  if (bytes > Number.MAX_SAFE_INTEGER) {
    const most = Math.floor(Number.MAX_SAFE_INTEGER / MIB);
    throw new ConfigError("addressSpaceMb", describe(addressSpaceMb), `at most ${most} MiB`);
  }
  // A fraction is harmless: the limit is rounded down to whole bytes.
  return Math.floor(bytes);
}

function checkPythonBin(pythonBin: unknown): void {
  if (typeof pythonBin !== "string" || pythonBin === "" || pythonBin.includes("\0")) {
    throw new ConfigError(
      "pythonBin",
      describe(pythonBin),
      "a name or path, not empty, without NUL",
    );
  }
}

function checkTimes({ maxWallMs, graceMs }: { maxWallMs: number; graceMs: number }): void {
  if (maxWallMs > MAX_TIMER_MS) {
    throw new ConfigError("maxWallMs", `${maxWallMs}`, `at most ${MAX_TIMER_MS} ms`);
  }
  if (graceMs > MAX_TIMER_MS - CLOSE_MARGIN_MS) {
    throw new ConfigError("graceMs", `${graceMs}`, `at most ${MAX_TIMER_MS - CLOSE_MARGIN_MS} ms`);
  }
}

function checkBudget(name: "maxLogBytes" | "maxValueBytes", value: number, cap: number): void {
  if (!Number.isSafeInteger(value))
    throw new ConfigError(name, `${value}`, "an exact integer of bytes");
  if (value > cap - ENVELOPE_BYTES) {
    const expected = `at most ${cap - ENVELOPE_BYTES} bytes, what the longest frame leaves`;
    throw new ConfigError(name, `${value}`, expected);
  }
  if (name === "maxLogBytes" && value < MIN_LOG_BYTES) {
    throw new ConfigError(name, `${value}`, `at least ${MIN_LOG_BYTES} bytes`);
  }
}

function checkExpansion(name: string, value: number, addressSpaceBytes: number): void {
  const room = addressSpaceBytes - INTERPRETER_BYTES;
  if (value * BUDGET_MULTIPLE < room) return;
  const most = Math.ceil(room / BUDGET_MULTIPLE) - 1;
  const expected = `at most ${most} bytes, which take up to ${BUDGET_MULTIPLE} times as much of addressSpaceMb`;
  throw new ConfigError(name, `${value}`, expected);
}
