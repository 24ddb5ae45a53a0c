"""The child's log ledger: which entries fit, and from where on there is only the marker.

The host keeps the same ledger and decides; the child's own only saves what would be dropped. The
budget is that of the JSON list of all entries: it starts at `maxLogBytes` - 1, an entry costs its
string cost and 1, the marker costs nothing (PY-163). The first fragment of an open line pays quotes
and separator, later ones and the closing frame their content alone (PY-166).

Standard library only, CPython 3.10 or later.
"""

from __future__ import annotations

from .lossless import _quoted, _slices, string_cost
from .wire import encode_log, log_marker

_QUOTES_AND_COMMA = 3
_ENTRY = b'{"type":"log","text":%b}\n'  # as encode_log writes it
_OPEN = b'{"type":"log","text":%b,"open":true}\n'
_SHORT = 4_096  # characters of a line that is escaped at once, without asking for its cost first


class LogLedger:
    """Turns lines into frames as long as the budget lasts, and then into one marker.

    Units: budgets count bytes of canonical JSON text.

    Args:
        max_bytes: The budget for the list of all entries.
    """

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self.remaining = max_bytes - 1
        self.truncated = False

    def may_fit(self, characters: int, *, continued: bool) -> bool:
        """Tell whether a line of this many characters may fit, each costing a byte at least."""
        return characters + (0 if continued else _QUOTES_AND_COMMA) <= self.remaining

    def frame(self, text: str, *, continued: bool, is_open: bool) -> bytes:
        """Charge an entry or fragment.

        Args:
            text: Its text.
            continued: It goes on with an open line, whose quotes are paid.
            is_open: The line stays open.

        Returns:
            Its frame, or that of the marker if it does not fit. A long text has several: no frame
            holds up its reader.
        """
        room = self.remaining - (0 if continued else 1)
        paid = 2 if continued else 0
        frame = _OPEN if is_open else _ENTRY
        if len(text) <= _SHORT:
            quoted = _quoted(text).encode()
            cost = len(quoted) - paid
            if cost > room:
                return self.overflow()
            self.remaining = room - cost
            return frame % quoted
        whole_cost = string_cost(text, room + paid)
        if whole_cost is None:
            return self.overflow()
        self.remaining = room + paid - whole_cost
        *parts, last = (_quoted(piece).encode() for piece in _slices(text))
        return b"".join((*(_OPEN % part for part in parts), frame % last))

    def plain_frame(self, text: str) -> bytes | None:
        """Charge a whole entry that JSON spells as it is, and return its frame.

        Returns:
            The frame; None, with nothing charged, for a text that has to be escaped, is no ASCII,
            or does not fit.
        """
        room = self.remaining - len(text) - _QUOTES_AND_COMMA
        if room < 0 or self.truncated or '"' in text or "\\" in text:
            return None
        if not (text.isascii() and text.isprintable()):
            return None
        self.remaining = room
        return f'{{"type":"log","text":"{text}"}}\n'.encode("ascii")

    def overflow(self) -> bytes:
        """Return the marker's frame; nothing is admitted from now on."""
        self.truncated = True
        return encode_log(log_marker(self.max_bytes), truncated=True)
