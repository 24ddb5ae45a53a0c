"""Finds the lines of a program that a failure names.

Source: the messages of the providers. TypeScript has the frames of one error as
`at f (program.ts:5:57)`, the innermost first; Python has a traceback with
`File "program.py", line 3, in f`, the innermost last, and of several chained tracebacks the last
one is that of the error.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

_FRAME_WITH_COLUMN: Final = re.compile(
    r"^ {1,16}at (?:[^\n]{0,500} \()?program\.\w{1,8}:(\d{1,9}):(\d{1,9})\)?$", re.MULTILINE
)
_FRAME_OF_TRACEBACK: Final = re.compile(
    r'^[ |+-]*File "program\.\w{1,8}", line (\d{1,9})', re.MULTILINE
)
# What providers of other languages may write.
_SOMEWHERE: Final = re.compile(r"\bprogram\.\w{1,8}:(\d{1,9})(?::(\d{1,9}))?|\(line (\d{1,9})\)")
MAX_COLUMN: Final = 10_000
_CAUSE: Final = "\nCaused by: "
_TRACEBACK: Final = "Traceback (most recent call last):"

# Only these end a line for the compilers; `str.splitlines` knows more.
_LINE_END: Final = re.compile(r"\r\n|\r|\n")
_LINE_END_OF_SCRIPT: Final = re.compile("\r\n|[\r\n\u2028\u2029]")


@dataclass(frozen=True, slots=True)
class Failing:
    """Where a program failed.

    Args:
        line: The line, from 1.
        column: The character of the line, from 1; None when only the line is known.
        callers: The lines that led there, from 1.
    """

    line: int
    column: int | None = None
    callers: frozenset[int] = frozenset()


def split_lines(program: str, language: str | None) -> list[str]:
    """Split a program as the compiler of its language counts lines; none is empty at the end."""
    lines = (_LINE_END_OF_SCRIPT if language == "typescript" else _LINE_END).split(program)
    return lines[:-1] if len(lines) > 1 and not lines[-1] else lines


def find_failing(lines: list[str], message: str) -> Failing | None:
    """Return the place in the program that a failure names, or None."""
    frames = _frames(message)
    known = [(line, column) for line, column in frames if 1 <= line <= len(lines)]
    if not known:
        return None
    line, column = known[0]
    if column is not None:
        column = _character(lines[line - 1], column)
    return Failing(line, column, frozenset(number for number, _ in known) - {line})


def _frames(message: str) -> list[tuple[int, int | None]]:
    """Return line and column of each frame in the program, the innermost first."""
    own = message.partition(_CAUSE)[0]
    frames = _FRAME_WITH_COLUMN.findall(own)
    if frames:
        return [(int(line), int(column)) for line, column in frames]
    last = message[max(0, message.rfind(_TRACEBACK)) :]
    lines = _FRAME_OF_TRACEBACK.findall(last)
    if lines:
        return [(int(line), None) for line in reversed(lines)]
    found = _SOMEWHERE.search(message)
    if found is None:
        return []
    return [(int(found[1] or found[3]), int(found[2]) if found[2] else None)]


def _character(line: str, unit: int) -> int | None:
    """Turn a column in UTF-16 units into one in characters; None when it is not in the line."""
    units = 1
    for index, character in enumerate(line[:MAX_COLUMN]):
        if units >= unit:
            return index + 1 if unit > 0 else None
        units += 2 if character > "\uffff" else 1
    return None
