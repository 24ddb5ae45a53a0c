/** Errors of misuse; a program's own failure is never one, but a value in the result. */

import type { CodeRunResult } from "./types.ts";

/** Base of every error that this package throws. */
export class CodeRuntimeError extends Error {
  override readonly name: string = "CodeRuntimeError";
}

/** A field of the configuration has a value that is not allowed. */
export class ConfigError extends CodeRuntimeError {
  override readonly name = "ConfigError";
  readonly field: string;

  /**
   * @param field - The field.
   * @param seen - What it held, in words.
   * @param expected - What it may hold, in words, with the unit.
   */
  constructor(field: string, seen: string, expected: string) {
    super(`Cannot configure PythonCodeRuntime: ${field} is ${seen}, expected ${expected}`);
    this.field = field;
  }
}

/** A namespace, error class or member property has a name that no runtime accepts. */
export class BindingNameError extends CodeRuntimeError {
  override readonly name = "BindingNameError";
  readonly field: string;
  readonly seen: string;

  /**
   * @param field - Where the name stands, such as `bindings[0].globalName`.
   * @param seen - The name.
   * @param expected - The rule that it breaks, in words.
   */
  constructor(field: string, seen: string, expected: string) {
    const shown = seen.length <= 120 ? seen : `${seen.slice(0, 119)}…`;
    super(`Cannot declare bindings: ${field} is ${JSON.stringify(shown)}, expected ${expected}`);
    this.field = field;
    this.seen = seen;
  }
}

/** A field of a request has the wrong type or value. */
export class RequestError extends CodeRuntimeError {
  override readonly name = "RequestError";
  readonly field: string;

  /**
   * @param field - The field.
   * @param seen - What it held, in words.
   * @param expected - What it may hold, in words.
   */
  constructor(field: string, seen: string, expected: string) {
    super(`Cannot run a program: ${field} is ${seen}, expected ${expected}`);
    this.field = field;
  }
}

/** A runtime was asked to run a program after its disposal had begun. */
export class RuntimeDisposedError extends CodeRuntimeError {
  override readonly name = "RuntimeDisposedError";

  constructor() {
    super(
      "Cannot run a program: PythonCodeRuntime is disposed, expected a call before the end of its disposal",
    );
  }
}

/** An `onLog` function threw; the run went on to its end all the same. */
export class LogObserverError extends CodeRuntimeError {
  override readonly name = "LogObserverError";
  readonly result: CodeRunResult;

  /**
   * @param cause - What it threw.
   * @param result - The result of the run.
   */
  constructor(cause: unknown, result: CodeRunResult) {
    super("Cannot report logs: onLog threw, expected it to return", { cause });
    this.result = result;
  }
}

/**
 * Describe a value of a wrong type or range in a few words.
 *
 * @param value - Anything.
 * @returns Text for an error message; never throws.
 */
export function describe(value: unknown): string {
  if (typeof value === "string") {
    return JSON.stringify(value.length <= 80 ? value : `${value.slice(0, 79)}…`);
  }
  if (typeof value === "number") return Object.is(value, -0) ? "-0" : `${value}`;
  if (value === null || typeof value === "boolean" || value === undefined) return `${value}`;
  if (Array.isArray(value)) return "an array";
  return typeof value === "object" ? "an object" : `a ${typeof value}`;
}
