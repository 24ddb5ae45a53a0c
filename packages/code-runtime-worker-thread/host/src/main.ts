/**
 * Entry of the Node host process: `node <flags> host.mjs` with the control socket as descriptor 3.
 *
 * Descriptors 1 and 2 belong to the program that runs, so nothing here ever prints: every fault is an
 * exit code. 70: a fault of our own. 71: Python sent what is no valid frame, or not valid now.
 */
import { Socket } from "node:net";
import { encodeFrame, FrameReader, KIND, PROTOCOL_VERSION, ProtocolError } from "./frames.ts";
import { warmUp } from "./strip.ts";
import { Supervisor } from "./supervisor.ts";

const CONTROL_FD = 3;
const EXIT_FAULT = 70;
const EXIT_PROTOCOL = 71;

process.on("uncaughtException", (error) => {
  process.exit(error instanceof ProtocolError ? EXIT_PROTOCOL : EXIT_FAULT);
});

const control = new Socket({ fd: CONTROL_FD, readable: true, writable: true });
const supervisor = new Supervisor(
  (frame) => void control.write(frame),
  new URL("./worker.mjs", import.meta.url),
);

let warm = false;
const reader = new FrameReader((message) => {
  supervisor.handle(message);
  if (message.kind !== KIND.SPAWN || warm) return;
  warm = true;
  // Loading the stripper takes 35 ms: the first worker boots beside it in its own thread.
  setImmediate(warmUp);
});

/** Ends the process because Python closed the control socket or is gone. */
function leave(): void {
  // An orderly exit waits for the worker, and a program may sit in native code for as long as it likes.
  if (supervisor.running) process.kill(process.pid, "SIGKILL");
  process.exit(reader.midFrame ? EXIT_PROTOCOL : 0);
}

control.on("data", (chunk: Buffer) => reader.push(chunk));
control.on("end", leave);
control.on("error", leave);
control.on("close", leave);
control.write(encodeFrame(KIND.READY, PROTOCOL_VERSION, Buffer.from(process.versions.node)));
