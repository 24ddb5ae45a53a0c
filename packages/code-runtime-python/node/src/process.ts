/**
 * One CPython process: its start, its limits, and an end after which nothing of it is left.
 *
 * The end goes in steps: a while to leave by itself (after an own end only), SIGTERM for the group, the
 * grace, SIGKILL for everything that belongs to the run. When the leader is gone, what it left behind is
 * stopped, looked at again and killed, until two looks in a row find nothing.
 */

import { type ChildProcess, spawn } from "node:child_process";
import { readSync } from "node:fs";
import type { Duplex, Readable } from "node:stream";
import { setTimeout as sleep } from "node:timers/promises";
import { CLOSE_MARGIN_MS } from "./config.ts";
import { Family, HAS_PROC } from "./proc.ts";

/** How the process ended. */
export interface Exit {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
  /** Why it never started. */
  readonly spawnError?: string;
  /** The last sample of its CPU time, undefined where there is none. */
  readonly cpuSeconds: number | undefined;
}

/** What a process is started with. */
export interface ProcessOptions {
  readonly interpreter: string;
  readonly script: string;
  readonly directory: string;
  readonly memoryBytes: number;
  readonly graceMs: number;
  /** Told when the tree is over `memoryBytes`. */
  readonly onMemory: () => void;
  /** Told when the leader is gone; its pipes may still hold bytes. */
  readonly onExit: () => void;
  /** Takes the bytes of the channel. */
  readonly onChunk: (chunk: Buffer) => void;
}

const SAMPLE_MS = 50;
/** How long a program that has returned may take for its `finally` blocks and exit handlers. */
export const VOLUNTARY_MS = 500;
const HUNT_MS = 4_000;

/** Processes that live, killed when the host itself exits. */
const living = new Set<ChildProcess>();

function killLiving(): void {
  for (const child of living) signalGroup(child, "SIGKILL");
}

/** Signals the group of a leader that was not reaped yet, whose number cannot be another's. */
function signalGroup(child: ChildProcess, signal: NodeJS.Signals): void {
  if (child.pid === undefined || child.exitCode !== null || child.signalCode !== null) return;
  try {
    process.kill(-child.pid, signal);
  } catch {
    // It has ended in this moment.
  }
}

interface SocketHandle {
  readonly _handle?: { readonly fd?: number } | null;
}

const RESCUE_BYTES = 65_536;
/** More than a socket ever holds. */
const MAX_RESCUES = 1_024;

/**
 * Hands over what a socket receives, also what it still holds when a write to it fails.
 *
 * A child that has sent its last frame exits; a reply that is being written then fails, and Node closes the
 * socket with that frame unread. So the rest is read before the descriptor goes.
 */
function keepReadable(socket: Duplex & SocketHandle, onChunk: (chunk: Buffer) => void): void {
  const destroy = socket._destroy.bind(socket);
  socket.on("data", onChunk);
  socket._destroy = (error, done) => {
    const fd = socket._handle?.fd ?? -1;
    if (error !== null && fd >= 0) {
      const held = socket.read() as Buffer | null;
      if (held !== null) onChunk(held);
      for (let count = 0; count < MAX_RESCUES; count++) {
        const chunk = Buffer.allocUnsafeSlow(RESCUE_BYTES);
        const size = readNow(fd, chunk);
        if (size === 0) break;
        onChunk(chunk.subarray(0, size));
      }
    }
    destroy(error, done);
  };
}

/** Reads without waiting; 0 at the end, and when there is nothing or an error. */
function readNow(fd: number, chunk: Buffer): number {
  try {
    return readSync(fd, chunk);
  } catch {
    return 0;
  }
}

/** A started process. */
export class ProgramProcess {
  readonly #child: ChildProcess;
  readonly #options: ProcessOptions;
  readonly #family: Family | undefined;
  readonly #sampler: NodeJS.Timeout | undefined;
  readonly #closed: Promise<Exit>;
  #exited = false;
  #cpuSeconds: number | undefined;
  #timer: NodeJS.Timeout | undefined;
  #isEnding = false;

  /**
   * Starts it.
   *
   * @param options - Program, folders and limits.
   * @throws Error of the system when no process can be made.
   */
  constructor(options: ProcessOptions) {
    this.#options = options;
    const child = spawn(options.interpreter, ["-u", "-I", options.script], {
      cwd: options.directory,
      env: { TMPDIR: options.directory },
      stdio: ["ignore", "pipe", "pipe", "pipe"],
      detached: true,
    });
    this.#child = child;
    for (const stream of child.stdio) stream?.on("error", () => {});
    keepReadable(this.channel as Duplex & SocketHandle, options.onChunk);
    if (child.pid !== undefined) {
      this.#family = new Family(child.pid, options.directory);
      if (living.size === 0) process.on("exit", killLiving);
      living.add(child);
      if (HAS_PROC) {
        this.#sampler = setInterval(() => this.#sample(), SAMPLE_MS);
      }
    }
    this.#closed = this.#watch();
  }

