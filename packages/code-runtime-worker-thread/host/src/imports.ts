/**
 * Static imports of Node built-ins, rewritten so that a program may keep a module's habits.
 *
 * A program is a function body, where an import declaration is a syntax error. Each declaration becomes
 * `;` and blanks of the same length, with its line ends kept, so every position of the program stays as
 * written; what it declares goes into a one-line prologue that runs before the program, as hoisting would.
 */
import { isBuiltin } from "node:module";
import { skipTrivia } from "./scan.ts";

/** A program without the import declarations that were taken out. */
export interface Rewritten {
  readonly code: string;
  readonly prologue: string;
}

/** Why a declaration cannot be taken, and where that shows. */
export interface ImportFault {
  readonly offset: number;
  readonly reason: string;
}

interface Binding {
  /** Name that the module exports; `*` for the whole namespace. */
  readonly exported: string;
  readonly local: string;
  readonly offset: number;
}

interface Declaration {
  readonly end: number;
  readonly specifier: string;
  readonly specifierOffset: number;
  readonly bindings: readonly Binding[];
  /** Whether nothing of it exists at run time. */
  readonly erased: boolean;
}

const NAME = /[\p{ID_Start}$_][\p{ID_Continue}$]*/uy;
const STRING = /"[^"\\\n\r]*"|'[^'\\\n\r]*'/y;
const LINE_END = /[\n\r\u2028\u2029]/u;
const NOT_LINE_END = /[^\n\r\u2028\u2029]/g;
const RESERVED = new Set(
  (
    "await break case catch class const continue debugger default delete do else enum export extends false finally " +
    "for function if import in instanceof new null return super switch this throw true try typeof var void while " +
    "with yield let static implements interface package private protected public arguments eval"
  ).split(" "),
);
const WORKING_FORM = 'import { readFileSync } from "node:fs"';

class Fault extends Error {
  readonly offset: number;

  constructor(offset: number, reason: string) {
    super(reason);
    this.offset = offset;
  }
}

/** Reads one import declaration; throws a Fault where it stops making sense. */
class Reader {
  readonly #program: string;
  #at: number;

  constructor(program: string, at: number) {
    this.#program = program;
    this.#at = at;
  }

  read(): Declaration {
    this.#expect("import");
    const direct = this.#string();
    if (direct !== undefined) return this.#finish(direct, [], false);
    const erased = this.#typeOnly();
    const bindings = this.#clause();
    if (bindings.length === 1 && this.#take("=")) return this.#require(bindings, erased);
    this.#expect("from");
    const specifier = this.#string();
    if (specifier === undefined) throw this.#fault();
    const types = bindings.filter((binding) => binding.local === "");
    const values = bindings.filter((binding) => binding.local !== "");
    const onlyTypes = types.length > 0 && values.length === 0;
    return this.#finish(specifier, values, erased || onlyTypes);
  }

  #skip(): void {
    this.#at = skipTrivia(this.#program, this.#at);
  }

  #match(pattern: RegExp): string | undefined {
    this.#skip();
    pattern.lastIndex = this.#at;
    const found = pattern.exec(this.#program)?.[0];
    if (found !== undefined) this.#at += found.length;
    return found;
  }

