/**
 * What a program can change for the whole process, beyond its own thread.
 *
 * Main compares two readings: one from boot, one when the worker is gone. A difference retires the
 * process, because the next program would start in it. One reading takes less than 0.1 ms.
 */
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
