/**
 * What a program prints: one ordered list of entries, charged to the ledger and sent at once.
 */

import type { Channel } from "./channel.ts";
import { KIND, MAX_BODY_BYTES } from "./frames.ts";
import { min } from "./intrinsics.ts";
import { fittingPrefix, type Ledger, stringCost } from "./ledger.ts";

/** Most bytes of one text or value: what a frame holds, less room for its other fields. */
export const MAX_ITEM_BYTES = MAX_BODY_BYTES - 65_536;

/** The way of every log entry; console and both streams share it. */
export class Output {
  readonly #channel: Channel;
  readonly #admit: (cost: number) => boolean;
  #ledger: Ledger | undefined;

  /**
   * @param channel - Where entries go.
   */
  constructor(channel: Channel) {
    this.#channel = channel;
    this.#admit = (cost) => this.#ledger?.admit(cost) ?? false;
  }

  /** The budget; entries before a run has one are dropped. */
  set ledger(ledger: Ledger) {
    this.#ledger = ledger;
  }

  /**
   * Send one entry, or the part of it that fits.
   *
   * @param text - The entry.
   */
  log(text: string): void {
    const ledger = this.#ledger;
    if (ledger === undefined || ledger.exceeded) return;
    // A text that surely does not fit is not spelled: each unit costs a byte at least.
    const room = min(ledger.room, MAX_ITEM_BYTES);
    const hopeless = text.length + 2 > room;
    const huge = text.length > 1_000_000;
    if (!hopeless && (!huge || stringCost(text, room) !== undefined)) {
      if (this.#channel.sendLog(text, this.#admit)) return;
    }
    const prefix = fittingPrefix(text, room);
    if (prefix !== "") this.#channel.sendLog(prefix, this.#admit);
    this.overflow();
  }

  /** Ends the budget and says so, once. */
  overflow(): void {
    if (this.#ledger?.exceeded) return;
    this.#ledger?.close();
    this.#channel.send(KIND.LIMIT, []);
  }
}
