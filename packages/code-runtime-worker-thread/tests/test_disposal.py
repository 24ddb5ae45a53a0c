"""Disposal waits for everything: runs in every state, processes that die slowly, calls in flight.

No test here shares a runtime, whose processes come and go: each is checked alone. The conformance
suite has the disposal of a run that was only just started, of runs that wait for their turn, and
the rejection of later ones.
"""

from __future__ import annotations

import random
import time

import anyio
import anyio.lowlevel
import pytest
from leftovers import snapshot_resources
from run_requests import Provider, build_request

from code_runtime import CodeRunResult, Context, RuntimeDisposedError, ServiceMissingError
from code_runtime_worker_thread import WorkerThreadCodeRuntime

pytestmark = pytest.mark.anyio

DISPOSED = ("abort", "runtime disposed")
FOREVER = "console.log('up'); await new Promise(() => {})"
HOT = "console.log('up'); for (;;);"


def failure(result: CodeRunResult) -> tuple[str, str]:
    assert result.error is not None, result
    return result.error.kind, result.error.message


@pytest.mark.parametrize(
    "program",
    [
        pytest.param("console.log('up'); for (;;);", id="hot"),
        pytest.param("console.log('up'); await new Promise(() => {})", id="waiting"),
        pytest.param("console.log('up'); await tools.hold(0)", id="calling"),
        pytest.param(
            "console.log('up'); process.getBuiltinModule('child_process').execSync('sleep 20')",
            id="blocked",
        ),
        pytest.param(
            "process.on('exit', () => { for (;;); }); console.log('up'); for (;;);",
            id="refuses-to-exit",
        ),
        pytest.param(
            "console.log('up'); process.kill(process.pid, 'SIGSTOP'); for (;;);", id="stopped"
        ),
        pytest.param("for (;;) console.log('up')", id="flooding"),
    ],
)
async def test_disposal_aborts_a_run_in_any_state_and_leaves_nothing(
    anyio_backend: str, program: str
) -> None:
    """WT-171, SC-045: the run is over before disposal is, and its process is gone."""
    before = snapshot_resources()[0]
    up = anyio.Event()
    results: list[CodeRunResult] = []

    async def hold(_: object) -> None:
        await anyio.sleep_forever()

    async with Context() as ctx:
        handle = await ctx.plugin(WorkerThreadCodeRuntime)
        runtime = ctx.codeRuntime

        async def one() -> None:
            request = build_request(program, {"hold": hold}, on_log=lambda _: up.set())
            results.append(await runtime.run(request))

        async with anyio.create_task_group() as task_group:
            task_group.start_soon(one)
            await up.wait()
            before_s = time.monotonic()
            await handle.dispose()
            assert snapshot_resources()[0] - before == set()
            assert time.monotonic() - before_s < 5
    (result,) = results
    assert (result.logs[0], failure(result)) == ("up", DISPOSED)


async def test_disposal_waits_for_a_run_whose_outcome_is_chosen(anyio_backend: str) -> None:
    """WT-174, GP-002: upstream forgets such a run, and its worker outlives the disposal."""
    before = snapshot_resources()[0]
    results: list[CodeRunResult] = []
    ending = anyio.Event()
    released = anyio.Event()

    async def hold(_: object) -> None:
        try:
            await anyio.sleep_forever()
        finally:
            # Cancelled because the outcome is chosen: the run now only waits for this function.
            ending.set()
            with anyio.CancelScope(shield=True):
                await released.wait()

    async with Context() as ctx:
        handle = await ctx.plugin(WorkerThreadCodeRuntime)
        runtime = ctx.codeRuntime
        disposed = False

        async def one() -> None:
            program = "void tools.hold(0); return 'chosen'"
            results.append(await runtime.run(build_request(program, {"hold": hold})))

        async def dispose() -> None:
            nonlocal disposed
            await handle.dispose()
            disposed = True

        async with anyio.create_task_group() as task_group:
            task_group.start_soon(one)
            await ending.wait()
            task_group.start_soon(dispose)
            for _ in range(50):
                await anyio.lowlevel.checkpoint()
            assert (disposed, results) == (False, [])
            released.set()
        assert snapshot_resources()[0] - before == set()
    assert [(result.value, result.error) for result in results] == [("chosen", None)]


async def test_a_second_disposal_is_harmless_at_any_time(anyio_backend: str) -> None:
    """WT-173: two at once, and one more afterwards."""
    async with Context() as ctx:
        handle = await ctx.plugin(WorkerThreadCodeRuntime)
        runtime = ctx.codeRuntime
        assert (await runtime.run(build_request("return 1"))).value == 1
        async with anyio.create_task_group() as task_group:
            task_group.start_soon(handle.dispose)
            task_group.start_soon(handle.dispose)
        await handle.dispose()
        with pytest.raises(RuntimeDisposedError) as caught:
            await runtime.run(build_request("return 1"))
    assert str(caught.value) == (
        "Cannot run a program: WorkerThreadCodeRuntime is disposed, "
        "expected a call before the end of its disposal"
    )


async def test_leaving_the_context_disposes_a_run_of_another_task(anyio_backend: str) -> None:
    """WT-171, SC-045: the context's own end is a disposal."""
    results: list[CodeRunResult] = []
    up = anyio.Event()
    async with anyio.create_task_group() as task_group:
        async with Context() as ctx:
            await ctx.plugin(WorkerThreadCodeRuntime)
            runtime = ctx.codeRuntime

            async def one() -> None:
                program = "console.log('up'); for (;;);"
                results.append(await runtime.run(build_request(program, on_log=lambda _: up.set())))

            task_group.start_soon(one)
            await up.wait()
        assert [failure(result) for result in results] == [DISPOSED]


@pytest.mark.slow
async def test_cancellation_at_random_points_leaves_nothing(provider: Provider) -> None:
    """300 cancellations in all over both backends and three programs."""
    rng = random.Random(20261129)
    programs = (HOT, FOREVER, "for (let i = 0; i < 50; i++) await tools.echo(i); return 'x'")

    async def echo(value: object) -> object:
        await anyio.lowlevel.checkpoint()
        return value

    before = snapshot_resources()
    async with provider(spare_hosts=2) as runtime:
        for index in range(150):
            with anyio.move_on_after(rng.random() * 0.03):
                await runtime.run(build_request(programs[index % 3], {"echo": echo}))
        result = await runtime.run(build_request("return await tools.echo('fine')", {"echo": echo}))
        assert result.value == "fine"
    after = snapshot_resources()
    assert (after[0] - before[0], after[2] - before[2]) == (set(), set())


async def test_disposal_aborts_the_runs_and_waits_for_their_processes(
    anyio_backend: str,
) -> None:
    """SC-045, WT-171, WT-173, SC-003."""
    before = snapshot_resources()[0]
    up = anyio.Event()
    results: list[CodeRunResult] = []
    async with Context() as ctx:
        handle = await ctx.plugin(WorkerThreadCodeRuntime)
        runtime = ctx.codeRuntime

        async def one() -> None:
            results.append(await runtime.run(build_request(HOT, on_log=lambda _: up.set())))

        async with anyio.create_task_group() as task_group:
            task_group.start_soon(one)
            await up.wait()
            await handle.dispose()
            assert snapshot_resources()[0] - before == set()
        assert [(r.logs, failure(r)) for r in results] == [(["up"], ("abort", "runtime disposed"))]
        with pytest.raises(RuntimeDisposedError):
            await runtime.run(build_request("return 1"))
        with pytest.raises(ServiceMissingError):
            _ = ctx.codeRuntime
        await handle.dispose()
