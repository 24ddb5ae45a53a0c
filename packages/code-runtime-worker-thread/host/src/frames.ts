/**
 * The wire: length-prefixed MessagePack arrays between Python, this process's main thread and its worker.
 *
 * Three parties talk. Python and the main thread use the control socket (kinds 1-3 and 16-20);
 * Python and the worker use a socket of the worker's own (kinds 32-33 and 48-53). Nobody trusts the
 * worker, and a program that writes to descriptors it does not own can forge any byte on any socket,
 * so the decoder accepts exactly the declared shapes and nothing else.
 *
 * A frame is a 4-byte big-endian body length and one array: the kind, then the fields of the table
 * below in order. This is a subset of MessagePack (uint, bool, bin, fixarray) written by hand because it
 * runs in the worker beside the program, which can replace every built-in. Each built-in used after
 * load is captured at load; arrays are never grown by index and no iterator is used, because setters on
 * `Array.prototype` and `Symbol.iterator` belong to the program.
 */

/** Protocol version that READY and HELLO announce. */
export const PROTOCOL_VERSION = 2;

/** Largest frame body in bytes; a larger declared length ends the connection. */
export const MAX_BODY_BYTES = 268_435_456;

/** Bytes before each body: its length, big-endian. */
export const PREFIX_BYTES = 4;

type FieldType = "uint" | "bool" | "bytes";

interface FrameShape {
  readonly kind: number;
  readonly fields: readonly (readonly [name: string, type: FieldType])[];
}

/** Every frame: name, kind on the wire, and its fields in wire order. */
export const FRAMES = {
  SPAWN: {
    kind: 1,
    fields: [
      ["socketPath", "bytes"],
      ["logPath", "bytes"],
      ["nonce", "bytes"],
      ["heapBytes", "uint"],
    ],
  },
  PREPARE: {
    kind: 2,
    fields: [
      ["run", "uint"],
      ["directory", "bytes"],
      ["program", "bytes"],
    ],
  },
  TERMINATE: { kind: 3, fields: [["run", "uint"]] },
  READY: {
    kind: 16,
    fields: [
      ["version", "uint"],
      ["node", "bytes"],
    ],
  },
  PREPARED: {
    kind: 17,
    fields: [
      ["run", "uint"],
      ["prepared", "bytes"],
    ],
  },
  REFUSED: {
    kind: 18,
    fields: [
      ["run", "uint"],
      ["message", "bytes"],
      ["retire", "bool"],
    ],
  },
  BUSY: {
    kind: 19,
    fields: [
      ["run", "uint"],
      ["busyUs", "uint"],
    ],
  },
  GONE: {
    kind: 20,
    fields: [
      ["run", "uint"],
      ["detail", "bytes"],
    ],
  },
  RUN: { kind: 32, fields: [["request", "bytes"]] },
  REPLY: {
    kind: 33,
    fields: [
      ["id", "uint"],
      ["ok", "bool"],
      ["payload", "bytes"],
    ],
  },
  HELLO: {
    kind: 48,
    fields: [
      ["version", "uint"],
      ["nonce", "bytes"],
    ],
  },
  CALL: {
    kind: 49,
    fields: [
      ["id", "uint"],
      ["target", "bytes"],
      ["argument", "bytes"],
    ],
  },
  LOG: { kind: 50, fields: [["text", "bytes"]] },
  DONE: { kind: 51, fields: [["value", "bytes"]] },
  FAIL: {
    kind: 52,
    fields: [
      ["failure", "bytes"],
      ["message", "bytes"],
    ],
  },
  LIMIT: { kind: 53, fields: [] },
} as const satisfies Record<string, FrameShape>;

type Frames = typeof FRAMES;
type FrameName = keyof Frames;
type KindByName = { readonly [N in FrameName]: Frames[N]["kind"] };

/** A frame's kind on the wire. */
export type Kind = Frames[FrameName]["kind"];

type ShapeOf<K extends Kind> = Extract<Frames[FrameName], { readonly kind: K }>;
type ValueOf<T> = T extends "uint" ? number : T extends "bool" ? boolean : Uint8Array;
type Named = readonly [name: string, type: FieldType];
type Values<T extends readonly Named[]> = { -readonly [I in keyof T]: ValueOf<T[I][1]> };

/** The field values of one kind, in wire order. */
export type FieldsOf<K extends Kind> = Values<ShapeOf<K>["fields"]>;

/** One decoded frame: `kind` tells which of the named fields exist. */
export type Message = {
  [K in Kind]: { readonly kind: K } & {
    readonly [F in ShapeOf<K>["fields"][number] as F[0]]: ValueOf<F[1]>;
  };
}[Kind];

