/**
 * Entry of a worker thread: connects to Python, waits for its one run, and runs it.
 *
 * Everything a run needs is loaded and used once before HELLO, since a spare worker has time and a run has
 * not. The program must find no trace of how it was started.
 */

import module from "node:module";
import threads from "node:worker_threads";
import { Bindings, type NamespaceSpec } from "./bindings.ts";
import { Channel } from "./channel.ts";
import { createConsole, joinArguments } from "./console.ts";
import { encodeFrame, FrameReader, KIND, PROTOCOL_VERSION } from "./frames.ts";
import { byteLengthOf, exitProcess, utf8Slice } from "./intrinsics.ts";
import { decode, encode } from "./json.ts";
import { Ledger } from "./ledger.ts";
import { Output } from "./output.ts";
import { compile, Run } from "./program.ts";
import { PositionMap } from "./sourcemap.ts";
import { installStacks } from "./stack.ts";
import { redirect } from "./streams.ts";

/** What the main thread hands over. */
interface WorkerData {
  readonly socketPath: string;
  readonly logPath: string;
  readonly nonce: Uint8Array;
  readonly waited?: Int32Array;
}

/** The RUN frame; Python wrote it. */
interface RunRequest {
  readonly code: string;
  readonly prologue: string;
  readonly map: { readonly mappings: string } | null;
  readonly program: string;
  readonly directory: string;
  readonly maxOutputBytes: number;
  readonly namespaces: readonly NamespaceSpec[];
}

const LINE_END = /\r\n|[\n\r\u2028\u2029]/;

const { socketPath, logPath, nonce, waited } = threads.workerData as WorkerData;

/** Takes away what tells of the host: the start data, the port, the arguments. */
function hideTraces(): void {
  const exported = threads as { workerData: unknown; parentPort: unknown };
  threads.parentPort?.unref();
  exported.workerData = null;
  exported.parentPort = null;
  module.syncBuiltinESMExports();
  process.argv = ["node", "program.ts"];
  // Node's own warnings are no output of the program; a program that listens for them still can.
  process.removeAllListeners("warning");
}

/** Lets the calls of the step in which a program ends its thread go out first. */
function sendBeforeExit(): void {
  const ending = process as unknown as { reallyExit: (code?: number) => never };
  const exit = ending.reallyExit.bind(ending);
  ending.reallyExit = function reallyExit(code) {
    channel.sendGathered();
    return exit(code);
  };
}

let bindings: Bindings | undefined;

const channel: Channel = new Channel(
  {
    run: (request) => start(decode(request) as RunRequest),
    reply: (id, ok, payload) => bindings?.settle(id, ok, payload),
    lost: () => exitProcess(0),
  },
  waited,
);
const output = new Output(channel);
const log = (entry: string): void => output.log(entry);
const flushes = [redirect(process.stdout, log), redirect(process.stderr, log)];
const programConsole = createConsole(log);

function start(request: RunRequest): void {
  const { code, prologue, program, directory } = request;
  process.env.TMPDIR = directory;
  const ledger = new Ledger(request.maxOutputBytes);
  output.ledger = ledger;
  const map = request.map === null ? undefined : new PositionMap(request.map.mappings);
  installStacks(map, program.split(LINE_END).length);
  bindings = new Bindings(channel, request.namespaces);
  const flush = (): void => {
    for (let index = 0; index < flushes.length; index++) (flushes[index] as () => void)();
  };
  const source = { program, code, prologue };
  const parts = { source, directory, map, bindings, channel, ledger, output, flush };
  new Run({ ...parts, console: programConsole }).start();
}

/**
 * Does what a run does once, so that the run need not wait until it is loaded and compiled: reads a request,
 * declares a function, calls it and gets its reply. The channel is not open, so nothing is sent.
 */
function warmUp(): void {
  const request: RunRequest = {
    code: "return 1",
    prologue: "",
    map: null,
    program: "return 1",
    directory: "/",
    maxOutputBytes: 100,
    namespaces: [{ global: "f", names: ["g"], errorClass: null }],
  };
  const reader = new FrameReader((message) => {
    if (message.kind !== KIND.RUN) return;
    const { request: bytes } = message;
    rehearse(decode(utf8Slice(bytes, 0, byteLengthOf(bytes))) as RunRequest);
  });
  reader.push(encodeFrame(KIND.RUN, Buffer.from(JSON.stringify(request))));
  joinArguments([{ a: 1 }, new Error("warm")]);
}

function rehearse({ code, prologue, program, maxOutputBytes, namespaces }: RunRequest): void {
  const ledger = new Ledger(maxOutputBytes);
  const declared = new Bindings(channel, namespaces);
  const [functions] = declared.values as [{ g(value: unknown): Promise<unknown> }];
  void functions.g({ a: [1, "b"] });
  declared.settle(1, true, "[1]");
  void compile({ program, code, prologue }, declared.names, undefined, () => {})(functions);
  encode(program.split(LINE_END).length, ledger.remaining, declared.describe);
}

installStacks();
hideTraces();
sendBeforeExit();
warmUp();
channel.connect(socketPath, logPath, () => channel.send(KIND.HELLO, [PROTOCOL_VERSION, nonce]));
