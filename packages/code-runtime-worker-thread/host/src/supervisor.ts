/**
 * The main thread's part of a run: boots workers one at a time, prepares programs, reports busy time.
 *
 * Python drives it over the control socket; it never talks to the worker except by starting and ending
 * it. Everything that comes back from a worker (its exit, its error) was shaped by a hostile program.
 */
import { setFlagsFromString } from "node:v8";
import { Worker } from "node:worker_threads";
import { changesBetween, readProcess } from "./changes.ts";
import { encodeFrame, KIND, type Message, ProtocolError } from "./frames.ts";
import { prepare } from "./strip.ts";

/** What a worker is started with. */
export interface WorkerBoot {
  /** Where to connect: a path, or an abstract name that begins with NUL. */
  readonly socketPath: string;
  /** A named pipe for LOG frames; empty when they go to the socket. */
  readonly logPath: string;
  /** 16 bytes to present in HELLO. */
  readonly nonce: Uint8Array;
  /** One shared cell where the worker counts the microseconds that it waited for room to write. */
  readonly waited: Int32Array;
}

/** How often busy time is reported, in milliseconds. */
export const BUSY_INTERVAL_MS = 25;

/** Longest error text of a worker, in UTF-16 units: at most 6 bytes each in JSON, so below 64 KiB. */
export const MAX_ERROR_CHARS = 10_000;

/** What Python is told of a worker whose heap was full; it knows the limit. */
const OUT_OF_HEAP = "ERR_WORKER_OUT_OF_MEMORY";

const UNRENDERABLE = "The worker's error could not be rendered";
const utf8 = new TextDecoder("utf-8", { fatal: true });

const json = (value: unknown): Uint8Array => Buffer.from(JSON.stringify(value));

/** Decodes a JSON string from the control socket. */
function text(bytes: Uint8Array): string {
  try {
    const value: unknown = JSON.parse(utf8.decode(bytes));
    if (typeof value === "string") return value;
  } catch {
    // Told below: the reason says nothing that the sender could use.
  }
  throw new ProtocolError("Cannot read a program: expected a JSON string");
}

/**
 * Render what ended a worker, with no place but the program's own.
 *
 * @param error - The value of the worker's `error` event.
 * @returns Type, message and the stack frames of `program.ts`, at most {@link MAX_ERROR_CHARS} long.
 */
export function renderWorkerError(error: unknown): string {
  try {
    return rendered(error).slice(0, MAX_ERROR_CHARS);
  } catch {
    return UNRENDERABLE;
  }
}

function rendered(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  if ("code" in error && error.code === OUT_OF_HEAP) {
    return OUT_OF_HEAP;
  }
  const title = error.message === "" ? String(error.name) : `${error.name}: ${error.message}`;
  const frames = String(error.stack ?? "").match(/^ {4}at .*\bprogram\.ts:\d+:\d+.*$/gm) ?? [];
  return [title, ...frames].join("\n");
}

/** One worker and the run that it was given. */
interface Live {
  readonly worker: Worker;
  readonly waited: Int32Array;
  run: number;
  busy: NodeJS.Timeout | undefined;
  error: string | null;
}

/** Serves the control socket of one host process. */
export class Supervisor {
  readonly #send: (frame: Uint8Array) => void;
  readonly #workerUrl: URL;
  readonly #boot = readProcess();
  #live: Live | undefined;

  /**
   * @param send - Writes a frame to Python.
   * @param workerUrl - The worker's module.
   */
  constructor(send: (frame: Uint8Array) => void, workerUrl: URL) {
    this.#send = send;
    this.#workerUrl = workerUrl;
  }

  /** Whether a program may be running now. */
  get running(): boolean {
    return this.#live !== undefined && this.#live.run > 0;
  }

  /**
   * Carry out one message from Python.
   *
   * @param message - A decoded frame.
   * @throws ProtocolError when Python may not send it, or not now.
   */
  handle(message: Message): void {
    if (message.kind === KIND.SPAWN) this.#spawn(message);
    else if (message.kind === KIND.PREPARE) this.#prepare(message);
    else if (message.kind === KIND.TERMINATE) this.#terminate(message.run);
    else throw new ProtocolError(`Cannot handle frame kind ${message.kind} on the control socket`);
  }

