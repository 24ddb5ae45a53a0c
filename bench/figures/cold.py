"""From nothing to the first result: the host process is started and counts too."""

from __future__ import annotations

import time

from ..driver import Driver, WorkFailedError
from ..programs import TRIVIAL
from ..subjects import Subject
from .figure import Family, Figure


def measure(subject: Subject, _quick: bool) -> dict[str, float]:
    """Start a host whose first act is a run, and stop the clock at its result."""
    first = {"op": "run", "program": TRIVIAL[subject.language]}
    begin = time.perf_counter()
    with Driver(subject, first) as driver:
        answer = driver.answer()
        took_ms = (time.perf_counter() - begin) * 1_000
    if answer["value"] != 2:
        raise WorkFailedError(f"value {answer['value']!r}, expected 2")
    return {"cold": took_ms}


FAMILY = Family((Figure("cold", "cold: fresh host to first result", "ms"),), on_subject=measure)
