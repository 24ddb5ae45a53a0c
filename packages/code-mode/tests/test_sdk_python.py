"""The SDK text in Python, for tools and schemas that are there on purpose."""

from __future__ import annotations

import ast
import random
import re
import sys
import types
import typing
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import pytest

from code_mode._sdk.python import describe, render_sdk
from code_mode._sdk.python_types import Declarations
from code_mode._sdk.shapes import (
    AnyShape,
    ArrayShape,
    FieldShape,
    NeverShape,
    ObjectShape,
    PrimitiveShape,
    ReferenceShape,
    SchemaShape,
    Shape,
    UnionShape,
)
from code_mode._tools import Tool

TEXT = {"type": "string"}
STRING = PrimitiveShape("string")


def make_tool(
    name: str = "do",
    arguments: Mapping[str, object] | None = None,
    output: Mapping[str, object] | None = None,
    description: str = "",
) -> Tool:
    return Tool(name, description, arguments or {"type": "object"}, output, call=len)


def closed(required: tuple[str, ...] = (), **properties: object) -> dict[str, object]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(required),
        "additionalProperties": False,
    }


def block_of(text: str) -> str:
    """Take the declarations out of their fence."""
    found = re.fullmatch(r".*?\n(`{3,})python\n(.*)\n\1\n", text, re.DOTALL)
    assert found, text
    assert found[1] not in found[2]
    return found[2]


@contextmanager
def executed(block: str) -> Iterator[types.ModuleType]:
    """Execute declarations as a module, and evaluate every annotation in them."""
    assert block.encode().decode() == block
    module = types.ModuleType("declared_tools")
    sys.modules[module.__name__] = module
    try:
        exec(compile(block, "<sdk>", "exec", dont_inherit=True), module.__dict__)
        for item in list(vars(module).values()):
            if isinstance(item, type) and item.__module__ == module.__name__:
                typing.get_type_hints(item, include_extras=True)
        for method in vars(module.Tools).values():
            if isinstance(method, types.FunctionType) and method.__module__ == module.__name__:
                typing.get_type_hints(method, include_extras=True)
        yield module
    finally:
        del sys.modules[module.__name__]


def declared(*tools: Tool) -> str:
    """Render tools and give their block, which must be Python that runs."""
    block = block_of(render_sdk(tools))
    with executed(block):
        return block


def type_of(output: Mapping[str, object]) -> str:
    """Give the type of a tool's result."""
    found = re.search(r"-> (.*): \.\.\.$", declared(make_tool(output=output)), re.MULTILINE)
    assert found
    return found[1]


def type_of_shape(root: Shape, definitions: Mapping[str, Shape] | None = None) -> list[str]:
    """Give the blocks of a shape and, at the end, its type; all of it must compile."""
    module = Declarations()
    text, _ = module.declare(SchemaShape(root, definitions or {}, ""), "DoOutput")
    lines = [*module.blocks, text.text]
    compile("\n".join(lines), "<sdk>", "exec", dont_inherit=True)
    return lines


# The rules


@pytest.mark.parametrize("names_only", [False, True])
@pytest.mark.parametrize(
    "fact",
    [
        r"^## Writing Python for `run_code`\n",
        r"two string arguments, both required: `code`, .*`description`",
        r"body of an async function in Python: `await` and `return` work at its top level",
        r"for the program only\. They do not make a name directly callable",
        r"exactly two exist while the program runs: `tools` and `ToolCallError`",
        r"TypedDict classes .* constructing one is a NameError\. Build plain dicts and lists",
        r"`await tools\[\"name\"\]\(…\)` for a name",
        r"Arguments must be lossless JSON",
        r"returns a JSON value of the declared type.* Of `Any` nothing is known",
        r"`ToolCallError`\. Its `toolName` .* `str\(error\)` .* `try`/`except`",
        r"only read may overlap: `await asyncio\.gather\(",
        r"change something run alone, in the order in which they were made",
        r"prints and what it returns at the top level reaches you; use either or both",
        r"returned value must be lossless JSON",
        r"Images in the results of calls are attached after the run; all other .* stay inside",
    ],
)
def test_the_rules_say_every_fact(fact: str, *, names_only: bool) -> None:
    """CM-018, CM-020, CM-021, CM-042, CM-043."""
    text = render_sdk([make_tool()], names_only=names_only)
    assert len(re.findall(fact, text)) == 1
    assert text.count("\n## ") == 0
    assert "typescript" not in text.lower()
    assert "promise" not in text.lower()


