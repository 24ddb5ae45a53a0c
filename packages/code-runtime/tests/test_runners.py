"""The tasks of binding calls: few, in order, and nothing of one call reaches another."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import anyio
import anyio.lowlevel
import pytest

from code_runtime._execution._runners import CANCEL_COUNT, MAX_PARKED, JobRunners

pytestmark = pytest.mark.anyio

Job = Callable[[], Awaitable[None]]
MARK: contextvars.ContextVar[str] = contextvars.ContextVar("MARK", default="none")


@dataclass
class Log:
    """What the runners have told."""

    ended: list[Job] = field(default_factory=list)
    turns: int = 0


@asynccontextmanager
async def runners() -> AsyncIterator[tuple[JobRunners[Job], Log]]:
    """Runners of plain functions, closed at the end."""
    log = Log()

    async def run(job: Job) -> bool:
        await job()
        return True

    def turn() -> None:
        log.turns += 1

    async with anyio.create_task_group() as task_group:
        made = JobRunners(task_group, run, turn, log.ended.append)
        with anyio.fail_after(20):
            yield made, log
        made.close()


async def rest(made: JobRunners[Job]) -> None:
    """Wait until there is no job."""
    while made:
        await anyio.lowlevel.checkpoint()


async def test_jobs_that_do_not_wait_share_a_task_in_order() -> None:
    seen: list[tuple[int, int]] = []

    def job(number: int) -> Job:
        async def work() -> None:
            seen.append((number, anyio.get_current_task().id))

        return work

    async with runners() as (made, log):
        for number in range(500):
            made.add(job(number))
        assert len(made) == 500
        await rest(made)
    assert [number for number, _ in seen] == list(range(500))
    assert len({task for _, task in seen}) <= 2  # one, and one that stood by in case it waited
    assert len(log.ended) == 500


async def test_jobs_that_wait_run_together() -> None:
    started: list[int] = []
    release = anyio.Event()

    def job(number: int) -> Job:
        async def work() -> None:
            started.append(number)
            await release.wait()

        return work

    async with runners() as (made, log):
        for number in range(300):
            made.add(job(number))
        while len(started) < 300:
            await anyio.lowlevel.checkpoint()
        assert sorted(started) == list(range(300))
        assert log.ended == []
        release.set()
        await rest(made)
        assert len(log.ended) == 300
        while len(made._scopes) > MAX_PARKED:
            await anyio.lowlevel.checkpoint()


async def test_a_turn_is_told_before_the_last_job_waits() -> None:
    """What the earlier ones have answered must not wait with it."""
    turns_seen: list[int] = []
    async with runners() as (made, log):

        async def quick() -> None: ...

        async def last() -> None:
            turns_seen.append(log.turns)
            await anyio.sleep_forever()

        made.add(quick)
        made.add(last)
        while not turns_seen:
            await anyio.lowlevel.checkpoint()
    assert turns_seen == [2]


async def test_the_context_of_a_job_is_its_own() -> None:
    seen: list[str] = []

    async def mark() -> None:
        seen.append(MARK.get())
        MARK.set("changed")

    async with runners() as (made, _):
        for _number in range(3):
            made.add(mark)
        await rest(made)
    assert seen == ["none"] * 3


async def test_a_job_that_cancels_its_own_task_harms_no_other(anyio_backend: str) -> None:
    if anyio_backend != "asyncio":
        return  # a task of trio cannot be cancelled but through a scope
    ran: list[str] = []

    async def cancel_itself() -> None:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()

    async def work() -> None:
        ran.append("work")
        await anyio.lowlevel.checkpoint()
        ran.append("done")

    async with runners() as (made, _):
        made.add(cancel_itself)
        await rest(made)
        for _number in range(3):
            await anyio.lowlevel.checkpoint()
        made.add(work)
        await rest(made)
    assert ran == ["work", "done"]


async def test_closing_cancels_what_runs_and_returns_what_has_not_begun() -> None:
    cancelled: list[int] = []
    started = 0

    async def hold() -> None:
        nonlocal started
        started += 1
        try:
            await anyio.sleep_forever()
        finally:
            cancelled.append(1)

    count = 2 * CANCEL_COUNT + 7
    async with runners() as (made, log):
        for _number in range(count):
            made.add(hold)
        while started < count:
            await anyio.lowlevel.checkpoint()
        made.add(hold)
        assert made.close() == [hold]
        await rest(made)
        assert len(cancelled) == count
        assert len(log.ended) == count
        made.add(hold)
        await anyio.lowlevel.checkpoint()
        assert started == count
