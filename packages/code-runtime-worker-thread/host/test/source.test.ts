import fc from "fast-check";
import { expect, test } from "vitest";
import { MAX_FRAME_CHARS, positionAt, sourceFrame, syntaxError, widthOf } from "../src/source.ts";

test("positionAt() counts lines as ECMAScript does when line ends are mixed", () => {
  const program = "a\nb\r\nc\rd\u2028e\u2029f";
  const lines = [...program].map((char, offset) => [char, positionAt(program, offset)]);
  expect(lines.filter(([char]) => /[a-f]/.test(char as string))).toEqual([
    ["a", { line: 1, column: 1 }],
    ["b", { line: 2, column: 1 }],
    ["c", { line: 3, column: 1 }],
    ["d", { line: 4, column: 1 }],
    ["e", { line: 5, column: 1 }],
    ["f", { line: 6, column: 1 }],
  ]);
});

test("positionAt() clamps an offset when it is outside the program", () => {
  expect(positionAt("ab\n", 99)).toEqual({ line: 2, column: 1 });
  expect(positionAt("ab", -3)).toEqual({ line: 1, column: 1 });
  expect(positionAt("", 0)).toEqual({ line: 1, column: 1 });
});

test("sourceFrame() shows the line and a caret when the place exists", () => {
  expect(sourceFrame("let a\nlet b = ;\n", 2, 9)).toBe("  2 | let b = ;\n    |         ^");
  expect(sourceFrame(`${"\n".repeat(99)}x`, 100, 1)).toBe("  100 | x\n      | ^");
});

test("sourceFrame() aligns the caret when the line has tabs, wide and combining characters", () => {
  expect(sourceFrame("\tif\tx", 1, 5)).toBe("  1 | \tif\tx\n    | \t  \t^");
  expect(sourceFrame("'中✅😀é'; x", 1, 10)).toBe("  1 | '中✅😀é'; x\n    |            ^");
  expect(sourceFrame("e\u0301x", 1, 3)).toBe("  1 | e\u0301x\n    |  ^");
});

test("sourceFrame() is empty when the program has no such line", () => {
  expect([sourceFrame("a\nb", 3, 1), sourceFrame("a", 0, 1)]).toEqual(["", ""]);
});

test("sourceFrame() puts the caret behind the line when the column is beyond it", () => {
  expect(sourceFrame("ab", 1, 99)).toBe("  1 | ab\n    |   ^");
});

test("sourceFrame() replaces control characters when a line would move the terminal", () => {
  expect(sourceFrame("a\u001b[2J\u0000b\u009b", 1, 6)).toBe(
    "  1 | a\ufffd[2J\ufffdb\ufffd\n    |      ^",
  );
});

test("sourceFrame() cuts a long line around the column when it exceeds the limit", () => {
  const program = `${"a".repeat(500)}HERE${"b".repeat(500)}`;
  const [source = "", caret = ""] = sourceFrame(program, 1, 501).split("\n");
  expect(source.length).toBe("  1 | ".length + MAX_FRAME_CHARS);
  expect(source.slice(caret.indexOf("^"))).toMatch(/^HEREb+…$/);
  expect(source).toMatch(/^ {2}1 \| …a+HERE/);
});

test("sourceFrame() keeps its size and whole surrogate pairs when the line is any", () => {
  const line = fc
    .string({ unit: "binary", maxLength: 600 })
    .map((text) => text.replace(/[\n\r\u2028\u2029]/g, ""));
  fc.assert(
    fc.property(line, fc.nat(700), (text, column) => {
      const [source = "", caret = ""] = sourceFrame(text, 1, column + 1).split("\n");
      expect(source.length).toBeLessThanOrEqual("  1 | ".length + MAX_FRAME_CHARS + 1);
      expect(caret).toMatch(/^ {4}\| [ \t]*\^$/);
      const atPair = /[\ud800-\udbff]/.test(text[column - 1] ?? "");
      if (!atPair) expect(source.isWellFormed()).toBe(true);
    }),
  );
});

test("syntaxError() has the form of a stack trace when given an offset", () => {
  expect(syntaxError("const x = ;", 10, "Expression expected")).toBe(
    "SyntaxError: Expression expected\n  1 | const x = ;\n    |           ^\n    at program.ts:1:11",
  );
});

test("widthOf() knows narrow, wide and invisible code points", () => {
  expect(
    ["a", "é", "→", "中", "✅", "😀", "\u0301", "\u200d", "\0"].map((char) =>
      widthOf(char.codePointAt(0) as number),
    ),
  ).toEqual([1, 1, 1, 2, 2, 2, 0, 0, 0]);
});
