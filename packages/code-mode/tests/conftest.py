"""MCP servers for the tests, and a registry over them."""

from __future__ import annotations

import sys
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import TypeAlias

import anyio
import pytest

from code_mode import ToolRegistry
from code_mode._mcp import McpServers
from code_runtime import CodeRunRequest, CodeRunResult, CodeRuntime, Context

SERVERS = Path(__file__).parent / "mcp_servers"

# How long another process may take for what it does at once on a quiet machine.
PATIENCE_S = 30.0

Until: TypeAlias = Callable[[Callable[[], bool]], Awaitable[None]]
OddServer: TypeAlias = Callable[..., dict[str, object]]
OpenServers: TypeAlias = Callable[
    ..., AbstractAsyncContextManager[tuple[ToolRegistry, McpServers, Context]]
]


class NoRuntime(CodeRuntime):
    """Stands where programs would run, for tests that call tools and run none."""

    @property
    def language(self) -> str:
        return "python"

    @property
    def isolation(self) -> str:
        return "none"

    async def run(self, request: CodeRunRequest) -> CodeRunResult:
        raise NotImplementedError


@pytest.fixture
def until() -> Until:
    """Wait for what another process does: `await until(condition)`."""

    async def wait(condition: Callable[[], bool]) -> None:
        with anyio.fail_after(PATIENCE_S):
            while not condition():  # noqa: ASYNC110 - another process's state has no event
                await anyio.sleep(0.01)

    return wait


@pytest.fixture
def odd_server() -> OddServer:
    """Give the config entry of the odd server: `odd_server("--list=bad")`."""

    def entry(*options: str, **fields: object) -> dict[str, object]:
        script = str(SERVERS / "odd_server.py")
        return {"command": sys.executable, "args": ["-S", script, *options], **fields}

    return entry


@pytest.fixture
def open_servers() -> OpenServers:
    """Open a registry in mode `native` over servers, without a runtime of programs."""

    @asynccontextmanager
    async def open_them(
        servers: object, *, tools: object = (), **options: object
    ) -> AsyncGenerator[tuple[ToolRegistry, McpServers, Context]]:
        async with Context() as ctx:
            await ctx.plugin(NoRuntime)
            await ctx.plugin(ToolRegistry, {"mode": "native", "tools": tools})
            await ctx.plugin(McpServers, {"mcpServers": servers, **options})
            yield ToolRegistry.of(ctx), McpServers.of(ctx), ctx

    return open_them
