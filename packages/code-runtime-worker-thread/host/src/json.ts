/**
 * Lossless JSON: JavaScript values to canonical JSON text in UTF-8, and back.
 *
 * One walk checks, measures and writes. It recurses nowhere, reads every property once, and either gives
 * exactly the bytes of the value or says which part is not JSON. The values belong to the program: their
 * getters and proxy traps run here, and nothing they do may reach more than their own value.
 */

import {
  ArrayPrototype,
  allocUnsafeSlow,
  BigIntCtor,
  Bytes,
  bufferOf,
  byteLength,
  byteLengthOf,
  byteOffsetOf,
  charCodeAt,
  copyBytes,
  functionToString,
  getOwnPropertyDescriptor,
  getPrototypeOf,
  hasOwn,
  isArray,
  isNotANumber,
  isPromise,
  isSafeInteger,
  jsonParse,
  jsonStringify,
  MapCtor,
  mapGet,
  mapSet,
  ObjectPrototype,
  objectKeys,
  objectToString,
  ownKeys,
  ownNames,
  ownSymbols,
  SetCtor,
  setAdd,
  setDelete,
  setHas,
  slice,
  utf8Write,
} from "./intrinsics.ts";

/** What {@link encode} gives: the bytes, a part that is not JSON, or too many bytes. */
export type Encoded =
  | { readonly kind: "bytes"; readonly bytes: Uint8Array }
  | {
      readonly kind: "lossy";
      readonly path: string;
      readonly reason: string;
      readonly hint: string;
    }
  | { readonly kind: "limit" };

/** Describes a promise for a refusal; the bindings know which call it is. */
export type DescribePromise = (promise: object) => string;

/** One container whose children are being written; frames make a list, so depth costs no stack. */
interface Frame {
  readonly parent: Frame | undefined;
  readonly container: object;
  readonly keys: readonly string[] | undefined;
  readonly length: number;
  readonly depth: number;
  index: number;
}

const FLUSH_CHARS = 16_384;
const SHALLOW_DEPTH = 16;
const CACHED_KEYS = 2_000;
const CACHED_KEY_CHARS = 64;
const MAX_UTF8_PER_UNIT = 3;
const PLAIN_CHARS = 64;
const SPACE = 0x20;
const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const TILDE = 0x7e;

const keyTexts = new MapCtor<unknown, unknown>();
let cachedKeys = 0;

/** Spells a key with its colon; records repeat their keys, so short ones are kept. */
function keyText(key: string): string {
  const known = mapGet(keyTexts, key);
  if (known !== undefined) return known as string;
  const spelled = `${jsonStringify(key)}:`;
  if (cachedKeys < CACHED_KEYS && key.length <= CACHED_KEY_CHARS) {
    mapSet(keyTexts, key, spelled);
    cachedKeys++;
  }
  return spelled;
}

/** Gathers text and turns it into UTF-8 in pieces; counts bytes against a limit. */
class Writer {
  readonly #limit: number;
  #buffer: Uint8Array | undefined;
  #bytes = 0;
  /** Text not yet in the buffer. */
  pending = "";

  constructor(limit: number) {
    this.#limit = limit;
  }

  /** Whether so many more bytes are surely too many. */
  isOver(moreBytes: number): boolean {
    return this.#bytes + this.pending.length + moreBytes > this.#limit;
  }

  flush(): void {
    const text = this.pending;
    const most = text.length * MAX_UTF8_PER_UNIT;
    const needed = most > 1_048_576 ? byteLength(text, "utf8") : most;
    this.#reserve(needed);
    this.#bytes += utf8Write(this.#buffer as Uint8Array, text, this.#bytes, needed);
    this.pending = "";
  }

  #reserve(moreBytes: number): void {
    const old = this.#buffer;
    const needed = this.#bytes + moreBytes;
    if (old === undefined) {
      this.#buffer = allocUnsafeSlow(needed);
      return;
    }
    if (needed <= byteLengthOf(old)) return;
    const grown = allocUnsafeSlow(needed + this.#bytes);
    copyBytes(grown, old, 0);
    this.#buffer = grown;
  }

