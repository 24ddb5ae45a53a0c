/**
 * The built-ins that the worker uses after a program has started.
 *
 * A program shares its realm with the code that checks, counts and carries its values, and it can replace
 * every global and every prototype method. This module is evaluated before any program, keeps each
 * built-in it needs in a constant, and turns methods into functions that take their receiver first.
 *
 * Rules for every other module of the worker, from the moment a program runs: no method call on a value
 * that the language owns (strings, arrays, maps, promises), no iteration protocol (`for..of`, spread,
 * array patterns), no growing of an array by index (`Array.prototype` may have setters), descriptors only
 * without a prototype, no `await`, no regular expression.
 */

import { Buffer } from "node:buffer";
import fs from "node:fs";
import { inspect as nodeInspect, types } from "node:util";

type Method<This, Args extends readonly unknown[], R> = (this: This, ...args: Args) => R;

const uncurry = Function.prototype.bind.bind(Function.prototype.call) as unknown as <
  This,
  Args extends readonly unknown[],
  R,
>(
  method: Method<This, Args, R>,
) => (self: This, ...args: Args) => R;

export const {
  apply,
  construct,
  defineProperty,
  deleteProperty,
  get: reflectGet,
  getOwnPropertyDescriptor,
  getPrototypeOf,
  ownKeys,
} = Reflect;

export const ErrorCtor = Error;
export const PromiseCtor = Promise;
export const BigIntCtor = BigInt;
export const MapCtor = Map;
export const SetCtor = Set;
export const Bytes = Uint8Array;

export const ObjectPrototype = Object.prototype;
export const ArrayPrototype = Array.prototype;
export const ErrorPrototype = Error.prototype;
export const PromisePrototype = Promise.prototype;

export const { isArray } = Array;
export const { isNaN: isNotANumber, isSafeInteger, MAX_SAFE_INTEGER } = Number;
export const { max, min } = Math;
export const {
  freeze,
  keys: objectKeys,
  getOwnPropertyNames: ownNames,
  getOwnPropertySymbols: ownSymbols,
} = Object;
export const { parse: jsonParse } = JSON;
export const jsonStringify = JSON.stringify as (text: string) => string;
export const hasOwn = Object.hasOwn;
export const captureStackTrace = Error.captureStackTrace;

export const objectToString = uncurry(Object.prototype.toString as Method<unknown, [], string>);
export const functionToString = uncurry(Function.prototype.toString as Method<unknown, [], string>);
export const symbolToString = uncurry(Symbol.prototype.toString as Method<symbol, [], string>);

export const charCodeAt = uncurry(String.prototype.charCodeAt);
export const indexOf = uncurry(String.prototype.indexOf);
export const lastIndexOf = uncurry(String.prototype.lastIndexOf);
export const slice = uncurry(String.prototype.slice);
/** Converts any value to text; runs its own conversion, which may throw. */
export const text = String as (value: unknown) => string;

type AnyMap = Map<unknown, unknown>;
export const mapGet = uncurry(Map.prototype.get as Method<AnyMap, [unknown], unknown>);
export const mapSet = uncurry(Map.prototype.set as Method<AnyMap, [unknown, unknown], unknown>);
export const mapDelete = uncurry(Map.prototype.delete as Method<AnyMap, [unknown], boolean>);
export const setHas = uncurry(Set.prototype.has as Method<Set<unknown>, [unknown], boolean>);
export const setAdd = uncurry(Set.prototype.add as Method<Set<unknown>, [unknown], unknown>);
export const setDelete = uncurry(Set.prototype.delete as Method<Set<unknown>, [unknown], boolean>);
const { species: speciesKey } = Symbol;
const promiseSpecies = bare(getOwnPropertyDescriptor(Promise, speciesKey) as PropertyDescriptor);
const promiseThenMethod = Promise.prototype.then;
export const promiseThen = uncurry(
  promiseThenMethod as Method<
    Promise<unknown>,
    [(value: unknown) => void, (reason: unknown) => void],
    unknown
  >,
);

interface RawBuffer {
  utf8Slice(this: Uint8Array, start: number, end: number): string;
  utf8Write(this: Uint8Array, text: string, offset: number, length: number): number;
}
const rawBuffer = Buffer.prototype as unknown as RawBuffer;
export const utf8Slice = uncurry(rawBuffer.utf8Slice);
export const utf8Write = uncurry(rawBuffer.utf8Write);
export const byteLength = Buffer.byteLength as (text: string, encoding: "utf8") => number;
export const { allocUnsafeSlow, isEncoding } = Buffer;
export const bytesFrom = Buffer.from as (text: string, encoding: BufferEncoding) => Buffer;

const typedArray = getPrototypeOf(Uint8Array.prototype) as object;
const getter = <R>(name: PropertyKey): ((self: unknown) => R) =>
  uncurry(getOwnPropertyDescriptor(typedArray, name)?.get as Method<unknown, [], R>);
