import { EventEmitter } from "node:events";
import { Writable } from "node:stream";
import { expect, test } from "vitest";
import { ProgramProcess } from "../src/process.ts";
import { type MakeFrame, PacedReplies, type ReplyPipe } from "../src/replies.ts";
import { run } from "./host.ts";

const MIB = 1_048_576;
const HIGH_WATER = 65_536;

/** What the pacing tests need of a host's queue. */
interface Replies {
  push(make: MakeFrame): void;
}

/** The fault that was fixed: every reply is encoded and written at once, and `write`'s false is ignored. */
class UnpacedReplies implements Replies {
  readonly #pipe: ReplyPipe;
  readonly #isSettled: () => boolean;
  constructor(pipe: ReplyPipe, isSettled: () => boolean) {
    this.#pipe = pipe;
    this.#isSettled = isSettled;
  }
  push(make: MakeFrame): void {
    if (!this.#isSettled()) this.#pipe.write(make());
  }
}

type Host = new (pipe: ReplyPipe, isSettled: () => boolean) => Replies;

/** A pipe of 64 KiB whose reader takes 16 KiB a turn, and that records its backlog around each write. */
class SlowPipe extends Writable {
  readonly before: number[] = [];
  peak = 0;
  received = 0;
  constructor() {
    super({ highWaterMark: HIGH_WATER });
  }
  override write(chunk: Uint8Array): boolean {
    this.before.push(this.writableLength);
    const hasRoom = super.write(chunk);
    this.peak = Math.max(this.peak, this.writableLength);
    return hasRoom;
  }
  override _write(chunk: Buffer, _: BufferEncoding, done: () => void): void {
    this.received += chunk.length;
    setImmediate(done);
  }
  get listenersLeft(): number {
    return ["drain", "close", "error"].reduce((sum, event) => sum + this.listenerCount(event), 0);
  }
}

async function eightReplies(host: Host): Promise<SlowPipe & { encodedLate: number }> {
  const pipe = new SlowPipe() as SlowPipe & { encodedLate: number };
  let settled = false;
  pipe.encodedLate = 0;
  const replies = new host(pipe, () => settled);
  for (let index = 0; index < 8; index++) {
    replies.push(() => {
      if (settled) pipe.encodedLate++;
      return Buffer.alloc(4 * MIB, 97);
    });
  }
  while (pipe.received < 32 * MIB) await new Promise(setImmediate);
  await new Promise(setImmediate);
  settled = true;
  replies.push(() => {
    pipe.encodedLate++;
    return Buffer.alloc(1);
  });
  await new Promise(setImmediate);
  return pipe;
}

test("PacedReplies has no backlog before a write and one frame at most when 8 replies of 4 MiB settle at once (PY-277, PY-195)", async () => {
  const pipe = await eightReplies(PacedReplies);
  expect(pipe.before).toEqual(Array.from({ length: 8 }, () => 0));
  expect(pipe.peak).toBeLessThanOrEqual(4 * MIB);
  expect([pipe.received, pipe.encodedLate, pipe.listenersLeft]).toEqual([32 * MIB, 0, 0]);
});

test("the same measurement fails when a host ignores the false of write (PY-277)", async () => {
  const pipe = await eightReplies(UnpacedReplies);
  expect(pipe.before[7]).toBe(28 * MIB);
  expect(pipe.peak).toBe(32 * MIB);
});

/** Records the backlog of the real channel around each write of a large frame. */
async function gatherOnRealChild(
  host?: Host,
): Promise<{ before: number[]; peak: number; left: number }> {
  const own = Object.getOwnPropertyDescriptor(ProgramProcess.prototype, "channel") as {
    get: () => Writable;
  };
  const seen = { before: [] as number[], peak: 0, left: 0 };
  const patched = new WeakSet<Writable>();
  let channel: Writable | undefined;
  Object.defineProperty(ProgramProcess.prototype, "channel", {
    configurable: true,
    get(this: ProgramProcess) {
      channel = own.get.call(this);
      if (patched.has(channel)) return channel;
      patched.add(channel);
      const write = channel.write.bind(channel) as (chunk: Uint8Array) => boolean;
      const recorded = channel;
      recorded.write = (chunk: Uint8Array): boolean => {
        if (chunk.length > MIB) seen.before.push(recorded.writableLength);
        const hasRoom = write(chunk);
        seen.peak = Math.max(seen.peak, recorded.writableLength);
        return hasRoom;
      };
      return recorded;
    },
  });
  const push = PacedReplies.prototype.push;
  if (host !== undefined) {
    PacedReplies.prototype.push = (make: MakeFrame, onWritten?: () => void): void => {
      new host(channel as Writable, () => false).push(make);
      onWritten?.();
    };
  }
  try {
    const big = (index: number): string => String(index).repeat(4 * MIB);
    const program = `
import asyncio
texts = await asyncio.gather(*[tools.big(i) for i in range(8)])
assert all(text == str(i) * ${4 * MIB} for i, text in enumerate(texts))
return sum(map(len, texts))`;
    const result = await run(program, { bindings: [{ globalName: "tools", functions: { big } }] });
    expect(result).toEqual({ logs: [], logsTruncated: false, value: 33_554_432 });
  } finally {
    Object.defineProperty(ProgramProcess.prototype, "channel", own);
    PacedReplies.prototype.push = push;
  }
  seen.left = channel?.listenerCount("drain") ?? 0;
  return seen;
}

test("run() paces 8 replies of 4 MiB to a real child (PY-195, PY-277)", async () => {
  const seen = await gatherOnRealChild();
  expect(seen.before).toEqual(Array.from({ length: 8 }, () => 0));
  expect(seen.peak).toBeLessThanOrEqual(4 * MIB + 100);
  expect(seen.left).toBe(0);
});

test("run() on a host that ignores the false of write has the backlog that pacing avoids (PY-277)", async () => {
  const seen = await gatherOnRealChild(UnpacedReplies);
  expect(Math.max(...seen.before)).toBeGreaterThan(4 * MIB);
  expect(seen.peak).toBeGreaterThan(8 * MIB);
});

/** A pipe that is always full; drain is emitted by hand. */
class FullPipe extends EventEmitter implements ReplyPipe {
  destroyed = false;
  readonly written: string[] = [];
  write(chunk: Uint8Array): boolean {
    this.written.push(Buffer.from(chunk).toString());
    return false;
  }
  get counts(): number[] {
    return ["drain", "close", "error"].map((event) => this.listenerCount(event));
  }
}

const turn = (): Promise<void> => new Promise((resolve) => void setImmediate(resolve));

test("PacedReplies writes 1,536 replies in order, one for each drain, when the pipe is always full (PY-280)", async () => {
  const pipe = new FullPipe();
  const replies = new PacedReplies(pipe, () => false);
  for (let index = 0; index < 1_536; index++) replies.push(() => Buffer.from(`${index}`));
  for (let index = 0; index < 1_536; index++) {
    expect(pipe.written.length).toBe(index + 1);
    expect(pipe.counts).toEqual([1, 1, 1]);
    expect(replies.waiting).toBe(1_535 - index);
    pipe.emit("drain");
    await turn();
  }
  expect(pipe.written).toEqual(Array.from({ length: 1_536 }, (_, index) => `${index}`));
  expect(pipe.counts).toEqual([0, 0, 0]);
});

test("PacedReplies ends its wait and drops the queue when the pipe is destroyed (PY-278)", async () => {
  for (const event of ["close", "error"]) {
    const pipe = new FullPipe();
    const replies = new PacedReplies(pipe, () => false);
    for (const text of ["a", "b", "c"]) replies.push(() => Buffer.from(text));
    pipe.destroyed = true;
    pipe.emit(event);
    await turn();
    expect([pipe.written, replies.waiting, pipe.counts]).toEqual([["a"], 0, [0, 0, 0]]);
  }
});

test("PacedReplies encodes nothing more when the run settles between frames (PY-279)", async () => {
  const pipe = new FullPipe();
  let isSettled = false;
  const replies = new PacedReplies(pipe, () => isSettled);
  const encoded: string[] = [];
  const push = (text: string): void =>
    replies.push(() => {
      encoded.push(text);
      return Buffer.from(text);
    });
  for (const text of ["a", "b", "c"]) push(text);
  isSettled = true;
  pipe.emit("drain");
  await turn();
  push("d");
  await turn();
  expect([encoded, replies.waiting, pipe.counts]).toEqual([["a"], 0, [0, 0, 0]]);
});

test("PacedReplies.close() ends its wait at once and leaves no listener", async () => {
  const pipe = new FullPipe();
  const replies = new PacedReplies(pipe, () => false);
  for (const text of ["a", "b"]) replies.push(() => Buffer.from(text));
  replies.close();
  await turn();
  expect([pipe.written, pipe.counts]).toEqual([["a"], [0, 0, 0]]);
});

test("PacedReplies drops the queue when a write throws (PY-276)", async () => {
  const pipe = new FullPipe();
  pipe.write = () => {
    throw new Error("EPIPE");
  };
  const replies = new PacedReplies(pipe, () => false);
  replies.push(() => Buffer.from("a"));
  await turn();
  expect([replies.waiting, pipe.counts]).toEqual([0, [0, 0, 0]]);
});
