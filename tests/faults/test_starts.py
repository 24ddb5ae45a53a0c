"""Our processes die or freeze before a program runs, or between runs: no run is lost."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

import anyio
import pytest
from faults import (
    BLOWS,
    SIGNALS,
    Ambush,
    Backend,
    build_trap,
    depth_of,
    end_waiting_guards,
    outcome_of,
    read_table,
    wait_dead,
    wait_idle,
)
from processes import descendants
from run_requests import build_request

from code_runtime import CodeRuntime

pytestmark = pytest.mark.anyio

# What the host waits for a process that is up, and for a Node that starts.
ANSWER_S = 3.0
BOOT_S = 5.0


@pytest.fixture(autouse=True)
def short_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten seconds, or a minute, are for a starved machine; two and five do for a frozen process."""
    monkeypatch.setattr("code_runtime_python._session.ANSWER_S", ANSWER_S)
    monkeypatch.setattr("code_runtime_worker_thread._host.BOOT_TIMEOUT_S", BOOT_S)


async def run_echo(backend: Backend, runtime: CodeRuntime) -> str:
    with anyio.fail_after(40):
        result = await runtime.run(build_request(backend.echo, {"echo": lambda value: value}))
    return outcome_of(result, "fine")


async def test_a_process_that_is_struck_when_it_appears_costs_no_run(backend: Backend) -> None:
    """PY-066, WT-169: the one that takes the place of the one that was taken."""
    found = {}
    async with backend.open(**backend.fresh) as runtime:
        for blow in BLOWS:
            if blow.victim == "warden":
                continue  # it appears when the provider loads
            await wait_idle(runtime)  # else the run itself takes the one that is struck
            await end_waiting_guards()
            with Ambush(blow) as ambush:
                await backend.run_fine(runtime)
                await ambush.wait()
            if blow.signal_name == "SIGKILL":
                await wait_dead(ambush.family)
            found["boot", blow.victim, blow.signal_name] = await run_echo(backend, runtime)
            await backend.run_fine(runtime)
    assert found == expected(backend, "boot", {"program", "guard"})


async def test_processes_that_are_struck_between_runs_cost_no_run(backend: Backend) -> None:
    """PY-066: all that wait at that time, or the warden above them."""
    found = {}
    async with backend.open() as runtime:
        for blow in BLOWS:
            await backend.run_fine(runtime)
            family = descendants(os.getpid())
            victims = [item for item in family if depth_of(item[0]) == blow.depth]
            below = [item for pid, _ in victims for item in descendants(pid)]
            for pid, _ in victims:
                with suppress(ProcessLookupError):
                    os.kill(pid, SIGNALS[blow.signal_name])
            if blow.signal_name == "SIGKILL":
                await wait_dead([*victims, *below])
            found["idle", blow.victim, blow.signal_name] = await run_echo(backend, runtime)
            await backend.run_fine(runtime)
    assert found == expected(backend, "idle", {"program", "guard", "warden"})


@pytest.mark.parametrize("point", ["handshake", "before the run frame"])
async def test_a_process_that_is_struck_on_its_way_costs_no_run(
    backend: Backend, point: str, tmp_path: Path
) -> None:
    """PY-066, PY-067: what has run nothing of a program is replaced by another."""
    found: dict[tuple[str, str, str], str] = {}

    async def meet(victim: str) -> None:
        trap = build_trap(backend, tmp_path / victim)
        async with backend.open(**trap.config) as runtime:
            for blow in BLOWS:
                if blow.victim == victim:
                    trap.set(point, blow)
                    found[point, victim, blow.signal_name] = await run_echo(backend, runtime)
                    await backend.run_fine(runtime)
                    assert trap.has_struck, blow

    async with anyio.create_task_group() as tasks:
        for victim in ("program", "guard", "warden"):
            tasks.start_soon(meet, victim)
    assert found == expected(backend, point, {"program", "guard", "warden"})


def expected(backend: Backend, stage: str, victims: set[str]) -> dict[tuple[str, str, str], str]:
    table = read_table(backend.heading)
    return {key: table[key] for key in table if key[0] == stage and key[1] in victims}
