"""Resident memory of a host and everything that it started."""

from __future__ import annotations

import time

from ..driver import Driver, WorkFailedError
from ..processes import pss_mb
from ..programs import HOLD, TRIVIAL
from ..subjects import Subject
from .figure import Family, Figure, run

SETTLE_S = 1.0
LOAD = 8


def measure(subject: Subject, quick: bool) -> dict[str, float]:
    """Measure after a first run and a second of rest, and while eight runs wait in a binding."""
    with Driver(subject) as driver:
        run(driver, TRIVIAL, expected=2, repeat=2)
        time.sleep(0.2 if quick else SETTLE_S)
        idle_mb = pss_mb(driver.pid)
        driver.ask(op="hold", program=HOLD[subject.language], count=LOAD)
        time.sleep(0.1 if quick else SETTLE_S)
        load_mb = pss_mb(driver.pid)
        value = driver.ask(op="release")["value"]
    if value != [7] * LOAD:
        raise WorkFailedError(f"value {value!r}, expected {[7] * LOAD!r}")
    return {"memory_idle": idle_mb, "memory_load": load_mb}


FAMILY = Family(
    (
        Figure("memory_idle", "memory, idle", "MB"),
        Figure("memory_load", f"memory, {LOAD} runs under way", "MB"),
    ),
    on_subject=measure,
    heavy=True,
)
