"""`sys.stdout` and `sys.stderr` of a program: each line becomes a log frame when it is complete.

Every stream has its own unfinished line. The wire has one open line, so when a stream has flushed a
part of its line and the other stream sends something, the open line is ended first: text of two
streams never shares an entry.

In a forked copy, and after the program has ended, text goes to the native descriptor instead: the
host keeps reading that one, and a copy can send nothing over the wire.

Standard library only, CPython 3.10 or later.
"""

from __future__ import annotations

import codecs
import io
from collections import deque
from collections.abc import Iterable
from os import getpid, write
from threading import RLock
from typing import Any

from .channel import Channel
from .ledger import LogLedger

_PIECES = 1_024  # pieces of an unfinished line that are joined at a time


class _Line:
    """The unfinished line of one stream, in pieces."""

    __slots__ = ("blocks", "characters", "fd", "pieces")

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self.blocks: list[str] = []
        self.pieces: list[str] = []
        self.characters = 0

    def add(self, text: str) -> None:
        """Hold more text; a drip of single characters is joined to blocks, each one once."""
        self.pieces.append(text)
        self.characters += len(text)
        if len(self.pieces) >= _PIECES:
            self.blocks.append("".join(self.pieces))
            self.pieces = []

    def take(self, text: str = "") -> str:
        """Return the whole line, with a last piece, and begin a new one."""
        if self.characters:
            text = "".join((*self.blocks, *self.pieces, text))
            self.blocks, self.pieces, self.characters = [], [], 0
        return text


class Output:
    """Brings the text of both streams onto the wire.

    A signal handler that prints while its own thread is in here is served when that thread is done
    with what it was at: the lock would let it in, and a half-written line is no place to print.

    Args:
        channel: The wire.
        max_log_bytes: The budget of the ledger.
    """

    def __init__(self, channel: Channel, max_log_bytes: int) -> None:
        self.ledger = LogLedger(max_log_bytes)
        self._channel = channel
        self._owner = channel.owner
        self._lock = RLock()
        self._busy = False
        self._waiting: deque[tuple[_Line, str, bool]] = deque()
        self._open: _Line | None = None  # whose line is open at the host
        self._lines: list[_Line] = []

    def line(self, fd: int) -> _Line:
        """Make the unfinished line of a stream whose native descriptor is `fd`."""
        line = _Line(fd)
        self._lines.append(line)
        return line

    def write(self, line: _Line, text: str, *, flush: bool = False) -> None:
        """Take text, and send the lines that it completes; with `flush` also the rest of it."""
        if self._owner != getpid() and self._lock is not None:
            self._lock, self._busy, self._owner = RLock(), False, getpid()
            self._waiting.clear()
        with self._lock:
            self._waiting.append((line, text, flush))
            if self._busy:
                return
            while self._waiting:
                try:
                    self._busy = True
                    while self._waiting:
                        self._serve(*self._waiting.popleft())
                finally:
                    self._busy = False

    def settle(self) -> None:
        """Send every unfinished line as an entry of its own."""
        for line in self._lines:
            if line.characters:
                self.write(line, "\n")
            elif self._open is line:
                self._open = None  # what the host holds becomes an entry when the run ends

    def _serve(self, line: _Line, text: str, flush: bool) -> None:
        if self._channel.done:
            self._write_native(line, text)
        elif self.ledger.truncated:
            return
        else:
            frames = list(self._frames(line, text, flush))
            if frames:
                self._channel.send(*frames)

    def _frames(self, line: _Line, text: str, flush: bool) -> Iterable[bytes]:
        start = 0
        while True:
            end = text.find("\n", start)
            stop = len(text) if end < 0 else end
            continued = self._open is line
            if not continued and not self.ledger.fits(line.characters + stop - start):
                # Decided by the number of characters, before any copy of them is made.
                yield from self._send(line, None, is_open=False)
                return
            if end < 0:
                break
            yield from self._send(line, line.take(text[start:end]), is_open=False)
            if self.ledger.truncated:
                return
            start = end + 1
        if start < len(text):
            line.add(text[start:] if start else text)
        if flush and line.characters:
            yield from self._send(line, line.take(), is_open=True)
