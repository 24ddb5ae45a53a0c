"""Arguments and results are checked against the schemas of tools, foreign ones within bounds."""

from __future__ import annotations

from itertools import pairwise

import pytest
from code_mode_host import open_tools, run_program

from code_mode import Tool, ToolDefinitionError, ToolResult, tool

pytestmark = pytest.mark.anyio


@tool
async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


async def test_wrong_arguments_are_refused_with_their_path_before_the_tool_runs() -> None:
    async with open_tools(add) as tools:
        result = await run_program(
            tools,
            """
            for arguments in ({"a": 1}, {"a": 1, "b": "two"}, {"a": 1, "b": 2, "c": 3}):
                try:
                    await tools.add(arguments)
                except ToolCallError as error:
                    print(error)
            """,
        )
    assert result.text.split("\n") == [
        "Cannot call add: $: 'b' is a required property, expected what its input schema allows",
        "Cannot call add: $.b: 'two' is not of type 'integer', expected what its input schema "
        "allows",
        "Cannot call add: $: Additional properties are not allowed ('c' was unexpected), expected "
        "what its input schema allows",
    ]


async def test_large_argument_is_checked_too() -> None:
    schema = {
        "type": "object",
        "properties": {"n": {"type": "array", "items": {"type": "integer"}}},
    }
    async with open_tools(Tool("count", "", schema, call=lambda args: len(args["n"]))) as tools:
        result = await run_program(
            tools,
            """
            print(await tools.count({"n": list(range(5_000))}))
            await tools.count({"n": [*range(5_000), "x"]})
            """,
        )
    assert (
        "ToolCallError: Cannot call count: $.n[5000]: 'x' is not of type 'integer'" in result.text
    )
    assert result.text.split("Captured output:\n")[1].startswith("5000\n")


async def test_result_that_its_schema_does_not_allow_fails_the_call() -> None:
    """CM-070."""
    wrong = Tool("wrong", "", {}, {"type": "string"}, call=lambda arguments: 3)
    async with open_tools(wrong, mode="both") as tools:
        result = await tools.call("wrong", {})
    assert result == ToolResult(
        "Error: Cannot use the result of wrong: $: 3 is not of type 'string', expected its output "
        "schema",
        is_error=True,
        error_code="TOOL_FAILED",
    )


async def test_schema_that_refers_elsewhere_fetches_nothing() -> None:
    schema = {"properties": {"a": {"$ref": "http://localhost:1/schema.json"}}}
    async with open_tools(Tool("far", "", schema, call=len), mode="native") as tools:
        result = await tools.call("far", {"a": 1})
    assert result.text == (
        "Error: Cannot call far: the schema refers to http://localhost:1/schema.json, which is not "
        "part of it, expected what its input schema allows"
    )


async def test_foreign_pattern_is_left_to_the_owner_of_the_tool() -> None:
    schema = {"properties": {"a": {"pattern": "^(a+)+$"}}}
    foreign = Tool("foreign", "", schema, call=len, trusts_schema=False)
    own = Tool("own", "", schema, call=len)
    async with open_tools(foreign, own, mode="native") as tools:
        assert (await tools.call("foreign", {"a": "a" * 60 + "!"})).text == "1"
        assert (await tools.call("own", {"a": "b"})).error_code == "INVALID_ARGUMENTS"


@pytest.mark.parametrize(
    "schema",
    [
        {"properties": {"a": {"pattern": "^\\p{L}$"}}},
        {"patternProperties": {"^\\p{L}$": {}}, "additionalProperties": False},
        {"patternProperties": {"^\\p{L}$": {}}, "unevaluatedProperties": False},
        {"patternProperties": {"^(a+)+$": {}}, "additionalProperties": False},
        {"patternProperties": {"^(a+)+$": {}}, "unevaluatedProperties": False},
    ],
)
async def test_no_foreign_pattern_is_tried(schema: dict[str, object]) -> None:
    """Python does not know some of them, and others take for ever."""
    foreign = Tool("foreign", "", schema, call=len, trusts_schema=False)
    async with open_tools(foreign, mode="native") as tools:
        assert (await tools.call("foreign", {"a" * 60 + "!": "b"})).text == "1"


async def test_foreign_schema_without_patterns_still_says_what_is_additional() -> None:
    schema = {"properties": {"a": {}}, "additionalProperties": False}
    foreign = Tool("foreign", "", schema, call=len, trusts_schema=False)
    async with open_tools(foreign, mode="native") as tools:
        assert (await tools.call("foreign", {"a": 1})).text == "1"
        assert (await tools.call("foreign", {"b": 1})).error_code == "INVALID_ARGUMENTS"


async def test_own_pattern_that_python_does_not_know_is_refused() -> None:
    """A check that never happens would be worse."""
    own = Tool("own", "", {"properties": {"a": {"pattern": "^\\p{L}$"}}}, call=len)
    async with open_tools() as tools:
        with pytest.raises(ToolDefinitionError) as caught:
            tools.register(own)
    assert str(caught.value) == (
        "Cannot define tool 'own': input_schema is no JSON Schema ('^\\\\p{L}$' is not a 'regex'), "
        "expected a JSON Schema"
    )


@pytest.mark.parametrize("keyword", ["$ref", "$dynamicRef"])
async def test_foreign_schema_of_endless_references_is_left_to_its_owner(keyword: str) -> None:
    names = [f"d{n}" for n in range(40)]
    definitions: dict[str, object] = {
        name: {"allOf": [{keyword: f"#/$defs/{after}"}, {keyword: f"#/$defs/{after}"}]}
        for name, after in pairwise(names)
    }
    definitions["d39"] = {"type": "integer"}
    schema = {"$defs": definitions, "properties": {"a": {"$ref": "#/$defs/d0"}}}
    tool = Tool("deep", "", schema, call=len, trusts_schema=False)
    async with open_tools(tool, mode="native") as tools:
        assert (await tools.call("deep", {"a": 1})).text == "1"


async def test_foreign_schema_with_an_address_that_is_none_is_refused() -> None:
    tool = Tool("odd", "", {"$schema": "http://["}, call=len, trusts_schema=False)
    async with open_tools() as tools:
        with pytest.raises(ToolDefinitionError) as caught:
            tools.register(tool)
    assert str(caught.value) == (
        "Cannot define tool 'odd': input_schema is no JSON Schema (ValueError), "
        "expected a JSON Schema"
    )


async def test_schema_that_is_none_is_refused() -> None:
    wrong = Tool("wrong", "", {"type": "object", "properties": {"a": {"type": 3}}}, call=len)
    async with open_tools() as tools:
        with pytest.raises(ToolDefinitionError) as caught:
            tools.register(wrong)
    assert str(caught.value) == (
        "Cannot define tool 'wrong': input_schema is no JSON Schema "
        "(3 is not valid under any of the given schemas), expected a JSON Schema"
    )
