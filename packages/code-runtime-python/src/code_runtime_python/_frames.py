"""The host's side of the fd-3 wire: bytes of a child to messages. Pure, no I/O.

The child is hostile. A line is bounded before it is joined; a frame is parsed as lossless JSON,
checked field by field and rebuilt, so that nothing else of it reaches the host. A line that is no
valid frame is dropped, and the run goes on. `docs/reference/fd3-protocol.md` lists each reaction.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, TypeAlias, final

from code_runtime._execution._logs import plain_text
from code_runtime._lossless import JsonValue, LosslessJsonError, _scan_string, decode

from ._child.wire import CUT_MARKER, DONE_KINDS, MAX_FRAGMENTS, MAX_FRAME_BYTES, DoneKind

_BOM: Final = b"\xef\xbb\xbf"
# The child cuts a long text into several frames.
MAX_LOG_LINE_BYTES: Final = 65_536
# The longest line with a number that is not exact of which more is wanted than that it is refused.
MAX_SCANNED_BYTES: Final = 1_048_576
# A string, ended or not, or what begins like a number. Possessive, and without a way to fail after
# a long match: forged text can make neither copies nor a second look.
_TOKEN: Final = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"?|-?[0-9][0-9.eE+-]*+', re.DOTALL)
_INTEGER: Final = re.compile(rb"-?(?:0|[1-9][0-9]*)")
_NUMBER: Final = re.compile(rb"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?")


class LineTooLongError(ValueError):
    """A line of the child is longer than the cap: the run is over.

    Args:
        max_bytes: The cap.
    """

    def __init__(self, max_bytes: int) -> None:
        super().__init__(max_bytes)
        self.max_bytes = max_bytes

    def __str__(self) -> str:
        return f"Cannot read a frame: line without end, expected at most {self.max_bytes} bytes"


@final
class LineReader:
    """Cuts a byte stream into lines, in time and memory linear in what it is given.

    Pieces of an unfinished line are held as they came. Every `MAX_FRAGMENTS` of them are joined to
    one block, which is not touched again until the line is complete, so that a drip of single bytes
    costs neither an object for each byte nor a copy for each piece.

    Args:
        max_bytes: The longest line, without its LF.
    """

    __slots__ = ("_blocks", "_fragments", "_held_bytes", "_max_bytes")

    def __init__(self, max_bytes: int = MAX_FRAME_BYTES) -> None:
        self._max_bytes = max_bytes
        self._blocks: list[bytes] = []
        self._fragments: list[bytes] = []
        self._held_bytes = 0

    @property
    def held_bytes(self) -> int:
        """The size of the unfinished line; what is held at the end of the stream is dropped."""
        return self._held_bytes

    @property
    def held_pieces(self) -> int:
        """The number of objects that hold the unfinished line."""
        return len(self._blocks) + len(self._fragments)

    def push(self, chunk: bytes) -> list[bytes]:
        """Take the next bytes of the stream.

        Args:
            chunk: Kept as it is if it holds no LF.

        Returns:
            The lines that are complete now, without LF and without the empty ones. Several of them
            may be larger than the cap together.

        Raises:
            LineTooLongError: a line is over the cap. Everything held is dropped; push no more.
        """
        end = chunk.find(b"\n")
        self._hold(chunk if end < 0 else chunk[:end])
        if end < 0:
            return []
        first = b"".join((*self._blocks, *self._fragments))
        self._drop()
        *lines, rest = chunk[end + 1 :].split(b"\n")
        if any(len(line) > self._max_bytes for line in lines):
            raise LineTooLongError(self._max_bytes)
        self._hold(rest)
        return [line for line in (first, *lines) if line]

    def _hold(self, piece: bytes) -> None:
        """Count first, so that no more than the cap is ever joined."""
        self._held_bytes += len(piece)
        if self._held_bytes > self._max_bytes:
            self._drop()
            raise LineTooLongError(self._max_bytes)
        if not piece:
            return
        self._fragments.append(piece)
        if len(self._fragments) >= MAX_FRAGMENTS:
            self._blocks.append(b"".join(self._fragments))
            self._fragments = []

    def _drop(self) -> None:
        self._blocks = []
        self._fragments = []
        self._held_bytes = 0


@dataclass(frozen=True, slots=True)
class AckMessage:
    """The child has applied its limits and built the namespaces."""


@dataclass(frozen=True, slots=True)
class CallMessage:
    """The program calls a binding; the host takes only the successor of the last id it took."""

    id: int
    global_name: str
    name: str
    args: JsonValue


@dataclass(frozen=True, slots=True)
class LogMessage:
    """Output of the program.

    Args:
        text: One entry, or a part of one.
        truncated: The child drops all further output; the text is not to be used.
        is_open: The line goes on with the next entry.
    """

    text: str
    truncated: bool
    is_open: bool


@dataclass(frozen=True, slots=True)
class DoneMessage:
    """The program returned.

    Args:
        has_value: Whether it returned something.
        value: What it returned.
        is_exact: False if a number of the frame was replaced by 0, because no double holds it: the
            value is not JSON that the contract allows, but its size can be judged.
    """

    has_value: bool
    value: JsonValue
    is_exact: bool


@dataclass(frozen=True, slots=True)
class FailMessage:
    """The program failed; `message` has any length."""

    kind: DoneKind
    message: str


ChildMessage: TypeAlias = AckMessage | CallMessage | LogMessage | DoneMessage | FailMessage
"""What a valid line of the child means."""


class LogError(ValueError):
    """What came through the pipe of logs is no log frame of the child: the run is over."""

    def __str__(self) -> str:
        return "what came through the pipe of its logs is no log frame"


@final
class LogReader:
    """Cuts what arrives through the pipe of logs into messages.

    Attributes:
        joins_logs: Whether entries may come many in one message, a list of their texts, each of
            which costs as many bytes as it has characters and two quotes.
    """

    __slots__ = ("_lines", "joins_logs")

    def __init__(self) -> None:
        self._lines = LineReader(MAX_LOG_LINE_BYTES)
        self.joins_logs = False

    def push(self, chunk: bytes) -> Iterator[LogMessage | list[str]]:
        """Take the next bytes of the pipe; the iterator is exhausted before the next ones.

        Raises:
            LogError: a line is no log frame, or too long for one.
        """
        try:
            lines = self._lines.push(chunk)
        except LineTooLongError:
            raise LogError from None
        texts = plain_logs(lines) if self.joins_logs else None
        if texts is not None:
            yield texts
        else:
            yield from map(parse_log, lines)


def parse_log(line: bytes) -> LogMessage:
    """Rebuild one line of the pipe of logs, in time linear in its length.

    Raises:
        LogError: it is no log frame as the child spells it.
    """
    text = plain_log(line)
    if text is not None:
        return LogMessage(text, truncated=False, is_open=False)
    try:
        source = str(line, "utf-8")
        if line.startswith(_PLAIN_LOG):
            text, end = _scan_string(source, len(_PLAIN_LOG), True)
            truncated, is_open = _LOG_ENDS[source[end:]]
            return LogMessage(text, truncated, is_open)
    except (ValueError, KeyError):
        pass
    raise LogError


def plain_log(line: bytes) -> str | None:
    """Return the text of a log frame that is one whole entry, as the child spells most of them.

    Returns:
        The text, which costs as many bytes as it has characters and two quotes; None for any other
        frame, and for one that is spelled in another way.
    """
    if line.startswith(_PLAIN_LOG) and line.endswith(b"}"):
        return plain_text(line[_LOG_HEAD_BYTES:-1])
    return None


def plain_logs(lines: list[bytes]) -> list[str] | None:
    """Return the texts of lines that are all what `plain_log` knows, without a step for each.

    Args:
        lines: As `LineReader` cuts them: none holds an LF.

    Returns:
        The texts, or None if one line is something else.
    """
    joined = b"\n".join(lines)
    if not (joined.startswith(_PLAIN_LOG) and joined.endswith(b'"}') and joined.isascii()):
        return None
    texts = joined[len(_PLAIN_LOG) : -2].decode("ascii").split(_BETWEEN_PLAIN_LOGS)
    # Each LF lies between two lines, so as many parts as lines mean that each line is a frame.
    content = "".join(texts)
    if len(texts) != len(lines) or '"' in content or "\\" in content:
        return None
    return texts if content.isprintable() else None


def parse_child_frame(line: bytes) -> ChildMessage | None:
    """Rebuild one line of the child as a message.

    Args:
        line: Bytes without LF.

    Returns:
        The message, or None for a line that is dropped: broken UTF-8 or JSON, an integer that no
        double holds, an unknown type, a missing field or one of another type, a call with a number
        that cannot be held exactly (negative zero, overflow, underflow, rounded).

    Source: docs/reference/fd3-protocol.md, section Reactions.
    """
    text = line.removeprefix(_BOM)
    is_exact = True
    try:
        frame = decode(text)
    except LosslessJsonError:
        # The scan holds the interpreter lock for about 20 ms a MiB.
        replaced = _replace_numbers(text) if len(text) <= MAX_SCANNED_BYTES else None
        if replaced is None:
            return None
        is_exact = False
        try:
            frame = decode(replaced)
        except LosslessJsonError:
            return None
    return _rebuild(frame, is_exact) if type(frame) is dict else None


def cut_message(message: str, max_bytes: int) -> str:
    """Cut a failure message that came over the wire so that its UTF-8 form fits, marker included.

    Units: `max_bytes` counts bytes of UTF-8, a lone surrogate as 3. Below 15 the marker stands
    alone.

    Source: PY-119 to PY-122.
    """
    if len(message) * 4 <= max_bytes or len(message[: max_bytes + 1].encode(*_UTF8)) <= max_bytes:
        return message
    room = max(0, max_bytes - len(CUT_MARKER.encode()))
    kept = message[:room].encode(*_UTF8)[:room]
    end = len(kept)
    # A sequence has 4 bytes at most, so its head is among the last 3 if it was cut.
    for back in range(1, min(3, end) + 1):
        head = kept[end - back]
        if head >= 0xC0:
            width = 2 if head < 0xE0 else 3 if head < 0xF0 else 4
            end -= back if back < width else 0
            break
    return kept[:end].decode(*_UTF8) + CUT_MARKER


_PLAIN_LOG: Final = b'{"type":"log","text":"'
_LOG_HEAD_BYTES: Final = len(_PLAIN_LOG) - 1  # up to the text, whose quote is part of the sign
_BETWEEN_PLAIN_LOGS: Final = f'"}}\n{_PLAIN_LOG.decode()}'
_LOG_ENDS: Final = {
    "}": (False, False),
    ',"open":true}': (False, True),
    ',"truncated":true}': (True, False),
}
_UTF8: Final = ("utf-8", "surrogatepass")


def _rebuild(frame: dict[str, JsonValue], is_exact: bool) -> ChildMessage | None:
    kind = frame.get("type")
    if kind == "call":
        return _call(frame) if is_exact else None
    if kind == "log":
        return _log(frame)
    if kind == "done":
        return _done(frame, is_exact)
    return AckMessage() if kind == "boot-ack" else None


def _call(frame: dict[str, JsonValue]) -> CallMessage | None:
    call_id, global_name, name = frame.get("id"), frame.get("global"), frame.get("name")
    if type(call_id) is not int or type(global_name) is not str or type(name) is not str:
        return None  # an id with a fraction is never the expected one
    return CallMessage(call_id, global_name, name, frame["args"]) if "args" in frame else None


def _log(frame: dict[str, JsonValue]) -> LogMessage | None:
    text = frame.get("text")
    if type(text) is not str:
        return None
    return LogMessage(text, frame.get("truncated") is True, frame.get("open") is True)


def _done(frame: dict[str, JsonValue], is_exact: bool) -> DoneMessage | FailMessage | None:
    if "error" in frame:
        error = frame["error"]
        if type(error) is not dict:
            return None
        kind, message = error.get("kind"), error.get("message")
        if type(message) is not str or type(kind) is not str or kind not in DONE_KINDS:
            return None
        return FailMessage(kind, message)
    has_value = "value" in frame
    return DoneMessage(has_value, frame.get("value"), is_exact or not has_value)


def _replace_numbers(text: bytes) -> bytes | None:
    """Put 0 for each number that cannot be held exactly, if it is not spelled as an integer.

    Returns:
        The text, or None if it holds an integer that no double holds.
    """
    try:
        return _TOKEN.sub(_replace_number, text)
    except LosslessJsonError:
        return None


def _replace_number(match: re.Match[bytes]) -> bytes:
    token = match.group()
    if token[0] == 0x22 or not _NUMBER.fullmatch(token):
        return token  # what is no JSON number makes the parser refuse the line
    try:
        decode(token)
    except LosslessJsonError:
        if token != b"-0" and _INTEGER.fullmatch(token):
            raise
        return b"0"
    return token
