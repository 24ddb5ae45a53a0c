"""The record of a run's binding calls, bounded whatever the program does."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Final, final

from code_runtime._vocabulary import CallOutcome, CodeCall

MAX_CALLS_KEPT: Final = 10_000
MAX_PREVIEW_BYTES: Final = 2_048


@dataclass(slots=True, eq=False)
class CallRecord:
    """One call while it is in flight."""

    namespace: str
    member: str
    started_ms: float
    duration_ms: float = 0.0
    outcome: CallOutcome | None = None
    argument_preview: str | None = None
    result_preview: str | None = None


@final
class Journal:
    """The first `MAX_CALLS_KEPT` calls in the order of their start; the rest is counted.

    Units: `started_ms` counts from the assignment of the run.
    """

    __slots__ = ("_dropped_count", "_origin_s", "_record", "_records")

    def __init__(self, *, record: bool) -> None:
        self._record = record
        self._records: list[CallRecord] = []
        self._dropped_count = 0
        self._origin_s = time.monotonic()

    @property
    def keeps_previews(self) -> bool:
        """Whether arguments and results are kept."""
        return self._record

    @property
    def elapsed_ms(self) -> float:
        """Time since the assignment of the run."""
        return (time.monotonic() - self._origin_s) * 1000

    @property
    def dropped_count(self) -> int:
        """Calls that are counted and not kept."""
        return self._dropped_count

    def begin(self, namespace: str, member: str, argument: bytes) -> CallRecord:
        """Open the record of a call that has arrived."""
        record = CallRecord(namespace, member, self.elapsed_ms)
        if len(self._records) < MAX_CALLS_KEPT:
            self._records.append(record)
            if self._record:
                record.argument_preview = preview(argument)
        else:
            self._dropped_count += 1
        return record

    def end(self, record: CallRecord, outcome: CallOutcome, result: bytes | None = None) -> None:
        """Close a record; only the first end counts."""
        if record.outcome is not None:
            return
        record.outcome = outcome
        record.duration_ms = self.elapsed_ms - record.started_ms
        if self._record and result is not None:
            record.result_preview = preview(result)

    def freeze(self) -> list[CodeCall]:
        """Return the calls; those that are still in flight count as abandoned."""
        for record in self._records:
            self.end(record, "abandoned")
        return [
            CodeCall(
                namespace=record.namespace,
                member=record.member,
                started_ms=record.started_ms,
                duration_ms=record.duration_ms,
                outcome=record.outcome or "abandoned",
                argument_preview=record.argument_preview,
                result_preview=record.result_preview,
            )
            for record in self._records
        ]


def preview(text: bytes) -> str:
    """Return the first `MAX_PREVIEW_BYTES` of a JSON text, cut between characters."""
    if len(text) <= MAX_PREVIEW_BYTES:
        return text.decode("utf-8", "replace")
    return text[: MAX_PREVIEW_BYTES - 3].decode("utf-8", "ignore") + "…"
