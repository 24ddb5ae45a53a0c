/**
 * Positions of transformed programs: from the code that runs back to the program as written (ECMA-426).
 */

import type { Position } from "./source.ts";

const DIGITS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/** One mapped place: columns and lines count from 0. */
interface Segment {
  readonly column: number;
  readonly line: number;
  readonly sourceColumn: number;
}

/** Reads the numbers of one segment. */
function decodeNumbers(segment: string): number[] {
  const numbers: number[] = [];
  let value = 0;
  let scale = 1;
  for (const char of segment) {
    const digit = DIGITS.indexOf(char);
    value += (digit & 31) * scale;
    scale *= 32;
    if (digit >= 32) continue;
    numbers.push(value % 2 === 1 ? -(value - 1) / 2 : value / 2);
    value = 0;
    scale = 1;
  }
  return numbers;
}

/** Decodes once, before the program starts; looking up uses nothing that a program can replace. */
export class PositionMap {
  readonly #lines: readonly (readonly Segment[])[];

  /**
   * @param mappings - The `mappings` of a source map with one source.
   */
  constructor(mappings: string) {
    let line = 0;
    let sourceColumn = 0;
    this.#lines = mappings.split(";").map((text) => {
      let column = 0;
      return text.split(",").flatMap((part) => {
        const [columns, , lines, sourceColumns] = decodeNumbers(part);
        if (columns === undefined) return [];
        column += columns;
        if (lines === undefined || sourceColumns === undefined) return [];
        line += lines;
        sourceColumn += sourceColumns;
        return [{ column, line, sourceColumn }];
      });
    });
  }

  /**
   * Find where a place was written.
   *
   * @param line - 1-based line of the generated code.
   * @param column - 1-based column of it.
   * @returns The 1-based position in the program, or undefined for code that nobody wrote.
   */
  original(line: number, column: number): Position | undefined {
    const segments = line >= 1 && line <= this.#lines.length ? this.#lines[line - 1] : undefined;
    let found: Segment | undefined;
    for (let index = 0; segments !== undefined && index < segments.length; index++) {
      const segment = segments[index] as Segment;
      if (segment.column > column - 1) break;
      found = segment;
    }
    if (found === undefined) return undefined;
    return { line: found.line + 1, column: found.sourceColumn + 1 };
  }
}
