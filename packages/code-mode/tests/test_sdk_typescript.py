"""The SDK text in TypeScript: what it says, and that all of it compiles."""

from __future__ import annotations

import random
import re
from collections.abc import Mapping
from typing import Final

import pytest
from typescript_compiler import type_errors

from code_mode import Tool
from code_mode._errors import UnknownLanguageError
from code_mode._sdk import LANGUAGES, describe_tool, render_sdk
from code_mode._sdk.typescript_text import JSON_VALUE

CLOSED: Final = {"additionalProperties": False}


def tool(
    name: str,
    input_schema: Mapping[str, object] | None = None,
    output_schema: Mapping[str, object] | None = None,
    description: str = "",
) -> Tool:
    return Tool(name, description, input_schema or {"type": "object"}, output_schema, call=print)


def closed(**properties: object) -> dict[str, object]:
    """Give the schema of a closed object whose properties are all required."""
    return {"properties": properties, "required": list(properties), **CLOSED}


def block_of(text: str) -> str:
    """Take the fenced block from the end of a text; not even the least exact reader is misled."""
    opening = re.search(r"^(`{3,})ts\n", text, re.MULTILINE)
    assert opening is not None
    fence = opening[1]
    assert text.count(fence) == 2
    assert text.endswith(f"\n{fence}\n")
    return text[opening.end() :].removesuffix(f"{fence}\n")


def block(*tools: Tool, names_only: bool = False) -> str:
    return block_of(render_sdk("typescript", tools, names_only=names_only))


def args_type(schema: Mapping[str, object], *others: Mapping[str, object]) -> str:
    """Give the type of one argument with this schema, and see that the text compiles."""
    source = block(tool("t", closed(a=schema)))
    assert type_errors([source]) == []
    found = re.search(r"^  t: \{\n    a: (.*?);\n  \};$", source, re.MULTILINE | re.DOTALL)
    assert found is not None, source
    return found[1]


def types_of(schemas: list[dict[str, object]]) -> list[str]:
    """Give the types of several arguments, compiled together."""
    source = block(tool("t", closed(**{f"a{at}": schema for at, schema in enumerate(schemas)})))
    assert type_errors([source]) == []
    found = re.findall(r"^    a\d+: (.*?);$", source, re.MULTILINE | re.DOTALL)
    assert len(found) == len(schemas), source
    return [str(text) for text in found]


WHOLE: Final = """\
type JsonValue = null | boolean | number | string | JsonValue[] | { [key: string]: JsonValue };

type FindPlace = {
  near?: FindPlace;
} & Record<string, JsonValue>;

/** Where it is (format uri) */
type FindOutputLink = string;

interface ToolArgsMap {
  /** Adds two numbers. */
  add: {
    /** The first (at least 0) */
    a: number;
    b?: number;
  };
  /** Finds places. */
  find: {
    place: FindPlace;
  };
  "no-op": Record<string, never>;
}

interface ToolOutputMap {
  /** The sum */
  add: number;
  find: FindOutputLink[];
  "no-op": JsonValue;
}

type ToolName = keyof ToolOutputMap;

declare class ToolCallError extends Error {
  readonly name: "ToolCallError";
  readonly toolName: ToolName;
}

declare const tools: {
  [Name in ToolName]: (args: ToolArgsMap[Name]) => Promise<ToolOutputMap[Name]>;
};
"""

SOME_TOOLS: Final = (
    tool("no-op", {"type": "object", **CLOSED}),
    tool(
        "find",
        {
            "$defs": {
                "Place": {"type": "object", "properties": {"near": {"$ref": "#/$defs/Place"}}}
            },
            "properties": {"place": {"$ref": "#/$defs/Place"}},
            "required": ["place"],
        },
        {
            "$defs": {"Link": {"type": "string", "format": "uri", "description": "Where it is"}},
            "items": {"$ref": "#/$defs/Link"},
        },
        "Finds places.",
    ),
    tool(
        "add",
        {
            "type": "object",
            "properties": {
                "a": {"type": "number", "description": "The first", "minimum": 0},
                "b": {"type": "integer"},
            },
            "required": ["a"],
            **CLOSED,
        },
        {"type": "number", "description": "The sum"},
        "Adds two numbers.",
    ),
)

