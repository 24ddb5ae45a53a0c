"""Descriptors 1 and 2 of a process: bytes that a run writes past the log frames of its runtime."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import ExitStack
from typing import Final, final

import anyio
import anyio.lowlevel

CHUNK_BYTES: Final = 65_536
# A chunk may be nothing but line ends; other tasks of the host get the loop in between.
LINES_A_TURN: Final = 1_000


@final
class OutputPipe:
    """The read end of one pipe; `close` is its one closer.

    Bytes become one entry for each line, without its line end; a last line without an end is an
    entry too. A character that is split over two writes is one character; bytes that are no UTF-8
    become U+FFFD.

    Args:
        fd: The read end, non-blocking from here on.
        admit: Takes an entry; what arrives while there is no run goes nowhere.
        max_held_bytes: Tells how much of an unfinished line may be held.
    """

    __slots__ = ("_admit", "_fd", "_held", "_lock", "_max_held_bytes")

    def __init__(
        self, fd: int, admit: Callable[[str], None], max_held_bytes: Callable[[], int]
    ) -> None:
        os.set_blocking(fd, False)
        self._fd = fd
        self._admit = admit
        self._max_held_bytes = max_held_bytes
        self._held = bytearray()
        self._lock = anyio.Lock(fast_acquire=True)

    async def read(self) -> None:
        """Read until no process holds the write end any more."""
        while await self._take():
            await anyio.wait_readable(self._fd)
        self.flush()

    async def drain(self) -> None:
        """Take what is in the pipe now, and end the last line: the run is over."""
        await self._take()
        self.flush()

    async def _take(self) -> bool:
        """Admit what is in the pipe; return whether more may come."""
        # A turn of the reader may be in the middle of a chunk when the run ends: who drains waits.
        async with self._lock:
            while True:
                try:
                    chunk = os.read(self._fd, CHUNK_BYTES)
                except BlockingIOError:
                    return True
                if not chunk:
                    return False
                await self._feed(chunk)

    def flush(self) -> None:
        """End an unfinished line."""
        if self._held:
            held, self._held = self._held, bytearray()
            self._admit(held.decode("utf-8", "replace"))

    def close(self) -> None:
        """Close the descriptor; nothing may be reading from it."""
        os.close(self._fd)

    async def _feed(self, chunk: bytes) -> None:
        *lines, rest = chunk.split(b"\n")
        for start in range(0, len(lines), LINES_A_TURN):
            for line in lines[start : start + LINES_A_TURN]:
                self._admit((self._held + line).decode("utf-8", "replace"))
                self._held.clear()
            await anyio.lowlevel.checkpoint()
        self._held += rest
        if len(self._held) > self._max_held_bytes():
            self.flush()


def open_output(
    theirs: ExitStack, admit: Callable[[str], None], max_held_bytes: Callable[[], int]
) -> tuple[OutputPipe, int]:
    """Open a pipe for a process: our end, and the descriptor that the process gets.

    Args:
        theirs: Closes the descriptor of the process once that has started.
        admit: See `OutputPipe`.
        max_held_bytes: See `OutputPipe`.

    Raises:
        OSError: no descriptor is free.
    """
    read, write = os.pipe()
    theirs.callback(os.close, write)
    return OutputPipe(read, admit, max_held_bytes), write
