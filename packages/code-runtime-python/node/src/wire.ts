/**
 * The fd-3 wire: frame shapes, constants, and the encoders of the host.
 *
 * One socket, descriptor 3 of the child, both ways; one JSON object a line, UTF-8, one LF at the end.
 * The host takes every line of the child as hostile (`validate.ts`); the child trusts its host.
 * `_child/wire.py` and `docs/reference/fd3-protocol.md` declare the same; tests compare all three.
 */

/** A value that crosses the boundary. */
export type JsonValue =
  | null
  | boolean
  | number
  | string
  | JsonValue[]
  | { [key: string]: JsonValue };

/** Every shape of the wire: its fields in the order in which they are written, `?` marks an optional one. */
export const SHAPES = {
  ErrorClass: { name: "str", memberNameProperty: "str" },
  Namespace: { global: "str", names: "str[]", "errorClass?": "ErrorClass" },
  Boot: {
    type: '"boot"',
    cpuSeconds: "int",
    addressSpaceBytes: "int",
    maxLogBytes: "int",
    maxValueBytes: "int",
    namespaces: "Namespace[]",
  },
  Run: { type: '"run"', program: "str" },
  ReplyOk: { type: '"reply"', id: "int", ok: "true", value: "json" },
  ReplyError: { type: '"reply"', id: "int", ok: "false", message: "str" },
  BootAck: { type: '"boot-ack"' },
  Call: { type: '"call"', id: "int", global: "str", name: "str", args: "json" },
  Log: { type: '"log"', text: "str", "truncated?": "true", "open?": "true" },
  Done: { type: '"done"', "value?": "json", "error?": "DoneError" },
  DoneError: { kind: '"exception" | "invalid-output" | "output-limit"', message: "str" },
} as const;

/** The failures that a child can report; the host observes all others itself. */
export const DONE_KINDS = ["exception", "invalid-output", "output-limit"] as const;
export type DoneKind = (typeof DONE_KINDS)[number];

type Shapes = typeof SHAPES;

/** What a field type of {@link SHAPES} means in TypeScript. */
type Field<T extends string> = T extends "int"
  ? number
  : T extends "str"
    ? string
    : T extends "json"
      ? JsonValue
      : T extends "true"
        ? true
        : T extends "false"
          ? false
          : T extends Shapes["DoneError"]["kind"]
            ? DoneKind
            : T extends `"${infer Literal}"`
              ? Literal
              : T extends `${infer Item}[]`
                ? Field<Item>[]
                : T extends keyof Shapes
                  ? Shape<T>
                  : never;

/** The type of a shape. */
export type Shape<Name extends keyof Shapes> = {
  readonly [Key in keyof Shapes[Name] & string as Key extends `${string}?`
    ? never
    : Key]: Shapes[Name][Key] extends string ? Field<Shapes[Name][Key]> : never;
} & {
  readonly [Key in keyof Shapes[Name] & string as Key extends `${infer Plain}?`
    ? Plain
    : never]?: Shapes[Name][Key] extends string ? Field<Shapes[Name][Key]> : never;
};

/** The descriptor that the child finds its socket at. */
export const CHANNEL_FD = 3;
/** The longest line that a host reads, without its LF. */
export const MAX_FRAME_BYTES = 64 * 1024 * 1024;
/** What a budget must leave free in a frame for everything around its text. */
export const ENVELOPE_BYTES = 64;
/** The pieces of an unfinished line that are held before they are joined. */
export const MAX_FRAGMENTS = 1_024;
/** The binding calls in flight at which a host stops reading. */
export const MAX_CALLS = 1_024;
/** The lowest `maxLogBytes`; the list that holds only its own marker fits from 45 bytes on. */
export const MIN_LOG_BYTES = 64;
/** Ends a failure message that was cut: 13 characters, 15 bytes of UTF-8. */
export const CUT_MARKER = "\u2026 [truncated]";

/**
 * Name the log entry that stands for all dropped ones.
 *
 * @param maxLogBytes - The budget.
 * @returns 39 ASCII characters and the digits.
 */
export function logMarker(maxLogBytes: number): string {
  return `[code-runtime] logs truncated at ${maxLogBytes} bytes`;
}

const line = (text: string): Buffer => Buffer.from(`${text}\n`, "utf8");

/**
 * Write the first frame.
 *
 * @param boot - All but the type.
 * @returns One line.
 */
export function encodeBoot(boot: Omit<Shape<"Boot">, "type">): Buffer {
  const { cpuSeconds, addressSpaceBytes, maxLogBytes, maxValueBytes } = boot;
  const namespaces = boot.namespaces.map(({ global, names, errorClass }) => ({
    global,
    names,
    ...(errorClass && {
      errorClass: { name: errorClass.name, memberNameProperty: errorClass.memberNameProperty },
    }),
  }));
  const limits = { cpuSeconds, addressSpaceBytes, maxLogBytes, maxValueBytes };
  return line(JSON.stringify({ type: "boot", ...limits, namespaces }));
}

/**
 * Write the frame that starts the program.
 *
 * @param program - The source text.
 * @returns One line.
 */
export function encodeRun(program: string): Buffer {
  return line(`{"type":"run","program":${JSON.stringify(program)}}`);
}

/**
 * Write the value of a call.
 *
 * @param id - The id of the call.
 * @param value - Canonical JSON text; it is spliced in as it is.
 * @returns One line.
 */
export function encodeReply(id: number, value: string): Buffer {
  return line(`{"type":"reply","id":${id},"ok":true,"value":${value}}`);
}

/**
 * Write the failure of a call.
 *
 * @param id - The id of the call.
 * @param message - What the program sees.
 * @returns One line.
 */
export function encodeReplyError(id: number, message: string): Buffer {
  return line(`{"type":"reply","id":${id},"ok":false,"message":${JSON.stringify(message)}}`);
}