USAGE: Final = """
const sum: number = await tools.add({ a: 1 });
const links: string[] = await tools.find({ place: { near: { near: {}, further: [1, null] } } });
const nothing = await tools["no-op"]({});
const all: [number, string[]] = await Promise.all([tools.add({ a: 1, b: 2 }), tools.find({ place: {} })]);
try {
  await tools.add({ a: sum });
} catch (error) {
  if (!(error instanceof ToolCallError)) throw error;
  const name: "ToolCallError" = error.name;
  const which: "add" | "find" | "no-op" = error.toolName;
}
"""


def test_a_block_is_whole() -> None:
    """CM-031, CM-032, CM-034, CM-038."""
    assert block(*SOME_TOOLS) == WHOLE


def test_a_typed_call_compiles_and_a_wrong_one_does_not() -> None:
    """CM-031: `tools` is a mapped type from arguments to a Promise of the output."""
    wrong = [
        'await tools.add({ a: "1" });',
        "await tools.add({ b: 1 });",
        "await tools.add({ a: 1, c: 1 });",
        "await tools.find({});",
        'await tools["no-op"]({ a: 1 });',
        "await tools.other({});",
        "const links: string[] = await tools.add({ a: 1 });",
        "tools.find({ place: { near: 1 } });",
    ]
    messages = type_errors([WHOLE + USAGE, *(WHOLE + each for each in wrong)])
    assert [message.partition("(")[0] for message in messages if "error TS" in message] == [
        f"{number}.ts" for number in range(1, 1 + len(wrong))
    ]


def test_one_heading_then_rules_then_a_block() -> None:
    """CM-029."""
    text = render_sdk("typescript", SOME_TOOLS)
    assert re.findall(r"^#+ .*$", text, re.MULTILINE) == ["## Writing code for `run_code`"]
    assert text.startswith("## Writing code for `run_code`\n\n")
    assert text.endswith(f"\n\n```ts\n{WHOLE}```\n")


@pytest.mark.parametrize(
    "fact",
    [
        r"`code`, the program, and `description`",
        r"body of an async function in TypeScript",
        r"no `enum`, no `namespace`",
        r"annotations are advisory",
        r"await tools\.name\(args\)",
        r'await tools\["odd-name"\]\(args\)',
        r"lossless JSON",
        r"JSON value of the declared type",
        r"rejects with a `ToolCallError`, which has `toolName` and `message`",
        r"catch it",
        r"only read may overlap: `await Promise\.all",
        r"change something run one at a time, in the order",
        r"`await` a call before the ones that depend on it",
        r"returns and what it prints with `console\.log`",
        r"Images in tool results are attached after the run",
        r"stay out of the conversation",
        r"bindings of the SDK for use inside the program",
        r"do not make any of these names a tool that you can call directly",
    ],
)
@pytest.mark.parametrize("names_only", [False, True])
def test_the_rules_say(fact: str, names_only: bool) -> None:
    """CM-018, CM-030, CM-042."""
    rules = render_sdk("typescript", SOME_TOOLS, names_only=names_only).partition("```")[0]
    assert re.search(fact, " ".join(rules.split()))


def test_a_text_speaks_of_no_other_language() -> None:
    """CM-020."""
    for names_only in (False, True):
        text = render_sdk("typescript", SOME_TOOLS, names_only=names_only)
        assert not re.search("python|asyncio|print\\(", text, re.IGNORECASE)


def test_no_tools_give_empty_interfaces() -> None:
    """CM-032."""
    source = block()
    assert "interface ToolArgsMap {}\n\ninterface ToolOutputMap {}\n" in source
    assert type_errors([source]) == []


