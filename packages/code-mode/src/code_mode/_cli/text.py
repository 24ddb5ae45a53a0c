"""Writes text of programs and servers so that it is safe to show."""

from __future__ import annotations

import re
from typing import Final, TextIO

# Everything by which a text could command a terminal or change how its neighbours are shown: C0
# but tab and newline, DEL, C1, and the characters that change the direction of writing. A lone
# surrogate has no UTF-8 form at all.
_UNSAFE: Final = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"
)
_SURROGATES: Final = re.compile("[\ud800-\udfff]")


def show(stream: TextIO, text: str) -> None:
    r"""Write a text and a newline.

    On a terminal control characters become `\x1b` and the like; in a file or a pipe they stay.
    """
    unsafe = _UNSAFE if stream.isatty() else _SURROGATES
    shown = unsafe.sub(_spell, text)
    stream.write(shown if shown.endswith("\n") else shown + "\n")
    stream.flush()


def _spell(match: re.Match[str]) -> str:
    code = ord(match.group())
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"
