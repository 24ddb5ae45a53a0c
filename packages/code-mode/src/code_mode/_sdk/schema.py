"""Reads any JSON Schema into shapes; what cannot be said becomes `AnyShape` at its own place.

Schemas come from MCP servers that nobody has vetted. Reading never raises and is linear in the size
of the schema, whatever its depth.
"""

from __future__ import annotations

from collections.abc import Generator, Hashable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple, TypeAlias

from ._steps import Steps, run_steps
from .combine import ANY, NEVER, NULL, Intersection, accepts_null, literal_key, unite
from .json_text import is_json, is_list, is_object, short_json
from .notes import (
    MAX_VALUE_CHARS,
    compose_note,
    constraints_of_items,
    describe_constraints,
    descriptions_of_branches,
    join_constraints,
    short_text,
)
from .references import Names, break_circles, follow_pointer, local_pointer, used_names
from .shapes import (
    AnyShape,
    ArrayShape,
    FieldShape,
    LiteralShape,
    NeverShape,
    ObjectShape,
    PrimitiveKind,
    PrimitiveShape,
    ReferenceShape,
    SchemaShape,
    Shape,
    UnionShape,
)

Schema: TypeAlias = Mapping[str, object]
_List: TypeAlias = "list[object] | tuple[object, ...]"

_PRIMITIVES: Final[Mapping[str, PrimitiveKind]] = {
    "string": "string",
    "number": "number",
    "integer": "integer",
    "boolean": "boolean",
    "null": "null",
}
_OBJECT_KEYWORDS: Final = ("properties", "required", "additionalProperties", "patternProperties")
_ARRAY_KEYWORDS: Final = ("items", "prefixItems")
# A choice that only says which keys must be there is said in words: the same object, written once
# for each choice, would bury it.
_CHOICE_KEYWORDS: Final = frozenset({"required", "type", "title", "description"})
_MAX_CHOICES: Final = 8
# References to references, which may go round in a circle.
_MAX_HOPS: Final = 100


class _Reading(NamedTuple):
    shape: Shape
    description: str = ""
    constraints: tuple[str, ...] = ()

    @property
    def note(self) -> str:
        return compose_note(self.description, self.constraints)


def read_schema(schema: Schema | bool) -> SchemaShape:
    """Read a JSON Schema.

    Args:
        schema: A schema of any draft, also a broken one.

    Returns:
        Its shape, with a definition for each local `$ref`. Following references and unions alone
        always ends; a circle of them has become `AnyShape`.
    """
    return _Reader(schema).read()


