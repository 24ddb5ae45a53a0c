"""Rules of cancellation and disposal: a run ends whole, and nothing of it goes on."""

from __future__ import annotations

import asyncio

import anyio
import anyio.lowlevel

from code_runtime._errors import RuntimeDisposedError
from code_runtime._vocabulary import CodeRunRequest

from ._expect import (
    WALLS_MS,
    dispose_during,
    expect,
    expect_failure,
    expect_same,
    expect_value,
    own_runtime,
)
from ._files import growing_file
from ._rule import rule
from ._subject import Limits, Subject


@rule("hot", "return_null")
async def a_cancelled_caller_is_cancelled(subject: Subject) -> None:
    """Cancelling the task that awaits `run` raises the cancellation from it.

    SC-036.
    """
    up = anyio.Event()
    seen: list[object] = []

    async def call() -> None:
        try:
            seen.append(await runtime.run(subject.request("hot", on_log=lambda _: up.set())))
        except anyio.get_cancelled_exc_class():
            seen.append("cancelled")
            raise

    async with subject.open() as runtime:
        async with anyio.create_task_group() as task_group:
            task_group.start_soon(call)
            await up.wait()
            task_group.cancel_scope.cancel()
        expect_same("what the caller saw", seen, ["cancelled"])
        expect_value(await runtime.run(subject.request("return_null")), None)


@rule("hold")
async def a_cancelled_run_cancels_its_calls(subject: Subject) -> None:
    """A run that is cancelled has ended its calls before the caller goes on."""
    held = anyio.Event()
    events: list[str] = []

    async def hold(_: object) -> None:
        held.set()
        try:
            await anyio.sleep_forever()
        finally:
            with anyio.CancelScope(shield=True):
                await anyio.sleep(0.02)
            events.append("function ended")

    async def call() -> None:
        await subject.run("hold", {"hold": hold})

    async with anyio.create_task_group() as task_group:
        task_group.start_soon(call)
        await held.wait()
        task_group.cancel_scope.cancel()
    expect_same("what the function saw before the caller went on", events, ["function ended"])


@rule("ticks", "return_null")
async def a_cancelled_program_calls_nothing(subject: Subject) -> None:
    """After the cancellation of a run no function of its is called."""
    ticks: list[object] = []
    some = anyio.Event()

    def tick(value: object) -> None:
        ticks.append(value)
        if len(ticks) == 10:
            some.set()

    async with subject.open() as runtime:
        async with anyio.create_task_group() as task_group:
            task_group.start_soon(runtime.run, subject.request("ticks", {"tick": tick}))
            await some.wait()
            task_group.cancel_scope.cancel()
        before = len(ticks)
        for _ in range(3):
            await runtime.run(subject.request("return_null"))
        expect_same("the number of calls later", len(ticks), before)


@rule("heartbeat", "return_null")
async def a_cancelled_program_is_gone(subject: Subject) -> None:
    """When `run` raises a cancellation, the program has stopped for good."""
    with growing_file() as file:
        async with subject.open() as runtime:
            up = anyio.Event()
            tools = {"path": lambda _: file.path}
            request = subject.request("heartbeat", tools, on_log=lambda _: up.set())
            async with anyio.create_task_group() as task_group:
                task_group.start_soon(runtime.run, request)
                await up.wait()
                task_group.cancel_scope.cancel()
            await file.expect_rest("after a cancellation")


@rule("heartbeat")
async def a_cancellation_by_asyncio_is_whole(subject: Subject) -> None:
    """A task that is cancelled by asyncio itself, more than once, still ends its program."""
    if not isinstance(asyncio.CancelledError(), anyio.get_cancelled_exc_class()):
        return  # another event loop has no such cancellation
    with growing_file() as file:
        async with subject.open() as runtime:
            up = anyio.Event()
            tools = {"path": lambda _: file.path}
            request = subject.request("heartbeat", tools, on_log=lambda _: up.set())
            task = asyncio.ensure_future(runtime.run(request))
            await up.wait()
            while not task.done():
                task.cancel()
                await asyncio.sleep(0)
            await file.expect_rest("after task.cancel()")
            expect(task.cancelled(), "the task", repr(task), "a cancelled one")


@rule("heartbeat")
async def a_timed_out_program_is_gone(subject: Subject) -> None:
    """When a timeout is returned, the program has stopped for good."""
    with growing_file() as file:
        for max_wall_ms in WALLS_MS:
            tools = {"path": lambda _: file.path}
            result = await subject.run("heartbeat", tools, max_wall_ms=max_wall_ms)
            expect_failure(result, "timeout")
            if file.size_bytes:
                break
        await file.expect_rest("after a timeout")


