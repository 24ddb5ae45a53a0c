"""A socket that carries messages: one reader, one paced sender."""

from __future__ import annotations

import socket
import time
from collections.abc import Awaitable, Callable, Iterable
from typing import Final, Generic, TypeVar, final

import anyio
import anyio.lowlevel

from ._sender import PacedSender

CHUNK_BYTES: Final = 65_536
# A flood of small frames never makes the socket run dry; other tasks of the host get the loop at
# least this often.
TURN_S: Final = 0.005

M = TypeVar("M")


@final
class StreamChannel(Generic[M]):
    """Owns a connected stream socket; `close` is its one closer.

    Args:
        sock: Non-blocking from here on.
        cut: Takes the next bytes of the stream and gives the messages that they complete. It is
            exhausted before the next bytes come; an error that it raises ends the reading.
    """

    __slots__ = ("_cut", "_socket", "sender")

    def __init__(self, sock: socket.socket, cut: Callable[[bytes], Iterable[M]]) -> None:
        sock.setblocking(False)
        self._socket = sock
        self._cut = cut
        self.sender = PacedSender(sock)

    async def read(
        self, handle: Callable[[M], None], pause: Callable[[], Awaitable[None]] | None = None
    ) -> None:
        """Hand each message to `handle` until the peer has closed.

        Args:
            handle: Called on the event loop, in order.
            pause: Awaited after each message; reading goes on when it returns.
        """
        turn_ends_s = time.monotonic() + TURN_S
        while True:
            try:
                chunk = self._socket.recv(CHUNK_BYTES)
            except BlockingIOError:
                await anyio.wait_readable(self._socket)
                turn_ends_s = time.monotonic() + TURN_S
                continue
            except OSError:
                return
            if not chunk:
                return
            for message in self._cut(chunk):
                handle(message)
                if pause is not None:
                    await pause()
                if time.monotonic() > turn_ends_s:
                    await anyio.lowlevel.checkpoint()
                    turn_ends_s = time.monotonic() + TURN_S

    async def send(self, frame: bytes) -> None:
        """Write one frame.

        Raises:
            OSError: the peer is gone.
        """
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
