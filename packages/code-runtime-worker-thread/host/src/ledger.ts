/**
 * The worker's copy of the output budget: what a run may still print and return.
 *
 * Python keeps the ledger that decides; this one only spares it a flood, and stops measuring early.
 * A string costs the bytes of its JSON text. Logs cost 2 for the list, their texts, and a comma between two.
 */

import { charCodeAt, slice } from "./intrinsics.ts";

const QUOTES_BYTES = 2;

/** Costs one UTF-16 unit that is not the head of a surrogate pair. */
function unitCost(unit: number): number {
  if (unit < 0x80) {
    if (unit >= 0x20) return unit === 0x22 || unit === 0x5c ? 2 : 1;
    return (unit >= 8 && unit <= 10) || unit === 12 || unit === 13 ? 2 : 6;
  }
  if (unit < 0x800) return 2;
  return unit >= 0xd800 && unit <= 0xdfff ? 6 : 3;
}

function isPair(text: string, index: number): boolean {
  const high = charCodeAt(text, index);
  if (high < 0xd800 || high > 0xdbff || index + 1 >= text.length) return false;
  const low = charCodeAt(text, index + 1);
  return low >= 0xdc00 && low <= 0xdfff;
}

/** Walks code points while their quoted cost fits; tells where it stopped and what that cost. */
function walk(text: string, budget: number): { end: number; cost: number } {
  let cost = QUOTES_BYTES;
  let end = 0;
  while (end < text.length) {
    const pair = isPair(text, end);
    const next = cost + (pair ? 4 : unitCost(charCodeAt(text, end)));
    if (next > budget) break;
    cost = next;
    end += pair ? 2 : 1;
  }
  return { end, cost };
}

/**
 * Measure a string without building its JSON text.
 *
 * @param text - Any string, unpaired surrogates included.
 * @param limit - Measuring stops above it.
 * @returns The bytes of its JSON text with quotes, or undefined when that is above `limit`.
 */
export function stringCost(text: string, limit: number): number | undefined {
  // Each UTF-16 unit costs at least one byte, so a long string is refused without a look at it.
  if (text.length + QUOTES_BYTES > limit) return undefined;
  const { end, cost } = walk(text, limit);
  return end === text.length ? cost : undefined;
}

/**
 * Cut a string to a budget.
 *
 * @param text - Any string.
 * @param budget - Bytes for the JSON text of the result, quotes included.
 * @returns The longest run of whole code points from the start that fits; empty below two bytes.
 */
export function fittingPrefix(text: string, budget: number): string {
  return budget < QUOTES_BYTES ? "" : slice(text, 0, walk(text, budget).end);
}

/** Counts the bytes of output against the cap of one run. */
export class Ledger {
  #remaining: number;
  #entries = 0;
  #exceeded = false;

  /**
   * @param maxBytes - The cap, at least 4 bytes.
   */
  constructor(maxBytes: number) {
    this.#remaining = maxBytes - QUOTES_BYTES;
  }

  /** Bytes left; 0 once something did not fit. */
  get remaining(): number {
    return this.#remaining;
  }

  /** Whether something did not fit; nothing is admitted any more. */
  get exceeded(): boolean {
    return this.#exceeded;
  }

  /** Bytes that the next log entry may cost, without its comma. */
  get room(): number {
    return this.#entries === 0 ? this.#remaining : this.#remaining - 1;
  }

  /**
   * Charge one log entry.
   *
   * @param cost - Bytes of its JSON text.
   * @returns Whether it fits; otherwise nothing is charged and the caller cuts the entry and calls {@link close}.
   */
  admit(cost: number): boolean {
    if (this.#exceeded || cost > this.room) return false;
    this.#remaining = this.room - cost;
    this.#entries++;
    return true;
  }

  /** Ends the budget: what comes later does not fit. */
  close(): void {
    this.#remaining = 0;
    this.#exceeded = true;
  }
}
