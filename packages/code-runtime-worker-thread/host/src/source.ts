/**
 * Places in a program, and the two lines that show one: the source line and a caret below it.
 *
 * Lines end where ECMAScript ends them (LF, CR LF, CR, U+2028, U+2029), as V8 counts them. Lines and
 * columns are 1-based; a column counts UTF-16 units. The worker calls these functions after the program
 * ran, so they use only built-ins captured at load and no regular expression.
 */

/** A place in a program: 1-based line and column, column in UTF-16 units. */
export interface Position {
  readonly line: number;
  readonly column: number;
}

/** Longest part of a source line that a frame shows, in UTF-16 units. */
export const MAX_FRAME_CHARS = 160;

const uncurry = Function.prototype.bind.bind(Function.prototype.call) as unknown as <R>(
  method: (...args: never[]) => R,
) => (self: unknown, ...args: unknown[]) => R;
const codePointAt = uncurry(String.prototype.codePointAt) as (
  text: string,
  index: number,
) => number | undefined;
const slice = uncurry(String.prototype.slice) as (
  text: string,
  start: number,
  end?: number,
) => string;
const repeat = uncurry(String.prototype.repeat) as (text: string, count: number) => string;
const { max, min } = Math;
const text = String;

// Pairs of first and last code point. Two columns: East Asian wide and emoji shown as pictures.
const WIDE = Object.freeze([
  0x1100, 0x115f, 0x231a, 0x231b, 0x2329, 0x232a, 0x23e9, 0x23ec, 0x23f0, 0x23f0, 0x23f3, 0x23f3,
  0x25fd, 0x25fe, 0x2614, 0x2615, 0x2630, 0x2637, 0x2648, 0x2653, 0x267f, 0x267f, 0x268a, 0x268f,
  0x2693, 0x2693, 0x26a1, 0x26a1, 0x26aa, 0x26ab, 0x26bd, 0x26be, 0x26c4, 0x26c5, 0x26ce, 0x26ce,
  0x26d4, 0x26d4, 0x26ea, 0x26ea, 0x26f2, 0x26f3, 0x26f5, 0x26f5, 0x26fa, 0x26fa, 0x26fd, 0x26fd,
  0x2705, 0x2705, 0x270a, 0x270b, 0x2728, 0x2728, 0x274c, 0x274c, 0x274e, 0x274e, 0x2753, 0x2755,
  0x2757, 0x2757, 0x2795, 0x2797, 0x27b0, 0x27b0, 0x27bf, 0x27bf, 0x2b1b, 0x2b1c, 0x2b50, 0x2b50,
  0x2b55, 0x2b55, 0x2e80, 0x3029, 0x3030, 0x303e, 0x3041, 0x3096, 0x309b, 0x3163, 0x3165, 0x4dbf,
  0x4e00, 0xa4c6, 0xa960, 0xa97c, 0xac00, 0xd7a3, 0xf900, 0xfaff, 0xfe10, 0xfe19, 0xfe30, 0xfe6b,
  0xff01, 0xff60, 0xffe0, 0xffe6, 0x16fe0, 0x1b2fb, 0x1d300, 0x1d376, 0x1f004, 0x1f004, 0x1f0cf,
  0x1f0cf, 0x1f18e, 0x1f18e, 0x1f191, 0x1f19a, 0x1f200, 0x1f320, 0x1f32d, 0x1f335, 0x1f337, 0x1f37c,
  0x1f37e, 0x1f393, 0x1f3a0, 0x1f3ca, 0x1f3cf, 0x1f3d3, 0x1f3e0, 0x1f3f0, 0x1f3f4, 0x1f3f4, 0x1f3f8,
  0x1f43e, 0x1f440, 0x1f440, 0x1f442, 0x1f4fc, 0x1f4ff, 0x1f53d, 0x1f54b, 0x1f54e, 0x1f550, 0x1f567,
  0x1f57a, 0x1f57a, 0x1f595, 0x1f596, 0x1f5a4, 0x1f5a4, 0x1f5fb, 0x1f64f, 0x1f680, 0x1f6c5, 0x1f6cc,
  0x1f6cc, 0x1f6d0, 0x1f6d2, 0x1f6d5, 0x1f6d8, 0x1f6dc, 0x1f6df, 0x1f6eb, 0x1f6ec, 0x1f6f4, 0x1f6fc,
  0x1f7e0, 0x1f7eb, 0x1f7f0, 0x1f7f0, 0x1f90c, 0x1f93a, 0x1f93c, 0x1f945, 0x1f947, 0x1f9ff, 0x1fa70,
  0x1faf8, 0x20000, 0x3fffd,
]);
// No column: controls, format characters, and the combining marks met most.
const ZERO = Object.freeze([
  0x0, 0x1f, 0x7f, 0x9f, 0xad, 0xad, 0x300, 0x36f, 0x483, 0x489, 0x591, 0x5bd, 0x610, 0x61a, 0x64b,
  0x65f, 0x900, 0x902, 0x93a, 0x93a, 0x93c, 0x93c, 0x941, 0x948, 0x94d, 0x94d, 0xe31, 0xe31, 0xe34,
  0xe3a, 0xe47, 0xe4e, 0x1160, 0x11ff, 0x200b, 0x200f, 0x202a, 0x202e, 0x2060, 0x206f, 0x20d0,
  0x20f0, 0x302a, 0x302f, 0x3099, 0x309a, 0xfe00, 0xfe0f, 0xfe20, 0xfe2f, 0xfeff, 0xfeff, 0xe0100,
  0xe01ef,
]);

