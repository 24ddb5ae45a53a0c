"""Whether a soak has grown: the counts exactly, memory by its trend."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

from tests.soak.sampling import LAST_COUNTS, Sample

MIB = 1_048_576


@dataclass(frozen=True, slots=True)
class Trend:
    """The growth of one quantity for each 1,000 runs, with the interval that holds it (95 %)."""

    per_1000: float
    low: float
    high: float


def find_trend(points: Sequence[tuple[float, float]]) -> Trend:
    """Estimate a slope as the median of the slopes of all pairs of points (Theil and Sen).

    Single samples far off do not move it. The interval is the one of Sen (1968): the ranks of
    the pairs around the median that the variance of Kendall's statistic leaves open.

    Args:
        points: Number of runs and quantity, at least two.
    """
    slopes = sorted(
        1000 * (b[1] - a[1]) / (b[0] - a[0]) for a, b in combinations(points, 2) if a[0] != b[0]
    )
    count = len(points)
    reach = 1.96 * math.sqrt(count * (count - 1) * (2 * count + 5) / 18)
    low = max(0, math.floor((len(slopes) - reach) / 2))
    high = min(len(slopes) - 1, math.ceil((len(slopes) + reach) / 2))
    return Trend(statistics.median(slopes), slopes[low], slopes[high])


@dataclass(frozen=True, slots=True)
class Line:
    """One line of the verdict."""

    name: str
    first: str
    last: str
    growth: str
    bound: str
    ok: bool


def judge_counts(baseline: Sample, last: Sample) -> list[Line]:
    """Compare what must be exactly as after the warm-up."""
    lines = []
    for name in LAST_COUNTS:
        first, now = getattr(baseline, name), getattr(last, name)
        lines.append(
            Line(
                name.replace("_", "-"), str(first), str(now), f"{now - first:+}", "0", first == now
            )
        )
    return lines


def judge_memory(
    samples: Sequence[Sample], *, bound_bytes: float, least_bytes: float
) -> list[Line]:
    """Judge the trend of memory over the samples after the warm-up.

    It is growth when the lower end of the interval is above zero, and the slope is more than
    `bound_bytes` for each 1,000 runs and more than `least_bytes` over the whole: what an allocator
    keeps for later is no growth, and shows in a short soak only.
    """
    runs = samples[-1].run_count - samples[0].run_count
    # The zygote and the wardens live as long as the runtime.
    keepers = set.intersection(*(set(item.sizes_bytes) for item in samples))
    quantities = (
        ("memory: host", 1, [item.host_bytes for item in samples]),
        ("memory: host, allocated", 1, [item.heap_bytes for item in samples]),
        (
            "memory: long-lived descendants",
            1,
            [sum(item.sizes_bytes[name] for name in keepers) for item in samples],
        ),
        ("memory: all descendants", 4, [item.family_bytes for item in samples]),
    )
    lines = []
    for name, tolerance, sizes in quantities:
        trend = find_trend(
            [(item.run_count, size) for item, size in zip(samples, sizes, strict=True)]
        )
        allowed = tolerance * max(bound_bytes, least_bytes * 1000 / runs)
        lines.append(
            Line(
                name,
                f"{sizes[0] / MIB:.1f} MiB",
                f"{sizes[-1] / MIB:.1f} MiB",
                f"{trend.per_1000 / MIB:+.2f} [{trend.low / MIB:+.2f}, {trend.high / MIB:+.2f}]",
                f"{allowed / MIB:.2f}",
                trend.low <= 0 or trend.per_1000 <= allowed,
            )
        )
    return lines
