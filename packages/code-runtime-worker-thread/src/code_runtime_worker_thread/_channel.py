"""A socket that carries frames: one reader, one paced sender."""

from __future__ import annotations

import socket
import time
from collections.abc import Awaitable, Callable
from typing import Final, final

import anyio
import anyio.lowlevel

from code_runtime._execution._sender import PacedSender

from ._frames import Field, FrameReader, Message, encode_frame

CHUNK_BYTES: Final = 65_536
# A flood of small frames never makes the socket run dry; other tasks of the host get the loop at
# least this often.
TURN_S: Final = 0.005


@final
class FrameChannel:
    """Owns a connected, non-blocking stream socket; `close` is its one closer."""

    __slots__ = ("_buffer", "_reader", "_socket", "sender")

    def __init__(self, sock: socket.socket) -> None:
        sock.setblocking(False)
        self._socket = sock
        self._reader = FrameReader()
        self._buffer = memoryview(bytearray(CHUNK_BYTES))
        self.sender = PacedSender(sock)

    async def read(
        self,
        handle: Callable[[Message], None],
        pause: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        """Hand each message to `handle` until the peer has closed.

        Args:
            handle: Called on the event loop, in order.
            pause: Called after a message; reading goes on when it returns. Return None from it at
                once
                when nothing has to wait.

        Raises:
            ProtocolError: the peer sent something that is no frame.
        """
        turn_ends_s = time.monotonic() + TURN_S
        while True:
            try:
                count = self._socket.recv_into(self._buffer)
            except BlockingIOError:
                await anyio.wait_readable(self._socket)
                turn_ends_s = time.monotonic() + TURN_S
                continue
            except OSError:
                return
            if count == 0:
                return
            for message in self._reader.feed(self._buffer[:count]):
                handle(message)
                if pause is not None:
                    await pause()
            if time.monotonic() > turn_ends_s:
                await anyio.lowlevel.checkpoint()
                turn_ends_s = time.monotonic() + TURN_S

    async def send(self, kind: int, *fields: Field) -> None:
        """Write one frame.

        Raises:
            OSError: the peer is gone.
        """
        frame = encode_frame(kind, *fields)
        if self.sender.send_nowait(frame):
            if self.sender.needs_flush:
                await self.sender.flush()
            return

        async def make() -> bytes:
            return frame

        await self.sender.send(make)

    def close(self) -> None:
        """Close the socket; nothing may be reading from it."""
        self._socket.close()
