"""One line per figure, and the same as JSON."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Iterable, Sequence

from .bars import BARS
from .measure import Spread, best_ratio, ratios_of, spread_of
from .run import Row
from .subjects import Subject

DIGITS = 3


def figure_text(value: float) -> str:
    """Write a number with three digits that count, and thousands apart."""
    if value and abs(value) < 100:
        return f"{value:.{DIGITS}g}"
    return f"{value:,.0f}"


def spread_text(spread: Spread) -> str:
    """Write a median and its quartiles."""
    quartiles = f"{figure_text(spread.low)}-{figure_text(spread.high)}"
    return f"{figure_text(spread.median)} ({quartiles})"


def verdict(row: Row, base: str = "upstream") -> str:
    """Say which bar a row has and whether its median reaches it; empty without a bar."""
    bar = BARS.get((row.figure.name, row.language))
    if bar is None or "ours" not in row.samples or not (bar.absolute or base in row.samples):
        return ""
    ours = row.samples["ours"]
    spread = spread_of(ours) if bar.absolute else ratios_of(ours, row.samples[base])
    return f"bar {bar}: {'met' if bar.met_by(spread.median) else 'NOT MET'}"


def line_of(row: Row, *, with_bar: bool = True) -> str:
    """Write a row: each subject, the ratio ours / other beside it, and the bar."""
    parts = [f"{row.language:<10} {row.figure.title}"]
    for name, samples in row.samples.items():
        text = f"{name} {spread_text(spread_of(samples))} {row.figure.unit}"
        if name != "ours" and "ours" in row.samples:
            text += f" [ours/{name} {_ratio_text(row, name)}]"
        parts.append(text)
    parts += [f"{name} - ({reason})" for name, reason in row.missing.items()]
    bar = verdict(row) if with_bar else ""
    return " | ".join([*parts, bar] if bar else parts)


def _ratio_text(row: Row, name: str) -> str:
    ours, other = row.samples["ours"], row.samples[name]
    best = best_ratio(ours, other, higher=row.figure.better == "higher")
    return f"{spread_text(ratios_of(ours, other))}, best rounds {figure_text(best)}"


def as_json(
    rows: Iterable[Row], about: Sequence[dict[str, object]], quick: bool = False
) -> dict[str, object]:
    """Return everything that was measured, with each sample."""
    return {
        "machine": machine(),
        "quick": quick,
        "subjects": list(about),
        "figures": [_row_json(row) for row in rows],
    }


def machine() -> dict[str, object]:
    """Return what kind of machine this is; nothing that names it."""
    return {
        "system": f"{platform.system()} {platform.machine()}",
        "cores": len(os.sched_getaffinity(0)),
        "python": platform.python_version(),
        "load": round(os.getloadavg()[0], 2),
        "command": "python -m bench " + " ".join(sys.argv[1:]),
    }


def about_of(subject: Subject, answer: dict[str, object]) -> dict[str, object]:
    """Return how a subject names itself, under the name that the report uses."""
    return {"subject": subject.name, "language": subject.language, **answer}


def _spread_json(spread: Spread) -> dict[str, float]:
    return {
        "median": spread.median,
        "low": spread.low,
        "high": spread.high,
        "count": spread.count,
    }


def _row_json(row: Row) -> dict[str, object]:
    bar = BARS.get((row.figure.name, row.language))
    return {
        "figure": row.figure.name,
        "title": row.figure.title,
        "language": row.language,
        "unit": row.figure.unit,
        "better": row.figure.better,
        "subjects": {
            name: {**_spread_json(spread_of(samples)), "samples": samples}
            for name, samples in row.samples.items()
        },
        "ratios": {
            name: {
                **_spread_json(ratios_of(row.samples["ours"], samples)),
                "best": best_ratio(
                    row.samples["ours"], samples, higher=row.figure.better == "higher"
                ),
            }
            for name, samples in row.samples.items()
            if name != "ours" and "ours" in row.samples
        },
        "missing": row.missing,
        "bar": str(bar) if bar else None,
        "verdict": verdict(row) or None,
    }
