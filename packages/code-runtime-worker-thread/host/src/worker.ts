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
import { KIND, PROTOCOL_VERSION } from "./frames.ts";
import { exitProcess } from "./intrinsics.ts";
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

/** Loads and compiles what the first run would otherwise wait for. */
function warmUp(): void {
  const source = { program: "", code: "return 1", prologue: "" };
  void compile(source, ["console"], undefined, () => {})();
  encode({ a: [1, "b"] }, 100);
  joinArguments([{ a: 1 }, new Error("warm")]);
}

installStacks();
hideTraces();
warmUp();
channel.connect(socketPath, logPath, () => channel.send(KIND.HELLO, [PROTOCOL_VERSION, nonce]));
