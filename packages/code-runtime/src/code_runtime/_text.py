"""Bounded text of arbitrary objects, for messages and `repr`.

Nothing here recurses or trusts the object that it describes: a value may be 1,000,000 levels deep,
hold gigabytes, or belong to a class whose `__repr__` raises.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_MORE = "…"
# Python refuses to print integers of more than 4,300 digits (and takes quadratic time before that).
_MAX_INT_BITS = 1_024


def type_name(value: object) -> str:
    """Name the type of a value, whatever its metaclass does."""
    name = type.__dict__["__name__"].__get__(type(value))
    return shorten(name, 80) if isinstance(name, str) else "object"


def shorten(text: str, limit: int) -> str:
    """Cut a text to at most `limit` characters; a cut text ends with an ellipsis."""
    return text if len(text) <= limit else text[: limit - 1] + _MORE


def describe(value: object, *, limit: int = 120) -> str:
    """Say what a value is, with its type, in the words that error messages use.

    Numbers, strings and None show their value (`5 (int)`, `'abc' (str)`); everything else only its
    type.
    """
    if value is None or type(value) is bool:
        return repr(value)
    if type(value) in (int, float, str):
        return f"{bounded_repr(value, limit=limit)} ({type_name(value)})"
    return type_name(value)


def bounded_repr(value: object, *, limit: int) -> str:
    """Spell plain data as Python would, in at most `limit` characters and without recursion.

    Only exact built-in types are spelled out; anything else appears as `<TypeName>`, so no code of
    the value runs.
    """
    out: list[str] = []
    used = 0
    stack = [_pieces(value, limit)]
    while stack:
        piece = next(stack[-1], None)
        if piece is None:
            stack.pop()
            continue
        if isinstance(piece, _Nested):
            # Each level has already put a bracket into `out`, so the stack is never deeper than
            # `limit`.
            stack.append(_pieces(piece.value, limit))
            continue
        out.append(piece)
        used += len(piece)
        if used > limit:
            break
    return shorten("".join(out), limit)


class _Nested:
    """A value inside a container, still to be spelled."""

    __slots__ = ("value",)

    def __init__(self, value: object) -> None:
        self.value = value


def _pieces(value: object, limit: int) -> Iterator[str | _Nested]:
    kind = type(value)
    if isinstance(value, list) and kind is list:
        yield from _sequence("[", value, "]")
    elif isinstance(value, tuple) and kind is tuple:
        yield from _sequence("(", value, ",)" if len(value) == 1 else ")")
    elif isinstance(value, dict) and kind is dict:
        yield from _mapping(value)
    else:
        yield _scalar(value, limit)


def _sequence(start: str, items: Iterable[object], end: str) -> Iterator[str | _Nested]:
    yield start
    for index, item in enumerate(items):
        if index:
            yield ", "
        yield _Nested(item)
    yield end


def _mapping(items: dict[object, object]) -> Iterator[str | _Nested]:
    yield "{"
    for index, (key, item) in enumerate(items.items()):
        if index:
            yield ", "
        yield _Nested(key)
        yield ": "
        yield _Nested(item)
    yield "}"


def _scalar(value: object, limit: int) -> str:
    kind = type(value)
    if isinstance(value, (str, bytes)) and kind in (str, bytes):
        return repr(value) if len(value) <= limit else repr(value[:limit])[:-1] + _MORE
    if isinstance(value, int) and kind is int and value.bit_length() > _MAX_INT_BITS:
        return f"<int of {value.bit_length()} bits>"
    if value is None or kind in (bool, int, float):
        return repr(value)
    return f"<{type_name(value)}>"
