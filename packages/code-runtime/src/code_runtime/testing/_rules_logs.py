"""Rules of logs: live, in order, unchanged, and kept whatever ends the run."""

from __future__ import annotations

import threading

import anyio

from code_runtime._abort import AbortSignal

from ._expect import (
    WALLS_MS,
    dispose_during,
    expect,
    expect_failure,
    expect_logs,
    expect_same,
    expect_value,
)
from ._rule import rule
from ._subject import Subject


@rule("print_many")
async def logs_are_in_order_and_complete(subject: Subject) -> None:
    """The result has every entry in the order in which the program printed them.

    SC-035, SC-041.
    """
    result = await subject.run("print_many", {"count": lambda _: 5_000})
    expect_value(result, 5_000)
    expect_logs(result, [f"line {number}" for number in range(5_000)])
    expect_same("logs_truncated", result.logs_truncated, False)


@rule("print_given")
async def log_text_is_unchanged(subject: Subject) -> None:
    """An entry is exactly the text that was printed, without any mark of its channel.

    SC-041.
    """
    texts = [
        "",
        " a ",
        "é€😀",
        "tab\tend",
        '"quotes" \\',
        "\u2028",
        "x" * 100_000,
        "\ud83d",
        "%s %d",
    ]
    result = await subject.run("print_given", {"texts": lambda _: texts})
    expect_logs(result, texts)


@rule("nothing")
async def a_silent_program_has_no_logs(subject: Subject) -> None:
    """A program that prints nothing has an empty list of logs.

    SC-035.
    """
    expect_logs(await subject.run("nothing"), [])


@rule("print_and_look")
async def logs_arrive_while_the_program_runs(subject: Subject) -> None:
    """`on_log` has an entry before a call that the program makes after printing it.

    SC-006.
    """
    seen: list[str] = []
    result = await subject.run("print_and_look", {"look": lambda _: list(seen)}, on_log=seen.append)
    expect_value(result, ["one"])


@rule("hold")
async def logs_arrive_before_the_end(subject: Subject) -> None:
    """`on_log` has an entry while the program waits.

    SC-006.
    """
    up = anyio.Event()

    async def hold(_: object) -> str:
        await up.wait()
        return "seen"

    result = await subject.run("hold", {"hold": hold}, on_log=lambda _: up.set())
    expect_value(result, "seen")


@rule("print_many")
async def on_log_gets_what_the_result_has(subject: Subject) -> None:
    """`on_log` gets the entries of the result, each once and in the same order.

    SC-006.
    """
    seen: list[str] = []
    tools = {"count": lambda _: 1_000}
    result = await subject.run("print_many", tools, on_log=seen.append)
    expect_same("what on_log got", seen, result.logs)


@rule("print_given")
async def on_log_is_called_on_the_event_loop(subject: Subject) -> None:
    """`on_log` is called in the thread of the event loop."""
    threads: set[int] = set()
    result = await subject.run(
        "print_given",
        {"texts": lambda _: ["a", "b"]},
        on_log=lambda _: threads.add(threading.get_ident()),
    )
    expect_value(result, 2)
    expect_same("the threads of on_log", threads == {threading.get_ident()}, True)


@rule("print_given")
async def a_raising_on_log_does_not_change_the_run(subject: Subject) -> None:
    """An `on_log` that raises is called no more; `run` raises it at the end, with the result.

    SC-036.
    """
    seen: list[str] = []

    def on_log(text: str) -> None:
        seen.append(text)
        raise LookupError("observer broke")

    tools = {"texts": lambda _: ["a", "b", "c"]}
    try:
        result: object = await subject.run("print_given", tools, on_log=on_log)
    except LookupError as error:
        expect_same("what on_log got", seen, ["a"])
        carried = getattr(error, "result", None)
        expect(carried is not None, "the result of the error", carried, "the result of the run")
        assert carried is not None
        expect_value(carried, 3)
        expect_logs(carried, ["a", "b", "c"])
    else:
        expect(False, "what run returned", result, "the error of on_log")


@rule("throw")
async def logs_before_an_exception_are_kept(subject: Subject) -> None:
    """The result has what was printed before an exception.

    SC-036.
    """
    result = await subject.run("throw")
    expect_failure(result, "exception")
    expect_logs(result, ["before"])


@rule("exit")
async def logs_before_an_exit_are_kept(subject: Subject) -> None:
    """The result has what was printed before the process ended itself."""
    result = await subject.run("exit")
    expect_failure(result, "worker-exit")
    expect_logs(result, ["before"])


@rule("print_then_lossy")
async def logs_before_an_invalid_output_are_kept(subject: Subject) -> None:
    """The result has what was printed before a completion that is refused."""
    result = await subject.run("print_then_lossy")
    expect_failure(result, "invalid-output")
    expect_logs(result, ["before"])


@rule("hot")
async def logs_before_an_abort_are_kept(subject: Subject) -> None:
    """The result has what was printed before an abort.

    SC-010, PY-262.
    """
    signal = AbortSignal()
    result = await subject.run("hot", signal=signal, on_log=lambda _: signal.abort("enough"))
    expect_failure(result, "abort")
    expect_logs(result, ["up"])


@rule("hot")
async def logs_before_a_timeout_are_kept(subject: Subject) -> None:
    """The result has what was printed before a timeout.

    WT-159.
    """
    seen: list[str] = []
    for max_wall_ms in WALLS_MS:
        result = await subject.run("hot", max_wall_ms=max_wall_ms, on_log=seen.append)
        expect_failure(result, "timeout")
        if seen:
            break
    expect_logs(result, ["up"])


@rule("hold")
async def logs_before_a_disposal_are_kept(subject: Subject) -> None:
    """The result has what was printed before the runtime was disposed.

    SC-045.
    """
    up = anyio.Event()
    request = subject.request(
        "hold", {"hold": lambda _: anyio.sleep_forever()}, on_log=lambda _: up.set()
    )
    (result,) = await dispose_during(subject, request, when=up)
    expect_logs(result, ["up"])


@rule("print_given")
async def times_of_logs_are_recorded_on_request(subject: Subject) -> None:
    """With `record`, each entry has a time that does not fall; without it there are none."""
    tools = {"texts": lambda _: ["a", "b", "c"]}
    plain = await subject.run("print_given", tools)
    expect_same("log_times_ms without record", plain.log_times_ms, None)
    result = await subject.run("print_given", tools, record=True)
    times = result.log_times_ms
    expect(times is not None and len(times) == 3, "log_times_ms", times, "three times")
    assert times is not None
    rising = times == sorted(times) and min(times) >= 0
    expect(rising, "log_times_ms", times, "times that do not fall")