/** Thrown for bytes that are no frame of the table, and for fields that no frame can carry. */
export class ProtocolError extends Error {
  override readonly name = "ProtocolError";
}

const U8 = Uint8Array;
const { MAX_SAFE_INTEGER, isSafeInteger } = Number;
const { min } = Math;
const typedArray = Object.getPrototypeOf(U8.prototype) as object;
const uncurry = Function.prototype.bind.bind(Function.prototype.call) as unknown as <R>(
  method: (...args: never[]) => R,
) => (self: unknown, ...args: unknown[]) => R;

const getterOf = <R>(name: PropertyKey): ((self: unknown) => R) => {
  const get = Object.getOwnPropertyDescriptor(typedArray, name)?.get;
  if (get === undefined)
    throw new Error(`Cannot load frames: typed arrays have no ${String(name)}`);
  return uncurry(get as () => R);
};

const bufferOf = getterOf<ArrayBuffer>("buffer");
const offsetOf = getterOf<number>("byteOffset");
const lengthOf = getterOf<number>("length");
const tagOf = getterOf<string | undefined>(Symbol.toStringTag);
const copyInto = uncurry(U8.prototype.set) as (
  target: Uint8Array,
  source: Uint8Array,
  offset: number,
) => void;

const isBytes = (value: unknown): value is Uint8Array => tagOf(value) === "Uint8Array";

/** Makes a view without `subarray`, whose species lookup a program can redirect. */
const viewOf = (bytes: Uint8Array, start: number, length: number): Uint8Array =>
  new U8(bufferOf(bytes), offsetOf(bytes) + start, length);

const names = Object.keys(FRAMES) as FrameName[];

/** Kinds by name, for building frames and for `switch` over a message. */
export const KIND = Object.freeze(
  Object.fromEntries(names.map((name) => [name, FRAMES[name].kind])),
) as KindByName;

// Without prototypes: an unknown kind must find nothing, whatever the program put on Object.prototype.
const shapes = Object.assign(
  Object.create(null),
  Object.fromEntries(names.map((name) => [FRAMES[name].kind, FRAMES[name].fields])),
) as Record<number, FrameShape["fields"] | undefined>;

const uintSize = (value: number): number =>
  value < 0x80 ? 1 : value < 0x100 ? 2 : value < 0x10000 ? 3 : value < 0x100000000 ? 5 : 9;

const bytesHead = (length: number): number => (length < 0x100 ? 2 : length < 0x10000 ? 3 : 5);

function fieldSize(type: FieldType, value: unknown): number {
  if (type === "uint" && isSafeInteger(value) && (value as number) >= 0) {
    return uintSize(value as number);
  }
  if (type === "bool" && typeof value === "boolean") return 1;
  if (type === "bytes" && isBytes(value)) {
    const length = lengthOf(value);
    return bytesHead(length) + length;
  }
  throw new ProtocolError(`Cannot encode a frame field: ${typeof value}, expected ${type}`);
}

/** Writes the low `width` bytes of a number below 2^53, big-endian. */
function writeBigEndian(target: Uint8Array, at: number, value: number, width: number): number {
  let rest = value;
  for (let index = width - 1; index >= 0; index--) {
    const low = rest % 256;
    target[at + index] = low;
    rest = (rest - low) / 256;
  }
  return at + width;
}

function writeUint(target: Uint8Array, at: number, value: number): number {
  const size = uintSize(value);
  if (size === 1) {
    target[at] = value;
    return at + 1;
  }
  target[at] = size === 2 ? 0xcc : size === 3 ? 0xcd : size === 5 ? 0xce : 0xcf;
  return writeBigEndian(target, at + 1, value, size - 1);
}

function writeBytes(target: Uint8Array, at: number, value: Uint8Array): number {
  const length = lengthOf(value);
  const head = bytesHead(length);
  target[at] = head === 2 ? 0xc4 : head === 3 ? 0xc5 : 0xc6;
  const start = writeBigEndian(target, at + 1, length, head - 1);
  copyInto(target, value, start);
  return start + length;
}

function writeField(target: Uint8Array, at: number, type: FieldType, value: unknown): number {
  if (type === "uint") return writeUint(target, at, value as number);
  if (type === "bytes") return writeBytes(target, at, value as Uint8Array);
  target[at] = value === true ? 0xc3 : 0xc2;
  return at + 1;
}

function shapeOf(kind: number): FrameShape["fields"] {
  const shape = shapes[kind];
  if (shape === undefined)
    throw new ProtocolError(`Cannot use frame kind ${kind}: not in the table`);
  return shape;
}

