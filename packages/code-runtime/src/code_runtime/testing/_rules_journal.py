"""Rules of the journal: which functions were called, in which order, and how each call ended."""

from __future__ import annotations

import math
from typing import Final

import anyio

from code_runtime._abort import AbortSignal
from code_runtime._vocabulary import CodeRunResult

from ._expect import expect, expect_failure, expect_same, expect_value
from ._rule import rule
from ._subject import Subject

_PREVIEW_BYTES: Final = 2_048
_KEPT: Final = 10_000


def _journal(result: CodeRunResult) -> list[list[object]]:
    return [[call.namespace, call.member, call.outcome] for call in result.calls]


@rule("relay", "two_namespaces")
async def calls_are_journalled_in_order(subject: Subject) -> None:
    """The journal has namespace, member and outcome of each call, in the order of their arrival."""
    result = await subject.run("relay", {"give": lambda _: 1, "take": lambda _: None})
    expect_same("the journal", _journal(result), [["tools", "give", "ok"], ["tools", "take", "ok"]])


@rule("parallel")
async def the_journal_is_in_order_of_arrival(subject: Subject) -> None:
    """Calls are journalled in the order in which they arrived, not in that in which they ended."""
    turns = [anyio.Event() for _ in range(6)]
    turns[5].set()

    async def attempt(number: int) -> int:
        await turns[number + 1].wait()
        turns[number].set()
        return number

    tools = {"count": lambda _: 5, "attempt": attempt}
    result = await subject.run("parallel", tools, record=True)
    arguments = [call.argument_preview for call in result.calls if call.member == "attempt"]
    expect_same("the arguments in the journal", arguments, ["0", "1", "2", "3", "4"])


@rule("attempts")
async def a_failed_call_is_journalled_as_error(subject: Subject) -> None:
    """A call whose function raises, or gives what is not lossless JSON, has the outcome `error`."""

    def attempt(number: int) -> object:
        if number == 0:
            raise ValueError("no")
        return [None, math.nan, 2][number]

    result = await subject.run("attempts", {"count": lambda _: 3, "attempt": attempt})
    outcomes = [call.outcome for call in result.calls if call.member == "attempt"]
    expect_same("the outcomes", outcomes, ["error", "error", "ok"])


@rule("unawaited")
async def an_unfinished_call_is_journalled_as_cancelled(subject: Subject) -> None:
    """A call that was in flight when the run ended has the outcome `cancelled`."""
    held = anyio.Event()

    async def hold(_: object) -> None:
        held.set()
        await anyio.sleep_forever()

    async def ready(_: object) -> None:
        await held.wait()

    result = await subject.run("unawaited", {"hold": hold, "ready": ready})
    expected = [["tools", "hold", "cancelled"], ["tools", "ready", "ok"]]
    expect_same("the journal", _journal(result), expected)


@rule("hold", "call_uncaught")
async def the_journal_survives_failures(subject: Subject) -> None:
    """A run that fails has its journal, too."""
    signal = AbortSignal()

    async def hold(_: object) -> None:
        signal.abort()
        await anyio.sleep_forever()

    result = await subject.run("hold", {"hold": hold}, signal=signal)
    expect_failure(result, "abort")
    expect_same("the journal of an abort", _journal(result), [["tools", "hold", "cancelled"]])

    def attempt(_: object) -> object:
        raise ValueError("no")

    result = await subject.run("call_uncaught", {"attempt": attempt})
    expect_failure(result, "exception")
    expect_same("the journal of an exception", _journal(result), [["tools", "attempt", "error"]])


@rule("lossy_arguments", "nothing")
async def a_call_that_never_was_has_no_success(subject: Subject) -> None:
    """A call that was refused before its function was called is not journalled as done."""
    result = await subject.run("lossy_arguments", {"take": lambda _: None})
    outcomes = {call.outcome for call in result.calls}
    expect(outcomes <= {"refused"}, "the outcomes", sorted(outcomes), "none but `refused`")
    result = await subject.run("nothing", {"take": lambda _: None})
    expect_same("the journal of a program without calls", _journal(result), [])


@rule("attempts")
async def times_of_calls_are_sound(subject: Subject) -> None:
    """Starts of calls do not fall, and durations are not negative.

    Units: milliseconds from the start of the program.
    """

    async def attempt(value: object) -> object:
        await anyio.sleep(0.03)
        return value

    result = await subject.run("attempts", {"count": lambda _: 3, "attempt": attempt})
    starts = [call.started_ms for call in result.calls]
    sound = starts == sorted(starts) and min(starts) >= 0
    expect(sound, "started_ms", starts, "times that do not fall")
    for call in result.calls[1:]:
        waited = 25 <= call.duration_ms < 60_000
        expect(waited, "duration_ms", call.duration_ms, "the 30 ms that the function took")


@rule("relay")
async def previews_are_recorded_on_request(subject: Subject) -> None:
    """With `record`, a call has previews of its argument and result as JSON; else it has none."""
    tools = {"give": lambda _: {"a": [1, "é"]}, "take": lambda _: None}
    result = await subject.run("relay", tools, record=True)
    seen = [[call.argument_preview, call.result_preview] for call in result.calls]
    text = '{"a":[1,"é"]}'
    expect_same("the previews", seen, [["null", text], [text, "null"]])
    result = await subject.run("relay", tools)
    seen = [[call.argument_preview, call.result_preview] for call in result.calls]
    expect_same("the previews without record", seen, [[None, None], [None, None]])


@rule("relay")
async def previews_are_bounded(subject: Subject) -> None:
    """A preview has at most 2,048 bytes, and is the start of the text."""
    tools = {"give": lambda _: "é" * 100_000, "take": lambda _: None}
    result = await subject.run("relay", tools, record=True)
    for text in (result.calls[0].result_preview, result.calls[1].argument_preview):
        assert text is not None
        size = len(text.encode())
        expect(size <= _PREVIEW_BYTES, "the size of a preview in bytes", size, "at most 2048")
        expect(text.startswith('"éé'), "the preview", text, "the start of the text")


@rule("parallel")
async def the_journal_is_bounded(subject: Subject) -> None:
    """The first 10,000 calls are kept, the others are counted."""
    tools = {"count": lambda _: _KEPT + 9, "attempt": lambda value: value}
    result = await subject.run("parallel", tools)
    expect(result.error is None, "the outcome", result, "a value")
    expect_same("the number of calls kept", len(result.calls), _KEPT)
    expect_same("calls_dropped", result.calls_dropped, 10)  # with the call of count
    small = await subject.run("parallel", {"count": lambda _: 1, "attempt": lambda value: value})
    expect_value(small, [0])
    expect_same("calls_dropped of a short run", small.calls_dropped, 0)
