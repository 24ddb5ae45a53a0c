"""Comments, docstrings and literals of the Python SDK text: any string, on one line, as UTF-8."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from .json_text import is_number

_CONTROL: Final = re.compile("[\x00-\x1f\x7f-\x9f]")
_SURROGATE: Final = re.compile("[\ud800-\udfff]")
_IN_STRING: Final = re.compile('["\\\\\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]')
_BACKTICKS: Final = re.compile("`{3,}")
_SHORT: Final = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t"}


def plain(text: str) -> str:
    """Put a description on one line, without what cannot be printed (CM-053).

    Returns:
        The text, fit for a comment; empty if there is nothing in it but white space.
    """
    line = " ".join(text.split())
    line = _CONTROL.sub(lambda found: f"\\x{ord(found[0]):02x}", line)
    return _SURROGATE.sub(lambda found: f"\\u{ord(found[0]):04x}", line)


def shortened(text: str, max_chars: int) -> str:
    """Cut a line behind a word, with `…`."""
    if len(text) <= max_chars:
        return text
    cut = text[: max_chars - 1]
    words = cut.rpartition(" ")[0] if text[max_chars - 1] != " " else cut
    return (words if len(words) > max_chars // 2 else cut).rstrip() + "…"


def docstring(text: str) -> str:
    """Spell a line that `plain` gave as a docstring."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"""{escaped}"""'


def string_literal(value: str) -> str:
    """Spell a string as JSON does, in characters that UTF-8 and a line can hold."""
    return f'"{_IN_STRING.sub(_escaped, value)}"'


def quoted_type(text: str) -> str:
    """Spell a type as a string, for names that are defined further down."""
    if '"' in text and "'" not in text and "\\" not in text:
        return f"'{text}'"
    return string_literal(text)


def literal_parts(values: Iterable[object]) -> list[str]:
    """Spell the types of some JSON values (CM-052).

    `Literal` cannot hold lists and objects; a number that is no integer is not for it either, yet
    says more to a reader than `float`.

    Returns:
        Members of a union, each once: one `Literal` with all values that it can hold, then types.
    """
    inside: dict[str, None] = {}
    beside: dict[str, None] = {}
    for value in values:
        text = _literal(value)
        if text is not None:
            inside[text] = None
        else:
            beside[_type_of(value)] = None
    if list(inside) == ["None"]:
        return ["None", *beside]
    if inside:
        return [f"Literal[{', '.join(inside)}]", *beside]
    return list(beside)


def fence(block: str) -> str:
    """Give backticks that no run of backticks in a text can close."""
    longest = max((len(run) for run in _BACKTICKS.findall(block)), default=2)
    return "`" * (longest + 1)


def _literal(value: object) -> str | None:
    if value is None or isinstance(value, bool):
        return str(value)
    if isinstance(value, str):
        return string_literal(value)
    if is_number(value):
        return str(int(value)) if value == int(value) else repr(value)
    return None


def _type_of(value: object) -> str:
    if isinstance(value, int):
        return "int"
    if isinstance(value, float):
        return "float"
    if isinstance(value, (list, tuple)):
        return "list[Any]"
    return "dict[str, Any]" if isinstance(value, dict) else "Any"


def _escaped(found: re.Match[str]) -> str:
    character = found[0]
    return _SHORT.get(character) or f"\\u{ord(character):04x}"