/**
 * Count the bytes of a frame, prefix included.
 *
 * @param kind - Which frame.
 * @param fields - Its values in wire order.
 * @returns The size in bytes; the body is {@link PREFIX_BYTES} smaller.
 * @throws ProtocolError when a field has the wrong type or the body exceeds {@link MAX_BODY_BYTES}.
 */
export function frameSize<K extends Kind>(kind: K, fields: FieldsOf<K>): number {
  const shape = shapeOf(kind);
  const values = fields as unknown as readonly unknown[];
  if (values.length !== shape.length) {
    throw new ProtocolError(
      `Cannot encode frame kind ${kind}: ${values.length} fields, expected ${shape.length}`,
    );
  }
  let size = 1 + uintSize(kind);
  for (let index = 0; index < shape.length; index++) {
    size += fieldSize((shape[index] as Named)[1], values[index]);
  }
  if (size > MAX_BODY_BYTES) {
    throw new ProtocolError(
      `Cannot encode frame kind ${kind}: ${size} bytes, expected at most ${MAX_BODY_BYTES} bytes`,
    );
  }
  return PREFIX_BYTES + size;
}

/**
 * Write a frame into a buffer that has room for {@link frameSize} bytes.
 *
 * @param target - Where to write.
 * @param offset - The first byte to write.
 * @param kind - Which frame.
 * @param fields - Its values in wire order.
 * @returns The offset after the last byte written.
 * @throws ProtocolError as {@link frameSize} does; RangeError when `target` is too small.
 */
export function writeFrame<K extends Kind>(
  target: Uint8Array,
  offset: number,
  kind: K,
  fields: FieldsOf<K>,
): number {
  const size = frameSize(kind, fields);
  if (offset + size > lengthOf(target)) {
    throw new RangeError(
      `Cannot write a frame: ${size} bytes at ${offset}, expected room in ${lengthOf(target)} bytes`,
    );
  }
  const shape = shapeOf(kind);
  let at = writeBigEndian(target, offset, size - PREFIX_BYTES, PREFIX_BYTES);
  target[at] = 0x90 + 1 + shape.length;
  at = writeUint(target, at + 1, kind);
  for (let index = 0; index < shape.length; index++) {
    at = writeField(
      target,
      at,
      (shape[index] as Named)[1],
      (fields as unknown as unknown[])[index],
    );
  }
  return at;
}

/**
 * Encode a frame, length prefix included.
 *
 * @param kind - Which frame.
 * @param fields - Its values in wire order.
 * @returns A buffer of exactly the frame's bytes.
 * @throws ProtocolError as {@link frameSize} does.
 */
export function encodeFrame<K extends Kind>(kind: K, ...fields: FieldsOf<K>): Uint8Array {
  const target = new U8(frameSize(kind, fields));
  writeFrame(target, 0, kind, fields);
  return target;
}

/** Walks one body; every read is bounds-checked before it happens. */
class Cursor {
  readonly #bytes: Uint8Array;
  readonly #length: number;
  #at = 0;

  constructor(bytes: Uint8Array) {
    this.#bytes = bytes;
    this.#length = lengthOf(bytes);
  }

  get done(): boolean {
    return this.#at === this.#length;
  }