@rule("detached")
async def what_a_program_started_is_gone(subject: Subject) -> None:
    """When `run` returns, a detached process of the program has been ended too."""
    with growing_file() as file:
        result = await subject.run("detached", {"path": lambda _: file.path})
        expect_value(result, "done")
        await file.expect_rest("after the end of the program")


@rule("hot", "wait", "hold")
async def a_disposal_aborts_runs(subject: Subject) -> None:
    """Disposal ends every run as `abort`, whatever its program is doing, and waits for it.

    SC-039, SC-045.
    """
    up: list[str] = []
    everyone = anyio.Event()

    def on_log(text: str) -> None:
        up.append(text)
        if len(up) == 3:
            everyone.set()

    tools = {"hold": lambda _: anyio.sleep_forever()}
    requests = [subject.request(key, tools, on_log=on_log) for key in ("hot", "wait", "hold")]
    for result in await dispose_during(subject, *requests, when=everyone):
        message = expect_failure(result, "abort")
        expect("dispos" in message, "the message", message, "one that says so")


@rule("hold")
async def a_disposal_cancels_calls(subject: Subject) -> None:
    """Disposal cancels the calls in flight, and is over only when they are.

    SC-045.
    """
    up = anyio.Event()
    events: list[str] = []

    async def hold(_: object) -> None:
        up.set()
        try:
            await anyio.sleep_forever()
        finally:
            with anyio.CancelScope(shield=True):
                await anyio.sleep(0.02)
            events.append("function ended")

    await dispose_during(subject, subject.request("hold", {"hold": hold}), when=up)
    expect_same("what the function saw before the end", events, ["function ended"])


@rule("hold", limits=["concurrent_runs"])
async def a_disposal_ends_queued_runs(subject: Subject) -> None:
    """Disposal ends the runs that wait for their turn as `abort`, too.

    SC-045, WT-171, WT-172.
    """
    up = anyio.Event()
    tools = {"hold": lambda _: anyio.sleep_forever()}
    request = subject.request("hold", tools, on_log=lambda _: up.set())
    limits = Limits(concurrent_runs=1)
    results = await dispose_during(subject, request, request, request, when=up, limits=limits)
    for result in results:
        expect_failure(result, "abort")


@rule("wait")
async def a_disposal_right_after_the_start_counts(subject: Subject) -> None:
    """A disposal right after `run` was called ends the run as `abort`.

    SC-045, WT-172, PY-054, PY-258.
    """
    (result,) = await dispose_during(subject, subject.request("wait"))
    expect_failure(result, "abort")


@rule("heartbeat")
async def a_disposed_program_is_gone(subject: Subject) -> None:
    """When disposal is over, the programs that were running have stopped for good.

    SC-045.
    """
    with growing_file() as file:
        up = anyio.Event()
        tools = {"path": lambda _: file.path}
        request = subject.request("heartbeat", tools, on_log=lambda _: up.set())
        await dispose_during(subject, request, when=up)
        await file.expect_rest("after disposal")


@rule("return_null")
async def a_disposed_runtime_runs_nothing(subject: Subject) -> None:
    """After disposal `run` raises `RuntimeDisposedError`, whatever it is given, each time.

    SC-036, SC-045, WT-009.
    """
    async with own_runtime(subject) as own:
        request = subject.request("return_null")
        expect_value(await own.runtime.run(request), None)
        await own.dispose()
        for given in (request, request, CodeRunRequest("", []), object()):
            try:
                result: object = await own.runtime.run(given)  # type: ignore[arg-type]
            except RuntimeDisposedError:
                continue
            expect(False, "the answer of a disposed runtime", result, "RuntimeDisposedError")


@rule("return_null")
async def a_runtime_can_be_opened_again(subject: Subject) -> None:
    """A runtime that is opened after the disposal of another one works."""
    for _ in range(2):
        async with subject.open_own() as runtime:
            expect_value(await runtime.run(subject.request("return_null")), None)


@rule("return_null")
async def an_unused_runtime_is_disposed(subject: Subject) -> None:
    """A runtime that has run nothing is disposed like any other."""
    async with own_runtime(subject) as own:
        await own.dispose()
        try:
            result: object = await own.runtime.run(subject.request("return_null"))
        except RuntimeDisposedError:
            return
        expect(False, "the answer of a disposed runtime", result, "RuntimeDisposedError")
