"""Shapes as TypeScript types."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple, TypeAlias

from .shapes import (
    AnyShape,
    ArrayShape,
    LiteralShape,
    NeverShape,
    ObjectShape,
    PrimitiveShape,
    ReferenceShape,
    Shape,
    UnionShape,
)
from .typescript_source import doc_lines, key_text, literal_text

# Deeper levels keep this indent; otherwise a text would grow with the square of its depth.
_MAX_INDENTED_LEVELS: Final = 20

_OPEN: Final = "Record<string, JsonValue>"


class _Part(NamedTuple):
    shape: Shape
    level: int


_Piece: TypeAlias = "str | _Part"


def type_text(shape: Shape, alias_of: Mapping[str, str], level: int = 0) -> str:
    """Spell a shape.

    Args:
        shape: Any shape.
        alias_of: The alias of each definition that the shape refers to.
        level: How many levels the line on which the type starts is indented.

    Returns:
        A type; its size is linear in that of the shape.
    """
    written: list[str] = []
    stack: list[_Piece] = [_Part(shape, level)]
    while stack:
        piece = stack.pop()
        if isinstance(piece, str):
            written.append(piece)
        else:
            stack.extend(reversed(list(_pieces(piece.shape, piece.level, alias_of))))
    return "".join(written)


def indent_text(level: int) -> str:
    """Give the white space before a line of some level."""
    return "  " * min(level, _MAX_INDENTED_LEVELS)


def _pieces(shape: Shape, level: int, alias_of: Mapping[str, str]) -> Iterator[_Piece]:
    if isinstance(shape, AnyShape):
        yield "JsonValue"
    elif isinstance(shape, NeverShape):
        yield "never"
    elif isinstance(shape, PrimitiveShape):
        yield "number" if shape.kind == "integer" else shape.kind
    elif isinstance(shape, LiteralShape):
        yield " | ".join(literal_text(value) for value in shape.values)
    elif isinstance(shape, ReferenceShape):
        yield alias_of[shape.name]
    elif isinstance(shape, ArrayShape):
        is_wrapped = _holds_operator(shape.item)
        yield "(" if is_wrapped else ""
        yield _Part(shape.item, level)
        yield ")[]" if is_wrapped else "[]"
    elif isinstance(shape, UnionShape):
        for at, branch in enumerate(shape.branches):
            yield " | " if at > 0 else ""
            yield _Part(branch, level)
    else:
        yield from _object(shape, level)


def _holds_operator(shape: Shape) -> bool:
    """Tell whether the text of a shape is a union or an intersection."""
    if isinstance(shape, ObjectShape):
        return bool(shape.fields) and shape.extra is not None
    if isinstance(shape, LiteralShape):
        return len(shape.values) > 1
    return isinstance(shape, UnionShape)


def _object(shape: ObjectShape, level: int) -> Iterator[_Piece]:
    if shape.fields:
        yield "{\n"
        for field in shape.fields:
            indent = indent_text(level + 1)
            mark = "" if field.required else "?"
            yield f"{doc_lines(field.note, indent)}{indent}{key_text(field.name)}{mark}: "
            yield _Part(field.shape, level + 1)
            yield ";\n"
        yield indent_text(level) + "}"
        if shape.extra is not None:
            # An index signature among the members would have to fit the optional ones too.
            yield " & "
    elif shape.extra is None:
        yield "Record<string, never>"
    if isinstance(shape.extra, AnyShape):
        yield _OPEN
    elif shape.extra is not None:
        # No `Record` here: an alias may refer to itself in an index signature only.
        yield "{ [key: string]: "
        yield _Part(shape.extra, level)
        # The signature also holds for the members, whose types may be others.
        yield " | JsonValue }" if shape.fields else " }"
