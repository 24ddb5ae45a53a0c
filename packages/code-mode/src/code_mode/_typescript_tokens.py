"""A tokenizer just good enough to tell code from text in a TypeScript program.

Whether `/` divides or opens a regular expression is a guess by the token before it; a wrong guess
ends, nearly always, in brackets that do not match, and then the program has no tokens here.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias, final

Kind: TypeAlias = Literal["word", "number", "string", "template", "regex", "punctuator"]

_BLANK: Final = re.compile(r"(?:\s|//[^\n\r\u2028\u2029]*|/\*.*?\*/)+", re.DOTALL)
_WORD: Final = re.compile(r"[^\W\d][\w$]*|[$#@\\][\w$\\]*")
_NUMBER: Final = re.compile(r"\.?[0-9][\w.]*")
_STRING: Final = re.compile(
    r"'(?:[^'\\\n\r]|\\(?:\r\n|.))*'|\"(?:[^\"\\\n\r]|\\(?:\r\n|.))*\"", re.DOTALL
)
_REGEX: Final = re.compile(r"/(?![*/])(?:[^/\\\[\n\r]|\\.|\[(?:[^\]\\\n\r]|\\.)*\])+/[\w$]*")
_PIECE: Final = re.compile(r"(?:[^`\\$]|\\.|\$(?!\{))*(`|\$\{)", re.DOTALL)
_PUNCTUATOR: Final = re.compile(
    r"=>|\.\.\.|\?\.(?![0-9])|\?\?|&&|\|\||\+\+|--|[=!<>]=+|.", re.DOTALL
)
_CLOSES: Final = {")": "(", "]": "[", "}": "{"}
# An expression begins behind these words, so a `/` opens a regular expression.
_BEFORE_EXPRESSION: Final = frozenset(
    [
        "return",
        "typeof",
        "case",
        "in",
        "of",
        "delete",
        "void",
        "throw",
        "new",
        "instanceof",
        "await",
        "yield",
        "else",
        "do",
    ]
)


@final
@dataclass(frozen=True, slots=True)
class Token:
    """One token outside of every bracket, or one pair of brackets with all that is in it.

    Args:
        kind: What it is; a pair of brackets is a punctuator.
        text: Its text; of a pair of brackets the opening one only.
        start: Its offset in the program.
        end: The offset behind it.
        breaks: Whether a line ends between the token before and this one.
    """

    kind: Kind
    text: str
    start: int
    end: int
    breaks: bool


def outer_tokens(program: str, start: int = 0, end: int | None = None) -> list[Token] | None:
    """Give the tokens of a program, or of a piece of one, that are outside of every bracket.

    Args:
        program: The program.
        start: Where the piece begins.
        end: Where it ends; None for the end of the program.

    Returns:
        The tokens in order; None when brackets do not match or a text never ends.
    """
    return _Scanner(program if end is None else program[:end], start).run()


@final
class _Scanner:
    def __init__(self, program: str, start: int) -> None:
        self._program = program
        self._at = start
        self._tokens: list[Token] = []
        # Open brackets; of a template `${`, with the offset where the template began.
        self._open: list[tuple[str, int, bool]] = []
        self._operand = False
        self._breaks = False

    def run(self) -> list[Token] | None:
        program = self._program
        while True:
            blank = _BLANK.match(program, self._at)
            if blank:
                self._at = blank.end()
                self._breaks = self._breaks or "\n" in blank[0] or "\r" in blank[0]
            if self._at >= len(program):
                return None if self._open else self._tokens
            if not self._step():
                return None

    def _step(self) -> bool:
        program, at = self._program, self._at
        character = program[at]
        if character in "'\"":
            return self._take("string", _STRING)
        if character == "`":
            return self._template(at, at + 1)
        if character == "/" and not self._operand:
            return self._take("regex", _REGEX)
        for kind, pattern in (("number", _NUMBER), ("word", _WORD)):
            if pattern.match(program, at):
                return self._take("number" if kind == "number" else "word", pattern)
        if character in "([{":
            self._open.append((character, at, self._breaks))
            self._at, self._operand, self._breaks = at + 1, False, False
            return True
        if character in _CLOSES:
            return self._close(character)
        return self._take("punctuator", _PUNCTUATOR)

    def _take(self, kind: Kind, pattern: re.Pattern[str]) -> bool:
        found = pattern.match(self._program, self._at)
        if found is None:
            return False
        text = found[0]
        if kind == "punctuator":
            self._operand = text in ("++", "--") and self._operand
        else:
            self._operand = kind != "word" or text not in _BEFORE_EXPRESSION
        self._add(kind, text, found.start(), found.end(), self._breaks)
        return True

    def _close(self, character: str) -> bool:
        if not self._open:
            return False
        opener, start, breaks = self._open.pop()
        if opener == "${" and character == "}":
            self._breaks = breaks
            return self._template(start, self._at + 1)
        if opener != _CLOSES[character]:
            return False
        # Behind a block a `/` opens a regular expression; behind an object, which is rarer, it
        # divides. Behind `if (…)` the guess is wrong, and so are the few who divide there.
        self._operand = character != "}"
        self._add("punctuator", opener, start, self._at + 1, breaks)
        return True

    def _template(self, start: int, at: int) -> bool:
        piece = _PIECE.match(self._program, at)
        if piece is None:
            return False
        if piece[1] == "`":
            self._operand = True
            self._add("template", "`", start, piece.end(), self._breaks)
            return True
        self._open.append(("${", start, self._breaks))
        self._at, self._operand, self._breaks = piece.end(), False, False
        return True

    def _add(self, kind: Kind, text: str, start: int, end: int, breaks: bool) -> None:
        self._at, self._breaks = end, False
        if not self._open:
            self._tokens.append(Token(kind, text, start, end, breaks))
