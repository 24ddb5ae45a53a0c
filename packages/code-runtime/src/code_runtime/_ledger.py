"""The ledger of a run's outer output: its logs, then its value or failure message.

The unit is the byte of canonical JSON text. The logs cost 2 for their list, each entry its string
cost, and 1 for each comma; a value or a failure message comes on top. A total equal to the cap is
within it (WT-065 to WT-095). Arguments and results of binding calls are never charged (WT-095).
"""

from __future__ import annotations

from typing import final

from ._lossless import fitting_prefix, string_cost
from ._vocabulary import FailureKind

_LIST_BYTES = 2
_COMMA_BYTES = 1


@final
class OutputLedger:
    """Admits log entries one by one, as long as the cap allows.

    Units: every number is bytes of canonical JSON text.

    Args:
        max_bytes: The cap, at least 4.
    """

    __slots__ = ("_exceeded", "_logs", "_max_bytes", "_spent_bytes")

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._logs: list[str] = []
        self._spent_bytes = _LIST_BYTES
        self._exceeded = False

    @property
    def logs(self) -> list[str]:
        """The entries kept so far; the last one is a prefix if it went over the cap."""
        return self._logs

    @property
    def spent_bytes(self) -> int:
        """What the kept entries cost as a list."""
        return self._spent_bytes

    @property
    def remaining_bytes(self) -> int:
        """What a value or message may still cost; 0 once the ledger is exceeded."""
        return 0 if self._exceeded else self._max_bytes - self._spent_bytes

    @property
    def exceeded(self) -> bool:
        """Whether an entry went over the cap, or the far side said that one did."""
        return self._exceeded

    def admit(self, text: str, cost_bytes: int | None = None) -> bool:
        """Charge one log entry.

        Args:
            text: The entry.
            cost_bytes: What it costs as JSON, if that is known already.

        Returns:
            True if it was kept whole. False if it does not fit: its fitting prefix is kept (nothing
            if that is empty), and the ledger is exceeded; later entries are dropped (WT-079).
        """
        if self._exceeded:
            return False
        room = self._max_bytes - self._spent_bytes - (_COMMA_BYTES if self._logs else 0)
        if cost_bytes is not None and cost_bytes <= room:
            self._spent_bytes += cost_bytes + (_COMMA_BYTES if self._logs else 0)
            self._logs.append(text)
            return True
        cost, whole = _append(self._logs, text, self._max_bytes - self._spent_bytes)
        self._spent_bytes += cost
        self._exceeded = not whole
        return whole

    def admit_all(self, texts: list[str], cost_bytes: int) -> bool:
        """Charge several log entries, if all of them fit.

        Args:
            texts: The entries, at least one.
            cost_bytes: What they cost as JSON together, without commas.

        Returns:
            Whether they were kept; otherwise nothing is charged.
        """
        commas = len(texts) if self._logs else len(texts) - 1
        cost = cost_bytes + _COMMA_BYTES * commas
        if self._exceeded or cost > self._max_bytes - self._spent_bytes:
            return False
        self._spent_bytes += cost
        self._logs += texts
        return True

    def exhaust(self) -> None:
        """Mark the ledger as exceeded: the far side has dropped output of its own (WT-080)."""
        self._exceeded = True

    def fits_value(self, cost_bytes: int | None) -> bool:
        """Tell whether a value of this cost, None for one above any limit, is within the cap."""
        return not self._exceeded and cost_bytes is not None and cost_bytes <= self.remaining_bytes

    def fits_message(self, message: str) -> bool:
        """Tell whether a failure message is within the cap (WT-088, WT-089)."""
        return not self._exceeded and string_cost(message, self.remaining_bytes) is not None

    def limit_result(self) -> tuple[list[str], str]:
        """Return the logs and the message of an `output-limit` failure.

        The message has precedence over the logs: they get what the cap leaves once it is paid, so a
        cap below its cost plus 2 drops every entry, admitted ones too, and cuts the message itself
        (WT-081 to WT-083; GP-013 notes the price of that rule for small caps).
        """
        message = limit_message(self._max_bytes)
        room = self._max_bytes - len(message) - 2
        kept = list(self._logs)
        spent = self._spent_bytes
        cut: str | None = None
        while kept and spent > room:  # from the end: a few entries, not all of them, are costed
            cut = kept.pop()
            spent -= (string_cost(cut) or 0) + (_COMMA_BYTES if kept else 0)
        if cut is not None:
            spent += _append(kept, cut, room - spent)[0]
        return kept, fitting_prefix(message, self._max_bytes - spent)


def limit_message(max_bytes: int) -> str:
    """Return the message of an `output-limit` failure: 28 ASCII characters and the cap's digits."""
    return f"Output is larger than {max_bytes} bytes"


def settle_early(
    max_bytes: int, kind: FailureKind, message: str
) -> tuple[list[str], FailureKind, str]:
    """Put a failure that came before any program ran through a ledger of its own (WT-013).

    Returns:
        The logs, the kind and the message of the result; no log was admitted, so the list is empty.
    """
    ledger = OutputLedger(max_bytes)
    if ledger.fits_message(message):
        return [], kind, message
    logs, diagnostic = ledger.limit_result()
    return logs, "output-limit", diagnostic


def _append(logs: list[str], text: str, room_bytes: int) -> tuple[int, bool]:
    """Append an entry, or its fitting prefix, or nothing.

    Returns:
        What was spent, the comma included, and whether the entry was kept whole.
    """
    comma = _COMMA_BYTES if logs else 0
    cost = string_cost(text, room_bytes - comma)
    if cost is not None:
        logs.append(text)
        return comma + cost, True
    prefix = fitting_prefix(text, room_bytes - comma)
    if not prefix:
        return 0, False
    logs.append(prefix)
    return comma + (string_cost(prefix) or 0), False
