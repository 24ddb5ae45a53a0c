/**
 * Source maps of transformed programs, moved from the stripper's shell to the program itself.
 *
 * The stripper maps the whole shell; the worker compiles only what is inside. So the first generated line
 * goes, and original lines count from the program's first. Format: ECMA-426 (source map version 3).
 */

/** A source map as JSON: generated JavaScript to `program.ts`. */
export interface SourceMapObject {
  readonly version: 3;
  readonly sources: readonly ["program.ts"];
  readonly names: readonly [];
  readonly mappings: string;
}

const DIGITS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
const MARKER = "\n//# sourceMappingURL=data:application/json;base64,";

function decodeSegment(segment: string): number[] {
  const values: number[] = [];
  let value = 0;
  let shift = 1;
  for (const char of segment) {
    const digit = DIGITS.indexOf(char);
    value += (digit & 31) * shift;
    shift *= 32;
    if (digit >= 32) continue;
    values.push(value % 2 === 1 ? -(value - 1) / 2 : value / 2);
    value = 0;
    shift = 1;
  }
  return values;
}

function encodeNumber(number: number): string {
  let rest = number < 0 ? -number * 2 + 1 : number * 2;
  let text = "";
  do {
    const digit = rest % 32;
    rest = (rest - digit) / 32;
    text += DIGITS[digit + (rest > 0 ? 32 : 0)];
  } while (rest > 0);
  return text;
}

/** Drops the first generated line and moves original lines one up; the rest stays relative. */
function shiftMappings(mappings: string): string {
  const [head = "", ...lines] = mappings.split(";");
  const carried = [0, 0, 0];
  for (const segment of head.split(",")) {
    const [, ...rest] = decodeSegment(segment);
    rest.slice(0, 3).forEach((value, index) => {
      carried[index] = (carried[index] as number) + value;
    });
  }
  const [source = 0, line = 0, column = 0] = carried;
  const first = lines.findIndex((text) => text.split(",").some((part) => part.length > 1));
  if (first < 0) return "";
  // Numbers are differences: only the first segment that has a source takes up what the head left.
  const segments = (lines[first] as string).split(",");
  const at = segments.findIndex((part) => decodeSegment(part).length >= 4);
  if (at < 0) return lines.join(";");
  const values = decodeSegment(segments[at] as string);
  const moved = [
    values[0],
    (values[1] as number) + source,
    (values[2] as number) + line - 1,
    (values[3] as number) + column,
  ];
  segments[at] = moved.map((value) => encodeNumber(value as number)).join("");
  lines[first] = segments.join(",");
  return lines.join(";");
}

/**
 * Take a transformed shell apart: its body and the body's map.
 *
 * @param output - What the stripper printed, with its source map in the last line.
 * @param head - The shell's first line, with its line end.
 * @returns The code between the shell's braces and the map from it to the program; undefined when the
 * output does not begin and end with the shell.
 */
export function shiftMap(
  output: string,
  head: string,
): { code: string; map: SourceMapObject } | undefined {
  const marker = output.lastIndexOf(MARKER);
  const shell = output.slice(0, marker).trimEnd();
  const encoded = output.slice(marker + MARKER.length).trim();
  const { mappings } = JSON.parse(Buffer.from(encoded, "base64").toString("utf8")) as {
    mappings: string;
  };
  const end = shell.lastIndexOf("\n}");
  const empty = shell === `${head.trimEnd()}}`;
  const whole = shell.startsWith(head) && end >= head.length - 1 && end + 2 === shell.length;
  if (!empty && !whole) return undefined;
  return {
    code: empty ? "" : shell.slice(head.length, end),
    map: {
      version: 3,
      sources: ["program.ts"],
      names: [],
      mappings: empty ? "" : shiftMappings(mappings),
    },
  };
}
