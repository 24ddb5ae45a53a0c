"""The pipe that the log frames of a program come through.

A pipe takes a line in half the time that a socket needs. It has no order with the socket beside
it, so `catch_up` is called before any frame of the socket is handled: what the program printed
before a call, or before its end, is in the pipe by then.
"""

from __future__ import annotations

import fcntl
import os
import struct
import termios
import time
from collections.abc import Callable, Iterable
from typing import Final, Generic, TypeVar

import anyio.lowlevel

from ._reading import LULL_S, Reading, State

# A program prints line after line when there is always something to read again so soon, so often.
FLOOD_TURNS: Final = 8
FLOOD_S: Final = 3 * LULL_S
_COUNT: Final = struct.Struct("i")

M = TypeVar("M")


class LogPipe(Generic[M]):
    """Owns the reading end of a pipe; `close` is its one closer.

    Args:
        fd: The reading end.
        cut: Takes the next bytes and gives the messages that they complete.
        handle: Called with each message.
        refuse: Told what `cut` or `handle` found wrong; then no more is read.
        error: What they raise then.
    """

    def __init__(
        self,
        fd: int,
        cut: Callable[[bytes], Iterable[M]],
        handle: Callable[[M], None],
        refuse: Callable[[str], None],
        error: type[Exception],
    ) -> None:
        os.set_blocking(fd, False)
        self._fd = fd
        self._reading = Reading(self, cut, handle, is_flooded=self._is_flooded)
        self._taken_bytes = 0
        # Where reading stops for now: what comes later may come for ever.
        self._goal_bytes: int | None = None
        self._refuse = refuse
        self._error = error
        self._is_refused = False
        self._was_dry_s = 0.0
        self._quick_turn_count = 0

    def fileno(self) -> int:
        """Return the reading end."""
        return self._fd

    def recv(self, size_bytes: int, /) -> bytes:
        """Return what has arrived, nothing when no one has the pipe open for writing.

        All that was returned before is handled.
        """
        if self._goal_bytes is not None and self._taken_bytes >= self._goal_bytes:
            raise BlockingIOError
        chunk = os.read(self._fd, size_bytes)
        self._taken_bytes += len(chunk)
        return chunk

    async def read(self) -> None:
        """Handle what arrives until no one has the pipe open for writing."""
        if not self._is_refused:
            try:
                await self._reading.run()
            except self._error as error:
                self._end(error)

    def catch_up(self) -> bool:
        """Handle what had arrived at the first of these calls; return whether that is done."""
        if self._is_refused:
            return True
        if self._goal_bytes is None:
            self._goal_bytes = self._taken_bytes + self._waiting_bytes()
        is_done = True
        try:
            is_done = self._reading.take_turn() is not State.LATE
        except self._error as error:
            self._end(error)
        if is_done:
            self._goal_bytes = None
        return is_done

    async def read_rest(self) -> None:
        """Handle what has arrived by now, however long it takes."""
        while not self.catch_up():
            await anyio.lowlevel.checkpoint()

    def close(self) -> None:
        """Close the pipe; nothing may be reading from it."""
        os.close(self._fd)

    def _waiting_bytes(self) -> int:
        count: int = _COUNT.unpack(fcntl.ioctl(self._fd, termios.FIONREAD, bytes(_COUNT.size)))[0]
        return count

    def _end(self, error: Exception) -> None:
        self._is_refused = True
        self._refuse(str(error))

    def _is_flooded(self) -> bool:
        now_s = time.monotonic()
        is_quick = now_s - self._was_dry_s < FLOOD_S
        self._was_dry_s = now_s
        self._quick_turn_count = self._quick_turn_count + 1 if is_quick else 0
        return self._quick_turn_count >= FLOOD_TURNS
