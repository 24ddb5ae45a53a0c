"""The selector of a program's loop: when it looks, and when it sleeps."""

from __future__ import annotations

import os
import select
from collections.abc import Iterator

import anyio
import pytest
from run_requests import Provider, build_request

from code_runtime_python._child.loop import _MOST_CREDIT, _TRIES_EVERY, _Selector


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    ends = os.pipe()
    yield ends
    for fd in ends:
        os.close(fd)


def test_selector_looks_on_for_a_reply_only_while_replies_come_quickly(
    pipe: tuple[int, int],
) -> None:
    reader, writer = pipe
    waiting = {1: "call"}
    selector = _Selector(waiting)
    selector.register(reader, select.POLLIN)
    try:
        for credit in reversed(range(_MOST_CREDIT)):
            assert selector.select(0.001) == []
            assert selector._credit == credit
        os.write(writer, b"x")
        for _ in range(_TRIES_EVERY - 1):  # it sleeps at once
            assert [key.fd for key, _ in selector.select(0.001)] == [reader]
            assert selector._credit == 0
        assert [key.fd for key, _ in selector.select(0.001)] == [reader]
        assert selector._credit == 2
        waiting.clear()
        assert [key.fd for key, _ in selector.select(0.001)] == [reader]
        assert selector._credit == 2
    finally:
        selector.close()


@pytest.mark.anyio
async def test_call_that_takes_long_takes_no_processor_time(provider: Provider) -> None:
    """Nor do many timers that fire while it is under way."""
    program = """
import asyncio, time
begin = time.process_time()
async def tick():
    while True: await asyncio.sleep(0.01)
ticker = asyncio.create_task(tick())
await tools.nap(None)
ticker.cancel()
return time.process_time() - begin
"""

    async def nap(_: object) -> None:
        await anyio.sleep(1)

    async with provider() as runtime:
        result = await runtime.run(build_request(program, {"nap": nap}))
    assert isinstance(result.value, float), result
    assert result.value < 0.5
