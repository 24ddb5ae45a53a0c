"""Runs an MCP server of ours over its two transports."""

from __future__ import annotations

import os
import socket
import stat
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Final, cast, final

import anyio
import anyio.lowlevel
from mcp.server import NotificationOptions
from mcp.server.stdio import stdio_server

if TYPE_CHECKING:
    from mcp.server import Server

HTTP_PATH: Final = "/mcp"
CHUNK_BYTES: Final = 65_536
# What is still running when the server is stopped is cancelled after that.
GRACE_S: Final = 1
MAX_LINE_BYTES: Final = 67_108_864


async def serve_stdio(server: Server[Any]) -> None:
    """Serve one client over the standard streams of this process, until its end of input.

    Meanwhile whatever else is written to the standard output goes to standard error. Cancelling
    this ends it at once, also while it waits for input.
    """
    options = server.create_initialization_options(NotificationOptions(tools_changed=True))
    try:
        async with stdio_server(stdin=cast("Any", _Lines(0))) as (read, write):
            await server.run(read, write, options)
    except BaseExceptionGroup as group:
        # The client is gone: that is an end like the end of its input.
        _, rest = group.split((BrokenPipeError, anyio.BrokenResourceError))
        if rest is not None:
            raise rest from None


async def serve_http(
    server: Server[Any],
    host: str = "127.0.0.1",
    port: int = 0,
    *,
    on_ready: Callable[[str], object] | None = None,
) -> None:
    """Serve any number of clients over streamable HTTP, until it is cancelled.

    There is no authentication: whoever reaches the port can run programs. On a host of this machine
    requests of web pages from elsewhere are refused. Needs asyncio, as uvicorn does.

    Args:
        server: The server.
        host: The address to listen on.
        port: The port; 0 takes a free one.
        on_ready: Given the URL once the port is open.

    Raises:
        OSError: The port cannot be opened.
    """
    import uvicorn

    @final
    class Web(uvicorn.Server):
        @contextmanager
        def capture_signals(self) -> Iterator[None]:
            yield  # they belong to whoever runs this

    app = server.streamable_http_app(streamable_http_path=HTTP_PATH, host=host)
    config = uvicorn.Config(
        app, log_config=None, lifespan="on", timeout_graceful_shutdown=GRACE_S, ws="none"
    )
    web = Web(config)
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.create_server((host, port), family=family, backlog=128) as listener:
        shown = f"[{host}]" if ":" in host else host
        if on_ready is not None:
            on_ready(f"http://{shown}:{listener.getsockname()[1]}{HTTP_PATH}")
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_serve_shielded, web, listener)
            try:
                await anyio.sleep_forever()
            finally:
                web.should_exit = True


async def _serve_shielded(web: Any, listener: socket.socket) -> None:
    # A cancelled uvicorn leaves its connections and the lifespan of the app as they are.
    with anyio.CancelScope(shield=True):
        await web.serve(sockets=[listener])


@final
class _Lines:
    """The lines of a descriptor, read without a thread, which could not be cancelled."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        kind = os.fstat(descriptor).st_mode
        self._may_wait = not (stat.S_ISREG(kind) or _is_null(descriptor))

    async def __aiter__(self) -> AsyncIterator[str]:
        parts: list[bytes] = []
        size_bytes = 0
        while True:
            if self._may_wait:
                await anyio.wait_readable(self._descriptor)
            else:
                await anyio.lowlevel.checkpoint()
            chunk = b""
            with suppress(BlockingIOError, ConnectionResetError):
                chunk = os.read(self._descriptor, CHUNK_BYTES)
                if not chunk:
                    break
            *lines, rest = chunk.split(b"\n")
            for line in lines:
                yield b"".join((*parts, line)).decode("utf-8", "replace")
                parts, size_bytes = [], 0
            parts.append(rest)
            size_bytes += len(rest)
            if size_bytes > MAX_LINE_BYTES:
                sys.stderr.write(f"code-mode: a message of more than {MAX_LINE_BYTES:,} bytes\n")
                return
        if size_bytes:
            yield b"".join(parts).decode("utf-8", "replace")


def _is_null(descriptor: int) -> bool:
    return (
        os.path.sameopenfile(descriptor, descriptor)
        and os.fstat(descriptor).st_rdev == os.stat(os.devnull).st_rdev
    )
