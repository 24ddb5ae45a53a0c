"""JSON values as text, at any depth, for literals and notes."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from typing import Final, TypeGuard

# An integer with more bits is beyond every double; CPython refuses to spell the longest of them.
_MAX_INT_BITS: Final = 1_100
_EXACT_FLOAT: Final = 1e15


def is_number(value: object) -> TypeGuard[int | float]:
    """Tell whether a value is a JSON number: finite, and no bool."""
    if isinstance(value, bool):
        return False
    if isinstance(value, int):
        return value.bit_length() <= _MAX_INT_BITS
    return isinstance(value, float) and math.isfinite(value)


def is_list(value: object) -> TypeGuard[list[object] | tuple[object, ...]]:
    """Tell whether a value is a JSON array."""
    return isinstance(value, (list, tuple))


def is_object(value: object) -> TypeGuard[Mapping[str, object]]:
    """Tell whether a value is a JSON object; its keys are not looked at."""
    return isinstance(value, Mapping)


def is_json(value: object) -> bool:
    """Tell whether a whole value is JSON."""
    stack = [value]
    while stack:
        item = stack.pop()
        if is_object(item):
            if not all(isinstance(key, str) for key in item):
                return False
            stack.extend(item.values())
        elif is_list(item):
            stack.extend(item)
        elif not (item is None or isinstance(item, (bool, str)) or is_number(item)):
            return False
    return True


def number_text(value: float) -> str:
    """Spell a number; an integral float without its `.0`."""
    if isinstance(value, float) and value.is_integer() and abs(value) < _EXACT_FLOAT:
        return str(int(value))
    return repr(value)


def json_pieces(value: object) -> Iterator[str]:
    """Give the text of a JSON value in pieces, with a space after `,` and `:`.

    Args:
        value: A value for which `is_json` holds.

    Yields:
        Pieces of the text, in order. Characters beyond ASCII are not escaped.
    """
    # A stack of iterators of (text before the item, item), each with the bracket that closes it.
    stack: list[tuple[Iterator[tuple[str, object]], str]] = [(iter([("", value)]), "")]
    while stack:
        items, closer = stack[-1]
        entry = next(items, None)
        if entry is None:
            stack.pop()
            yield closer
            continue
        before, item = entry
        yield before
        if is_object(item):
            yield "{"
            stack.append((_members(item), "}"))
        elif is_list(item):
            yield "["
            stack.append((_items(item), "]"))
        else:
            yield _scalar(item)


def short_json(value: object, max_chars: int) -> str:
    """Give the text of a JSON value, cut after a number of characters with `…`.

    The work is bounded too, whatever the size of the value.
    """
    text = ""
    for piece in json_pieces(value):
        text += piece
        if len(text) > max_chars:
            return text[: max_chars - 1] + "…"
    return text


def _members(value: Mapping[str, object]) -> Iterator[tuple[str, object]]:
    for at, (key, item) in enumerate(value.items()):
        yield ("" if at == 0 else ", ") + json.dumps(key, ensure_ascii=False) + ": ", item


def _items(value: list[object] | tuple[object, ...]) -> Iterator[tuple[str, object]]:
    for at, item in enumerate(value):
        yield "" if at == 0 else ", ", item


def _scalar(value: object) -> str:
    if is_number(value):
        return number_text(value)
    return json.dumps(value, ensure_ascii=False)
