/**
 * The names that a request may give to namespaces, error classes and member properties.
 *
 * One rule set for every runtime and both languages: a list of namespaces that is valid on one is valid on
 * all. `tests/vectors/names` holds both implementations to it.
 */

import { BindingNameError } from "./errors.ts";

const words = (text: string): readonly string[] => text.split(" ");

const ECMASCRIPT_WORDS = words(
  "await break case catch class const continue debugger default delete do else enum export extends false " +
    "finally for function if import in instanceof new null return super switch this throw true try typeof " +
    "var void while with yield let static implements interface package private protected public arguments eval",
);
const PYTHON_WORDS = words(
  "False None True and as assert async def del elif except from global is lambda nonlocal not or pass raise " +
    "match type _",
);

/** Words that one of the languages reserves. */
export const RESERVED_WORDS: ReadonlySet<string> = new Set([...ECMASCRIPT_WORDS, ...PYTHON_WORDS]);
/** Names that some runtime seeds or wraps programs with. */
export const RUNTIME_OWNED: ReadonlySet<string> = new Set(
  words("console __dsh_main__ __builtins__ __name__ __debug__"),
);
/** Names that nearly every program of one of the languages needs. */
export const PROGRAM_OWNED: ReadonlySet<string> = new Set(
  words(
    "undefined NaN Infinity globalThis Promise Object Array String Number Boolean Symbol Error JSON Math " +
      "print len range str int float bool list dict isinstance Exception",
  ),
);
const ERROR_OWNED: ReadonlySet<string> = new Set(
  words("name message stack args with_traceback add_note"),
);

const IDENTIFIER = /^[A-Za-z_][A-Za-z0-9_]*$/;
const DUNDER = /^__.+__$/;
const EXPECTED_PROPERTY = `a name that is not empty, not of the form "__x__", and none of ${[...ERROR_OWNED].sort().join(", ")}`;

/** The names of one namespace, read once. */
export interface NamespaceNames {
  readonly globalName: string;
  readonly errorClass?: { readonly name: string; readonly memberNameProperty: string } | undefined;
}

/**
 * Refuse a list of namespaces with a name that some runtime or program could not live with.
 *
 * @param namespaces - The names; those of functions are any string.
 * @throws BindingNameError for the first fault; all globals are looked at before any error class.
 */
export function checkNamespaces(namespaces: readonly NamespaceNames[]): void {
  const taken = new Set<string>();
  for (const [index, { globalName }] of namespaces.entries()) {
    const field = `bindings[${index}].globalName`;
    checkGlobal(field, globalName, taken, "one namespace for each global name");
  }
  for (const [index, { errorClass }] of namespaces.entries()) {
    if (errorClass === undefined) continue;
    const field = `bindings[${index}].errorClass`;
    const unique = "a name that no namespace and no other error class has";
    checkGlobal(`${field}.name`, errorClass.name, taken, unique);
    const property = errorClass.memberNameProperty;
    if (property === "" || ERROR_OWNED.has(property) || DUNDER.test(property)) {
      throw new BindingNameError(`${field}.memberNameProperty`, property, EXPECTED_PROPERTY);
    }
  }
}

function checkGlobal(field: string, name: string, taken: Set<string>, unique: string): void {
  const refuse = (expected: string): never => {
    throw new BindingNameError(field, name, expected);
  };
  if (!IDENTIFIER.test(name)) {
    refuse("a letter A-Z, a-z or underscore, then letters, digits, underscores");
  }
  if (RESERVED_WORDS.has(name)) refuse("a word that neither TypeScript nor Python reserves");
  if (RUNTIME_OWNED.has(name)) refuse("a name that no runtime uses itself");
  if (PROGRAM_OWNED.has(name)) refuse("a name that programs do not need for a built-in");
  if (taken.has(name)) refuse(unique);
  taken.add(name);
}
