"""What a figure is, and what all of them check."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

from ..driver import Driver, WorkFailedError
from ..subjects import Language, Subject


@dataclass(frozen=True, slots=True)
class Figure:
    """One line of the report."""

    name: str
    title: str
    unit: Literal["ms", "µs", "1/s", "MB", "x"]
    better: Literal["lower", "higher"] = "lower"


@dataclass(frozen=True, slots=True)
class Family:
    """Figures that come from one piece of work.

    `measure` does the work once, on a host of its own or on one that lives as long as the family is
    measured, and returns a value for each figure. `heavy` work takes seconds, so it gets fewer
    rounds.
    """

    figures: tuple[Figure, ...]
    on_driver: Callable[[Driver, bool], Mapping[str, float]] | None = None
    on_subject: Callable[[Subject, bool], Mapping[str, float]] | None = None
    heavy: bool = False
    only_ours: bool = False


def run(
    driver: Driver,
    program: Mapping[Language, str] | str,
    *,
    expected: object = None,
    repeat: int = 1,
    concurrency: int = 1,
    rest_ms: float = 0,
    prepare: tuple[str, int] | tuple[()] = (),
) -> dict[str, object]:
    """Let a driver run a program and check its value, unless that is to be read.

    Raises:
        WorkFailedError: the program failed, or its value is another.
    """
    text = program if isinstance(program, str) else program[driver.subject.language]
    answer = driver.ask(
        op="run",
        program=text,
        repeat=repeat,
        concurrency=concurrency,
        rest_ms=rest_ms,
        prepare=prepare,
    )
    if expected is not None and answer["value"] != expected:
        raise WorkFailedError(f"value {answer['value']!r}, expected {expected!r}")
    return answer


def number(answer: Mapping[str, object], name: str) -> float:
    """Return a number of an answer.

    Raises:
        WorkFailedError: there is none.
    """
    value = answer.get(name)
    if not isinstance(value, (int, float)):
        raise WorkFailedError(f"{name} {value!r}, expected a number")
    return float(value)


def times_of(answer: Mapping[str, object]) -> list[float]:
    """Return the times of the runs of an answer, in ms."""
    times = answer["ms"]
    assert isinstance(times, list)
    return [float(time) for time in times]
