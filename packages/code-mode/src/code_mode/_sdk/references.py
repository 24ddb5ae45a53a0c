"""Local `$ref`s: where they point, what they are called, and those that go round in circles."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Final
from urllib.parse import unquote

from .combine import ANY, unite
from .json_text import is_list, is_object
from .shapes import ArrayShape, ObjectShape, ReferenceShape, Shape, UnionShape

ROOT_NAME: Final = "Root"


def local_pointer(reference: str, document_id: object) -> str | None:
    """Give the JSON pointer of a reference into its own document.

    Args:
        reference: The value of `$ref`.
        document_id: The `$id` of the document, a string or anything.

    Returns:
        A pointer such as `/$defs/Node` (the empty one for the document), or None for a reference to
        elsewhere.
    """
    base, _, fragment = reference.partition("#")
    own = document_id.rstrip("#") if isinstance(document_id, str) else ""
    if base and base != own:
        return None
    pointer = unquote(fragment, errors="replace")
    return pointer if not pointer or pointer.startswith("/") else None


def follow_pointer(document: object, pointer: str) -> object:
    """Give what a pointer leads to; None when it leads nowhere."""
    found = document
    for segment in _segments(pointer):
        if is_object(found):
            found = found.get(segment)
        elif is_list(found) and segment.isascii() and segment.isdigit() and len(segment) < 10:
            found = found[int(segment)] if int(segment) < len(found) else None
        else:
            return None
    return found


class Names:
    """Gives each pointer a name: its last segment, with a number where that is taken."""

    def __init__(self) -> None:
        self._taken: set[str] = set()
        self._next_number: dict[str, int] = {}

    def choose(self, pointer: str) -> str:
        """Choose the name of a pointer that has none."""
        stem = list(_segments(pointer))[-1] if pointer else ROOT_NAME
        name = stem
        number = self._next_number.get(stem, 2)
        while name in self._taken:
            name = f"{stem}{number}"
            number += 1
        self._next_number[stem] = number
        self._taken.add(name)
        return name


def break_circles(definitions: Mapping[str, Shape]) -> dict[str, Shape]:
    """Replace references that lead back to themselves with nothing between, as in `A = A | string`.

    Such a definition says nothing, and no type alias may be written so. A definition that only
    leads to a circle is cut off from it too.

    Args:
        definitions: Shapes by name.

    Returns:
        The same names in the same order, where a chain of references and unions always ends.
    """
    leads_to = {name: set(_bare_references(shape)) for name, shape in definitions.items()}
    led_from: defaultdict[str, list[str]] = defaultdict(list)
    for name, targets in leads_to.items():
        for target in targets:
            led_from[target].append(name)
    waiting_count = {name: len(targets) for name, targets in leads_to.items()}
    ending = [name for name, count in waiting_count.items() if count == 0]
    for name in ending:
        for source in led_from[name]:
            waiting_count[source] -= 1
            if waiting_count[source] == 0:
                ending.append(source)
    circling = frozenset(definitions).difference(ending)
    return {
        name: _without(shape, circling) if name in circling else shape
        for name, shape in definitions.items()
    }


def used_names(root: Shape, definitions: Mapping[str, Shape]) -> list[str]:
    """Give the names of the definitions that a shape leads to, in the order of first use."""
    used: dict[str, None] = {}
    stack: list[Iterator[Shape]] = [iter((root,))]
    while stack:
        shape = next(stack[-1], None)
        if shape is None:
            stack.pop()
        elif not isinstance(shape, ReferenceShape):
            stack.append(_parts(shape))
        elif shape.name not in used:
            used[shape.name] = None
            stack.append(iter((definitions[shape.name],)))
    return list(used)


def _parts(shape: Shape) -> Iterator[Shape]:
    if isinstance(shape, ArrayShape):
        yield shape.item
    elif isinstance(shape, UnionShape):
        yield from shape.branches
    elif isinstance(shape, ObjectShape):
        for field in shape.fields:
            yield field.shape
        if shape.extra is not None:
            yield shape.extra


def _segments(pointer: str) -> Iterator[str]:
    for segment in pointer.split("/")[1:]:
        yield segment.replace("~1", "/").replace("~0", "~")


def _bare_references(shape: Shape) -> Iterator[str]:
    stack = [shape]
    while stack:
        item = stack.pop()
        if isinstance(item, ReferenceShape):
            yield item.name
        elif isinstance(item, UnionShape):
            stack.extend(item.branches)


def _without(shape: Shape, names: frozenset[str]) -> Shape:
    """Replace bare references to some names by any value, and flatten the union around them."""
    kept: list[Shape] = []
    stack = [shape]
    while stack:
        item = stack.pop()
        if isinstance(item, UnionShape):
            stack.extend(reversed(item.branches))
        elif isinstance(item, ReferenceShape) and item.name in names:
            kept.append(ANY)
        else:
            kept.append(item)
    return unite(kept)
