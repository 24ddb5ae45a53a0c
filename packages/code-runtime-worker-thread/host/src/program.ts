/**
 * One program: compiled as the body of an async function, run once, its end sent once.
 */

import vm from "node:vm";
import type { Bindings } from "./bindings.ts";
import type { Channel } from "./channel.ts";
import { KIND } from "./frames.ts";
import {
  apply,
  byteLengthOf,
  defineProperty,
  listenerCount,
  MAX_SAFE_INTEGER,
  min,
  promiseThen,
  removeThen,
  restorePromises,
} from "./intrinsics.ts";
import { encode } from "./json.ts";
import { type Ledger, stringCost } from "./ledger.ts";
import { MAX_ITEM_BYTES, type Output } from "./output.ts";
import { type Position, positionAt, sourceFrame } from "./source.ts";
import type { PositionMap } from "./sourcemap.ts";
import { PROGRAM_FILE, renderThrown } from "./stack.ts";

type AsyncBody = (...values: unknown[]) => Promise<unknown>;

/** Code ready to run, as the main thread prepared it. */
export interface ProgramSource {
  /** The program as written; only shown. */
  readonly program: string;
  /** Its JavaScript, line by line where it was written unless there is a map. */
  readonly code: string;
  /** Rewritten imports; runs before the code. */
  readonly prologue: string;
}

/** A program that the engine does not accept. */
export class CompileError extends Error {}

const AsyncFunction = (async () => {}).constructor as FunctionConstructor;
const OPTIONS = {
  filename: PROGRAM_FILE,
  // The wrapper's own line is line 0, so the program's first is line 1 and columns are its own.
  lineOffset: -1,
  importModuleDynamically: vm.constants.USE_MAIN_CONTEXT_DEFAULT_LOADER,
};

/** Finds a name that the code does not use. */
function freeName(code: string): string {
  let name = "__settled__";
  while (code.includes(name)) name += "_";
  return name;
}

/** Reads the place that Node puts above the stack of a syntax error; the caret is missing below an octal escape. */
function syntaxPlace(error: Error): Position | undefined {
  const match = /^program\.ts:(\d+)\n[^\n]*\n( *)[\^\n]/.exec(error.stack ?? "");
  if (match === null) return undefined;
  return { line: Number(match[1]), column: (match[2] as string).length + 1 };
}

/** Finds the import that declares a name a second time: its code runs in the prologue, before line 1. */
function importPlace(message: string, program: string): Position | undefined {
  const name = /^Identifier '([^']+)' has already been declared$/.exec(message)?.[1];
  if (name === undefined) return undefined;
  const escaped = name.replaceAll("$", "\\$");
  const pattern = new RegExp(`\\bimport\\b[^;'"]*?[\\s{,]${escaped}(?=[\\s,}])`, "u");
  const found = pattern.exec(program);
  if (found === null) return undefined;
  return positionAt(program, found.index + found[0].length - name.length);
}

function compileError(error: unknown, program: string, map: PositionMap | undefined): CompileError {
  if (!(error instanceof SyntaxError)) return new CompileError(String(error));
  const found = syntaxPlace(error);
  const inPrologue = found !== undefined && found.line < 1;
  const place = inPrologue
    ? importPlace(error.message, program)
    : found === undefined || map === undefined
      ? found
      : map.original(found.line, found.column);
  const header = `SyntaxError: ${error.message}`;
  const source = place === undefined ? "" : sourceFrame(program, place.line, place.column);
  if (place === undefined || source === "") return new CompileError(header);
  return new CompileError(
    `${header}\n${source}\n    at ${PROGRAM_FILE}:${place.line}:${place.column}`,
  );
}

/**
 * Compile a program.
 *
 * @param source - The program.
 * @param names - Its parameters.
 * @param map - Positions of a transformed program.
 * @param ended - Called when the body is left, right before its value resolves the promise.
 * @returns The function to call with the values of the parameters.
 * @throws CompileError with the message for the program's author.
 */
export function compile(
  source: ProgramSource,
  names: readonly string[],
  map: PositionMap | undefined,
  ended: () => void,
): AsyncBody {
  const { program, code, prologue } = source;
  const parameters = names.join(",");
  const mark = freeName(code + prologue);
  const body = `"use strict";${prologue}\n${code}`;
  const plain = `(${mark}=>async function(${parameters}){${body}\n})`;
  const guarded = `(${mark}=>async function(${parameters}){"use strict";try{${prologue}\n${code}\n}finally{${mark}()}})`;
  try {
    // The engine itself checks that the code is one body: it cannot close the function and open another.
    new AsyncFunction(...names, body);
  } catch (error) {
    throw compileError(located(error, plain), program, map);
  }
  const script = compileScript(guarded) ?? new vm.Script(plain, OPTIONS);
  return (script.runInThisContext() as (callback: () => void) => AsyncBody)(ended);
}

/** Compiles what may not be accepted: a block takes no second function of one name, as a body does. */
function compileScript(code: string): vm.Script | undefined {
  try {
    return new vm.Script(code, OPTIONS);
  } catch {
    return undefined;
  }
}

