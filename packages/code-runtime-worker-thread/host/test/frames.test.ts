import { readFileSync } from "node:fs";
import { decode, encode } from "@msgpack/msgpack";
import fc from "fast-check";
import { expect, test } from "vitest";
import {
  decodeBody,
  encodeFrame,
  FRAMES,
  FrameReader,
  frameSize,
  KIND,
  MAX_BODY_BYTES,
  type Message,
  PREFIX_BYTES,
  PROTOCOL_VERSION,
  ProtocolError,
  writeFrame,
} from "../src/frames.ts";

type Part = { hex: string } | { byte: number; count: number };
type Value = Part | number | boolean;
interface Named {
  name: string;
  fields: Record<string, Value>;
}

const vectors = JSON.parse(
  readFileSync(new URL("../../../../tests/vectors/worker/frames.json", import.meta.url), "utf8"),
) as {
  version: number;
  max_body_bytes: number;
  kinds: { name: string; kind: number; fields: { name: string; type: string }[] }[];
  frames: (Named & { kind: number; bytes: Part[] })[];
  accepted: (Named & { reason: string; body: string })[];
  malformed: { reason: string; body: string }[];
};

const camel = (name: string): string =>
  name.replace(/_(\w)/g, (_, letter: string) => letter.toUpperCase());
const bytesOf = (part: Part): Uint8Array =>
  "hex" in part ? Buffer.from(part.hex, "hex") : Buffer.alloc(part.count, part.byte);
const plainValue = (value: Value): unknown => (typeof value === "object" ? bytesOf(value) : value);
const valuesOf = ({ fields }: Named): unknown[] => Object.values(fields).map(plainValue);

/** A message as plain data, byte fields as hex. */
function plain(message: Message): Record<string, unknown> {
  return Object.fromEntries(
    Object.entries(message).map(([name, value]) => [
      name,
      value instanceof Uint8Array ? Buffer.from(value).toString("hex") : value,
    ]),
  );
}

function expected({ name, fields }: Named): Record<string, unknown> {
  const named = Object.entries(fields).map(([field, value]) => [
    camel(field),
    typeof value === "object" ? Buffer.from(bytesOf(value)).toString("hex") : value,
  ]);
  return { kind: KIND[name as keyof typeof KIND], ...Object.fromEntries(named) };
}

const encodeAny = encodeFrame as (kind: number, ...fields: unknown[]) => Uint8Array;

test("FRAMES has the kinds, names and fields of the vectors", () => {
  const table = Object.entries(FRAMES).map(([name, { kind, fields }]) => ({
    name,
    kind,
    fields: fields.map(([field, type]) => ({ name: field, type })),
  }));
  const wanted = vectors.kinds.map(({ fields, ...rest }) => ({
    ...rest,
    fields: fields.map(({ name, type }) => ({ name: camel(name), type })),
  }));
  expect(table).toEqual(wanted);
  expect([PROTOCOL_VERSION, MAX_BODY_BYTES]).toEqual([vectors.version, vectors.max_body_bytes]);
});

test.each(vectors.frames)(
  "encodeFrame() writes the bytes of vector %# when given its fields: $name",
  (frame) => {
    const wanted = Buffer.concat(frame.bytes.map(bytesOf));
    expect(Buffer.from(encodeAny(frame.kind, ...valuesOf(frame))).equals(wanted)).toBe(true);
    expect(plain(decodeBody(wanted.subarray(PREFIX_BYTES)))).toEqual(expected(frame));
  },
);

test.each(vectors.accepted)(
  "decodeBody() accepts a longer encoding when it is valid: $reason",
  (vector) => {
    expect(plain(decodeBody(Buffer.from(vector.body, "hex")))).toEqual(expected(vector));
  },
);

test.each(vectors.malformed)("decodeBody() refuses a body when it is $reason", ({ body }) => {
  expect(() => decodeBody(Buffer.from(body, "hex"))).toThrow(ProtocolError);
});

const kinds = Object.values(FRAMES);
const anyFrame = fc.constantFrom(...kinds).chain(({ kind, fields }) =>
  fc.record({
    kind: fc.constant(kind as number),
    values: fc.tuple(
      ...fields.map(([, type]): fc.Arbitrary<unknown> => {
        if (type === "uint") return fc.maxSafeNat();
        return type === "bool" ? fc.boolean() : fc.uint8Array({ maxLength: 600 });
      }),
    ),
  }),
);

