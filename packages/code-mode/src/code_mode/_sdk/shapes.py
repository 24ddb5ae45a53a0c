"""The types of the SDK texts: what both renderers can say about a JSON Schema.

`schema.py` makes them, `typescript.py` and `python.py` spell them. A shape may be nested deeper
than Python can recurse; code over shapes keeps its own stack.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias, final

PrimitiveKind: TypeAlias = Literal["string", "number", "integer", "boolean", "null"]


@final
@dataclass(frozen=True, slots=True, eq=False)
class AnyShape:
    """Any JSON value: no type is given, or none that can be said."""


@final
@dataclass(frozen=True, slots=True, eq=False)
class NeverShape:
    """No value at all: the schema `false`."""


@final
@dataclass(frozen=True, slots=True, eq=False)
class PrimitiveShape:
    """A string, number, integer, boolean or null."""

    kind: PrimitiveKind


@final
@dataclass(frozen=True, slots=True, eq=False)
class LiteralShape:
    """One of some JSON values (`enum`, `const`); at least one."""

    values: tuple[object, ...]


@final
@dataclass(frozen=True, slots=True, eq=False)
class ArrayShape:
    """A list whose items have one shape."""

    item: Shape


@final
@dataclass(frozen=True, slots=True, eq=False)
class FieldShape:
    """One property of an object.

    Args:
        name: The key.
        shape: The shape of its value.
        required: Whether it must be there.
        note: Its description and its constraints (`format`, `minimum`, `default`, …) as one text,
            white space not yet collapsed, nothing escaped; empty for none.
    """

    name: str
    shape: Shape
    required: bool
    note: str


@final
@dataclass(frozen=True, slots=True, eq=False)
class ObjectShape:
    """An object with some known keys.

    Args:
        fields: The known keys in the order of the schema.
        extra: The shape of further keys; None when there may be none.
    """

    fields: tuple[FieldShape, ...]
    extra: Shape | None


@final
@dataclass(frozen=True, slots=True, eq=False)
class UnionShape:
    """One of several shapes, at least two."""

    branches: tuple[Shape, ...]


@final
@dataclass(frozen=True, slots=True, eq=False)
class ReferenceShape:
    """A named shape of the same schema (`$ref`), which may refer to itself."""

    name: str


Shape: TypeAlias = (
    AnyShape
    | NeverShape
    | PrimitiveShape
    | LiteralShape
    | ArrayShape
    | ObjectShape
    | UnionShape
    | ReferenceShape
)


@final
@dataclass(frozen=True, slots=True, eq=False)
class SchemaShape:
    """A whole schema.

    Args:
        root: Its shape.
        definitions: The shapes that references name, by a name that is unique in this schema and
            is the last segment of the reference, such as `Node`; in the order of first use.
        note: Description and constraints of the root itself.
        definition_notes: Description and constraints of each definition, by the same names; empty
            texts for none.
    """

    root: Shape
    definitions: Mapping[str, Shape]
    note: str
    definition_notes: Mapping[str, str] = field(default_factory=dict[str, str])
