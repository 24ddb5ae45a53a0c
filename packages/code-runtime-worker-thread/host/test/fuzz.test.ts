/** Drawn values and damaged frames; `tests/fuzz` compares the same with the Python side. */

import fc from "fast-check";
import { expect, test } from "vitest";
import { encodeFrame, FrameReader, KIND, type Message, ProtocolError } from "../src/frames.ts";
import { decode, encode } from "../src/json.ts";

// `make test` draws the same examples each time; `make fuzz` draws so many times as many at random.
const FACTOR = Number(process.env.CODE_RUNTIME_FUZZ_FACTOR ?? 0);
const TIMEOUT_MS = FACTOR === 0 ? 120_000 : 86_400_000;
const drawn = (numRuns: number): { numRuns: number; seed?: number } =>
  FACTOR === 0 ? { numRuns, seed: 1 } : { numRuns: numRuns * FACTOR };

const textOf = (value: unknown): string => {
  const encoded = encode(value, Number.POSITIVE_INFINITY);
  if (encoded.kind !== "bytes") throw new Error(`Cannot take the text of ${encoded.kind}`);
  return Buffer.from(encoded.bytes).toString();
};

const units = fc.string({
  unit: fc.oneof(
    fc.constantFrom("\ud800", "\udfff", "😀", "\u2028", "\0", '"', "\\"),
    fc.integer({ min: 0, max: 0xffff }).map((unit) => String.fromCharCode(unit)),
  ),
  maxLength: 8,
});
const keys = fc.oneof(
  units,
  fc.constantFrom("__proto__", "constructor", "toJSON", "0", "10", "-1"),
);
const numbers = fc.oneof(
  fc.double({ noNaN: true, noDefaultInfinity: true }).map((value) => value + 0),
  fc.maxSafeInteger(),
  fc.constantFrom(2 ** 53, 2 ** 53 + 2, -(2 ** 1023), 1e21, 1e22, 5e-324, 1e-7, 0.1),
);
const { json } = fc.letrec((tie) => ({
  json: fc.oneof(
    { maxDepth: 6, depthSize: "small" },
    fc.constantFrom(null, true, false),
    numbers,
    units,
    fc.array(tie("json"), { maxLength: 4 }),
    fc
      .array(fc.tuple(keys, tie("json")), { maxLength: 4 })
      .map((entries) => Object.fromEntries(entries) as unknown),
  ),
}));

test(
  "encode() and decode() give any JSON back when it is nested to any depth (SC-029)",
  () => {
    const depths = fc.constantFrom(0, 1, 15, 16, 17, 500, 5_000);
    fc.assert(
      fc.property(json, depths, fc.boolean(), (value, depth, inObjects) => {
        const [before, after] = inObjects ? ['{"a":', "}"] : ["[", "]"];
        const text = before.repeat(depth) + textOf(value) + after.repeat(depth);
        expect(textOf(decode(text)) === text).toBe(true);
        if (depth === 0) expect(decode(text)).toEqual(value);
      }),
      drawn(150),
    );
  },
  TIMEOUT_MS,
);

test(
  "encode() stops at its limit and not before when the value is any JSON (WT-069)",
  () => {
    fc.assert(
      fc.property(json, fc.nat(60), (value, limit) => {
        const size = Buffer.byteLength(textOf(value));
        expect(encode(value, limit).kind).toBe(size <= limit ? "bytes" : "limit");
      }),
      drawn(500),
    );
  },
  TIMEOUT_MS,
);

const anything = fc.anything({
  withBigInt: true,
  withBoxedValues: true,
  withDate: true,
  withMap: true,
  withSet: true,
  withNullPrototype: true,
  withObjectString: true,
  withSparseArray: true,
  withTypedArray: true,
  withUnicodeString: true,
});
type Trap = keyof ProxyHandler<object>;
const traps: readonly Trap[] = ["get", "ownKeys", "getPrototypeOf", "getOwnPropertyDescriptor"];

/** Puts a proxy around an object, one trap of which lies or throws. */
const lying = fc
  .tuple(
    fc.oneof(fc.object(), fc.array(fc.anything())),
    fc.constantFrom(...traps),
    fc.oneof(anything, fc.constant("throw")),
  )
  .map(([target, trap, answer]): unknown => {
    const handler = {
      [trap]: () => {
        if (answer === "throw") throw new Error("no");
        return answer;
      },
    };
    return new Proxy(target, handler as ProxyHandler<object>);
  });