def test_tools_are_sorted_by_utf_16_code_units() -> None:
    """CM-032: an emoji is a surrogate pair and comes before U+FF5E."""
    names = [
        "b",
        "B",
        "_",
        "a1",
        "a",
        "\uff5e",
        "😀",
        "é",
        "a-b",
        "__proto__",
        "constructor",
        "10",
        "9",
    ]
    tools = [tool(name) for name in names]
    source = block(*tools)
    listed = re.findall(r"^  (.*): JsonValue;$", source, re.MULTILINE)
    assert [name.strip('"') for name in listed] == [
        *(
            "10",
            "9",
            "B",
            "_",
            "__proto__",
            "a",
            "a-b",
            "a1",
            "b",
            "constructor",
            "é",
            "😀",
            "\uff5e",
        )
    ]
    for seed in range(5):
        random.Random(seed).shuffle(tools)
        assert block(*tools) == source


def test_keys_are_bare_only_where_they_are_words() -> None:
    """CM-033."""
    bare = ["a", "$", "_1", "class", "constructor", "__proto__", "new", "get", "readonly"]
    quoted = ["", "1", "a-b", "é", 'q"q', "back\\slash", "a b", "line\n", "\u2028", "\ud800", "x\n"]
    source = block(tool("t", closed(**dict.fromkeys([*bare, *quoted], True))))
    keys = re.findall(r"^    (.*): JsonValue;$", source, re.MULTILINE)
    assert keys == [
        *bare,
        *('""', '"1"', '"a-b"', '"é"', r'"q\"q"', r'"back\\slash"', '"a b"'),
        *(r'"line\n"', r'"\u2028"', r'"\ud800"', r'"x\n"'),
    ]
    assert type_errors([source]) == []


def test_run_code_is_never_declared() -> None:
    """CM-003."""
    given = tool("a")
    hidden = tool("b")
    object.__setattr__(hidden, "name", "run_code")
    assert block(given, hidden) == block(given)


DESCRIPTIONS: Final = (
    ("Adds.", "  /** Adds. */\n"),
    ("  Adds\n\n  two\tnumbers\u2028now ", "  /** Adds two numbers now */\n"),
    ("a */ b **/ c /* d", "  /** a *\\/ b **\\/ c /* d */\n"),
    ("*/", "  /** *\\/ */\n"),
    ("ends with *", "  /** ends with * */\n"),
    ("/", "  /** / */\n"),
    ("{{name}} ${x} `y` \\u0041", "  /** {{name}} ${x} `y` \\u0041 */\n"),
    ("", ""),
    (" \n\t\u2029 ", ""),
    ("nul\0 esc\x1b del\x7f c1\x9f", "  /** nul\\u0000 esc\\u001b del\\u007f c1\\u009f */\n"),
    ("lone \ud800 and \udfff", "  /** lone \\ud800 and \\udfff */\n"),
    ("turned \u202e and \ufeff", "  /** turned \\u202e and \\ufeff */\n"),
    ("😀 stays", "  /** 😀 stays */\n"),
)


@pytest.mark.parametrize(("description", "comment"), DESCRIPTIONS)
def test_a_description_is_one_line_that_cannot_end_early(description: str, comment: str) -> None:
    """CM-034, CM-035; better than CM-036."""
    described = tool("t", {"properties": {"p": {"description": description}}}, None, description)
    source = block(described)
    inner = f"    {comment}" if comment else ""
    assert f"interface ToolArgsMap {{\n{comment}  t: {{\n{inner[2:]}    p?: JsonValue;\n" in source
    assert "interface ToolOutputMap {\n  t: JsonValue;\n}" in source


