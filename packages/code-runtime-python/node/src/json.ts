/**
 * Lossless JSON for the host: what bindings return, checked, copied, spelled and measured.
 *
 * Canonical text is what `JSON.stringify` prints, except that an integral number beyond 2^53 keeps its
 * exact digits. Nothing here recurses: a value may be nested a million levels deep.
 */

import type { JsonValue } from "./wire.ts";

/** A value is not lossless JSON. */
export class LosslessJsonError extends Error {
  override readonly name = "LosslessJsonError";
  readonly path: string;
  readonly reason: string;

  /**
   * @param path - Where, such as `$.items[3].when`; the middle of a long path is left out.
   * @param reason - Why, such as `Date is not JSON`.
   */
  constructor(path: string, reason: string) {
    super(`${path}: ${reason}`);
    this.path = path;
    this.reason = reason;
  }
}

/** A checked, detached copy of a value. */
export interface Snapshot {
  readonly value: JsonValue;
  /** Whether `JSON.stringify` spells it exactly and without deep recursion. */
  readonly isPlain: boolean;
}

type Container = JsonValue[] | { [key: string]: JsonValue };

interface Level {
  readonly source: object;
  readonly copy: Container;
  readonly keys: readonly string[] | undefined;
  readonly length: number;
  index: number;
}

const PLAIN_DEPTH = 200;

/**
 * Copy a value into plain arrays and objects without prototype; each property is read once.
 *
 * @param value - Anything; a getter or proxy trap in it runs.
 * @returns The copy.
 * @throws LosslessJsonError when a part of it is not lossless JSON, or reading it throws.
 */
export function snapshot(value: unknown): Snapshot {
  const levels: Level[] = [];
  const onPath = new Set<object>();
  let isPlain = true;
  const take = (item: unknown): JsonValue => {
    if (typeof item === "number") {
      checkNumber(item);
      if (!Number.isSafeInteger(item) && Number.isInteger(item)) isPlain = false;
      return item;
    }
    if (typeof item !== "object" || item === null) return scalar(item);
    const level = open(item, onPath);
    levels.push(level);
    onPath.add(item);
    if (levels.length > PLAIN_DEPTH) isPlain = false;
    return level.copy;
  };
  try {
    const root = take(value);
    for (let level = levels.at(-1); level !== undefined; level = levels.at(-1)) {
      level.index++;
      if (level.index === level.length) {
        onPath.delete(level.source);
        levels.pop();
        continue;
      }
      const key = level.keys?.[level.index] ?? level.index;
      const item = take((level.source as Record<string | number, unknown>)[key]);
      (level.copy as Record<string | number, JsonValue>)[key] = item;
    }
    return { value: root, isPlain };
  } catch (error) {
    const reason = error instanceof Refusal ? error.reason : "reading it threw an error";
    throw new LosslessJsonError(pathOf(levels), reason);
  }
}

/** Why a value is refused; the walk adds where. */
class Refusal {
  readonly reason: string;
  constructor(what: string) {
    this.reason = `${what} is not JSON`;
  }
}

function scalar(item: unknown): JsonValue {
  if (item === null || typeof item === "boolean" || typeof item === "string") return item;
  throw new Refusal(typeof item);
}

function checkNumber(item: number): void {
  if (!Number.isFinite(item)) throw new Refusal(`${item}`);
  if (Object.is(item, -0)) throw new Refusal("negative zero");
}