test(
  "encode() gives the bytes of a JSON text, or says what is wrong, when the value is any",
  () => {
    const any = fc.oneof(
      anything,
      lying,
      lying.map((value) => ({ a: [value] })),
    );
    fc.assert(
      fc.property(any, (value) => {
        const encoded = encode(value, 10_000);
        if (encoded.kind === "bytes") {
          const text = Buffer.from(encoded.bytes).toString();
          expect(textOf(JSON.parse(text))).toBe(text);
        } else if (encoded.kind === "lossy") {
          expect(encoded.path.startsWith("$")).toBe(true);
          expect(encoded.reason).not.toBe("");
        } else {
          expect(encoded).toEqual({ kind: "limit" });
        }
      }),
      drawn(800),
    );
  },
  TIMEOUT_MS,
);

const bytes = (text: string): Uint8Array => Buffer.from(text);
const frames = [
  encodeFrame(KIND.SPAWN, bytes("/x"), bytes(""), new Uint8Array(16), 2 ** 40),
  encodeFrame(KIND.PREPARE, 1, bytes("/"), bytes('"return 1"')),
  encodeFrame(KIND.RUN, bytes("{}")),
  encodeFrame(KIND.REPLY, 300, true, bytes("[1]")),
  encodeFrame(KIND.REPLY, 70_000, false, bytes(`"${"x".repeat(300)}"`)),
  encodeFrame(KIND.TERMINATE, 1),
  encodeFrame(KIND.LIMIT),
];

/** Reads a stream in chunks; a refusal is one of the results, any other error is thrown. */
function read(...chunks: readonly Uint8Array[]): { found: Message[]; state: string } {
  const found: Message[] = [];
  const reader = new FrameReader((message) => found.push(message));
  try {
    for (const chunk of chunks) reader.push(chunk);
  } catch (error) {
    if (!(error instanceof ProtocolError)) throw error;
    return { found, state: "refused" };
  }
  return { found, state: reader.midFrame ? "cut" : "whole" };
}

test("FrameReader.push() delivers the whole frames when the stream is cut at any byte", () => {
  const stream = Buffer.concat(frames);
  const ends = frames.map((_, index) => Buffer.concat(frames.slice(0, index + 1)).length);
  for (let at = 0; at <= stream.length; at++) {
    const { found, state } = read(stream.subarray(0, at));
    expect(found.length).toBe(ends.filter((end) => end <= at).length);
    expect(state).toBe(at === 0 || ends.includes(at) ? "whole" : "cut");
  }
});

test(
  "FrameReader.push() refuses, waits or delivers what fits when any byte is any other",
  () => {
    for (const frame of frames) {
      // Not the upper half of the length: a cap of its own bounds what is allocated for it.
      for (let at = 2; at < Math.min(frame.length, 60); at++) {
        for (let byte = 0; byte < 256; byte++) {
          const damaged = Uint8Array.from(frame);
          damaged[at] = byte;
          const { found } = read(damaged, frames[5] as Uint8Array);
          const held = found
            .flatMap((message) => Object.values(message) as unknown[])
            .reduce<number>(
              (sum, field) => sum + (field instanceof Uint8Array ? field.length : 0),
              0,
            );
          if (held > frame.length) throw new Error(`${held} bytes from ${frame.length} at ${at}`);
        }
      }
    }
  },
  TIMEOUT_MS,
);

test(
  "FrameReader.push() gives the same for any chunks when frames are doubled, left out and damaged",
  () => {
    const edits = fc.array(fc.tuple(fc.nat(), fc.nat(255)), { maxLength: 3 });
    const cuts = fc.array(fc.nat(), { maxLength: 6 });
    fc.assert(
      fc.property(fc.array(fc.constantFrom(...frames)), edits, cuts, (list, changes, places) => {
        const stream = Buffer.concat(list);
        for (const [at, byte] of changes) {
          // As above: a length stays below 64 KiB.
          const place = at % Math.max(1, stream.length);
          if (stream[place] !== 0) stream[place] = byte;
        }
        const edges = [0, ...places.map((place) => place % (stream.length + 1)), stream.length];
        edges.sort((one, other) => one - other);
        const chunks = edges
          .slice(1)
          .map((edge, index) => Uint8Array.from(stream.subarray(edges[index], edge)));
        expect(read(...chunks)).toEqual(read(stream));
      }),
      drawn(500),
    );
  },
  TIMEOUT_MS,
);
