"""The processor time of another process."""

from __future__ import annotations

import time

_PROCESS_CLOCK = 2


def cpu_time_s(pid: int) -> float:
    """Return the processor time of all threads of a process, 0 when it is gone or not to be had.

    Source: the clock number is built as clock_getcpuclockid(3) of Linux does.
    """
    try:
        return time.clock_gettime((~pid << 3) | _PROCESS_CLOCK)
    except OSError:
        return 0.0