test("encodeFrame() writes what another MessagePack writes when the fields are any", () => {
  fc.assert(
    fc.property(anyFrame, ({ kind, values }) => {
      const frame = Buffer.from(encodeAny(kind, ...values));
      const body = Uint8Array.from(frame.subarray(PREFIX_BYTES));
      expect(frame.readUInt32BE(0)).toBe(body.length);
      expect(body).toEqual(encode([kind, ...values]));
      expect(decode(body)).toEqual([kind, ...values]);
      expect(Object.values(decodeBody(body))).toEqual([kind, ...values]);
    }),
  );
});

test("decodeBody() throws only ProtocolError when the bytes are any", () => {
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 40 }), fc.boolean(), (bytes, asArray) => {
      if (asArray && bytes.length > 0) bytes[0] = 0x91 + ((bytes[0] as number) % 4);
      try {
        decodeBody(bytes);
      } catch (error) {
        expect(error).toBeInstanceOf(ProtocolError);
      }
    }),
    { numRuns: 2_000 },
  );
});

function collect(chunks: Uint8Array[], maxBodyBytes?: number): Record<string, unknown>[] {
  const messages: Record<string, unknown>[] = [];
  const reader = new FrameReader((message) => messages.push(plain(message)), maxBodyBytes);
  for (const chunk of chunks) reader.push(chunk);
  expect(reader.midFrame).toBe(false);
  return messages;
}

const stream = Buffer.concat(
  vectors.frames
    .filter(({ bytes }) => bytes.every((part) => "hex" in part))
    .map((frame) => Buffer.concat(frame.bytes.map(bytesOf))),
);

test("FrameReader.push() delivers the same messages when the stream is split at any byte", () => {
  const whole = collect([stream]);
  expect(whole.length).toBeGreaterThan(30);
  for (let cut = 0; cut <= stream.length; cut++) {
    expect(collect([stream.subarray(0, cut), stream.subarray(cut)])).toEqual(whole);
  }
  expect(collect(Array.from(stream, (byte) => Uint8Array.of(byte)))).toEqual(whole);
});

test("FrameReader.push() delivers the same messages when the stream is split at many places", () => {
  const whole = collect([stream]);
  fc.assert(
    fc.property(fc.array(fc.nat(stream.length), { maxLength: 20 }), (cuts) => {
      const edges = [0, ...cuts.sort((one, other) => one - other), stream.length];
      const chunks = edges.slice(1).map((edge, index) => stream.subarray(edges[index], edge));
      expect(collect(chunks)).toEqual(whole);
    }),
  );
});

test("FrameReader.push() takes linear time when a large body comes in small chunks", () => {
  const measure = (size: number): number => {
    const frame = encodeFrame(KIND.LOG, Buffer.alloc(size, 97));
    const started = performance.now();
    let length = 0;
    const reader = new FrameReader((message) => {
      if (message.kind === KIND.LOG) length = message.text.length;
    });
    for (let at = 0; at < frame.length; at += 1_024) reader.push(frame.subarray(at, at + 1_024));
    expect(length).toBe(size);
    return performance.now() - started;
  };
  measure(1_000_000);
  // Quadratic gathering of 64 MB in chunks of 1 KiB copies 2 TB: minutes, not seconds.
  expect(measure(64_000_000)).toBeLessThan(5_000);
});

test("FrameReader.push() refuses a length when it is 0 or above the cap", () => {
  const reading = (prefix: number[], cap?: number) => () => collect([Uint8Array.from(prefix)], cap);
  expect(reading([0, 0, 0, 0])).toThrow(
    "Cannot read a frame: a body of 0 bytes, expected 1 to 268435456 bytes",
  );
  expect(reading([0x10, 0, 0, 1])).toThrow(
    "Cannot read a frame: a body of 268435457 bytes, expected 1 to 268435456 bytes",
  );
  expect(reading([0, 0, 0, 11], 10)).toThrow(
    "Cannot read a frame: a body of 11 bytes, expected 1 to 10 bytes",
  );
});

test("FrameReader.midFrame is true when the stream stops inside a frame", () => {
  const reader = new FrameReader(() => {});
  const frame = encodeFrame(KIND.TERMINATE, 1);
  reader.push(frame.subarray(0, 2));
  expect(reader.midFrame).toBe(true);
  reader.push(frame.subarray(2, frame.length - 1));
  expect(reader.midFrame).toBe(true);
  reader.push(frame.subarray(frame.length - 1));
  expect(reader.midFrame).toBe(false);
});

