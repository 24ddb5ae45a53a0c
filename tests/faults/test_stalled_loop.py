"""The host's event loop stands still for two seconds while runs are at every stage."""

from __future__ import annotations

import time
from pathlib import Path

import anyio
import anyio.lowlevel
import pytest
from faults import BACKENDS, Backend, outcome_of
from run_requests import Tools, build_request

from code_runtime import CodeRunResult, CodeRuntime
from code_runtime_worker_thread import WorkerThreadCodeRuntime

pytestmark = pytest.mark.anyio

STALL_S = 2.0
REPLY_CHARS = 4 * 1_048_576
# Below the stall: a program that waits for its host is not busy, however long that takes.
COMPUTE_MS = 1_500


class Stages:
    """Holds runs at their stages until the loop has stood still."""

    def __init__(self, release: Path) -> None:
        self.results: dict[str, CodeRunResult] = {}
        self._release = release
        self._missing = 3
        self._all_there = anyio.Event()
        self._held = anyio.Event()
        self._over = anyio.Event()

    async def run(self, runtime: CodeRuntime, stage: str, program: str, tools: Tools) -> None:
        """Run a program and keep its result."""
        self.results[stage] = await runtime.run(build_request(program, tools))

    def come(self, _: object) -> None:
        """Say that a run is at its stage."""
        self._missing -= 1
        if not self._missing:
            self._all_there.set()

    async def wait(self, _: object) -> str:
        """Answer a call only after the stall."""
        self.come(None)
        await self._over.wait()
        return "fine"

    def reply(self, _: object) -> str:
        """Answer with more than the socket takes; the program reads it after the stall."""
        self.come(None)
        return "x" * REPLY_CHARS

    async def stall(self, _: object) -> None:
        """Hold the loop when the end of the run cancels this call."""
        self._held.set()
        try:
            await anyio.sleep_forever()
        finally:
            time.sleep(STALL_S)  # noqa: ASYNC251 it is the fault
            self._over.set()
            self._release.touch()

    async def wait_for_all(self, _: object) -> None:
        """Let the run that stalls go on when the others are at their stages."""
        await self._held.wait()
        await self._all_there.wait()


async def test_a_loop_that_stands_still_loses_nothing(backend: Backend, tmp_path: Path) -> None:
    """SC-013, WT-156: mid-call, mid-reply, in a flood of logs, after done, and at a start."""
    is_worker = backend.provider is WorkerThreadCodeRuntime
    config = {"compute_ms": COMPUTE_MS} if is_worker else {}
    stages = Stages(tmp_path / "release")
    reply = backend.reply.substitute(release=repr(str(tmp_path / "release")))

    async def load() -> None:
        async with backend.open() as other:
            await backend.run_fine(other)

    async with backend.open() as runtime, backend.open(**config) as tight:
        with anyio.fail_after(50):
            async with anyio.create_task_group() as tasks:
                for where, stage, program, tools in (
                    (tight, "mid-call", backend.call, {"act": stages.wait}),
                    (runtime, "mid-reply", reply, {"act": stages.reply}),
                    (runtime, "flood", backend.flood, {"up": stages.come}),
                    (
                        runtime,
                        "end",
                        backend.done,
                        {"act": stages.stall, "acted": stages.wait_for_all},
                    ),
                ):
                    tasks.start_soon(stages.run, where, stage, program, tools)
                tasks.start_soon(load)
        await backend.run_fine(runtime)
    outcomes = {
        stage: outcome_of(result, REPLY_CHARS if stage == "mid-reply" else "fine")
        for stage, result in stages.results.items()
    }
    assert outcomes == dict.fromkeys(("mid-call", "mid-reply", "flood", "end"), "value")
    assert stages.results["flood"].logs == [str(number) for number in range(3000)]


async def test_a_wall_limit_that_passes_meanwhile_has_one_outcome(backend: Backend) -> None:
    """SC-013, WT-161: the clock of a run does not stop for its host."""

    def stall(_: object) -> str:
        time.sleep(STALL_S)
        return "fine"

    async with backend.open() as runtime:
        result = await runtime.run(build_request(backend.call, {"act": stall}, max_wall_ms=1_000))
        await backend.run_fine(runtime)
    # The completion may be there when the loop wakes, and be read before the clock.
    assert outcome_of(result, "fine") in (
        "`timeout`: wall-clock ceiling exceeded: 1000 ms",
        "value",
    )
    assert result.logs == ["up"]


@pytest.mark.parametrize("name", ["worker-thread", "python-zygote"])
async def test_an_observer_of_logs_that_takes_its_time_loses_none(name: str) -> None:
    """PY-128: the process is dead for two seconds before its last lines are taken."""

    def observe(_: str) -> None:
        time.sleep(0.006)

    async with BACKENDS[name].open() as runtime:
        result = await runtime.run(build_request(BACKENDS[name].crash, on_log=observe))
    assert result.logs == [str(number) for number in range(400)]
    assert result.error is not None
    assert result.error.message.endswith("process was ended by SIGKILL before completing")
