"""The last words of a server."""

from __future__ import annotations

from typing import Final, final

MAX_BYTES: Final = 8_192
MAX_LINES: Final = 10
MAX_LINE_CHARS: Final = 500


@final
class Tail:
    """Keeps the end of what a server writes for people."""

    __slots__ = ("_data",)

    def __init__(self) -> None:
        self._data = bytearray()

    def add(self, data: bytes) -> None:
        """Take more; only the last 8,192 bytes stay."""
        self._data += data[-MAX_BYTES:]
        del self._data[:-MAX_BYTES]

    def text(self) -> str:
        """Return the last ten lines that are not blank; empty for none."""
        lines = self._data.decode("utf-8", "replace").splitlines()
        shown = [line.rstrip()[:MAX_LINE_CHARS] for line in lines if line.strip()]
        return "\n".join(shown[-MAX_LINES:])
