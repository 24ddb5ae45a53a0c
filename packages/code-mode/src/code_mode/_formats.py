"""Tools in the forms that APIs of models take."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ._tools import Tool


def as_openai_tools(tools: Iterable[Tool]) -> list[dict[str, object]]:
    """Return tools as the `tools` of OpenAI's Responses API and of those like it.

    Each is `{"type": "function", "name", "description", "parameters", "strict": False}`: not
    strict, because the schemas of tools may use all of JSON Schema.
    """
    return [
        {
            "type": "function",
            "name": tool.name,
            "description": tool.description,
            "parameters": _object_schema(tool),
            "strict": False,
        }
        for tool in tools
    ]


def as_openai_chat_tools(tools: Iterable[Tool]) -> list[dict[str, object]]:
    """Return tools as the `tools` of OpenAI's Chat Completions API: `{"type", "function"}`."""
    return [
        {
            "type": "function",
            "function": {
                "name": tool.name,
                "description": tool.description,
                "parameters": _object_schema(tool),
            },
        }
        for tool in tools
    ]


def as_anthropic_tools(tools: Iterable[Tool]) -> list[dict[str, object]]:
    """Return tools as the `tools` of Anthropic's Messages API.

    Each is `{"name", "description", "input_schema"}`, where the schema says that it is an object.
    """
    return [
        {
            "name": tool.name,
            "description": tool.description,
            "input_schema": _object_schema(tool),
        }
        for tool in tools
    ]


def as_mcp_tools(tools: Iterable[Tool]) -> list[dict[str, object]]:
    """Return tools as the `tools` of MCP's `tools/list`.

    Each is `{"name", "description", "inputSchema"}`, and `outputSchema` when the tool has one that
    is an object, which is all that MCP allows.
    """
    items: list[dict[str, object]] = []
    for tool in tools:
        item: dict[str, object] = {
            "name": tool.name,
            "description": tool.description,
            "inputSchema": _object_schema(tool),
        }
        if tool.output_schema is not None and tool.output_schema.get("type") == "object":
            item["outputSchema"] = dict(tool.output_schema)
        items.append(item)
    return items


def _object_schema(tool: Tool) -> dict[str, object]:
    # A schema without a type means an object here; the APIs want to read it.
    return {"type": "object"} | dict(tool.input_schema)