class _Reader:
    def __init__(self, document: object) -> None:
        self._document = document
        self._names = Names()
        self._name_of: dict[str, str] = {}
        self._pointer_of: dict[str, str] = {}
        self._found: list[str] = []
        self._definitions: dict[str, _Reading] = {}
        self._begun: set[str] = set()
        self._root: _Reading | None = None
        # The schemas being read, by identity: a dict that holds itself is no JSON, and no hang.
        self._open: set[int] = set()
        self._intersection = Intersection(self._look)

    def read(self) -> SchemaShape:
        root: _Reading = run_steps(self._schema(self._document))
        self._root = root
        if "" in self._name_of:
            self._definitions[self._name_of[""]] = root
        # Reading a definition may find further ones, which come at the end.
        for name in self._found:
            if name not in self._begun:
                run_steps(self._definition(name))
        if "" in self._name_of:
            root = root._replace(shape=ReferenceShape(self._name_of[""]))
        shapes = break_circles({name: self._definitions[name].shape for name in self._found})
        # A definition that was only merged into others is not referred to.
        used = used_names(root.shape, shapes)
        return SchemaShape(
            root.shape,
            {name: shapes[name] for name in used},
            root.note,
            {name: self._definitions[name].note for name in used},
        )

    def _definition(self, name: str) -> Steps[_Reading]:
        self._begun.add(name)
        reading = yield self._schema(follow_pointer(self._document, self._pointer_of[name]))
        self._definitions[name] = reading
        return reading

    def _look(self, shape: Shape) -> Shape:
        for _ in range(_MAX_HOPS):
            if not isinstance(shape, ReferenceShape):
                break
            known = self._definitions.get(shape.name)
            shape = ANY if known is None else known.shape
        return ANY if isinstance(shape, ReferenceShape) else shape

    def _schema(self, schema: object) -> Steps[_Reading]:
        if schema is False:
            return _Reading(NEVER)
        if not is_object(schema) or id(schema) in self._open:
            return _Reading(ANY)
        self._open.add(id(schema))
        reading = yield self._keywords(schema)
        self._open.discard(id(schema))
        return reading

    def _schemas(self, schemas: _List) -> Generator[Steps[_Reading], _Reading, list[_Reading]]:
        readings: list[_Reading] = []
        for schema in schemas:
            reading = yield self._schema(schema)
            readings.append(reading)
        return readings

    def _keywords(self, schema: Schema) -> Steps[_Reading]:
        """Read one schema: each group of keywords gives a part, and values fit all the parts."""
        parts = [self._reference(schema), (yield self._typed(schema))]
        for keyword in ("anyOf", "oneOf"):
            branches = schema.get(keyword)
            if is_list(branches) and branches:
                if isinstance(parts[1].shape, ObjectShape) and _only_names_keys(branches):
                    parts.append(_needed_keys(branches, keyword))
                else:
                    parts.append((yield self._union(branches)))
        branches = schema.get("allOf")
        if is_list(branches):
            parts += yield from self._schemas(branches)
        said = [part.shape for part in parts if not isinstance(part.shape, AnyShape)]
        if len(said) > 1:
            for name in _bare_names(said):
                if name not in self._begun:
                    yield self._definition(name)
        shape = self._intersection.of(said)
        if schema.get("nullable") is True and not accepts_null(shape):
            shape = unite((shape, NULL))
        description = schema.get("description")
        descriptions = [description if isinstance(description, str) else ""]
        descriptions += [part.description for part in parts]
        return _Reading(
            shape,
            next((text for text in descriptions if text.strip()), ""),
            join_constraints([describe_constraints(schema), *(part.constraints for part in parts)]),
        )

    def _reference(self, schema: Schema) -> _Reading:
        reference = schema.get("$ref")
        if not isinstance(reference, str):
            return _Reading(ANY)
        own_id = self._document.get("$id") if is_object(self._document) else None
        pointer = local_pointer(reference, own_id)
        if pointer is None:
            return _Reading(ANY, "", (f"a schema from elsewhere: {short_text(reference)}",))
        name = self._name_of.get(pointer)
        if name is None:
            target = follow_pointer(self._document, pointer)
            if not (is_object(target) or isinstance(target, bool)):
                return _Reading(ANY, "", (f"an unknown schema: {short_text(reference)}",))
            name = self._names.choose(pointer)
            self._name_of[pointer] = name
            self._pointer_of[name] = pointer
            self._found.append(name)
            if not pointer:
                self._begun.add(name)
                if self._root is not None:
                    self._definitions[name] = self._root
        return _Reading(ReferenceShape(name))

    def _typed(self, schema: Schema) -> Steps[_Reading]:
        literal = _literal(schema)
        if literal is not None:
            return _Reading(literal)
        given = schema.get("type")
        kinds = list(dict.fromkeys(_known_types(given if is_list(given) else (given,))))
        if not kinds and any(keyword in schema for keyword in _OBJECT_KEYWORDS):
            kinds = ["object"]
        elif not kinds and any(keyword in schema for keyword in _ARRAY_KEYWORDS):
            kinds = ["array"]
        shapes: list[Shape] = []
        constraints: tuple[str, ...] = ()
        for kind in kinds:
            if kind == "object":
                shapes.append((yield self._object(schema)).shape)
            elif kind == "array":
                array = yield self._array(schema)
                shapes.append(array.shape)
                constraints = array.constraints
            else:
                shapes.append(PrimitiveShape(_PRIMITIVES[kind]))
        return _Reading(unite(shapes) if shapes else ANY, "", constraints)

    def _object(self, schema: Schema) -> Steps[_Reading]:
        properties = schema.get("properties")
        required = dict.fromkeys(_strings(schema.get("required")))
        fields: list[FieldShape] = []
        for name, value in properties.items() if is_object(properties) else ():
            # A key that is no string comes from no JSON text.
            if isinstance(name, str):
                reading = yield self._schema(value)
                fields.append(FieldShape(name, reading.shape, name in required, reading.note))
        declared = {field.name for field in fields}
        fields.extend(FieldShape(name, ANY, True, "") for name in required if name not in declared)
        extra = yield self._extra(schema)
        return _Reading(ObjectShape(tuple(fields), _none_for_never(extra.shape)))

    def _extra(self, schema: Schema) -> Steps[_Reading]:
        given = schema.get("additionalProperties", schema.get("unevaluatedProperties"))
        patterns = schema.get("patternProperties")
        if not is_object(patterns) or not patterns:
            return (yield self._schema(given))
        # A key that fits a pattern has its shape, any other one that of `additionalProperties`.
        readings = yield from self._schemas((*patterns.values(), given))
        shapes = [reading.shape for reading in readings]
        return _Reading(ANY if any(isinstance(s, AnyShape) for s in shapes) else unite(shapes))

    def _array(self, schema: Schema) -> Steps[_Reading]:
        readings: list[_Reading] = []
        items = schema.get("items")
        prefix = schema.get("prefixItems")
        tuple_items = prefix if is_list(prefix) else items
        if is_list(tuple_items) and tuple_items:
            readings = yield from self._schemas(tuple_items)
            rest = items if tuple_items is prefix else schema.get("additionalItems")
            if is_object(rest):
                readings.append((yield self._schema(rest)))
        else:
            readings.append((yield self._schema(items)))
        shape = ArrayShape(unite(reading.shape for reading in readings))
        if len(readings) > 1:
            return _Reading(shape)
        return _Reading(shape, "", constraints_of_items(*readings[0][1:]))

    def _union(self, branches: _List) -> Steps[_Reading]:
        readings = yield from self._schemas(branches)
        return _Reading(
            unite(reading.shape for reading in readings),
            descriptions_of_branches([_branch_text(reading) for reading in readings]),
            join_constraints([reading.constraints for reading in readings]),
        )


