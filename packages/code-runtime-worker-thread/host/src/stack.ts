/**
 * Stacks and failures as the author of a program should see them.
 *
 * Only frames of the program are shown, named `program.ts`, at the line and column that were written. That
 * holds for what the program reads (`error.stack`, a logged error) by way of a `prepareStackTrace` set
 * before it starts, and for the final message also when the program put its own in that place.
 */

import {
  apply,
  captureStackTrace,
  charCodeAt,
  defineProperty,
  ErrorCtor,
  ErrorPrototype,
  getOwnPropertyDescriptor,
  getPrototypeOf,
  hasOwn,
  indexOf,
  isArray,
  isNativeError,
  lastIndexOf,
  min,
  readSafely,
  slice,
  symbolToString,
  text,
} from "./intrinsics.ts";
import { type Position, sourceFrame } from "./source.ts";
import type { PositionMap } from "./sourcemap.ts";

/** The name under which programs are compiled. */
export const PROGRAM_FILE = "program.ts";

/** Text for a thrown value that has none. */
export const UNRENDERABLE = "Cannot render the thrown value: converting it to text failed";

const FRAME = "    at ";
const PLACE = `${PROGRAM_FILE}:`;
const MAX_LINKS = 10;
const MAX_PARTS = 40;
const MAX_PROTOTYPES = 1_000;

type Site = NodeJS.CallSite;
type Hook = (error: unknown, sites: Site[]) => unknown;

const siteMethods = captureSiteMethods();
const nodeHook = (ErrorCtor as unknown as { prepareStackTrace?: Hook }).prepareStackTrace;

/** Call sites have their own prototype, which a program can reach and change later. */
function captureSiteMethods(): { fileOf(site: Site): unknown; show(site: Site): string } {
  const holder = ErrorCtor as unknown as { prepareStackTrace?: Hook };
  const before = holder.prepareStackTrace;
  holder.prepareStackTrace = (_error, sites) => sites;
  const sites = new ErrorCtor().stack as unknown as Site[];
  if (before === undefined) delete holder.prepareStackTrace;
  else holder.prepareStackTrace = before;
  const methods = getPrototypeOf(sites[0] as Site) as Site;
  const { getFileName, toString: show } = methods;
  return {
    fileOf: (site) => apply(getFileName, site, []),
    show: (site) => apply(show, site, []) as string,
  };
}

let map: PositionMap | undefined;
let lastLine = Number.MAX_SAFE_INTEGER;

/** Reads a decimal number at an index. */
function numberAt(source: string, start: number): { value: number; end: number } | undefined {
  let value = 0;
  let end = start;
  for (; end < source.length; end++) {
    const digit = charCodeAt(source, end) - 48;
    if (digit < 0 || digit > 9) break;
    value = value * 10 + digit;
  }
  return end === start ? undefined : { value, end };
}

/** Finds the `program.ts:line:column` of a frame line. */
function placeIn(line: string): (Position & { start: number; end: number }) | undefined {
  const start = lastIndexOf(line, PLACE, line.length);
  if (start < 0) return undefined;
  const at = numberAt(line, start + PLACE.length);
  if (at === undefined || charCodeAt(line, at.end) !== 58) return undefined;
  const column = numberAt(line, at.end + 1);
  if (column === undefined) return undefined;
  return { line: at.value, column: column.value, start, end: column.end };
}

/** Shows one call site of the program with its position as written; undefined for what is put around it. */
function siteText(site: Site): string | undefined {
  const shown = siteMethods.show(site);
  const place = placeIn(shown);
  if (place === undefined || place.line < 1) return undefined;
  if (map === undefined) return place.line > lastLine ? undefined : shown;
  const written = map.original(place.line, place.column);
  if (written === undefined || written.line > lastLine) return undefined;
  const { line, column } = written;
  return `${slice(shown, 0, place.start)}${PLACE}${line}:${column}${slice(shown, place.end)}`;
}

const prepareStackTrace: Hook = (error, sites) => {
  let stack = header(error);
  for (let index = 0; index < sites.length; index++) {
    const site = sites[index] as Site;
    if (siteMethods.fileOf(site) !== PROGRAM_FILE) continue;
    const shown = siteText(site);
    if (shown !== undefined) stack += `\n${FRAME}${shown}`;
  }
  return stack;
};

/** Takes the first lines of a stack from Node, which puts error codes into them. */
function header(error: unknown): string {
  try {
    return text(nodeHook?.(error, []) ?? error);
  } catch {
    return "Error";
  }
}

