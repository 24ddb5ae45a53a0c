/**
 * Rebuilds a line of a hostile child as a message, field by field, or drops it.
 *
 * `docs/reference/fd3-protocol.md` lists each reaction; the Python host's `_frames.py` does the same.
 */

import { checkNumbers } from "./numbers.ts";
import { CUT_MARKER, DONE_KINDS, type DoneKind, type JsonValue } from "./wire.ts";

/** What a valid line of the child means. */
export type ChildMessage =
  /** The child has applied its limits and built the namespaces. */
  | { readonly kind: "boot-ack" }
  /** The program calls a binding; the host takes only the successor of the last id it took. */
  | {
      readonly kind: "call";
      readonly id: number;
      readonly global: string;
      readonly name: string;
      readonly args: JsonValue;
    }
  /** Output; when `truncated` the text is not to be used, when `open` the line goes on. */
  | {
      readonly kind: "log";
      readonly text: string;
      readonly truncated: boolean;
      readonly open: boolean;
    }
  /**
   * The program returned. `isExact` is false if a number of the frame was replaced by 0, because no double
   * holds it: the value is not JSON that the contract allows, but its size can be judged.
   */
  | {
      readonly kind: "done";
      readonly hasValue: boolean;
      readonly value: JsonValue | undefined;
      readonly isExact: boolean;
    }
  /** The program failed; the message has any length. */
  | { readonly kind: "fail"; readonly failure: DoneKind; readonly message: string };

const utf8 = new TextDecoder("utf-8", { fatal: true });

/**
 * Rebuild one line of the child.
 *
 * @param line - Bytes without LF.
 * @returns The message, or undefined for a line that is dropped: broken UTF-8 or JSON, an integer that no
 * double holds, an unknown type, a missing field or one of another type, a call with a number that cannot
 * be held exactly (negative zero, overflow, underflow, rounded).
 */
export function parseChildFrame(line: Buffer): ChildMessage | undefined {
  let frame: unknown;
  const checked = checkNumbers(line);
  if (checked.kind === "lossy") return undefined;
  const isExact = checked.kind === "exact";
  try {
    frame = JSON.parse(utf8.decode(isExact ? line : checked.text));
  } catch {
    return undefined;
  }
  if (typeof frame !== "object" || frame === null || Array.isArray(frame)) return undefined;
  const read = own(frame);
  const type = read("type");
  if (type === "call") return isExact ? rebuildCall(read) : undefined;
  if (type === "log") return rebuildLog(read);
  if (type === "done") return rebuildDone(read, isExact);
  return type === "boot-ack" ? { kind: "boot-ack" } : undefined;
}

type Read = (key: string) => unknown;

/** Reads own members only: a polluted prototype supplies none. */
const own =
  (frame: object): Read =>
  (key) =>
    Object.hasOwn(frame, key) ? (frame as Record<string, unknown>)[key] : undefined;

function rebuildCall(read: Read): ChildMessage | undefined {
  const id = read("id");
  const global = read("global");
  const name = read("name");
  const args = read("args");
  // An id with a fraction is never the expected one.
  if (typeof id !== "number" || !Number.isInteger(id)) return undefined;
  if (typeof global !== "string" || typeof name !== "string" || args === undefined)
    return undefined;
  return { kind: "call", id, global, name, args: args as JsonValue };
}

function rebuildLog(read: Read): ChildMessage | undefined {
  const text = read("text");
  if (typeof text !== "string") return undefined;
  return { kind: "log", text, truncated: read("truncated") === true, open: read("open") === true };
}

function rebuildDone(read: Read, isExact: boolean): ChildMessage | undefined {
  const error = read("error");
  if (error !== undefined) {
    if (typeof error !== "object" || error === null) return undefined;
    const inner = own(error);
    const message = inner("message");
    const failure = DONE_KINDS.find((kind) => kind === inner("kind"));
    if (typeof message !== "string" || failure === undefined) return undefined;
    return { kind: "fail", failure, message };
  }
  const value = read("value") as JsonValue | undefined;
  const hasValue = value !== undefined;
  return { kind: "done", hasValue, value, isExact: isExact || !hasValue };
}

const MARKER_BYTES = Buffer.byteLength(CUT_MARKER);

/**
 * Cut a failure message that came over the wire.
 *
 * @param message - Any string.
 * @param maxBytes - Bytes of UTF-8, a lone surrogate as 3; below 15 the marker stands alone.
 * @returns The message, or as many whole code points as fit with the marker.
 */
export function cutMessage(message: string, maxBytes: number): string {
  if (message.length * 3 <= maxBytes) return message;
  // Each unit has a byte at least, so no more than these can fit.
  const head = message.slice(0, maxBytes + 1);
  if (head.length <= maxBytes && Buffer.byteLength(head) <= maxBytes) return message;
  const room = maxBytes - MARKER_BYTES;
  let size = 0;
  let end = 0;
  while (end < head.length) {
    const point = head.codePointAt(end) as number;
    size += point < 0x80 ? 1 : point < 0x800 ? 2 : point < 0x10000 ? 3 : 4;
    if (size > room) break;
    end += point > 0xffff ? 2 : 1;
  }
  return head.slice(0, end) + CUT_MARKER;
}