export const bufferOf = getter<ArrayBuffer>("buffer");
export const byteOffsetOf = getter<number>("byteOffset");
export const byteLengthOf = getter<number>("byteLength");
export const copyBytes = uncurry(
  Uint8Array.prototype.set as Method<Uint8Array, [Uint8Array, number], void>,
);
export const typeTagOf = getter<string | undefined>(Symbol.toStringTag);

export const { readSync, writevSync } = fs;
export const atomicsWait = Atomics.wait as (
  cell: Int32Array,
  index: number,
  value: number,
  timeoutMs: number,
) => string;
export const atomicsAdd = Atomics.add as (cell: Int32Array, index: number, value: number) => number;
export const now = performance.now.bind(performance);
export const { nextTick } = process;
export const microtask = queueMicrotask;
export const exitProcess = process.exit.bind(process);
export const listenerCount = process.listenerCount.bind(process);
export const inspect = nodeInspect;
export const { isNativeError, isPromise } = types;

/**
 * Read a property of an untrusted value.
 *
 * @param value - Any object; its getters and traps may throw.
 * @param key - The property.
 * @returns The value, or undefined when reading it threw.
 */
export function readSafely(value: object, key: PropertyKey): unknown {
  try {
    return reflectGet(value, key);
  } catch {
    return undefined;
  }
}

/**
 * Read the error code that Node put on an error.
 *
 * @param error - Anything thrown.
 * @returns The own `code` when it is a string; never one that the program put on a prototype.
 */
export function codeOf(error: unknown): string | undefined {
  if (typeof error !== "object" || error === null) return undefined;
  const code = getOwnPropertyDescriptor(error, "code");
  if (code === undefined || !hasOwn(code, "value")) return undefined;
  return typeof code.value === "string" ? code.value : undefined;
}

const FRAMES_PROBED = 32;

/**
 * Make sure that there is stack left for a short piece of work that must not be cut in the middle.
 *
 * @throws RangeError when the program is within a few frames of its stack limit.
 */
export function needStack(frames: number = FRAMES_PROBED): number {
  return frames === 0 ? 0 : needStack(frames - 1) + 1;
}

const hijackable: readonly object[] = [ObjectPrototype, ArrayPrototype];

/**
 * Run something that resolves a promise, with no `then` on the prototypes of plain values.
 *
 * The language asks every object that resolves a promise for its `then`. A program that puts one on
 * `Object.prototype` would so replace values on their way; it is taken away for the moment, and put back.
 *
 * @param work - Called once; must not call the program.
 */
export function withoutThen(work: () => void): void {
  const onObject = getOwnPropertyDescriptor(ObjectPrototype, "then");
  const onArray = getOwnPropertyDescriptor(ArrayPrototype, "then");
  if (onObject === undefined && onArray === undefined) {
    work();
    return;
  }
  removeThen();
  work();
  if (onObject !== undefined) defineProperty(ObjectPrototype, "then", bare(onObject));
  if (onArray !== undefined) defineProperty(ArrayPrototype, "then", bare(onArray));
}

/**
 * Take `then` off the prototypes of plain values.
 *
 * @returns Whether none is left; a program can define one that cannot be removed.
 */
export function removeThen(): boolean {
  let clean = true;
  for (let index = 0; index < hijackable.length; index++) {
    const prototype = hijackable[index] as object;
    if (!hasOwn(prototype, "then") || deleteProperty(prototype, "then")) continue;
    const value = { __proto__: null, value: undefined } as PropertyDescriptor;
    clean = defineProperty(prototype, "then", value) && clean;
  }
  return clean;
}

/**
 * Give promises back what `then` needs, for a completion that is a promise.
 *
 * @returns Whether they have it now.
 */
export function restorePromises(): boolean {
  const then = restore(PromisePrototype, "then", promiseThenMethod);
  const made = restore(PromisePrototype, "constructor", PromiseCtor);
  return defineProperty(PromiseCtor, speciesKey, promiseSpecies) && then && made;
}

function restore(target: object, key: string, value: unknown): boolean {
  const own = getOwnPropertyDescriptor(target, key);
  if (own !== undefined && hasOwn(own, "value") && own.value === value) return true;
  return defineProperty(target, key, {
    __proto__: null,
    value,
    writable: true,
    enumerable: false,
    configurable: true,
  } as PropertyDescriptor);
}

/** Copies a descriptor to one without a prototype, which cannot inherit `get` or `set`. */
function bare(descriptor: PropertyDescriptor): PropertyDescriptor {
  const copy = { __proto__: null } as PropertyDescriptor;
  const keys = objectKeys(descriptor) as (keyof PropertyDescriptor)[];
  for (let index = 0; index < keys.length; index++) {
    const key = keys[index] as keyof PropertyDescriptor;
    copy[key] = descriptor[key];
  }
  return copy;
}
