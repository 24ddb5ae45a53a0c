/** The scenarios of `tests/cross_language`, whose README describes them, on a Node host with a CPython child. */

import { readdirSync, readFileSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { beforeAll, expect, test } from "vitest";
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
  readonly failure?: { readonly kind: string; readonly mentions: readonly string[] };
  readonly logs?: readonly string[];
  /** Namespace, member and outcome; this host keeps no journal, so the outcome is not compared. */
  readonly calls?: readonly (readonly [string, string, string])[];
}

/** What came of one run. */
interface Observed {
  readonly result: CodeRunResult;
  /** Namespace and member of each function that was called, in order. */
  readonly called: readonly (readonly [string, string])[];
}

/** One file. */
interface Scenario {
  readonly python?: readonly string[];
  readonly bindings?: readonly string[];
  readonly limits?: Readonly<Record<string, number>>;
  readonly runs?: number;
  readonly expect: Expectation;
}

const FOLDER = new URL("../../../../tests/cross_language/scenarios/", import.meta.url);
const ABORT_MS = 100;
const ODD_NAMES = ["odd name", "__proto__", "constructor", "__class__"];
// What a limit of a scenario is called in the config.
const LIMITS: Readonly<Record<string, keyof PythonConfig>> = {
  wall_ms: "maxWallMs",
  log_bytes: "maxLogBytes",
  value_bytes: "maxValueBytes",
};

function config(scenario: Scenario): PythonConfig {
  const limits = Object.entries(scenario.limits ?? {}).map(([name, value]) => {
    const field = LIMITS[name];
    if (field === undefined) throw new Error(`The limit ${name} is not one of this host`);
    return [field, value] as const;
  });
  return Object.fromEntries(limits);
}

// The table of functions

const menu = ["tea", "cake"];

function fail(message: string): never {
  throw new Error(message);
}

/** Makes the namespaces of the README for one run. */
function makeNamespaces(abort: (reason: string) => void): Record<string, CodeBindingNamespace> {
  const odd = ODD_NAMES.map((name): [string, BindingFunction] => [
    name,
    (value: JsonValue) => `${name} got ${value}`,
  ]);
  const tools: Record<string, BindingFunction> = {
    add: ({ a, b }: { a: number; b: number }) => a + b,
    echo: (value: JsonValue) => value,
    fail,
    lossy: () => Number.NaN,
    menu: () => menu,
    wait: (ms: number) => sleep(ms, null),
    never: () => new Promise(() => {}),
    // Own members, also the one that would set a prototype when it is assigned.
    ...Object.fromEntries(odd),
  };
  const prices: Readonly<Record<string, number>> = { apples: 1.2 };
  const shop: Record<string, BindingFunction> = {
    price: (name: string) => prices[name],
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
  const errorClass = { name: "ShopError", memberNameProperty: "item" };
  return {
    tools: { globalName: "tools", functions: tools },
    shop: { globalName: "shop", functions: shop, errorClass },
    control: { globalName: "control", functions: control },
  };
}

// The runs

let shared: PythonCodeRuntime;
beforeAll(async () => {
  shared = await create();
});

/** Runs the program of a scenario once. */
async function observe(runtime: PythonCodeRuntime, scenario: Scenario): Promise<Observed> {
  const controller = new AbortController();
  const called: [string, string][] = [];
  const namespaces = makeNamespaces((reason) => controller.abort(reason));
  const bindings = (scenario.bindings ?? []).map((name) => {
    const namespace = namespaces[name] ?? fail(`The namespace ${name} is not in the table`);
    return { ...namespace, functions: recording(namespace, called) };
  });
  const program = (scenario.python ?? []).join("\n");
  return { result: await runtime.run({ program, bindings, signal: controller.signal }), called };
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

function check({ result, called }: Observed, expected: Expectation): void {
  expect(result.error?.kind).toBe(expected.failure?.kind);
  for (const text of expected.failure?.mentions ?? []) {
    expect(result.error?.message).toContain(text);
  }
  if (expected.logs !== undefined) expect(result.logs).toStrictEqual(expected.logs);
  expect("value" in result).toBe("value" in expected);
  expect(result.value).toStrictEqual(expected.value);
  if (expected.calls === undefined) return;
  expect(called).toStrictEqual(expected.calls.map(([namespace, member]) => [namespace, member]));
}

for (const file of readdirSync(FOLDER).sort()) {
  const scenario = JSON.parse(readFileSync(new URL(file, FOLDER), "utf8")) as Scenario;
  if (scenario.python === undefined) continue;
  test(file.replace(/\.json$/, ""), async () => {
    const own = scenario.limits === undefined ? undefined : await create(config(scenario));
    for (let count = scenario.runs ?? 1; count > 0; count--) {
      check(await observe(own ?? shared, scenario), scenario.expect);
    }
  });
}