  finish(): Encoded {
    if (this.pending.length > 0) this.flush();
    if (this.#bytes > this.#limit) return { kind: "limit" };
    const buffer = this.#buffer as Uint8Array;
    const bytes = new Bytes(bufferOf(buffer), byteOffsetOf(buffer), this.#bytes);
    return { kind: "bytes", bytes };
  }
}

const HINTS = {
  __proto__: null,
  undefined: "null, or no such member",
  BigInt: "Number(x) or String(x)",
  Date: "date.toISOString()",
  Map: "Object.fromEntries(map)",
  Set: "[...set]",
  Error: "error.message",
  NaN: "null or a finite number",
  Infinity: "null or a finite number",
  "-Infinity": "null or a finite number",
  "-0": "0 (write x + 0)",
  RegExp: "regexp.source",
  URL: "url.href",
  function: "a value",
} as unknown as Record<string, string | undefined>;

/** Why a value is refused: `is` completes "… is not JSON", or `reason` says it all. */
interface Fault {
  readonly reason: string;
  readonly hint: string;
}

const fault = (what: string): Fault => ({
  reason: `${what} is not JSON`,
  hint: HINTS[what] ?? "plain objects, arrays, strings, finite numbers, booleans or null",
});

/** Tells whether a constructor is the native one of some realm, by the text that V8 prints for it. */
function isNative(value: unknown, name: string): boolean {
  return (
    typeof value === "function" &&
    functionToString(value) === `function ${name}() { [native code] }`
  );
}

/** Tells whether a prototype is the one of plain objects or arrays in another realm. */
function isForeign(prototype: object, name: "Object" | "Array"): boolean {
  const made = getOwnPropertyDescriptor(prototype, "constructor");
  if (made === undefined || !hasOwn(made, "value")) return false;
  if (!isNative(made.value, name)) return false;
  const back = getOwnPropertyDescriptor(made.value as object, "prototype");
  return back !== undefined && hasOwn(back, "value") && back.value === prototype;
}

/** Names the class of a value for a refusal; only own data properties are read, so no getter runs. */
function className(value: object, prototype: object | null): string {
  const tag = slice(objectToString(value), 8, -1);
  if (tag !== "Object" || prototype === null) return cut(tag, 60);
  const made = getOwnPropertyDescriptor(prototype, "constructor")?.value as unknown;
  if (typeof made !== "function") return "an object with a prototype of its own";
  const name = getOwnPropertyDescriptor(made, "name")?.value as unknown;
  return typeof name === "string" && name !== ""
    ? `an instance of class ${cut(name, 60)}`
    : "an instance of a class";
}

const cut = (text: string, chars: number): string =>
  text.length > chars ? `${slice(text, 0, chars)}…` : text;

/** Finds what is wrong with an array itself; its items are checked when they are written. */
function arrayFault(value: object, length: number): Fault | undefined {
  const prototype = getPrototypeOf(value);
  if (prototype !== ArrayPrototype && (prototype === null || !isForeign(prototype, "Array"))) {
    return fault("an array with a prototype of its own");
  }
  // Index keys come first and in order: if the last of `length` keys is length - 1, there is no hole.
  const keys = ownKeys(value);
  if (keys.length > length + 1) return fault("an array with extra properties");
  const dense = length === 0 || keys[length - 1] === `${length - 1}`;
  return keys.length === length + 1 && dense ? undefined : fault("an array with holes");
}

function objectFault(value: object, keyCount: number): Fault | undefined {
  const prototype = getPrototypeOf(value);
  if (prototype !== null && prototype !== ObjectPrototype && !isForeign(prototype, "Object")) {
    return fault(className(value, prototype));
  }
  // Both come from the caches of V8, like the keys; to have them together takes three times as long.
  if (ownNames(value).length !== keyCount || ownSymbols(value).length > 0) {
    const tag = slice(objectToString(value), 8, -1);
    return fault(tag === "Object" ? "an object with hidden or symbol keys" : cut(tag, 60));
  }
  // A Date or Map whose prototype was replaced has no keys and would pass for an empty object.
  if (keyCount > 0) return undefined;
  const tag = slice(objectToString(value), 8, -1);
  return tag === "Object" ? undefined : fault(cut(tag, 60));
}

/**
 * Spell a string as JSON; a short plain one by hand, which takes half as long.
 *
 * @param text - Any string.
 * @returns Its JSON text, as `JSON.stringify` has it.
 */
export function stringText(text: string): string {
  const length = text.length;
  if (length > PLAIN_CHARS) return jsonStringify(text);
  for (let index = 0; index < length; index++) {
    const unit = charCodeAt(text, index);
    if (unit < SPACE || unit > TILDE || unit === QUOTE || unit === BACKSLASH) {
      return jsonStringify(text);
    }
  }
  return `"${text}"`;
}

/** Spells a number, or tells why it is none of JSON's. Integral ones keep all their digits. */
function numberText(value: number): string | Fault {
  if (isSafeInteger(value)) return value === 0 && 1 / value < 0 ? fault("-0") : `${value}`;
  const rest = value % 1;
  // NaN and the infinities leave NaN.
  if (isNotANumber(rest)) return fault(`${value}`);
  return rest === 0 ? `${BigIntCtor(value)}` : `${value}`;
}

const LIMIT: unique symbol = Symbol("limit");

class Encoder {
  readonly #writer: Writer;
  readonly #describe: DescribePromise | undefined;
  #frame: Frame | undefined;
  /** Containers above the current value, once they are many. */
  #ancestors: Set<unknown> | undefined;

  constructor(limit: number, describe: DescribePromise | undefined) {
    this.#writer = new Writer(limit);
    this.#describe = describe;
  }

  run(root: unknown): Encoded {
    let value = root;
    try {
      for (;;) {
        const refused = this.#write(value);
        if (refused === LIMIT) return { kind: "limit" };
        if (refused !== undefined) return this.#lossy(refused);
        const frame = this.#next();
        if (frame === LIMIT) return { kind: "limit" };
        if (frame === undefined) return this.#writer.finish();
        const key = frame.keys === undefined ? frame.index : (frame.keys[frame.index] as string);
        value = (frame.container as Record<string | number, unknown>)[key];
      }
    } catch {
      return this.#lossy({ reason: "reading it threw an error", hint: "a value that can be read" });
    }
  }

  #write(value: unknown): Fault | typeof LIMIT | undefined {
    if (typeof value === "string") {
      // Each unit costs a byte at least: a string that cannot fit is not spelled at all.
      if (this.#writer.isOver(value.length + 2)) return LIMIT;
      this.#writer.pending += stringText(value);
      return undefined;
    }
    if (typeof value === "object" && value !== null) return this.#open(value);
    const spelled =
      typeof value === "number"
        ? numberText(value)
        : value === null || typeof value === "boolean"
          ? `${value}`
          : fault(typeof value === "bigint" ? "BigInt" : typeof value);
    if (typeof spelled !== "string") return spelled;
    this.#writer.pending += spelled;
    return undefined;
  }

  /** Checks a container and makes it the current one. */
  #open(value: object): Fault | undefined {
    const array = isArray(value);
    const keys = array ? undefined : objectKeys(value);
    const length = array ? (value as unknown[]).length : (keys as string[]).length;
    const refused = array ? arrayFault(value, length) : objectFault(value, length);
    if (refused !== undefined) {
      return isPromise(value) ? this.#promiseFault(value) : refused;
    }
    const parent = this.#frame;
    const depth = parent === undefined ? 0 : parent.depth + 1;
    if (this.#isAncestor(value, depth)) return fault("a cycle");
    this.#frame = { parent, container: value, keys, length, depth, index: -1 };
    this.#writer.pending += array ? "[" : "{";
    return undefined;
  }

  #promiseFault(promise: object): Fault {
    const origin = this.#describe?.(promise);
    return { reason: origin ?? "a Promise that was not awaited", hint: "a value: add await" };
  }

  /** Looks upwards for a container, in a set once there are many; adds it where the set is used. */
  #isAncestor(value: object, depth: number): boolean {
    if (depth < SHALLOW_DEPTH) {
      for (let frame = this.#frame; frame !== undefined; frame = frame.parent) {
        if (frame.container === value) return true;
      }
      return false;
    }
    if (this.#ancestors === undefined) {
      this.#ancestors = new SetCtor();
      for (let frame = this.#frame; frame !== undefined; frame = frame.parent) {
        setAdd(this.#ancestors, frame.container);
      }
    }
    if (setHas(this.#ancestors, value)) return true;
    setAdd(this.#ancestors, value);
    return false;
  }

  /** Closes what is complete and moves to the next child. */
  #next(): Frame | typeof LIMIT | undefined {
    const writer = this.#writer;
    if (writer.pending.length > FLUSH_CHARS) writer.flush();
    if (writer.isOver(0)) return LIMIT;
    for (let frame = this.#frame; frame !== undefined; frame = this.#frame) {
      frame.index++;
      if (frame.index < frame.length) {
        if (frame.index > 0) writer.pending += ",";
        if (frame.keys !== undefined) writer.pending += keyText(frame.keys[frame.index] as string);
        return frame;
      }
      this.#close(frame);
    }
    return undefined;
  }

  #close(frame: Frame): void {
    this.#writer.pending += frame.keys === undefined ? "]" : "}";
    this.#frame = frame.parent;
    if (frame.depth === SHALLOW_DEPTH) this.#ancestors = undefined;
    else if (this.#ancestors !== undefined) setDelete(this.#ancestors, frame.container);
  }

  #lossy({ reason, hint }: Fault): Encoded {
    return { kind: "lossy", path: pathOf(this.#frame), reason, hint };
  }
}

const HEAD_DEPTH = 8;
const PATH_PART_CHARS = 120;
const SEGMENT_CHARS = 48;

function isName(key: string): boolean {
  for (let index = 0; index < key.length; index++) {
    const unit = charCodeAt(key, index);
    const letter = (unit | 32) >= 97 && (unit | 32) <= 122;
    if (!letter && unit !== 95 && unit !== 36 && (index === 0 || unit < 48 || unit > 57))
      return false;
  }
  return key.length > 0;
}

function segment(frame: Frame): string {
  if (frame.keys === undefined) return `[${frame.index}]`;
  const key = frame.keys[frame.index] as string;
  const shown = cut(key, SEGMENT_CHARS);
  return isName(key) && shown === key ? `.${key}` : `[${jsonStringify(shown)}]`;
}

/** Spells the way to the current child; a long way loses its middle. */
function pathOf(leaf: Frame | undefined): string {
  let head = "";
  let tail = "";
  let elided = false;
  for (let frame = leaf; frame !== undefined; frame = frame.parent) {
    if (frame.depth < HEAD_DEPTH) {
      head = segment(frame) + head;
    } else if (!elided) {
      const longer = segment(frame) + tail;
      elided = longer.length > PATH_PART_CHARS;
      if (!elided) tail = longer;
    }
  }
  const start = slice(head, 0, PATH_PART_CHARS);
  return `$${start}${elided || start !== head ? "…" : ""}${tail}`;
}

/**
 * Write a value as canonical JSON in UTF-8.
 *
 * @param value - Anything; its getters run, once each, and the traps of its proxies.
 * @param limit - Most bytes of the result.
 * @param describe - Names a promise found inside.
 * @returns The bytes, or the first part found that is not JSON, or `limit` as soon as it is exceeded.
 */
export function encode(value: unknown, limit: number, describe?: DescribePromise): Encoded {
  return new Encoder(limit, describe).run(value);
}

/**
 * Read JSON text that Python wrote.
 *
 * @param text - Canonical JSON; V8's parser takes any depth.
 * @returns The value.
 */
export function decode(text: string): unknown {
  return jsonParse(text);
}
