"""Writes frames to a non-blocking socket, one at a time and in order."""

from __future__ import annotations

import socket
from collections.abc import Awaitable, Callable
from typing import Final, final

import anyio

# Small frames are joined to one write: a write costs the sender as much as making ten frames, and
# wakes the reader.
OUTBOX_BYTES: Final = 65_536


@final
class PacedSender:
    """Small frames are joined; a large one is encoded and written when all before it are out.

    A large frame's bytes are made inside the turn of its sender, so a peer that reads slowly costs
    one encoded frame, whatever the number of replies that wait, and a reply whose run has settled
    (its task is cancelled) is never encoded.

    The socket stays open here; whoever opened it closes it.
    """

    __slots__ = ("_lock", "_outbox", "_outbox_bytes", "_socket", "_tail")

    def __init__(self, sock: socket.socket) -> None:
        self._socket = sock
        self._lock = anyio.Lock(fast_acquire=True)
        # Posted frames: only while nothing is being written and there is no tail.
        self._outbox: list[bytes] = []
        self._outbox_bytes = 0
        self._tail = memoryview(b"")

    @property
    def is_free(self) -> bool:
        """Whether `post` takes a frame now: the kernel has taken all that was pushed."""
        return not self._tail and not self._lock.locked()

    @property
    def needs_flush(self) -> bool:
        """Whether a part of a frame is kept that `flush` must write."""
        return bool(self._tail)

    @property
    def backlog_bytes(self) -> int:
        """What is encoded and not yet taken by the kernel."""
        return self._outbox_bytes + len(self._tail)

    def post(self, frame: bytes) -> bool:
        """Keep a frame for the next `push`, if no other is on its way.

        Returns:
            Whether the frame was taken.

        Raises:
            OSError: the peer is gone.
        """
        if not self.is_free:
            return False
        self._outbox.append(frame)
        self._outbox_bytes += len(frame)
        if self._outbox_bytes >= OUTBOX_BYTES:
            self.push()
        return True

    def push(self) -> None:
        """Write what was posted, without waiting; what the kernel does not take needs a flush.

        Raises:
            OSError: the peer is gone.
        """
        if self._outbox:
            self._tail = self._posted()
            try:
                self._tail = self._tail[self._socket.send(self._tail) :]
            except BlockingIOError:
                return

    def send_nowait(self, frame: bytes) -> bool:
        """Write without waiting, if no other frame is on its way; see `post` and `push`."""
        if not self.post(frame):
            return False
        self.push()
        return True

    async def flush(self) -> None:
        """Write what was posted or is left of a frame.

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

    def _posted(self) -> memoryview:
        data = b"".join(self._outbox)
        self._outbox.clear()
        self._outbox_bytes = 0
        return memoryview(data)

    async def _write_tail(self) -> None:
        if self._outbox:
            self._tail = self._posted()
        while self._tail:
            try:
                self._tail = self._tail[self._socket.send(self._tail) :]
            except BlockingIOError:
                await anyio.wait_writable(self._socket)
