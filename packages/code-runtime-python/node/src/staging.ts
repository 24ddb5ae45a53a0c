/**
 * The child's own files, copied for each run.
 *
 * A program has the rights of the host's user: it could overwrite the files of the installed package, and
 * the next run, or the next host, would start what it wrote. So the files are read once, when a runtime is
 * made, and every run starts from a fresh copy of what was read, in a folder that only it uses.
 */

import {
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

/** Where the child lies from `dist` and from `node/src`. */
const FOLDERS = ["../src/code_runtime_python/_child/", "../../src/code_runtime_python/_child/"];

/** The files of the child as they were when the runtime was made. */
export type ChildFiles = readonly { readonly name: string; readonly content: Buffer }[];

/**
 * Read the files of the child.
 *
 * @returns Names and contents.
 * @throws Error when the package has lost them.
 */
export function readChild(): ChildFiles {
  for (const folder of FOLDERS) {
    const path = fileURLToPath(new URL(folder, import.meta.url));
    let names: string[];
    try {
      names = readdirSync(path).filter((name) => name.endsWith(".py"));
    } catch {
      continue;
    }
    return names.map((name) => ({ name, content: readFileSync(join(path, name)) }));
  }
  throw new Error("Cannot load the child: its folder is missing, expected it in the package");
}

const PREFIX = "code-runtime-node-";

/** Folders that are in use, removed when the host itself exits. */
const inUse = new Set<string>();

function removeInUse(): void {
  for (const path of inUse) remove(path);
}

function remove(path: string): void {
  try {
    rmSync(path, { recursive: true, force: true });
  } catch {
    // The program left something that the system does not let us remove.
  }
}

/** Removes the folders of hosts that were killed: their names tell the process, and it is no more. */
export function removeAbandoned(): void {
  for (const name of readdirSync(tmpdir())) {
    const match = /^code-runtime-node-(\d+)-\w+$/.exec(name);
    const path = join(tmpdir(), name);
    if (match === null || isAlive(Number(match[1]))) continue;
    try {
      const { uid } = lstatSync(path);
      if (uid === process.getuid?.()) remove(path);
    } catch {
      // Another host was faster.
    }
  }
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code !== "ESRCH";
  }
}

/** The folder of one run. */
export class Stage {
  /** The folder that holds all of it. */
  readonly path: string;
  /** The file that the interpreter starts. */
  readonly script: string;
  /** The program's working directory, which is its TMPDIR too. */
  readonly directory: string;

  /**
   * Copies the child; on a failure nothing is left.
   *
   * @param files - What {@link readChild} gave.
   * @throws Error of the file system.
   */
  constructor(files: ChildFiles) {
    this.path = mkdtempSync(join(tmpdir(), `${PREFIX}${process.pid}-`));
    if (inUse.size === 0) process.on("exit", removeInUse);
    inUse.add(this.path);
    this.directory = join(this.path, "work");
    const folder = join(this.path, "child");
    this.script = join(folder, "__main__.py");
    try {
      mkdirSync(this.directory, { mode: 0o700 });
      mkdirSync(folder, { mode: 0o700 });
      for (const { name, content } of files)
        writeFileSync(join(folder, name), content, { mode: 0o600 });
    } catch (error) {
      remove(this.path);
      this.#forget();
      throw error;
    }
  }

  /** Deletes the folder; a refusal of the system changes no outcome. */
  async remove(): Promise<void> {
    await rm(this.path, { recursive: true, force: true, maxRetries: 2 }).catch(() => {});
    this.#forget();
  }

  #forget(): void {
    inUse.delete(this.path);
    if (inUse.size === 0) process.off("exit", removeInUse);
  }
}
