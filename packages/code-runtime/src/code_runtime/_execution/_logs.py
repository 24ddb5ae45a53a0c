"""The logs of a run as they arrive: charged to the ledger, then handed to `on_log`."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import final

from code_runtime._ledger import OutputLedger


@final
class LogObserver:
    """Hands entries to `on_log` and keeps when they came.

    `on_log` runs on the event loop. One that raises is called no more; its exception is kept in
    `fault` until the run is over, so that a broken observer never changes an outcome.
    """

    __slots__ = ("_on_log", "_origin_s", "_times_ms", "fault")

    def __init__(self, on_log: Callable[[str], object] | None, *, record: bool) -> None:
        self._on_log = on_log
        self._origin_s = time.monotonic()
        self._times_ms: list[float] | None = [] if record else None
        self.fault: BaseException | None = None

    @property
    def is_needed(self) -> bool:
        """Whether anyone wants to know of each entry when it comes."""
        return self._on_log is not None or self._times_ms is not None

    def times_ms(self, kept_count: int) -> list[float] | None:
        """Return the arrival of each kept entry, in ms since the assignment, if recorded."""
        return None if self._times_ms is None else self._times_ms[:kept_count]

    def mark(self) -> None:
        """Keep the time of an entry."""
        if self._times_ms is not None:
            self._times_ms.append((time.monotonic() - self._origin_s) * 1000)

    def show(self, text: str) -> None:
        """Hand an entry to `on_log`."""
        if self._on_log is not None:
            try:
                self._on_log(text)
            except BaseException as error:
                self._on_log = None
                self.fault = error


def plain_text(json_text: bytes) -> str | None:
    """Return the string that a JSON text spells in printable ASCII without any escape.

    That is what most lines of output are. Such a text costs as many bytes as it has.

    Returns:
        The string, or None if the text spells it in another way, or is something else.
    """
    if len(json_text) >= 2 and json_text.isascii():
        text = json_text.decode("ascii")
        inner = text[1:-1]
        if inner.isprintable() and "\\" not in inner and text.count('"') == 2:
            return inner if text[0] == '"' and text[-1] == '"' else None
    return None


@final
class LogBook:
    """Admits log entries to the ledger, and shows those that are kept."""

    __slots__ = ("_ledger", "_observer")

    def __init__(self, ledger: OutputLedger, observer: LogObserver) -> None:
        self._ledger = ledger
        self._observer = observer

    def admit(self, text: str, cost_bytes: int | None = None) -> bool:
        """Charge one entry; return False when it does not fit and the run must end."""
        admitted = self._ledger.admit(text, cost_bytes)
        self._observer.mark()
        if admitted:
            self._observer.show(text)
        return admitted

    def admit_plain(self, texts: list[str], cost_bytes: int) -> bool:
        """Charge plain entries, see `plain_text`, that nobody observes.

        Args:
            texts: The entries.
            cost_bytes: What they cost as JSON, without the commas between them.

        Returns:
            False when one of them does not fit and the run must end, as for `admit`.
        """
        if self._ledger.admit_all(texts, cost_bytes):
            return True
        return all(self._ledger.admit(text, len(text) + 2) for text in texts)
