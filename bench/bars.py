"""What each figure has to reach, as ours / upstream in the same run (or in its own unit)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from .subjects import Language


@dataclass(frozen=True, slots=True)
class Bar:
    """A bound of a ratio, or of a figure itself when `absolute`."""

    sense: Literal["≤", "≥"]
    limit: float
    absolute: bool = False

    def met_by(self, value: float) -> bool:
        """Whether a median is on the right side."""
        return value <= self.limit if self.sense == "≤" else value >= self.limit

    def __str__(self) -> str:
        return f"{self.sense} {self.limit:g}{' ms' if self.absolute else ''}"


BARS: dict[tuple[str, Language], Bar] = {
    ("warm_rested", "typescript"): Bar("≤", 0.15),
    ("warm_rested", "python"): Bar("≤", 0.05),
    ("warm_back_to_back", "typescript"): Bar("≤", 0.70),
    ("warm_back_to_back", "python"): Bar("≤", 0.06),
    ("call_p50", "typescript"): Bar("≤", 1.0),
    ("call_p50", "python"): Bar("≤", 0.65),
    ("calls_2000", "typescript"): Bar("≥", 1.0),
    ("calls_5000", "typescript"): Bar("≥", 1.0),
    ("calls_2000", "python"): Bar("≥", 3.0),
    ("calls_5000", "python"): Bar("≥", 3.0),
    ("value_in", "typescript"): Bar("≤", 0.14),
    ("value_in_out", "typescript"): Bar("≤", 0.08),
    ("value_in", "python"): Bar("≤", 0.14),
    ("value_in_out", "python"): Bar("≤", 0.08),
    ("logs", "typescript"): Bar("≤", 0.6),
    ("logs", "python"): Bar("≤", 0.15),
    ("runs_8", "typescript"): Bar("≥", 0.90),
    ("runs_8", "python"): Bar("≥", 14.0),
    ("cold", "typescript"): Bar("≤", 1.6),
    ("cold", "python"): Bar("≤", 1.2),
    ("import", "typescript"): Bar("≤", 40.0, absolute=True),
    ("import", "python"): Bar("≤", 40.0, absolute=True),
}
