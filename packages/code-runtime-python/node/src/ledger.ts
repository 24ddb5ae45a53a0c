/**
 * The logs of a run against `maxLogBytes`.
 *
 * The ledger starts at the budget less one; an entry costs its JSON text and 1, so the JSON list of all
 * entries is never larger than the budget. What does not fit is dropped whole, one uncharged marker follows,
 * and nothing after it. A line that the child commits in parts is charged as it comes, and keeps the place
 * of its first part.
 */

import { stringCost } from "./json.ts";
import { logMarker, MAX_FRAGMENTS } from "./wire.ts";

const QUOTES_BYTES = 2;
const COMMA_BYTES = 1;

/** Text in parts, joined in blocks, so that a drip of characters costs few objects. */
export class TextHold {
  #blocks: string[] = [];
  #parts: string[] = [];

  /** The number of objects that hold the text. */
  get pieces(): number {
    return this.#blocks.length + this.#parts.length;
  }

  /**
   * Add a part.
   *
   * @param text - Any string.
   */
  add(text: string): void {
    this.#parts.push(text);
    if (this.#parts.length < MAX_FRAGMENTS) return;
    this.#blocks.push(this.#parts.join(""));
    this.#parts = [];
  }

  /**
   * Take the whole text and forget it.
   *
   * @returns All parts in order.
   */
  take(): string {
    const text = [...this.#blocks, ...this.#parts].join("");
    this.#blocks = [];
    this.#parts = [];
    return text;
  }
}

/** Keeps the entries of one run and tells an observer of each. */
export class LogLedger {
  readonly #maxBytes: number;
  readonly #onLog: ((text: string) => unknown) | undefined;
  readonly #entries: (string | undefined)[] = [];
  #remaining: number;
  #open: { readonly place: number; readonly hold: TextHold } | undefined;
  #truncated = false;
  #isSilent = false;
  /** What the observer threw, in a box; it is called no more then. */
  fault: { readonly error: unknown } | undefined;

  /**
   * @param maxBytes - The budget, at least 64.
   * @param onLog - Called with each entry that is kept, as soon as it is complete.
   */
  constructor(maxBytes: number, onLog?: (text: string) => unknown) {
    this.#maxBytes = maxBytes;
    this.#remaining = maxBytes - COMMA_BYTES;
    this.#onLog = onLog;
  }

  /** Whether something was dropped; no more output is taken. */
  get truncated(): boolean {
    return this.#truncated;
  }

  /** Bytes that entries may still cost, quotes and comma included. */
  get remaining(): number {
    return this.#truncated ? 0 : this.#remaining;
  }

  /**
   * Take a log frame of the child.
   *
   * @param text - The entry, or a part of the open line.
   * @param isOpen - The line goes on.
   */
  frame(text: string, isOpen: boolean): void {
    if (this.#truncated || (isOpen && text === "")) return;
    if (this.#open === undefined && !isOpen) {
      this.entry(text);
      return;
    }
    const isFirst = this.#open === undefined;
    const cost = this.#cost(text, isFirst ? QUOTES_BYTES + COMMA_BYTES : 0);
    if (cost === undefined) {
      this.truncate();
      return;
    }
    this.#remaining -= cost;
    if (this.#open === undefined) {
      this.#open = { place: this.#entries.length, hold: new TextHold() };
      this.#entries.push(undefined);
    }
    this.#open.hold.add(text);
    if (!isOpen) this.#close();
  }

  /**
   * Take a complete line of a pipe, or of the child.
   *
   * @param text - The entry.
   */
  entry(text: string): void {
    if (this.#truncated) return;
    const cost = this.#cost(text, QUOTES_BYTES + COMMA_BYTES);
    if (cost === undefined) {
      this.truncate();
      return;
    }
    this.#remaining -= cost;
    this.#entries.push(text);
    this.#tell(text);
  }

  /** Ends the log: the child has dropped output, or some did not fit. */
  truncate(): void {
    if (this.#truncated) return;
    this.#close();
    this.#truncated = true;
    const marker = logMarker(this.#maxBytes);
    this.#entries.push(marker);
    this.#tell(marker);
  }

  /**
   * Close the open line and take no more.
   *
   * @returns All entries.
   */
  finish(): string[] {
    this.#close();
    this.#isSilent = true;
    return this.#entries as string[];
  }

  #cost(text: string, extra: number): number | undefined {
    const cost = stringCost(text, this.#remaining - extra + QUOTES_BYTES);
    return cost === undefined ? undefined : cost - QUOTES_BYTES + extra;
  }

  #close(): void {
    if (this.#open === undefined) return;
    const text = this.#open.hold.take();
    this.#entries[this.#open.place] = text;
    this.#open = undefined;
    this.#tell(text);
  }

  #tell(text: string): void {
    if (this.#onLog === undefined || this.#isSilent || this.fault !== undefined) return;
    try {
      this.#onLog(text);
    } catch (error) {
      this.fault = { error };
    }
  }
}
