"""What one hop of a call costs by itself: `python -m bench.hops`.

Each line is a piece of a call's path, done many times alone; the least is what it costs when
nothing else runs, so that the sum of the least says where the time of a call goes.
"""

from __future__ import annotations

import json
import os
import socket
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager

import anyio
import anyio.abc
import typer

from code_runtime._execution._journal import Journal
from code_runtime._execution._sender import PacedSender
from code_runtime._lossless import decode, encode

from .measure import Spread, spread_of

COUNT = 2_000
FRAME = b'{"type":"call","id":1,"global":"tools","name":"echo","args":1}\n'


def timed(act: Callable[[], object]) -> list[float]:
    """Return the times of many calls, in µs."""
    times = []
    for _ in range(COUNT):
        begin = time.perf_counter()
        act()
        times.append((time.perf_counter() - begin) * 1_000_000)
    return times


async def timed_async(act: Callable[[], Awaitable[object]]) -> list[float]:
    """Return the times of many awaits, in µs."""
    times = []
    for _ in range(COUNT):
        begin = time.perf_counter()
        await act()
        times.append((time.perf_counter() - begin) * 1_000_000)
    return times


@contextmanager
def echoing_process() -> Iterator[socket.socket]:
    """Hold a process that sends back what it gets, and the socket to it."""
    near, far = socket.socketpair()
    pid = os.fork()
    if pid == 0:
        near.close()
        while data := far.recv(65_536):
            far.sendall(data)
        os._exit(0)
    far.close()
    try:
        yield near
    finally:
        near.close()
        os.waitpid(pid, 0)


def blocking_round_trip() -> list[float]:
    """Time a frame to another process and back, both sides asleep in `recv`."""
    with echoing_process() as near:

        def act() -> None:
            near.sendall(FRAME)
            near.recv(65_536)

        return timed(act)


async def loop_round_trip() -> list[float]:
    """Time the same with this side asleep in its event loop."""
    with echoing_process() as near:
        near.setblocking(False)

        async def act() -> None:
            near.send(FRAME)
            await anyio.wait_readable(near)
            near.recv(65_536)

        return await timed_async(act)


async def task_of_a_call() -> list[float]:
    """Time a task with a scope, as each asynchronous binding gets one."""
    over = anyio.Event()
    times: list[float] = []

    async def settle() -> None:
        over.set()

    async def work() -> None:
        with anyio.CancelScope():
            await settle()

    async with anyio.create_task_group() as group:

        async def act() -> None:
            nonlocal over
            over = anyio.Event()
            group.start_soon(work)
            await over.wait()

        times = await timed_async(act)
    return times


async def turn_of_a_sender() -> list[float]:
    """Time a reply through the paced sender, into a socket that nobody waits at."""
    near, far = socket.socketpair()
    near.setblocking(False)
    sender = PacedSender(near)

    async def frame() -> bytes:
        return FRAME

    async def act() -> None:
        await sender.send(frame)
        far.recv(65_536)

    try:
        return await timed_async(act)
    finally:
        near.close()
        far.close()


async def lines() -> list[tuple[str, list[float]]]:
    """Measure every hop."""
    journal = Journal(record=False)
    return [
        ("round trip to another process, both asleep in recv", blocking_round_trip()),
        ("the same, this side asleep in its event loop", await loop_round_trip()),
        ("a task with a scope, and back", await task_of_a_call()),
        ("a reply through the paced sender", await turn_of_a_sender()),
        ("parse a small frame (json)", timed(lambda: json.loads(FRAME))),
        ("decode a small value (exact)", timed(lambda: decode(b"1"))),
        ("encode a small value (exact)", timed(lambda: encode(1))),
        ("a record of the journal", timed(lambda: journal.begin("tools", "echo", b"1"))),
    ]


def show(title: str, spread: Spread, least: float) -> str:
    """Write one hop."""
    return f"{title}: least {least:.1f} µs, median {spread.median:.1f} µs"


def main(backend: str = "asyncio") -> None:
    """Print each hop."""
    for title, times in anyio.run(lines, backend=backend):
        typer.echo(show(title, spread_of(times), min(times)))


if __name__ == "__main__":
    typer.run(main)
