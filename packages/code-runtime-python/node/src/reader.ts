/**
 * Cuts a hostile byte stream into lines, in time and memory linear in what it is given.
 *
 * Pieces of an unfinished line are held as they came. Every `MAX_FRAGMENTS` of them are joined to one
 * block, which is not touched again until the line is complete, so that a drip of single bytes costs
 * neither an object for each byte nor a copy for each piece.
 */

import { MAX_FRAGMENTS, MAX_FRAME_BYTES } from "./wire.ts";

const LF = 0x0a;

/** A line of the child is longer than the cap: the run is over. */
export class LineTooLongError extends Error {
  override readonly name = "LineTooLongError";
  readonly maxBytes: number;

  /**
   * @param maxBytes - The cap.
   */
  constructor(maxBytes: number) {
    super(`Cannot read a frame: line without end, expected at most ${maxBytes} bytes`);
    this.maxBytes = maxBytes;
  }
}

/** Holds the unfinished line of one stream. */
export class LineReader {
  readonly #maxBytes: number;
  #blocks: Uint8Array[] = [];
  #fragments: Uint8Array[] = [];
  #heldBytes = 0;

  /**
   * @param maxBytes - The longest line, without its LF.
   */
  constructor(maxBytes: number = MAX_FRAME_BYTES) {
    this.#maxBytes = maxBytes;
  }

  /** The size of the unfinished line; what is held at the end of the stream is dropped. */
  get heldBytes(): number {
    return this.#heldBytes;
  }

  /** The number of objects that hold the unfinished line. */
  get heldPieces(): number {
    return this.#blocks.length + this.#fragments.length;
  }

  /**
   * Take the next bytes of the stream.
   *
   * @param chunk - Kept as it is if it holds no LF.
   * @returns The lines that are complete now, without LF and without the empty ones. Several of them
   * may be larger than the cap together.
   * @throws LineTooLongError when a line is over the cap. Everything held is dropped; push no more.
   */
  push(chunk: Buffer): Buffer[] {
    let end = chunk.indexOf(LF);
    if (end < 0) {
      this.#hold(chunk);
      return [];
    }
    this.#hold(chunk.subarray(0, end));
    const lines = [this.#join()];
    let start = end + 1;
    for (end = chunk.indexOf(LF, start); end >= 0; end = chunk.indexOf(LF, start)) {
      if (end - start > this.#maxBytes) throw new LineTooLongError(this.#maxBytes);
      lines.push(chunk.subarray(start, end));
      start = end + 1;
    }
    // A copy, because a view would keep the whole chunk for its last bytes.
    if (start < chunk.length) this.#hold(Uint8Array.prototype.slice.call(chunk, start));
    return lines.filter((line) => line.length > 0);
  }

  #join(): Buffer {
    const held = [...this.#blocks, ...this.#fragments];
    const size = this.#heldBytes;
    this.drop();
    const [only] = held;
    return held.length === 1 && only !== undefined
      ? Buffer.from(only.buffer, only.byteOffset, only.length)
      : Buffer.concat(held, size);
  }

  /** Counts first, so that no more than the cap is ever joined. */
  #hold(piece: Uint8Array): void {
    this.#heldBytes += piece.length;
    if (this.#heldBytes > this.#maxBytes) {
      this.drop();
      throw new LineTooLongError(this.#maxBytes);
    }
    if (piece.length === 0) return;
    this.#fragments.push(piece);
    if (this.#fragments.length < MAX_FRAGMENTS) return;
    this.#blocks.push(Buffer.concat(this.#fragments));
    this.#fragments = [];
  }

  /** Forgets the unfinished line. */
  drop(): void {
    this.#blocks = [];
    this.#fragments = [];
    this.#heldBytes = 0;
  }
}