function within(codePoint: number, pairs: readonly number[]): boolean {
  for (let index = 0; index < pairs.length; index += 2) {
    if (codePoint < (pairs[index] as number)) return false;
    if (codePoint <= (pairs[index + 1] as number)) return true;
  }
  return false;
}

/**
 * Count the terminal columns of one code point.
 *
 * @param codePoint - Any code point but a tab.
 * @returns 0, 1 or 2.
 */
export function widthOf(codePoint: number): number {
  if (codePoint >= 0x20 && codePoint < 0x7f) return 1;
  if (within(codePoint, ZERO)) return 0;
  return within(codePoint, WIDE) ? 2 : 1;
}

/** Counts the units of the line terminator at an index: 0 when there is none. */
function terminator(program: string, index: number): number {
  const unit = program[index];
  if (unit === "\r") return index + 1 < program.length && program[index + 1] === "\n" ? 2 : 1;
  return unit === "\n" || unit === "\u2028" || unit === "\u2029" ? 1 : 0;
}

/**
 * Find the line and column of an offset.
 *
 * @param program - The program as written.
 * @param offset - UTF-16 units from its start; clamped to its length.
 * @returns The position.
 */
export function positionAt(program: string, offset: number): Position {
  const end = min(max(offset, 0), program.length);
  let line = 1;
  let start = 0;
  for (let index = 0; index < end; ) {
    const size = terminator(program, index);
    index += size === 0 ? 1 : size;
    if (size > 0 && index <= end) {
      line++;
      start = index;
    }
  }
  return { line, column: end - start + 1 };
}

/** Finds where a line starts and ends; undefined past the last line. */
function lineBounds(program: string, line: number): { start: number; end: number } | undefined {
  let start = 0;
  let current = 1;
  for (let index = 0; index < program.length; ) {
    const size = terminator(program, index);
    if (size > 0) {
      if (current === line) return { start, end: index };
      current++;
      start = index + size;
    }
    index += size === 0 ? 1 : size;
  }
  return current === line ? { start, end: program.length } : undefined;
}

const isHigh = (unit: string): boolean => unit >= "\ud800" && unit <= "\udbff";
const isLow = (unit: string): boolean => unit >= "\udc00" && unit <= "\udfff";

/** Moves a cut that would split a surrogate pair one unit back. */
function wholeCut(source: string, index: number): number {
  if (index <= 0 || index >= source.length) return index;
  return isLow(source[index] as string) && isHigh(source[index - 1] as string) ? index - 1 : index;
}

/** Shows control characters as U+FFFD: a terminal must not obey a program's source. */
function visible(source: string): string {
  let shown = "";
  let from = 0;
  for (let index = 0; index < source.length; index++) {
    const unit = source[index] as string;
    if ((unit >= " " && unit < "\x7f") || unit === "\t" || unit > "\x9f") continue;
    shown += `${slice(source, from, index)}\ufffd`;
    from = index + 1;
  }
  return shown + slice(source, from);
}

/** Blanks as wide as a text: tabs stay tabs, so that what follows aligns. */
function blanks(source: string): string {
  let padding = "";
  for (let index = 0; index < source.length; ) {
    const codePoint = codePointAt(source, index) as number;
    padding += codePoint === 9 ? "\t" : repeat(" ", widthOf(codePoint));
    index += codePoint > 0xffff ? 2 : 1;
  }
  return padding;
}

/**
 * Show a place of a program: its source line and a caret below the column.
 *
 * A line longer than {@link MAX_FRAME_CHARS} is cut around the column, with `…` for what is left out.
 *
 * @param program - The program as written.
 * @param line - 1-based line.
 * @param column - 1-based column; clamped to one past the line's end.
 * @returns Two lines without a final line feed, or an empty string when the program has no such line.
 */
export function sourceFrame(program: string, line: number, column: number): string {
  const bounds = lineBounds(program, line);
  if (bounds === undefined) return "";
  const length = bounds.end - bounds.start;
  const at = min(max(column - 1, 0), length);
  const room = MAX_FRAME_CHARS - 2;
  const whole = length <= MAX_FRAME_CHARS;
  const from = whole ? 0 : min(max(at - room / 2, 0), length - room);
  const to = whole ? length : from + room;
  const source = slice(program, bounds.start, bounds.end);
  const start = wholeCut(source, from);
  const stop = wholeCut(source, to);
  const before = (start > 0 ? "…" : "") + visible(slice(source, start, at));
  const after = visible(slice(source, at, stop)) + (stop < length ? "…" : "");
  const label = text(line);
  return `  ${label} | ${before}${after}\n  ${repeat(" ", label.length)} | ${blanks(before)}^`;
}

/**
 * Build the whole message of a syntax error.
 *
 * @param program - The program as written.
 * @param offset - Where the error is, in UTF-16 units.
 * @param reason - What is wrong, without a final period.
 * @returns Reason, source line, caret and place, in the form of a stack trace.
 */
export function syntaxError(program: string, offset: number, reason: string): string {
  const { line, column } = positionAt(program, offset);
  return `SyntaxError: ${reason}\n${sourceFrame(program, line, column)}\n    at program.ts:${text(line)}:${text(column)}`;
}
