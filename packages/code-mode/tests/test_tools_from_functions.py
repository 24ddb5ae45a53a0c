"""Tools made of Python functions."""

from __future__ import annotations

from collections.abc import Awaitable
from dataclasses import dataclass
from typing import Annotated, Literal, cast

import pytest
from pydantic import BaseModel, Field

from code_mode import Tool, ToolContext, ToolDefinitionError, ToolError, ToolOutput, tool
from code_runtime import AbortSignal


class Point(BaseModel):
    """A place on a map."""

    x: float
    y: float = 0.0


@dataclass
class Found:
    """What a search gives."""

    names: list[str]
    total_count: int


def _context(name: str) -> ToolContext:
    return ToolContext(name, "id", AbortSignal(), lambda line: None)


async def _call(made: Tool, **arguments: object) -> object:
    return await cast("Awaitable[object]", made.call(arguments, _context(made.name)))


def test_tool_has_the_schema_of_its_signature_and_the_texts_of_its_docstring() -> None:
    @tool
    async def search(
        query: str,
        near: Point | None = None,
        limit: Annotated[int, Field(ge=1, le=50)] = 10,
        kind: Literal["name", "text"] = "name",
    ) -> Found:
        """Search the index.

        Old entries come last.

        Args:
            query: The words
                to look for.
            limit: How many.
        """
        return Found([query], limit)

    assert search.name == "search"
    assert search.description == "Search the index.\n\nOld entries come last."
    assert search.input_schema == {
        "type": "object",
        "properties": {
            "query": {"type": "string", "description": "The words\nto look for."},
            "near": {"anyOf": [{"$ref": "#/$defs/Point"}, {"type": "null"}], "default": None},
            "limit": {
                "type": "integer",
                "minimum": 1,
                "maximum": 50,
                "default": 10,
                "description": "How many.",
            },
            "kind": {"type": "string", "enum": ["name", "text"], "default": "name"},
        },
        "required": ["query"],
        "additionalProperties": False,
        "$defs": {
            "Point": {
                "type": "object",
                "description": "A place on a map.",
                "properties": {"x": {"type": "number"}, "y": {"type": "number", "default": 0.0}},
                "required": ["x"],
            }
        },
    }
    assert search.output_schema is not None
    assert search.output_schema["properties"] == {
        "names": {"type": "array", "items": {"type": "string"}},
        "total_count": {"type": "integer"},
    }


@pytest.mark.anyio
async def test_tool_reads_arguments_and_writes_results_by_their_types() -> None:
    @tool
    async def move(to: Point, /, steps: int = 2, *, title: str = "x") -> list[Point]:
        assert isinstance(to, Point)
        return [Point(x=to.x * steps, y=to.y), Point(x=len(title))]

    result = await _call(move, to={"x": 2}, title="long")
    assert result == [{"x": 4.0, "y": 0.0}, {"x": 4.0, "y": 0.0}]


@pytest.mark.anyio
async def test_plain_function_without_annotations_takes_and_gives_anything() -> None:
    @tool(name="say", description="Says it.", parallel=True, from_programs=False, timeout_ms=5)
    def echo(value, _other=3):  # type: ignore[no-untyped-def]
        return {"value": value, "other": _other, "found": Found(["a"], 1)}

    assert (echo.name, echo.description, echo.parallel) == ("say", "Says it.", True)
    assert (echo.from_programs, echo.timeout_ms, echo.output_schema) == (False, 5, None)
    assert await _call(echo, value=[1], _other=4) == {
        "value": [1],
        "other": 4,
        "found": {"names": ["a"], "total_count": 1},
    }


@pytest.mark.anyio
async def test_tool_gets_the_context_of_its_call_where_it_asks_for_it() -> None:
    @tool
    def whoami(context: ToolContext, suffix: str = "!") -> str:
        return context.tool_name + suffix

    assert whoami.input_schema["properties"] == {"suffix": {"type": "string", "default": "!"}}
    assert await _call(whoami) == "whoami!"


@pytest.mark.anyio
async def test_tool_output_keeps_its_attachments() -> None:
    block = {"type": "image", "data": "AA==", "mimeType": "image/png"}

    @tool
    def draw() -> ToolOutput:
        return ToolOutput(Found(["a"], 1), [block])

    assert draw.output_schema is None
    assert await _call(draw) == ToolOutput({"names": ["a"], "total_count": 1}, [block])


@pytest.mark.anyio
async def test_wrong_arguments_are_refused_with_their_path() -> None:
    @tool
    def add(points: list[Point]) -> int:
        return len(points)

    with pytest.raises(ToolError) as caught:
        await _call(add, points=[{"x": 1}, {"x": "no"}])
    assert str(caught.value) == (
        "Cannot call add: $.points[1].x: Input should be a valid number, "
        "unable to parse string as a number"
    )


def test_function_that_cannot_be_a_tool_is_refused() -> None:
    def many(*values: int) -> None:
        """Take any number."""

    def strange(value: AbortSignal) -> None:
        """Take what has no schema."""

    with pytest.raises(ToolDefinitionError) as caught:
        tool(many)
    assert str(caught.value) == (
        "Cannot define tool 'many': parameters is '*values' among others, "
        "expected named parameters only"
    )
    with pytest.raises(ToolDefinitionError) as caught:
        tool(strange)
    assert str(caught.value) == (
        "Cannot define tool 'strange': annotations is Unable to generate pydantic-core schema for "
        "<class 'code_runtime._abort.AbortSignal'>. Set `arbitrary_types_allowed=True` in the "
        "model_config to ignore this error or implement `__get_pydantic_core_schema__` on your "
        "type to fully support it., expected types that have a JSON Schema"
    )
    with pytest.raises(ToolDefinitionError) as caught:
        tool(3)  # type: ignore[call-overload]
    assert str(caught.value) == "Cannot define tool: function is 3, expected a function"


def test_tool_refuses_fields_of_the_wrong_kind() -> None:
    def call(arguments: object) -> object:
        return arguments

    schema = {"type": "object"}
    wrong: list[tuple[dict[str, object], str]] = [
        (
            {"name": ""},
            "Cannot define tool '': name is '', expected a string of 1 to 256 characters",
        ),
        ({"description": None}, "Cannot define tool 'a': description is None, expected a string"),
        (
            {"input_schema": {"type": "array"}},
            "Cannot define tool 'a': input_schema is an object of type dict, expected a JSON Schema "
            'of an object, such as {"type": "object", "properties": {}}',
        ),
        (
            {"output_schema": []},
            "Cannot define tool 'a': output_schema is an object of type list, expected a JSON "
            "Schema, or None",
        ),
        ({"call": 1}, "Cannot define tool 'a': call is 1, expected a function"),
        (
            {"parallel": "yes"},
            "Cannot define tool 'a': parallel is 'yes', expected a bool, or a function of the "
            "arguments",
        ),
        ({"from_programs": 0}, "Cannot define tool 'a': from_programs is 0, expected a bool"),
        ({"takes_context": None}, "Cannot define tool 'a': takes_context is None, expected a bool"),
        ({"trusts_schema": 1}, "Cannot define tool 'a': trusts_schema is 1, expected a bool"),
        (
            {"timeout_ms": 0},
            "Cannot define tool 'a': timeout_ms is 0, expected a positive, finite number of "
            "milliseconds, or None",
        ),
    ]
    for fields, message in wrong:
        right: dict[str, object] = {
            "name": "a",
            "description": "",
            "input_schema": schema,
            "call": call,
        }
        with pytest.raises(ToolDefinitionError) as caught:
            Tool(**(right | fields))  # type: ignore[arg-type]
        assert str(caught.value) == message