# The block


def test_the_block_has_its_order() -> None:
    """CM-044, CM-045, CM-049."""
    search = make_tool(
        "search",
        closed(
            ("query",),
            query={"type": "string", "description": "Words  to\nfind."},
            kind={"enum": ["page", "file"]},
            where=closed(("site",), site=TEXT),
        ),
        {"type": "array", "items": {"type": "object", "properties": {"url": TEXT}}},
        "Search\nthe index.",
    )
    add = make_tool("add", closed(("a",), a={"type": "number"}), {"type": "number"})
    assert declared(search, add) == (
        """\
from typing import Literal, NotRequired, Protocol, TypedDict

class ToolCallError(Exception):
    toolName: str

class AddArgs(TypedDict):
    a: float

class SearchArgsWhere(TypedDict):
    site: str

class SearchArgs(TypedDict):
    # Words to find.
    query: str
    kind: NotRequired[Literal["page", "file"]]
    where: NotRequired[SearchArgsWhere]

class SearchOutput(TypedDict):
    url: NotRequired[str]
    # Further keys are allowed

class Tools(Protocol):
    async def add(self, args: AddArgs) -> float: ...
    async def search(self, args: SearchArgs) -> list[SearchOutput]:
        \"\"\"Search the index.\"\"\"

tools: Tools"""
    )


@pytest.mark.parametrize(
    ("schema", "names"),
    [
        (TEXT, "Any, Protocol"),
        (closed(("a",), a=TEXT), "Protocol, TypedDict"),
        (closed(a={"const": 1}), "Any, Literal, NotRequired, Protocol, TypedDict"),
    ],
)
def test_the_import_names_what_is_used(schema: Mapping[str, object], names: str) -> None:
    """CM-044."""
    arguments = {**schema, "type": "object"}
    output = None if "Any" in names else TEXT
    assert declared(make_tool("do", arguments, output)).startswith(f"from typing import {names}\n")


def test_no_tool_gives_an_empty_class() -> None:
    """CM-047."""
    assert declared() == (
        """\
from typing import Protocol

class ToolCallError(Exception):
    toolName: str

class Tools(Protocol):
    pass

tools: Tools"""
    )


def test_the_order_of_the_tools_does_not_matter() -> None:
    """CM-044."""
    tools = [
        make_tool(name, closed(a=closed(b=TEXT)), closed(c=TEXT), f"Does {name}.")
        for name in ("a", "B", "a-b", "a_b", "A_b", "\uff01", "😀", "_", "class")
    ]
    first = render_sdk(tools)
    for seed in range(5):
        shuffled = random.Random(seed).sample(tools, len(tools))
        assert render_sdk(shuffled) == first
        assert render_sdk(shuffled, names_only=True) == render_sdk(tools, names_only=True)


def test_a_name_that_is_no_method_is_a_comment_in_its_place() -> None:
    """CM-046."""
    block = declared(
        make_tool("class", description="Teach\nthem."),
        make_tool("b"),
        make_tool("a-b", closed(("x",), x=TEXT), TEXT),
        make_tool("_private"),
        make_tool('q"\n\ud800'),
    )
    _, _, body = block.partition("class Tools(Protocol):\n")
    assert body == (
        """\
    # tools["_private"](args: dict[str, Any]) -> Any
    # tools["a-b"](args: ABArgs) -> str
    async def b(self, args: dict[str, Any]) -> Any: ...
    # tools["class"](args: dict[str, Any]) -> Any
    #     Teach them.
    # tools["q\\"\\n\\ud800"](args: dict[str, Any]) -> Any

tools: Tools"""
    )


