"""Tools are found by words."""

from __future__ import annotations

import pytest

from code_mode import Tool
from code_mode._search import make_search_tool, search_tools


def _tool(name: str, description: str = "") -> Tool:
    return Tool(name, description, {}, call=len)


TOOLS = [
    _tool("create_issue", "Create an issue in a project."),
    _tool("listIssues", "List what is open."),
    _tool("close_ticket", "Close one issue."),
    _tool("HTTPGet", "Fetch a page."),
    _tool("wetter", "Wie das Wetter in Köln wird."),
]


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ("create issue", ["create_issue", "close_ticket", "listIssues"]),
        ("issues", ["listIssues"]),
        ("CLOSE", ["close_ticket"]),
        ("http", ["HTTPGet"]),
        ("köln", ["wetter"]),
        ("nothing of this", []),
        ("", ["HTTPGet", "close_ticket", "create_issue", "listIssues", "wetter"]),
    ],
)
def test_search_finds_words_in_names_and_descriptions(query: str, names: list[str]) -> None:
    assert [tool.name for tool in search_tools(TOOLS, query)] == names
    assert [tool.name for tool in search_tools(reversed(TOOLS), query)] == names


def test_search_tool_gives_as_many_as_asked() -> None:
    many = [_tool(f"read_{n:02}", "Read.") for n in range(30)]
    search = make_search_tool(lambda: many)
    found = search.call({"query": "read"})
    assert isinstance(found, list)
    assert found[0] == {"name": "read_00", "description": "Read."}
    assert len(found) == 10
    assert search.call({"query": "read", "limit": 2.0}) == found[:2]
