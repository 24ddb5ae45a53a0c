"""Binding calls inside one run, by the clock of the program."""

from __future__ import annotations

from collections.abc import Mapping

from .. import programs
from ..driver import Driver, WorkFailedError
from .figure import Family, Figure, number, run


def _value(answer: Mapping[str, object]) -> dict[str, object]:
    value = answer["value"]
    if not isinstance(value, dict) or value.get("wrong") != 0:
        raise WorkFailedError(f"value {value!r}, expected one without wrong answers")
    return value


def sequential(driver: Driver, quick: bool) -> dict[str, float]:
    """Time calls one after another."""
    program = programs.sequential(driver.subject.language, 200 if quick else 2_000)
    value = _value(run(driver, program))
    return {f"call_{name}": number(value, name) for name in ("least", "p50", "p95", "mean")}


def gathered(driver: Driver, quick: bool) -> dict[str, float]:
    """Time calls that are all in flight at once."""
    figures = {}
    for count in (2_000, 5_000):
        program = programs.gather(driver.subject.language, count // 10 if quick else count)
        figures[f"calls_{count}"] = number(_value(run(driver, program)), "per_second")
    return figures


SEQUENTIAL = Family(
    (
        Figure("call_least", "binding call, sequential least", "µs"),
        Figure("call_p50", "binding call, sequential p50", "µs"),
        Figure("call_p95", "binding call, sequential p95", "µs"),
        Figure("call_mean", "binding call, sequential mean", "µs"),
    ),
    on_driver=sequential,
)
GATHERED = Family(
    (
        Figure("calls_2000", "calls in one gather of 2,000", "1/s", "higher"),
        Figure("calls_5000", "calls in one gather of 5,000", "1/s", "higher"),
    ),
    on_driver=gathered,
)