def test_a_class_without_a_method_has_pass_first() -> None:
    """CM-047."""
    assert declared(make_tool("a-b", description="Do.")).endswith(
        """\
class Tools(Protocol):
    pass
    # tools["a-b"](args: dict[str, Any]) -> Any
    #     Do.

tools: Tools"""
    )


def test_the_notes_of_a_whole_schema_are_told() -> None:
    arguments = {**closed(a=TEXT), "description": "What to do."}
    block = declared(make_tool("do", arguments, {"type": "integer", "minimum": 1}, "Do."))
    assert "class DoArgs(TypedDict):\n    # What to do.\n    a: NotRequired[str]\n" in block
    assert '        """Do."""\n        # Returns: at least 1\n' in block
    bare = declared(make_tool("do", {"type": "object", "description": "x"}))
    assert "        # Arguments: x\n        ...\n" in bare
    odd = declared(make_tool("d-o", {"type": "object", "description": "x"}, None, "Do."))
    assert "    #     Do.\n    #     Arguments: x\n" in odd


@pytest.mark.parametrize("description", ["", " \n\u2028\x1c"])
def test_a_blank_description_is_none(description: str) -> None:
    """CM-045, CM-053."""
    field = {"type": "string", "description": description}
    block = declared(make_tool("do", closed(a=field), TEXT, description))
    assert "    async def do(self, args: DoArgs) -> str: ...\n" in block
    assert "#" not in block


def test_hostile_descriptions_stay_in_their_place() -> None:
    """CM-053."""
    hostile = 'a """ \\" \\N{x}\x00\x7f\x85\ud800 ``` `````\rimport os\u2028{{x}} \\'
    block = declared(
        make_tool("do", closed(a={"type": "string", "description": hostile}), TEXT, hostile),
        make_tool("d-o", None, None, hostile),
    )
    line = 'a """ \\" \\N{x}\\x00\\x7f \\ud800 ``` ````` import os {{x}} \\'
    assert f"\n    # {line}\n    a: " in block
    assert f"\n    #     {line}\n" in block
    with executed(block) as module:
        assert module.Tools.do.__doc__ == line
    assert render_sdk([make_tool("do", None, None, hostile)]).endswith("\n``````\n")


# Types


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        (TEXT, "str"),
        ({"type": "number"}, "float"),
        ({"type": "integer"}, "int"),
        ({"type": "boolean"}, "bool"),
        ({"type": "null"}, "None"),
        ({"enum": ["a", 1, True, None]}, 'Literal["a", 1, True, None]'),
        ({"const": 2**60}, "Literal[1152921504606846976]"),
        ({"const": 1e21}, "Literal[1000000000000000000000]"),
        ({"type": "array", "items": TEXT}, "list[str]"),
        ({"type": "array"}, "list[Any]"),
        ({}, "Any"),
        ({"type": "quux"}, "Any"),
        ({"oneOf": [TEXT, {"type": "integer"}]}, "str | int"),
        ({"oneOf": [{"type": "null"}, TEXT, TEXT]}, "str | None"),
        (
            {"oneOf": [{"const": "a"}, {"type": "integer"}, {"const": "b"}]},
            'Literal["a", "b"] | int',
        ),
        ({"type": "object"}, "dict[str, Any]"),
        ({"type": "object", "additionalProperties": TEXT}, "dict[str, str]"),
        (closed(), "DoOutput"),
        (closed(a=TEXT), "DoOutput"),
    ],
)
def test_a_schema_has_its_type(schema: Mapping[str, object], expected: str) -> None:
    """CM-048, CM-052."""
    assert type_of(schema) == expected


def test_a_closed_object_without_keys_is_an_empty_class() -> None:
    """CM-048."""
    assert "\nclass DoOutput(TypedDict):\n    pass\n" in declared(make_tool(output=closed()))


