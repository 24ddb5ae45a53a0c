"""What the Python drivers of peers share: an asyncio loop, and the server of our own driver."""

from __future__ import annotations

import asyncio
import sys
import textwrap
from collections.abc import Awaitable, Callable, Sequence

from ..drivers.serving import Bindings, Outcome, Server, Subject

__all__ = ["AsyncioLoop", "Bindings", "Outcome", "Server", "Subject", "serve", "wrap_python"]


class AsyncioLoop:
    """The event loop of a driver."""

    def event(self) -> asyncio.Event:
        """Make an event."""
        return asyncio.Event()

    async def sleep(self, seconds: float) -> None:
        """Let other tasks run meanwhile."""
        await asyncio.sleep(seconds)

    async def together(self, tasks: Sequence[Callable[[], Awaitable[None]]]) -> None:
        """Run all, and raise what one raises."""
        await asyncio.gather(*(task() for task in tasks))

    async def read_line(self) -> str:
        """Read a line of standard input off the loop; empty at its end."""
        return await asyncio.to_thread(sys.stdin.readline)


async def serve(make: Callable[[Bindings], Subject]) -> None:
    """Answer requests with a subject."""
    loop = AsyncioLoop()
    bindings = Bindings(loop)
    await Server(loop, bindings, make(bindings)).serve()


def wrap_python(program: str) -> str:
    """Make a program the body of an async function `__main`."""
    return "async def __main():\n" + textwrap.indent(program.strip("\n"), "    ") + "\n"
