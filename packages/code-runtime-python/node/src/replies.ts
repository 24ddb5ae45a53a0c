/**
 * Paced replies: one is encoded and written at a time, and the next when the pipe has room.
 *
 * Encoding happens inside the loop, behind the check whether the run is settled: a reply that nobody needs
 * any more is never serialised, and encoded copies never pile up in the writable buffer, however many large
 * results settle in one turn.
 */

/** What is needed of the writable side of the channel. */
export interface ReplyPipe {
  readonly destroyed: boolean;
  write(chunk: Uint8Array): boolean;
  on(event: "drain" | "close" | "error", listener: () => void): unknown;
  off(event: "drain" | "close" | "error", listener: () => void): unknown;
}

/** Makes the bytes of one reply; called once, when its turn has come. */
export type MakeFrame = () => Uint8Array;

interface Reply {
  readonly make: MakeFrame;
  readonly onWritten: () => void;
}

const COMPACT_COUNT = 1_024;
const ENDS = ["drain", "close", "error"] as const;

/** Writes the replies of one run in the order in which they are pushed. */
export class PacedReplies {
  readonly #pipe: ReplyPipe;
  readonly #isSettled: () => boolean;
  #queue: (Reply | undefined)[] = [];
  #head = 0;
  #isRunning = false;
  #stopWaiting: (() => void) | undefined;

  /**
   * @param pipe - The channel.
   * @param isSettled - Whether the run is over.
   */
  constructor(pipe: ReplyPipe, isSettled: () => boolean) {
    this.#pipe = pipe;
    this.#isSettled = isSettled;
  }

  /** The number of replies that wait for their turn. */
  get waiting(): number {
    return this.#queue.length - this.#head;
  }

  /**
   * Queue one reply.
   *
   * @param make - Encodes it.
   * @param onWritten - Called when it is in the pipe; never, if the run is over before.
   */
  push(make: MakeFrame, onWritten: () => void = () => {}): void {
    this.#queue.push({ make, onWritten });
    if (!this.#isRunning) void this.#run();
  }

  /** Drops what waits; the run is over. */
  close(): void {
    this.#drop();
    this.#stopWaiting?.();
  }

  async #run(): Promise<void> {
    this.#isRunning = true;
    try {
      while (this.#head < this.#queue.length && !this.#isSettled() && !this.#pipe.destroyed) {
        const reply = this.#next();
        const hasRoom = this.#pipe.write(reply.make());
        reply.onWritten();
        if (!hasRoom) await this.#room();
      }
    } catch {
      // The pipe is gone; the end of the process decides the run.
    } finally {
      this.#drop();
      this.#isRunning = false;
    }
  }

  /** Takes the next reply and clears its slot; the consumed slots go in one piece from time to time. */
  #next(): Reply {
    const reply = this.#queue[this.#head] as Reply;
    this.#queue[this.#head] = undefined;
    this.#head++;
    if (this.#head >= COMPACT_COUNT) {
      this.#queue.splice(0, this.#head);
      this.#head = 0;
    }
    return reply;
  }

  /** Waits until the pipe is empty again or is no more, and leaves no listener. */
  async #room(): Promise<void> {
    if (this.#pipe.destroyed || this.#isSettled()) return;
    await new Promise<void>((resolve) => {
      const stop = (): void => {
        for (const event of ENDS) this.#pipe.off(event, stop);
        this.#stopWaiting = undefined;
        resolve();
      };
      for (const event of ENDS) this.#pipe.on(event, stop);
      this.#stopWaiting = stop;
    });
  }

  #drop(): void {
    this.#queue = [];
    this.#head = 0;
  }
}