  byte(): number {
    if (this.#at >= this.#length) throw new ProtocolError("Cannot decode a frame: it ends early");
    return this.#bytes[this.#at++] as number;
  }

  number(width: number): number {
    let value = 0;
    for (let index = 0; index < width; index++) value = value * 256 + this.byte();
    if (value > MAX_SAFE_INTEGER) {
      throw new ProtocolError("Cannot decode a frame: a number above 2^53 - 1");
    }
    return value;
  }

  uint(): number {
    const tag = this.byte();
    if (tag < 0x80) return tag;
    if (tag < 0xcc || tag > 0xcf) {
      throw new ProtocolError(`Cannot decode a frame: tag ${tag}, expected a uint`);
    }
    return this.number(1 << (tag - 0xcc));
  }

  bytes(): Uint8Array {
    const tag = this.byte();
    if (tag < 0xc4 || tag > 0xc6) {
      throw new ProtocolError(`Cannot decode a frame: tag ${tag}, expected bytes`);
    }
    const length = this.number(1 << (tag - 0xc4));
    if (length > this.#length - this.#at) {
      throw new ProtocolError("Cannot decode a frame: it ends early");
    }
    const value = viewOf(this.#bytes, this.#at, length);
    this.#at += length;
    return value;
  }

  field(type: FieldType): unknown {
    if (type === "uint") return this.uint();
    if (type === "bytes") return this.bytes();
    const tag = this.byte();
    if (tag === 0xc2 || tag === 0xc3) return tag === 0xc3;
    throw new ProtocolError(`Cannot decode a frame: tag ${tag}, expected a bool`);
  }
}

/**
 * Decode one frame body (without its length prefix) into a message.
 *
 * Byte fields are views into `body`, not copies.
 *
 * @param body - The bytes after the prefix.
 * @returns The message, with exactly the fields that the table names.
 * @throws ProtocolError when the bytes are not exactly one frame of the table.
 */
export function decodeBody(body: Uint8Array): Message {
  const cursor = new Cursor(body);
  const head = cursor.byte();
  if (head <= 0x90 || head > 0x9f) {
    throw new ProtocolError(`Cannot decode a frame: tag ${head}, expected a non-empty fixarray`);
  }
  const kind = cursor.uint();
  const shape = shapeOf(kind);
  if (head - 0x91 !== shape.length) {
    throw new ProtocolError(
      `Cannot decode frame kind ${kind}: ${head - 0x91} fields, expected ${shape.length}`,
    );
  }
  // Without a prototype, so that plain assignment cannot run a setter that the program defined.
  const message = { __proto__: null, kind } as unknown as Record<string, unknown>;
  for (let index = 0; index < shape.length; index++) {
    const field = shape[index] as Named;
    message[field[0]] = cursor.field(field[1]);
  }
  if (!cursor.done)
    throw new ProtocolError(`Cannot decode frame kind ${kind}: bytes after its end`);
  return message as unknown as Message;
}

/**
 * Cuts a byte stream into messages, whatever the sizes of its chunks.
 *
 * Time is linear in the bytes pushed: a body that arrives in parts is gathered once, in a buffer of its
 * declared size. A byte field of a message is valid as long as the chunk that it came in is unchanged.
 */
export class FrameReader {
  readonly #deliver: (message: Message) => void;
  readonly #maxBodyBytes: number;
  readonly #prefix = new U8(PREFIX_BYTES);
  #prefixFill = 0;
  #body: Uint8Array | undefined;
  #bodyFill = 0;

  /**
   * @param deliver - Called with each message, in order, during {@link FrameReader.push}.
   * @param maxBodyBytes - Largest body accepted.
   */
  constructor(deliver: (message: Message) => void, maxBodyBytes: number = MAX_BODY_BYTES) {
    this.#deliver = deliver;
    this.#maxBodyBytes = maxBodyBytes;
  }

  /** Whether a frame has begun that is not complete: an end of stream now is a cut. */
  get midFrame(): boolean {
    return this.#prefixFill > 0;
  }

  /**
   * Take the next bytes of the stream and deliver the messages that they complete.
   *
   * @param chunk - Any number of bytes, none included.
   * @throws ProtocolError at the first body that is no frame; the reader must not be used afterwards.
   */
  push(chunk: Uint8Array): void {
    const end = lengthOf(chunk);
    let at = 0;
    while (at < end) {
      at = this.#prefixFill < PREFIX_BYTES ? this.#readPrefix(chunk, at, end) : at;
      if (this.#prefixFill === PREFIX_BYTES) at = this.#readBody(chunk, at, end);
    }
  }

  #readPrefix(chunk: Uint8Array, start: number, end: number): number {
    let at = start;
    while (at < end && this.#prefixFill < PREFIX_BYTES) {
      this.#prefix[this.#prefixFill++] = chunk[at++] as number;
    }
    if (this.#prefixFill === PREFIX_BYTES) this.#checkLength(this.#bodyLength());
    return at;
  }

  #checkLength(length: number): void {
    if (length > 0 && length <= this.#maxBodyBytes) return;
    throw new ProtocolError(
      `Cannot read a frame: a body of ${length} bytes, expected 1 to ${this.#maxBodyBytes} bytes`,
    );
  }

  #bodyLength(): number {
    let length = 0;
    for (let index = 0; index < PREFIX_BYTES; index++) {
      length = length * 256 + (this.#prefix[index] as number);
    }
    return length;
  }

  #readBody(chunk: Uint8Array, start: number, end: number): number {
    const length = this.#bodyLength();
    const wanted = length - this.#bodyFill;
    if (this.#body === undefined && end - start >= length) {
      this.#finish(viewOf(chunk, start, length));
      return start + length;
    }
    this.#body ??= new U8(length);
    const taken = min(end - start, wanted);
    copyInto(this.#body, viewOf(chunk, start, taken), this.#bodyFill);
    this.#bodyFill += taken;
    if (this.#bodyFill === length) this.#finish(this.#body);
    return start + taken;
  }

  #finish(body: Uint8Array): void {
    this.#prefixFill = 0;
    this.#body = undefined;
    this.#bodyFill = 0;
    this.#deliver(decodeBody(body));
  }
}