  #spawn(message: Extract<Message, { kind: typeof KIND.SPAWN }>): void {
    if (this.#live !== undefined) throw new ProtocolError("Cannot start a second worker");
    if (message.heapBytes === 0) throw new ProtocolError("Cannot start a worker without a heap");
    // The seed of Math.random is a flag that no tag covers: a program may have fixed it. 0 is "by the system".
    setFlagsFromString("--random-seed=0");
    const workerData: WorkerBoot = {
      socketPath: utf8.decode(message.socketPath),
      logPath: utf8.decode(message.logPath),
      // A copy: cloning a view clones the whole chunk below it.
      nonce: Uint8Array.from(message.nonce),
      waited: new Int32Array(new SharedArrayBuffer(Int32Array.BYTES_PER_ELEMENT)),
    };
    const worker = new Worker(this.#workerUrl, {
      workerData,
      env: {},
      execArgv: [],
      argv: [],
      resourceLimits: { maxOldGenerationSizeMb: message.heapBytes / 1_048_576 },
      // Not piped into this process's own streams: opening those would make descriptors 1 and 2
      // non-blocking, and a program's fs.writeSync(1, …) would fail with EAGAIN.
      stdout: true,
      stderr: true,
      trackUnmanagedFds: true,
    });
    const { waited } = workerData;
    const live: Live = { worker, waited, run: 0, busy: undefined, error: null };
    this.#live = live;
    worker.on("error", (error: unknown) => {
      live.error ??= renderWorkerError(error);
    });
    worker.on("exit", (exitCode) => this.#gone(live, exitCode));
  }

  #prepare(message: Extract<Message, { kind: typeof KIND.PREPARE }>): void {
    const { run } = message;
    const live = this.#live;
    // The worker died while this frame was on its way: its GONE already tells that.
    if (live === undefined) return;
    if (run === 0 || live.run !== 0) throw new ProtocolError(`Cannot prepare run ${run} now`);
    live.run = run;
    this.#reportBusy(live);
    const outcome = this.#enter(message.directory) ?? prepare(text(message.program));
    this.#send(
      "message" in outcome
        ? encodeFrame(KIND.REFUSED, run, json(outcome.message), outcome.retire)
        : encodeFrame(KIND.PREPARED, run, json(outcome)),
    );
  }

  #enter(directory: Uint8Array): { message: string; retire: boolean } | undefined {
    try {
      process.chdir(utf8.decode(directory));
      return undefined;
    } catch {
      return { message: "Cannot enter the working directory of the run", retire: true };
    }
  }

  /** Reports the time since now that the worker's event loop was active, less its waits for room. */
  #reportBusy(live: Live): void {
    const active = (): number => live.worker.performance.eventLoopUtilization().active || 0;
    const before = active();
    let seen = Atomics.load(live.waited, 0);
    let waitedUs = 0;
    let busyUs = 0;
    live.busy = setInterval(() => {
      const waited = Atomics.load(live.waited, 0);
      // The cell wraps around at 2^32; between two looks it moves by far less.
      waitedUs += (waited - seen) >>> 0;
      seen = waited;
      // A wait is told when it ends, its active time before: the report must not go back.
      busyUs = Math.max(busyUs, Math.round((active() - before) * 1_000 - waitedUs));
      this.#send(encodeFrame(KIND.BUSY, live.run, busyUs));
    }, BUSY_INTERVAL_MS);
  }

  #terminate(run: number): void {
    const live = this.#live;
    // A worker that died by itself crosses with this frame; so does a frame for an earlier run.
    if (live === undefined || live.run !== run) return;
    void live.worker.terminate();
  }

  #gone(live: Live, exitCode: number): void {
    clearInterval(live.busy);
    this.#live = undefined;
    // Python deletes the run's directory now, and a worker cannot boot in a deleted one.
    process.chdir("/");
    const changed = changesBetween(this.#boot, readProcess());
    const detail = { exitCode, error: live.error, changed };
    this.#send(encodeFrame(KIND.GONE, live.run, json(detail)));
  }
}
