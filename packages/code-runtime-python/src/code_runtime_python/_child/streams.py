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
from os import getpid, write
from select import POLLOUT, poll
from typing import TYPE_CHECKING

from .channel import Channel
from .ledger import LogLedger
from .wire import MIN_LOG_BYTES

if TYPE_CHECKING:
    from typing import Protocol

    from _typeshed import ReadableBuffer

    class _Write(Protocol):
        def __call__(self, line: _Line, text: str, *, flush: bool = ...) -> None: ...


_decoder = codecs.getincrementaldecoder("utf-8")
_SHORT = 4_096  # characters of a piece that is held without being counted
_FEW_PIECES = 64  # held so; more than `print` makes of its arguments
_FRAMES = 1_024  # frames that are sent at a time


class _Line:
    """The unfinished line of one stream.

    `print` writes each of its arguments by itself. As long as they are few and short they are only
    put on a list, `pieces`, by whoever prints; all else is done under the lock of the channel.
    """

    __slots__ = ("blocks", "characters", "fd", "holds_pieces", "pieces")

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self.pieces: list[str] = []
        self.holds_pieces = True
        self.blocks: list[str] = []
        self.characters = 0  # in the blocks

    def count(self) -> None:
        """Make a block of the pieces."""
        pieces = self.pieces[:]
        if pieces:
            del self.pieces[: len(pieces)]  # another thread may have put on one more
            self.add("".join(pieces))

    def add(self, text: str) -> None:
        """Hold more text."""
        self.blocks.append(text)
        self.characters += len(text)

    def take(self, text: str = "") -> str:
        """Return what is in the blocks, with a last piece, and begin a new line."""
        if self.blocks:
            text = "".join((*self.blocks, text))
            self.blocks, self.characters = [], 0
        return text


class Output:
    """Brings the text of both streams onto the wire.

    A signal handler that prints while its own thread is in here is served when that thread is done
    with what it was at: the lock would let it in, and a half-written line is no place to print.

    Args:
        channel: The wire.
    """

    def __init__(self, channel: Channel) -> None:
        self.ledger = LogLedger(MIN_LOG_BYTES)  # until the boot frame brings the budget
        self._channel = channel
        self._owner = channel.owner
        self._busy = False
        self._has_marker = False  # whether the marker of the ledger was sent
        self._waiting: deque[tuple[_Line, str, bool]] = deque()
        self._open: _Line | None = None  # whose line is open at the host
        self._lines: list[_Line] = []

    def line(self, fd: int) -> _Line:
        """Make the unfinished line of a stream whose native descriptor is `fd`."""
        line = _Line(fd)
        self._lines.append(line)
        return line

    def write_line(self, line: _Line, text: str) -> bool:
        """Send the line that a text ends, if it is plain and nothing is in the way.

        Args:
            line: The line.
            text: Text with one LF, at its end.

        Returns:
            Whether that was done; `write` does it in any case.
        """
        # In a copy of this process, too, that was made without `os.fork`: it tears no line.
        channel, held = self._channel, line.pieces
        with channel.lock:
            if self._busy or self._waiting or self._open is not None or line.blocks:
                return False
            try:
                self._busy = True
                pieces = held[:]
                whole = "".join(pieces) if text == "\n" else "".join((*pieces, text[:-1]))
                frame = None if channel.done else self.ledger.plain_frame(whole)
                if frame is None:
                    return False
                del held[: len(pieces)]
                channel.send_log(frame)
            finally:
                self._busy = False
                # Also when a handler has raised: what it printed must not end a later line.
                if self._waiting:
                    self._serve_waiting()
            return True

    def write(self, line: _Line, text: str, *, flush: bool = False) -> None:
        """Take text, and send the lines that it completes; with `flush` also the rest of it."""
        if self._owner != getpid():
            self.begin_copy()
        with self._channel.lock:
            if self._busy or self._waiting:
                self._waiting.append((line, text, flush))
                if self._busy:
                    return
            else:
                try:
                    self._busy = True
                    self._serve(line, text, flush)
                finally:
                    self._busy = False
                    self._serve_waiting()
                return
            self._serve_waiting()

    def _serve_waiting(self) -> None:
        """Serve signal handlers that have printed meanwhile."""
        while self._waiting:
            try:
                self._busy = True
                while self._waiting:
                    self._serve(*self._waiting.popleft())
            finally:
                self._busy = False

    def settle(self) -> None:
        """Send every unfinished line as an entry of its own; what comes later is never held."""
        for line in self._lines:
            line.holds_pieces = False
            self.write(line, "")
            if line.characters:
                self.write(line, "\n")

    def begin_copy(self) -> None:
        """Forget, in a forked copy, what the original holds, and whatever thread was in here."""
        self._owner = getpid()
        self._channel.leave()
        self._busy = False
        self._waiting.clear()
        for line in self._lines:
            line.holds_pieces = False
            line.count()
            line.take()

    def _serve(self, line: _Line, text: str, flush: bool) -> None:
        line.count()
        if self._channel.done:
            _write_native(line.fd, line.take(text))
        elif self.ledger.truncated:
            line.take()
            if not self._has_marker:  # a handler has raised in between
                self._channel.send_logs(self.ledger.overflow())
                self._has_marker = True
        else:
            frames = self._frames(line, text, flush)
            if frames:
                self._channel.send_logs(b"".join(frames))
            self._has_marker = self.ledger.truncated

    def _frames(self, line: _Line, text: str, flush: bool) -> list[bytes]:
        frames: list[bytes] = []
        start = 0
        while not self.ledger.truncated:
            end = text.find("\n", start)
            characters = line.characters + (len(text) if end < 0 else end) - start
            if end < 0 and not characters:
                break
            if not self.ledger.may_fit(characters, continued=self._open is line):
                frames.append(self.ledger.overflow())  # before any copy of the line is made
                line.take()
            elif end >= 0:
                self._add(frames, line, line.take(text[start:end]), is_open=False)
                start = end + 1
                if len(frames) >= _FRAMES:
                    self._channel.send_logs(b"".join(frames))
                    frames.clear()
            else:
                if start < len(text):
                    line.add(text[start:])
                if flush:
                    self._add(frames, line, line.take(), is_open=True)
                break
        return frames

    def _add(self, frames: list[bytes], line: _Line, text: str, *, is_open: bool) -> None:
        continued = self._open is line
        if self._open is not None and not continued:  # the other stream's line ends here
            frames.append(self.ledger.frame("", continued=True, is_open=False))
        frames.append(self.ledger.frame(text, continued=continued, is_open=is_open))
        self._open = line if is_open else None


