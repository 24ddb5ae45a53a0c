"""The connection to one server, driven without the plugin that owns it."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest

from code_mode import ToolContext, ToolError, ToolOutput
from code_mode._mcp.config import read_config
from code_mode._mcp.link import BACK_OFF_S, MAX_ATTEMPTS, ServerLink
from code_mode._mcp.listing import ListedTool
from code_runtime import AbortSignal

OddServer = Callable[..., dict[str, object]]

pytestmark = pytest.mark.anyio


class Taker:
    """Takes lists of tools, and raises for some of them."""

    def __init__(self, *faulty: int) -> None:
        self.count = 0
        self._faulty = faulty

    def __call__(self, tools: Sequence[ListedTool]) -> None:
        self.count += 1
        if self.count in self._faulty:
            raise LookupError(f"no room for list {self.count}")


@asynccontextmanager
async def linked(entry: dict[str, object], take: Taker) -> AsyncGenerator[ServerLink]:
    config = read_config({"mcpServers": {"odd": entry}})
    link = ServerLink(config.servers[0], config, take, lambda sentence: None)
    async with anyio.create_task_group() as tasks:
        assert await tasks.start(link.run) is None
        yield link
        tasks.cancel_scope.cancel()


async def ask(link: ServerLink, name: str) -> object:
    context = ToolContext(name, "call", AbortSignal(), lambda line: None)
    output: ToolOutput = await link.call(name, {}, context)
    return output.value


async def test_registration_that_fails_on_reconnect_is_tried_again_after_a_while(
    odd_server: OddServer, tmp_path: Path
) -> None:
    starts, take = tmp_path / "starts", Taker(2, 3)
    async with linked(odd_server(f"--count={starts}"), take) as link:
        with pytest.raises(ToolError, match="was lost during the call"):
            await ask(link, "crash")
        begin_s = time.monotonic()
        assert await ask(link, "echo") == "{}"
        waited_s = time.monotonic() - begin_s
    assert take.count == 1 + MAX_ATTEMPTS
    assert starts.read_text() == "started\n" * (1 + MAX_ATTEMPTS)
    # Clocks may differ by a tick; what is pinned is that the attempts do not follow at once.
    assert waited_s > sum(BACK_OFF_S) * 0.9


async def test_registration_that_keeps_failing_fails_the_call_and_the_next_one_tries_again(
    odd_server: OddServer, tmp_path: Path
) -> None:
    starts, take = tmp_path / "starts", Taker(2, 3, 4)
    async with linked(odd_server(f"--count={starts}"), take) as link:
        with pytest.raises(ToolError, match="was lost during the call"):
            await ask(link, "crash")
        with pytest.raises(ToolError) as caught:
            await ask(link, "echo")
        # How the process ended, which has nothing to do with it, follows.
        assert str(caught.value).startswith(
            "Cannot connect to MCP server 'odd': LookupError: no room for list 4 "
        )
        assert starts.read_text() == "started\n" * (1 + MAX_ATTEMPTS)
        assert await ask(link, "echo") == "{}"
    assert take.count == 2 + MAX_ATTEMPTS
