/**
 * What a program can change for the whole process, beyond its own thread.
 *
 * Main compares two readings: one from boot, one when the worker is gone. A difference retires the
 * process, because the next program would start in it. One reading takes about 0.3 ms.
 */
import { readdirSync, readFileSync, readlinkSync } from "node:fs";
import { getPriority } from "node:os";
import { cachedDataVersionTag } from "node:v8";

/** One reading: what is watched, as a reader would name it, and its value. */
export type Reading = ReadonlyMap<string, string | number>;

function report(): string {
  const settings = process.report;
  return JSON.stringify([
    settings.directory,
    settings.filename,
    settings.signal,
    settings.compact,
    settings.reportOnFatalError,
    settings.reportOnSignal,
    settings.reportOnUncaughtException,
  ]);
}

/**
 * Tells where descriptors 0, 1 and 2 lead and how: a program can put a file in the place of a pipe, and a
 * child that is killed can leave the pipe non-blocking. Without /proc nothing is told.
 */
function standardDescriptors(): string {
  return [0, 1, 2].map(describeDescriptor).join("\n");
}

function describeDescriptor(fd: number): string {
  try {
    const info = readFileSync(`/proc/self/fdinfo/${fd}`, "utf8");
    return `${readlinkSync(`/proc/self/fd/${fd}`)} ${/^flags:.*$/m.exec(info)?.[0]}`;
  } catch {
    return "unknown";
  }
}

/**
 * Tells what the system keeps for the process and a child of it can change: resource limits, the fate when
 * memory is short, what a dump holds, and the processors, nice values and policies of its threads.
 */
function systemSettings(): string {
  const files = ["limits", "oom_score_adj", "coredump_filter", "timerslack_ns"];
  return [...files.map((name) => readText(`/proc/self/${name}`)), threadSettings()].join("\n");
}

function threadSettings(): string {
  const seen = new Set<string>();
  for (const thread of threads()) {
    const fields = readText(`/proc/self/task/${thread}/stat`)
      .replace(/^.*\) /s, "")
      .split(" ");
    const allowed = /^Cpus_allowed:.*$/m.exec(readText(`/proc/self/task/${thread}/status`));
    // Threads come and go, so their settings are compared and not their number.
    seen.add(`${fields[16]} ${fields[38]} ${allowed?.[0]}`);
  }
  return [...seen].sort().join("\n");
}

function threads(): string[] {
  try {
    return readdirSync("/proc/self/task");
  } catch {
    return [];
  }
}

function readText(path: string): string {
  try {
    return readFileSync(path, "utf8");
  } catch {
    return "";
  }
}

/**
 * Read everything that is watched.
 *
 * @returns The reading, in the order in which changes are told.
 */
export function readProcess(): Reading {
  return new Map<string, string | number>([
    ["V8 flags", cachedDataVersionTag()],
    ["the process priority", getPriority()],
    ["the process title", process.title],
    ["the file mode mask", process.umask()],
    ["the diagnostic report settings", report()],
    ["descriptor 0, 1 or 2", standardDescriptors()],
    ["settings of the system for the process", systemSettings()],
  ]);
}

/**
 * Tell what differs between two readings.
 *
 * @param before - The earlier reading.
 * @param after - The later reading.
 * @returns A text that names every change, or null.
 */
export function changesBetween(before: Reading, after: Reading): string | null {
  const changed = [...after].filter(([name, value]) => before.get(name) !== value);
  return changed.length === 0 ? null : changed.map(([name]) => name).join(", ");
}