def test_the_type_of_further_keys_is_told() -> None:
    """CM-049."""
    schema = {**closed(("a",), a=TEXT), "additionalProperties": closed(("b",), b=TEXT)}
    assert declared(make_tool(output=schema)).count("Further keys") == 1
    assert (
        "class DoOutputValue(TypedDict):\n    b: str\n\n"
        "class DoOutput(TypedDict):\n    a: str\n    # Further keys are allowed: DoOutputValue\n"
    ) in declared(make_tool(output=schema))


def test_no_value_at_all_is_any_or_nothing() -> None:
    assert type_of_shape(NeverShape()) == ["Any"]
    assert type_of_shape(UnionShape((STRING, NeverShape()))) == ["str"]
    assert type_of_shape(UnionShape((NeverShape(), NeverShape()))) == ["Any"]
    assert type_of_shape(ObjectShape((), NeverShape())) == [
        "class DoOutput(TypedDict):\n    pass",
        "DoOutput",
    ]


def test_nested_classes_are_named_by_their_place() -> None:
    """CM-050."""
    inner = closed(("x",), x=TEXT)
    schema = closed(
        (),
        some_field={"type": "array", "items": inner},
        choice={"oneOf": [TEXT, inner, closed(("y",), y=inner)]},
    )
    names = re.findall(
        r"^class (\w+)\(TypedDict\)", declared(make_tool("get", output=schema)), re.M
    )
    assert names == [
        "GetOutputSomeField",
        "GetOutputChoice2",
        "GetOutputChoice3Y",
        "GetOutputChoice3",
        "GetOutput",
    ]


def test_classes_of_one_name_are_numbered() -> None:
    """CM-050."""
    some = closed(("x",), x=TEXT)
    block = declared(*(make_tool(name, some) for name in ("a_b", "aB", "a-b", "a_b2", "A_B")))
    assert re.findall(r"^class (\w+)\(TypedDict\)", block, re.M) == [
        "ABArgs",
        "ABArgs2",
        "ABArgs3",
        "ABArgs4",
        "AB2Args",
    ]


@pytest.mark.parametrize(
    "key", ["a-b", "class", "", "__a", "ﬁ", "__debug__", "1", 'q"\n', "\ud800"]
)
def test_a_key_that_is_no_name_keeps_its_type(key: str) -> None:
    """CM-051: a call of TypedDict says more than a dict of anything."""
    schema = closed((key,), **{key: {"type": "string", "description": "It."}, "b": closed(c=TEXT)})
    block = declared(make_tool(output=schema))
    with executed(block) as module:
        assert module.DoOutput.__required_keys__ == {key}
        assert module.DoOutput.__optional_keys__ == {"b"}
        assert module.DoOutput.__annotations__[key] is str


def test_a_class_with_a_key_that_is_no_name_is_a_call() -> None:
    """CM-051."""
    schema = {**closed(("from",), **{"from": TEXT, "to": TEXT}), "additionalProperties": True}
    assert """
DoOutput = TypedDict("DoOutput", {
    "from": str,
    "to": NotRequired[str],
    # Further keys are allowed
})
""" in declared(make_tool(output=schema))


@pytest.mark.parametrize("word", ["match", "case", "type", "_", "_x", "str", "total"])
def test_a_soft_keyword_is_a_field(word: str) -> None:
    """CM-051."""
    assert f"\n    {word}: str\n" in declared(make_tool(output=closed((word,), **{word: TEXT})))


def test_a_tool_may_be_called_as_a_type_is() -> None:
    """CM-045."""
    numbers = {"type": "array", "items": {"enum": ["a"]}}
    block = declared(*(make_tool(name, None, numbers) for name in ("dict", "list", "str", "x")))
    assert 'async def x(self, args: "dict[str, Any]") -> \'list[Literal["a"]]\': ...' in block
    with executed(block) as module:
        hints = typing.get_type_hints(module.Tools.x)
        assert hints["return"] == list[typing.Literal["a"]]


# References