function open(item: object, onPath: ReadonlySet<object>): Level {
  if (onPath.has(item)) throw new Refusal("a cycle");
  const isList = Array.isArray(item);
  const prototype: unknown = Object.getPrototypeOf(item);
  const own = Reflect.ownKeys(item);
  if (isList) {
    const { length } = item;
    if (!isPrototype(prototype, "Array")) throw new Refusal("an array with a prototype of its own");
    if (own.length > length + 1) throw new Refusal("an array with extra properties");
    // Index keys come first and in order: if the last of `length` keys is length - 1, there is no hole.
    const isDense = length === 0 || own[length - 1] === `${length - 1}`;
    if (own.length !== length + 1 || !isDense) throw new Refusal("an array with holes");
    return {
      source: item,
      copy: new Array(length) as JsonValue[],
      keys: undefined,
      length,
      index: -1,
    };
  }
  const keys = Object.keys(item);
  const tag = Object.prototype.toString.call(item).slice(8, -1).slice(0, 60);
  if (tag !== "Object") throw new Refusal(tag);
  if (prototype !== null && !isPrototype(prototype, "Object"))
    throw new Refusal(className(prototype));
  if (keys.length !== own.length) throw new Refusal("an object with hidden or symbol keys");
  const copy = Object.create(null) as { [key: string]: JsonValue };
  return { source: item, copy, keys, length: keys.length, index: -1 };
}

/** Tells whether a prototype is the one of plain objects or arrays, in this realm or another. */
function isPrototype(prototype: unknown, name: "Array" | "Object"): boolean {
  if (prototype === (name === "Array" ? Array.prototype : Object.prototype)) return true;
  if (typeof prototype !== "object" || prototype === null) return false;
  const made: unknown = Object.getOwnPropertyDescriptor(prototype, "constructor")?.value;
  if (typeof made !== "function") return false;
  const isNative =
    Function.prototype.toString.call(made) === `function ${name}() { [native code] }`;
  return isNative && Object.getOwnPropertyDescriptor(made, "prototype")?.value === prototype;
}

function className(prototype: unknown): string {
  const made: unknown = Object.getOwnPropertyDescriptor(prototype, "constructor")?.value;
  const name: unknown =
    typeof made === "function" ? Object.getOwnPropertyDescriptor(made, "name")?.value : undefined;
  return typeof name === "string" && name !== ""
    ? `an instance of class ${name.slice(0, 60)}`
    : "an object with a prototype of its own";
}

const PATH_CHARS = 200;

function pathOf(levels: readonly Level[]): string {
  const shown = levels.length <= 40 ? levels : [...levels.slice(0, 20), ...levels.slice(-20)];
  const path = `$${shown.map(step).join("")}`;
  const isWhole = shown === levels && path.length <= PATH_CHARS;
  return isWhole ? path : `${path.slice(0, 98)}...${path.slice(-98)}`;
}

function step({ keys, index }: Level): string {
  if (index < 0) return "";
  if (keys === undefined) return `[${index}]`;
  const key = keys[index] as string;
  const cut = key.length <= 40 ? key : `${key.slice(0, 37)}...`;
  return /^[A-Za-z_][A-Za-z0-9_]*$/.test(cut) ? `.${cut}` : `[${JSON.stringify(cut)}]`;
}

/** Pieces of canonical text in order; the value must be JSON already. */
function* pieces(value: JsonValue): Generator<string, void, undefined> {
  const levels: {
    items: readonly JsonValue[];
    keys: readonly string[] | undefined;
    index: number;
  }[] = [];
  let item = value;
  for (;;) {
    if (typeof item === "object" && item !== null) {
      const keys = Array.isArray(item) ? undefined : Object.keys(item);
      const items = Array.isArray(item) ? item : Object.values(item);
      levels.push({ items, keys, index: -1 });
      yield keys === undefined ? "[" : "{";
    } else {
      yield typeof item === "number" ? spell(item) : JSON.stringify(item);
    }
    for (;;) {
      const level = levels.at(-1);
      if (level === undefined) return;
      level.index++;
      if (level.index < level.items.length) {
        const comma = level.index > 0 ? "," : "";
        const key = level.keys?.[level.index];
        if (comma || key !== undefined) {
          yield key === undefined ? comma : `${comma}${JSON.stringify(key)}:`;
        }
        item = level.items[level.index] as JsonValue;
        break;
      }
      yield level.keys === undefined ? "]" : "}";
      levels.pop();
    }
  }
}

