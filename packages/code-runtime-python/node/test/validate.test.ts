import fc from "fast-check";
import { expect, test } from "vitest";
import { checkNumbers } from "../src/numbers.ts";
import { LineReader, LineTooLongError } from "../src/reader.ts";
import { cutMessage, parseChildFrame } from "../src/validate.ts";
import { MAX_FRAGMENTS, MAX_FRAME_BYTES } from "../src/wire.ts";
import { bytesOf, frames, hostile, markers, reader, spell, spelling } from "./vectors.ts";

test.each(hostile)(
  "parseChildFrame() rebuilds or drops a line when it is: $name ($spec; PY-175, PY-228 to PY-231)",
  (vector) => {
    const message = parseChildFrame(bytesOf(vector));
    const isDone = message?.kind === "done";
    expect(isDone ? { ...message, value: message.value ?? null } : (message ?? null)).toEqual(
      vector.message,
    );
  },
);

test.each(frames.filter(({ shape }) => ["BootAck", "Call", "Log", "Done"].includes(shape)))(
  "parseChildFrame() takes an honest frame when it is $name",
  ({ frame, line }) => {
    const message = parseChildFrame(Buffer.from(line)) as Record<string, unknown>;
    expect(message).toBeDefined();
    const { type, error, ...rest } = frame;
    if (error !== undefined) {
      const { kind, message: text } = error as { kind: string; message: string };
      expect(message).toEqual({ kind: "fail", failure: kind, message: text });
    } else {
      expect(message).toMatchObject({ kind: type, ...rest });
    }
  },
);

test("parseChildFrame() gives __proto__ no effect when it is a key", () => {
  const line = '{"type":"call","id":0,"global":"t","name":"f","args":{"__proto__":{"x":1}}}';
  const message = parseChildFrame(Buffer.from(line)) as { args: object };
  expect(Object.keys(message.args)).toEqual(["__proto__"]);
  expect(Object.getPrototypeOf(message.args)).toBe(Object.prototype);
});

test.each(spelling.numbers)("checkNumbers() finds $found when the number is $text", (vector) => {
  for (const text of [vector.text, `["${vector.text}",${vector.text}]`, ` ${vector.text}\t`]) {
    expect(checkNumbers(Buffer.from(text)).kind).toBe(vector.found);
  }
  expect(checkNumbers(Buffer.from(`["\\\\\\"${vector.text}"]`)).kind).toBe("exact");
});

test("parseChildFrame() takes a value when it is 100,000 levels deep (PY-229)", () => {
  const depth = 100_000;
  for (const [number, isExact] of [
    ["1", true],
    ["-0", false],
  ] as const) {
    const line = `{"type":"done","value":${"[".repeat(depth)}${number}${"]".repeat(depth)}}`;
    expect(parseChildFrame(Buffer.from(line))).toMatchObject({ kind: "done", isExact });
  }
});

test("parseChildFrame() never throws when a frame is corrupted (PY-226, PY-292)", () => {
  const lines = hostile.map(bytesOf);
  const edits = fc.array(fc.tuple(fc.nat(), fc.nat(255), fc.nat(2)), {
    minLength: 1,
    maxLength: 4,
  });
  fc.assert(
    fc.property(fc.constantFrom(...lines), edits, (line, changes) => {
      let bytes = Buffer.from(line);
      for (const [at, byte, edit] of changes) {
        const position = at % (bytes.length + 1);
        const tail = bytes.subarray(edit === 0 ? position : position + 1);
        bytes = Buffer.concat([
          bytes.subarray(0, position),
          Buffer.of(byte),
          edit === 2 ? Buffer.of() : tail,
        ]);
      }
      const message = parseChildFrame(bytes);
      expect(message === undefined || typeof message.kind === "string").toBe(true);
    }),
    { numRuns: 2_000 },
  );
});

test("checkNumbers() takes linear time when a string is of escaped quotes", () => {
  const line = Buffer.from(`["${'\\"'.repeat(8_000_000)}${"\\\\".repeat(8_000_000)}",-0]`);
  const started = performance.now();
  expect(checkNumbers(line).kind).toBe("inexact");
  expect(performance.now() - started).toBeLessThan(3_000);
});