def test_a_definition_is_a_class_by_its_own_name() -> None:
    schema = {
        **closed(("a", "b"), a={"$ref": "#/$defs/city_name"}, b={"$ref": "#/$defs/City"}),
        "$defs": {
            "city_name": {"type": "string", "enum": ["Rome"], "description": "A city."},
            "City": {
                **closed(("name",), name={"$ref": "#/$defs/city_name"}),
                "description": "All.",
            },
        },
    }
    assert """
# A city.
CityName = Literal["Rome"]

class City(TypedDict):
    # All.
    name: CityName

class DoOutput(TypedDict):
    a: CityName
    b: City
""" in declared(make_tool(output=schema))


def test_a_recursive_class_is_quoted_where_it_is_not_there_yet() -> None:
    schema = {
        "$ref": "#/$defs/Node",
        "$defs": {
            "Node": closed(
                ("next", "some"),
                next={"anyOf": [{"$ref": "#/$defs/Node"}, {"type": "null"}]},
                some={"type": "array", "items": {"$ref": "#/$defs/Node"}},
                more={"$ref": "#/$defs/Node"},
                leaf={"$ref": "#/$defs/Leaf"},
            ),
            "Leaf": closed(("node",), node={"$ref": "#/$defs/Node"}),
        },
    }
    block = declared(make_tool(output=schema))
    assert (
        """
class Leaf(TypedDict):
    node: "Node"

class Node(TypedDict):
    next: "Node | None"
    some: list["Node"]
    more: NotRequired["Node"]
    leaf: NotRequired[Leaf]
"""
        in block
    )
    with executed(block) as module:
        assert typing.get_type_hints(module.Node)["next"] == module.Node | None
        assert typing.get_type_hints(module.Tools.do)["return"] is module.Node


def test_a_recursive_alias_is_quoted_inside_its_brackets() -> None:
    schema = {
        "$ref": "#/$defs/Json",
        "$defs": {
            "Json": {
                "anyOf": [
                    {"type": "string"},
                    {"type": "array", "items": {"$ref": "#/$defs/Json"}},
                    {"type": "object", "additionalProperties": {"$ref": "#/$defs/Json"}},
                ]
            }
        },
    }
    block = declared(make_tool(output=schema))
    assert '\nJson = str | list["Json"] | dict[str, "Json"]\n' in block
    assert "-> Json: ..." in block


def test_an_alias_of_a_class_around_it_follows_that_class() -> None:
    schema = {
        "$ref": "#/$defs/Node",
        "$defs": {
            "Node": closed(("next",), next={"$ref": "#/$defs/Maybe"}),
            "Maybe": {"anyOf": [{"$ref": "#/$defs/Other"}, {"type": "null"}]},
            "Other": {"anyOf": [{"$ref": "#/$defs/Node"}, {"type": "string"}]},
        },
    }
    block = declared(make_tool(output=schema))
    assert (
        """
class Node(TypedDict):
    next: "Maybe"

Other = Node | str

Maybe = Other | None
"""
        in block
    )
    with executed(block) as module:
        assert typing.get_type_hints(module.Node)["next"] == module.Node | str | None


def test_aliases_that_lead_to_each_other_end_in_any() -> None:
    definitions: dict[str, Shape] = {
        "A": ReferenceShape("B"),
        "B": UnionShape((ReferenceShape("A"), STRING)),
    }
    blocks = type_of_shape(ReferenceShape("A"), definitions)
    assert blocks == ["A = Any", "B = A | str", "A"]


def test_a_reference_to_nothing_is_any() -> None:
    assert type_of_shape(ReferenceShape("Gone")) == ["Any"]
    assert type_of_shape(ReferenceShape("A"), {"A": AnyShape()}) == ["Any"]


def test_definitions_of_one_name_stay_apart() -> None:
    def tool(name: str, kind: str) -> Tool:
        definition = closed(("a",), a={"type": kind})
        return make_tool(name, None, {"$ref": "#/$defs/List", "$defs": {"List": definition}})

    block = declared(tool("a", "string"), tool("b", "integer"))
    assert "class List(TypedDict):\n    a: str\n" in block
    assert "class List2(TypedDict):\n    a: int\n" in block