/** Spells a finite number; an integral one keeps all its digits. */
function spell(value: number): string {
  return Number.isSafeInteger(value) || !Number.isInteger(value) ? `${value}` : `${BigInt(value)}`;
}

/**
 * Write a snapshot as canonical JSON text.
 *
 * @param taken - What {@link snapshot} returned.
 * @returns The text; lone surrogates are escapes.
 */
export function encode(taken: Snapshot): string {
  if (taken.isPlain) return JSON.stringify(taken.value);
  const parts: string[] = [];
  for (const piece of pieces(taken.value)) parts.push(piece);
  return parts.join("");
}

/**
 * Count the bytes of a value's canonical text without building it.
 *
 * @param value - JSON already, of any depth.
 * @param limit - Counting stops above it.
 * @returns The count, or undefined when it is above `limit`.
 */
export function measure(value: JsonValue, limit: number): number | undefined {
  const levels: { items: readonly JsonValue[]; index: number }[] = [];
  let total = 0;
  let item: JsonValue = value;
  for (;;) {
    if (typeof item === "object" && item !== null) {
      const keys = Array.isArray(item) ? undefined : Object.keys(item);
      const items: readonly JsonValue[] = Array.isArray(item) ? item : Object.values(item);
      total += 2 + Math.max(0, items.length - 1);
      for (const key of keys ?? []) {
        if (total > limit) return undefined;
        total += (stringCost(key, limit - total) ?? limit) + 1;
      }
      levels.push({ items, index: 0 });
    } else if (typeof item === "string") {
      total += stringCost(item, limit - total) ?? limit + 1;
    } else {
      total += typeof item === "number" ? spell(item).length : `${item}`.length;
    }
    if (total > limit) return undefined;
    let level = levels.at(-1);
    while (level !== undefined && level.index === level.items.length) {
      levels.pop();
      level = levels.at(-1);
    }
    if (level === undefined) return total;
    item = level.items[level.index++] as JsonValue;
  }
}

const QUOTES_BYTES = 2;

/** Costs one UTF-16 unit that is not the head of a surrogate pair. */
function unitCost(unit: number): number {
  if (unit < 0x80) {
    if (unit >= 0x20) return unit === 0x22 || unit === 0x5c ? 2 : 1;
    return (unit >= 8 && unit <= 10) || unit === 12 || unit === 13 ? 2 : 6;
  }
  if (unit < 0x800) return 2;
  return unit >= 0xd800 && unit <= 0xdfff ? 6 : 3;
}

/** Walks code points while their quoted cost fits; tells where it stopped and what that cost. */
function walk(text: string, budget: number): { end: number; cost: number } {
  let cost = QUOTES_BYTES;
  let end = 0;
  while (end < text.length) {
    const isPair = (text.codePointAt(end) as number) > 0xffff;
    const next = cost + (isPair ? 4 : unitCost(text.charCodeAt(end)));
    if (next > budget) break;
    cost = next;
    end += isPair ? 2 : 1;
  }
  return { end, cost };
}

/**
 * Count the bytes of a string's JSON text, quotes included, without building it.
 *
 * @param text - Any string.
 * @param limit - Counting stops above it.
 * @returns The count, or undefined when it is above `limit`.
 */
export function stringCost(text: string, limit: number): number | undefined {
  // Each UTF-16 unit costs a byte at least, so a long string is refused without a look at it.
  if (text.length + QUOTES_BYTES > limit) return undefined;
  const { end, cost } = walk(text, limit);
  return end === text.length ? cost : undefined;
}

/**
 * Cut a string to a budget.
 *
 * @param text - Any string.
 * @param budget - Bytes for the JSON text of the result, quotes included.
 * @returns The longest run of whole code points from the start that fits; empty below two bytes.
 */
export function fittingPrefix(text: string, budget: number): string {
  return budget < QUOTES_BYTES ? "" : text.slice(0, walk(text, budget).end);
}
