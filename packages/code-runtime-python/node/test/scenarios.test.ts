/** The scenarios of `tests/scenarios`, whose README describes them, on a Node host with a CPython child. */

import { readdirSync, readFileSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { expect, test } from "vitest";
import type {
  BindingFunction,
  CodeBindingNamespace,
  CodeRunResult,
  JsonValue,
  PythonCodeRuntime,
  PythonConfig,
} from "../src/index.ts";
import { create } from "./host.ts";

/** What a scenario expects. */
interface Expectation {
  readonly value?: JsonValue;
  readonly failure?: {
    readonly kind: string;
    readonly message?: string;
    readonly mentions?: readonly string[];
    readonly python?: readonly string[];
  };
  readonly logs?: readonly string[];
  readonly log_count?: number;
  readonly logs_truncated?: boolean;
  /** Namespace, member and outcome; this host keeps no journal, so the outcome is not compared. */
  readonly calls?: readonly (readonly [string, string, string])[];
}

/** What came of one run. */
interface Observed {
  readonly result: CodeRunResult;
  /** The logs that arrived while the program ran. */
  readonly live: readonly string[];
  /** Namespace and member of each function that was called, in order. */
  readonly called: readonly (readonly [string, string])[];
}

/** The files under which the CPython pair finds a program; `name` is the path without its suffix. */
interface Scenario {
  readonly name: string;
  readonly program: string;
  readonly limits: Readonly<Record<string, number>>;
  readonly runs: number;
  readonly expect: Expectation;
}

const FOLDER = new URL("../../../../tests/scenarios/", import.meta.url);
const DATA = new URL("data/", FOLDER);
const BLOCK = /^```(.+)\n((?:.*\n)*?)```$/gm;
const ABORT_MS = 100;
const SLOW_MS = 5;
const ORDERS_OF_A_PAGE = 3;
const ODD_NAMES = ["odd name", "__proto__", "constructor", "__class__"];
// What a limit of a scenario is called in the config; `wall_ms` is a field of the request.
const LIMITS: Readonly<Record<string, keyof PythonConfig>> = {
  compute_s: "cpuSeconds",
  memory_mb: "memoryMb",
  log_bytes: "maxLogBytes",
  value_bytes: "maxValueBytes",
};

/** Reads the files that hold a Python program; pytest checks that they hold nothing unknown. */
function readScenarios(): Scenario[] {
  const files = readdirSync(FOLDER, { recursive: true, encoding: "utf8" }).sort();
  return files.flatMap((file) => {
    if (!file.endsWith(".md") || !file.includes("/")) return [];
    const text = readFileSync(new URL(file, FOLDER), "utf8");
    const blocks = new Map([...text.matchAll(BLOCK)].map(([, info, body]) => [info, body]));
    const program = blocks.get("python")?.replace(/\n$/, "");
    if (program === undefined) return [];
    const { limits = {}, runs = 1 } = JSON.parse(blocks.get("json given") ?? "{}");
    const expectation = JSON.parse(blocks.get("json expect") as string);
    return [{ name: file.replace(/\.md$/, ""), program, limits, runs, expect: expectation }];
  });
}

function config(scenario: Scenario): PythonConfig {
  const limits = Object.entries(scenario.limits).filter(([name]) => name !== "wall_ms");
  const fields = limits.map(([name, value]) => {
    const field = LIMITS[name];
    if (field === undefined) throw new Error(`The limit ${name} is not one of this host`);
    return [field, value] as const;
  });
  return Object.fromEntries(fields);
}

// The table of functions

const menu = ["tea", "cake"];
const prices: Readonly<Record<string, number>> = { apples: 1.2, pears: 2.5, plums: 0.8 };

function fail(message: string): never {
  throw new Error(message);
}

/** Makes the functions of `tools` for one run. */
function makeTools(): Record<string, BindingFunction> {
  let tries = 0;
  let running = 0;
  let peak = 0;
  const odd = ODD_NAMES.map((name): [string, BindingFunction] => [
    name,
    (value: JsonValue) => `${name} got ${value}`,
  ]);
  return {
    add: ({ a, b }: { a: unknown; b: unknown }) =>
      typeof a === "number" && typeof b === "number"
        ? a + b
        : fail("Cannot add: expected {a, b}, two numbers"),
    echo: (value: JsonValue) => value,
    fail,
    flaky: (failures: number) => (++tries <= failures ? fail(`busy, try ${tries}`) : tries),
    lossy: () => Number.NaN,
    menu: () => menu,
    never: () => new Promise(() => {}),
    now: () => "2026-03-01T09:30:00Z",
    peak: () => peak,
    slow: async (value: JsonValue) => {
      peak = Math.max(peak, ++running);
      await sleep(SLOW_MS);
      running--;
      return value;
    },
    wait: (ms: number) => sleep(ms, null),
    // Own members, also the one that would set a prototype when it is assigned.
    ...Object.fromEntries(odd),
  };
}

/** Makes the functions of `files` for one run. */
function makeFiles(): Record<string, BindingFunction> {
  const texts = new Map(
    readdirSync(DATA).map((name) => [name, readFileSync(new URL(name, DATA), "utf8")]),
  );
  return {
    list: () => [...texts.keys()].sort(),
    read: (name: string) => texts.get(name) ?? fail(`No file named ${name}`),
    write: ({ name, text }: { name: string; text: string }) => {
      texts.set(name, text);
      return null;
    },
  };
}

function orders({ page }: { page: number }): JsonValue {
  const all = JSON.parse(readFileSync(new URL("orders.json", DATA), "utf8")) as JsonValue[];
  const end = page * ORDERS_OF_A_PAGE;
  return {
    orders: all.slice(end - ORDERS_OF_A_PAGE, end),
    next: end < all.length ? page + 1 : null,
  };
}

/** Makes the namespaces of the README for one run. */
function makeNamespaces(abort: (reason: string) => void): CodeBindingNamespace[] {
  const shop: Record<string, BindingFunction> = {
    price: (name: string) => prices[name] ?? fail(`No price for ${name}`),
    orders,
    refuse: fail,
  };
  const control: Record<string, BindingFunction> = {
    abort: (reason: string) => {
      abort(reason);
      return null;
    },
    abort_later: (reason: string, { signal }) => {
      // Not needed any more when the run is over before.
      void sleep(ABORT_MS, null, { signal }).then(
        () => abort(reason),
        () => {},
      );
      return null;
    },
  };
  const shopError = { name: "ShopError", memberNameProperty: "item" };
  const fileError = { name: "FileError", memberNameProperty: "operation" };
  return [
    { globalName: "tools", functions: makeTools() },
    { globalName: "shop", functions: shop, errorClass: shopError },
    { globalName: "files", functions: makeFiles(), errorClass: fileError },
    { globalName: "control", functions: control },
  ];
}

// The runs

const runtimes = new Map<string, Promise<PythonCodeRuntime>>();

/** Gives the runtime that has a scenario's limits; each is made once. */
function runtimeFor(scenario: Scenario): Promise<PythonCodeRuntime> {
  const fields = config(scenario);
  const key = JSON.stringify(fields);
  const found = runtimes.get(key) ?? create(fields);
  runtimes.set(key, found);
  return found;
}

/** Runs the program of a scenario once. */
async function observe(runtime: PythonCodeRuntime, scenario: Scenario): Promise<Observed> {
  const controller = new AbortController();
  const called: [string, string][] = [];
  const live: string[] = [];
  const bindings = makeNamespaces((reason) => controller.abort(reason)).map((namespace) => ({
    ...namespace,
    functions: recording(namespace, called),
  }));
  const result = await runtime.run({
    program: scenario.program,
    bindings,
    signal: controller.signal,
    onLog: (text) => live.push(text),
    maxWallMs: scenario.limits.wall_ms,
  });
  return { result, live, called };
}

/** The functions of a namespace, which also note that they were called. */
function recording(
  { globalName, functions }: CodeBindingNamespace,
  called: [string, string][],
): Record<string, BindingFunction> {
  const members = Object.entries(functions).map(([name, member]): [string, BindingFunction] => [
    name,
    (args, context) => {
      called.push([globalName, name]);
      return member(args, context);
    },
  ]);
  return Object.fromEntries(members);
}

function check({ result, live, called }: Observed, expected: Expectation): void {
  const failure = expected.failure;
  expect(result.error?.kind, result.error?.message).toBe(failure?.kind);
  if (failure?.message !== undefined) expect(result.error?.message).toBe(failure.message);
  for (const text of [...(failure?.mentions ?? []), ...(failure?.python ?? [])]) {
    expect(result.error?.message).toContain(text);
  }
  expect(live).toStrictEqual(result.logs);
  if (expected.logs !== undefined) expect(result.logs).toStrictEqual(expected.logs);
  if (expected.log_count !== undefined) expect(result.logs).toHaveLength(expected.log_count);
  if (expected.logs_truncated !== undefined || failure === undefined) {
    expect(result.logsTruncated).toBe(expected.logs_truncated ?? false);
  }
  expect("value" in result).toBe("value" in expected);
  expect(result.value).toStrictEqual(expected.value);
  if (expected.calls === undefined) return;
  expect(called).toStrictEqual(expected.calls.map(([namespace, member]) => [namespace, member]));
}

for (const scenario of readScenarios()) {
  test(scenario.name, async () => {
    const runtime = await runtimeFor(scenario);
    for (let count = scenario.runs; count > 0; count--) {
      check(await observe(runtime, scenario), scenario.expect);
    }
  });
}