# Depth and size


@pytest.mark.parametrize(
    ("depth", "expected"),
    [
        (179, "list[" * 179 + "str" + "]" * 179),
        (180, "list[" * 180 + "str" + "]" * 180),
        (181, "list[" * 180 + "Any" + "]" * 180),
        (20_000, "list[" * 180 + "Any" + "]" * 180),
    ],
)
def test_lists_end_in_any_where_brackets_run_out(depth: int, expected: str) -> None:
    """CM-054, CM-055."""
    shape: Shape = STRING
    for _ in range(depth):
        shape = ArrayShape(shape)
    assert type_of_shape(shape)[-1] == expected


def test_lists_start_again_inside_a_field() -> None:
    """CM-054."""
    shape: Shape = STRING
    for _ in range(179):
        shape = ArrayShape(shape)
    field = FieldShape("a", shape, False, "")
    odd = FieldShape("a-b", shape, False, "")
    exact = "list[" * 179 + "str" + "]" * 179
    deeper = FieldShape("b", ArrayShape(shape), True, "")
    blocks = type_of_shape(ArrayShape(ObjectShape((field, deeper), None)))
    assert blocks == [
        "class DoOutput(TypedDict):\n"
        f"    a: NotRequired[{exact}]\n    b: {exact.replace('str', 'Any')}",
        "list[DoOutput]",
    ]
    assert f'    "a-b": NotRequired[{exact}],' in type_of_shape(ObjectShape((odd,), None))[0]


def test_a_deep_union_is_one_union() -> None:
    """CM-055."""
    shape: Shape = STRING
    kinds: list[Shape] = [PrimitiveShape("null"), PrimitiveShape("integer"), ArrayShape(STRING)]
    for depth in range(100_000):
        shape = UnionShape((kinds[depth % 3], shape))
    assert type_of_shape(shape) == ["list[str] | int | str | None"]


def test_a_union_of_many_branches_compiles() -> None:
    """CM-055, LM-004."""
    branches = tuple(ObjectShape((FieldShape("a", STRING, True, ""),), None) for _ in range(10_000))
    *classes, text = type_of_shape(UnionShape(branches))
    names = re.findall(r"\w+", text)
    assert names == [f"DoOutput{number}" for number in range(1, 10_001)]
    assert len(classes) == 10_000
    with executed("\n".join(["from typing import *", *classes, f"A = {text}", "class Tools: 0"])):
        pass


def test_a_deep_chain_of_unions_of_objects_is_rendered() -> None:
    """CM-055."""
    shape: Shape = STRING
    for _ in range(60_000):
        shape = UnionShape((ObjectShape((FieldShape("a", STRING, True, ""),), None), shape))
    *classes, text = type_of_shape(shape)
    assert len(classes) == 60_000
    assert text.count("DoOutput") == 60_000
    assert sum(map(len, classes)) < 60_000 * 180


@pytest.mark.parametrize("depth", [4_000, 20_000])
def test_deep_objects_are_rendered(depth: int) -> None:
    """CM-055."""
    shape: Shape = STRING
    for _ in range(depth):
        shape = ObjectShape((FieldShape("inner", shape, True, ""),), None)
    *classes, text = type_of_shape(shape)
    assert text == "DoOutput"
    assert len(classes) == depth
    assert max(map(len, classes)) < 400
    assert classes[-1] == "class DoOutput(TypedDict):\n    inner: DoOutputInner"


def test_a_deep_schema_is_rendered_whole() -> None:
    """CM-055."""
    schema: dict[str, object] = {"type": "string"}
    for _ in range(4_000):
        schema = {"type": "object", "properties": {"a": {"oneOf": [schema, {"type": "null"}]}}}
    block = block_of(render_sdk([make_tool(output=schema)]))
    compile(block, "<sdk>", "exec", dont_inherit=True)
    assert block.count("(TypedDict)") == 4_000


