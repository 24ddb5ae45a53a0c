"""The driver of this product: `python ours.py worker-thread|python asyncio|trio`.

It uses the public face alone, so that the driver of one commit also measures another.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import anyio

from code_runtime import CodeBindingNamespace, CodeRunRequest, Context

sys.path.insert(0, str(Path(__file__).resolve().parent))
# The import of a plain script; the package form is for type checkers.
if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from code_runtime import CodeRuntime

    from .serving import Bindings, Outcome, Server
else:
    from serving import Bindings, Outcome, Server

# Wide enough for the largest figure on a slow machine; everything else is as it comes.
CONFIG: dict[str, dict[str, object]] = {
    "worker-thread": {"max_concurrent_runs": 64, "memory_mb": 2_048, "compute_ms": 600_000},
    "python": {"max_concurrent_runs": 64, "memory_mb": 2_048, "cpu_seconds": 600},
}
ISOLATION = {
    "worker-thread": "a fresh worker thread in a Node process that holds one run at a time",
    "python": "a fresh CPython process",
}


class AnyioLoop:
    """The event loop of either backend."""

    def event(self) -> anyio.Event:
        """Make an event."""
        return anyio.Event()

    async def sleep(self, seconds: float) -> None:
        """Let other tasks run meanwhile."""
        await anyio.sleep(seconds)

    async def together(self, tasks: Sequence[Callable[[], Awaitable[None]]]) -> None:
        """Run all, and raise what one raises."""
        if len(tasks) == 1:
            await tasks[0]()
            return

        async def run(task: Callable[[], Awaitable[None]]) -> None:
            await task()

        async with anyio.create_task_group() as group:
            for task in tasks:
                group.start_soon(run, task)

    async def read_line(self) -> str:
        """Read a line of standard input off the loop; empty at its end."""
        return await anyio.to_thread.run_sync(sys.stdin.readline)


class Ours:
    """One provider behind the driver's protocol."""

    def __init__(self, provider: str, runtime: CodeRuntime, bindings: Bindings) -> None:
        self._provider = provider
        self._runtime = runtime
        self._namespaces = [CodeBindingNamespace("tools", bindings.functions())]

    def about(self) -> dict[str, object]:
        """Name it, with the version of its distribution."""
        from importlib.metadata import version

        return {
            "name": self._provider,
            "version": version(f"code-runtime-{self._provider}"),
            "isolation": ISOLATION[self._provider],
            "lacks": {},
        }

    async def run(self, program: str) -> Outcome:
        """Run one program and raise its failure."""
        result = await self._runtime.run(CodeRunRequest(program, self._namespaces))
        if result.error is not None:
            raise RuntimeError(f"{result.error.kind}: {result.error.message}")
        return Outcome(result.value, result.logs)


async def main(provider: str) -> None:
    """Load a provider and answer requests."""
    loop = AnyioLoop()
    bindings = Bindings(loop)
    async with Context() as ctx:
        if provider == "python":
            from code_runtime_python import PythonCodeRuntime

            await ctx.plugin(PythonCodeRuntime, CONFIG[provider])
        else:
            from code_runtime_worker_thread import WorkerThreadCodeRuntime

            await ctx.plugin(WorkerThreadCodeRuntime, CONFIG[provider])
        await Server(loop, bindings, Ours(provider, ctx.codeRuntime, bindings)).serve()


if __name__ == "__main__":
    anyio.run(main, sys.argv[1], backend=sys.argv[2])