def test_no_description_ends_its_comment() -> None:
    """CM-035."""
    tools = [
        tool(f"t{at}", {"properties": {"p": {"description": description}}}, None, description)
        for at, (description, _) in enumerate(DESCRIPTIONS)
    ]
    alone = "".join(
        describe_tool("typescript", each).replace("const tools", f"const tools{at}")
        for at, each in enumerate(tools)
    )
    sources = [block(*tools), block(*tools, names_only=True), JSON_VALUE + alone]
    for source in sources:
        source.encode()
    assert type_errors(sources) == []


@pytest.mark.parametrize("names_only", [False, True])
@pytest.mark.parametrize("run", ["```", "`````", "``` ````` ```", "```ts", "~~~"])
def test_backticks_never_close_the_fence(run: str, names_only: bool) -> None:
    """Better than CM-036."""
    fenced = tool(
        run, closed(**{run: {"const": f"\n{run}\n", "description": run}}), None, f"\n{run}\n"
    )
    source = block(fenced, names_only=names_only)
    assert source.endswith("\n};\n")
    assert type_errors([source]) == []


def test_types_are_spelled() -> None:
    """CM-037, CM-039."""
    expected: list[tuple[dict[str, object], str]] = [
        ({}, "JsonValue"),
        ({"type": "string"}, "string"),
        ({"type": "number"}, "number"),
        ({"type": "integer"}, "number"),
        ({"type": "boolean"}, "boolean"),
        ({"type": "null"}, "null"),
        ({"type": "array"}, "JsonValue[]"),
        ({"items": {"items": {"type": "string"}}}, "string[][]"),
        ({"items": {"type": ["string", "null"]}}, "(string | null)[]"),
        ({"items": {"enum": ["a", "b"]}}, '("a" | "b")[]'),
        ({"items": {"const": "a|b"}}, '"a|b"[]'),
        ({"items": {"type": "object"}}, "Record<string, JsonValue>[]"),
        ({"items": False}, "never[]"),
        ({"items": {"const": -1}}, "-1[]"),
        ({"enum": ["a", 1, True, None, 2.5, -0.0]}, '"a" | 1 | true | null | 2.5 | 0'),
        ({"enum": ["x"], "const": "y"}, '"y"'),
        ({"const": {"a": [1, {}], "b c": "d"}}, '{"a": [1, {}], "b c": "d"}'),
        ({"const": []}, "[]"),
        ({"enum": [2**60, 1e21, 1e-7]}, "1152921504606846976 | 1e+21 | 1e-07"),
        ({"const": '*/ \u2028 \ud800 \x7f " \\'}, r'"*/ \u2028 \ud800 \u007f \" \\"'),
        ({"oneOf": [{"type": "string"}, {"items": {"type": "null"}}]}, "string | null[]"),
        (
            {"anyOf": [{"anyOf": [{"type": "string"}, {"type": "null"}]}, {"const": 1}]},
            "string | null | 1",
        ),
        ({"type": "string", "nullable": True}, "string | null"),
    ]
    assert types_of([schema for schema, _ in expected]) == [text for _, text in expected]


def test_objects_are_spelled() -> None:
    """CM-038."""
    text: dict[str, object] = {"type": "string"}
    expected: list[tuple[dict[str, object], str]] = [
        ({"type": "object"}, "Record<string, JsonValue>"),
        ({"type": "object", **CLOSED}, "Record<string, never>"),
        ({"additionalProperties": text}, "{ [key: string]: string }"),
        (
            {"additionalProperties": {"type": "object", **CLOSED}},
            "{ [key: string]: Record<string, never> }",
        ),
    ]
    assert types_of([schema for schema, _ in expected]) == [spelled for _, spelled in expected]
    assert args_type(closed(b=text)) == "{\n      b: string;\n    }"
    assert args_type({"items": {"properties": {"b": text}}}) == (
        "({\n      b?: string;\n    } & Record<string, JsonValue>)[]"
    )
    assert args_type({"properties": {"b": text}, "additionalProperties": {"type": "number"}}) == (
        "{\n      b?: string;\n    } & { [key: string]: number | JsonValue }"
    )


