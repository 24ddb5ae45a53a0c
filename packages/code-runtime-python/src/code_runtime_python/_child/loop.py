"""The event loop of a program: asyncio's own, on a selector that saves system calls.

Standard library only, CPython 3.10 or later.
"""

from __future__ import annotations

import asyncio
import os
from selectors import PollSelector, SelectorKey
from time import monotonic

_LOWEST_FREE_FD = 32  # the loop's own descriptors come after the numbers that programs guess
_LOOKS_EVERY = 4  # turns of the loop that have something to do


class _Selector(PollSelector):
    """Looks at descriptors in some turns of a busy loop only.

    A loop that has something to do asks in every turn whether a descriptor is ready, which takes
    as long as the turn itself: a call of a binding goes through three turns.
    """

    _turns = 0

    def select(self, timeout: float | None = None) -> list[tuple[SelectorKey, int]]:
        """Wait for descriptors; see `selectors.BaseSelector.select`."""
        if timeout is not None and timeout <= 0:
            self._turns = (self._turns + 1) % _LOOKS_EVERY
            if self._turns:
                return []
        return super().select(timeout)


def new_loop() -> asyncio.AbstractEventLoop:
    """Make the loop: on poll, which shares nothing with a forked copy as epoll does."""
    fillers: list[int] = []
    while not fillers or fillers[-1] < _LOWEST_FREE_FD:
        fillers.append(os.open(os.devnull, os.O_RDONLY) if not fillers else os.dup(fillers[0]))
    try:
        loop = asyncio.SelectorEventLoop(_Selector())
        loop.time = monotonic  # type: ignore[method-assign]  # the clock itself: one call less a turn
        return loop
    finally:
        for number in fillers:
            os.close(number)
