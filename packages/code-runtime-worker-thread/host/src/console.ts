/**
 * The `console` that a program sees: five methods, each call one log entry.
 */

import { defineProperty, freeze, indexOf, inspect, isSafeInteger } from "./intrinsics.ts";
import { withoutHostFrames } from "./stack.ts";

const METHODS = ["log", "info", "warn", "error", "debug"] as const;

// Without a prototype: Node reads every option from this object.
const OPTIONS = freeze({
  __proto__: null,
  depth: 4,
  maxArrayLength: 100,
  maxStringLength: 10_000,
  colors: false,
  numericSeparator: false,
}) as object;

/** Shows one argument: strings as they are, everything else as Node inspects it. */
function show(value: unknown): string {
  if (typeof value === "string") return value;
  // What is printed most, as Node shows it; to ask Node takes ten times as long.
  if (isSafeInteger(value) && value !== 0) return `${value as number}`;
  const shown = inspect(value, OPTIONS);
  return indexOf(shown, "    at ") < 0 ? shown : withoutHostFrames(shown);
}

/**
 * Join console arguments to one entry.
 *
 * @param values - The arguments; format directives are not expanded.
 * @returns Their texts with one space between two.
 */
export function joinArguments(values: readonly unknown[]): string {
  let entry = "";
  for (let index = 0; index < values.length; index++) {
    const shown = show(values[index]);
    entry = index === 0 ? shown : `${entry} ${shown}`;
  }
  return entry;
}

/**
 * Make the console of a program.
 *
 * @param log - Takes each entry.
 * @returns An object without a prototype and with exactly five methods.
 */
export function createConsole(log: (entry: string) => void): object {
  const target = Object.create(null) as object;
  for (const name of METHODS) {
    const method = {
      [name](...values: unknown[]): void {
        log(joinArguments(values));
      },
    }[name];
    defineProperty(target, name, {
      value: method,
      writable: true,
      enumerable: true,
      configurable: true,
    });
  }
  return target;
}