def test_an_open_object_takes_further_keys_beside_optional_ones() -> None:
    """CM-038: an intersection, since an index signature would have to fit `b?` too.

    Of the arguments themselves undeclared keys are not said: nobody should use them.
    """
    output = {"properties": {"b": {"type": "number"}}, "additionalProperties": {"type": "string"}}
    given = {"properties": {"b": {"type": "number"}, "deep": {"properties": {"c": True}}}}
    source = block(tool("t", given, output))
    usage = """
await tools.t({});
await tools.t({ b: 1, deep: { c: 1, more: { x: [null] } } });
const result = await tools.t({ b: 2 });
const b: number | undefined = result.b;
const other: JsonValue = result["other"];
"""
    wrong = ['await tools.t({ b: "1" });', "await tools.t({ more: 1 });"]
    messages = type_errors([source + usage, *(source + each for each in wrong)])
    assert [message[:5] for message in messages if "error" in message] == ["1.ts(", "2.ts("]


def test_definitions_get_names_that_are_free_identifiers() -> None:
    node: dict[str, object] = {"type": "object", "properties": {"n": {"$ref": "#/$defs/Node"}}}
    uses_node: dict[str, object] = {
        "$defs": {"Node": node, "a b[c]": {"type": "string"}, "": {"type": "null"}, "é": True},
        "properties": {
            "n": {"$ref": "#/$defs/Node"},
            "x": {"$ref": "#/$defs/a b[c]"},
            "y": {"$ref": "#/$defs/"},
            "z": {"$ref": "#/$defs/é"},
        },
    }
    names = ["make", "Make", "9", "é", "json-value", "Json", "x" * 256]
    source = block(*(tool(name, uses_node, uses_node) for name in names))
    aliases = re.findall(r"^type (.*?) = ", source, re.MULTILINE)
    assert len(aliases) == len(set(aliases)) == 2 + len(names) * 4
    assert {"MakeNode", "MakeNode2", "MakeABC", "MakeABC2", "Tool9Node", "Node"} <= set(aliases)
    assert type_errors([source]) == []


def test_a_result_shares_the_definitions_that_are_the_same_in_the_arguments() -> None:
    def schema(leaf: str, note: str = "") -> dict[str, object]:
        properties = {name: {"$ref": f"#/$defs/{name}"} for name in ("A", "B", "C", "D")}
        definitions: dict[str, object] = {
            "A": {"items": {"$ref": "#/$defs/B"}},
            "B": {"items": {"$ref": "#/$defs/Leaf"}},
            "C": {"items": {"$ref": "#/$defs/C"}},
            "D": {"type": "null", "description": note},
            "Leaf": {"type": leaf},
        }
        return {"$defs": definitions, "properties": properties}

    same = block(tool("t", schema("string"), schema("string")))
    other = block(tool("t", schema("string"), schema("number", "Not the same")))
    aliases = re.compile(r"^type (.*?) = (.*?);$", re.MULTILINE)
    given = [("TA", "TB[]"), ("TB", "TLeaf[]"), ("TLeaf", "string"), ("TC", "TC[]"), ("TD", "null")]
    assert aliases.findall(same)[1:-1] == given
    assert aliases.findall(other)[1:-1] == [
        *given,
        *(("TOutputA", "TOutputB[]"), ("TOutputB", "TOutputLeaf[]"), ("TOutputLeaf", "number")),
        ("TOutputD", "null"),
    ]
    assert type_errors([same, other]) == []