/** Compiles the form that shows where an error is; keeps the first error when that form has none. */
function located(first: unknown, plain: string): unknown {
  try {
    new vm.Script(plain, OPTIONS);
    return first;
  } catch (error) {
    return error;
  }
}

/** Everything one run needs. */
export interface RunParts {
  readonly source: ProgramSource;
  readonly directory: string;
  readonly map: PositionMap | undefined;
  readonly bindings: Bindings;
  readonly channel: Channel;
  readonly ledger: Ledger;
  readonly output: Output;
  readonly console: object;
  /** Logs what the streams still hold. */
  readonly flush: () => void;
}

/** Runs one program and sends how it ended, exactly once. */
export class Run {
  readonly #parts: RunParts;
  #ended = false;
  #hijacked = false;

  /**
   * @param parts - What the run works with.
   */
  constructor(parts: RunParts) {
    this.#parts = parts;
  }

  /** Compiles and starts the program; returns when it first waits. */
  start(): void {
    const { bindings, source, map, console } = this.#parts;
    const names = [...bindings.names, "console"];
    const values = [...bindings.values, console];
    let body: AsyncBody;
    try {
      body = compile(source, names, map, () => {
        // Nothing runs between here and the promise asking the value for its `then`.
        const clean = removeThen();
        this.#hijacked = !(restorePromises() && clean);
      });
    } catch (error) {
      this.#fail("exception", (error as Error).message);
      return;
    }
    this.#watch();
    const promise = apply(body, undefined, values) as Promise<unknown>;
    // `then` makes its result with the promise's constructor, which the program may have replaced; with
    // none it takes the language's own.
    defineProperty(promise, "constructor", {
      __proto__: null,
      value: undefined,
    } as PropertyDescriptor);
    promiseThen(
      promise,
      (value) => this.#complete(value),
      (reason) => this.#throw(reason, ""),
    );
  }

  /** Reports errors that nobody handles, unless the program has handlers of its own. */
  #watch(): void {
    process.on("unhandledRejection", (reason, promise) => {
      if (listenerCount("unhandledRejection") > 1) return;
      this.#throw(reason, this.#unawaited(promise));
    });
    process.on("uncaughtException", (error) => {
      if (listenerCount("uncaughtException") > 1) return;
      this.#throw(error, "");
    });
  }

  #unawaited(promise: object): string {
    const origin = this.#parts.bindings.originOf(promise);
    if (origin === undefined) return "\nNothing awaited the promise when it failed";
    return `\nNothing awaited the call of ${origin} when it failed: write await ${origin}(...), or Promise.all for several calls`;
  }

  #complete(value: unknown): void {
    if (this.#ended) return;
    if (this.#hijacked) {
      const message =
        "Cannot read the completion: then of Object.prototype, Array.prototype or Promise.prototype was replaced for good";
      this.#fail("exception", message);
    } else if (value === undefined) {
      this.#end(() => this.#parts.channel.send(KIND.DONE, [NOTHING]));
    } else {
      this.#return(value);
    }
  }

  #return(value: unknown): void {
    const { bindings, ledger } = this.#parts;
    const encoded = encode(value, min(ledger.remaining, MAX_ITEM_BYTES), bindings.describe);
    if (encoded.kind === "lossy") {
      const { path, reason, hint } = encoded;
      const message = `The completion must be lossless JSON: ${path}: ${reason}, expected ${hint}`;
      this.#fail("invalid-output", message);
      return;
    }
    this.#end(() => {
      if (encoded.kind === "limit" || byteLengthOf(encoded.bytes) > ledger.remaining) {
        this.#parts.output.overflow();
      } else {
        this.#parts.channel.send(KIND.DONE, [encoded.bytes]);
      }
    });
  }

  #throw(thrown: unknown, note: string): void {
    if (this.#ended) return;
    const { bindings, directory, ledger, source } = this.#parts;
    const message = renderThrown(thrown, {
      program: source.program,
      directory,
      maxChars: ledger.remaining,
      advise: bindings.advise,
    });
    this.#fail("exception", message + note);
  }

  #fail(kind: "exception" | "invalid-output", message: string): void {
    this.#end(() => {
      const room = min(this.#parts.ledger.remaining, MAX_ITEM_BYTES);
      if (stringCost(message, room) === undefined) {
        this.#parts.output.overflow();
        return;
      }
      const bytes = encode(message, MAX_SAFE_INTEGER);
      if (bytes.kind !== "bytes") return;
      this.#parts.channel.send(KIND.FAIL, [FAILURE_KINDS[kind], bytes.bytes]);
    });
  }

  /** Sends the end; what the program does afterwards changes nothing. */
  #end(send: () => void): void {
    if (this.#ended) return;
    this.#parts.flush();
    this.#ended = true;
    send();
    this.#parts.channel.mute();
  }
}

const NOTHING = new Uint8Array(0);
const FAILURE_KINDS = {
  exception: new TextEncoder().encode("exception"),
  "invalid-output": new TextEncoder().encode("invalid-output"),
} as const;
