"""Programs that attack what runs them: each gets a typed failure, the host is unharmed, the next run is
fine, and the event loop is never held for more than 50 ms.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
import pytest
from run_requests import build_request

from code_runtime import CodeRunResult, CodeRuntime

pytestmark = pytest.mark.anyio

MAX_BLOCK_S = 0.05


@asynccontextmanager
async def responsive_loop() -> AsyncIterator[None]:
    """Fail when the body holds the event loop for more than 50 ms of its own CPU time.

    Process time and not real time: on a busy machine the whole process may wait for a processor.
    """
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
    assert worst_s < MAX_BLOCK_S, f"the loop was held for {worst_s * 1000:.0f} ms"


async def attack(runtime: CodeRuntime, program: str, **request: object) -> CodeRunResult:
    """Run a hostile program, then prove that the next run is as good as any."""
    async with responsive_loop():
        result = await runtime.run(build_request(program, **request))
    after = await runtime.run(
        build_request(
            "console.log(Object.keys(globalThis).includes('leak')); return await tools.echo([1])",
            {"echo": lambda value: value},
        )
    )
    assert (after.logs, after.value, after.error) == (["false"], [1], None)
    return result
