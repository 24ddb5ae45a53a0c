"""The event loop of a program: asyncio's own, on a selector that saves system calls.

Standard library only, CPython 3.10 or later.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sized
from selectors import PollSelector, SelectorKey
from time import monotonic

_LOWEST_FREE_FD = 32  # the loop's own descriptors come after the numbers that programs guess
_LOOKS_EVERY = 4  # turns of the loop that have something to do
_SPIN_S = 0.00008  # a quick binding has answered in this time
_MOST_CREDIT = 8
_TRIES_EVERY = 32  # waits without credit


class _Selector(PollSelector):
    """Looks at descriptors in some turns of a busy loop only, and looks on for quick replies.

    A loop that has something to do asks in every turn whether a descriptor is ready, which takes
    as long as the turn itself: a call of a binding goes through three turns.

    A process that sleeps is woken in a quarter of the time that a quick call takes in all. So who
    waits for a reply first looks whether it comes at once, as long as that has been so of late.

    Args:
        awaited: The calls that wait for a reply.
    """

    def __init__(self, awaited: Sized) -> None:
        super().__init__()
        self._awaited = awaited
        self._turns = 0
        self._credit = _MOST_CREDIT
        self._waits = 0

    def select(self, timeout: float | None = None) -> list[tuple[SelectorKey, int]]:
        """Wait for descriptors; see `selectors.BaseSelector.select`."""
        if timeout is not None and timeout <= 0:
            self._turns = (self._turns + 1) % _LOOKS_EVERY
            if self._turns:
                return []
        elif self._awaited and (timeout is None or timeout > _SPIN_S):
            ready = self._look_on()
            if ready:
                return ready
        return super().select(timeout)

    def _look_on(self) -> list[tuple[SelectorKey, int]]:
        if not self._credit:
            self._waits = (self._waits + 1) % _TRIES_EVERY
            if self._waits:
                return []
        ends_s = monotonic() + _SPIN_S
        while True:
            ready = super().select(0)
            if ready:
                self._credit = min(self._credit + 2, _MOST_CREDIT)
                return ready
            if monotonic() >= ends_s:
                self._credit = max(self._credit - 1, 0)
                return []


def new_loop(awaited: Sized = ()) -> asyncio.AbstractEventLoop:
    """Make the loop: on poll, which shares nothing with a forked copy as epoll does.

    Args:
        awaited: The calls that wait for a reply.
    """
    fillers: list[int] = []
    while not fillers or fillers[-1] < _LOWEST_FREE_FD:
        fillers.append(os.open(os.devnull, os.O_RDONLY) if not fillers else os.dup(fillers[0]))
    try:
        loop = asyncio.SelectorEventLoop(_Selector(awaited))
        loop.time = monotonic  # type: ignore[method-assign]  # the clock itself: one call less a turn
        return loop
    finally:
        for number in fillers:
            os.close(number)
