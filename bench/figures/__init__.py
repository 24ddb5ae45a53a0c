"""The figures, in the order of the report."""

from __future__ import annotations

from . import calls, cold, growth, imports, logs, memory, rates, values, warm
from .figure import Family, Figure

FAMILIES: tuple[Family, ...] = (
    warm.RESTED,
    warm.BACK_TO_BACK,
    calls.SEQUENTIAL,
    calls.GATHERED,
    values.IN,
    values.IN_OUT,
    logs.FAMILY,
    rates.RATES,
    cold.FAMILY,
    memory.FAMILY,
    rates.GROWTH,
    growth.FAMILY,
    imports.FAMILY,
)

FIGURES: dict[str, Figure] = {
    figure.name: figure for family in FAMILIES for figure in family.figures
}

__all__ = ["FAMILIES", "FIGURES", "Family", "Figure"]
