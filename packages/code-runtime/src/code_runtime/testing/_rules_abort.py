"""Rules of the abort signal: it ends a run at any time, once, with its reason."""

from __future__ import annotations

import threading

import anyio
import anyio.lowlevel
import anyio.to_thread

from code_runtime._abort import AbortSignal
from code_runtime._vocabulary import CodeRunResult

from ._expect import expect_failure, expect_logs, expect_same, expect_value, running
from ._rule import rule
from ._subject import Subject


@rule("syntax_error", "print_many")
async def a_fired_signal_starts_nothing(subject: Subject) -> None:
    """A request with a fired signal fails as `abort` before anything else is looked at.

    SC-011, WT-011, PY-049.
    """
    signal = AbortSignal()
    signal.abort("before")
    called: list[object] = []
    for key in ("syntax_error", "print_many"):
        result = await subject.run(key, {"count": called.append}, signal=signal)
        expect_same("the message", expect_failure(result, "abort"), "before")
        expect_logs(result, [])
        expect_same("the calls", (called, result.calls), ([], []))


async def _abort_when_up(subject: Subject, key: str, reason: object) -> CodeRunResult:
    signal = AbortSignal()
    return await subject.run(key, signal=signal, on_log=lambda _: signal.abort(reason))


@rule("wait")
async def an_abort_ends_a_waiting_program(subject: Subject) -> None:
    """A signal that fires while the program waits ends it as `abort` with its reason.

    SC-010, WT-161, PY-254.
    """
    result = await _abort_when_up(subject, "wait", "enough")
    expect_same("the message", expect_failure(result, "abort"), "enough")


@rule("hot")
async def an_abort_ends_a_computing_program(subject: Subject) -> None:
    """A signal that fires while the program computes ends it as `abort`.

    SC-010, PY-254.
    """
    result = await _abort_when_up(subject, "hot", "enough")
    expect_same("the message", expect_failure(result, "abort"), "enough")


@rule("block")
async def an_abort_ends_a_blocked_program(subject: Subject) -> None:
    """A signal that fires while the program blocks in a native call ends it as `abort`.

    SC-010, WT-157.
    """
    result = await _abort_when_up(subject, "block", "enough")
    expect_same("the message", expect_failure(result, "abort"), "enough")


@rule("hold")
async def an_abort_cancels_calls(subject: Subject) -> None:
    """An abort cancels the calls in flight and waits for them.

    SC-010.
    """
    signal = AbortSignal()
    events: list[str] = []

    async def hold(_: object) -> None:
        try:
            signal.abort("from the function")
            await anyio.sleep_forever()
        finally:
            events.append("ended")

    result = await subject.run("hold", {"hold": hold}, signal=signal)
    expect_same("the message", expect_failure(result, "abort"), "from the function")
    expect_same("what the function saw before run returned", events, ["ended"])


@rule("hold")
async def a_late_result_changes_nothing(subject: Subject) -> None:
    """A call that returns after the abort changes nothing: a run is decided once.

    SC-010, WT-138, WT-139, PY-192, PY-261.
    """
    signal = AbortSignal()

    async def hold(_: object) -> str:
        signal.abort("first")
        with anyio.CancelScope(shield=True):
            await anyio.sleep(0.02)
        return "late"

    result = await subject.run("hold", {"hold": hold}, signal=signal)
    expect_same("the message", expect_failure(result, "abort"), "first")


@rule("wait")
async def only_the_first_abort_counts(subject: Subject) -> None:
    """The reason of an abort is that of the first call of `abort`.

    SC-010.
    """
    signal = AbortSignal()

    def abort(_: str) -> None:
        signal.abort("first")
        signal.abort("second")

    result = await subject.run("wait", signal=signal, on_log=abort)
    expect_same("the message", expect_failure(result, "abort"), "first")


@rule("wait")
async def an_abort_right_after_the_start_counts(subject: Subject) -> None:
    """A signal that fires right after `run` was called ends the run as `abort`.

    SC-010, PY-256.
    """
    signal = AbortSignal()
    request = subject.request("wait", signal=signal)
    async with subject.open() as runtime, running(runtime, request) as results:
        await anyio.lowlevel.checkpoint()
        signal.abort("at once")
    assert results[0] is not None
    expect_same("the message", expect_failure(results[0], "abort"), "at once")


@rule("hot")
async def an_abort_may_come_from_a_thread(subject: Subject) -> None:
    """A signal may be fired from any thread.

    SC-010, PY-254.
    """
    signal = AbortSignal()
    up = threading.Event()

    def abort() -> None:
        if up.wait(subject.patience_s):
            signal.abort("from a thread")

    async with anyio.create_task_group() as task_group:
        task_group.start_soon(anyio.to_thread.run_sync, abort)
        result = await subject.run("hot", signal=signal, on_log=lambda _: up.set())
        up.set()
    expect_same("the message", expect_failure(result, "abort"), "from a thread")


@rule("wait")
async def a_reason_is_rendered(subject: Subject) -> None:
    """The reason becomes the message: a text as it is, an error with its name, None as a default.

    SC-010, SC-039, WT-161.
    """
    reasons: list[tuple[object, str]] = [
        ("text \ud800", "text \ud800"),
        (ValueError("stop"), "ValueError: stop"),
        (ValueError(), "ValueError"),
        (None, "This operation was aborted"),
        (17, "17"),
    ]
    for reason, text in reasons:
        before = AbortSignal()
        before.abort(reason)
        results = [await _abort_when_up(subject, "wait", reason)]
        results.append(await subject.run("wait", signal=before))
        for result in results:
            expect_same("the message", expect_failure(result, "abort"), text)


@rule("wait")
async def a_reason_without_text_is_safe(subject: Subject) -> None:
    """A reason that cannot be rendered still ends the run as `abort`.

    WT-014, GP-001, PY-050, PY-255.
    """

    class Odd:
        def __str__(self) -> str:
            raise SystemExit(1)

    expect_failure(await _abort_when_up(subject, "wait", Odd()), "abort")
    before = AbortSignal()
    before.abort(Odd())
    expect_failure(await subject.run("wait", signal=before), "abort")


@rule("return_null")
async def an_abort_after_the_end_changes_nothing(subject: Subject) -> None:
    """A signal that fires after the run has no effect, and keeps no reference to it.

    WT-163, PY-254, PY-263.
    """
    signal = AbortSignal()
    result = await subject.run("return_null", signal=signal)
    listeners = len(signal._listeners)
    signal.abort("late")
    expect_value(result, None)
    expect_same("the number of listeners that the run has left", listeners, 0)


@rule("wait", "hold")
async def an_abort_ends_its_own_runs_only(subject: Subject) -> None:
    """One signal ends every run that has it, and no other run.

    SC-010, SC-046.
    """
    signal = AbortSignal()
    up: list[str] = []
    everyone, release = anyio.Event(), anyio.Event()

    def on_log(text: str) -> None:
        up.append(text)
        if len(up) == 3:
            everyone.set()

    async def hold(_: object) -> str:
        await release.wait()
        return "untouched"

    mine = subject.request("wait", signal=signal, on_log=on_log)
    other = subject.request("hold", {"hold": hold}, on_log=on_log)
    async with subject.open() as runtime, running(runtime, other) as others:
        async with running(runtime, mine, mine) as aborted:
            await everyone.wait()
            signal.abort("both")
        expect_same("the outcome of the other run", others[0], None)
        release.set()
    for result in aborted:
        assert result is not None
        expect_failure(result, "abort")
    assert others[0] is not None
    expect_value(others[0], "untouched")
