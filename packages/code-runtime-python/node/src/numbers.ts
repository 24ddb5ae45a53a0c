/**
 * Finds the numbers of a JSON text that a double cannot hold, before `JSON.parse` rounds them.
 *
 * Works on bytes, outside of strings, in one pass. What is no JSON number is left for the parser to
 * refuse.
 */

const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const SAFE_DIGITS = 15;
/** Digits of 2^1024 and a sign. */
const MAX_DIGITS = 310;
const INTEGER = /^-?(?:0|[1-9][0-9]*)$/;
const NUMBER = /^-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?$/;

/** What {@link checkNumbers} found. */
export type Checked =
  | { readonly kind: "exact" }
  /** An integer that no double holds. */
  | { readonly kind: "lossy" }
  /** Another number that cannot be held; `text` has 0 in the place of each. */
  | { readonly kind: "inexact"; readonly text: Buffer };

/**
 * Look at each number of a JSON text.
 *
 * @param text - UTF-8, any bytes.
 * @returns Whether all can be held exactly. Negative zero, overflow, underflow to zero and a rounded
 * integer with fraction or exponent are `inexact`; a rounded integer in digits only is `lossy`.
 */
export function checkNumbers(text: Buffer): Checked {
  const faults: [number, number][] = [];
  let at = 0;
  while (at < text.length) {
    const byte = text[at] as number;
    if (byte === QUOTE) {
      at = skipString(text, at + 1);
    } else if (byte === 0x2d || isDigit(byte)) {
      const end = numberEnd(text, at + 1);
      if (end - at > SAFE_DIGITS || !isPlain(text, at, end)) {
        const fault = judge(text.toString("latin1", at, end));
        if (fault === "lossy") return { kind: "lossy" };
        if (fault === "inexact") faults.push([at, end]);
      }
      at = end;
    } else {
      at++;
    }
  }
  return faults.length === 0
    ? { kind: "exact" }
    : { kind: "inexact", text: withZeros(text, faults) };
}

const isDigit = (byte: number): boolean => byte >= 0x30 && byte <= 0x39;

/** Finds the end of a string from its first byte; each quote looks only at the backslashes before it. */
function skipString(text: Buffer, start: number): number {
  let from = start;
  for (;;) {
    const quote = text.indexOf(QUOTE, from);
    if (quote < 0) return text.length;
    let back = quote - 1;
    while (back >= from && text[back] === BACKSLASH) back--;
    from = quote + 1;
    if ((quote - back) % 2 === 1) return from;
  }
}

function numberEnd(text: Buffer, start: number): number {
  let end = start;
  while (end < text.length) {
    const byte = text[end] as number;
    const mark = byte === 0x2e || byte === 0x65 || byte === 0x45 || byte === 0x2b || byte === 0x2d;
    if (!mark && !isDigit(byte)) break;
    end++;
  }
  return end;
}

/** Tells whether a token is digits only after its sign, and not a negative zero. */
function isPlain(text: Buffer, start: number, end: number): boolean {
  const signed = text[start] === 0x2d;
  for (let at = signed ? start + 1 : start; at < end; at++) {
    if (!isDigit(text[at] as number)) return false;
  }
  return !(signed && end - start === 2 && text[start + 1] === 0x30);
}

function judge(token: string): "lossy" | "inexact" | undefined {
  if (!NUMBER.test(token)) return undefined;
  const value = Number(token);
  if (INTEGER.test(token)) {
    if (token === "-0") return "inexact";
    if (token.length > MAX_DIGITS || !Number.isFinite(value)) return "lossy";
    return BigInt(token) === BigInt(value) ? undefined : "lossy";
  }
  if (!Number.isFinite(value)) return "inexact";
  if (value % 1 !== 0) return undefined;
  const [digits, power] = scientific(token);
  if (value === 0) return digits !== "" || token.startsWith("-") ? "inexact" : undefined;
  if (power < 0) return undefined;
  // Neither the shortest spelling nor the exact digits: an integer that was rounded.
  const spellings = [scientific(`${value}`), scientific(`${BigInt(value)}`)];
  const known = spellings.some((spelled) => spelled[0] === digits && spelled[1] === power);
  return known ? undefined : "inexact";
}

/** Splits a number that is not infinite into its digits and their power of ten. */
function scientific(token: string): readonly [string, number] {
  const unsigned = token.startsWith("-") ? token.slice(1) : token;
  const [mantissa = "", power = "0"] = unsigned.toLowerCase().split("e");
  const [whole = "", fraction = ""] = mantissa.split(".");
  const digits = trimZeros(whole + fraction);
  const end = trimEnd(digits);
  return end === 0
    ? ["", 0]
    : [digits.slice(0, end), Number(power) - fraction.length + digits.length - end];
}

/** Drops leading zeros; a pattern would be as good, a loop cannot backtrack. */
function trimZeros(digits: string): string {
  let start = 0;
  while (digits[start] === "0") start++;
  return digits.slice(start);
}

function trimEnd(digits: string): number {
  let end = digits.length;
  while (end > 0 && digits[end - 1] === "0") end--;
  return end;
}

function withZeros(text: Buffer, faults: readonly [number, number][]): Buffer {
  const pieces: Buffer[] = [];
  const zero = Buffer.from("0");
  let from = 0;
  for (const [start, end] of faults) {
    pieces.push(text.subarray(from, start), zero);
    from = end;
  }
  pieces.push(text.subarray(from));
  return Buffer.concat(pieces);
}
