import fc from "fast-check";
import { expect, test } from "vitest";
import { stringCost } from "../src/json.ts";
import { LogLedger, TextHold } from "../src/ledger.ts";
import { StrayOutput } from "../src/streams.ts";
import { logMarker, MAX_FRAGMENTS } from "../src/wire.ts";
import { logs } from "./vectors.ts";

test.each(logs)(
  "LogLedger keeps what the vectors keep when $name ($spec; PY-163 to PY-175, PY-130 to PY-132)",
  (vector) => {
    const told: string[] = [];
    const ledger = new LogLedger(vector.max_log_bytes, (text) => told.push(text));
    for (const { text, truncated, open, times = 1 } of vector.frames) {
      for (let index = 0; index < times; index++) {
        if (truncated) ledger.truncate();
        else ledger.frame(text, open === true);
      }
    }
    const kept = ledger.finish();
    expect(kept).toEqual(vector.logs);
    expect(ledger.truncated).toBe(vector.truncated);
    expect(told).toEqual(kept);
  },
);

const entries = fc.array(fc.tuple(fc.string({ unit: "binary", maxLength: 30 }), fc.boolean()), {
  maxLength: 40,
});

test("LogLedger never keeps a list above its budget when entries are any (PY-163)", () => {
  fc.assert(
    fc.property(entries, fc.integer({ min: 64, max: 400 }), (frames, budget) => {
      const ledger = new LogLedger(budget);
      for (const [text, open] of frames) ledger.frame(text, open);
      const kept = ledger.finish();
      const own = ledger.truncated ? kept.slice(0, -1) : kept;
      expect(Buffer.byteLength(JSON.stringify(own))).toBeLessThanOrEqual(Math.max(budget, 2));
    }),
  );
});

test("LogLedger calls an observer no more when it threw", () => {
  let calls = 0;
  const ledger = new LogLedger(100, () => {
    calls++;
    throw new Error("no");
  });
  ledger.entry("a");
  ledger.entry("b");
  expect([calls, ledger.finish(), ledger.fault]).toEqual([
    1,
    ["a", "b"],
    { error: new Error("no") },
  ]);
});

test("LogLedger keeps the place of an open line when a pipe's line comes meanwhile (5.3 item 2)", () => {
  const ledger = new LogLedger(100);
  ledger.frame("a", true);
  ledger.entry("native");
  ledger.frame("b", false);
  expect(ledger.finish()).toEqual(["ab", "native"]);
});

test("TextHold joins its parts in blocks when they are many (PY-169)", () => {
  const hold = new TextHold();
  let most = 0;
  for (let index = 0; index < 60_000; index++) {
    hold.add("x");
    most = Math.max(most, hold.pieces);
  }
  expect(most).toBeLessThanOrEqual(MAX_FRAGMENTS + 60);
  expect(hold.take()).toBe("x".repeat(60_000));
});

function capture(budget: number, chunks: (Buffer | string)[]): string[] {
  const ledger = new LogLedger(budget);
  const pipe = new StrayOutput(ledger).pipe();
  for (const chunk of chunks) pipe.push(Buffer.from(chunk as string));
  pipe.end();
  return ledger.finish();
}

test.each([
  ["splits on LF, not on chunks", "PY-150", ["one\ntw", "o\nthr", "ee"], ["one", "two", "three"]],
  ["keeps CR and empty lines", "PY-126", ["a\r\n\nb\n"], ["a\r", "", "b"]],
  ["keeps a byte order mark", "PY-149", [Buffer.from("\ufeffa\n")], ["\ufeffa"]],
  [
    "joins a character of two chunks",
    "PY-151",
    [Buffer.from([0xc3]), Buffer.from([0xa9, 0x0a])],
    ["é"],
  ],
  [
    "joins a character of four chunks",
    "PY-151",
    [...Buffer.from("😀")].map((byte) => Buffer.of(byte)),
    ["😀"],
  ],
  [
    "replaces a sequence that is cut by the end",
    "PY-152",
    [Buffer.from([0x61, 0xe2, 0x82])],
    ["a\ufffd"],
  ],
  [
    "replaces a broken sequence, then goes on",
    "PY-152",
    [Buffer.from([0xe2, 0x82]), Buffer.from("a\n")],
    ["\ufffda"],
  ],
] as const)("StrayOutput %s (%s)", (_, _spec, chunks, wanted) => {
  expect(capture(1_000, [...chunks])).toEqual(wanted);
});

test("StrayOutput keeps one entry when 200 KB have no LF (PY-150)", () => {
  expect(
    capture(
      1_000_000,
      Array.from({ length: 200 }, () => "x".repeat(1_000)),
    ),
  ).toEqual(["x".repeat(200_000)]);
});

test("StrayOutput truncates a flood while it runs when there is no LF (PY-155, PY-162)", () => {
  const chunks = Array.from({ length: 500 }, () => "x".repeat(4_096));
  expect(capture(4_096, chunks)).toEqual([logMarker(4_096)]);
  expect(capture(4_096, ["\0".repeat(4_000)])).toEqual([logMarker(4_096)]);
});

test("StrayOutput drops the rest of a chunk when its first line truncates (PY-157)", () => {
  expect(capture(64, [`${"x".repeat(80)}\nb\n`, "c\n"])).toEqual([logMarker(64)]);
});

test("StrayOutput counts illegal bytes as what they become (PY-154)", () => {
  const budget = 3_072;
  const illegal = Math.floor((budget - 1 - 3) / 3);
  expect(capture(budget, [Buffer.alloc(illegal, 0xff)])).toEqual(["\ufffd".repeat(illegal)]);
  expect(capture(budget, [Buffer.alloc(illegal + 1, 0xff)])).toEqual([logMarker(budget)]);
  expect(capture(budget, [Buffer.from([0xed, 0xa0, 0x80])])).toEqual(["\ufffd\ufffd\ufffd"]);
});

test("StrayOutput carries the bytes of a cut character over a full budget (PY-153)", () => {
  expect(
    capture(64, [Buffer.from("x".repeat(57)), Buffer.from([0xe2]), Buffer.from([0x82, 0xac])]),
  ).toEqual([`${"x".repeat(57)}€`]);
});

test("StrayOutput shares the budget among its pipes (PY-156)", () => {
  const ledger = new LogLedger(64);
  const stray = new StrayOutput(ledger);
  const [out, err] = [stray.pipe(), stray.pipe()];
  out.push(Buffer.from("x".repeat(30)));
  err.push(Buffer.from("y".repeat(30)));
  expect(ledger.finish()).toEqual(["x".repeat(30), logMarker(64)]);
});

test("StrayOutput is one entry when bytes come one by one (PY-158)", () => {
  expect(
    capture(
      1_000_000,
      Array.from({ length: 60_000 }, () => "x"),
    ),
  ).toEqual(["x".repeat(60_000)]);
});

test("StrayOutput hands over what it holds when a pipe never ends (PY-161)", () => {
  const ledger = new LogLedger(100);
  const stray = new StrayOutput(ledger);
  stray.pipe().push(Buffer.from("tail"));
  stray.end();
  expect(ledger.finish()).toEqual(["tail"]);
});

test("stringCost() costs a lone surrogate six when it stands alone (PY-172)", () => {
  expect(stringCost("\ud800".repeat(10), 100)).toBe(62);
});
