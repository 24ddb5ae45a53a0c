/** One run: what arrives from the child and the host, and the result that follows from it. */

import type { Bindings } from "./bindings.ts";
import { CallDesk } from "./calls.ts";
import type { CheckedConfig } from "./config.ts";
import { LogObserverError } from "./errors.ts";
import { measure } from "./json.ts";
import { LogLedger } from "./ledger.ts";
import { type Exit, ProgramProcess } from "./process.ts";
import { LineReader, LineTooLongError } from "./reader.ts";
import { PacedReplies } from "./replies.ts";
import { type ChildFiles, Stage } from "./staging.ts";
import { StrayOutput } from "./streams.ts";
import { render, UNRENDERABLE_REASON } from "./text.ts";
import type { CodeRunFailure, CodeRunRequest, CodeRunResult, FailureKind } from "./types.ts";
import { type ChildMessage, cutMessage, parseChildFrame } from "./validate.ts";
import { encodeBoot, encodeRun, type JsonValue } from "./wire.ts";

const MIB = 1_048_576;

/** What decided a run. */
type Outcome =
  | { readonly by: "program"; readonly hasValue: boolean; readonly value: JsonValue | undefined }
  | { readonly by: "program" | "host"; readonly failure: CodeRunFailure };

/** What all runs of a runtime share. */
export interface SessionContext {
  readonly config: CheckedConfig;
  readonly interpreter: string;
  readonly files: ChildFiles;
}

/** Takes one request to its result. */
export class Session {
  readonly #context: SessionContext;
  readonly #request: CodeRunRequest;
  readonly #bindings: Bindings;
  readonly #ledger: LogLedger;
  readonly #reader: LineReader;
  readonly #decided: Promise<void>;
  #resolveDecided: () => void = () => {};
  #outcome: Outcome | undefined;
  #process: ProgramProcess | undefined;
  #desk: CallDesk | undefined;
  /** Lines that were read and not taken yet; only while there is no room for a call. */
  #backlog: Buffer[] = [];
  #parked: { readonly message: ChildMessage; readonly size: number } | undefined;
  #isPumping = false;
  #isAcknowledged = false;
  #exited = false;