/**
 * Show only frames of the program from now on.
 *
 * @param positions - Where generated code came from, when the program was transformed.
 * @param lineCount - Lines of the program; what stands below them is not its own.
 */
export function installStacks(positions?: PositionMap, lineCount?: number): void {
  map = positions;
  lastLine = lineCount ?? lastLine;
  defineProperty(ErrorCtor, "prepareStackTrace", {
    __proto__: null,
    value: prepareStackTrace,
    writable: true,
    enumerable: false,
    configurable: true,
  } as PropertyDescriptor);
}

/** The call stack of one moment, kept cheaply and turned into text only when asked. */
export interface Moment {
  stack?: string;
}

/**
 * Remember where the program is.
 *
 * @param above - The function below which frames are left out.
 * @returns A moment for {@link framesOf}.
 */
export function takeMoment(above: (...args: never[]) => unknown): Moment {
  const moment = { __proto__: null } as unknown as Moment;
  captureStackTrace(moment, above);
  return moment;
}

/**
 * Show the program's frames of a moment.
 *
 * @param moment - From {@link takeMoment}.
 * @returns Lines that each begin with a line feed, or an empty string.
 */
export function framesOf(moment: Moment): string {
  const own = getOwnPropertyDescriptor(ErrorCtor, "prepareStackTrace");
  const mine = own !== undefined && hasOwn(own, "value") && own.value === prepareStackTrace;
  if (!mine) return "";
  const stack = readSafely(moment, "stack");
  if (typeof stack !== "string") return "";
  const at = indexOf(stack, `\n${FRAME}`);
  return at < 0 ? "" : slice(stack, at);
}

/** Calls back with each line of a text, without its line feed. */
function eachLine(source: string, visit: (line: string) => void): void {
  for (let start = 0; start <= source.length; ) {
    const found = indexOf(source, "\n", start);
    const end = found < 0 ? source.length : found;
    visit(slice(source, start, end));
    start = end + 1;
  }
}

const startsWith = (source: string, start: string): boolean =>
  slice(source, 0, start.length) === start;

/** Tells whether a line is a stack frame that is none of the program's. */
function isHostFrame(line: string): boolean {
  let indent = 0;
  while (charCodeAt(line, indent) === 32) indent++;
  if (indent < 4 || slice(line, indent, indent + 3) !== "at ") return false;
  if (placeIn(line) !== undefined) return false;
  return (
    indexOf(line, "node:") >= 0 ||
    indexOf(line, "file://") >= 0 ||
    indexOf(line, "(<anonymous>") >= 0
  );
}

/**
 * Drop frames of the host from the text of an inspected value.
 *
 * @param shown - Any text.
 * @returns The text without such lines.
 */
export function withoutHostFrames(shown: string): string {
  let kept = "";
  let first = true;
  eachLine(shown, (line) => {
    if (isHostFrame(line)) return;
    kept += first ? line : `\n${line}`;
    first = false;
  });
  return kept;
}

/** What {@link renderThrown} needs to know about the run. */
export interface RenderContext {
  /** The program as written. */
  readonly program: string;
  /** The run's directory, which is not shown. */
  readonly directory: string;
  /** Longest text worth building. */
  readonly maxChars: number;
  /** Adds advice to a message; empty when there is none. */
  readonly advise: (message: string) => string;
}

function isError(value: unknown): value is object {
  if (typeof value !== "object" || value === null) return false;
  if (isNativeError(value)) return true;
  let prototype: object | null = value;
  for (let index = 0; prototype !== null && index < MAX_PROTOTYPES; index++) {
    if (prototype === ErrorPrototype) return true;
    prototype = getPrototypeOf(prototype);
  }
  return false;
}

/** Converts a thrown value that is no error to text. */
function plainText(value: unknown): string {
  if (typeof value === "string") return value;
  return typeof value === "symbol" ? symbolToString(value) : text(value);
}

/** Splits a stack into its first lines and its frames; the message may itself look like frames. */
function split(stack: string, message: unknown): { head: string; rest: string } {
  let from = 0;
  if (typeof message === "string" && message !== "") {
    const at = indexOf(stack, message);
    if (at >= 0) from = at + message.length;
  }
  const at = indexOf(stack, `\n${FRAME}`, from);
  return at < 0 ? { head: stack, rest: "" } : { head: slice(stack, 0, at), rest: slice(stack, at) };
}

