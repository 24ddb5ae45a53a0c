"""Large values across the boundary: 100,000 objects of about 100 bytes, 10 MB of JSON."""

from __future__ import annotations

from .. import programs
from ..driver import Driver
from .figure import Family, Figure, run, times_of

COUNT = 100_000


def value_in(driver: Driver, quick: bool) -> dict[str, float]:
    """Time a run that receives the items."""
    count = COUNT // 100 if quick else COUNT
    program = programs.value_in(driver.subject.language, "wide", count)
    answer = run(driver, program, expected=[count, count - 1], prepare=("wide", count))
    return {"value_in": times_of(answer)[0]}


def value_in_out(driver: Driver, quick: bool) -> dict[str, float]:
    """Time a run that receives the items and passes them back."""
    count = COUNT // 100 if quick else COUNT
    program = programs.value_in_out(driver.subject.language, "wide", count)
    answer = run(driver, program, expected=[count, count - 1], prepare=("wide", count))
    return {"value_in_out": times_of(answer)[0]}


IN = Family((Figure("value_in", "10 MB in", "ms"),), on_driver=value_in, heavy=True)
IN_OUT = Family(
    (Figure("value_in_out", "10 MB in + out", "ms"),), on_driver=value_in_out, heavy=True
)
