"""Rules of time: every budget fires whatever the program does, and only its own time counts."""

from __future__ import annotations

import anyio
import anyio.lowlevel

from code_runtime._abort import AbortSignal
from code_runtime._runtime import CodeRuntime
from code_runtime._vocabulary import CodeRunRequest, CodeRunResult

from ._expect import WALLS_MS, expect, expect_failure, expect_same, expect_value, running
from ._rule import rule
from ._subject import Limits, Subject

# Short, because nothing has to happen before it is over.
_WALL_MS = 300


async def _expect_timeout(subject: Subject, key: str) -> None:
    result = await subject.run(key, max_wall_ms=_WALL_MS)
    message = expect_failure(result, "timeout")
    expect(str(_WALL_MS) in message, "the message", message, f"the budget, {_WALL_MS}")


@rule("wait")
async def a_waiting_program_times_out(subject: Subject) -> None:
    """A program that waits for ever ends as `timeout`, and the message has the budget.

    SC-039, WT-154.
    """
    await _expect_timeout(subject, "wait")


@rule("hot")
async def a_computing_program_times_out(subject: Subject) -> None:
    """A program that computes for ever ends as `timeout`.

    SC-039, WT-152.
    """
    await _expect_timeout(subject, "hot")


@rule("block")
async def a_blocked_program_times_out(subject: Subject) -> None:
    """A program that blocks in a native call ends as `timeout`, long before the call returns.

    WT-157.
    """
    await _expect_timeout(subject, "block")


@rule("hold")
async def a_waiting_call_times_out(subject: Subject) -> None:
    """A run whose function never returns ends as `timeout`, and the call is cancelled.

    SC-010, WT-138, PY-192, PY-194, PY-261.
    """
    called: list[object] = []
    events: list[str] = []

    async def hold(value: object) -> None:
        called.append(value)
        try:
            await anyio.sleep_forever()
        finally:
            events.append("ended")

    for max_wall_ms in WALLS_MS:
        result = await subject.run("hold", {"hold": hold}, max_wall_ms=max_wall_ms)
        expect_failure(result, "timeout")
        if called:
            break
    expect_same("what the function saw before run returned", events, ["ended"])


@rule("wait", limits=["wall_ms"])
async def a_request_cannot_raise_the_ceiling(subject: Subject) -> None:
    """`max_wall_ms` of a request can only lower the ceiling of the provider.

    SC-007.
    """
    result = await subject.run("wait", limits=Limits(wall_ms=1_500), max_wall_ms=60_000)
    message = expect_failure(result, "timeout")
    expect("1500" in message, "the message", message, "the ceiling of the provider, 1500")


@rule("hot", limits=["busy_ms"])
async def a_computing_program_exhausts_its_busy_time(subject: Subject) -> None:
    """A program that computes longer than its budget ends as `timeout` before the wall.

    SC-039, WT-151.
    """
    result = await subject.run("hot", limits=Limits(busy_ms=1_000), max_wall_ms=20_000)
    message = expect_failure(result, "timeout")
    expect("20000" not in message, "the message", message, "the budget of computing, not the wall")


@rule("hold", limits=["busy_ms"])
async def waiting_costs_no_busy_time(subject: Subject) -> None:
    """A program that waits for a call longer than its busy budget goes on.

    WT-153.
    """

    async def hold(_: object) -> str:
        await anyio.sleep(1.2)
        return "waited"

    result = await subject.run("hold", {"hold": hold}, limits=Limits(busy_ms=1_000))
    expect_value(result, "waited")


@rule("hold", "return_null", limits=["concurrent_runs"])
async def runs_over_the_cap_wait_without_cost(subject: Subject) -> None:
    """A run that waits for its turn starts later, and its wall budget does not run meanwhile.

    SC-046, GP-014, PY-253.
    """
    async with subject.open(Limits(concurrent_runs=1)) as runtime:
        for max_wall_ms in WALLS_MS:
            queued = subject.request("return_null", max_wall_ms=max_wall_ms)
            result = await _run_queued(subject, runtime, queued, max_wall_ms / 1_000)
            if result.error is None:
                break
    expect_value(result, None)


async def _run_queued(
    subject: Subject, runtime: CodeRuntime, queued: CodeRunRequest, wait_s: float
) -> CodeRunResult:
    """Run a request behind one that holds the only place for some time."""
    up, release = anyio.Event(), anyio.Event()

    async def hold(_: object) -> None:
        up.set()
        await release.wait()

    async with running(runtime, subject.request("hold", {"hold": hold})):
        await up.wait()
        async with running(runtime, queued) as results:
            await anyio.sleep(wait_s)
            expect_same("the outcome of the queued run", results[0], None)
            release.set()
    assert results[0] is not None
    return results[0]


@rule("hold", "return_null", limits=["concurrent_runs"])
async def a_queued_run_can_be_aborted(subject: Subject) -> None:
    """A run that waits for its turn ends as `abort` when its signal fires, and never starts.

    SC-010, SC-046.
    """
    up, release = anyio.Event(), anyio.Event()

    async def hold(_: object) -> None:
        up.set()
        await release.wait()

    signal = AbortSignal()
    first = subject.request("hold", {"hold": hold})
    async with (
        subject.open(Limits(concurrent_runs=1)) as runtime,
        running(runtime, first),
    ):
        await up.wait()
        async with running(runtime, subject.request("return_null", signal=signal)) as queued:
            await anyio.lowlevel.checkpoint()
            signal.abort("gave up")
        release.set()
    assert queued[0] is not None
    expect_same("the message", expect_failure(queued[0], "abort"), "gave up")
