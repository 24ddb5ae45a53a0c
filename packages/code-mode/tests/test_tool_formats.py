"""Tools in the forms that APIs of models take."""

from __future__ import annotations

from mcp.types import Tool as McpTool

from code_mode import (
    Tool,
    as_anthropic_tools,
    as_mcp_tools,
    as_openai_chat_tools,
    as_openai_tools,
)

SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
TOOLS = [
    Tool("plain", "Does it.", {}, call=len),
    Tool("full", "", SCHEMA, {"type": "object"}, call=len),
    Tool("text", "", {}, {"type": "string"}, call=len),
]


def test_openai_form_is_a_function_that_is_not_strict() -> None:
    assert as_openai_tools(TOOLS)[1] == {
        "type": "function",
        "name": "full",
        "description": "",
        "parameters": SCHEMA,
        "strict": False,
    }
    assert as_openai_chat_tools(TOOLS)[0] == {
        "type": "function",
        "function": {"name": "plain", "description": "Does it.", "parameters": {"type": "object"}},
    }


def test_anthropic_form_says_that_the_schema_is_an_object() -> None:
    assert as_anthropic_tools(TOOLS)[:2] == [
        {"name": "plain", "description": "Does it.", "input_schema": {"type": "object"}},
        {"name": "full", "description": "", "input_schema": SCHEMA},
    ]


def test_mcp_form_is_what_the_sdk_reads() -> None:
    """An output schema goes along only when it is an object."""
    made = as_mcp_tools(TOOLS)
    assert made == [
        {"name": "plain", "description": "Does it.", "inputSchema": {"type": "object"}},
        {
            "name": "full",
            "description": "",
            "inputSchema": SCHEMA,
            "outputSchema": {"type": "object"},
        },
        {"name": "text", "description": "", "inputSchema": {"type": "object"}},
    ]
    read = [
        McpTool.model_validate(item).model_dump(by_alias=True, exclude_none=True) for item in made
    ]
    assert read == made
