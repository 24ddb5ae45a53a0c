"""Reading JSON Schemas into shapes, over and above what CM-040 asks for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import pytest

from code_mode._sdk.schema import read_schema
from code_mode._sdk.shapes import (
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

NODE: Final[dict[str, object]] = {
    "type": "object",
    "properties": {"next": {"$ref": "#/$defs/Node"}},
    "additionalProperties": False,
}


def spell(shape: Shape) -> object:
    """Write a small shape as plain values: an array as a list, an object as a dict, `?` optional."""
    if isinstance(shape, AnyShape):
        return "any"
    if isinstance(shape, NeverShape):
        return "never"
    if isinstance(shape, PrimitiveShape):
        return shape.kind
    if isinstance(shape, LiteralShape):
        return ("is", *shape.values)
    if isinstance(shape, ArrayShape):
        return [spell(shape.item)]
    if isinstance(shape, ReferenceShape):
        return f"-> {shape.name}"
    if isinstance(shape, UnionShape):
        return ("one of", *(spell(branch) for branch in shape.branches))
    spelled = {
        field.name + ("" if field.required else "?"): spell(field.shape) for field in shape.fields
    }
    return spelled if shape.extra is None else {**spelled, "...": spell(shape.extra)}


def read(schema: dict[str, object] | bool) -> object:
    return spell(read_schema(schema).root)


def note_of(**keywords: object) -> str:
    return read_schema(keywords).note


def nested(depth: int, wrap: Callable[[dict[str, object]], dict[str, object]]) -> dict[str, object]:
    schema: dict[str, object] = {"type": "string"}
    for _ in range(depth):
        schema = wrap(schema)
    return schema


@pytest.mark.parametrize(
    ("schema", "shape"),
    [
        ({}, "any"),
        (True, "any"),
        (False, "never"),
        ({"type": "string"}, "string"),
        ({"type": "integer"}, "integer"),
        ({"type": "number"}, "number"),
        ({"type": "boolean"}, "boolean"),
        ({"type": "null"}, "null"),
        ({"type": "array"}, ["any"]),
        ({"type": "array", "items": {"type": "number"}}, ["number"]),
        ({"items": {"type": "number"}}, ["number"]),
        ({"type": "object"}, {"...": "any"}),
        ({"type": "object", "additionalProperties": False}, {}),
        ({"properties": {"a": {"type": "string"}}}, {"a?": "string", "...": "any"}),
        ({"type": "object", "additionalProperties": {"type": "null"}}, {"...": "null"}),
        ({"type": "object", "unevaluatedProperties": False}, {}),
        ({"type": ["string", "null"]}, ("one of", "string", "null")),
        ({"type": ["string"]}, "string"),
        ({"type": ["string", "string"]}, "string"),
        ({"type": "string", "nullable": True}, ("one of", "string", "null")),
        ({"type": ["string", "null"], "nullable": True}, ("one of", "string", "null")),
        ({"nullable": True}, "any"),
        ({"type": "string", "enum": ["a", "b"]}, ("is", "a", "b")),
        ({"enum": ["a", None], "nullable": True}, ("is", "a", None)),
        ({"enum": [{"a": 1}]}, ("is", {"a": 1})),
        ({"anyOf": [{"type": "string"}]}, "string"),
        ({"oneOf": [{"type": "string"}, {"type": "null"}]}, ("one of", "string", "null")),
        ({"anyOf": [{"type": "string"}, {"type": "string"}]}, "string"),
        ({"anyOf": [{"type": "string"}, False]}, "string"),
        ({"anyOf": [False]}, "never"),
        ({"anyOf": [{"const": 1}, {"const": 1.0}]}, ("is", 1)),
        ({"anyOf": [{"const": 1}, {"const": True}]}, ("one of", ("is", 1), ("is", True))),
    ],
)
def test_each_keyword_gives_its_shape(schema: dict[str, object] | bool, shape: object) -> None:
    """CM-037, CM-039."""
    assert read(schema) == shape


def test_const_wins_over_enum_and_type() -> None:
    """CM-037."""
    assert read({"const": "c", "enum": ["a", "b"], "type": "number"}) == ("is", "c")
    assert read({"const": None, "enum": ["a"]}) == ("is", None)


def test_equal_literals_come_once_and_true_is_not_one() -> None:
    assert repr(read({"enum": [1, True, 1.0, "1", 0, False, 1]})) == repr(
        ("is", 1, True, "1", 0, False)
    )


def test_a_literal_that_is_no_json_is_left_out() -> None:
    assert read({"enum": [float("nan"), "a", {1, 2}, 10**400]}) == ("is", "a")
    assert read({"const": float("inf"), "type": "number"}) == "number"
    assert read({"enum": [], "type": "string"}) == "string"
    assert read({"enum": "abc", "type": "string"}) == "string"


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "array", "prefixItems": [{"type": "string"}, {"type": "number"}]},
        {"prefixItems": [{"type": "string"}, {"type": "number"}], "items": False},
        {"type": "array", "items": [{"type": "string"}, {"type": "number"}]},
        {"items": [{"type": "string"}], "additionalItems": {"type": "number"}},
        {"prefixItems": [{"type": "string"}], "items": {"type": "number"}},
    ],
)
def test_a_tuple_is_a_list_of_any_of_its_items(schema: dict[str, object]) -> None:
    assert read(schema) == [("one of", "string", "number")]


def test_keys_of_patterns_become_further_keys() -> None:
    patterns: dict[str, object] = {"^x-": {"type": "string"}}
    assert read({"patternProperties": patterns, "additionalProperties": False}) == {"...": "string"}
    assert read({"patternProperties": patterns}) == {"...": "any"}


def test_required_without_a_property_is_a_key_of_any_value() -> None:
    """CM-040: the rest of the schema stays."""
    assert read({"properties": {"a": {"type": "string"}}, "required": ["b", "a", 3]}) == {
        "a": "string",
        "b": "any",
        "...": "any",
    }


def test_a_broken_part_becomes_any_at_its_own_place() -> None:
    """CM-040: upstream gives up the whole schema."""
    properties: dict[str, object] = {
        "good": {"type": "string", "pattern": "^a", "minimum": 3},
        "number": 5,
        "text": "string",
        "type": {"type": "file"},
        "types": {"type": [1, "string", None]},
        "branches": {"anyOf": {}},
        "none": {"oneOf": []},
        "items": {"type": "array", "items": 7},
        "properties": {"type": "object", "properties": [1]},
        "remote": {"$ref": "https://example.com/schema.json"},
    }
    assert read({"properties": properties, "required": "good"}) == {
        "good?": "string",
        "number?": "any",
        "text?": "any",
        "type?": "any",
        "types?": "string",
        "branches?": "any",
        "none?": "any",
        "items?": ["any"],
        "properties?": {"...": "any"},
        "remote?": "any",
        "...": "any",
    }


@pytest.mark.parametrize("schema", [None, 1, "string", [], ["type"], object(), {1: 2}])
def test_what_is_no_schema_is_any_value(schema: object) -> None:
    assert read(schema) == "any"  # type: ignore[arg-type]


def test_names_of_object_internals_are_ordinary_keys() -> None:
    names = ("__proto__", "constructor", "toString", "__class__", "items", "get", "$ref")
    properties: dict[str, object] = {name: {"type": "string"} for name in names}
    assert read({"properties": properties, "additionalProperties": False}) == {
        f"{name}?": "string" for name in names
    }


def test_a_schema_that_holds_itself_ends() -> None:
    """Such a dict is no JSON, and no reason to hang."""
    schema: dict[str, object] = {"type": "array"}
    schema["items"] = schema
    assert read(schema) == ["any"]


def test_a_reference_has_a_definition() -> None:
    whole = read_schema(
        {"$defs": {"Node": NODE}, "properties": {"first": {"$ref": "#/$defs/Node"}}}
    )
    assert spell(whole.root) == {"first?": "-> Node", "...": "any"}
    assert {name: spell(shape) for name, shape in whole.definitions.items()} == {
        "Node": {"next?": "-> Node"}
    }


@pytest.mark.parametrize(
    ("reference", "name"),
    [
        ("#/$defs/Node", "Node"),
        ("#/definitions/Node", "Node"),
        ("#/properties/a/items/0", "0"),
        ("#/$defs/a~1b%20~0c", "a/b ~c"),
        ("#/$defs/~01", "~1"),
        ("https://example.com/own#/$defs/Node", "Node"),
    ],
)
def test_every_local_pointer_is_followed(reference: str, name: str) -> None:
    schema: dict[str, object] = {
        "$id": "https://example.com/own",
        "$defs": {
            "Node": {"type": "string"},
            "a/b ~c": {"type": "string"},
            "~1": {"type": "string"},
        },
        "definitions": {"Node": {"type": "string"}},
        "properties": {"a": {"items": [{"type": "string"}]}},
        "additionalProperties": {"$ref": reference},
    }
    whole = read_schema(schema)
    assert spell(whole.root) == {"a?": ["string"], "...": f"-> {name}"}
    assert {key: spell(shape) for key, shape in whole.definitions.items()} == {name: "string"}


def test_a_reference_to_the_document_is_called_root() -> None:
    whole = read_schema({"properties": {"kids": {"items": {"$ref": "#"}}}})
    assert spell(whole.root) == "-> Root"
    assert spell(whole.definitions["Root"]) == {"kids?": ["-> Root"], "...": "any"}


def test_a_definition_may_refer_to_the_document() -> None:
    whole = read_schema({"$defs": {"A": {"items": {"$ref": "#"}}}, "items": {"$ref": "#/$defs/A"}})
    assert spell(whole.root) == "-> Root"
    assert {name: spell(shape) for name, shape in whole.definitions.items()} == {
        "Root": ["-> A"],
        "A": ["-> Root"],
    }


@pytest.mark.parametrize(
    "reference",
    ["#/$defs/None", "#/$defs/Text", "#anchor", "other.json", "#/$defs/List/99999999999", "#/x/1"],
)
def test_a_reference_that_leads_nowhere_is_any_value_with_a_note(reference: str) -> None:
    schema: dict[str, object] = {
        "$defs": {"Text": "string", "List": [1]},
        "properties": {"a": {"$ref": reference, "description": "What"}},
    }
    root = read_schema(schema).root
    assert isinstance(root, ObjectShape)
    assert spell(root.fields[0].shape) == "any"
    assert root.fields[0].note.startswith("What (a")
    assert reference in root.fields[0].note


def test_two_definitions_with_one_last_segment_get_two_names() -> None:
    whole = read_schema(
        {
            "$defs": {"A": {"type": "string"}, "A2": {"type": "null"}},
            "definitions": {"A": {"type": "number"}},
            "prefixItems": [
                {"$ref": "#/$defs/A"},
                {"$ref": "#/definitions/A"},
                {"$ref": "#/$defs/A2"},
            ],
        }
    )
    assert {name: spell(shape) for name, shape in whole.definitions.items()} == {
        "A": "string",
        "A2": "number",
        "A22": "null",
    }


@pytest.mark.parametrize(
    "definitions",
    [
        {"A": {"$ref": "#/$defs/A"}},
        {"A": {"$ref": "#/$defs/B"}, "B": {"$ref": "#/$defs/A"}},
        {"A": {"anyOf": [{"$ref": "#/$defs/B"}]}, "B": {"oneOf": [{"$ref": "#/$defs/B"}]}},
        {"A": {"allOf": [{"$ref": "#/$defs/A"}]}},
    ],
)
def test_a_reference_that_only_leads_to_itself_is_any_value(definitions: object) -> None:
    whole = read_schema({"$defs": definitions, "$ref": "#/$defs/A"})
    assert {spell(shape) for shape in whole.definitions.values()} == {"any"}


def test_a_circle_is_cut_inside_a_union_only() -> None:
    whole = read_schema(
        {
            "$defs": {
                "A": {"anyOf": [{"type": "string"}, {"$ref": "#/$defs/A"}, {"$ref": "#/$defs/L"}]},
                "L": {"items": {"$ref": "#/$defs/A"}},
            },
            "$ref": "#/$defs/A",
        }
    )
    assert {name: spell(shape) for name, shape in whole.definitions.items()} == {
        "A": ("one of", "string", "any", "-> L"),
        "L": ["-> A"],
    }


def test_all_of_merges_objects() -> None:
    assert read(
        {
            "$defs": {
                "Base": {
                    "type": "object",
                    "properties": {"id": {"type": "number"}, "up": {"$ref": "#/$defs/Base"}},
                }
            },
            "allOf": [
                {"$ref": "#/$defs/Base"},
                {"properties": {"id": {"type": "integer"}, "name": {"type": "string"}}},
                {"required": ["id"]},
                {"description": "nothing about the type"},
            ],
            "additionalProperties": False,
        }
    ) == {"id": "integer", "up?": "-> Base", "name?": "string"}


def test_a_definition_that_was_only_merged_is_not_listed() -> None:
    base: dict[str, object] = {"properties": {"id": {"type": "number"}}}
    whole = read_schema(
        {"$defs": {"Base": base}, "allOf": [{"$ref": "#/$defs/Base"}, {"required": ["id"]}]}
    )
    assert (spell(whole.root), whole.definitions) == ({"id": "number", "...": "any"}, {})


@pytest.mark.parametrize(
    ("branches", "shape"),
    [
        ([{"type": "string"}, {"minLength": 1}], "string"),
        ([{"minLength": 1}, {"type": "string"}], "string"),
        ([{"type": "string"}, {"enum": ["a"]}], ("is", "a")),
        ([{"type": "string"}, {"type": "number"}], "string"),
        ([{"type": "string"}, False], "never"),
        ([], "any"),
        ([{"$ref": "#/$defs/S"}], "-> S"),
        ([{"$ref": "#/$defs/S"}, {"$ref": "#/$defs/S"}], "-> S"),
        ([{"$ref": "#/$defs/S"}, {"const": "a"}], ("is", "a")),
    ],
)
def test_all_of_others_is_the_one_that_says_most(branches: list[object], shape: object) -> None:
    assert read({"$defs": {"S": {"type": "string"}}, "allOf": branches}) == shape


def test_a_part_that_is_still_being_read_takes_no_part() -> None:
    text: dict[str, object] = {"allOf": [{"$ref": "#/$defs/A"}, {"type": "string"}]}
    whole = read_schema({"$defs": {"A": text}, "$ref": "#/$defs/A"})
    assert {name: spell(shape) for name, shape in whole.definitions.items()} == {"A": "string"}


def test_an_object_and_a_choice_of_objects_are_merged() -> None:
    assert read(
        {
            "properties": {"a": {"type": "string"}},
            "oneOf": [
                {"properties": {"b": {"const": 1}}, "required": ["b"]},
                {"properties": {"c": {"const": 2}}},
            ],
        }
    ) == (
        "one of",
        {"a?": "string", "b": ("is", 1), "...": "any"},
        {"a?": "string", "c?": ("is", 2), "...": "any"},
    )


def test_a_choice_beside_an_object_keeps_what_can_be_one() -> None:
    schema: dict[str, object] = {
        "$defs": {"B": {"properties": {"b": {"type": "string"}}}},
        "type": "object",
        "anyOf": [{"$ref": "#/$defs/B"}, {"type": "null"}, {"anyOf": [{"const": 1}, {}]}],
    }
    assert read(schema) == ("one of", {"b?": "string", "...": "any"}, {"...": "any"})
    assert read({"type": "object", "anyOf": [{"const": 1}, {"const": 2}]}) == {"...": "any"}


def test_merging_shapes_that_refer_to_themselves_ends() -> None:
    union: dict[str, object] = {
        "anyOf": [{"properties": {"a": {"type": "string"}}}, {"$ref": "#/$defs/Union"}]
    }
    definitions: dict[str, object] = {
        "Union": union,
        "One": {"properties": {"next": {"$ref": "#/$defs/One"}}},
        "Two": {"properties": {"next": {"$ref": "#/$defs/Two"}, "b": {"type": "null"}}},
    }
    choice: list[object] = [{"$ref": "#/$defs/Union"}, {"required": ["c"]}]
    assert read({"$defs": definitions, "allOf": choice}) == {
        "a?": "string",
        "c": "any",
        "...": "any",
    }
    both: list[object] = [{"$ref": "#/$defs/One"}, {"$ref": "#/$defs/Two"}]
    assert read({"$defs": definitions, "allOf": both}) == {
        "next?": "-> One",
        "b?": "null",
        "...": "any",
    }


def test_a_choice_of_required_keys_is_said_in_words() -> None:
    choice: list[object] = [{"required": ["path"]}, {"required": ["url", "token"]}]
    whole = read_schema({"properties": {"path": {"type": "string"}}, "anyOf": choice})
    assert spell(whole.root) == {"path?": "string", "...": "any"}
    assert whole.note == 'needs one of: "path", or "url" and "token"'


@pytest.mark.parametrize(
    ("keywords", "note"),
    [
        ({"description": "How many", "minimum": 1, "maximum": 100, "default": 10}, None),
        ({"description": "When", "format": "date-time"}, "When (format date-time)"),
        ({"description": " \n "}, ""),
        ({"minimum": 0}, "at least 0"),
        ({"maximum": 2.5}, "at most 2.5"),
        ({"minimum": 1, "maximum": 1.0}, "1"),
        ({"exclusiveMinimum": 0, "exclusiveMaximum": 1}, "more than 0, less than 1"),
        ({"minimum": 0, "exclusiveMinimum": True, "maximum": 9}, "at most 9, more than 0"),
        ({"multipleOf": 5}, "a multiple of 5"),
        ({"minLength": 1, "maxLength": 80}, "1 to 80 characters"),
        ({"minLength": 1}, "at least 1 character"),
        ({"minLength": 0}, ""),
        ({"minItems": 2, "maxItems": 2}, "2 items"),
        ({"maxItems": 1}, "at most 1 item"),
        ({"minProperties": 1}, "at least 1 key"),
        ({"uniqueItems": True}, "no item twice"),
        ({"pattern": "^[a-z]+$"}, "pattern ^[a-z]+$"),
        ({"default": None}, "default null"),
        ({"default": {"a": [1, "b"]}}, 'default {"a": [1, "b"]}'),
        ({"examples": ["a", "b", "c", "d"]}, 'for example "a" or "b" or "c"'),
        ({"deprecated": True}, "deprecated"),
        ({"items": {"minimum": 0}, "minItems": 1}, "at least 1 item, each at least 0"),
        (
            {"items": {"description": "A path", "minLength": 1}},
            "each: A path (at least 1 character)",
        ),
        ({"anyOf": [{"minimum": 1, "type": "integer"}, {"type": "null"}]}, "at least 1"),
        ({"anyOf": [{"description": "A"}, {"description": "B"}]}, "Either A; or B"),
        ({"oneOf": [{"const": 1, "description": "A"}, {"const": 2}]}, "1: A"),
        (
            {"allOf": [{"description": "A", "minimum": 1}, {"maximum": 2}]},
            "A (at least 1, at most 2)",
        ),
        ({"minimum": "1", "format": 3, "default": float("nan"), "pattern": None}, ""),
        ({"minimum": True, "maxLength": float("inf"), "multipleOf": 10**5000}, ""),
    ],
)
def test_constraints_become_a_note(keywords: dict[str, object], note: str | None) -> None:
    expected = "How many (1 to 100, default 10)" if note is None else note
    assert note_of(**keywords) == expected


def test_long_constraints_are_cut() -> None:
    assert note_of(pattern="x" * 500) == "pattern " + "x" * 79 + "…"
    assert (
        note_of(default=["y"] * 10**5) == "default " + str(["y"] * 20).replace("'", '"')[:79] + "…"
    )
    assert note_of(default={"k": "z" * 10**6})[:20] == 'default {"k": "zzzzz'
    deep: object = []
    for _ in range(50_000):
        deep = [deep]
    assert note_of(default=deep) == "default " + "[" * 79 + "…"


def test_a_note_has_a_dozen_constraints_at_most() -> None:
    branches = [{"type": "string", "const": at, "format": f"f{at}"} for at in range(100)]
    assert note_of(anyOf=branches) == ", ".join(f"format f{at}" for at in range(12))


def test_notes_of_fields_and_definitions_stay_apart() -> None:
    whole = read_schema(
        {
            "description": "The root",
            "$defs": {"Day": {"type": "string", "description": "A day", "format": "date"}},
            "properties": {"day": {"$ref": "#/$defs/Day", "description": "First day"}},
        }
    )
    assert isinstance(whole.root, ObjectShape)
    assert whole.note == "The root"
    assert [field.note for field in whole.root.fields] == ["First day"]
    assert whole.definition_notes == {"Day": "A day (format date)"}


@pytest.mark.parametrize(
    ("depth", "shape_depth", "wrap"),
    [
        (20_000, 20_000, lambda schema: {"type": "array", "items": schema, "minItems": 1}),
        (100_000, 100_000, lambda schema: {"anyOf": [{"const": 1, "description": "x"}, schema]}),
        (4_000, 4_000, lambda schema: {"type": "object", "properties": {"a": schema}}),
        (20_000, 0, lambda schema: {"allOf": [schema, {"minLength": 1}]}),
    ],
    ids=["arrays", "unions", "objects", "intersections"],
)
@pytest.mark.slow
def test_depth_is_no_limit(
    depth: int, shape_depth: int, wrap: Callable[[dict[str, object]], dict[str, object]]
) -> None:
    """CM-041, CM-055."""
    shape = read_schema(nested(depth, wrap)).root
    seen_depth = 0
    while not isinstance(shape, PrimitiveShape):
        if isinstance(shape, ArrayShape):
            shape = shape.item
        elif isinstance(shape, UnionShape):
            shape = shape.branches[-1]
        else:
            assert isinstance(shape, ObjectShape)
            shape = shape.fields[0].shape
        seen_depth += 1
    assert (seen_depth, shape.kind) == (shape_depth, "string")


@pytest.mark.slow
def test_a_chain_of_definitions_is_no_limit() -> None:
    count = 10_000
    definitions: dict[str, object] = {
        f"D{number}": {
            "allOf": [{"$ref": f"#/$defs/D{number + 1}"}, {"properties": {f"p{number}": {}}}]
        }
        for number in range(count)
    }
    whole = read_schema({"$defs": definitions, "$ref": "#/$defs/D0"})
    assert list(whole.definitions) == ["D0"]
    first = whole.definitions["D0"]
    assert isinstance(first, ObjectShape)
    # Each step of the chain copies the fields of the one before, until that is too much.
    assert 100 < len(first.fields) < 300


def test_the_first_note_of_a_merged_field_stays() -> None:
    parts: list[object] = [
        {"properties": {"a": {"type": "string"}, "b": {"description": "One"}}},
        {"properties": {"a": {"description": "Two"}, "b": {"description": "Three"}}},
    ]
    root = read_schema({"allOf": parts}).root
    assert isinstance(root, ObjectShape)
    assert [(field.name, field.note) for field in root.fields] == [("a", "Two"), ("b", "One")]
