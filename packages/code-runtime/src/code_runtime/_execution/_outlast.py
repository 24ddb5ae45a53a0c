"""Waits for the readers of a process that is dead: nothing that it wrote before may be lost."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

import anyio

# Killed processes leave their sockets and pipes at once. Whoever holds one longer is a stranger.
SILENCE_S: Final = 1.0
LONGEST_S: Final = 30.0


async def outlast(wait: Callable[[], Awaitable[object]], count: Callable[[], int]) -> None:
    """Wait for readers as long as they get on.

    Given up after a second without anything, and after thirty in any case.

    Args:
        wait: Returns when they are done.
        count: How much they have handled; who observes the logs may take his time for each.
    """
    seen = -1
    with anyio.move_on_after(LONGEST_S):
        while seen != count():
            seen = count()
            with anyio.move_on_after(SILENCE_S):
                await wait()
                return
