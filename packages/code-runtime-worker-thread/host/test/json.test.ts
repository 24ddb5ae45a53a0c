import { readFileSync } from "node:fs";
import vm from "node:vm";
import fc from "fast-check";
import { expect, test } from "vitest";
import { decode, type Encoded, encode, stringText } from "../src/json.ts";

interface Vector {
  readonly name?: string;
  readonly input?: string;
  readonly value?: string;
  readonly canonical: string;
  readonly cost: number;
}
const vectors = (name: string): readonly Vector[] => {
  const file = new URL(`../../../../tests/vectors/json/${name}.json`, import.meta.url);
  return (JSON.parse(readFileSync(file, "utf8")) as { cases: Vector[] }).cases;
};

const textOf = (encoded: Encoded): string => {
  if (encoded.kind !== "bytes") throw new Error(`Cannot take the text of ${encoded.kind}`);
  return Buffer.from(encoded.bytes).toString();
};
const spell = (value: unknown): string => textOf(encode(value, Infinity));
const refusal = (value: unknown): string => {
  const encoded = encode(value, Infinity);
  return encoded.kind === "lossy" ? `${encoded.path}: ${encoded.reason}` : encoded.kind;
};

test.each([...vectors("numbers"), ...vectors("values")])(
  "encode() spells the shared vector $input canonically (WT-065, WT-066, SC-029)",
  ({ input, canonical, cost }) => {
    const encoded = encode(decode(input as string), Infinity);
    expect(textOf(encoded)).toBe(canonical);
    expect(encoded.kind === "bytes" && encoded.bytes.length).toBe(cost);
  },
);

test.each(vectors("strings"))(
  "encode() spells the shared string $name canonically (WT-065, WT-075)",
  ({ value, canonical, cost }) => {
    expect(spell(value)).toBe(canonical);
    expect(Buffer.byteLength(spell(value))).toBe(cost);
  },
);

test("encode() gives up at the first byte above its limit (WT-069, WT-076)", () => {
  for (const value of [["abc", { a: 1.5 }], "€", null, [], { k: "\n" }]) {
    const size = Buffer.byteLength(spell(value));
    expect(encode(value, size).kind).toBe("bytes");
    expect(encode(value, size - 1).kind).toBe("limit");
  }
});

test("encode() stops early on a value without end (WT-076)", () => {
  const endless: object = new Proxy([], {
    get: (_target, key) => (key === "length" ? 1 : endless),
    getPrototypeOf: () => Array.prototype,
    ownKeys: () => ["0", "length"],
    getOwnPropertyDescriptor: () => ({ configurable: true, enumerable: true, value: 1 }),
  });
  expect(encode(endless, 100).kind).toBe("lossy");
  let reads = 0;
  const growing = (): object => ({
    get next() {
      reads++;
      return growing();
    },
  });
  expect(encode(growing(), 1_000).kind).toBe("limit");
  expect(reads).toBeLessThan(1_000);
});

test("encode() takes every plain value (WT-096, WT-102, WT-108, WT-109)", () => {
  const shared = { s: "\u0000\ud800" };
  const bare = Object.assign(Object.create(null), { b: Object.freeze([1]) });
  const value = { z: 1, 2: true, 1: null, ["__proto__"]: shared, bare, again: shared };
  expect(spell(value)).toBe(
    '{"1":null,"2":true,"z":1,"__proto__":{"s":"\\u0000\\ud800"},"bare":{"b":[1]},"again":{"s":"\\u0000\\ud800"}}',
  );
});

class Empty extends Object {}
class Numbers extends Array<number> {}

test.each([
  ["undefined", undefined, "$: undefined is not JSON"],
  ["-0", -0, "$: -0 is not JSON"],
  ["NaN", [NaN], "$[0]: NaN is not JSON"],
  ["-Infinity", { a: -Infinity }, "$.a: -Infinity is not JSON"],
  ["BigInt", { "a b": 1n }, '$["a b"]: BigInt is not JSON'],
  ["symbol", Symbol("s"), "$: symbol is not JSON"],
  ["function", Object.assign(() => 1, { a: 1 }), "$: function is not JSON"],
  ["undefined member", { a: [{ b: undefined }] }, "$.a[0].b: undefined is not JSON"],
])("encode() refuses the scalar %s (WT-097)", (_name, value, expected) => {
  expect(refusal(value)).toBe(expected);
});

test.each([
  ["Date", new Date(0)],
  ["RegExp", /a/],
  ["Map", new Map()],
  ["Set", new Set()],
  ["WeakMap", new WeakMap()],
  ["Uint8Array", Buffer.alloc(1)],
  ["ArrayBuffer", new ArrayBuffer(1)],
  ["Error", new TypeError("x")],
  ["Number", Object(1)],
  ["String", Object("s")],
  ["Boolean", Object(false)],
  ["BigInt", Object(1n)],
  ["URL", new URL("http://a")],
  ["Array Iterator", [][Symbol.iterator]()],
  ["Math", Math],
  ["JSON", JSON],
  ["global", globalThis],
  ["an instance of class Empty", new Empty()],
  ["Generator", (function* () {})()],
])("encode() refuses %s (WT-099)", (name, value) => {
  expect(refusal({ v: value })).toBe(`$.v: ${name} is not JSON`);
});

