"""A registry of tools over a real runtime, and programs that the tests of Code Mode run on it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from textwrap import dedent
from typing import Final

from code_mode import ToolRegistry, ToolResult
from code_runtime import AbortSignal, CodeRuntime, Context
from code_runtime_python import PythonCodeRuntime
from code_runtime_worker_thread import WorkerThreadCodeRuntime

PROVIDERS: Final[dict[str, type[CodeRuntime]]] = {
    "python": PythonCodeRuntime,
    "typescript": WorkerThreadCodeRuntime,
}
LANGUAGES: Final = tuple(PROVIDERS)


@asynccontextmanager
async def open_tools(
    *tools: object, language: str = "python", **config: object
) -> AsyncIterator[ToolRegistry]:
    """Open a registry with some tools over the provider of a language."""
    async with Context() as ctx:
        await ctx.plugin(PROVIDERS[language], {"spare_hosts": 1})
        await ctx.plugin(ToolRegistry, {"tools": tools, **config})
        yield ToolRegistry.of(ctx)


async def run_program(
    tools: ToolRegistry,
    code: str,
    *,
    signal: AbortSignal | None = None,
    on_log: Callable[[str], object] | None = None,
) -> ToolResult:
    """Let the model of a test call `run_code`."""
    arguments = {"code": dedent(code).strip(), "description": "Runs the program of a test"}
    return await tools.call("run_code", arguments, signal=signal, on_log=on_log, call_id="outer")