def test_references_in_every_place_compile() -> None:
    """Better than CM-040; an alias may not lead to itself with nothing between."""

    def ref(name: str) -> dict[str, object]:
        return {"$ref": f"#/$defs/{name}"}

    definitions: dict[str, object] = {
        "List": {"items": ref("List")},
        "Map": {"additionalProperties": ref("Map")},
        "Both": {"properties": {"a": ref("Both")}, "additionalProperties": ref("Both")},
        "Union": {"anyOf": [{"type": "string"}, {"items": ref("Union")}, ref("Map")]},
        "Self": ref("Self"),
        "Tick": {"anyOf": [ref("Tock"), {"type": "string"}]},
        "Tock": {"oneOf": [{"items": ref("Tick")}, ref("Tick")]},
        "Alias": ref("List"),
        "All": {"allOf": [ref("Both"), {"properties": {"b": ref("All")}}]},
        "Record": {"type": "object", **CLOSED},
    }
    schema = {"$defs": definitions, "properties": {name: ref(name) for name in definitions}}
    # The names of these tools add nothing, so that an alias could hide `Record`.
    tools = [
        tool("-", schema, schema),
        tool("r", {"properties": {"r": {"$ref": "#"}}}, {"$ref": "#"}),
    ]
    source = block(*tools)
    assert "type Self = JsonValue;" in source
    assert "type Record2 = Record<string, never>;" in source
    assert "  r: RRoot;\n" in source
    assert type_errors([source, JSON_VALUE + describe_tool("typescript", tools[0])]) == []


def nested(depth: int, keyword: str) -> dict[str, object]:
    schema: dict[str, object] = {"type": "string"}
    for number in range(depth):
        if keyword == "items":
            schema = {"items": schema}
        elif keyword == "properties":
            schema = {"properties": {"a": schema}}
        else:
            schema = {"oneOf": [{"const": number}, schema]}
    return schema


@pytest.mark.slow
def test_deep_types_compile() -> None:
    """CM-041, CM-055: the text of 4,000 levels of objects stays linear, too."""
    depths = {"items": 20_000, "properties": 4_000, "oneOf": 5_000}
    sources = [
        block(tool("t", closed(a=nested(depth, keyword)))) for keyword, depth in depths.items()
    ]
    assert "    a: string" + "[]" * 20_000 + ";\n" in sources[0]
    assert sources[1].count("a?: ") == 4_000
    assert len(sources[1]) < 4_000 * 150
    assert type_errors(sources) == []


@pytest.mark.slow
def test_depth_of_unions_is_no_limit() -> None:
    """CM-055."""
    source = block(tool("t", closed(a=nested(100_000, "oneOf"))))
    branches = " | ".join(str(number) for number in reversed(range(100_000)))
    assert f"    a: {branches} | string;\n" in source


def test_five_hundred_tools_compile() -> None:
    tools = [
        tool(f"tool-{number}", SOME_TOOLS[1].input_schema, {"type": "string"}, f"Number {number}")
        for number in range(500)
    ]
    sources = [block(*tools), block(*tools, names_only=True)]
    usage = '\nconst text: string = await tools["tool-499"]({ place: {} });\n'
    listed_usage = '\nconst value: JsonValue = await tools["tool-499"]({ place: {} });\n'
    assert type_errors([sources[0] + usage, sources[1] + listed_usage]) == []
    assert len(re.findall(r"^type Tool\d+Place = ", sources[0], re.MULTILINE)) == 500


def test_names_only_declares_what_finds_the_others() -> None:
    text = render_sdk("typescript", SOME_TOOLS, names_only=True)
    rules = " ".join(text.partition("```")[0].split())
    assert "`await tools.search_tools({ query })`" in rules
    assert "`[{ name, description }]`" in rules
    assert "`await tools.describe_tool({ name })`" in rules
    assert "Every tool listed below can be called." in rules
    source = block_of(text)
    assert "FindPlace" not in source
    assert (
        'type ListedToolName =\n  | "add" // Adds two numbers.\n'
        '  | "find" // Finds places.\n  | "no-op";\n'
    ) in source
    usage = """
const found: { name: string; description: string }[] = await tools.search_tools({ query: "add" });
const few = await tools.search_tools({ query: "add", limit: 3 });
const text: string = await tools.describe_tool({ name: few[0]!.name });
const sum: JsonValue = await tools.add({ a: 1 });
const nothing: JsonValue = await tools["no-op"]({});
function failed(error: ToolCallError): "add" | "find" | "no-op" | "search_tools" | "describe_tool" {
  return error.toolName;
}
"""
    wrong = ["await tools.search_tools({});", "await tools.other({});"]
    messages = type_errors([source + usage, *(source + each for each in wrong)])
    assert [message[:5] for message in messages if "error" in message] == ["1.ts(", "2.ts("]


