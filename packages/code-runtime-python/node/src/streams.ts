/**
 * Bytes on the program's own stdout and stderr, as log entries.
 *
 * Lines end at LF and never at the end of a chunk. Unfinished lines of both pipes share the budget that the
 * ledger has left: as soon as they cannot fit any more they are handed over, and the ledger truncates.
 */

import { stringCost } from "./json.ts";
import { type LogLedger, TextHold } from "./ledger.ts";

const SEPARATORS_BYTES = 3;
const QUOTES_BYTES = 2;

/** The pipes of one run. */
export class StrayOutput {
  readonly #ledger: LogLedger;
  readonly #pipes: Pipe[] = [];

  /**
   * @param ledger - Where the lines go.
   */
  constructor(ledger: LogLedger) {
    this.#ledger = ledger;
  }

  /**
   * Add a pipe.
   *
   * @returns Takes the bytes of the pipe as they come, and its end.
   */
  pipe(): { readonly push: (chunk: Uint8Array) => void; readonly end: () => void } {
    const pipe = new Pipe();
    this.#pipes.push(pipe);
    return {
      push: (chunk) => this.#take(pipe, pipe.decode(chunk)),
      end: () => {
        this.#take(pipe, pipe.flush());
        this.#commit(pipe);
      },
    };
  }

  /** Hands over what every pipe holds, when one of them may never end. */
  end(): void {
    for (const pipe of this.#pipes) {
      this.#take(pipe, pipe.flush());
      this.#commit(pipe);
    }
  }

  #take(pipe: Pipe, text: string): void {
    let start = 0;
    while (!this.#ledger.truncated) {
      const end = text.indexOf("\n", start);
      if (end < 0) break;
      pipe.add(text.slice(start, end), this.#ledger.remaining);
      this.#ledger.entry(pipe.take());
      start = end + 1;
    }
    if (!this.#ledger.truncated && start < text.length) {
      pipe.add(text.slice(start), this.#ledger.remaining);
      const held = this.#pipes.reduce((sum, { cost }) => sum + cost, 0);
      if (held > this.#ledger.remaining) for (const each of this.#pipes) this.#commit(each);
    }
    if (this.#ledger.truncated) for (const each of this.#pipes) each.take();
  }

  #commit(pipe: Pipe): void {
    if (pipe.cost > 0) this.#ledger.entry(pipe.take());
  }
}

class Pipe {
  // Byte order marks stay; a sequence that is cut by a chunk is kept until the next one.
  readonly #decoder = new TextDecoder("utf-8", { ignoreBOM: true });
  #hold = new TextHold();
  /** Bytes of JSON text that the unfinished line costs; above the budget any number above it. */
  cost = 0;

  decode(chunk: Uint8Array): string {
    return this.#decoder.decode(chunk, { stream: true });
  }

  flush(): string {
    return this.#decoder.decode();
  }

  add(text: string, budget: number): void {
    if (text === "") return;
    if (this.cost === 0) this.cost = SEPARATORS_BYTES;
    const cost = stringCost(text, budget + QUOTES_BYTES) ?? budget + QUOTES_BYTES + 1;
    this.cost += cost - QUOTES_BYTES;
    this.#hold.add(text);
  }

  take(): string {
    this.cost = 0;
    return this.#hold.take();
  }
}
