/**
 * The worker's own socket to Python: frames out by synchronous writes, frames in by the event loop.
 *
 * What a program printed before a hot loop, an exit or a kill must have left the process, so every frame
 * but that of a call which follows on another is written at once, with `fs.writevSync` on the socket's descriptor (`fs.writeSync` looks for errors on an
 * object with a prototype, where a program can put some). LOG frames go to a pipe, which takes a line in
 * half the time that a socket needs; Python reads what is in it before it looks at a later frame of the
 * socket. While the socket, or the pipe, is full the
 * thread sleeps, and takes in what Python sends: both sides may be writing to each other, and a side that
 * does not read would stop the other for good. Messages taken in that way are handed on later.
 */

import fs from "node:fs";
import net from "node:net";
import {
  type FieldsOf,
  FrameReader,
  frameSize,
  KIND,
  type Kind,
  type Message,
  PREFIX_BYTES,
  writeFrame,
} from "./frames.ts";
import {
  allocUnsafeSlow,
  atomicsAdd,
  atomicsWait,
  Bytes,
  bufferOf,
  byteLength,
  byteLengthOf,
  byteOffsetOf,
  codeOf,
  copyBytes,
  microtask,
  needStack,
  now,
  readSync,
  utf8Slice,
  utf8Write,
  writevSync,
} from "./intrinsics.ts";
import { stringText } from "./json.ts";

const SCRATCH_BYTES = 65_536;
const INBOUND_BYTES = 65_536;
/** Longest text that surely fits the scratch buffer: JSON spells one unit with at most six bytes. */
const SHORT_CHARS = 10_000;
/** Prefix, array head, kind, and the longest head of a bytes field. */
const LOG_HEAD_BYTES = PREFIX_BYTES + 2 + 5;
/** Open for writing, and say so when the pipe is full. */
const LOG_FLAGS = fs.constants.O_WRONLY | fs.constants.O_NONBLOCK;
/** A write costs as much as all else of a call; so many calls, of so many bytes, share one. */
const CALLS_COUNT = 32;
const CALLS_BYTES = 16_384;
const WAIT_MS = 0.2;
const LONG_WAIT_MS = 2;
const SHORT_WAITS = 50;

/** Where what arrives goes; none of them may throw. */
export interface Receiver {
  readonly run: (request: string) => void;
  readonly reply: (id: number, ok: boolean, payload: string) => void;
  /** The socket is gone: nothing the worker does can matter any more. */
  readonly lost: () => void;
}

/**
 * A message kept as text until no frame is being read or written: handing it on runs the program.
 * A list, since arrays must not be grown while a program lives. A RUN has no id.
 */
interface Waiting {
  readonly id: number | undefined;
  readonly ok: boolean;
  readonly payload: string;
  next: Waiting | undefined;
}

/** Where frames go out: a descriptor, and the rest of a frame that it has not taken. */
interface Outlet {
  fd: number;
  unfinished: Uint8Array | undefined;
}

/** One connected socket, and the pipe beside it. */
export class Channel {
  readonly #receiver: Receiver;
  readonly #reader: FrameReader;
  readonly #scratch = allocUnsafeSlow(SCRATCH_BYTES);
  readonly #inbound = allocUnsafeSlow(INBOUND_BYTES);
  readonly #sleeper = new Int32Array(new SharedArrayBuffer(4));
  readonly #waited: Int32Array | undefined;
  readonly #socket: Outlet = { fd: -1, unfinished: undefined };
  /** Frames of calls that wait for the end of this step of the program; they begin behind the first. */
  readonly #calls = allocUnsafeSlow(CALLS_BYTES);
  #callsEnd = 0;
  #callsCount = 0;
  #gathers = false;
  #logs: Outlet = this.#socket;
  #open = false;
  #first: Waiting | undefined;
  #last: Waiting | undefined;
  #scheduled = false;

  /**
   * @param receiver - Where what arrives goes.
   * @param waited - A shared cell that counts the microseconds spent waiting for room, if anyone reads it.
   */
  constructor(receiver: Receiver, waited?: Int32Array) {
    this.#receiver = receiver;
    this.#waited = waited;
    this.#reader = new FrameReader((message) => this.#take(message));
  }

