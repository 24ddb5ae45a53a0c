"""Shapes from shapes: one of several (`anyOf`), all of several (`allOf`)."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Final, TypeAlias

from ._steps import Steps, run_steps
from .shapes import (
    AnyShape,
    FieldShape,
    LiteralShape,
    NeverShape,
    ObjectShape,
    PrimitiveShape,
    ReferenceShape,
    Shape,
    UnionShape,
)

ANY: Final = AnyShape()
NEVER: Final = NeverShape()
NULL: Final = PrimitiveShape("null")

Look: TypeAlias = Callable[[Shape], Shape]
"""Gives the shape behind a reference, `AnyShape` when it is not read yet; others as they are."""

# Merging copies fields; a chain of definitions that each extend the one before would otherwise make
# a text that grows with the square of the schema.
MAX_MERGED_FIELDS: Final = 20_000


def unite(shapes: Iterable[Shape]) -> Shape:
    """Give the shape of one of several; those that say the same come once.

    Args:
        shapes: The branches; nested unions stay as they are.

    Returns:
        A union, the only branch, or `NeverShape` when nothing is left.
    """
    branches: dict[Hashable, Shape] = {}
    for shape in shapes:
        if not isinstance(shape, NeverShape):
            branches.setdefault(_same_key(shape), shape)
    if not branches:
        return NEVER
    left = tuple(branches.values())
    return left[0] if len(left) == 1 else UnionShape(left)


def literal_key(value: object) -> Hashable:
    """Give what two equal JSON scalars have in common; a container equals only itself.

    In Python `True == 1`, in JSON not; `1 == 1.0` in both.
    """
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return ("number", value)
    if value is None or isinstance(value, (bool, str)):
        return (type(value).__name__, value)
    return ("container", id(value))


def accepts_null(shape: Shape) -> bool:
    """Tell whether null is plainly among the values of a shape."""
    if isinstance(shape, AnyShape):
        return True
    if isinstance(shape, LiteralShape):
        return any(value is None for value in shape.values)
    if isinstance(shape, UnionShape):
        return any(_is_null(branch) for branch in shape.branches)
    return _is_null(shape)


def _is_null(shape: Shape) -> bool:
    return isinstance(shape, PrimitiveShape) and shape.kind == "null"


def _same_key(shape: Shape) -> Hashable:
    if isinstance(shape, PrimitiveShape):
        return ("primitive", shape.kind)
    if isinstance(shape, ReferenceShape):
        return ("reference", shape.name)
    if isinstance(shape, LiteralShape) and len(shape.values) == 1:
        return ("literal", literal_key(shape.values[0]))
    if isinstance(shape, AnyShape):
        return ("any",)
    return ("other", id(shape))


class Intersection:
    """Gives the shape of all of several, as far as it can be said.

    Args:
        look: Looks behind a reference when it must be merged with something else.
    """

    def __init__(self, look: Look) -> None:
        self._look = look
        self._fields_left_count = MAX_MERGED_FIELDS
        # The pairs with a reference that are being read: two shapes may both refer to themselves.
        self._open: set[frozenset[Hashable]] = set()

    def of(self, shapes: Sequence[Shape]) -> Shape:
        """Give the shape of values that fit every one of the shapes.

        Objects are merged: the keys of all, required where one of them requires it. An object and a
        union of objects become a union of merged objects. Otherwise the first one that says
        something wins, a literal before a type, an integer before a number.
        """
        result: Shape = ANY
        for shape in shapes:
            result = run_steps(self._pair(result, shape))
        return result

    def _pair(self, left: Shape, right: Shape) -> Steps[Shape]:
        if isinstance(left, AnyShape) or isinstance(right, NeverShape):
            return right
        if isinstance(right, AnyShape) or isinstance(left, NeverShape):
            return left
        if _same_key(left) == _same_key(right):
            return left
        if not isinstance(left, ReferenceShape) and not isinstance(right, ReferenceShape):
            return (yield self._known_pair(left, right))
        key = frozenset((_same_key(left), _same_key(right)))
        if key in self._open:
            return left
        self._open.add(key)
        result = yield self._known_pair(left, right)
        self._open.discard(key)
        return result

    def _known_pair(self, left: Shape, right: Shape) -> Steps[Shape]:
        known_left, known_right = self._look(left), self._look(right)
        if isinstance(known_left, ObjectShape) and isinstance(known_right, ObjectShape):
            return (yield self._merge(known_left, known_right))
        if isinstance(known_left, ObjectShape) and isinstance(known_right, UnionShape):
            return (yield self._distribute(known_left, known_right))
        if isinstance(known_left, UnionShape) and isinstance(known_right, ObjectShape):
            return (yield self._distribute(known_right, known_left))
        if isinstance(known_left, AnyShape) or _is_narrower(known_right, known_left):
            return right
        return left

    def _distribute(self, base: ObjectShape, union: UnionShape) -> Steps[Shape]:
        branches: list[Shape] = []
        for branch in union.branches:
            self._fields_left_count -= 1
            if self._fields_left_count < 0:
                return base
            known = self._look(branch)
            # No value is an object and one of the others; a branch that is open leads back here.
            if isinstance(known, (AnyShape, ObjectShape, UnionShape)) and (
                frozenset((_same_key(base), _same_key(branch))) not in self._open
            ):
                merged = yield self._pair(base, branch)
                branches.append(merged)
        return unite(branches) if branches else base

    def _merge(self, left: ObjectShape, right: ObjectShape) -> Steps[Shape]:
        self._fields_left_count -= 1 + len(left.fields) + len(right.fields)
        if self._fields_left_count < 0:
            return left
        fields = {field.name: field for field in left.fields}
        for field in right.fields:
            known = fields.get(field.name)
            if known is None:
                fields[field.name] = field
                continue
            fields[field.name] = FieldShape(
                field.name,
                (yield self._pair(known.shape, field.shape)),
                known.required or field.required,
                known.note or field.note,
            )
        extra: Shape | None = None
        if left.extra is not None and right.extra is not None:
            extra = yield self._pair(left.extra, right.extra)
        return ObjectShape(tuple(fields.values()), extra)


def _is_narrower(shape: Shape, than: Shape) -> bool:
    if isinstance(shape, LiteralShape):
        return not isinstance(than, LiteralShape)
    if isinstance(shape, PrimitiveShape) and isinstance(than, PrimitiveShape):
        return shape.kind == "integer" and than.kind == "number"
    return False
