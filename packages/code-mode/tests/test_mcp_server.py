"""The registry as an MCP server, driven by the official client."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, Literal

import anyio
import mcp_types as types
import pytest
from mcp.client import Client

from code_mode import Tool, ToolContext, ToolOutput, ToolRegistry
from code_mode._mcp.server import build_server
from code_runtime import Context
from code_runtime_python import PythonCodeRuntime

pytestmark = [
    pytest.mark.anyio,
    # The SDK's client warns that older versions of MCP have logs.
    pytest.mark.filterwarnings("ignore::mcp.shared.exceptions.MCPDeprecationWarning"),
]
Until = Callable[[Callable[[], bool]], Awaitable[None]]
Era = Literal["legacy", "auto"]
IMAGE = {"type": "image", "data": "AAAA", "mimeType": "image/png"}
OBJECT = {"type": "object"}


def tell(arguments: Mapping[str, object], context: ToolContext) -> object:
    context.log("on the way")
    return arguments


TOOLS = [
    Tool("tell", "Gives its arguments back", OBJECT, call=tell, takes_context=True),
    Tool("draw", "Draws", OBJECT, call=lambda _: ToolOutput("drawn", [IMAGE, {"type": "odd"}])),
]


@pytest.fixture(scope="module")
async def registry(anyio_backend: str, module_leaves_nothing: None) -> AsyncIterator[ToolRegistry]:
    async with Context() as ctx:
        await ctx.plugin(PythonCodeRuntime)
        await ctx.plugin(ToolRegistry, {"tools": TOOLS, "max_result_chars": 2_000})
        yield ToolRegistry.of(ctx)


@pytest.fixture(params=["legacy", "auto"])
def era(request: pytest.FixtureRequest) -> Era:
    """The handshake of older versions of MCP, and the way of newer ones."""
    chosen: Era = request.param
    return chosen


def program(code: str) -> dict[str, Any]:
    return {"code": code, "description": "Tries the server"}


def text_of(result: types.CallToolResult) -> str:
    block = result.content[0]
    assert isinstance(block, types.TextContent)
    return block.text


async def test_client_gets_run_code_with_all_declarations_and_search_tools(
    registry: ToolRegistry, era: Era
) -> None:
    async with Client(build_server(registry), mode=era) as client:
        tools = (await client.list_tools()).tools
    assert [tool.name for tool in tools] == ["run_code", "search_tools"]
    description = tools[0].description or ""
    assert description.endswith(registry.view(mode="both").sdk_text())
    assert "async def tell" in description
    assert "only tool" not in description  # a client has tools of others too
    assert tools[0].input_schema == registry.wire_tools()[0].input_schema
    assert tools[1].annotations == types.ToolAnnotations(read_only_hint=True, open_world_hint=False)


async def test_result_has_text_structure_and_attachments(registry: ToolRegistry, era: Era) -> None:
    async with Client(build_server(registry), mode=era) as client:
        result = await client.call_tool(
            "run_code",
            program("print('a')\nawait tools.draw({})\nreturn await tools.tell({'n': 1})"),
        )
    assert result.is_error is False
    assert result.structured_content == {"logs": ["a"], "result": {"n": 1}}
    assert [block.model_dump(by_alias=True, exclude_none=True) for block in result.content] == [
        {"type": "text", "text": 'a\n{\n  "n": 1\n}'},
        IMAGE,
        {"type": "text", "text": "[an attachment that is no content block of MCP]"},
    ]


async def test_failure_is_an_error_result(registry: ToolRegistry, era: Era) -> None:
    async with Client(build_server(registry), mode=era) as client:
        failed = await client.call_tool("run_code", program("raise ValueError('broken')"))
        unknown = await client.call_tool("no_such_tool", {})
        direct = await client.call_tool("tell", {})
        empty = await client.call_tool("run_code", {"code": "return 1"})
    for result in (failed, unknown, direct, empty):
        assert result.is_error is True
        assert result.structured_content is None
        assert text_of(result).startswith("Error: ")
    assert "ValueError: broken" in text_of(failed)
    assert "no_such_tool" in text_of(unknown)
    assert "run_code" in text_of(direct)
    assert "`description`" in text_of(empty)


async def test_search_tools_finds_tools_by_words(registry: ToolRegistry, era: Era) -> None:
    async with Client(build_server(registry), mode=era) as client:
        found = await client.call_tool("search_tools", {"query": "draws", "limit": 1})
        wrong = await client.call_tool("search_tools", {"limit": 0})
    assert json.loads(text_of(found)) == [{"name": "draw", "description": "Draws"}]
    assert wrong.is_error is True
    assert text_of(wrong).startswith("Error: Cannot call search_tools: ")


async def test_search_tools_finds_what_programs_may_call_alone() -> None:
    async with Context() as ctx:
        await ctx.plugin(PythonCodeRuntime)
        hidden = Tool("login", "Asks a person", OBJECT, call=len, from_programs=False)
        await ctx.plugin(ToolRegistry, {"tools": [*TOOLS, hidden]})
        async with Client(build_server(ToolRegistry.of(ctx)), mode="auto") as client:
            found = await client.call_tool("search_tools", {"query": ""})
    assert [item["name"] for item in json.loads(text_of(found))] == ["draw", "tell"]


async def test_search_tools_refuses_a_query_of_any_length(registry: ToolRegistry) -> None:
    async with Client(build_server(registry), mode="auto") as client:
        longest = await client.call_tool("search_tools", {"query": "x" * 1_000})
        longer = await client.call_tool("search_tools", {"query": "x" * 1_001})
    assert text_of(longest) == "[]"
    assert text_of(longer) == (
        "Error: Cannot call search_tools: $.query: 1,001 characters are more than 1,000, expected "
        "what its input schema allows"
    )


async def test_live_lines_are_progress_when_the_client_asks_for_it(
    registry: ToolRegistry, era: Era
) -> None:
    seen: list[tuple[float, float | None, str | None]] = []

    async def note(progress: float, total: float | None, message: str | None) -> None:
        seen.append((progress, total, message))

    async with Client(build_server(registry), mode=era) as client:
        await client.call_tool(
            "run_code",
            program("print('one')\nawait tools.tell({})\nprint('two \\ud800')"),
            progress_callback=note,
        )
        await anyio.lowlevel.checkpoint()
    # The client hands notifications to tasks of their own, which trio runs in any order.
    assert sorted(seen) == [
        (1, None, "one"),
        (2, None, "on the way"),
        (3, None, "two \\ud800"),
    ]


async def test_every_line_is_sent_before_the_answer(registry: ToolRegistry) -> None:
    seen: list[str] = []

    async def note(progress: float, total: float | None, message: str | None) -> None:
        seen.append(message or "")

    async with Client(build_server(registry), mode="legacy") as client:
        code = program("for number in range(500): print(number)")
        await client.call_tool("run_code", code, progress_callback=note)
        await anyio.lowlevel.checkpoint()
    assert sorted(seen, key=int) == [str(number) for number in range(500)]


async def test_live_lines_are_logs_otherwise(registry: ToolRegistry, era: Era) -> None:
    seen: list[types.LoggingMessageNotificationParams] = []

    async def note(params: types.LoggingMessageNotificationParams) -> None:
        seen.append(params)

    server = build_server(registry)
    async with Client(server, mode=era, log_level="info", logging_callback=note) as client:
        await client.call_tool("run_code", program("print('one')"))
        await anyio.lowlevel.checkpoint()
        if era == "legacy":
            await client.set_logging_level("error")
            await client.call_tool("run_code", program("print('two')"))
            await anyio.lowlevel.checkpoint()
    assert [(log.level, log.logger, log.data) for log in seen] == [("info", "run_code", "one")]


async def test_cancelled_request_ends_its_program(
    registry: ToolRegistry, era: Era, until: Until
) -> None:
    pids: list[int] = []
    started = anyio.Event()

    async def note(progress: float, total: float | None, message: str | None) -> None:
        pids.append(int(message or ""))
        started.set()

    endless = "import os\nprint(os.getpid(), flush=True)\nwhile True: pass"
    async with Client(build_server(registry), mode=era) as client:

        async def run() -> None:
            await client.call_tool("run_code", program(endless), progress_callback=note)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(run)
            with anyio.fail_after(30):
                await started.wait()
            tasks.cancel_scope.cancel()
        await until(lambda: not Path(f"/proc/{pids[0]}").exists())
        assert (await client.call_tool("run_code", program("return 2"))).is_error is False


async def test_values_that_json_messages_cannot_carry_are_text_alone(
    registry: ToolRegistry, era: Era
) -> None:
    async with Client(build_server(registry), mode=era) as client:
        deep = await client.call_tool(
            "run_code", program("v = 1\nfor _ in range(500): v = [v]\nreturn v")
        )
        large = await client.call_tool("run_code", program("return 'x' * 10_000"))
        odd = await client.call_tool("run_code", program("return '\\ud800'"))
    for result in (deep, large, odd):
        assert result.is_error is False
        assert result.structured_content is None
    assert len(text_of(large)) < 3_000
    assert "\\ud800" in text_of(odd)


async def test_client_is_told_of_changed_tools(registry: ToolRegistry) -> None:
    """CM-006."""
    changed = anyio.Event()

    async def note(message: object) -> None:
        if isinstance(message, types.ToolListChangedNotification):
            changed.set()

    server = build_server(registry)
    async with Client(server, mode="legacy", message_handler=note) as client:
        before = (await client.list_tools()).tools[0].description or ""
        remove = registry.register(Tool("later", "Comes later", OBJECT, call=lambda _: None))
        with anyio.fail_after(30):
            await changed.wait()
        after = (await client.list_tools()).tools[0].description or ""
        remove()
    assert "later" not in before
    assert "async def later" in after


async def test_newer_client_is_told_of_changed_tools(registry: ToolRegistry) -> None:
    async with (
        Client(build_server(registry), cache=None) as client,
        client.listen(tools_list_changed=True) as events,
    ):
        remove = registry.register(Tool("later", "Comes later", OBJECT, call=lambda _: None))
        with anyio.fail_after(30):
            async for _ in events:
                break
        after = (await client.list_tools()).tools[0].description or ""
        remove()
    assert "async def later" in after
