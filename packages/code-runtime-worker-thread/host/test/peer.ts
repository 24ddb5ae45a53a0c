/** The other end of a worker's socket: boots a real worker, gives it one program, and keeps what it sends. */

import { mkdtempSync, rmSync } from "node:fs";
import net, { type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Worker } from "node:worker_threads";
import { encodeFrame, FrameReader, KIND, type Message } from "../src/frames.ts";

/** How a run ended, as the worker said or showed it. */
export type End =
  | { readonly kind: "done"; readonly value: unknown; readonly json: string }
  | { readonly kind: "fail"; readonly failure: string; readonly message: string }
  | { readonly kind: "limit" }
  | { readonly kind: "exit"; readonly code: number }
  | { readonly kind: "error"; readonly message: string };

export interface Outcome {
  readonly logs: readonly string[];
  readonly calls: readonly { readonly target: readonly string[]; readonly argument: string }[];
  readonly end: End;
}

export type Binding = (argument: unknown) => unknown;

export interface Options {
  readonly bindings?: Readonly<Record<string, Readonly<Record<string, Binding>>>>;
  readonly errorClass?: { readonly name: string; readonly memberNameProperty: string };
  readonly maxOutputBytes?: number;
  readonly prologue?: string;
  readonly map?: { readonly mappings: string };
  readonly program?: string;
  /** Sees each message before it is handled; true keeps it from being handled. */
  readonly intercept?: (message: Message, socket: Socket) => boolean;
  /** Goes on after the worker's end message, until this resolves. */
  readonly afterEnd?: () => Promise<void>;
}

export const TOOL_ERROR = { name: "ToolCallError", memberNameProperty: "toolName" } as const;

const bytes = (text: string): Buffer => Buffer.from(text);
export const textOf = (encoded: Uint8Array): string => Buffer.from(encoded).toString();

let bundle: Promise<string> | undefined;

/** Bundles the worker once for each test file. */
async function bundled(): Promise<string> {
  const folder = mkdtempSync(join(tmpdir(), "worker-bundle-"));
  process.once("exit", () => rmSync(folder, { recursive: true, force: true }));
  const { buildInto } = (await import("../../scripts/build.mjs" as string)) as {
    buildInto: (folder: string, entries: Record<string, string>) => Promise<string[]>;
  };
  const [outfile] = await buildInto(`${folder}/`, { worker: "worker.ts" });
  return outfile as string;
}

let runs = 0;

class Peer {
  readonly logs: string[] = [];
  readonly calls: { target: string[]; argument: string }[] = [];
  readonly #options: Options;
  readonly #code: string;
  readonly #directory: string;
  readonly #ended: (end: End) => void;
  /** Fulfilled once all that the worker sent is read; undefined before it has connected. */
  closed: Promise<void> | undefined;

  constructor(code: string, directory: string, options: Options, ended: (end: End) => void) {
    this.#code = code;
    this.#directory = directory;
    this.#options = options;
    this.#ended = ended;
  }

  attach(socket: Socket): void {
    const reader = new FrameReader((message) => {
      if (this.#options.intercept?.(message, socket) === true) return;
      this.#handle(message, socket);
    });
    socket.on("data", (chunk) => reader.push(chunk));
    socket.on("error", () => {});
    this.closed = new Promise((resolve) => socket.once("close", () => resolve()));
  }

  #handle(message: Message, socket: Socket): void {
    switch (message.kind) {
      case KIND.HELLO:
        socket.write(encodeFrame(KIND.RUN, bytes(JSON.stringify(this.#request()))));
        break;
      case KIND.LOG:
        this.logs.push(JSON.parse(textOf(message.text)) as string);
        break;
      case KIND.CALL:
        void this.#answer(message.id, textOf(message.target), textOf(message.argument), socket);
        break;
      case KIND.DONE: {
        const json = textOf(message.value);
        this.#ended({ kind: "done", json, value: json === "" ? undefined : JSON.parse(json) });
        break;
      }
      case KIND.FAIL:
        this.#ended({
          kind: "fail",
          failure: textOf(message.failure),
          message: JSON.parse(textOf(message.message)) as string,
        });
        break;
      case KIND.LIMIT:
        this.#ended({ kind: "limit" });
        break;
      default:
        throw new Error(`Cannot handle frame kind ${message.kind}`);
    }
  }

  #request(): object {
    const { bindings = {}, errorClass = null, maxOutputBytes = 67_108_864 } = this.#options;
    const { prologue = "", map = null, program = this.#code } = this.#options;
    const namespaces = Object.entries(bindings).map(([global, functions], index) => ({
      global,
      names: Object.keys(functions),
      errorClass: index === 0 ? errorClass : null,
    }));
    const directory = this.#directory;
    return { code: this.#code, prologue, map, program, directory, maxOutputBytes, namespaces };
  }

  async #answer(id: number, target: string, argument: string, socket: Socket): Promise<void> {
    const [namespace, member] = JSON.parse(target) as [string, string];
    this.calls.push({ target: [namespace, member], argument });
    const binding = this.#options.bindings?.[namespace]?.[member] as Binding;
    try {
      const value = JSON.stringify(await binding(JSON.parse(argument)));
      socket.write(encodeFrame(KIND.REPLY, id, true, bytes(value)));
    } catch (error) {
      const message = JSON.stringify((error as Error).message);
      socket.write(encodeFrame(KIND.REPLY, id, false, bytes(message)));
    }
  }
}

/**
 * Run one program in a fresh worker.
 *
 * @param code - JavaScript, the body of an async function.
 * @param options - Bindings, budgets and hooks.
 * @returns What the worker sent.
 */
export async function runProgram(code: string, options: Options = {}): Promise<Outcome> {
  bundle ??= bundled();
  const entry = await bundle;
  const directory = mkdtempSync(join(tmpdir(), "worker-run-"));
  const home = process.cwd();
  process.chdir(directory);
  const socketPath = `\0worker-test-${process.pid}-${runs++}`;
  let end: (end: End) => void = () => {};
  const ended = new Promise<End>((resolve) => {
    end = resolve;
  });
  const peer = new Peer(code, directory, options, end);
  const server = net.createServer((socket) => peer.attach(socket));
  await new Promise<void>((resolve) => server.listen(socketPath, resolve));
  const workerData = { socketPath, logPath: "", nonce: new Uint8Array(16) };
  const worker = new Worker(entry, { workerData, env: {}, execArgv: ["--no-warnings"] });
  worker.on("error", (error) => end({ kind: "error", message: String(error) }));
  worker.on("exit", async (exitCode) => {
    await peer.closed;
    end({ kind: "exit", code: exitCode });
  });
  try {
    const outcome = await ended;
    await options.afterEnd?.();
    return { logs: peer.logs, calls: peer.calls, end: outcome };
  } finally {
    await worker.terminate();
    server.close();
    process.chdir(home);
    rmSync(directory, { recursive: true, force: true });
  }
}

/** Runs a program that must return a value. */
export async function resultOf(code: string, options?: Options): Promise<unknown> {
  const { end } = await runProgram(code, options);
  if (end.kind !== "done") throw new Error(`Cannot take the value of ${JSON.stringify(end)}`);
  return end.value;
}

/** Runs a program that must end as an exception. */
export async function exceptionOf(code: string, options?: Options): Promise<string> {
  const { end } = await runProgram(code, options);
  if (end.kind !== "fail" || end.failure !== "exception") {
    throw new Error(`Cannot take the exception of ${JSON.stringify(end)}`);
  }
  return end.message;
}
