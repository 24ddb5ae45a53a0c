"""Understands programs that are given in another common form.

A program is the body of an async function. Models also write a Markdown fence around it, or a
function that somebody is to call: `export default async function …`, one arrow function, or
`asyncio.run(main())`. Such a text is changed as little as possible, and its lines keep their
numbers. Any other text stays as it is, to the byte.
"""

from __future__ import annotations

import re
import textwrap
from typing import Final

from ._program_python import call_main
from ._program_typescript import call_function

_LINE: Final = re.compile(r"[^\n]*\n|[^\n]+")
# A program that is indented as a whole, like the body of a function.
_INDENTED: Final = re.compile(r"(?:[ \t]*\r?\n)*[ \t]+[^\s#]")
_OPENING: Final = re.compile(r"( {0,3})(`{3,}|~{3,})[^\r\n]*")


def normalize_program(code: str, language: str) -> str:
    """Return the program as the body of an async function; unchanged when it is one.

    Args:
        code: The text that a model gave.
        language: The language of the runtime, `typescript` or `python`; of another one only a
            fence is taken away.

    Returns:
        The text to run. What stands on a line of it stood on that line of the given text, except
        for a call that follows the last line of a Python program.
    """
    code = _without_fence(code)
    if language == "typescript":
        return call_function(code)
    if language == "python":
        return call_main(textwrap.dedent(code) if _INDENTED.match(code) else code)
    return code


def _without_fence(code: str) -> str:
    """Empty the lines of a Markdown fence around the whole text."""
    lines = _LINE.findall(code) if "```" in code or "~~~" in code else []
    filled = [number for number, line in enumerate(lines) if line.strip()]
    if len(filled) < 2:
        return code
    first, last = filled[0], filled[-1]
    opening = _OPENING.fullmatch(lines[first].rstrip())
    if opening is None or (opening[2][0] == "`" and "`" in lines[first].strip().lstrip("`")):
        return code
    closing = re.compile(f" {{0,3}}{opening[2]}{opening[2][0]}*\\s*")
    # A fence line in between ends the block there; what follows is not part of it.
    if [n for n in range(first + 1, last + 1) if closing.fullmatch(lines[n])] != [last]:
        return code
    inside = lines[first + 1 : last]
    if opening[1]:
        inside = [re.sub(f"^ {{0,{len(opening[1])}}}", "", line) for line in inside]
    return "".join([*lines[:first], _line_end(lines[first]), *inside])


def _line_end(line: str) -> str:
    return line[len(line.rstrip("\r\n")) :]