def _literal(schema: Schema) -> LiteralShape | None:
    values: object = None
    if "const" in schema:
        values = [schema["const"]]
    if not is_list(values) or not is_json(values):
        values = schema.get("enum")
    if not is_list(values):
        return None
    kept: dict[Hashable, object] = {}
    for value in values:
        if is_json(value):
            kept.setdefault(literal_key(value), value)
    return LiteralShape(tuple(kept.values())) if kept else None


def _known_types(types: _List) -> Iterator[str]:
    for name in types:
        if isinstance(name, str) and (name in _PRIMITIVES or name in ("object", "array")):
            yield name


def _strings(value: object) -> Iterator[str]:
    if is_list(value):
        for item in value:
            if isinstance(item, str):
                yield item


def _none_for_never(shape: Shape) -> Shape | None:
    return None if isinstance(shape, NeverShape) else shape


def _bare_names(shapes: Sequence[Shape]) -> Iterator[str]:
    """Give the names of references among the shapes and among the branches of their unions."""
    for shape in shapes:
        for branch in shape.branches if isinstance(shape, UnionShape) else (shape,):
            if isinstance(branch, ReferenceShape):
                yield branch.name


def _branch_text(reading: _Reading) -> str:
    shape = reading.shape
    if reading.description and isinstance(shape, LiteralShape) and len(shape.values) == 1:
        return f"{short_json(shape.values[0], MAX_VALUE_CHARS)}: {reading.description}"
    return reading.description


def _only_names_keys(branches: _List) -> bool:
    return all(
        is_object(branch) and "required" in branch and _CHOICE_KEYWORDS.issuperset(branch)
        for branch in branches
    )


def _needed_keys(branches: _List, keyword: str) -> _Reading:
    choices = [
        " and ".join(short_json(name, MAX_VALUE_CHARS) for name in _strings(branch.get("required")))
        for branch in branches[:_MAX_CHOICES]
        if is_object(branch)
    ]
    said = ", or ".join(choice for choice in choices if choice)
    one = "exactly one of" if keyword == "oneOf" else "one of"
    return _Reading(ANY, "", (f"needs {one}: {said}",) if said else ())
