"""A program that prints 100,000 lines."""

from __future__ import annotations

from .. import programs
from ..driver import Driver, WorkFailedError
from .figure import Family, Figure, run, times_of

COUNT = 100_000


def measure(driver: Driver, quick: bool) -> dict[str, float]:
    """Time a run whose result holds every line."""
    count = COUNT // 100 if quick else COUNT
    answer = run(driver, programs.logs(driver.subject.language, count), expected=count)
    seen = (answer["log_count"], answer["last_log"])
    if seen != (count, f"line {count - 1}"):
        raise WorkFailedError(f"logs {seen!r}, expected {count} up to 'line {count - 1}'")
    return {"logs": times_of(answer)[0]}


FAMILY = Family((Figure("logs", "100,000 log lines", "ms"),), on_driver=measure, heavy=True)
