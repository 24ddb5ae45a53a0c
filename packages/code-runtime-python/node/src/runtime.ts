/** The runtime: Python programs, each in a fresh CPython process. */

import { type Bindings, takeBindings } from "./bindings.ts";
import { checkConfig, type PythonConfig } from "./config.ts";
import { describe, RequestError, RuntimeDisposedError } from "./errors.ts";
import { probeInterpreter, resolveInterpreter } from "./interpreter.ts";
import { Session, type SessionContext } from "./session.ts";
import { readChild, removeAbandoned } from "./staging.ts";
import type { CodeRunRequest, CodeRunResult } from "./types.ts";

/**
 * Runs Python programs.
 *
 * A program's own failure is a value in the result; an exception means misuse of the contract. Isolation is
 * a label, not a security boundary: a program has the rights of the host's user.
 */
export class PythonCodeRuntime {
  readonly language = "python";
  readonly isolation = "process";
  readonly #context: SessionContext;
  readonly #sessions = new Set<Session>();
  readonly #running = new Set<Promise<unknown>>();
  readonly #queue: (() => void)[] = [];
  #active = 0;
  #isDisposed = false;

  private constructor(context: SessionContext) {
    this.#context = context;
  }

  /**
   * Check a configuration, find the interpreter and make a runtime.
   *
   * @param config - What differs from the defaults.
   * @returns The runtime; nothing runs until `run` is called.
   * @throws ConfigError for the first field that is not allowed.
   */
  static async create(config: PythonConfig = {}): Promise<PythonCodeRuntime> {
    const checked = checkConfig(config);
    const files = readChild();
    const interpreter = resolveInterpreter(checked.pythonBin);
    await probeInterpreter(interpreter);
    removeAbandoned();
    return new PythonCodeRuntime({ config: checked, interpreter, files });
  }

  /**
   * Run one program.
   *
   * @param request - The program and what it may use.
   * @returns What it printed, and what it returned or why it failed; when nothing of the run is left.
   * @throws RuntimeDisposedError, RequestError or BindingNameError for misuse, LogObserverError when `onLog`
   * has thrown.
   */
  async run(request: CodeRunRequest): Promise<CodeRunResult> {
    if (this.#isDisposed) throw new RuntimeDisposedError();
    const { taken, bindings } = takeRequest(request);
    // A getter of the request may have disposed the runtime.
    if (this.#isDisposed) throw new RuntimeDisposedError();
    const session = new Session(this.#context, taken, bindings);
    this.#sessions.add(session);
    const running = this.#run(session, taken.signal);
    this.#running.add(running);
    try {
      return await running;
    } finally {
      this.#sessions.delete(session);
      this.#running.delete(running);
    }
  }

  /** Ends every run as `abort` and waits until nothing is left of them. */
  async dispose(): Promise<void> {
    this.#isDisposed = true;
    for (const session of this.#sessions) session.abort(() => "disposed");
    await Promise.allSettled(this.#running);
  }

  async #run(session: Session, signal: AbortSignal | undefined): Promise<CodeRunResult> {
    const abort = (): void => session.abort(() => signal?.reason);
    if (signal?.aborted) abort();
    else signal?.addEventListener("abort", abort, { once: true });
    let hasSlot = false;
    try {
      hasSlot = await this.#slot(session);
      return await session.run();
    } finally {
      signal?.removeEventListener("abort", abort);
      if (hasSlot) this.#release();
    }
  }

  /** Waits for a slot, or for the end of a run that never got one. */
  async #slot(session: Session): Promise<boolean> {
    if (this.#active < this.#context.config.maxConcurrentRuns) {
      this.#active++;
      return true;
    }
    let grant = (): void => {};
    const granted = new Promise<boolean>((resolve) => {
      grant = () => resolve(true);
    });
    this.#queue.push(grant);
    const hasSlot = await Promise.race([granted, session.decided.then(() => false)]);
    if (hasSlot) return true;
    const place = this.#queue.indexOf(grant);
    if (place >= 0) this.#queue.splice(place, 1);
    // The slot was given in the turn in which the run was decided: pass it on.
    else this.#release();
    return false;
  }

  #release(): void {
    const next = this.#queue.shift();
    if (next === undefined) this.#active--;
    else next();
  }
}

function takeRequest(request: CodeRunRequest): { taken: CodeRunRequest; bindings: Bindings } {
  if (typeof request !== "object" || request === null) {
    throw new RequestError("request", describe(request), "an object");
  }
  const { program, bindings, signal, onLog, maxWallMs } = request;
  if (typeof program !== "string") throw new RequestError("program", describe(program), "a string");
  if (signal !== undefined && !(signal instanceof AbortSignal)) {
    throw new RequestError("signal", describe(signal), "an AbortSignal");
  }
  if (onLog !== undefined && typeof onLog !== "function") {
    throw new RequestError("onLog", describe(onLog), "a function of one string");
  }
  const isTime = typeof maxWallMs === "number" && Number.isFinite(maxWallMs) && maxWallMs > 0;
  if (maxWallMs !== undefined && !isTime) {
    throw new RequestError("maxWallMs", describe(maxWallMs), "a positive number of milliseconds");
  }
  return { taken: { program, signal, onLog, maxWallMs }, bindings: takeBindings(bindings) };
}
