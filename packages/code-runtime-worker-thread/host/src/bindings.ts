/**
 * The functions that a program may call, and their calls in flight.
 *
 * Each member sends its one argument to Python and returns a promise. Arguments are checked here, before a
 * call has an id; Python checks again.
 */

import type { Channel } from "./channel.ts";
import {
  construct,
  defineProperty,
  ErrorCtor,
  freeze,
  indexOf,
  MapCtor,
  mapDelete,
  mapGet,
  mapSet,
  needStack,
  PromiseCtor,
  slice,
  withoutThen,
} from "./intrinsics.ts";
import { decode, type Encoded, encode } from "./json.ts";
import { MAX_ITEM_BYTES } from "./output.ts";
import { framesOf, type Moment, takeMoment } from "./stack.ts";

/** One namespace as the RUN frame describes it. */
export interface NamespaceSpec {
  readonly global: string;
  readonly names: readonly string[];
  readonly errorClass: { readonly name: string; readonly memberNameProperty: string } | null;
}

type ErrorClass = new (memberName: string, message: string) => Error;

/** One declared member: what a call of it needs to know. */
interface Member {
  readonly namespace: string;
  readonly name: string;
  /** How to write it: `tools.add` or `tools["a b"]`. */
  readonly shown: string;
  readonly target: Uint8Array;
  readonly errorClass: ErrorClass | undefined;
}

interface Call {
  readonly member: Member;
  readonly moment: Moment;
  readonly resolve: (value: unknown) => void;
  readonly reject: (reason: unknown) => void;
}

const MAX_LISTED = 20;

const given = function (this: unknown, promise: object): object {
  return promise;
} as unknown as new (
  promise: object,
) => object;

/** Marks a promise with a private field, which no program sees and which costs less than a `WeakMap`. */
class Origin extends given {
  readonly #member: Member;

  constructor(promise: object, member: Member) {
    super(promise);
    this.#member = member;
  }

  static of(promise: object): Member | undefined {
    return #member in promise ? promise.#member : undefined;
  }
}

/** Of a promise: `await` takes it as it is, whatever became of `Promise.prototype`. */
const OWN_CONSTRUCTOR = freeze({
  __proto__: null,
  value: PromiseCtor,
  writable: false,
  enumerable: false,
  configurable: false,
}) as unknown as PropertyDescriptor;

/** Declares a property of an object that a program may hold. */
function declare(target: object, key: string, value: unknown, visible: boolean): void {
  defineProperty(target, key, {
    __proto__: null,
    value,
    writable: false,
    enumerable: visible,
    configurable: false,
  } as PropertyDescriptor);
}

function createErrorClass(name: string, memberNameProperty: string): ErrorClass {
  const created = {
    [name]: class extends ErrorCtor {
      constructor(memberName: string, message: string) {
        super(message);
        declare(this, "name", name, true);
        declare(this, memberNameProperty, memberName, true);
      }
    },
  }[name] as ErrorClass;
  return freeze(created);
}

const encodeTarget = (namespace: string, name: string): Uint8Array =>
  new TextEncoder().encode(JSON.stringify([namespace, name]));

const shownMember = (namespace: string, name: string): string =>
  /^[A-Za-z_$][\w$]*$/.test(name)
    ? `${namespace}.${name}`
    : `${namespace}[${JSON.stringify(name)}]`;

/** Owns the namespaces of one run and settles their calls. */
export class Bindings {
  readonly #channel: Channel;
  readonly #calls = new MapCtor<unknown, unknown>();
  readonly #specs: readonly NamespaceSpec[];
  #lastId = 0;

  /** Parameter names of the program: namespaces, then error classes. */
  readonly names: readonly string[];
  /** Their values, in the same order. */
  readonly values: readonly unknown[];

  /**
   * @param channel - Where calls go.
   * @param specs - The namespaces, as Python checked them.
   */
  constructor(channel: Channel, specs: readonly NamespaceSpec[]) {
    this.#channel = channel;
    this.#specs = specs;
    const classes = specs.map(({ errorClass }) =>
      errorClass === null
        ? undefined
        : createErrorClass(errorClass.name, errorClass.memberNameProperty),
    );
    const namespaces = specs.map((spec, index) => this.#createNamespace(spec, classes[index]));
    const declared = specs.flatMap(({ errorClass }) => errorClass?.name ?? []);
    this.names = [...specs.map(({ global }) => global), ...declared];
    this.values = [...namespaces, ...classes.filter((each) => each !== undefined)];
  }

  #createNamespace(spec: NamespaceSpec, errorClass: ErrorClass | undefined): object {
    const namespace = Object.create(null) as object;
    for (const name of spec.names) {
      const member = {
        namespace: spec.global,
        name,
        shown: shownMember(spec.global, name),
        target: encodeTarget(spec.global, name),
        errorClass,
      };
      // An arrow has no `prototype` and is no constructor; the name is what stacks and logs show.
      const call = (...values: unknown[]): unknown => this.#call(member, values, call);
      defineProperty(call, "name", { value: name });
      declare(namespace, name, call, true);
    }
    return namespace;
  }