/** Puts the source line below the header of a stack, and keeps the program's frames only. */
function stackText(stack: string, message: unknown, context: RenderContext): string {
  const { head, rest } = split(stack, message);
  let frames = "";
  let top: Position | undefined;
  eachLine(rest, (line) => {
    const place = placeIn(line);
    const frame = startsWith(line, FRAME);
    if (line === "" || (frame && place === undefined)) return;
    if (frame) top ??= place;
    frames += `\n${line}`;
  });
  const source = top === undefined ? "" : sourceFrame(context.program, top.line, top.column);
  return `${head}${context.advise(head)}${source === "" ? "" : `\n${source}`}${frames}`;
}

function errorText(error: object, context: RenderContext): string {
  const message = readSafely(error, "message");
  // A message that cannot be sent is not worth a stack: its length alone tells.
  if (typeof message === "string" && message.length > context.maxChars) return message;
  const stack = (error as { stack?: unknown }).stack;
  if (typeof stack === "string") return stackText(stack, message, context);
  return plainText(stack ?? message ?? error);
}

function oneText(value: unknown, context: RenderContext): string {
  try {
    return isError(value) ? errorText(value, context) : plainText(value);
  } catch {
    return UNRENDERABLE;
  }
}

/** One error still to be shown; a list, in the order of showing. */
interface Pending {
  readonly value: unknown;
  readonly label: string;
  readonly links: number;
  readonly next: Pending | undefined;
}

/** Lists cause and members of an error before what is already waiting. */
function related(value: object, links: number, rest: Pending | undefined): Pending | undefined {
  let pending = rest;
  const errors = hasOwn(value, "errors") ? readSafely(value, "errors") : undefined;
  if (typeof errors === "object" && isArray(errors)) {
    const count = (errors as unknown[]).length;
    for (let index = min(count, MAX_LINKS) - 1; index >= 0; index--) {
      const label = `Error ${index + 1} of ${count}: `;
      pending = { value: readSafely(errors, index), label, links: links + 1, next: pending };
    }
  }
  if (!hasOwn(value, "cause")) return pending;
  const cause = readSafely(value, "cause");
  return cause === undefined
    ? pending
    : { value: cause, label: "Caused by: ", links: links + 1, next: pending };
}

function replaceAll(source: string, what: string, by: string): string {
  let result = "";
  let from = 0;
  for (let at = indexOf(source, what); at >= 0; at = indexOf(source, what, from)) {
    result += slice(source, from, at) + by;
    from = at + what.length;
  }
  return from === 0 ? source : result + slice(source, from);
}

/** Shows places in the run's directory as relative ones. */
function withoutDirectory(message: string, directory: string): string {
  if (directory === "" || indexOf(message, directory) < 0) return message;
  const relative = replaceAll(message, `file://${directory}/`, "./");
  return replaceAll(replaceAll(relative, `${directory}/`, "./"), directory, ".");
}

interface Seen {
  readonly value: unknown;
  readonly next: Seen | undefined;
}

function wasSeen(value: unknown, seen: Seen | undefined): boolean {
  for (let entry = seen; entry !== undefined; entry = entry.next) {
    if (entry.value === value) return true;
  }
  return false;
}

/** Reads what an error refers to; proxies may throw. */
function relatedSafely(
  value: unknown,
  links: number,
  rest: Pending | undefined,
): Pending | undefined {
  try {
    return isError(value) ? related(value, links, rest) : rest;
  } catch {
    return rest;
  }
}

/**
 * Show a thrown value, with its causes and members.
 *
 * @param thrown - Anything.
 * @param context - The run.
 * @returns The message of an `exception`: for errors the header, the source line with a caret and the
 *   program's frames; causes and members of aggregates follow, each once.
 */
export function renderThrown(thrown: unknown, context: RenderContext): string {
  let shown = "";
  let seen: Seen | undefined;
  let parts = 0;
  let pending: Pending | undefined = { value: thrown, label: "", links: 0, next: undefined };
  while (pending !== undefined && shown.length <= context.maxChars) {
    const { value, label, links, next }: Pending = pending;
    pending = next;
    if (typeof value === "object" && value !== null && wasSeen(value, seen)) continue;
    if (links > MAX_LINKS || parts++ >= MAX_PARTS) {
      shown += "\nFurther causes are left out";
      break;
    }
    seen = { value, next: seen };
    shown += `${label === "" ? "" : `\n${label}`}${oneText(value, context)}`;
    pending = relatedSafely(value, links, next);
  }
  return withoutDirectory(shown, context.directory);
}
