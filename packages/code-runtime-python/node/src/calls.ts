/**
 * Runs the binding calls of one run.
 *
 * The child that asks is hostile: only the exact successor of the last accepted id counts. With 1,024 calls,
 * or 8 MiB of arguments, in flight no further call is taken, and the caller stops reading: a flood slows the
 * program down and costs the host nothing. A call is in flight until its reply is in the pipe.
 */

import type { Bindings } from "./bindings.ts";
import { encode, LosslessJsonError, type Snapshot, snapshot } from "./json.ts";
import type { PacedReplies } from "./replies.ts";
import { render, shorten, UNRENDERABLE_REJECTION } from "./text.ts";
import type { BindingFunction } from "./types.ts";
import type { ChildMessage } from "./validate.ts";
import { encodeReply, encodeReplyError, MAX_CALLS } from "./wire.ts";

type Call = Extract<ChildMessage, { kind: "call" }>;

const MAX_ARGUMENT_BYTES = 8 * 1_048_576;
const MAX_TARGET_UNITS = 1_024;
const LOSSY_RESULT = "Binding resolution must be lossless JSON";

/** Takes calls as they are read and answers them. */
export class CallDesk {
  readonly #bindings: Bindings;
  readonly #replies: PacedReplies;
  readonly #onRoom: () => void;
  readonly #over = new AbortController();
  readonly #pending = new Set<Promise<void>>();
  #nextId = 0;
  #inFlight = 0;
  #argumentBytes = 0;

  /**
   * @param bindings - What can be called.
   * @param replies - Writes the answers.
   * @param onRoom - Told when another call may be taken after {@link accept} has refused one.
   */
  constructor(bindings: Bindings, replies: PacedReplies, onRoom: () => void) {
    this.#bindings = bindings;
    this.#replies = replies;
    this.#onRoom = onRoom;
  }

  /** Whether no further call can be taken for now. */
  get isFull(): boolean {
    return this.#inFlight >= MAX_CALLS || this.#argumentBytes > MAX_ARGUMENT_BYTES;
  }

  /** The number of calls in flight. */
  get inFlight(): number {
    return this.#inFlight;
  }

  /**
   * Take one call; an id that is not the expected one is ignored.
   *
   * @param call - The message.
   * @param size - Bytes of its frame.
   * @returns False when there is no room; offer it again later.
   */
  accept(call: Call, size: number): boolean {
    if (this.#over.signal.aborted || call.id !== this.#nextId) return true;
    if (this.isFull) return false;
    this.#nextId++;
    this.#inFlight++;
    this.#argumentBytes += size;
    const release = (): void => this.#release(size);
    const target = this.#bindings.find(call.global, call.name);
    if (target === undefined) {
      const name = shorten(`${call.global}.${call.name}`, MAX_TARGET_UNITS);
      this.#reject(call.id, `Unknown binding: ${name}`, release);
      return true;
    }
    const settled = this.#settle(call, target, release);
    this.#pending.add(settled);
    void settled.then(() => this.#pending.delete(settled));
    return true;
  }

  /** Answers nothing more and tells the functions that are still going on: the run is over. */
  close(): void {
    this.#over.abort();
    this.#replies.close();
  }

  /**
   * Wait for the functions that are still going on.
   *
   * @param graceMs - The longest wait.
   */
  async closed(graceMs: number): Promise<void> {
    if (this.#pending.size === 0) return;
    let timer: NodeJS.Timeout | undefined;
    const late = new Promise<void>((resolve) => {
      timer = setTimeout(resolve, graceMs);
    });
    await Promise.race([Promise.all(this.#pending), late]);
    clearTimeout(timer);
  }

  async #settle(call: Call, target: BindingFunction, release: () => void): Promise<void> {
    const { signal } = this.#over;
    let taken: Snapshot;
    try {
      const value: unknown = await target(call.args, { signal });
      // Checked before the value is walked: a late result costs nothing.
      if (signal.aborted) return;
      taken = snapshot(value);
    } catch (error) {
      if (signal.aborted) return;
      const isLossy = error instanceof LosslessJsonError;
      const message = render(error, UNRENDERABLE_REJECTION);
      this.#reject(call.id, isLossy ? `${LOSSY_RESULT}: ${message}` : message, release);
      return;
    }
    this.#replies.push(() => encodeValue(call.id, taken), release);
  }

  #reject(id: number, message: string, release: () => void): void {
    this.#replies.push(() => encodeReplyError(id, message), release);
  }

  #release(size: number): void {
    const wasFull = this.isFull;
    this.#inFlight--;
    this.#argumentBytes -= size;
    if (wasFull && !this.isFull) this.#onRoom();
  }
}

function encodeValue(id: number, taken: Snapshot): Uint8Array {
  try {
    return encodeReply(id, encode(taken));
  } catch {
    // Longer than the longest string of V8.
    return encodeReplyError(id, `${LOSSY_RESULT}: $: text is too long`);
  }
}
