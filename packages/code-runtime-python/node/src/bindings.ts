/** The bindings of a request, each property read once and copied, so that no later change has an effect. */

import { describe, RequestError } from "./errors.ts";
import { checkNamespaces } from "./names.ts";
import type { BindingFunction, CodeBindingNamespace } from "./types.ts";
import type { Shape } from "./wire.ts";

/** What a program can call. */
export interface Bindings {
  /** For the boot frame. */
  readonly namespaces: Shape<"Namespace">[];
  /**
   * Find a function.
   *
   * @param globalName - The namespace.
   * @param name - The function.
   * @returns It, or undefined if the request did not declare it.
   */
  find(globalName: string, name: string): BindingFunction | undefined;
}

interface Taken {
  readonly globalName: string;
  readonly errorClass: Shape<"ErrorClass"> | undefined;
  readonly functions: ReadonlyMap<string, BindingFunction>;
}

/**
 * Read and check the bindings of a request.
 *
 * @param bindings - What the host gave; its getters run, once each.
 * @returns The copy.
 * @throws RequestError for a wrong type, BindingNameError for a name, and what a getter throws.
 */
export function takeBindings(bindings: readonly CodeBindingNamespace[] = []): Bindings {
  if (!Array.isArray(bindings)) throw new RequestError("bindings", describe(bindings), "an array");
  // Not `map`, which leaves a hole where it finds one.
  const taken = Array.from(bindings, (namespace: CodeBindingNamespace, index) =>
    takeNamespace(namespace, `bindings[${index}]`),
  );
  checkNamespaces(taken);
  const byName = new Map(taken.map(({ globalName, functions }) => [globalName, functions]));
  return {
    namespaces: taken.map(({ globalName, functions, errorClass }) => ({
      global: globalName,
      names: [...functions.keys()],
      ...(errorClass && { errorClass }),
    })),
    find: (globalName, name) => byName.get(globalName)?.get(name),
  };
}

function takeNamespace(namespace: CodeBindingNamespace, field: string): Taken {
  if (typeof namespace !== "object" || namespace === null) {
    throw new RequestError(field, describe(namespace), "a namespace");
  }
  const { globalName, functions, errorClass } = namespace;
  if (typeof functions !== "object" || functions === null) {
    throw new RequestError(`${field}.functions`, describe(functions), "an object of functions");
  }
  return {
    globalName: text(globalName, `${field}.globalName`),
    errorClass: errorClass === undefined ? undefined : takeErrorClass(errorClass, field),
    functions: takeFunctions(functions),
  };
}

function takeErrorClass(
  errorClass: NonNullable<CodeBindingNamespace["errorClass"]>,
  field: string,
): Shape<"ErrorClass"> {
  if (typeof errorClass !== "object" || errorClass === null) {
    throw new RequestError(`${field}.errorClass`, describe(errorClass), "an error class");
  }
  const { name, memberNameProperty } = errorClass;
  return {
    name: text(name, `${field}.errorClass.name`),
    memberNameProperty: text(memberNameProperty, `${field}.errorClass.memberNameProperty`),
  };
}

function takeFunctions(
  functions: CodeBindingNamespace["functions"],
): ReadonlyMap<string, BindingFunction> {
  const taken = new Map<string, BindingFunction>();
  for (const name of Object.keys(functions)) {
    const member = functions[name];
    if (typeof member === "function") taken.set(name, member.bind(functions) as BindingFunction);
  }
  return taken;
}

function text(value: unknown, field: string): string {
  if (typeof value !== "string") throw new RequestError(field, describe(value), "a string");
  return value;
}
