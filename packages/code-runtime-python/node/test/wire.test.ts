import { expect, test } from "vitest";
import { encode, measure, snapshot } from "../src/json.ts";
import * as wire from "../src/wire.ts";
import { frames, markers, shapes, spelling } from "./vectors.ts";

test("SHAPES has the fields and field types of the vectors when read in order", () => {
  const declared = Object.entries(wire.SHAPES).map(([name, fields]) => ({
    name,
    fields: Object.entries(fields).map(([field, type]) => ({
      name: field.replace(/\?$/, ""),
      type,
      required: !field.endsWith("?"),
    })),
  }));
  expect(declared).toEqual(shapes.shapes.map(({ name, fields }) => ({ name, fields })));
});

test("Shape makes the types of SHAPES when a value is checked against it", () => {
  // Compiled by tsc: a wrong mapping from field types to TypeScript types is an error here.
  const boot: wire.Shape<"Boot"> = {
    type: "boot",
    cpuSeconds: 1,
    addressSpaceBytes: 1,
    maxLogBytes: 64,
    maxValueBytes: 1,
    namespaces: [{ global: "t", names: ["f"] }],
  };
  const done: wire.Shape<"Done"> = { type: "done", error: { kind: "exception", message: "m" } };
  // @ts-expect-error the kind is not one that a child may report
  const wrong: wire.Shape<"DoneError"> = { kind: "timeout", message: "m" };
  // @ts-expect-error ok is literally true
  const reply: wire.Shape<"ReplyOk"> = { type: "reply", id: 0, ok: false, value: 1 };
  expect([boot, done, wrong, reply]).toHaveLength(4);
});

test("wire has the constants of the vectors when the host uses them", () => {
  const { ...constants } = wire as Record<string, unknown>;
  for (const [name, value] of Object.entries(shapes.constants)) {
    expect([name, constants[name]]).toEqual([name, value]);
  }
});

const encoders: Record<string, (frame: never) => Buffer> = {
  Boot: ({ type: _, ...boot }: wire.Shape<"Boot">) => wire.encodeBoot(boot),
  Run: ({ program }: wire.Shape<"Run">) => wire.encodeRun(program),
  ReplyOk: ({ id, value }: wire.Shape<"ReplyOk">) => wire.encodeReply(id, encode(snapshot(value))),
  ReplyError: ({ id, message }: wire.Shape<"ReplyError">) => wire.encodeReplyError(id, message),
};

test.each(frames.filter(({ shape }) => shape in encoders))(
  "encoders write the line of the vector when it is $name",
  ({ shape, frame, line }) => {
    expect(encoders[shape]?.(frame as never).toString()).toBe(`${line}\n`);
  },
);

test.each(markers.log)(
  "logMarker() is the text of the vectors when the budget is $budget",
  (vector) => {
    expect(wire.logMarker(vector.budget)).toBe(vector.text);
  },
);

test("logMarker() fits its own budget when that is at least the smallest", () => {
  const fits = (budget: number) => JSON.stringify([wire.logMarker(budget)]).length <= budget;
  expect(fits(markers.smallest - 1)).toBe(false);
  for (let budget = markers.smallest; budget < 5_000; budget++) expect(fits(budget)).toBe(true);
  expect(wire.MIN_LOG_BYTES).toBeGreaterThan(markers.smallest);
});

test.each(spelling.cases)(
  "encode() spells and measure() meters as Python does when it is $name",
  (vector) => {
    const taken = snapshot(JSON.parse(vector.text));
    expect(encode(taken)).toBe(vector.canonical);
    expect(encode({ ...taken, isPlain: false })).toBe(vector.canonical);
    expect(measure(taken.value, vector.cost)).toBe(vector.cost);
    expect(measure(taken.value, vector.cost - 1)).toBe(undefined);
  },
);
