"""Our processes die or freeze while a program runs: the tables of docs/reference/faults.md."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import cast

import anyio
import pytest
from faults import BLOWS, LEVELS, SIGNALS, Backend, Blow, outcome_of, read_table, stuck_reply
from run_requests import Tools, build_request

from code_runtime import CodeRuntime

REPLY_CHARS = 4 * 1_048_576
# Long enough to come to the stage on a loaded machine; only a frozen program comes to its end.
WALL_MS = 2_000


async def at_first_statement(
    backend: Backend, runtime: CodeRuntime, _folder: Path, blow: Blow
) -> str:
    """The program strikes by itself: the run frame has arrived, no call was made."""
    program = backend.first.substitute(
        signal=int(SIGNALS[blow.signal_name]),
        levels=LEVELS[blow.victim],
        waits=int(not blow.lets_run),
    )
    return await finish(runtime, program, {}, blow)


async def at_call(backend: Backend, runtime: CodeRuntime, _folder: Path, blow: Blow) -> str:
    """A binding strikes: the program waits for it."""

    async def act(pid: object) -> str:
        blow.strike(cast("int", pid))
        if not blow.lets_run:
            await anyio.sleep_forever()
        return "fine"

    return await finish(runtime, backend.call, {"act": act}, blow)


async def at_reply(backend: Backend, runtime: CodeRuntime, folder: Path, blow: Blow) -> str:
    """A reply of 4 MiB is half written, because the program does not read."""
    release = folder / f"{blow.victim}-{blow.signal_name}"

    def act(pid: object) -> str:
        tasks.start_soon(strike_when_stuck, cast("int", pid))
        return "x" * REPLY_CHARS

    async def strike_when_stuck(pid: int) -> None:
        is_stuck = stuck_reply(runtime, pid)
        while not is_stuck():  # noqa: ASYNC110 nothing tells that a socket is full
            await anyio.sleep(0.002)
        blow.strike(pid)
        if blow.lets_run:
            release.touch()

    async with anyio.create_task_group() as tasks:
        program = backend.reply.substitute(release=repr(str(release)))
        return await finish(runtime, program, {"act": act}, blow, REPLY_CHARS)
    raise AssertionError("not reached")


async def after_done(backend: Backend, runtime: CodeRuntime, _folder: Path, blow: Blow) -> str:
    """The completion has arrived; the end of the run cancels a call, which strikes."""
    held = anyio.Event()

    async def act(pid: object) -> None:
        held.set()
        try:
            await anyio.sleep_forever()
        finally:
            blow.strike(cast("int", pid))

    async def acted(_: object) -> None:
        await held.wait()

    return await finish(runtime, backend.done, {"act": act, "acted": acted}, blow)


async def finish(
    runtime: CodeRuntime, program: str, tools: Tools, blow: Blow, value: object = "fine"
) -> str:
    is_stuck = (blow.victim, blow.signal_name) == ("program", "SIGSTOP") and "acted" not in tools
    limits: dict[str, object] = {"max_wall_ms": WALL_MS} if is_stuck else {}
    with anyio.fail_after(40):
        result = await runtime.run(build_request(program, tools, **limits))
    return outcome_of(result, value)


Meet = Callable[[Blow], Awaitable[str]]


async def meet_all_blows(
    backend: Backend, runtime: CodeRuntime, meet: Meet
) -> dict[tuple[str, str], str]:
    """Strike the processes of four runs side by side, then the warden of all; a run after each."""
    found: dict[tuple[str, str], str] = {}

    async def strike(blow: Blow) -> None:
        found[blow.victim, blow.signal_name] = await meet(blow)

    async with anyio.create_task_group() as tasks:
        for blow in BLOWS:
            if blow.victim != "warden":
                tasks.start_soon(strike, blow)
    await backend.run_fine(runtime)
    for blow in BLOWS:
        if blow.victim == "warden":
            await strike(blow)
            await backend.run_fine(runtime)
    return found


@pytest.mark.anyio
async def test_a_run_whose_processes_are_struck_has_the_outcome_of_the_table(
    backend: Backend, tmp_path: Path
) -> None:
    """SC-013, PY-216, WT-165: killed or frozen at each stage, and the next run works."""
    found: dict[tuple[str, str, str], str] = {}

    async def run_stage(stage: str) -> None:
        async with backend.open() as runtime:
            meet = partial(STAGES[stage], backend, runtime, tmp_path)
            for key, outcome in (await meet_all_blows(backend, runtime, meet)).items():
                found[stage, *key] = outcome

    async with anyio.create_task_group() as tasks:
        for stage in STAGES:
            tasks.start_soon(run_stage, stage)
    table = read_table(backend.heading)
    assert found == {key: table[key] for key in table if key[0] in STAGES}


STAGES = {
    "first statement": at_first_statement,
    "mid-call": at_call,
    "mid-reply": at_reply,
    "after done": after_done,
}

EARLIER = {
    "boot": {"program", "guard"},
    **{stage: set(LEVELS) for stage in ("handshake", "before the run frame", "idle")},
}


@pytest.mark.parametrize("heading", ["Worker thread", "Python"])
def test_the_tables_have_a_row_for_each_case(heading: str) -> None:
    """Here and in test_starts.py."""
    stages = EARLIER | {stage: set(LEVELS) for stage in STAGES}
    assert set(read_table(heading)) == {
        (stage, victim, name)
        for stage, victims in stages.items()
        for victim in victims
        for name in SIGNALS
    }
