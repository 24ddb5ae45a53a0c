"""What the system keeps for a process and any process of the same user can change.

A program may lower the limits of a process that waits for the next run, or of the one that all
later ones are forked from. So they are read when a process is known to be untouched, and compared
before use.
"""

from __future__ import annotations

import os
import sys
from typing import TypeAlias

_LIMIT_COUNT = 16  # of Linux, from RLIMIT_CPU to RLIMIT_RTTIME

Settings: TypeAlias = "tuple[object, ...] | None"
"""A reading that can be compared; None where there is nothing to read."""


def read_settings(pid: int) -> Settings:
    """Read limits, nice value, processors and policy of a process; None when it is gone.

    The limit of core dumps is left out: each program gets its own.
    """
    if sys.platform != "linux":
        return None
    import resource

    try:
        limits = tuple(
            resource.prlimit(pid, number)
            for number in range(_LIMIT_COUNT)
            if number != resource.RLIMIT_CORE
        )
        return (
            limits,
            os.getpriority(os.PRIO_PROCESS, pid),
            frozenset(os.sched_getaffinity(pid)),
            os.sched_getscheduler(pid),
        )
    except (OSError, ValueError):
        return None