test("encodeFrame() refuses a field when its type or range is wrong", () => {
  for (const fields of [
    [],
    [1, 2],
    [-1],
    [1.5],
    [2 ** 53],
    [Number.NaN],
    ["1"],
    [true],
    [undefined],
  ]) {
    expect(() => encodeAny(KIND.TERMINATE, ...fields)).toThrow(ProtocolError);
  }
  expect(() => encodeAny(KIND.LOG, "text")).toThrow(ProtocolError);
  expect(() => encodeAny(KIND.LOG, [1])).toThrow(ProtocolError);
  expect(() => encodeAny(KIND.REPLY, 1, 1, new Uint8Array())).toThrow(ProtocolError);
  expect(() => encodeAny(99)).toThrow("Cannot use frame kind 99: not in the table");
});

test("frameSize() refuses a body when it is above the cap", () => {
  // Head of the array, kind, and 5 bytes before the text.
  const most = MAX_BODY_BYTES - 7;
  expect(frameSize(KIND.LOG, [new Uint8Array(most)])).toBe(MAX_BODY_BYTES + PREFIX_BYTES);
  expect(() => frameSize(KIND.LOG, [new Uint8Array(most + 1)])).toThrow(
    "Cannot encode frame kind 50: 268435457 bytes, expected at most 268435456 bytes",
  );
});

test("writeFrame() fills a buffer of the caller when it has room", () => {
  const target = new Uint8Array(20);
  const end = writeFrame(target, 3, KIND.BUSY, [1, 300]);
  expect(end).toBe(3 + frameSize(KIND.BUSY, [1, 300]));
  expect(Buffer.from(target.subarray(3, end))).toEqual(Buffer.from(encodeFrame(KIND.BUSY, 1, 300)));
  expect(() => writeFrame(target, 15, KIND.BUSY, [1, 300])).toThrow(RangeError);
});

test("frames survive a program when it replaced the built-ins", async () => {
  const { execFileSync } = await import("node:child_process");
  const script = `
    const { encodeFrame, FrameReader, KIND } = await import(${JSON.stringify(new URL("../src/frames.ts", import.meta.url).href)});
    const print = process._rawDebug, text = JSON.stringify, owner = Object, keep = Buffer.from("x");
    const boom = () => { throw new Error("replaced"); };
    const bad = { configurable: true, get: boom, set: boom };
    const define = owner.defineProperty, names = owner.getOwnPropertyNames, typed = owner.getPrototypeOf(Uint8Array.prototype);
    const a = new Uint8Array([1, 2]), many = new Uint8Array(300);
    const targets = [Array.prototype, typed, Uint8Array.prototype, Number, Math, Reflect, Number.prototype, DataView.prototype, Function.prototype];
    const globals = ["Uint8Array", "Array", "Number", "Math", "Object", "Reflect", "ArrayBuffer"];
    const indexed = ["0", "1", "2", "3", "17", "kind", "id", "target", "argument", "text", "53"];
    const root = owner.prototype, list = Array.prototype, species = Symbol.species, iterator = Symbol.iterator, U8 = Uint8Array, global = globalThis;
    const replace = (target, name) => { try { define(target, name, bad); } catch {} };
    const all = targets.map((target) => [target, names(target)]);
    bad.__proto__ = null;
    for (let at = 0; at < all.length; at++) {
      const pair = all[at];
      for (let index = 0; index < pair[1].length; index++) replace(pair[0], pair[1][index]);
    }
    replace(list, iterator); replace(typed, iterator); replace(U8, species);
    for (let at = 0; at < indexed.length; at++) { replace(root, indexed[at]); replace(list, indexed[at]); }
    for (let at = 0; at < globals.length; at++) replace(global, globals[at]);
    let hits = 0, last;
    try { [].map; } catch { hits++; }
    try { a.length; } catch { hits++; }
    try { Number; } catch { hits++; }
    if (hits !== 3) process.reallyExit(5);
    const reader = new FrameReader((message) => { last = message; });
    const frame = encodeFrame(KIND.CALL, 2 ** 40, a, many);
    reader.push(frame);
    reader.push(encodeFrame(KIND.LIMIT));
    if (last.kind !== 53) process.reallyExit(4);
    reader.push(encodeFrame(KIND.CALL, 2 ** 40, a, many));
    process.reallyExit(last.id === 2 ** 40 && last.target[1] === 2 ? 0 : 3);`;
  execFileSync(process.execPath, ["--no-warnings", "--input-type=module", "-e", script]);
});
