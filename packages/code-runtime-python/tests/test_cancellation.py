"""Runs that are cancelled or disposed leave nothing: no test here shares a runtime, so each is checked alone."""

from __future__ import annotations

import asyncio
import random

import anyio
import anyio.lowlevel
import pytest
from leftovers import snapshot_resources
from run_requests import Provider, build_request

from code_runtime import CodeRunResult, Context, RuntimeDisposedError, ServiceMissingError
from code_runtime_python import PythonCodeRuntime

pytestmark = pytest.mark.anyio

FOREVER = "import asyncio\nprint('up')\nawait asyncio.Event().wait()"
HOT = "print('up')\nwhile True: pass"


def failure(result: CodeRunResult) -> tuple[str, str]:
    assert result.error is not None, result
    return result.error.kind, result.error.message


@pytest.mark.slow
async def test_cancellation_at_random_points_leaves_nothing(provider: Provider) -> None:
    """300 cancellations in all over both backends and three programs."""
    rng = random.Random(20261129)
    programs = (
        HOT,
        FOREVER,
        "for i in range(50): await tools.echo(i)\nreturn 'x'",
    )

    async def echo(value: object) -> object:
        await anyio.lowlevel.checkpoint()
        return value

    async with provider(spare_hosts=2) as runtime:
        for index in range(150):
            with anyio.move_on_after(rng.random() * 0.02):
                await runtime.run(build_request(programs[index % 3], {"echo": echo}))
        result = await runtime.run(build_request("return await tools.echo('fine')", {"echo": echo}))
        assert result.value == "fine"


async def test_a_native_cancellation_does_not_cut_the_end_of_a_run_short(
    provider: Provider, anyio_backend: str
) -> None:
    """`task.cancel()` of asyncio passes through every shield of anyio."""
    if anyio_backend == "trio":
        return  # trio has no such cancellation
    program = (
        "import subprocess\n"
        "subprocess.Popen(['sleep', '30'], start_new_session=True, stdout=subprocess.DEVNULL)\n"
        "return 1"
    )
    async with provider() as runtime:
        await runtime.run(build_request("return 1"))
        for delay_ms in range(0, 24, 2):
            task = asyncio.ensure_future(runtime.run(build_request(program)))
            await asyncio.sleep(delay_ms / 1000)
            task.cancel()
            await asyncio.wait([task])
            assert not [item for item in snapshot_resources()[0] if "(sleep)" in item]
        assert (await runtime.run(build_request("return 2"))).value == 2


async def test_disposal_aborts_the_runs_and_waits_for_their_processes(anyio_backend: str) -> None:
    """PY-037, PY-257, PY-259, PY-260, PY-263: a trapped SIGTERM does not matter, nothing is left."""
    before = snapshot_resources()[0]
    up = anyio.Event()
    results: list[CodeRunResult] = []
    stubborn = (
        "import os, signal, time\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "if os.fork() == 0:\n    time.sleep(60)\nprint('up')\nwhile True: pass"
    )
    async with Context() as ctx:
        handle = await ctx.plugin(PythonCodeRuntime)
        runtime = ctx.codeRuntime

        async def one() -> None:
            results.append(await runtime.run(build_request(stubborn, on_log=lambda _: up.set())))

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
