"""Measures for how long a test's event loop is held."""

from __future__ import annotations

import gc
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio

MAX_BLOCK_S = 0.05


@asynccontextmanager
async def responsive_loop() -> AsyncIterator[None]:
    """Fail when the body holds the event loop for more than 50 ms of its own CPU time.

    Process time and not real time: on a busy machine the whole process may wait for a processor.
    """
    # A collection of the test runner's own heap takes longer than what is measured here.
    gc.collect()
    gc.freeze()
    worst_s = 0.0

    async def tick() -> None:
        nonlocal worst_s
        while True:
            before_s = time.thread_time()
            await anyio.sleep(0.005)
            worst_s = max(worst_s, time.thread_time() - before_s)

    async with anyio.create_task_group() as task_group:
        task_group.start_soon(tick)
        yield
        task_group.cancel_scope.cancel()
    gc.unfreeze()
    assert worst_s < MAX_BLOCK_S, f"the loop was held for {worst_s * 1000:.0f} ms"