  /**
   * Connect.
   *
   * @param path - A Unix socket path; an abstract name begins with NUL.
   * @param logPath - A named pipe that is being read, for LOG frames; empty when there is none.
   * @param connected - Called once frames can be sent.
   */
  connect(path: string, logPath: string, connected: () => void): void {
    if (logPath !== "") {
      this.#logs = { fd: openPipe(logPath), unfinished: undefined };
    }
    const lost = (): void => this.#lose();
    const callback = (count: number, buffer: Uint8Array): boolean => {
      this.#push(buffer, count);
      this.#drain();
      return true;
    };
    // `onread` hands over the bytes without a Readable: less to run, and less for a program to replace.
    const socket = net.connect({
      path,
      onread: { buffer: allocUnsafeSlow(INBOUND_BYTES), callback },
    });
    socket.on("connect", () => {
      this.#socket.fd = (socket as unknown as { _handle: { fd: number } })._handle.fd;
      this.#open = true;
      connected();
    });
    socket.on("error", lost);
    socket.on("end", lost);
    socket.on("close", lost);
  }

  /** Whether frames still go out. */
  get isOpen(): boolean {
    return this.#open;
  }

  /** Sends nothing more; the socket stays, and keeps the worker alive until it is terminated. */
  mute(): void {
    this.#open = false;
  }