test.each(reader)("LineReader.push() does as in the vectors when $name ($spec)", (vector) => {
  const lines: string[] = [];
  const held = new LineReader(vector.max_bytes);
  const pushAll = (): void => {
    for (const part of vector.chunks) {
      const whole = Buffer.from(spell(part));
      const each = typeof part === "object" && part.each !== undefined ? 1 : whole.length;
      for (let at = 0; at < whole.length; at += each) {
        for (const line of held.push(whole.subarray(at, at + each))) lines.push(line.toString());
      }
    }
  };
  if (vector.too_long) {
    expect(pushAll).toThrow(LineTooLongError);
    expect([held.heldBytes, held.heldPieces]).toEqual([0, 0]);
    return;
  }
  pushAll();
  expect(lines).toEqual(vector.lines.map(spell));
  expect(held.heldBytes).toBe(vector.held_bytes);
});

const stream = Buffer.concat(hostile.flatMap((vector) => [bytesOf(vector), Buffer.from("\n")]));
const wanted = hostile.map((vector) => bytesOf(vector).toString("hex"));

test("LineReader.push() finds the same lines when the stream is split at any byte (PY-227)", () => {
  for (let cut = 0; cut <= stream.length; cut += 1) {
    const held = new LineReader();
    const lines = [...held.push(stream.subarray(0, cut)), ...held.push(stream.subarray(cut))];
    if (lines.length !== wanted.length) throw new Error(`${lines.length} lines at cut ${cut}`);
    if (cut % 97 === 0) expect(lines.map((line) => line.toString("hex"))).toEqual(wanted);
  }
  const held = new LineReader();
  const single = Array.from(stream, (byte) => held.push(Buffer.of(byte))).flat();
  expect(single.map((line) => line.toString("hex"))).toEqual(wanted);
});

test("LineReader.push() copies each byte a few times only when they come one by one (PY-233)", () => {
  const held = new LineReader();
  const concat = Buffer.concat;
  let copied = 0;
  Buffer.concat = (list, length) => {
    const whole = concat(list, length);
    copied += whole.length;
    return whole;
  };
  try {
    let most = 0;
    for (let index = 0; index < 60_000; index++) {
      held.push(Buffer.of(97));
      most = Math.max(most, held.heldPieces);
    }
    expect(most).toBeLessThanOrEqual(MAX_FRAGMENTS + 60);
    expect(held.push(Buffer.from("\nb\n")).map((line) => line.length)).toEqual([60_000, 1]);
  } finally {
    Buffer.concat = concat;
  }
  expect(copied).toBeLessThan(256 * 1024);
});

test("LineReader.push() takes linear time when a line is at the cap (PY-232)", () => {
  const held = new LineReader();
  const piece = Buffer.alloc(4_096, 97);
  const started = performance.now();
  for (let index = 0; index < MAX_FRAME_BYTES / 4_096; index++)
    expect(held.push(piece)).toEqual([]);
  expect(held.push(Buffer.from("\nnext\n")).map((line) => line.length)).toEqual([
    MAX_FRAME_BYTES,
    4,
  ]);
  // Quadratic joining would copy 500 GiB.
  expect(performance.now() - started).toBeLessThan(10_000);
});

test("LineReader.push() keeps no view of a chunk when a rest remains", () => {
  const held = new LineReader();
  const chunk = Buffer.alloc(1_000_000, 97);
  chunk[999_990] = 10;
  held.push(chunk);
  chunk.fill(98);
  expect(held.push(Buffer.from("\n")).map(String)).toEqual(["aaaaaaaaa"]);
});

test("LineTooLongError names the cap when a line is too long", () => {
  expect(() => new LineReader(4).push(Buffer.from("aaaaa"))).toThrow(
    "Cannot read a frame: line without end, expected at most 4 bytes",
  );
});

test.each(markers.cut)("cutMessage() cuts as in the vectors when $name ($spec)", (vector) => {
  expect(cutMessage(spell(vector.message), vector.budget)).toBe(vector.result);
});