def test_definitions_in_a_long_chain_are_rendered() -> None:
    definitions: dict[str, object] = {
        f"D{number}": {"anyOf": [{"$ref": f"#/$defs/D{number + 1}"}, {"const": number}]}
        for number in range(5_000)
    }
    definitions["D5000"] = TEXT
    block = block_of(render_sdk([make_tool(output={"$ref": "#/$defs/D0", "$defs": definitions})]))
    compile(block, "<sdk>", "exec", dont_inherit=True)
    assert block.count(" = ") == 5_001


def test_a_long_enum_compiles() -> None:
    schema = {"enum": [f"value {number}" for number in range(20_000)]}
    block = block_of(render_sdk([make_tool(output=schema)]))
    compile(block, "<sdk>", "exec", dont_inherit=True)
    assert block.count('"value ') == 20_000


def test_five_hundred_tools_are_declared() -> None:
    schema = closed(("a",), a=TEXT, b={"type": "array", "items": closed(c=TEXT)})
    tools = [make_tool(f"tool_{n}", schema, schema, f"Number {n}.") for n in range(500)]
    block = declared(*tools)
    assert block.count("async def ") == 500
    assert block.count("(TypedDict)") == 2_000
    names = block_of(render_sdk(tools, names_only=True))
    with executed(names):
        assert names.count("    # tools.tool_") == 500
        assert len(names) < len(block) / 8


# Names only, and one tool alone


def test_names_only_declares_how_to_find_tools() -> None:
    text = render_sdk(
        [
            make_tool("search_tools", description="not this one"),
            make_tool("read_file", closed(a=TEXT), None, "Read a file.\n" + "More words. " * 20),
            make_tool("a-b", description=""),
        ],
        names_only=True,
    )
    assert 'await tools.search_tools({"query": "words"})' in text
    assert 'await tools.describe_tool({"name": "its_name"})' in text
    block = block_of(text)
    with executed(block):
        assert block == (
            """\
from typing import NotRequired, Protocol, TypedDict

class ToolCallError(Exception):
    toolName: str

class DescribeToolArgs(TypedDict):
    name: str

class SearchToolsArgs(TypedDict):
    query: str
    limit: NotRequired[int]

class SearchToolsOutput(TypedDict):
    name: str
    description: str

class Tools(Protocol):
    async def describe_tool(self, args: DescribeToolArgs) -> str:
        \"\"\"Give the declaration of one tool: the types of its arguments and of its result.\"\"\"
    async def search_tools(self, args: SearchToolsArgs) -> list[SearchToolsOutput]:
        \"\"\"Find tools by words of their names and descriptions, the best match first.\"\"\"
    # All other tools, called in the same way:
    # tools["a-b"]
    # tools.read_file: Read a file. More words. More words. More words. More words. More words. More…

tools: Tools"""
        )


def test_one_tool_is_described_alone() -> None:
    tool = make_tool("read_file", closed(("path",), path=TEXT), TEXT, "Read a file.")
    text = describe(tool)
    with executed(text):
        assert text == (
            """\
from typing import Protocol, TypedDict

class ReadFileArgs(TypedDict):
    path: str

class Tools(Protocol):
    async def read_file(self, args: ReadFileArgs) -> str:
        \"\"\"Read a file.\"\"\"
"""
        )
    odd = describe(make_tool("a-b"))
    with executed(odd):
        assert odd.endswith(
            'class Tools(Protocol):\n    pass\n    # tools["a-b"](args: dict[str, Any]) -> Any\n'
        )


def test_the_declarations_are_one_module_of_python() -> None:
    """CM-044."""
    block = declared(make_tool("do", closed(a=TEXT), closed(b=TEXT), "Do."))
    kinds = [type(statement).__name__ for statement in ast.parse(block).body]
    assert kinds == ["ImportFrom", *["ClassDef"] * 4, "AnnAssign"]
