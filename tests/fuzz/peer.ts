/**
 * Runs functions of the TypeScript sources on what a Python test has drawn: one JSON line in, one out.
 *
 * `tests/support/fuzzing.py` starts it.
 */

import { createInterface } from "node:readline";
import { BindingNameError } from "../../packages/code-runtime-python/node/src/errors.ts";
import {
  encode as encodeTaken,
  measure,
  snapshot,
} from "../../packages/code-runtime-python/node/src/json.ts";
import {
  checkNamespaces,
  type NamespaceNames,
} from "../../packages/code-runtime-python/node/src/names.ts";
import {
  LineReader,
  LineTooLongError,
} from "../../packages/code-runtime-python/node/src/reader.ts";
import { parseChildFrame } from "../../packages/code-runtime-python/node/src/validate.ts";
import {
  FrameReader,
  type Message,
  ProtocolError,
} from "../../packages/code-runtime-worker-thread/host/src/frames.ts";
import { decode, encode } from "../../packages/code-runtime-worker-thread/host/src/json.ts";

const textOf = (value: unknown): string => encodeTaken(snapshot(value));

/** The text of a value as the worker, and as the Node host of a Python program, write it. */
function spell(text: string): unknown {
  const written = encode(decode(text), Number.POSITIVE_INFINITY);
  const taken = snapshot(JSON.parse(text));
  return [
    written.kind === "bytes" ? Buffer.from(written.bytes).toString() : written,
    encodeTaken(taken),
    encodeTaken({ ...taken, isPlain: false }),
    measure(taken.value, Number.POSITIVE_INFINITY),
  ];
}

/** A line of a child as a message, its values as canonical text. */
function line(hex: string): unknown {
  const message = parseChildFrame(Buffer.from(hex, "hex"));
  if (message === undefined) return null;
  if (message.kind === "call") return { ...message, args: textOf(message.args) };
  if (message.kind !== "done") return message;
  return { ...message, value: message.hasValue ? textOf(message.value) : null };
}

function lines(chunks: readonly string[]): unknown {
  const reader = new LineReader();
  const found: string[] = [];
  try {
    for (const chunk of chunks) {
      for (const each of reader.push(Buffer.from(chunk, "hex"))) found.push(each.toString("hex"));
    }
  } catch (error) {
    if (!(error instanceof LineTooLongError)) throw error;
    return [found, "too long"];
  }
  return [found, reader.heldBytes];
}

/** The messages of a worker's stream, and whether it was refused, or ended inside a frame. */
function frames(chunks: readonly string[]): unknown {
  const found: unknown[] = [];
  const reader = new FrameReader((message: Message) => {
    found.push(
      Object.values(message).map((field: unknown) =>
        field instanceof Uint8Array ? Buffer.from(field).toString("hex") : field,
      ),
    );
  });
  try {
    for (const chunk of chunks) reader.push(Buffer.from(chunk, "hex"));
  } catch (error) {
    if (!(error instanceof ProtocolError)) throw error;
    return [found, "refused"];
  }
  return [found, reader.midFrame ? "cut" : "whole"];
}

function names(namespaces: readonly NamespaceNames[]): unknown {
  try {
    checkNamespaces(namespaces);
    return null;
  } catch (error) {
    if (!(error instanceof BindingNameError)) throw error;
    return [error.field, error.seen];
  }
}

const operations: Readonly<Record<string, (item: never) => unknown>> = {
  spell,
  line,
  lines,
  frames,
  names,
};

for await (const request of createInterface({ input: process.stdin })) {
  const { operation, items } = JSON.parse(request) as { operation: string; items: never[] };
  process.stdout.write(`${JSON.stringify(items.map(operations[operation] as () => unknown))}\n`);
}
