import { readFileSync } from "node:fs";
import type { JsonValue } from "../src/wire.ts";

/** One chunk, line or message: text, or text that is repeated. */
export type Part = string | { readonly repeat?: string; readonly each?: string; times: number };

/** Spells a part out. */
export const spell = (part: Part): string =>
  typeof part === "string" ? part : (part.repeat ?? part.each ?? "").repeat(part.times);

function read<T>(name: string): T {
  const path = new URL(`../../../../tests/vectors/fd3/${name}.json`, import.meta.url);
  return JSON.parse(readFileSync(path, "utf8")) as T;
}

export const shapes = read<{
  shapes: {
    name: string;
    direction: string;
    fields: { name: string; type: string; required: boolean }[];
  }[];
  constants: Record<string, unknown>;
}>("shapes");

export const { frames } = read<{
  frames: { name: string; shape: string; frame: Record<string, JsonValue>; line: string }[];
}>("frames");

export const hostile = read<{
  cases: { spec: string; name: string; line?: string; hex?: string; message: unknown }[];
}>("hostile").cases;

export const spelling = read<{
  cases: { name: string; text: string; canonical: string; cost: number }[];
  numbers: { text: string; found: string }[];
}>("spelling");

export const markers = read<{
  smallest: number;
  log: { budget: number; text: string }[];
  fit: { spec: string; name: string; budget: number; message: string; result: string }[];
  cut: { spec: string; name: string; budget: number; message: Part; result: string }[];
}>("markers");

export const reader = read<{
  cases: {
    spec: string;
    name: string;
    max_bytes: number;
    chunks: Part[];
    lines: Part[];
    too_long: boolean;
    held_bytes: number;
  }[];
}>("reader").cases;

export const logs = read<{
  cases: {
    spec: string;
    name: string;
    max_log_bytes: number;
    frames: { text: string; truncated?: true; open?: true; times?: number }[];
    logs: string[];
    truncated: boolean;
  }[];
}>("logs").cases;

/** The bytes of a vector's line. */
export const bytesOf = (vector: { line?: string; hex?: string }): Buffer =>
  vector.hex === undefined ? Buffer.from(vector.line ?? "") : Buffer.from(vector.hex, "hex");
