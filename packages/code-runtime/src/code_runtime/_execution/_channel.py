"""A socket that carries messages: one reader, one paced sender."""

from __future__ import annotations

import socket
from collections.abc import Awaitable, Callable, Iterable
from typing import Generic, TypeVar, final

from ._reading import Reading
from ._sender import PacedSender

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
        self,
        handle: Callable[[M], None],
        pause: Callable[[], Awaitable[None] | None] | None = None,
        settle: Callable[[], None] | None = None,
        *,
        stays_awake: bool = False,
        catch_up: Callable[[], bool] | None = None,
    ) -> None:
        """Hand each message to `handle` until the peer has closed.

        Args:
            handle: Called on the event loop, in order, not always in a task.
            pause: Called after each message; reading goes on when what it returns is over.
            settle: Called when all that has arrived is handled, and before any other wait.
            stays_awake: Whether the peer waits for answers: then the loop does not fall asleep in
                the first moment after a message, on asyncio.
            catch_up: Called before what has arrived is handled, to handle first what the peer has
                written elsewhere before it; returns whether that is done, else it is asked again.
        """
        reading = Reading(
            self._socket,
            self._cut,
            handle,
            pause,
            settle,
            stays_awake=stays_awake,
            catch_up=catch_up,
        )
        await reading.run()

    async def send(self, frame: bytes, fd: int = -1) -> None:
        """Write one frame.

        Args:
            frame: The frame.
            fd: A descriptor to send along; only while no other frame is on its way.

        Raises:
            OSError: the peer is gone.
        """
        if fd >= 0:
            frame = frame[socket.send_fds(self._socket, [frame], [fd]) :]
            if not frame:
                return  # an empty write fails, too, when the peer is gone by now
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
