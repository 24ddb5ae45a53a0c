"""Writes frames to a non-blocking socket, one at a time and in order."""

from __future__ import annotations

import socket
from collections.abc import Awaitable, Callable
from typing import final

import anyio


@final
class PacedSender:
    """One frame is encoded and written at a time; the next is encoded when the last one is out.

    A frame's bytes are made inside the turn of its sender, so a peer that reads slowly costs one
    encoded frame, whatever the number of replies that wait, and a reply whose run has settled (its
    task is cancelled) is never encoded.

    The socket stays open here; whoever opened it closes it.
    """

    __slots__ = ("_lock", "_socket", "_tail")

    def __init__(self, sock: socket.socket) -> None:
        self._socket = sock
        self._lock = anyio.Lock(fast_acquire=True)
        self._tail = memoryview(b"")

    def send_nowait(self, data: bytes) -> bool:
        """Write without waiting, if no other frame is on its way.

        Returns:
            Whether the frame was taken. When the kernel took a part only, the rest is kept and
            `needs_flush` is set.

        Raises:
            OSError: the peer is gone.
        """
        if self._tail or self._lock.locked():
            return False
        try:
            sent = self._socket.send(data)
        except BlockingIOError:
            sent = 0
        self._tail = memoryview(data)[sent:]
        return True

    @property
    def needs_flush(self) -> bool:
        """Whether a part of a frame is kept that `flush` must write."""
        return bool(self._tail)

    async def flush(self) -> None:
        """Write what `send_nowait` left.

        Raises:
            OSError: the peer is gone.
        """
        async with self._lock:
            await self._write_tail()

    async def send(self, make_frame: Callable[[], Awaitable[bytes]]) -> None:
        """Wait for the turn, make the frame and write all of it.

        Args:
            make_frame: Called when all earlier frames are out.

        A cancellation in the middle leaves a broken stream: senders are cancelled only when the run
        is over and nothing is sent after.

        Raises:
            OSError: the peer is gone.
        """
        async with self._lock:
            await self._write_tail()
            self._tail = memoryview(await make_frame())
            await self._write_tail()

    async def _write_tail(self) -> None:
        while self._tail:
            try:
                self._tail = self._tail[self._socket.send(self._tail) :]
            except BlockingIOError:
                await anyio.wait_writable(self._socket)
