"""Statistics of rounds: medians with quartiles, and ratios of neighbours in time."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

Name = TypeVar("Name")


@dataclass(frozen=True, slots=True)
class Spread:
    """The middle of some samples, and the quartiles around it."""

    median: float
    low: float
    high: float
    count: int

    @property
    def width(self) -> float:
        """The distance of the quartiles."""
        return self.high - self.low


def spread_of(samples: Sequence[float]) -> Spread:
    """Return the median and the quartiles of samples.

    Quartiles are those of the samples themselves (the inclusive method): nothing is extrapolated.

    Raises:
        ValueError: there are no samples.
    """
    if not samples:
        raise ValueError("Cannot find the spread: no samples, expected at least 1")
    if len(samples) == 1:
        return Spread(samples[0], samples[0], samples[0], 1)
    low, median, high = statistics.quantiles(samples, n=4, method="inclusive")
    return Spread(median, low, high, len(samples))


def ratios_of(ours: Sequence[float], other: Sequence[float]) -> Spread:
    """Return the spread of ours / other, round by round.

    Raises:
        ValueError: not the same number of rounds on both sides, or none.
    """
    return spread_of([mine / theirs for mine, theirs in zip(ours, other, strict=True)])


def best_ratio(ours: Sequence[float], other: Sequence[float], *, higher: bool) -> float:
    """Return ours / other of the best round of each: what other load disturbs least."""
    best = max if higher else min
    return best(ours) / best(other)


def interleave(
    names: Sequence[Name],
    measure: Callable[[Name], Mapping[str, float]],
    rounds: int,
) -> dict[Name, dict[str, list[float]]]:
    """Measure every subject once a round, for some rounds.

    The order turns by one from round to round, so that none always follows the same neighbour.

    Returns:
        For each subject and each figure that `measure` gave, the samples in the order of rounds.
    """
    samples: dict[Name, dict[str, list[float]]] = {name: {} for name in names}
    for index in range(rounds):
        turn = index % len(names)
        for name in (*names[turn:], *names[:turn]):
            for figure, value in measure(name).items():
                samples[name].setdefault(figure, []).append(value)
    return samples
