"""Ctrl-C on a command: the first press stops the work in order, the second ends the process."""

from __future__ import annotations

import os
import signal as signals
import time
from typing import TYPE_CHECKING, Final

import anyio

if TYPE_CHECKING:
    from collections.abc import Callable

    from anyio.abc import TaskStatus

_PRESSES: Final = (signals.SIGINT, signals.SIGTERM)
SAME_PRESS_S = 0.3
"""Signals this close to the first are the same press.

A wrapper that passes a signal on (`timeout`, npm, a container's init) sends it to the command and
the command gets it once more with its process group. No hand presses twice that fast.
"""


async def watch_interrupts(
    on_first: Callable[[signals.Signals], object],
    *,
    task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED,
) -> None:
    """Hand the first SIGINT or SIGTERM on, and end the process at once on the second press.

    Guards of programs and servers of tools notice that this process is gone and end by themselves.

    Args:
        on_first: Called once, with the signal.
        task_status: Started once signals are received here.
    """
    first_s: float | None = None

    def leave(number: int, _frame: object = None) -> None:
        if first_s is not None and time.monotonic() - first_s >= SAME_PRESS_S:
            os._exit(128 + number)

    try:
        with anyio.open_signal_receiver(*_PRESSES) as received:
            task_status.started()
            async for number in received:
                if first_s is None:
                    first_s = time.monotonic()
                    on_first(signals.Signals(number))
                else:
                    leave(number)
    finally:
        if first_s is not None:
            # What is left to do, such as showing the result, is not for the same press to cut off.
            for number in _PRESSES:
                signals.signal(number, leave)
