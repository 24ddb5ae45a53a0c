"""A run on a host that is up: after a rest, and back to back."""

from __future__ import annotations

import statistics

from ..driver import Driver
from ..programs import TRIVIAL
from .figure import Family, Figure, run, times_of

REST_MS = 60


def rested(driver: Driver, quick: bool) -> dict[str, float]:
    """Return the median of some runs, each after a rest."""
    answer = run(driver, TRIVIAL, expected=2, repeat=2 if quick else 8, rest_ms=REST_MS)
    return {"warm_rested": statistics.median(times_of(answer))}


def back_to_back(driver: Driver, quick: bool) -> dict[str, float]:
    """Return the median of runs without a pause; the first two use what the rest has prepared."""
    answer = run(driver, TRIVIAL, expected=2, repeat=4 if quick else 22)
    return {"warm_back_to_back": statistics.median(times_of(answer)[2:])}


RESTED = Family((Figure("warm_rested", f"warm run, rested {REST_MS} ms", "ms"),), on_driver=rested)
BACK_TO_BACK = Family(
    (Figure("warm_back_to_back", "warm run, back to back", "ms"),), on_driver=back_to_back
)
