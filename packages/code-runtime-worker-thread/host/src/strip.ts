/**
 * From a TypeScript program to the JavaScript of a function body, in the main thread.
 *
 * Types become blanks of the same length, so every line and column stays as written. Syntax that has a
 * run-time meaning of its own (`enum`, `namespace`, parameter properties, `<T>x`) goes through the
 * transform, and a source map tells where its output came from. Programs are hostile: the stripper is a
 * WebAssembly module that deep nesting can break for good, and then this process must be retired.
 */
import { stripTypeScriptTypes } from "node:module";
import { ImportRewriter } from "./imports.ts";
import { type SourceMapObject, shiftMap } from "./mapping.ts";
import { type Scan, scan } from "./scan.ts";
import { syntaxError, widthOf } from "./source.ts";

/** What a worker needs to compile a program. */
export interface Prepared {
  /** JavaScript, to be the body of an async function. */
  readonly code: string;
  /** Statements without a line end, to stand before `code` on the wrapper's own line. */
  readonly prologue: string;
  /** From `code` to the program as written; null when every position is the same. */
  readonly map: SourceMapObject | null;
}

/** Why a program cannot run. */
export interface Refused {
  readonly message: string;
  /** Whether this process can prepare no more programs. */
  readonly retire: boolean;
}

const HEAD = "async function program() {\n";
const TAIL = "\n}";
const OUTSIDE_MODULE = "'import', and 'export' cannot be used outside of module code";
// Each late import costs one more parse of the whole program.
const MAX_LATE_IMPORTS = 100;
const TAB_COLUMNS = 4;
const NEXT_TOKEN = /\s+/y;
const JOINS = new Set("([+-`");
const AsyncFunction = (async () => {}).constructor as FunctionConstructor;
// V8 takes an assignment to a call for the sake of old pages, and throws when it gets there.
const CALL_ASSIGNED = "Invalid assignment target";
const STRAY_BLOCK = "Cannot close a block that the program did not open";
const UNTERMINATED = "Unterminated string constant";

/** A syntax error as the stripper told it. */
interface Fault {
  readonly kind: "syntax" | "unsupported";
  readonly reason: string;
  /** Offset in the program; undefined when the stripper gave a line without a column. */
  readonly offset: number | undefined;
  /** Start of the line it named; the program's length when that is behind the program. */
  readonly lineOffset: number;
}

/** The stripper failed in a way that is no answer about the program. */
class StripperBroken extends Error {}

/**
 * Prepare a program for the worker.
 *
 * @param program - The program as written; lone surrogates survive.
 * @returns The JavaScript, or the message that the program's author reads.
 */
export function prepare(program: string): Prepared | Refused {
  try {
    return new Preparation(program).run();
  } catch {
    // Whatever failed, it was no plain syntax error, and the stripper may answer every program alike now.
    return {
      message:
        "SyntaxError: Cannot strip the types of this program: the type stripper failed on it, expected fewer levels of " +
        "nested or chained expressions (keep data in strings or files, and split long expressions)",
      retire: true,
    };
  }
}

/** Run the stripper once, so that the first program does not wait for its WebAssembly to load. */
export function warmUp(): void {
  strip(`${HEAD}const warm: number = 1;${TAIL}`, "strip");
}

function strip(source: string, mode: "strip" | "transform"): string {
  return mode === "strip"
    ? stripTypeScriptTypes(source, { mode })
    : stripTypeScriptTypes(source, { mode, sourceMap: true });
}

class Preparation {
  readonly #program: string;
  readonly #encoded: Surrogates;
  readonly #rewriter: ImportRewriter;
  #scan: Scan | undefined;

  constructor(program: string) {
    this.#program = program;
    this.#encoded = new Surrogates(program);
    // A lone CR is a line end to JavaScript, but the stripper shows it inside a line. Equal in length and meaning.
    this.#rewriter = new ImportRewriter(this.#encoded.text.replace(/\r(?!\n)/g, "\n"));
  }

