"""The tools that find tools, for programs whose prompt has names only, and for MCP clients."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from ._errors import ToolError
from ._sdk import describe_tool
from ._tools import DESCRIBE_TOOL, SEARCH_TOOLS, JsonObject, Tool

DEFAULT_LIMIT: Final = 10
MAX_LIMIT: Final = 100
MAX_QUERY_CHARS: Final = 1_000
_WORDS: Final = re.compile(r"[^\W_]+")
_HUMPS: Final = re.compile(r"(?<=[a-z\d])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_NAME_WEIGHT: Final = 3
_PART_WEIGHT: Final = 1

_FOUND: Final[JsonObject] = {
    "type": "array",
    "items": {
        "type": "object",
        "properties": {"name": {"type": "string"}, "description": {"type": "string"}},
        "required": ["name", "description"],
        "additionalProperties": False,
    },
}


def make_search_tool(find_tools: Callable[[], Sequence[Tool]]) -> Tool:
    """Make the tool that finds tools by words.

    Args:
        find_tools: Gives the tools to look at, when it is called.
    """

    def search(arguments: Mapping[str, object]) -> object:
        query, limit = str(arguments["query"]), arguments.get("limit", DEFAULT_LIMIT)
        assert isinstance(limit, (int, float))
        found = search_tools(find_tools(), query)[: int(limit)]
        return [{"name": tool.name, "description": tool.description} for tool in found]

    return Tool(
        SEARCH_TOOLS,
        "Find tools by words of their names and descriptions, the best match first.",
        {
            "type": "object",
            "properties": {
                "query": {
                    "type": "string",
                    "description": "Words, such as 'create issue'",
                    "maxLength": MAX_QUERY_CHARS,
                },
                "limit": {"type": "integer", "minimum": 1, "maximum": MAX_LIMIT, "default": 10},
            },
            "required": ["query"],
            "additionalProperties": False,
        },
        _FOUND,
        call=search,
        parallel=True,
    )


def make_describe_tool(find_tools: Callable[[], Sequence[Tool]], language: str) -> Tool:
    """Make the tool that gives the declaration of one tool.

    Args:
        find_tools: Gives the tools to look at, when it is called.
        language: The language of the declaration.
    """

    def describe(arguments: Mapping[str, object]) -> str:
        tools = {tool.name: tool for tool in find_tools()}
        name = str(arguments["name"])
        if name not in tools:
            near = ", ".join(tool.name for tool in search_tools(tools.values(), name)[:5])
            hint = f"one of its names, such as {near}" if near else "one that search_tools finds"
            raise ToolError(f"Cannot describe {name!r}: there is no such tool, expected {hint}")
        return describe_tool(language, tools[name])

    return Tool(
        DESCRIBE_TOOL,
        "Give the declaration of one tool: its arguments, its result, what it does.",
        {
            "type": "object",
            "properties": {"name": {"type": "string", "description": "The exact name"}},
            "required": ["name"],
            "additionalProperties": False,
        },
        {"type": "string"},
        call=describe,
        parallel=True,
    )


def search_tools(tools: Iterable[Tool], query: str) -> list[Tool]:
    """Return the tools that have a word of the query, the best match first.

    A word counts three times in a name, once in a description, and less when it is only a part of
    another word. An empty query finds all, by name.
    """
    words = _split(query)
    if not words:
        return sorted(tools, key=lambda tool: tool.name)
    scored = [(_score(tool, words), tool) for tool in tools]
    scored.sort(key=lambda pair: (-pair[0], pair[1].name))
    return [tool for score, tool in scored if score]


def _score(tool: Tool, words: Sequence[str]) -> float:
    in_name, in_text = _split(tool.name), _split(tool.description)
    name, text = tool.name.lower(), tool.description.lower()
    score = 0.0
    for word in words:
        score += _NAME_WEIGHT if word in in_name else (word in name)
        score += _PART_WEIGHT if word in in_text else (word in text) / 2
    return score


def _split(text: str) -> list[str]:
    return [word.lower() for word in _WORDS.findall(_HUMPS.sub(" ", text))]