def test_names_only_without_tools_compiles() -> None:
    source = block(names_only=True)
    assert "type ListedToolName = never;\n" in source
    assert type_errors([source + '\nawait tools.search_tools({ query: "" });\n']) == []


@pytest.mark.parametrize(
    ("description", "listed"),
    [
        ("x" * 80, "x" * 80),
        ("x" * 81, "x" * 79 + "…"),
        ("Does this. " + "And that " * 20, "Does this."),
        ("word " * 20, "word " * 14 + "word…"),
        ("Reads v1.2 files and " + "more " * 20, "Reads v1.2 files and" + " more" * 11 + "…"),
        ("two\nlines // */", "two lines // *\\/"),
    ],
)
def test_a_listed_description_is_one_short_line(description: str, listed: str) -> None:
    source = block(tool("t", None, None, description), names_only=True)
    assert f'  | "t"; // {listed}\n' in source


def test_describe_gives_one_tool_alone() -> None:
    declared = [describe_tool("typescript", each) for each in SOME_TOOLS]
    assert declared == [
        'declare const tools: {\n  "no-op": (args: Record<string, never>) => Promise<JsonValue>;\n};\n',
        "type FindPlace = {\n  near?: FindPlace;\n} & Record<string, JsonValue>;\n\n"
        "/** Where it is (format uri) */\ntype FindOutputLink = string;\n\n"
        "declare const tools: {\n  /** Finds places. */\n  find: (args: {\n    place: FindPlace;\n"
        "  }) => Promise<FindOutputLink[]>;\n};\n",
        "declare const tools: {\n  /** Adds two numbers. Gives: The sum */\n  add: (args: {\n"
        "    /** The first (at least 0) */\n    a: number;\n    b?: number;\n"
        "  }) => Promise<number>;\n};\n",
    ]
    usage = "const links: string[] = await tools.find({ place: {} });"
    assert type_errors([JSON_VALUE + each for each in declared]) == []
    assert type_errors([JSON_VALUE + declared[1] + usage]) == []


def test_what_the_arguments_say_of_themselves_follows_the_description() -> None:
    schema = {"description": "Needs a key.", "properties": {"a": {"type": "string"}}}
    assert "/** Does. Arguments: Needs a key. */" in block(tool("t", schema, None, "Does."))
    assert "/** Needs a key. */" in block(tool("t", schema))
    assert "/** Does. Needs a key. */" in block(tool("t", schema, None, "Does. Needs a key."))


def test_the_same_tools_give_the_same_bytes() -> None:
    """CM-006."""
    first = render_sdk("typescript", SOME_TOOLS).encode()
    assert first == render_sdk("typescript", tuple(reversed(SOME_TOOLS))).encode()


@pytest.mark.parametrize("language", ["constructor", "__proto__", "", "TypeScript", "get"])
def test_a_language_is_looked_up_by_its_own_name_only(language: str) -> None:
    """CM-008, CM-009."""
    assert LANGUAGES == ("typescript", "python")
    message = (
        f"Cannot render the SDK: the language is {language!r}, expected 'typescript' or 'python'"
    )
    with pytest.raises(UnknownLanguageError) as caught:
        render_sdk(language, SOME_TOOLS)
    assert str(caught.value) == message
    with pytest.raises(UnknownLanguageError) as caught:
        describe_tool(language, SOME_TOOLS[0])
    assert str(caught.value) == message
