/**
 * A tokenizer just good enough to tell code from text in a TypeScript program.
 *
 * The stripper's parser is the authority on syntax. This scan only answers what the parser does not
 * tell: whether a place is outside every bracket, and which bracket, string, template or comment is
 * never closed. Whether `/` divides or opens a regular expression is a guess by the token before it; a
 * wrong guess ends, nearly always, in brackets that do not match, and then `sound` is false and nobody
 * relies on the rest. Brackets are kept in an array: no depth of nesting makes it recurse.
 */

/** Something that a program opens and never closes. */
export interface Unclosed {
  readonly offset: number;
  readonly opener: string;
}

/** What a scan found. */
export interface Scan {
  /** Offsets of the `import` keywords that begin a declaration outside every bracket. */
  readonly imports: ReadonlySet<number>;
  /** The innermost thing left open at the end of the program. */
  readonly unclosed: Unclosed | undefined;
  /** Offset of the first `@` in code, which begins a decorator. */
  readonly decorator: number | undefined;
  /** Offset of the first closing bracket that nothing opened. */
  readonly stray: number | undefined;
  /** Whether all brackets match and every string, template and comment ends. */
  readonly sound: boolean;
}

interface Bracket extends Unclosed {
  /** Whether a `/` right after the closing bracket divides. */
  readonly operand: boolean;
}

