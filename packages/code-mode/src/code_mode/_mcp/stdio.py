"""The transport to a server that is a child process: one JSON-RPC message per line.

The SDK has such a transport; this one bounds what a server may send, keeps the end of its standard
error for messages, and knows how it ended before anyone is told that it did.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final, final

import anyio
from mcp.shared.message import SessionMessage
from mcp_types import (
    PARSE_ERROR,
    ErrorData,
    JSONRPCError,
    JSONRPCNotification,
    JSONRPCRequest,
    JSONRPCResponse,
    RequestId,
    jsonrpc_message_adapter,
)

from .processes import describe_exit, start_process, stop_process, wait_for_exit
from .tail import Tail

if TYPE_CHECKING:
    from anyio.abc import Process
    from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
    from mcp.client._transport import TransportStreams

    from .config import StdioServer

# How long the exit code and the last lines of a server may take to arrive after its output ended.
POST_MORTEM_S: Final = 1.0
FLUSH_S: Final = 0.5
_CLOSED: Final = (anyio.ClosedResourceError, anyio.BrokenResourceError)


@final
class StdioTransport:
    """One life of a server process.

    Args:
        entry: The server.
        max_message_bytes: How large one of its messages may be; a larger one fails every request
            that waits for an answer.
        on_end: Called when the server is gone, after `reason` was set.
    """

    def __init__(
        self, entry: StdioServer, max_message_bytes: int, on_end: Callable[[], None]
    ) -> None:
        self.tail = Tail()
        self.reason = ""
        self.is_ending = False
        self.refusal = ""  # of a request as such, which only servers over HTTP have
        self.status = 200
        self._entry = entry
        self._max_message_bytes = max_message_bytes
        self._on_end = on_end
        self._waiting: set[RequestId] = set()
        self._errors_over = anyio.Event()

    @asynccontextmanager
    async def open(self) -> AsyncGenerator[TransportStreams]:
        """Start the server and give its streams; it is ended when the block is left.

        Raises:
            OSError: It cannot be started.
        """
        process = await start_process(self._entry)
        # No await until the group is entered: a cancellation in between would leak the process.
        to_session, from_server = anyio.create_memory_object_stream[SessionMessage | Exception]()
        to_server, from_session = anyio.create_memory_object_stream[SessionMessage]()
        written = anyio.Event()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._read, process, to_session)
            tasks.start_soon(self._write, process, from_session, written)
            tasks.start_soon(self._read_errors, process)
            try:
                yield from_server, to_server
            finally:
                with anyio.CancelScope(shield=True):
                    from_server.close()
                    to_server.close()
                    with anyio.move_on_after(FLUSH_S):
                        await written.wait()
                    await stop_process(process)
                    self.reason = self.reason or describe_exit(process)
                tasks.cancel_scope.cancel()

    async def _write(
        self,
        process: Process,
        messages: MemoryObjectReceiveStream[SessionMessage],
        written: anyio.Event,
    ) -> None:
        # A task of its own: a caller that is cancelled must not cut a line in two.
        assert process.stdin is not None
        try:
            async with messages:
                async for item in messages:
                    self._note_sent(item)
                    text = item.message.model_dump_json(by_alias=True, exclude_unset=True)
                    await process.stdin.send(text.encode() + b"\n")
        except (*_CLOSED, OSError):
            pass  # it reads no more; its end is seen on its output
        finally:
            written.set()

    async def _read(
        self, process: Process, session: MemoryObjectSendStream[SessionMessage | Exception]
    ) -> None:
        assert process.stdout is not None
        lines = _Lines(self._max_message_bytes)
        async with session:
            try:
                async for chunk in process.stdout:
                    for line in lines.feed(chunk):
                        for item in self._items(line):
                            # Once the session is over the rest is read and dropped: a server that
                            # is stuck in writing could not end.
                            try:
                                await session.send(item)
                            except _CLOSED:
                                break
            except (*_CLOSED, OSError):
                pass
            self.is_ending = True
            await wait_for_exit(process, POST_MORTEM_S)
            with anyio.move_on_after(POST_MORTEM_S):
                await self._errors_over.wait()
            self.reason = self.reason or describe_exit(process)
            self._on_end()

    async def _read_errors(self, process: Process) -> None:
        assert process.stderr is not None
        try:
            async for chunk in process.stderr:
                self.tail.add(chunk)
        except (*_CLOSED, OSError):
            pass
        finally:
            self._errors_over.set()

    def _note_sent(self, item: SessionMessage) -> None:
        message = item.message
        if isinstance(message, JSONRPCRequest):
            self._waiting.add(message.id)
        elif isinstance(message, JSONRPCNotification) and message.method.endswith("/cancelled"):
            self._waiting.discard((message.params or {}).get("requestId", ""))

    def _items(self, line: bytes | None) -> list[SessionMessage]:
        """Turn a line into messages; None is one that was too large."""
        if line is None:
            fault = f"it sent a message of more than {self._max_message_bytes:,} bytes"
            return self._fail_all(fault)
        if not line.strip():
            return []
        try:
            message = jsonrpc_message_adapter.validate_json(line, by_name=False)
        except ValueError:
            if b'"jsonrpc"' in line[:200] or b'"jsonrpc"' in line[-200:]:
                return self._fail_all("it sent a message that is not JSON-RPC 2.0")
            self.tail.add(line + b"\n")  # many servers write for people where messages belong
            return []
        if isinstance(message, (JSONRPCResponse, JSONRPCError)) and message.id is not None:
            self._waiting.discard(message.id)
        return [SessionMessage(message)]

    def _fail_all(self, fault: str) -> list[SessionMessage]:
        # Which request it answers cannot be told without reading it.
        waiting, self._waiting = self._waiting, set()
        error = ErrorData(code=PARSE_ERROR, message=fault)
        return [
            SessionMessage(JSONRPCError(jsonrpc="2.0", id=request_id, error=error))
            for request_id in waiting
        ]


@final
class _Lines:
    """Cuts a stream of bytes into lines of bounded length."""

    __slots__ = ("_is_skipping", "_max_bytes", "_parts", "_size")

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._parts: list[bytes] = []
        self._size = 0
        self._is_skipping = False

    def feed(self, chunk: bytes) -> list[bytes | None]:
        """Take a chunk and return the lines that it completes; None for each that is too long."""
        found: list[bytes | None] = []
        *complete, rest = chunk.split(b"\n")
        for piece in complete:
            self._take(piece, found)
            if not self._is_skipping:
                found.append(b"".join(self._parts))
            self._reset()
        self._take(rest, found)
        return found

    def _take(self, piece: bytes, found: list[bytes | None]) -> None:
        if self._is_skipping:
            return
        self._size += len(piece)
        if self._size > self._max_bytes:
            self._reset()
            self._is_skipping = True
            found.append(None)
        elif piece:
            self._parts.append(piece)

    def _reset(self) -> None:
        self._parts, self._size, self._is_skipping = [], 0, False
