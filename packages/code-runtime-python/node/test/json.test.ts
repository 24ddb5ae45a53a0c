import { runInNewContext } from "node:vm";
import fc from "fast-check";
import { expect, test } from "vitest";
import { encode, LosslessJsonError, measure, snapshot } from "../src/json.ts";
import type { JsonValue } from "../src/wire.ts";

function refusal(value: unknown): string {
  try {
    snapshot(value);
  } catch (error) {
    expect(error).toBeInstanceOf(LosslessJsonError);
    return (error as LosslessJsonError).message;
  }
  throw new Error("the value was taken");
}

const cycle: unknown[] = [];
cycle.push({ again: cycle });
class Point {
  x = 1;
}

const throwing = {
  get a(): never {
    throw new Error("x");
  },
};

const refused: readonly (readonly [unknown, string])[] = [
  [undefined, "$: undefined is not JSON"],
  [{ a: undefined }, "$.a: undefined is not JSON"],
  [[Number.NaN], "$[0]: NaN is not JSON"],
  [[1, [Number.NEGATIVE_INFINITY]], "$[1][0]: -Infinity is not JSON"],
  [{ "a b": -0 }, '$["a b"]: negative zero is not JSON'],
  [1n, "$: bigint is not JSON"],
  [() => 1, "$: function is not JSON"],
  [Symbol("s"), "$: symbol is not JSON"],
  [new Date(0), "$: Date is not JSON"],
  [new Map(), "$: Map is not JSON"],
  [new Point(), "$: an instance of class Point is not JSON"],
  [Object.create({}), "$: an object with a prototype of its own is not JSON"],
  [Object.assign(new Array(3), { 0: 1, 2: 3 }), "$: an array with holes is not JSON"],
  [Object.assign([1], { x: 1 }), "$: an array with extra properties is not JSON"],
  [{ [Symbol("s")]: 1 }, "$: an object with hidden or symbol keys is not JSON"],
  [cycle, "$[0].again: a cycle is not JSON"],
  [{ toJSON: () => 1 }, "$.toJSON: function is not JSON"],
  [Promise.resolve(1), "$: Promise is not JSON"],
  [throwing, "$.a: reading it threw an error"],
];

test.each(refused.map(([, text], index) => [text, index] as const))(
  "snapshot() refuses a value when %s (PY-188)",
  (text, index) => {
    expect(refusal(refused[index]?.[0])).toBe(text);
  },
);

test("snapshot() takes values of another realm and objects without prototype", () => {
  const value = runInNewContext("({ a: [1, { b: null }] })") as unknown;
  expect(encode(snapshot(value))).toBe('{"a":[1,{"b":null}]}');
  expect(encode(snapshot(Object.create(null)))).toBe("{}");
});

test("snapshot() is detached when the source changes later", () => {
  const source = { list: [1], __proto__: null };
  const taken = snapshot(source);
  source.list.push(2);
  expect(encode(taken)).toBe('{"list":[1]}');
});

test("snapshot() keeps __proto__ as a key when it is an own one", () => {
  expect(encode(snapshot(JSON.parse('{"__proto__":{"a":1}}')))).toBe('{"__proto__":{"a":1}}');
});

test("snapshot() takes a shared part when it is no cycle", () => {
  const part = { a: 1 };
  expect(encode(snapshot([part, part]))).toBe('[{"a":1},{"a":1}]');
});

test("encode() and measure() take a million levels (PY-190)", () => {
  let value: unknown = 1;
  for (let level = 0; level < 1_000_000; level++) value = level % 2 === 0 ? [value] : { a: value };
  const taken = snapshot(value);
  const text = encode(taken);
  expect(text.length).toBe(500_000 * 2 + 500_000 * 6 + 1);
  expect(measure(taken.value, text.length)).toBe(text.length);
  let cyclic: unknown[] = [];
  const root = cyclic;
  for (let level = 0; level < 100_000; level++) {
    const next: unknown[] = [];
    cyclic.push(next);
    cyclic = next;
  }
  cyclic.push(root);
  expect(refusal(root).length).toBeLessThan(300);
});

const scalars = fc.oneof(
  fc.constantFrom(null, true, false),
  fc.maxSafeInteger(),
  fc.double({ noNaN: true, noDefaultInfinity: true }).filter((number) => !Object.is(number, -0)),
  fc.string({ unit: "binary" }),
);
const values = fc.letrec((tie) => ({
  value: fc.oneof(
    { depthSize: "small" },
    scalars,
    fc.array(tie("value"), { maxLength: 4 }),
    fc.dictionary(fc.string(), tie("value"), { maxKeys: 4 }),
  ),
})).value as fc.Arbitrary<JsonValue>;

test("encode() writes what JSON.stringify writes, and measure() counts it, when a value is any", () => {
  fc.assert(
    fc.property(values, (value) => {
      const taken = snapshot(value);
      const text = encode({ ...taken, isPlain: false });
      if (taken.isPlain) expect(text).toBe(JSON.stringify(value));
      // Structure and doubles survive; only the digits of large integers are spelled otherwise.
      expect(JSON.stringify(JSON.parse(text))).toBe(JSON.stringify(value));
      expect(/\de\+/.test(text.replace(/"(?:[^"\\]|\\.)*"/g, ""))).toBe(false);
      const size = Buffer.byteLength(text);
      expect(measure(taken.value, size)).toBe(size);
      expect(measure(taken.value, size - 1)).toBe(undefined);
    }),
  );
});
