"""Runs per second at some concurrencies, and how the cost of a run grows with them."""

from __future__ import annotations

from ..driver import Driver
from ..programs import TRIVIAL
from .figure import Family, Figure, number, run


def _per_second(driver: Driver, concurrency: int, repeat: int) -> float:
    answer = run(driver, TRIVIAL, expected=2, repeat=repeat, concurrency=concurrency)
    return repeat / number(answer, "total_ms") * 1_000


def rates(driver: Driver, quick: bool) -> dict[str, float]:
    """Return the rates at 1 and 8."""
    return {
        "runs_1": _per_second(driver, 1, 4 if quick else 24),
        "runs_8": _per_second(driver, 8, 8 if quick else 64),
    }


def growth(driver: Driver, quick: bool) -> dict[str, float]:
    """Return the cost of a run at 64 over that at 1; 1 is no growth."""
    alone = _per_second(driver, 1, 4 if quick else 32)
    crowded = _per_second(driver, 8 if quick else 64, 8 if quick else 192)
    return {"growth_runs": alone / crowded, "runs_64": crowded}


RATES = Family(
    (
        Figure("runs_1", "runs per second at 1", "1/s", "higher"),
        Figure("runs_8", "runs per second at 8", "1/s", "higher"),
    ),
    on_driver=rates,
    heavy=True,
)
GROWTH = Family(
    (
        Figure("growth_runs", "cost of a run at 64 over that at 1", "x"),
        Figure("runs_64", "runs per second at 64", "1/s", "higher"),
    ),
    on_driver=growth,
    heavy=True,
)