  run(): Prepared | Refused {
    if (this.#program.startsWith("#!")) {
      return this.#refuse(0, "Cannot run a hashbang line: expected a program without it");
    }
    const leading = this.#rewriter.takeLeading();
    if (leading !== undefined) return this.#refuse(leading.offset, leading.reason);
    for (let late = 0; late <= MAX_LATE_IMPORTS; late++) {
      const { code } = this.#rewriter.result;
      const outcome = this.#attempt(code);
      if (!("kind" in outcome)) return this.#finish(outcome);
      if (outcome.reason !== OUTSIDE_MODULE || outcome.offset === undefined) {
        // The stripper keeps rules of TypeScript that are none of JavaScript, such as no pattern in `for…in`.
        const plain = outcome.reason !== CALL_ASSIGNED && compiles(code);
        return plain ? this.#finish({ code, map: null }) : this.#explain(outcome);
      }
      const refused = this.#takeDeclaration(code, outcome.offset);
      if (refused !== undefined) return refused;
    }
    return this.#refuse(
      0,
      `Cannot take more than ${MAX_LATE_IMPORTS} imports that follow other statements: expected them at the top`,
    );
  }

  /** Strips, and transforms where stripping cannot do. */
  #attempt(code: string): { code: string; map: SourceMapObject | null } | Fault {
    const stripped = this.#call(code, "strip");
    if (typeof stripped === "string") {
      const body = stripped.slice(HEAD.length, -TAIL.length);
      return { code: keepSeparators(code, body), map: null };
    }
    if (stripped.kind !== "unsupported") return stripped;
    const transformed = this.#call(code, "transform");
    if (typeof transformed !== "string") return transformed;
    return shiftMap(transformed, HEAD) ?? escapeFault(code);
  }

  #call(code: string, mode: "strip" | "transform"): string | Fault {
    let output: string;
    try {
      output = strip(HEAD + code + TAIL, mode);
    } catch (error) {
      return this.#faultOf(error, code);
    }
    const length = HEAD.length + code.length + TAIL.length;
    const whole = output.startsWith(HEAD) && output.length === length && output.endsWith(TAIL);
    if (mode === "strip" && !whole) throw new StripperBroken("Positions moved");
    return output;
  }

  /** Reads the stripper's error: its stack begins with the line, the source around it and a caret. */
  #faultOf(error: unknown, code: string): Fault {
    const { code: errorCode, message, stack } = error as NodeJS.ErrnoException;
    const unsupported = errorCode === "ERR_UNSUPPORTED_TYPESCRIPT_SYNTAX";
    if (!unsupported && errorCode !== "ERR_INVALID_TYPESCRIPT_SYNTAX") {
      throw new StripperBroken(message);
    }
    const [first = "", , , caret = ""] = (stack ?? "").split("\n", 4);
    const lineOffset = offsetOfLine(code, Number(first.slice(1)) - 1);
    const column = /^ *\^+$/.test(caret) ? caret.indexOf("^") : undefined;
    const offset =
      column === undefined ? undefined : lineOffset + unitsOf(code, lineOffset, column);
    return {
      kind: unsupported ? "unsupported" : "syntax",
      reason: String(message),
      offset,
      lineOffset,
    };
  }

  /** Takes an import that follows other statements, which the parser has just pointed at. */
  #takeDeclaration(code: string, offset: number): Refused | undefined {
    if (this.#rewriter.takeEmptyExport(offset)) return undefined;
    if (!code.startsWith("import", offset)) {
      return this.#refuse(
        offset,
        "Cannot export from a program: expected `return` with the value instead",
      );
    }
    this.#scan ??= scan(code);
    if (!this.#scan.sound || !this.#scan.imports.has(offset)) {
      return this.#refuse(
        offset,
        "Cannot import inside a block: expected import declarations at the top of the program",
      );
    }
    const fault = this.#rewriter.takeAt(offset);
    return fault && this.#refuse(fault.offset, fault.reason);
  }

  /** Turns a syntax error into a message, with a better place where the scan knows one. */
  #explain(fault: Fault): Refused {
    const { stray, unclosed } = scan(this.#rewriter.result.code);
    const beyond = fault.offset === undefined || fault.lineOffset >= this.#program.length;
    const string = unclosed?.opener === '"' || unclosed?.opener === "'";
    // The parser reads on behind the line of such a string and tells only what it stumbles over there.
    if (string && fault.lineOffset > unclosed.offset && !beyond) {
      return this.#refuse(unclosed.offset, UNTERMINATED);
    }
    if (beyond && stray !== undefined) return this.#refuse(stray, STRAY_BLOCK);
    if (beyond && unclosed !== undefined) {
      return this.#refuse(
        unclosed.offset,
        `${fault.reason}: ${name(unclosed.opener)} is never closed`,
      );
    }
    const end = this.#program.trimEnd().length;
    return this.#refuse(Math.min(fault.offset ?? fault.lineOffset, end), fault.reason);
  }

  #finish(outcome: { code: string; map: SourceMapObject | null }): Prepared | Refused {
    const { code, prologue } = this.#rewriter.result;
    const decorator = outcome.code.includes("@") ? scan(code).decorator : undefined;
    if (decorator !== undefined && !compiles(outcome.code)) {
      return this.#refuse(
        decorator,
        "Cannot run a decorator: Node has none, expected a plain call of the function",
      );
    }
    return { code: this.#encoded.restore(outcome.code), prologue, map: outcome.map };
  }

  #refuse(offset: number, reason: string): Refused {
    return {
      message: syntaxError(this.#program, offset, this.#encoded.restore(reason)),
      retire: false,
    };
  }
}

