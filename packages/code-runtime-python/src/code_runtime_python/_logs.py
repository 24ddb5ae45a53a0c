"""The log budget of a Python run: what is over it is dropped behind one marker.

The budget is that of a JSON list of the entries, the marker aside: it starts at one byte less than
its size, and an entry costs its JSON text and a comma. An open line (flushed without its end) is
charged as it comes and stands at its place from the start; later parts are joined to it.

Source: PY-129 to PY-132, PY-163 to PY-175.
"""

from __future__ import annotations

from typing import Final, final

from code_runtime._execution._logs import LogObserver
from code_runtime._lossless import string_cost

from ._child.wire import MAX_FRAGMENTS, log_marker

_QUOTES_BYTES: Final = 2
_COMMA_BYTES: Final = 1


@final
class LineLog:
    """The entries of one run.

    Args:
        max_bytes: The budget.
        observer: Shown each entry when it is complete.
    """

    __slots__ = (
        "_entries",
        "_max_bytes",
        "_observer",
        "_open",
        "_open_at",
        "_spent_bytes",
        "truncated",
    )

    def __init__(self, max_bytes: int, observer: LogObserver) -> None:
        self._max_bytes = max_bytes
        self._observer = observer
        self._entries: list[str] = []
        self._open: list[str] | None = None
        self._open_at = 0
        self._spent_bytes = _COMMA_BYTES
        self.truncated = False

    @property
    def entries(self) -> list[str]:
        """The entries so far; an open line is in it once `finish` was called."""
        return self._entries

    @property
    def room_bytes(self) -> int:
        """What is left of the budget, 0 once it is exceeded."""
        return 0 if self.truncated else self._max_bytes - self._spent_bytes

    def add_line(self, text: str, cost_bytes: int | None = None) -> None:
        """Add a whole entry that belongs to no open line: bytes of descriptor 1 or 2."""
        if self._charge(text, _QUOTES_BYTES + _COMMA_BYTES, cost_bytes):
            self._entries.append(text)
            self._observer.mark()
            self._observer.show(text)

    def add_plain_lines(self, texts: list[str]) -> bool:
        """Add whole entries that cost as many bytes as they have characters, and two quotes.

        Returns:
            Whether all of them were added; if not, then none: they have to be added one by one,
            because one would end an open line, be over the budget, or be shown to an observer.
        """
        if self._open is not None or self.truncated or self._observer.is_needed:
            return False
        spent_bytes = self._spent_bytes + sum(map(len, texts))
        spent_bytes += len(texts) * (_QUOTES_BYTES + _COMMA_BYTES)
        if spent_bytes > self._max_bytes:
            return False
        self._spent_bytes = spent_bytes
        self._entries += texts
        return True

    def add_part(self, text: str, *, is_open: bool, cost_bytes: int | None = None) -> None:
        """Add the text of a log frame: an entry, or a part of an open line.

        Args:
            text: The text.
            is_open: The line goes on with the next part.
            cost_bytes: What the text costs as JSON, if that is known already.
        """
        if self._open is None:
            if not is_open:
                self.add_line(text, cost_bytes)
            elif text and self._charge(text, _QUOTES_BYTES + _COMMA_BYTES, cost_bytes):
                self._open, self._open_at = [text], len(self._entries)
                self._entries.append("")
                self._observer.mark()
            return
        if text:
            if not self._charge(text, 0, cost_bytes):
                return
            self._open.append(text)
            if len(self._open) >= MAX_FRAGMENTS:
                self._open = ["".join(self._open)]
        if not is_open:
            self._close_line()

    def truncate(self) -> None:
        """Drop everything from now on: over the budget here or in the child."""
        if self.truncated:
            return
        self.finish()
        self.truncated = True
        marker = log_marker(self._max_bytes)
        self._entries.append(marker)
        self._observer.mark()
        self._observer.show(marker)

    def finish(self) -> None:
        """End an open line: the run is over."""
        if self._open is not None:
            self._close_line()

    def _charge(self, text: str, overhead_bytes: int, cost_bytes: int | None = None) -> bool:
        if self.truncated:
            return False
        content_room = self._max_bytes - self._spent_bytes - overhead_bytes
        cost = cost_bytes
        if cost is None and content_room >= 0:
            cost = string_cost(text, content_room + _QUOTES_BYTES)
        if cost is None or cost - _QUOTES_BYTES > content_room:
            self.truncate()
            return False
        self._spent_bytes += cost - _QUOTES_BYTES + overhead_bytes
        return True

    def _close_line(self) -> None:
        assert self._open is not None
        text, self._open = "".join(self._open), None
        self._entries[self._open_at] = text
        self._observer.show(text)
