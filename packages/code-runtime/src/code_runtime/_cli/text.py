"""Turns what a program gave into text that is safe to show and easy to read."""

from __future__ import annotations

import re
from typing import Final

from code_runtime._lossless import JsonValue, encode, measure

# Everything by which a text could command a terminal or change how its neighbours are shown: C0
# but tab and newline, DEL, C1, and the characters that change the direction of writing. A lone
# surrogate has no UTF-8 form at all.
_UNSAFE: Final = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"
)
_SURROGATES: Final = re.compile("[\ud800-\udfff]")
MAX_DEPTH: Final = 100


def printable(text: str, *, terminal: bool) -> str:
    r"""Spell out what cannot be shown as it is.

    Lone surrogates always become `\udxxx`; control characters are left alone in a file or a pipe,
    and become `\x1b` and the like on a terminal, where a program's output is not trusted.
    """
    return (_UNSAFE if terminal else _SURROGATES).sub(_spell, text)


def _spell(match: re.Match[str]) -> str:
    code = ord(match.group())
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


def pretty(value: JsonValue, *, width: int = 88) -> str:
    """Lay a JSON value out on several lines; what fits on one line stays on one.

    A value nested deeper than 100 levels is written on one line from there on.
    """
    return _lay_out(value, indent=0, width=width, depth=0)


def _lay_out(value: JsonValue, *, indent: int, width: int, depth: int) -> str:
    if not isinstance(value, (list, dict)) or not value or depth == MAX_DEPTH:
        return encode(value).decode()
    if measure(value, max(width - indent, 20)) is not None:
        line = _one_line(value)
        if len(line) <= max(width - indent, 20):
            return line
    inner = indent + 2
    pad = " " * inner
    if isinstance(value, list):
        rows = [_lay_out(item, indent=inner, width=width, depth=depth + 1) for item in value]
        return "[\n" + ",\n".join(pad + row for row in rows) + "\n" + " " * indent + "]"
    rows = []
    for key, item in value.items():
        head = encode(key).decode() + ": "
        body = _lay_out(item, indent=inner, width=width, depth=depth + 1)
        rows.append(pad + head + body)
    return "{\n" + ",\n".join(rows) + "\n" + " " * indent + "}"


def _one_line(value: JsonValue) -> str:
    """Write a value with spaces; only for one of few bytes, so the recursion is short."""
    if isinstance(value, list):
        return "[" + ", ".join(map(_one_line, value)) + "]"
    if isinstance(value, dict):
        parts = (encode(key).decode() + ": " + _one_line(item) for key, item in value.items())
        return "{" + ", ".join(parts) + "}"
    return encode(value).decode()


_POSITION: Final = re.compile(r"\bprogram\.\w+:(\d+)(?::(\d+))?|\bline (\d+)\b")


def source_frame(program: str, message: str) -> str:
    """Return the lines of the program around the first position that a failure names.

    Empty when the message names none, or already shows the line.
    """
    found = _POSITION.search(message)
    if found is None:
        return ""
    line = int(found[1] or found[3])
    column = int(found[2]) if found[2] else None
    lines = program.splitlines()
    if not 1 <= line <= len(lines):
        return ""
    text = lines[line - 1].strip()
    if not text or text in message:
        return ""
    return _frame(lines, line, column)


def _frame(lines: list[str], line: int, column: int | None) -> str:
    rows = []
    for number in range(max(1, line - 2), min(len(lines), line + 1) + 1):
        mark = ">" if number == line else " "
        rows.append(f"{mark} {number:>4} | {lines[number - 1][:160]}")
        if number == line and column is not None and column <= 160:
            blank = re.sub(r"[^\t]", " ", lines[number - 1][: column - 1])
            rows.append(f"       | {blank}^")
    return "\n".join(rows)