  #name(): string | undefined {
    return this.#match(NAME);
  }

  #string(): { text: string; offset: number } | undefined {
    const found = this.#match(STRING);
    if (found === undefined) return undefined;
    return { text: found.slice(1, -1), offset: this.#at - found.length };
  }

  #take(punctuator: string): boolean {
    this.#skip();
    if (!this.#program.startsWith(punctuator, this.#at)) return false;
    this.#at += punctuator.length;
    return true;
  }

  #expect(word: string): void {
    if (this.#name() !== word) throw this.#fault();
  }

  #fault(): Fault {
    return new Fault(
      this.#at,
      `Cannot read this import declaration: expected for example ${WORKING_FORM}`,
    );
  }

  /** Takes the word `type` of `import type …`, unless it is the name of a default import. */
  #typeOnly(): boolean {
    const start = this.#at;
    if (this.#name() === "type") {
      const after = this.#at;
      const next = this.#name();
      const isDefault = next === "from" && this.#string() !== undefined;
      this.#at = after;
      this.#skip();
      const opens =
        next !== undefined || this.#program[this.#at] === "{" || this.#program[this.#at] === "*";
      if (opens && !isDefault) return true;
    }
    this.#at = start;
    return false;
  }

  #clause(): Binding[] {
    const bindings: Binding[] = [];
    const start = skipTrivia(this.#program, this.#at);
    const name = this.#name();
    if (name !== undefined) {
      bindings.push(this.#binding("default", name, start));
      if (!this.#take(",")) return bindings;
    }
    if (this.#take("*")) {
      this.#expect("as");
      const offset = skipTrivia(this.#program, this.#at);
      bindings.push(this.#binding("*", this.#name(), offset));
      return bindings;
    }
    if (!this.#take("{")) throw this.#fault();
    while (!this.#take("}")) {
      bindings.push(this.#specifier());
      if (this.#take("}")) break;
      if (!this.#take(",")) throw this.#fault();
    }
    return bindings;
  }

  /** Reads `a`, `a as b`, `"a" as b`, or one with `type` before it, whose local name is left empty. */
  #specifier(): Binding {
    const offset = skipTrivia(this.#program, this.#at);
    const quoted = this.#string();
    const words: string[] = quoted === undefined ? [] : [quoted.text];
    for (let word = this.#name(); word !== undefined; word = this.#name()) words.push(word);
    const [first, second, third] = words;
    const typed = quoted === undefined && first === "type";
    if (typed && (words.length === 2 || words.length === 4))
      return { exported: "", local: "", offset };
    if (words.length === 1 && quoted === undefined)
      return this.#binding(first as string, first, offset);
    if (words.length !== 3 || second !== "as") throw this.#fault();
    return this.#binding(first as string, third, offset);
  }

  #binding(exported: string, local: string | undefined, offset: number): Binding {
    if (local === undefined) throw this.#fault();
    if (RESERVED.has(local)) {
      throw new Fault(
        offset,
        `Cannot import as ${JSON.stringify(local)}: a reserved word, expected a name`,
      );
    }
    return { exported, local, offset };
  }

  #require(bindings: readonly Binding[], erased: boolean): Declaration {
    this.#expect("require");
    const specifier = this.#take("(") ? this.#string() : undefined;
    if (specifier === undefined || !this.#take(")")) throw this.#fault();
    return this.#finish(specifier, bindings, erased);
  }

  #finish(
    specifier: { text: string; offset: number },
    bindings: readonly Binding[],
    erased: boolean,
  ): Declaration {
    const end = this.#at;
    const mark = { specifier: specifier.text, specifierOffset: specifier.offset, bindings, erased };
    if (this.#take(";")) return { end: this.#at, ...mark };
    const next = this.#at;
    const sameLine = !LINE_END.test(this.#program.slice(end, next));
    if (this.#name() === "with" && this.#take("{")) {
      throw new Fault(
        next,
        "Cannot import with attributes: expected the import of a Node built-in without them",
      );
    }
    if (sameLine && next < this.#program.length) {
      this.#at = next;
      throw this.#fault();
    }
    return { end, ...mark };
  }
}

const exportsOf = new Map<string, ReadonlySet<string> | undefined>();

/** Names that a built-in exports; undefined when it cannot be loaded here to look. */
function exportNames(specifier: string): ReadonlySet<string> | undefined {
  const id = specifier.startsWith("node:") ? specifier : `node:${specifier}`;
  // Loading `domain` changes how the main thread's emitters work, for good.
  if (id === "node:domain") return undefined;
  if (!exportsOf.has(id)) exportsOf.set(id, loadNames(id));
  return exportsOf.get(id);
}

function loadNames(id: string): ReadonlySet<string> | undefined {
  try {
    const loaded: unknown = process.getBuiltinModule(id);
    if (loaded === undefined || loaded === null) return undefined;
    return new Set([...Object.keys(loaded), "default", "module.exports", "*"]);
  } catch {
    return undefined;
  }
}

function checkModule({ specifier, specifierOffset, bindings }: Declaration): void {
  const shown = JSON.stringify(specifier);
  if (!isBuiltin(specifier)) {
    throw new Fault(
      specifierOffset,
      `Cannot import ${shown}: programs have no packages and no files of their own, expected a Node built-in, for example ${WORKING_FORM}`,
    );
  }
  const names = exportNames(specifier);
  for (const { exported, offset } of bindings) {
    if (names === undefined || names.has(exported)) continue;
    throw new Fault(
      offset,
      `Cannot import ${JSON.stringify(exported)} from ${shown}: the module has no such export (a type needs \`import type\`)`,
    );
  }
}

const KEY = /^[\p{ID_Start}$_][\p{ID_Continue}$]*$/u;

function dynamicForm({ specifier, bindings }: Declaration): string {
  const source = `await import(${JSON.stringify(specifier)})`;
  const whole = bindings.find((binding) => binding.exported === "*");
  const named = bindings
    .filter((binding) => binding !== whole)
    .map(({ exported, local }) => {
      if (exported === local) return local;
      return `${KEY.test(exported) ? exported : JSON.stringify(exported)}: ${local}`;
    });
  const pattern = `{${named.join(", ")}}`;
  if (whole === undefined)
    return named.length === 0 ? `${source};` : `const ${pattern} = ${source};`;
  const rest = named.length === 0 ? "" : `, ${pattern} = ${whole.local}`;
  return `const ${whole.local} = ${source}${rest};`;
}

/** Takes import declarations out of a program, one at a time, and remembers what they declare. */
export class ImportRewriter {
  readonly #program: string;
  // Replacements keep every offset, so each declaration is read from the program as it was.
  readonly #taken: { readonly start: number; readonly end: number }[] = [];
  readonly #locals = new Set<string>();
  #prologue = "";

  /** @param program - The program as written. */
  constructor(program: string) {
    this.#program = program;
  }

  /** The program with the declarations taken so far blanked, and their dynamic form. */
  get result(): Rewritten {
    let code = "";
    let from = 0;
    for (const { start, end } of [...this.#taken].sort((one, other) => one.start - other.start)) {
      const blanked = this.#program.slice(start + 1, end).replace(NOT_LINE_END, " ");
      code += `${this.#program.slice(from, start)};${blanked}`;
      from = end;
    }
    return { code: code + this.#program.slice(from), prologue: this.#prologue };
  }

  /**
   * Take out the declarations before the program's first other token.
   *
   * @returns The first fault, or undefined.
   */
  takeLeading(): ImportFault | undefined {
    for (let at = 0; ; ) {
      at = skipTrivia(this.#program, at);
      if (this.#program[at] === ";") at++;
      else if (startsDeclaration(this.#program, at)) {
        const taken = this.takeAt(at);
        if (taken !== undefined) return taken;
        at = this.#taken.at(-1)?.end ?? this.#program.length;
      } else return undefined;
    }
  }

  /**
   * Take out the declaration at an offset.
   *
   * @param offset - Where its `import` keyword is.
   * @returns Why it cannot be taken, or undefined when it was.
   */
  takeAt(offset: number): ImportFault | undefined {
    try {
      const declaration = new Reader(this.#program, offset).read();
      if (!declaration.erased) this.#declare(declaration);
      this.#taken.push({ start: offset, end: declaration.end });
      return undefined;
    } catch (error) {
      if (error instanceof Fault) return { offset: error.offset, reason: error.message };
      throw error;
    }
  }

  /**
   * Take out an empty `export {}`, which only marks a file as a module.
   *
   * @param offset - Where its `export` keyword is.
   * @returns Whether there was one.
   */
  takeEmptyExport(offset: number): boolean {
    EMPTY_EXPORT.lastIndex = offset;
    const found = EMPTY_EXPORT.exec(this.#program)?.[0];
    if (found === undefined) return false;
    this.#taken.push({ start: offset, end: offset + found.length });
    return true;
  }

  #declare(declaration: Declaration): void {
    checkModule(declaration);
    for (const { local, offset } of declaration.bindings) {
      if (this.#locals.has(local)) {
        throw new Fault(
          offset,
          `Cannot import ${JSON.stringify(local)} twice: expected one import of the name`,
        );
      }
      this.#locals.add(local);
    }
    this.#prologue += dynamicForm(declaration);
  }
}

const EMPTY_EXPORT = /export\s*\{\s*\}(?!\s*from\s*["'])/y;
const KEYWORD = /import(?![\p{ID_Continue}$])/uy;

/** Tells `import x …`, `import {`, `import *`, `import "x"` and an unfinished `import` from `import(…)` and `import.meta`. */
function startsDeclaration(program: string, at: number): boolean {
  KEYWORD.lastIndex = at;
  if (!KEYWORD.test(program)) return false;
  const next = program[skipTrivia(program, at + "import".length)];
  return next !== "(" && next !== ".";
}
