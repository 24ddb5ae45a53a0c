import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { takeBindings } from "../src/bindings.ts";
import { BindingNameError, RequestError } from "../src/errors.ts";
import { checkNamespaces, PROGRAM_OWNED, RESERVED_WORDS, RUNTIME_OWNED } from "../src/names.ts";
import type { CodeBindingNamespace } from "../src/types.ts";

const vectors = JSON.parse(
  readFileSync(new URL("../../../../tests/vectors/names/namespaces.json", import.meta.url), "utf8"),
) as {
  reservedWords: string[];
  runtimeOwned: string[];
  programOwned: string[];
  cases: {
    name: string;
    spec: string;
    namespaces: {
      globalName: string;
      errorClass: { name: string; memberNameProperty: string } | null;
    }[];
    refused: { index: number; field: string; seen: string } | null;
  }[];
};

test("names has the reserved words of the vectors", () => {
  expect([...RESERVED_WORDS].sort()).toEqual([...new Set(vectors.reservedWords)].sort());
  expect([...RUNTIME_OWNED].sort()).toEqual([...vectors.runtimeOwned].sort());
  expect([...PROGRAM_OWNED].sort()).toEqual([...vectors.programOwned].sort());
});

const camel = (field: string): string =>
  field.replace(/_([a-z])/g, (_, letter: string) => letter.toUpperCase());

test.each(vectors.cases)(
  "checkNamespaces() judges as in the vectors when $name ($spec; PY-038 to PY-044)",
  ({ namespaces, refused }) => {
    const check = () =>
      checkNamespaces(
        namespaces.map(({ globalName, errorClass }) => ({
          globalName,
          errorClass: errorClass ?? undefined,
        })),
      );
    if (refused === null) {
      check();
      return;
    }
    try {
      check();
    } catch (error) {
      expect(error).toBeInstanceOf(BindingNameError);
      const { field, seen } = error as BindingNameError;
      expect([field, seen]).toEqual([
        `bindings[${refused.index}].${camel(refused.field)}`,
        refused.seen,
      ]);
      return;
    }
    throw new Error("the namespaces were taken");
  },
);

test("takeBindings() throws what a getter throws (PY-045)", () => {
  const error = new Error("no");
  const functions = {
    get f(): never {
      throw error;
    },
  };
  expect(() => takeBindings([{ globalName: "t", functions }])).toThrow(error);
});

test("takeBindings() reads each property once (PY-046)", () => {
  const reads: string[] = [];
  const tracked = <T extends object>(target: T, path: string): T =>
    new Proxy(target, {
      get: (object, key) => {
        reads.push(`${path}.${String(key)}`);
        return Reflect.get(object, key) as unknown;
      },
    });
  let answer = (): string => "first";
  const functions = tracked({ f: () => answer() }, "functions");
  const errorClass = tracked({ name: "E", memberNameProperty: "tool-name" }, "errorClass");
  const taken = takeBindings([tracked({ globalName: "t", functions, errorClass }, "namespace")]);
  expect(reads.sort()).toEqual([
    "errorClass.memberNameProperty",
    "errorClass.name",
    "functions.f",
    "namespace.errorClass",
    "namespace.functions",
    "namespace.globalName",
  ]);
  const before = taken.find("t", "f");
  (functions as { f: unknown }).f = () => "changed";
  expect(taken.find("t", "f")).toBe(before);
  answer = () => "second";
  expect(before?.(null, { signal: new AbortController().signal })).toBe("second");
});

test("takeBindings() leaves out members that are no functions (PY-047)", () => {
  const functions = {
    b: () => 1,
    x: 5,
    a: () => 2,
    n: null,
  } as unknown as CodeBindingNamespace["functions"];
  expect(takeBindings([{ globalName: "t", functions }]).namespaces).toEqual([
    { global: "t", names: ["b", "a"] },
  ]);
});

test("takeBindings() offers members of any name, and only own ones (PY-048)", () => {
  const functions = JSON.parse('{"__proto__":1,"constructor":1,"__class__":1}') as Record<
    string,
    () => number
  >;
  for (const name of Object.keys(functions)) {
    Object.defineProperty(functions, name, { value: () => 1, enumerable: true });
  }
  const taken = takeBindings([{ globalName: "t", functions }]);
  expect(taken.namespaces[0]?.names).toEqual(["__proto__", "constructor", "__class__"]);
  expect(taken.find("t", "__proto__")).toBeTypeOf("function");
  expect(taken.find("t", "toString")).toBe(undefined);
  expect(taken.find("__proto__", "toString")).toBe(undefined);
});

test.each([
  [5, "bindings is 5, expected an array"],
  [[null], "bindings[0] is null, expected a namespace"],
  [[{ globalName: 1, functions: {} }], "bindings[0].globalName is 1, expected a string"],
  [[{ globalName: "t" }], "bindings[0].functions is undefined, expected an object of functions"],
  [
    [{ globalName: "t", functions: {}, errorClass: { name: "E" } }],
    "bindings[0].errorClass.memberNameProperty is undefined, expected a string",
  ],
])("takeBindings() names the field when its type is wrong: %j", (bindings, text) => {
  const take = () => takeBindings(bindings as unknown as CodeBindingNamespace[]);
  expect(take).toThrow(RequestError);
  expect(take).toThrow(`Cannot run a program: ${text}`);
});
