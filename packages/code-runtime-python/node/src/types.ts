/** The vocabulary of a run: what a host asks for and what it gets. */

import type { JsonValue } from "./wire.ts";

/**
 * A function of the host that a program can call.
 *
 * @param args - The one argument of the call, plain JSON.
 * @param context - `signal` is aborted when the run is over and the result is not needed any more.
 * @returns Lossless JSON, or a promise of it. What it throws becomes the error of the call.
 */
// biome-ignore lint/suspicious/noExplicitAny: a host declares its argument as narrow as it likes.
export type BindingFunction = (args: any, context: { readonly signal: AbortSignal }) => unknown;

/** Functions that a program sees as the members of one global. */
export interface CodeBindingNamespace {
  /** The name of the global. */
  readonly globalName: string;
  /** The functions by name; members that are no functions are left out. */
  readonly functions: Readonly<Record<string, BindingFunction>>;
  /** What a failed call raises inside the program; RuntimeError without it. */
  readonly errorClass?: CodeBindingErrorClass | undefined;
}

/** An exception class that the program finds as a global. */
export interface CodeBindingErrorClass {
  readonly name: string;
  /** The attribute of an instance that holds the name of the called function. */
  readonly memberNameProperty: string;
}

/** One program and everything that its run may use. */
export interface CodeRunRequest {
  readonly program: string;
  readonly bindings?: readonly CodeBindingNamespace[] | undefined;
  /** Ends the run when it is aborted. */
  readonly signal?: AbortSignal | undefined;
  /** Called with each log entry while the program runs. */
  readonly onLog?: ((text: string) => unknown) | undefined;
  /** Milliseconds; can only lower the runtime's own limit. */
  readonly maxWallMs?: number | undefined;
}

/** Why a run failed. */
export type FailureKind =
  | "exception"
  | "timeout"
  | "abort"
  | "worker-exit"
  | "invalid-output"
  | "output-limit";

/** The failure of a run. */
export interface CodeRunFailure {
  readonly kind: FailureKind;
  readonly message: string;
}

/** What a run printed, and what it returned or why it failed. */
export interface CodeRunResult {
  readonly logs: readonly string[];
  /** Whether logs were dropped behind a marker, which is then the last entry. */
  readonly logsTruncated: boolean;
  /** Present only if the program returned something. */
  readonly value?: JsonValue;
  /** Present only if the run failed. */
  readonly error?: CodeRunFailure;
}