  /**
   * @param context - What all runs share.
   * @param request - The program, checked.
   * @param bindings - Its bindings, copied.
   */
  constructor(context: SessionContext, request: CodeRunRequest, bindings: Bindings) {
    this.#context = context;
    this.#request = request;
    this.#bindings = bindings;
    this.#ledger = new LogLedger(context.config.maxLogBytes, request.onLog);
    this.#reader = new LineReader(context.config.maxFrameBytes);
    this.#decided = new Promise((resolve) => {
      this.#resolveDecided = resolve;
    });
  }

  /** Resolves when the outcome is decided. */
  get decided(): Promise<void> {
    return this.#decided;
  }

  /**
   * End the run as `abort`.
   *
   * @param reason - Gives anything, or throws; a string is the message.
   */
  abort(reason: () => unknown): void {
    let message = UNRENDERABLE_REASON;
    try {
      message = render(reason(), UNRENDERABLE_REASON);
    } catch {
      // A signal of the host's own making, whose reason cannot be read.
    }
    this.#fail("abort", cutMessage(message, this.#context.config.maxValueBytes));
  }

  /**
   * Run the program, unless the outcome is decided already.
   *
   * @returns The result, when nothing of the run is left.
   * @throws LogObserverError when `onLog` has thrown.
   */
  async run(): Promise<CodeRunResult> {
    let stage: Stage | undefined;
    let exit: Exit | undefined;
    if (this.#outcome === undefined) {
      try {
        stage = new Stage(this.#context.files);
      } catch (error) {
        this.#fail(
          "worker-exit",
          `the Python process was not started: staging failed: ${render(error, "")}`,
        );
      }
    }
    if (stage !== undefined) exit = await this.#execute(stage);
    if (this.#outcome === undefined && exit !== undefined) this.#fail(...this.#explain(exit));
    await this.#desk?.closed(this.#context.config.bindingGraceMs);
    await stage?.remove();
    const result = this.#result();
    const { fault } = this.#ledger;
    if (fault !== undefined) throw new LogObserverError(fault.error, result);
    return result;
  }

  async #execute(stage: Stage): Promise<Exit | undefined> {
    const { config, interpreter } = this.#context;
    const wallMs = Math.min(config.maxWallMs, this.#request.maxWallMs ?? config.maxWallMs);
    let program: ProgramProcess;
    try {
      program = new ProgramProcess({
        interpreter,
        script: stage.script,
        directory: stage.directory,
        memoryBytes: config.memoryMb * MIB,
        graceMs: config.graceMs,
        onMemory: () => this.#onMemory(),
        onExit: () => this.#onExit(),
        onChunk: (chunk) => this.#onChunk(chunk),
      });
    } catch (error) {
      this.#fail(
        "worker-exit",
        `the Python process was not started: spawn error: ${render(error, "")}`,
      );
      return undefined;
    }
    this.#process = program;
    const timer = setTimeout(
      () => this.#fail("timeout", `wall-clock ceiling exceeded: ${wallMs} ms`),
      wallMs,
    );
    const stray = new StrayOutput(this.#ledger);
    for (const stream of program.pipes) {
      const pipe = stray.pipe();
      stream.on("data", pipe.push);
      stream.on("end", pipe.end);
    }
    this.#connect(program);
    const exit = await program.closed;
    stray.end();
    clearTimeout(timer);
    this.#desk?.close();
    return exit;
  }

  #connect(program: ProgramProcess): void {
    const { channel } = program;
    const isOver = (): boolean => this.#outcome !== undefined || this.#exited;
    const replies = new PacedReplies(channel, isOver);
    this.#desk = new CallDesk(this.#bindings, replies, () => this.#pump());
    const { cpuSeconds, addressSpaceBytes, maxLogBytes, maxValueBytes } = this.#context.config;
    const limits = { cpuSeconds, addressSpaceBytes, maxLogBytes, maxValueBytes };
    this.#write("failed to boot", () =>
      encodeBoot({ ...limits, namespaces: this.#bindings.namespaces }),
    );
  }

  #write(what: string, make: () => Uint8Array): void {
    try {
      this.#process?.channel.write(make());
    } catch (error) {
      this.#fail("worker-exit", `the Python process ${what}: ${render(error, "")}`);
    }
  }

  #onChunk(chunk: Buffer): void {
    if (this.#outcome !== undefined && !this.#takesLogs) return;
    let lines: Buffer[];
    try {
      lines = this.#reader.push(chunk);
    } catch (error) {
      // After the outcome only logs count, and a line without end is none.
      if (!(error instanceof LineTooLongError)) throw error;
      this.#fail(
        "worker-exit",
        `the Python process sent a line of more than ${error.maxBytes} bytes`,
      );
      return;
    }
    if (this.#backlog.length === 0) this.#backlog = lines;
    else this.#backlog.push(...lines);
    this.#pump();
  }

  /** Takes lines until there is none, or no room for a call. */
  #pump(): void {
    // A call that is answered at once makes room while its line is being taken.
    if (this.#isPumping) return;
    this.#isPumping = true;
    try {
      this.#takeLines();
    } finally {
      this.#isPumping = false;
    }
  }

  #takeLines(): void {
    const { channel } = this.#process as ProgramProcess;
    let taken = 0;
    while (this.#parked !== undefined || taken < this.#backlog.length) {
      const line = this.#parked === undefined ? (this.#backlog[taken++] as Buffer) : undefined;
      const size = line?.length ?? this.#parked?.size ?? 0;
      const message = line === undefined ? this.#parked?.message : parseChildFrame(line);
      this.#parked = undefined;
      if (message === undefined || this.#take(message, size)) continue;
      this.#parked = { message, size };
      this.#backlog.splice(0, taken);
      channel.pause();
      return;
    }
    this.#backlog = [];
    if (channel.isPaused()) channel.resume();
  }

  /** Acts on a message; false when it is a call that there is no room for. */
  #take(message: ChildMessage, size: number): boolean {
    if (message.kind === "log") {
      if (!this.#takesLogs) return true;
      if (message.truncated) this.#ledger.truncate();
      else this.#ledger.frame(message.text, message.open);
      return true;
    }
    if (this.#outcome !== undefined) return true;
    if (message.kind === "call") {
      if (this.#exited || !this.#isAcknowledged) return true;
      return this.#desk?.accept(message, size) ?? true;
    }
    if (message.kind === "boot-ack") this.#onAck();
    else if (message.kind === "fail") this.#decide(this.#claimed(message.failure, message.message));
    else this.#decide(this.#returned(message));
    return true;
  }

  /** What a program printed before it was killed counts; what comes after its own end does not. */
  get #takesLogs(): boolean {
    return this.#outcome?.by !== "program";
  }

  #onAck(): void {
    if (this.#isAcknowledged) return;
    this.#isAcknowledged = true;
    this.#write("failed to start the program", () => encodeRun(this.#request.program));
  }

  #claimed(kind: FailureKind, message: string): Outcome {
    const cut = cutMessage(message, this.#context.config.maxValueBytes);
    return { by: "program", failure: { kind, message: cut } };
  }

  #returned(message: Extract<ChildMessage, { kind: "done" }>): Outcome {
    const { hasValue, value, isExact } = message;
    const { maxValueBytes } = this.#context.config;
    if (value !== undefined && measure(value, maxValueBytes) === undefined) {
      return this.#claimed("output-limit", `The value is larger than ${maxValueBytes} bytes`);
    }
    if (!isExact) {
      return this.#claimed(
        "invalid-output",
        "The completion must be lossless JSON: a number is not exact",
      );
    }
    return { by: "program", hasValue, value };
  }

  #onMemory(): void {
    const { memoryMb } = this.#context.config;
    const limit = `the program and its processes used more than ${memoryMb} MiB (memoryMb)`;
    this.#fail("worker-exit", `memory limit reached: ${limit}`);
    this.#process?.kill();
  }

  #onExit(): void {
    this.#exited = true;
    // Nothing waits for an answer any more, so there is always room; what is left is read for its end.
    this.#pump();
  }

  #fail(kind: FailureKind, message: string): void {
    this.#decide({ by: "host", failure: { kind, message } });
  }

  #decide(outcome: Outcome): void {
    if (this.#outcome !== undefined) return;
    this.#outcome = outcome;
    this.#resolveDecided();
    this.#desk?.close();
    this.#process?.end(outcome.by === "program");
    // Bytes that wait for room must not keep the socket from its end.
    const channel = this.#process?.channel;
    if (channel?.isPaused()) setImmediate(() => this.#pump());
  }

  #explain({ code, signal, spawnError, cpuSeconds }: Exit): [FailureKind, string] {
    if (spawnError !== undefined) {
      return ["worker-exit", `the Python process was not started: spawn error: ${spawnError}`];
    }
    const limit = this.#context.config.cpuSeconds;
    // SIGXCPU is the soft limit, SIGKILL the hard one; a sample tells either from a signal of its own.
    const isOver =
      cpuSeconds === undefined ? signal === "SIGXCPU" : cpuSeconds >= limit - SAMPLE_LAG_S;
    if ((signal === "SIGXCPU" || signal === "SIGKILL") && isOver) {
      return ["timeout", `CPU limit reached: at most ${limit} s of processor time (cpuSeconds)`];
    }
    const how = signal === null ? `ended with code ${code}` : `was ended by ${signal}`;
    return ["worker-exit", `the Python process ${how} before completing`];
  }

  #result(): CodeRunResult {
    const outcome = this.#outcome as Outcome;
    const logs = this.#ledger.finish();
    const base = { logs, logsTruncated: this.#ledger.truncated };
    if ("failure" in outcome) return { ...base, error: outcome.failure };
    return outcome.hasValue ? { ...base, value: outcome.value as JsonValue } : base;
  }
}

/** How much CPU time a process may have used since its last sample, by several threads. */
const SAMPLE_LAG_S = 0.5;
