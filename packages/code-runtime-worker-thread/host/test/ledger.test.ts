import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { encode } from "../src/json.ts";
import { fittingPrefix, Ledger, stringCost } from "../src/ledger.ts";

const read = (name: string): unknown =>
  JSON.parse(
    readFileSync(new URL(`../../../../tests/vectors/${name}.json`, import.meta.url), "utf8"),
  );

interface Repeat {
  readonly repeat: string;
  readonly times: number;
}
const long = (text: string | Repeat): string =>
  typeof text === "string" ? text : text.repeat.repeat(text.times);

const strings = read("json/strings") as {
  cases: { name: string; value: string; cost: number }[];
  prefixes: { value: string; budget: number; prefix: string }[];
};

test.each(strings.cases)(
  "stringCost() gives the shared cost of $name (WT-065)",
  ({ value, cost }) => {
    expect(stringCost(value, cost)).toBe(cost);
    expect(stringCost(value, cost - 1)).toBe(undefined);
  },
);

test.each(strings.prefixes)("fittingPrefix() cuts $value to $budget bytes (WT-078)", (vector) => {
  expect(fittingPrefix(vector.value, vector.budget)).toBe(vector.prefix);
});

/** Admits one entry as the output does. */
function admit(ledger: Ledger, text: string): string | undefined {
  if (ledger.exceeded) return undefined;
  const cost = stringCost(text, ledger.room);
  if (cost !== undefined && ledger.admit(cost)) return text;
  const prefix = fittingPrefix(text, ledger.room);
  if (prefix !== "") ledger.admit(stringCost(prefix, Infinity) as number);
  ledger.close();
  return prefix === "" ? undefined : prefix;
}

const admission = read("ledger/admission") as {
  cases: {
    name: string;
    spec: string;
    cap: number;
    entries: string[];
    kept: string[];
    remaining: number;
    exceeded: boolean;
  }[];
};

test.each(admission.cases)("Ledger keeps what fits when $name ($spec)", (vector) => {
  const ledger = new Ledger(vector.cap);
  const kept = vector.entries.map((entry) => admit(ledger, entry));
  expect(kept.filter((entry) => entry !== undefined)).toEqual(vector.kept);
  expect(ledger.remaining).toBe(vector.remaining);
  expect(ledger.exceeded).toBe(vector.exceeded);
});

const outcomes = read("ledger/outcomes") as {
  cases: {
    name: string;
    spec: string;
    cap: number;
    logs: (string | Repeat)[];
    end: {
      value?: unknown;
      string?: string | Repeat;
      message?: string | Repeat;
      value_bytes?: number;
    };
    expected: { outcome: string };
  }[];
};

test.each(outcomes.cases)("Ledger agrees on the outcome when $name ($spec)", (vector) => {
  const { end } = vector;
  const ledger = new Ledger(vector.cap);
  for (const entry of vector.logs) admit(ledger, long(entry));
  let cost: number | undefined = end.value_bytes ?? 0;
  const text = end.string ?? end.message;
  if (text !== undefined) cost = stringCost(long(text), Infinity);
  if ("value" in end) {
    const encoded = encode(end.value, ledger.remaining);
    cost = encoded.kind === "bytes" ? encoded.bytes.length : Infinity;
  }
  const fits = !ledger.exceeded && (cost as number) <= ledger.remaining;
  expect(fits).toBe(vector.expected.outcome !== "output-limit");
});

test("stringCost() looks at a hopeless string no further than its length (WT-076)", () => {
  const text = '"'.repeat(50_000_000);
  const started = performance.now();
  expect(stringCost(text, 32)).toBe(undefined);
  expect(performance.now() - started).toBeLessThan(5);
});