test("encode() refuses the arguments object (WT-099)", () => {
  const taken = (function () {
    // biome-ignore lint/complexity/noArguments: the arguments object is what is tested
    return arguments;
  })();
  expect(refusal(taken)).toBe("$: Arguments is not JSON");
});

const withExtra = (extra: object): unknown[] => Object.assign([1], extra);
const hidden = Object.defineProperty([1], "x", { value: 1 });
const compensated = Object.assign(new Array(2), { 0: 1, x: 1 });
const forged = Object.setPrototypeOf([1], Object.create(Array.prototype)) as unknown[];

test.each([
  // biome-ignore lint/suspicious/noSparseArray: a hole is what is tested
  ["a hole", [, 1], "$: an array with holes is not JSON"],
  ["only holes", new Array(2), "$: an array with holes is not JSON"],
  ["undefined", [undefined], "$[0]: undefined is not JSON"],
  ["an extra property", withExtra({ x: 1 }), "$: an array with extra properties is not JSON"],
  ["a hidden one", hidden, "$: an array with extra properties is not JSON"],
  ["a symbol", withExtra({ [Symbol("s")]: 1 }), "$: an array with extra properties is not JSON"],
  ["a hole and a property", compensated, "$: an array with holes is not JSON"],
  ["a subclass", new Numbers(), "$: an array with a prototype of its own is not JSON"],
  ["a forged chain", forged, "$: an array with a prototype of its own is not JSON"],
  [
    "no prototype",
    Object.setPrototypeOf([], null),
    "$: an array with a prototype of its own is not JSON",
  ],
])("encode() refuses an array with %s (WT-100)", (_name, value, expected) => {
  expect(refusal(value)).toBe(expected);
});

const rest = "an object with hidden or symbol keys is not JSON";

test.each([
  ["a hidden key", Object.defineProperty({}, "x", { value: 1 }), `$: ${rest}`],
  ["a symbol key", { [Symbol("s")]: 1 }, `$: ${rest}`],
  ["a prototype", Object.create({ a: 1 }), "$: an object with a prototype of its own is not JSON"],
  [
    "a bare prototype",
    Object.create(Object.create(null)),
    "$: an object with a prototype of its own is not JSON",
  ],
  [
    "the slots of a Date",
    Object.setPrototypeOf(new Date(), Object.prototype),
    "$: Date is not JSON",
  ],
])("encode() refuses an object with %s (WT-101)", (_name, value, expected) => {
  expect(refusal(value)).toBe(expected);
});

test("encode() refuses cycles at any depth and takes shared parts (WT-102)", () => {
  for (const depth of [0, 1, 15, 16, 17, 40, 5_000]) {
    const root: unknown[] = [];
    let leaf = root;
    for (let level = 0; level < depth; level++) {
      const next: unknown[] = [];
      leaf.push(next, next);
      if (level < 3) leaf.pop();
      if (level >= 3) leaf.pop();
      leaf = next;
    }
    leaf.push(1, root);
    expect(refusal(root)).toMatch(/a cycle is not JSON$/);
    leaf.pop();
    expect(spell(root)).toBe(`${"[".repeat(depth + 1)}1${"]".repeat(depth + 1)}`);
  }
});

test("encode() takes a part shared by many deep siblings (WT-102)", () => {
  const shared = { deep: [1] };
  let tree: unknown = [shared, shared];
  for (let level = 0; level < 30; level++) tree = [tree];
  const wide = [tree, tree, shared];
  expect(JSON.parse(spell(wide))).toEqual(wide);
});

test("encode() does not call toJSON (WT-103)", () => {
  expect(refusal({ toJSON: () => 1 })).toBe("$.toJSON: function is not JSON");
  expect(spell({ toJSON: "data" })).toBe('{"toJSON":"data"}');
});

test("encode() reads each getter once and survives one that throws (WT-104)", () => {
  let reads = 0;
  const counted = {
    get a() {
      return ++reads;
    },
  };
  expect(spell(counted)).toBe('{"a":1}');
  expect(reads).toBe(1);
  const throwing = {
    get a() {
      throw new Error("no");
    },
  };
  expect(refusal([throwing])).toBe("$[0].a: reading it threw an error");
});

test("encode() refuses an array that its getter shortens (WT-105)", () => {
  const array: unknown[] = [0, 1, 2];
  Object.defineProperty(array, 0, {
    enumerable: true,
    get() {
      array.length = 1;
      return 0;
    },
  });
  expect(refusal(array)).toBe("$[1]: undefined is not JSON");
});

test("encode() takes proxies of plain values and refuses revoked ones (WT-106)", () => {
  expect(spell(new Proxy({ a: new Proxy([1], {}) }, {}))).toBe('{"a":[1]}');
  const { proxy, revoke } = Proxy.revocable({}, {});
  revoke();
  expect(refusal({ p: proxy })).toBe("$.p: reading it threw an error");
});