  #call(member: Member, values: readonly unknown[], above: (...v: unknown[]) => unknown): unknown {
    // A full stack is the program's own error, not one of its argument.
    needStack();
    if (values.length > 1) return this.#refuse(member, above, tooMany(member, values.length));
    const encoded = encode(values[0], MAX_ITEM_BYTES, this.describe);
    if (encoded.kind !== "bytes") {
      return this.#refuse(member, above, argumentText(member, values.length, encoded));
    }
    const moment = takeMoment(above);
    const id = this.#lastId + 1;
    const promise = new PromiseCtor((resolve, reject) => {
      const call: Call = { member, moment, resolve, reject };
      mapSet(this.#calls, id, call);
    });
    this.#lastId = id;
    this.#own(promise, member);
    try {
      this.#channel.sendCall([id, member.target, encoded.bytes]);
    } catch (error) {
      // Nothing was sent: the stack is full.
      mapDelete(this.#calls, id);
      throw error;
    }
    return promise;
  }

  #own(promise: object, member: Member): void {
    new Origin(promise, member);
    defineProperty(promise, "constructor", OWN_CONSTRUCTOR);
  }

  #refuse(member: Member, above: (...v: unknown[]) => unknown, message: string): unknown {
    const error = failure(member, message, takeMoment(above));
    const promise = new PromiseCtor((_resolve, reject) => reject(error));
    this.#own(promise, member);
    return promise;
  }

  /**
   * Settle a call.
   *
   * @param id - Its id; an unknown one is ignored.
   * @param ok - Whether `payload` is the resolution or a failure text.
   * @param payload - JSON text.
   */
  settle(id: number, ok: boolean, payload: string): void {
    const call = mapGet(this.#calls, id) as Call | undefined;
    if (call === undefined) return;
    mapDelete(this.#calls, id);
    const value = decode(payload);
    if (ok) withoutThen(() => call.resolve(value));
    else call.reject(failure(call.member, value as string, call.moment));
  }

  /**
   * Name the call that a promise belongs to.
   *
   * @param promise - Any promise.
   * @returns How the program wrote it, such as `tools.add`; undefined for other promises.
   */
  originOf(promise: object): string | undefined {
    return Origin.of(promise)?.shown;
  }

  /** Describes a promise found in a value that should be JSON. */
  readonly describe = (promise: object): string => {
    const origin = this.originOf(promise);
    return origin === undefined
      ? "a Promise that was not awaited"
      : `a Promise (call of ${origin} was not awaited)`;
  };

  /**
   * Explain the engine's error for a member that does not exist.
   *
   * @param header - First lines of an uncaught error.
   * @returns A line feed and a line naming the declared members, or an empty string.
   */
  readonly advise = (header: string): string => {
    const suffix = " is not a function";
    const end = header.length - suffix.length;
    if (end < 0 || slice(header, end) !== suffix) return "";
    for (let index = 0; index < this.#specs.length; index++) {
      const spec = this.#specs[index] as NamespaceSpec;
      const start = `TypeError: ${spec.global}.`;
      if (indexOf(header, start) !== 0) continue;
      const name = slice(header, start.length, end);
      if (indexOf(name, ".") >= 0 || declares(spec, name)) continue;
      return `\n${spec.global} has no member ${name}; declared: ${listed(spec)}`;
    }
    return "";
  };
}

function declares(spec: NamespaceSpec, name: string): boolean {
  for (let index = 0; index < spec.names.length; index++) {
    if (spec.names[index] === name) return true;
  }
  return false;
}

function listed(spec: NamespaceSpec): string {
  const count = spec.names.length;
  if (count === 0) return "none";
  let list = "";
  for (let index = 0; index < count && index < MAX_LISTED; index++) {
    list += `${index === 0 ? "" : ", "}${spec.names[index] as string}`;
  }
  return count > MAX_LISTED ? `${list} and ${count - MAX_LISTED} more` : list;
}

/** Makes the error of a call, of the declared class, with the frames of the place that called. */
function failure(member: Member, message: string, moment: Moment): Error {
  const { errorClass, name } = member;
  const error = (
    errorClass === undefined
      ? construct(ErrorCtor, [message])
      : construct(errorClass, [name, message])
  ) as Error;
  const label = errorClass === undefined ? "Error" : error.name;
  setStack(error, `${label}${message === "" ? "" : `: ${message}`}${framesOf(moment)}`);
  return error;
}

function setStack(error: Error, stack: string): void {
  defineProperty(error, "stack", {
    __proto__: null,
    value: stack,
    writable: true,
    enumerable: false,
    configurable: true,
  } as PropertyDescriptor);
}

function tooMany(member: Member, count: number): string {
  return `Cannot call ${member.shown}: ${count} arguments, expected one: write ${member.shown}({ ... }) with named members, and (item) => ${member.shown}(item) where a callback is wanted`;
}

function argumentText(member: Member, count: number, encoded: Encoded): string {
  const start = `Cannot call ${member.shown}: `;
  if (encoded.kind !== "lossy") {
    return `${start}the argument is too large, expected at most ${MAX_ITEM_BYTES} bytes of JSON`;
  }
  if (count === 0) {
    return `${start}no argument, expected one that is lossless JSON: write ${member.shown}({}) if it takes none`;
  }
  return `${start}the argument must be lossless JSON: ${encoded.path}: ${encoded.reason}, expected ${encoded.hint}`;
}
