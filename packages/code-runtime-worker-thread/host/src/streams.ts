/**
 * `process.stdout` and `process.stderr` of the worker: every write becomes a log entry at once.
 *
 * Node's streams of a worker hand text to the main thread, which prints it later, if it ever gets to. Here
 * `write`, and what `Writable.prototype.write` ends in (`_write`, `_writev`: the real console, pipes, nested
 * workers), go to the log, so order and text survive any end. One entry per write, line ends included.
 */

import type { Writable } from "node:stream";
import {
  apply,
  Bytes,
  bufferOf,
  byteLengthOf,
  byteOffsetOf,
  bytesFrom,
  defineProperty,
  isEncoding,
  nextTick,
  typeTagOf,
} from "./intrinsics.ts";

type Callback = (error: Error | null | undefined) => void;
interface Piece {
  readonly chunk: unknown;
  readonly encoding: string;
}

/** Joins characters whose bytes come in several writes. */
class Decoder {
  readonly #decoder = new TextDecoder("utf-8", { ignoreBOM: true });
  readonly #decode = this.#decoder.decode.bind(this.#decoder);
  #partial = false;

  bytes(chunk: Uint8Array): string {
    const decoded = this.#decode(chunk, { stream: true });
    this.#partial = endsInside(chunk, this.#partial);
    return decoded;
  }

  /** Ends an unfinished character: what follows is no longer bytes of it. */
  flush(): string {
    if (!this.#partial) return "";
    this.#partial = false;
    return this.#decode();
  }
}

/** Tells whether bytes end within a character, as far as their last four show. */
function endsInside(chunk: Uint8Array, before: boolean): boolean {
  const length = byteLengthOf(chunk);
  if (length === 0) return before;
  for (let back = 1; back <= 4 && back <= length; back++) {
    const byte = chunk[length - back] as number;
    if (byte < 0x80) return false;
    if (byte >= 0xc0) return back < (byte >= 0xf0 ? 4 : byte >= 0xe0 ? 3 : 2);
  }
  return before;
}

function viewBytes(view: ArrayBufferView): Uint8Array {
  if (typeTagOf(view) !== undefined) {
    return new Bytes(bufferOf(view), byteOffsetOf(view), byteLengthOf(view));
  }
  return new Bytes(view.buffer as ArrayBuffer, view.byteOffset, view.byteLength);
}

const isUtf8 = (encoding: unknown): boolean =>
  encoding === undefined || encoding === null || encoding === "utf8" || encoding === "utf-8";

/** Redirects one stream; `end` gives the rest of a character that was never finished. */
class Redirect {
  readonly #log: (entry: string) => void;
  readonly #decoder = new Decoder();

  constructor(log: (entry: string) => void) {
    this.#log = log;
  }

  /** Logs one chunk that Node has accepted or would accept. */
  take(chunk: unknown, encoding: unknown): void {
    if (typeof chunk !== "string") this.#bytes(viewBytes(chunk as ArrayBufferView));
    else if (isUtf8(encoding) || encoding === "buffer") this.#log(this.#decoder.flush() + chunk);
    else this.#bytes(bytesFrom(chunk, encoding as BufferEncoding));
  }

  #bytes(bytes: Uint8Array): void {
    const decoded = this.#decoder.bytes(bytes);
    // The text of a chunk that only begins a character comes with the write that ends it. No bytes are no
    // entry either: execSync() writes the child's stderr here, which is nearly always empty.
    if (decoded !== "") this.#log(decoded);
  }

  end(): void {
    const rest = this.#decoder.flush();
    if (rest !== "") this.#log(rest);
  }
}

function isPlainWrite(chunk: unknown, encoding: unknown): boolean {
  if (typeof chunk === "string") {
    return isUtf8(encoding) || (typeof encoding === "string" && isEncoding(encoding));
  }
  return typeTagOf(chunk) === "Uint8Array";
}

function set(target: object, key: string, value: unknown): void {
  defineProperty(target, key, {
    __proto__: null,
    value,
    writable: true,
    enumerable: false,
    configurable: true,
  } as PropertyDescriptor);
}

/**
 * Send what is written to a stream to the log instead.
 *
 * @param stream - `process.stdout` or `process.stderr` of the worker.
 * @param log - Takes each entry.
 * @returns Logs what is left of an unfinished character; for the end of the run.
 */
export function redirect(stream: Writable, log: (entry: string) => void): () => void {
  const target = new Redirect(log);
  const original = stream.write;
  set(stream, "write", (chunk: unknown, second?: unknown, third?: unknown): boolean => {
    const callback = (typeof second === "function" ? second : third) as Callback | undefined;
    const encoding = typeof second === "function" ? undefined : second;
    if (!isPlainWrite(chunk, encoding)) {
      // Anything else is Node's to judge: it refuses it with its own error, or ends in `_write`.
      apply(original, stream, [chunk, second, third]);
      return true;
    }
    target.take(chunk, encoding);
    if (typeof callback === "function") nextTick(callback, null);
    return true;
  });
  set(stream, "_write", (chunk: unknown, encoding: string, done: Callback): void => {
    target.take(chunk, encoding);
    done(null);
  });
  set(stream, "_writev", (pieces: readonly Piece[], done: Callback): void => {
    for (let index = 0; index < pieces.length; index++) {
      const piece = pieces[index] as Piece;
      target.take(piece.chunk, piece.encoding);
    }
    done(null);
  });
  return () => target.end();
}