class Stream(io.TextIOBase):
    """A text stream of a program.

    Args:
        output: Where text goes.
        fd: The native descriptor that stands behind the stream.
    """

    encoding = "utf-8"
    errors = "surrogatepass"
    newlines = None
    line_buffering = True
    write_through = False
    mode = "w"

    def __init__(self, output: Output, fd: int) -> None:
        self.name = "<stdout>" if fd == 1 else "<stderr>"
        self._write = output.write
        self._write_line = output.write_line
        self._line = output.line(fd)
        self.buffer = ByteStream(output.write, self._line, self.name)

    def write(self, text: str, /) -> int:
        """Take text; a complete line is on its way to the host when this returns."""
        if type(text) is not str:
            if not isinstance(text, str):
                raise TypeError(f"write() argument must be str, not {type(text).__name__}")
            text = str.__str__(text)
        line, size = self._line, len(text)
        if size > _SHORT or not line.holds_pieces:
            self._write(line, text)
        elif "\n" in text:
            if text.find("\n") + 1 != size or not self._write_line(line, text):
                self._write(line, text)
        elif len(line.pieces) < _FEW_PIECES:
            line.pieces.append(text)
        else:
            self._write(line, text)
        return size

    def flush(self) -> None:
        """Send the unfinished line as it is."""
        self._write(self._line, "", flush=True)

    def close(self) -> None:
        """Flush only: what is printed later is shown all the same."""
        self.flush()

    def writable(self) -> bool:
        """Tell that text can be written."""
        return True

    def fileno(self) -> int:
        """Return the native descriptor, for subprocesses that write to this stream."""
        return self._line.fd

    def reconfigure(self, **options: object) -> None:
        """Accept what a file accepts; the stream stays UTF-8 and line-buffered."""


class ByteStream(io.BufferedIOBase):
    """The bytes under a text stream: UTF-8, decoded into the same lines.

    Args:
        write: Takes the text.
        line: The line of the text stream.
        name: The stream's name.
    """

    mode = "wb"

    def __init__(self, write: _Write, line: _Line, name: str) -> None:
        self.name = name
        self._write = write
        self._line = line
        self._decoder = _decoder("replace")

    def write(self, data: ReadableBuffer, /) -> int:
        """Take bytes; the rest of a character may come later."""
        taken = bytes(memoryview(data))
        text = self._decoder.decode(taken)
        if text:
            self._write(self._line, text)
        return len(taken)

    def flush(self) -> None:
        """Send the unfinished line as it is."""
        self._write(self._line, "", flush=True)

    def close(self) -> None:
        """Flush only, as the text stream does."""
        self.flush()

    def finish(self) -> None:
        """Show an incomplete character at the end as U+FFFD."""
        text = self._decoder.decode(b"", True)
        if text:
            self._write(self._line, text)

    def writable(self) -> bool:
        """Tell that bytes can be written."""
        return True

    def fileno(self) -> int:
        """Return the native descriptor."""
        return self._line.fd


def _write_native(fd: int, text: str) -> None:
    data = memoryview(text.encode("utf-8", "backslashreplace"))
    while data:
        try:
            data = data[write(fd, data) :]
        except BlockingIOError:
            poller = poll()
            poller.register(fd, POLLOUT)
            poller.poll()
        except OSError:  # closed, by the program or the host
            return