const BLANK = /\s+/uy;
const WORD = /[\p{ID_Start}$_#\\][\p{ID_Continue}$\\]*/uy;
const NUMBER = /\.?[0-9][\p{ID_Continue}.]*/uy;
const LINE_COMMENT = /(?:\/\/|<!--)[^\n\r\u2028\u2029]*/uy;
const DECLARATION = /[\p{ID_Start}$_{*"']/uy;

const FLAGS = /[\p{ID_Continue}$]*/uy;
const LINE_END = /[\n\r\u2028\u2029]/;

const OPERATORS = ["...", "=>", "++", "--", "?.", "!="];
const BEFORE_BLOCK = new Set(["", ";", "{", "}", ")", "=>"]);
const CLOSER = new Map([
  [")", "("],
  ["]", "["],
  ["}", "{"],
]);
// After these words an expression begins, so a `/` opens a regular expression and a `{` an object.
const BEFORE_EXPRESSION = new Set(
  "return typeof case in of delete void throw new instanceof await yield extends as satisfies".split(
    " ",
  ),
);
const BEFORE_STATEMENT = new Set("else do try finally".split(" "));
const CONTROL = new Set("if while for with".split(" "));

function matchAt(pattern: RegExp, program: string, at: number): number {
  pattern.lastIndex = at;
  return pattern.test(program) ? pattern.lastIndex : at;
}

/**
 * Skip white space and comments.
 *
 * @param program - The program.
 * @param at - Where to start.
 * @returns The offset of the next token, or the program's length; an unclosed comment is not skipped.
 */
export function skipTrivia(program: string, at: number): number {
  for (let index = at; ; ) {
    let next = matchAt(BLANK, program, index);
    if (program.startsWith("//", next)) next = matchAt(LINE_COMMENT, program, next);
    if (program.startsWith("/*", next)) {
      const end = program.indexOf("*/", next + 2);
      if (end >= 0) next = end + 2;
    }
    if (next === index) return next;
    index = next;
  }
}

/** Finds the end of a string that opens at an offset; undefined when its line ends first. */
function endOfString(program: string, at: number): number | undefined {
  const quote = program[at];
  for (let index = at + 1; index < program.length; index++) {
    const char = program[index];
    if (char === quote) return index + 1;
    if (char === "\n" || char === "\r") return undefined;
    if (char === "\\") index += program.startsWith("\r\n", index + 1) ? 2 : 1;
  }
  return undefined;
}

/** Finds the end of a regular expression that opens at an offset; undefined when its line ends first. */
function endOfRegex(program: string, at: number): number | undefined {
  let inClass = false;
  for (let index = at + 1; index < program.length; index++) {
    const char = program[index] as string;
    if (LINE_END.test(char)) return undefined;
    if (char === "\\") index++;
    else if (char === "[") inClass = true;
    else if (char === "]") inClass = false;
    else if (char === "/" && !inClass) return matchAt(FLAGS, program, index + 1);
  }
  return undefined;
}

/** Finds the backtick or `${` that ends a piece of template; undefined when none does. */
function endOfPiece(program: string, at: number): number | undefined {
  for (let index = at; index < program.length; index++) {
    const char = program[index];
    if (char === "`" || (char === "$" && program[index + 1] === "{")) return index;
    if (char === "\\") index++;
  }
  return undefined;
}

class Scanner {
  readonly #program: string;
  readonly #imports = new Set<number>();
  readonly #stack: Bracket[] = [];
  #at = 0;
  #operand = false;
  #word = "";
  #punctuator = "";
  #decorator: number | undefined;
  #unclosed: Unclosed | undefined;
  #stray: number | undefined;
  #sound = true;

  constructor(program: string) {
    this.#program = program;
  }

  run(): Scan {
    for (;;) {
      this.#at = skipTrivia(this.#program, this.#at);
      if (this.#at >= this.#program.length || this.#unclosed !== undefined) break;
      this.#token(this.#at, this.#program[this.#at] as string);
    }
    const unclosed = this.#unclosed ?? this.#stack.at(-1);
    return {
      imports: this.#imports,
      unclosed: unclosed && { offset: unclosed.offset, opener: unclosed.opener },
      decorator: this.#decorator,
      stray: this.#stray,
      sound: this.#sound && unclosed === undefined,
    };
  }

  #token(start: number, char: string): void {
    const regex = char === "/" && !this.#operand ? endOfRegex(this.#program, start) : undefined;
    const word = matchAt(WORD, this.#program, start);
    const number = matchAt(NUMBER, this.#program, start);
    if (this.#program.startsWith("/*", start)) this.#open(start, "/*");
    else if (char === '"' || char === "'") this.#string(start, char);
    else if (char === "`") this.#template(start + 1, start);
    else if (regex !== undefined) this.#value(regex);
    else if (word > start) this.#identifier(start, word);
    else if (number > start) this.#value(number);
    else if (this.#program.startsWith("<!--", start)) {
      this.#at = matchAt(LINE_COMMENT, this.#program, start);
    } else this.#punctuate(start, char);
  }

  #open(offset: number, opener: string): void {
    this.#unclosed = { offset, opener };
  }

  #value(end: number): void {
    this.#at = end;
    this.#operand = true;
    this.#word = "";
    this.#punctuator = "";
  }

  #begin(end: number, punctuator: string): void {
    this.#at = end;
    this.#operand = false;
    this.#word = "";
    this.#punctuator = punctuator;
  }

  #string(start: number, quote: string): void {
    const end = endOfString(this.#program, start);
    if (end === undefined) this.#open(start, quote);
    else this.#value(end);
  }

  /** Reads on in the template that opened at `opener`, after its backtick or a substitution. */
  #template(from: number, opener: number): void {
    const end = endOfPiece(this.#program, from);
    if (end === undefined) this.#open(opener, "`");
    else if (this.#program[end] === "`") this.#value(end + 1);
    else {
      this.#stack.push({ offset: opener, opener: "`", operand: true });
      this.#begin(end + 2, "{");
    }
  }

  #identifier(start: number, end: number): void {
    const word = this.#program.slice(start, end);
    const member = this.#punctuator === ".";
    this.#value(end);
    if (member) return;
    this.#word = word;
    this.#operand = !BEFORE_EXPRESSION.has(word) && !BEFORE_STATEMENT.has(word);
    if (word !== "import" || this.#stack.length > 0) return;
    const next = skipTrivia(this.#program, end);
    if (matchAt(DECLARATION, this.#program, next) > next) this.#imports.add(start);
  }

  #punctuate(start: number, char: string): void {
    const opener = CLOSER.get(char);
    if (opener !== undefined) this.#pop(start, opener);
    else if (char === "(" || char === "[" || char === "{") this.#push(start, char);
    else this.#operator(start, char);
  }

  #operator(start: number, char: string): void {
    if (char === "@") this.#decorator ??= start;
    const found = OPERATORS.find((text) => this.#program.startsWith(text, start)) ?? char;
    const postfix = found === "++" || found === "--" || found === "!";
    if (postfix && this.#operand) this.#value(start + found.length);
    else this.#begin(start + found.length, found === "?." ? "." : found);
  }

  #push(start: number, char: string): void {
    const operand = char === "{" ? this.#opensObject() : !CONTROL.has(this.#word);
    this.#stack.push({ offset: start, opener: char, operand });
    this.#begin(start + 1, char);
  }

  /** Guesses whether a `{` opens an object rather than a block. */
  #opensObject(): boolean {
    if (this.#operand || BEFORE_STATEMENT.has(this.#word)) return false;
    if (BEFORE_EXPRESSION.has(this.#word)) return true;
    const top = this.#stack.at(-1);
    if (this.#punctuator === ":") return top !== undefined && (top.opener !== "{" || top.operand);
    return !BEFORE_BLOCK.has(this.#punctuator);
  }

  #pop(start: number, opener: string): void {
    const top = this.#stack.pop();
    if (top?.opener === "`" && opener === "{") this.#template(start + 1, top.offset);
    else {
      if (top === undefined) this.#stray ??= start;
      if (top?.opener !== opener) this.#sound = false;
      this.#begin(start + 1, this.#program[start] as string);
      this.#operand = top?.operand ?? false;
    }
  }
}

/**
 * Scan a program for top-level imports and for what it leaves open.
 *
 * @param program - The program as written.
 * @returns What was found; trust `imports` only when `sound`.
 */
export function scan(program: string): Scan {
  return new Scanner(program).run();
}
