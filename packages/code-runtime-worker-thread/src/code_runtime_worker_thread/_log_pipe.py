"""The pipe that a worker's LOG frames come through.

A pipe takes a line in half the time that a socket needs. It has no order with the worker's socket,
so `catch_up` is called before any frame of the socket is handled: what the program printed before
a call, or before its end, is in the pipe by then.
"""

from __future__ import annotations

import fcntl
import os
import secrets
import struct
import termios
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Final, final

from code_runtime._execution._reading import LULL_S, Reading, State

from ._frames import FrameReader, Message, ProtocolError

# A program prints line after line when there is always something to read again so soon, so often.
FLOOD_TURNS: Final = 8
FLOOD_S: Final = 3 * LULL_S
_COUNT: Final = struct.Struct("i")


@final
class LogPipe:
    """Owns a named pipe and its reading end; `close` is its one closer.

    Args:
        folder: Where its name stands until `hide`; mode 0700.
        reader: Cuts what arrives into messages.
        handle: Called with each message.
        refuse: Told what is wrong with what arrives; then no more is read.

    Raises:
        OSError: the folder takes no named pipe, or no descriptor is free.
    """

    def __init__(
        self,
        folder: str,
        reader: FrameReader,
        handle: Callable[[Message], None],
        refuse: Callable[[str], None],
    ) -> None:
        self.path = os.path.join(folder, secrets.token_hex(6))
        self._has_name = True
        os.mkfifo(self.path, 0o600)
        try:
            self._fd = os.open(self.path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError:
            self.hide()
            raise
        self._reading = Reading(self, reader.feed, handle, is_flooded=self._is_flooded)
        self._taken_bytes = 0
        # Where reading stops for now: what comes later may come for ever.
        self._goal_bytes: int | None = None
        self._refuse = refuse
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

    def hide(self) -> None:
        """Take the name away: the worker has opened the pipe, and no one else shall by its name.

        Once only: what has the name later is a program's, and so may be anything that has it now.
        """
        if self._has_name:
            self._has_name = False
            with suppress(OSError):
                os.unlink(self.path)

    async def read(self) -> None:
        """Handle what arrives until the worker has closed its end."""
        if not self._is_refused:
            try:
                await self._reading.run()
            except ProtocolError as error:
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
        except ProtocolError as error:
            self._end(error)
        if is_done:
            self._goal_bytes = None
        return is_done

    def close(self) -> None:
        """Close the pipe; nothing may be reading from it."""
        self.hide()
        os.close(self._fd)

    def _waiting_bytes(self) -> int:
        count: int = _COUNT.unpack(fcntl.ioctl(self._fd, termios.FIONREAD, bytes(_COUNT.size)))[0]
        return count

    def _end(self, error: ProtocolError) -> None:
        self._is_refused = True
        self._refuse(str(error))

    def _is_flooded(self) -> bool:
        now_s = time.monotonic()
        is_quick = now_s - self._was_dry_s < FLOOD_S
        self._was_dry_s = now_s
        self._quick_turn_count = self._quick_turn_count + 1 if is_quick else 0
        return self._quick_turn_count >= FLOOD_TURNS
