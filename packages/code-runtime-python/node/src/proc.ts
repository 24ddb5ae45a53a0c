/**
 * The processes of a run, as `/proc` shows them: who belongs to it, what memory and CPU time it uses.
 *
 * Nothing that is shown stays true: a pid is signalled only after its start time was compared, so that one
 * that was reused is not hit. On systems without `/proc` every function finds nothing.
 */

import { existsSync, readdirSync, readFileSync, readlinkSync } from "node:fs";

/** Ticks of a second in `/proc/<pid>/stat`; the same on every Linux. */
const TICKS = 100;

/** Whether this system has what these functions read. */
export const HAS_PROC = existsSync("/proc/self/stat");

/** A line of `/proc/<pid>/stat`. */
export interface Stat {
  readonly isDead: boolean;
  readonly parent: number;
  readonly group: number;
  readonly session: number;
  /** CPU time of the process and of its children that were waited for, in seconds. */
  readonly cpuSeconds: number;
  /** Ticks since the system started. */
  readonly startTime: number;
}

function read(path: string): string {
  try {
    return readFileSync(path, "latin1");
  } catch {
    return "";
  }
}

/**
 * Read one process.
 *
 * @param pid - Its number.
 * @returns What is known, undefined if there is no such process.
 */
export function statOf(pid: number): Stat | undefined {
  const text = read(`/proc/${pid}/stat`);
  // The command is the program's to choose and may hold spaces and parentheses.
  const fields = text.slice(text.lastIndexOf(")") + 2).split(" ");
  if (fields.length < 20) return undefined;
  const number = (index: number): number => Number(fields[index]);
  return {
    // A zombie leader with other threads is alive: the program may have ended its main thread only.
    isDead: (fields[0] === "Z" || fields[0] === "X") && number(17) <= 1,
    parent: number(1),
    group: number(2),
    session: number(3),
    cpuSeconds: (number(11) + number(12) + number(13) + number(14)) / TICKS,
    startTime: number(19),
  };
}

function allPids(): number[] {
  return readdirSync("/proc")
    .filter((name) => name >= "0" && name <= ":")
    .map(Number);
}

function childrenOf(pid: number): number[] {
  let threads: string[];
  try {
    threads = readdirSync(`/proc/${pid}/task`);
  } catch {
    return [];
  }
  // A child belongs to the thread that forked it, so each thread has a list.
  return threads.flatMap((thread) => {
    const text = read(`/proc/${pid}/task/${thread}/children`).trim();
    return text === "" ? [] : text.split(" ").map(Number);
  });
}

function fieldSum(text: string, names: readonly string[]): number {
  let total = 0;
  for (const line of text.split("\n")) {
    if (names.some((name) => line.startsWith(name)))
      total += Number(/\d+/.exec(line)?.[0] ?? 0) * 1024;
  }
  return total;
}

function memoryOf(pid: number): number {
  return fieldSum(read(`/proc/${pid}/status`), ["RssAnon:", "RssShmem:", "VmSwap:"]);
}

/** The same memory with each shared page counted once; reads page tables, so it is slow. */
function proportionalOf(pid: number): number {
  const names = ["Pss_Anon:", "Pss_Shmem:", "SwapPss:"];
  return fieldSum(read(`/proc/${pid}/smaps_rollup`), names) || memoryOf(pid);
}

/** The processes of one run: its leader, all that descended from it, and all that carries its marks. */
export class Family {
  readonly #root: number;
  readonly #directory: string;
  readonly #rootStart: number;
  /** Start times of what was seen below the leader, so that an orphan is still known. */
  readonly #known = new Map<number, number>();

  /**
   * @param root - The leader, which has a session of its own.
   * @param directory - Its working directory and TMPDIR, which no other process has.
   */
  constructor(root: number, directory: string) {
    this.#root = root;
    this.#directory = directory;
    this.#rootStart = statOf(root)?.startTime ?? 0;
    if (this.#rootStart > 0) this.#known.set(root, this.#rootStart);
  }

  /** CPU time of the leader in seconds, undefined when it is gone. */
  get cpuSeconds(): number | undefined {
    const stat = HAS_PROC ? statOf(this.#root) : undefined;
    return stat?.startTime === this.#rootStart ? stat.cpuSeconds : undefined;
  }

  /**
   * Look at what is below the processes that are known.
   *
   * @returns Those that live, the leader included.
   */
  look(): number[] {
    if (!HAS_PROC) return [];
    const living: number[] = [];
    const stack = [...this.#known.keys()];
    const seen = new Set(stack);
    for (let pid = stack.pop(); pid !== undefined; pid = stack.pop()) {
      const stat = statOf(pid);
      const start = this.#known.get(pid);
      if (stat === undefined || (start !== undefined && start !== stat.startTime)) {
        this.#known.delete(pid);
        continue;
      }
      this.#known.set(pid, stat.startTime);
      if (!stat.isDead) living.push(pid);
      for (const child of childrenOf(pid)) {
        if (!seen.has(child)) stack.push(child);
        seen.add(child);
      }
    }
    return living;
  }

  /**
   * Look at every process of the system for the marks of this run.
   *
   * @returns The living members that are not the leader.
   */
  sweep(): number[] {
    if (!HAS_PROC) return [];
    const members = new Set(this.look());
    for (const pid of allPids()) {
      if (members.has(pid) || pid === process.pid) continue;
      const stat = statOf(pid);
      if (stat === undefined || stat.isDead || stat.startTime < this.#rootStart) continue;
      if (this.#isMarked(pid, stat)) {
        this.#known.set(pid, stat.startTime);
        members.add(pid);
      }
    }
    members.delete(this.#root);
    return [...members];
  }

  /** The memory of some processes in bytes, swapped pages included. */
  memoryBytes(pids: readonly number[], limitBytes: number): number {
    const plain = pids.reduce((sum, pid) => sum + memoryOf(pid), 0);
    if (plain <= limitBytes || pids.length < 2) return plain;
    // Forked copies share pages, which the plain sum counts for each of them.
    return pids.reduce((sum, pid) => sum + proportionalOf(pid), 0);
  }

  /**
   * Signal a member.
   *
   * @param pid - The member.
   * @param signal - The signal.
   * @returns Whether it was there.
   */
  signal(pid: number, signal: NodeJS.Signals): boolean {
    const start = this.#known.get(pid);
    if (start === undefined || statOf(pid)?.startTime !== start) return false;
    try {
      process.kill(pid, signal);
      return true;
    } catch {
      return false;
    }
  }

  #isMarked(pid: number, stat: Stat): boolean {
    if (stat.session === this.#root || stat.group === this.#root) {
      // A session keeps its number reserved, so a leader of that number with another start is a stranger.
      const leader = statOf(this.#root);
      return leader === undefined || leader.startTime === this.#rootStart;
    }
    if (this.#known.has(stat.parent)) return true;
    if (`\0${read(`/proc/${pid}/environ`)}`.includes(`\0TMPDIR=${this.#directory}\0`)) return true;
    try {
      return `${readlinkSync(`/proc/${pid}/cwd`)}/`.startsWith(`${this.#directory}/`);
    } catch {
      return false;
    }
  }
}
