"""How the cost of an object grows from 10 to 1,000,000 of them."""

from __future__ import annotations

from .. import programs
from ..driver import Driver
from .figure import Family, Figure, run, times_of

COUNTS = (10, 10_000, 100_000, 1_000_000)


def measure(driver: Driver, quick: bool) -> dict[str, float]:
    """Receive ever more small objects; compare the slopes of the last two decades."""
    times = []
    for count in COUNTS:
        used = max(10, count // 100) if quick else count
        program = programs.value_in(driver.subject.language, "small", used)
        answer = run(driver, program, expected=[used, used - 1], prepare=("small", used))
        times.append(times_of(answer)[0])
    ten, low, middle, high = times
    return {
        "objects_10": ten,
        "objects_1000000": high,
        # A decade that takes no time at all says nothing; a microsecond keeps the ratio finite.
        "growth_objects": max(high - middle, 0.001) / max(middle - low, 0.001) / 10,
    }


FAMILY = Family(
    (
        Figure("objects_10", "10 small objects in", "ms"),
        Figure("objects_1000000", "1,000,000 small objects in", "ms"),
        Figure("growth_objects", "cost of an object at 1,000,000 over that at 100,000", "x"),
    ),
    on_driver=measure,
    heavy=True,
)