test("encode() takes plain containers of another realm and no look-alikes (WT-107)", () => {
  expect(spell(vm.runInNewContext("({a: [1, {b: []}]})"))).toBe('{"a":[1,{"b":[]}]}');
  const lookAlike = (made: unknown): object => {
    const prototype = Object.create(null) as object;
    Object.defineProperty(prototype, "constructor", { value: made });
    if (typeof made === "function") {
      try {
        Object.defineProperty(made, "prototype", { value: prototype });
      } catch {
        // A revoked proxy takes no property; the link is missing then.
      }
    }
    return Object.create(prototype) as object;
  };
  // biome-ignore lint/suspicious/noShadowRestrictedNames: a forged name is what is tested
  const forgedObject = function Object() {};
  forgedObject.toString = () => "function Object() { [native code] }";
  expect(refusal(lookAlike(forgedObject))).toBe("$: an instance of class Object is not JSON");
  expect(refusal(lookAlike(forgedObject.bind(null)))).toBe(
    "$: an instance of class bound Object is not JSON",
  );
  const { proxy, revoke } = Proxy.revocable(forgedObject, {});
  const revoked = lookAlike(proxy);
  revoke();
  expect(refusal(revoked)).toBe("$: reading it threw an error");
});

test("encode() and decode() take a million levels (WT-077, WT-111)", () => {
  const levels = 1_000_000;
  const arrays = `${"[".repeat(levels)}${"]".repeat(levels)}`;
  expect(spell(decode(arrays)) === arrays).toBe(true);
  const objects = `${'{"a":'.repeat(levels)}1${"}".repeat(levels)}`;
  expect(spell(decode(objects)) === objects).toBe(true);
});

test("encode() counts 5,000 nested arrays as 10,000 bytes (WT-077)", () => {
  expect(spell(decode("[".repeat(5_000) + "]".repeat(5_000)))).toHaveLength(10_000);
});

test("encode() elides the middle of a long path", () => {
  let value: unknown = new Date();
  for (let level = 0; level < 500; level++) value = { [`key${level}`]: value };
  const path = refusal({ ["k".repeat(5_000)]: value });
  expect(path.length).toBeLessThan(300);
  expect(path).toMatch(/^\$\["k{48}…"\]\.key499\.key498.*….*\.key1\.key0: Date is not JSON$/);
});

test("encode() joins large texts exactly (WT-090)", () => {
  const value = Array.from({ length: 50_000 }, (_, index) => ({ index, text: `é${index}😀` }));
  expect(spell(value)).toBe(JSON.stringify(value));
});

test("encode() spells what JSON.stringify spells, for any value that both keep (WT-096)", () => {
  const number = fc.double({ noNaN: true, noDefaultInfinity: true, min: -(2 ** 53), max: 2 ** 53 });
  const leaf = fc.oneof(
    fc.constant(null),
    fc.boolean(),
    number.map((value) => value + 0),
    fc.string({ unit: "binary" }),
    fc.string({
      unit: fc.integer({ min: 0, max: 0xffff }).map((unit) => String.fromCharCode(unit)),
    }),
  );
  const { tree } = fc.letrec((tie) => ({
    tree: fc.oneof(
      { maxDepth: 5 },
      leaf,
      fc.array(tie("tree")),
      fc.dictionary(fc.string(), tie("tree")),
    ),
  }));
  fc.assert(
    fc.property(tree, (value) => {
      const expected = JSON.stringify(value);
      expect(spell(value)).toBe(expected);
      expect(encode(value, Buffer.byteLength(expected) - 1).kind).toBe("limit");
    }),
    { numRuns: 500 },
  );
});

test("stringText() spells every unit as JSON.stringify does, in strings of any length (WT-096)", () => {
  for (let unit = 0; unit <= 0xffff; unit++) {
    const char = String.fromCharCode(unit);
    if (stringText(char) !== JSON.stringify(char)) throw new Error(`unit ${unit}`);
  }
  for (const length of [0, 1, 63, 64, 65, 1_000]) {
    for (const char of ["a", " ", "~", "\u007f", '"', "\\", "\n", "é", "\ud800", "😀"]) {
      for (const text of [char + "x".repeat(length), "x".repeat(length) + char]) {
        expect(stringText(text)).toBe(JSON.stringify(text));
      }
    }
  }
});

test("encode() spells the double that 2^53 + 1 is (WT-116)", () => {
  expect(spell(2 ** 53 + 1)).toBe("9007199254740992");
});

test("encode() takes a million small objects in seconds (WT-117, GP-011)", () => {
  const value = Array.from({ length: 1_000_000 }, (_, index) => ({ a: index }));
  const before = process.cpuUsage();
  expect(encode(value, Infinity).kind).toBe("bytes");
  const { user } = process.cpuUsage(before);
  expect(user / 1_000_000).toBeLessThan(10);
});
