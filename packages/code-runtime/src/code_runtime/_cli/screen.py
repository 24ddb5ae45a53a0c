"""Shows the logs of a running program, and on a terminal how long it has been running.

Everything is written by one thread at a time, never by the event loop: a pipe that nobody reads or
a terminal that was stopped holds up neither the run nor Ctrl-C.
"""

from __future__ import annotations

import contextlib
import os
import sys
import time
from typing import TYPE_CHECKING, Final, TextIO

import anyio
import anyio.to_thread

from .text import printable

if TYPE_CHECKING:
    from collections.abc import Callable

TICK_S: Final = 0.1
FRAMES: Final = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
CLEAR_LINE: Final = "\r\x1b[K"


class Screen:
    """The place where logs appear while the program runs.

    Args:
        on_broken: Called on the event loop when nobody reads the standard output any more.
    """

    def __init__(self, *, on_broken: Callable[[], object]) -> None:
        self._out = sys.stdout
        self._on_broken = on_broken
        self._terminal = self._out.isatty()
        self._status: TextIO | None = sys.stderr if _can_animate(sys.stderr) else None
        self._begin = time.monotonic()
        self._note = "running"
        self._count = 0
        self._pending: list[str] = []
        self._closing = False
        self._wake = anyio.Event()
        self._shown = anyio.Event()
        # A thread of its own: bindings may have taken all that anyio allows.
        self._thread = anyio.CapacityLimiter(1)

    def log(self, text: str) -> None:
        """Take one log entry; it is shown soon, in order."""
        self._count += 1
        self._pending.append(text)
        self._wake.set()

    def note(self, text: str) -> None:
        """Say beside the timer what is going on."""
        self._note = text
        self._wake.set()

    def close(self) -> None:
        """Let `drive` end once everything is shown."""
        self._closing = True
        self._wake.set()

    async def drive(self) -> None:
        """Show what comes until the screen is closed."""
        while True:
            with anyio.move_on_after(None if self._status is None else TICK_S):
                await self._wake.wait()
            self._wake = anyio.Event()
            last = self._closing
            batch, self._pending = self._pending, []
            try:
                await anyio.to_thread.run_sync(
                    self._paint, batch, last, abandon_on_cancel=True, limiter=self._thread
                )
            except BrokenPipeError:
                silence(self._out)
                self._on_broken()
            if last:
                self._shown.set()
                return

    async def wait_shown(self) -> None:
        """Wait until everything is shown after `close`."""
        await self._shown.wait()

    def _paint(self, batch: list[str], last: bool) -> None:
        if self._status is not None:
            self._status.write(CLEAR_LINE)
            self._status.flush()
        if batch:
            self._out.write("".join(map(self._line, batch)))
            self._out.flush()
        if self._status is not None and not last:
            self._status.write(self._status_line())
            self._status.flush()

    def _line(self, entry: str) -> str:
        text = printable(entry, terminal=self._terminal)
        return text if text.endswith("\n") else text + "\n"

    def _status_line(self) -> str:
        seconds = time.monotonic() - self._begin
        frame = FRAMES[int(seconds / TICK_S) % len(FRAMES)]
        logs = f", {self._count} log{'' if self._count == 1 else 's'}" if self._count else ""
        return f"{frame} {self._note} {seconds:.1f} s{logs}"


def _can_animate(stream: TextIO) -> bool:
    return stream.isatty() and os.environ.get("TERM", "dumb") != "dumb" and _can_show(stream)


def _can_show(stream: TextIO) -> bool:
    try:
        FRAMES.encode(stream.encoding)
    except (UnicodeEncodeError, LookupError):
        return False
    return True


def silence(stream: TextIO) -> None:
    """Send everything that is still written to a stream nowhere, its buffer included."""
    with contextlib.suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)