/** The fault of a program that closes the shell and opens another function, found by the transform only. */
function escapeFault(code: string): Fault {
  const offset = scan(code).stray ?? 0;
  return {
    kind: "syntax",
    reason: STRAY_BLOCK,
    offset,
    lineOffset: offset,
  };
}

/** Names an opener as a reader would. */
function name(opener: string): string {
  if (opener === "/*") return "the comment";
  if (opener === "`") return "the template";
  return opener === '"' || opener === "'" ? "the string" : `the '${opener}'`;
}

/** Asks V8 whether a text parses as one body, as a worker will; nothing of it runs. */
function compiles(code: string): boolean {
  try {
    return new AsyncFunction(`"use strict";\n${code}`) !== undefined;
  } catch {
    return false;
  }
}

/** Finds where a line starts, lines counted by LF from 1. */
function offsetOfLine(code: string, line: number): number {
  let offset = 0;
  for (let current = 1; current < line; current++) {
    const end = code.indexOf("\n", offset);
    if (end < 0) return code.length;
    offset = end + 1;
  }
  return offset;
}

/** Counts the UTF-16 units that fill the columns before the stripper's caret. */
function unitsOf(code: string, start: number, column: number): number {
  let index = start;
  for (let columns = 0; columns < column && index < code.length; ) {
    const codePoint = code.codePointAt(index) as number;
    columns += codePoint === 9 ? TAB_COLUMNS - (columns % TAB_COLUMNS) : widthOf(codePoint);
    index += codePoint > 0xffff ? 2 : 1;
  }
  return index - start;
}

/**
 * Puts back a `;` that the stripper blanked with a type although it separated two statements:
 * `let a = 1` and `type A = number` on lines before `;(f)()` would become a call of 1.
 */
function keepSeparators(code: string, body: string): string {
  let kept = "";
  let from = 0;
  for (let at = code.indexOf(";"); at >= 0; at = code.indexOf(";", at + 1)) {
    if (body[at] === ";") continue;
    NEXT_TOKEN.lastIndex = at + 1;
    const next = NEXT_TOKEN.test(code) ? NEXT_TOKEN.lastIndex : at + 1;
    if (!JOINS.has(code[next] ?? "") || body[next] !== code[next]) continue;
    kept += `${body.slice(from, at)};`;
    from = at + 1;
  }
  return kept + body.slice(from);
}

/**
 * Lone surrogates, kept from the stripper, which replaces them by U+FFFD on its way through UTF-8.
 *
 * Each one travels as a private-use character that the program does not contain, equal in length.
 */
class Surrogates {
  readonly text: string;
  readonly #back = new Map<string, string>();

  constructor(program: string) {
    this.text = program.isWellFormed() ? program : this.#hide(program);
  }

  restore(text: string): string {
    if (this.#back.size === 0) return text;
    return text.replace(/[\ue000-\uf8ff]/g, (unit) => this.#back.get(unit) ?? unit);
  }

  #hide(program: string): string {
    const stand = new Map<string, string>();
    const used = new Set(program.match(/[\ue000-\uf8ff]/g) ?? []);
    let next = 0xe000;
    return program.replace(/\p{Surrogate}/gu, (unit) => {
      const known = stand.get(unit);
      if (known !== undefined) return known;
      while (used.has(String.fromCharCode(next))) next++;
      // 6,400 characters stand in for at most 2,048 surrogates; a program that uses them all loses some.
      const chosen = next > 0xf8ff ? "\ufffd" : String.fromCharCode(next++);
      stand.set(unit, chosen);
      if (chosen !== "\ufffd") this.#back.set(chosen, unit);
      return chosen;
    });
  }
}