  /**
   * Send one frame.
   *
   * @param kind - Which frame.
   * @param fields - Its values in wire order; the array must be a fresh literal.
   * @throws ProtocolError when the frame is too large; RangeError when the stack is nearly full. Nothing
   *   was sent then.
   */
  send<K extends Kind>(kind: K, fields: FieldsOf<K>): void {
    if (!this.#open) return;
    needStack();
    const size = frameSize(kind, fields);
    const target = size <= SCRATCH_BYTES ? this.#scratch : allocUnsafeSlow(size);
    writeFrame(target, 0, kind, fields);
    this.sendGathered();
    this.#finish(this.#logs);
    this.#write(this.#socket, target, 0, size);
  }

  /**
   * Send one CALL frame: the first of a step of the program at once, further ones together at its end.
   *
   * @param fields - As for `send`.
   * @throws As `send` does; the frame will not be sent then.
   */
  sendCall(fields: FieldsOf<typeof KIND.CALL>): void {
    if (!this.#open) return;
    if (!this.#gathers) {
      microtask(this.#endStep);
      this.#gathers = true;
      this.send(KIND.CALL, fields);
      return;
    }
    const size = frameSize(KIND.CALL, fields);
    if (this.#callsCount === CALLS_COUNT || this.#callsEnd + size > CALLS_BYTES) {
      this.sendGathered();
    }
    if (size > CALLS_BYTES) {
      this.send(KIND.CALL, fields);
      return;
    }
    // A stack that is full in the middle leaves the end where it was.
    writeFrame(this.#calls, this.#callsEnd, KIND.CALL, fields);
    this.#callsEnd += size;
    this.#callsCount++;
  }

  readonly #endStep = (): void => {
    this.#gathers = false;
    this.sendGathered();
  };

  /** Sends the calls that wait for the end of this step of the program. */
  sendGathered(): void {
    const end = this.#callsEnd;
    if (end === 0) return;
    this.#finish(this.#logs);
    this.#write(this.#socket, this.#calls, 0, end);
    this.#callsEnd = 0;
    this.#callsCount = 0;
  }

  /**
   * Send one LOG frame.
   *
   * @param text - The entry.
   * @param admit - Told the bytes of its JSON text just before it is sent; false keeps it back.
   * @returns What `admit` said.
   */
  sendLog(text: string, admit: (cost: number) => boolean): boolean {
    if (!this.#open) return true;
    needStack();
    const json = stringText(text);
    const short = text.length <= SHORT_CHARS;
    const room = short ? SCRATCH_BYTES - LOG_HEAD_BYTES : byteLength(json, "utf8");
    const target = short ? this.#scratch : allocUnsafeSlow(LOG_HEAD_BYTES + room);
    const cost = utf8Write(target, json, LOG_HEAD_BYTES, room);
    if (!admit(cost)) return false;
    this.sendGathered();
    this.#write(this.#logs, target, putLogHead(target, cost), LOG_HEAD_BYTES + cost);
    return true;
  }

  /** Writes the rest of a frame that was begun. */
  #finish(outlet: Outlet): void {
    const { unfinished } = outlet;
    if (unfinished === undefined) return;
    outlet.unfinished = undefined;
    this.#write(outlet, unfinished, 0, byteLengthOf(unfinished));
  }

  /** Writes all bytes; a frame that was begun is finished before anything else. */
  #write(outlet: Outlet, bytes: Uint8Array, from: number, to: number): void {
    this.#finish(outlet);
    let at = from;
    let waits = 0;
    while (at < to && this.#open) {
      try {
        at += writevSync(outlet.fd, [viewOf(bytes, at, to)]);
      } catch (error) {
        if (codeOf(error) === "EAGAIN") this.#waitForRoom(waits++);
        else if (codeOf(error) !== undefined) this.#lose();
        else if (at === from) throw error;
        else {
          outlet.unfinished = restOf(bytes, at, to);
          return;
        }
      }
    }
  }

  #waitForRoom(waits: number): void {
    const started = now();
    this.#readNow();
    atomicsWait(this.#sleeper, 0, 0, waits < SHORT_WAITS ? WAIT_MS : LONG_WAIT_MS);
    if (this.#waited !== undefined) {
      atomicsAdd(this.#waited, 0, ((now() - started) * 1000) | 0);
    }
  }

  /** Takes in what has arrived, without the event loop. */
  #readNow(): void {
    for (;;) {
      let count = 0;
      try {
        count = readSync(this.#socket.fd, this.#inbound, 0, INBOUND_BYTES, null);
      } catch (error) {
        if (codeOf(error) !== "EAGAIN") this.#lose();
        return;
      }
      if (count === 0) {
        this.#lose();
        return;
      }
      this.#push(this.#inbound, count);
    }
  }

  #push(buffer: Uint8Array, count: number): void {
    try {
      this.#reader.push(viewOf(buffer, 0, count));
    } catch {
      this.#lose();
    }
  }

  #take(message: Message): void {
    if (message.kind === KIND.RUN) {
      this.#enqueue(undefined, true, message.request);
    } else if (message.kind === KIND.REPLY) {
      this.#enqueue(message.id, message.ok, message.payload);
    }
  }

  #enqueue(id: number | undefined, ok: boolean, bytes: Uint8Array): void {
    const waiting: Waiting = {
      id,
      ok,
      payload: utf8Slice(bytes, 0, byteLengthOf(bytes)),
      next: undefined,
    };
    if (this.#last === undefined) this.#first = waiting;
    else this.#last.next = waiting;
    this.#last = waiting;
    if (this.#scheduled) return;
    this.#scheduled = true;
    microtask(() => this.#drain());
  }

  #drain(): void {
    this.#scheduled = false;
    for (let waiting = this.#first; waiting !== undefined; waiting = this.#first) {
      this.#first = waiting.next;
      if (this.#first === undefined) this.#last = undefined;
      const { id, ok, payload } = waiting;
      if (id === undefined) this.#receiver.run(payload);
      else this.#receiver.reply(id, ok, payload);
    }
  }

  #lose(): void {
    this.#open = false;
    this.#receiver.lost();
  }
}

/** Opens a named pipe; the error has no path, since it may reach a model. */
function openPipe(path: string): number {
  try {
    return fs.openSync(path, LOG_FLAGS);
  } catch (error) {
    throw new Error(
      `Cannot open the pipe for logs: ${codeOf(error)}, expected a pipe with a reader`,
    );
  }
}

const viewOf = (bytes: Uint8Array, from: number, to: number): Uint8Array =>
  new Bytes(bufferOf(bytes), byteOffsetOf(bytes) + from, to - from);

/** Copies the rest of a frame whose writing was cut by a full stack. */
function restOf(bytes: Uint8Array, from: number, to: number): Uint8Array {
  const rest = allocUnsafeSlow(to - from);
  copyBytes(rest, viewOf(bytes, from, to), 0);
  return rest;
}

/** Puts the head of a LOG frame right before its text; tells where it starts. */
function putLogHead(target: Uint8Array, textBytes: number): number {
  const wide = textBytes > 0xffff ? 4 : textBytes > 0xff ? 2 : 1;
  const head = LOG_HEAD_BYTES - wide - 1;
  target[head] = wide === 1 ? 0xc4 : wide === 2 ? 0xc5 : 0xc6;
  putNumber(target, head + 1, textBytes, wide);
  target[head - 1] = KIND.LOG;
  target[head - 2] = 0x92;
  const start = head - 2 - PREFIX_BYTES;
  putNumber(target, start, LOG_HEAD_BYTES + textBytes - (head - 2), PREFIX_BYTES);
  return start;
}

function putNumber(target: Uint8Array, at: number, value: number, width: number): void {
  for (let index = 0; index < width; index++) {
    target[at + index] = value >>> (8 * (width - 1 - index));
  }
}