  /** The socket of the frames. */
  get channel(): Duplex {
    return this.#child.stdio[3] as Duplex;
  }

  /** The program's stdout and stderr. */
  get pipes(): readonly Readable[] {
    return [this.#child.stdout as Readable, this.#child.stderr as Readable];
  }

  /** Whether the leader is gone. */
  get exited(): boolean {
    return this.#exited;
  }

  /** Resolves when the leader is gone, nothing of it is left, and all pipes are read to their end. */
  get closed(): Promise<Exit> {
    return this.#closed;
  }

  /**
   * Begin the end; a second call changes nothing.
   *
   * @param isVoluntary - The program has ended by itself and may leave by itself.
   */
  end(isVoluntary: boolean): void {
    if (this.#isEnding) return;
    this.#isEnding = true;
    if (this.#exited) return;
    if (isVoluntary) this.#timer = setTimeout(() => this.#terminate(), VOLUNTARY_MS);
    else this.#terminate();
  }

  #terminate(): void {
    signalGroup(this.#child, "SIGTERM");
    // A stopped process takes SIGTERM only when it goes on.
    signalGroup(this.#child, "SIGCONT");
    this.#timer = setTimeout(() => this.kill(), this.#options.graceMs);
  }

  /** Kills the leader and its group at once. */
  kill(): void {
    this.#isEnding = true;
    clearTimeout(this.#timer);
    this.#family?.look();
    signalGroup(this.#child, "SIGKILL");
  }

  #sample(): void {
    if (this.#family === undefined || this.#exited) return;
    this.#cpuSeconds = this.#family.cpuSeconds ?? this.#cpuSeconds;
    const { memoryBytes, onMemory } = this.#options;
    if (this.#family.memoryBytes(this.#family.look(), memoryBytes) > memoryBytes) onMemory();
  }

  async #watch(): Promise<Exit> {
    const child = this.#child;
    const ended = new Promise<Pick<Exit, "code" | "signal" | "spawnError">>((resolve) => {
      child.once("exit", (code, signal) => resolve({ code, signal }));
      child.on("error", (error) => {
        if (child.pid === undefined)
          resolve({ code: null, signal: null, spawnError: error.message });
      });
    });
    const drained = new Promise<void>((resolve) => {
      child.once("close", () => resolve());
    });
    const exit = await ended;
    this.#exited = true;
    clearTimeout(this.#timer);
    clearInterval(this.#sampler);
    this.#options.onExit();
    if (exit.spawnError === undefined) {
      await this.#hunt();
      living.delete(child);
      if (living.size === 0) process.off("exit", killLiving);
      await this.#drain(drained);
    }
    for (const stream of child.stdio) stream?.destroy();
    return { ...exit, cpuSeconds: this.#cpuSeconds };
  }

  /** Kills what the leader has left behind. */
  async #hunt(): Promise<void> {
    const family = this.#family;
    const pid = this.#child.pid;
    if (family === undefined || pid === undefined) return;
    if (!HAS_PROC) {
      // The number of a group is reserved as long as it has members.
      try {
        process.kill(-pid, "SIGKILL");
      } catch {
        return;
      }
      return;
    }
    const deadline = performance.now() + HUNT_MS;
    for (let empty = 0; empty < 2 && performance.now() < deadline; ) {
      const held = new Set<number>();
      // Stopped first, so that a fork bomb cannot outrun the looks.
      for (let isNew = true; isNew; ) {
        isNew = false;
        for (const member of family.sweep()) {
          if (held.has(member) || !family.signal(member, "SIGSTOP")) continue;
          held.add(member);
          isNew = true;
        }
      }
      for (const member of held) family.signal(member, "SIGKILL");
      empty = held.size === 0 ? empty + 1 : 0;
      if (held.size > 0) await sleep(1);
    }
  }

  /** Waits until the pipes are read; one that somebody unknown still holds is given up. */
  async #drain(drained: Promise<void>): Promise<void> {
    const stop = new AbortController();
    const late = sleep(CLOSE_MARGIN_MS, undefined, { signal: stop.signal }).catch(() => {});
    await Promise.race([drained, late]);
    stop.abort();
  }
}
