"""Rules of binding calls: how they are made, answered, failed, and left at the end of a run."""

from __future__ import annotations

from typing import NoReturn

import anyio

from code_runtime._vocabulary import CodeBindingNamespace

from ._expect import expect, expect_failure, expect_same, expect_value, running
from ._rule import rule
from ._subject import Limits, Subject


@rule("relay")
async def a_function_gets_one_argument(subject: Subject) -> None:
    """A function is called with exactly one argument, and its result is that of the call.

    SC-029.
    """
    seen: list[object] = []

    def give(*args: object, **keywords: object) -> str:
        seen.append([list(args), keywords])
        return "given"

    result = await subject.run("relay", {"give": give, "take": lambda _: None})
    expect_value(result, "given")
    expect_same("the arguments of the function", seen, [[[None], {}]])


@rule("attempts")
async def a_function_is_plain_or_async(subject: Subject) -> None:
    """A function may be plain or async, and a plain one may return an awaitable.

    SC-012, WT-125.
    """

    async def later(value: object) -> object:
        await anyio.lowlevel.checkpoint()
        return value

    for attempt in (lambda value: value, later, lambda value: later(value)):
        result = await subject.run("attempts", {"count": lambda _: 2, "attempt": attempt})
        expect_value(result, [[True, 0], [True, 1]])


@rule("attempts")
async def a_failed_call_can_be_caught(subject: Subject) -> None:
    """A function that raises fails its call with the text of its error, and the run goes on.

    SC-031, WT-126.
    """
    errors = [ValueError("no"), ValueError(), RuntimeError("é\ud800"), OSError(2, "gone")]

    async def later(number: int) -> object:
        raise errors[number]

    def plain(number: int) -> object:
        raise errors[number]

    for attempt in (plain, later):
        tools = {"count": lambda _: len(errors), "attempt": attempt}
        result = await subject.run("attempts", tools)
        expect_value(result, [[False, str(error)] for error in errors])


@rule("attempts")
async def an_error_without_text_fails_its_call_only(subject: Subject) -> None:
    """A function that raises an error that cannot be rendered fails its call, and nothing else."""

    class OddError(Exception):
        def __str__(self) -> str:
            raise SystemExit(1)

    def attempt(_: object) -> NoReturn:
        raise OddError

    result = await subject.run("attempts", {"count": lambda _: 1, "attempt": attempt})
    value = result.value
    refused = isinstance(value, list) and len(value) == 1 and isinstance(value[0], list)
    expect(refused and value[0][0] is False, "the outcome", result, "one failed call")  # type: ignore[index]


def _refuse(_: object) -> NoReturn:
    raise ValueError("refused")


@rule("error_class")
async def a_failed_call_has_the_declared_class(subject: Subject) -> None:
    """The error of a failed call is an instance of the declared class and names its function.

    SC-032.
    """
    result = await subject.run("error_class", {"attempt": _refuse})
    expect_value(result, [True, "ToolCallError", "attempt", "refused"])


@rule("plain_error")
async def a_failed_call_without_class_has_its_message_only(subject: Subject) -> None:
    """Without an error class, the error of a failed call carries only the message.

    SC-033.
    """
    bindings = [CodeBindingNamespace("plain", {"fail": _refuse})]
    expect_value(await subject.run("plain_error", bindings=bindings), [False, "refused"])


@rule("call_uncaught")
async def a_failed_call_that_is_not_caught_is_an_exception(subject: Subject) -> None:
    """A program that does not catch the error of a call fails as `exception` with its text.

    SC-036, WT-131.
    """
    result = await subject.run("call_uncaught", {"attempt": _refuse})
    message = expect_failure(result, "exception")
    expect("refused" in message, "the message", message, "the text of the error")
    expect("ToolCallError" in message, "the message", message, "the name of the class")


@rule("parallel")
async def calls_run_at_the_same_time(subject: Subject) -> None:
    """Calls that a program starts together run together.

    WT-134.
    """
    arrived: list[object] = []
    everyone = anyio.Event()

    async def attempt(value: object) -> object:
        arrived.append(value)
        if len(arrived) == 20:
            everyone.set()
        await everyone.wait()
        return value

    result = await subject.run("parallel", {"count": lambda _: 20, "attempt": attempt})
    expect_value(result, list(range(20)))


@rule("parallel")
async def a_call_gets_its_own_result(subject: Subject) -> None:
    """Calls that end in another order than they began get their own results.

    WT-132, WT-134.
    """
    turns = [anyio.Event() for _ in range(21)]
    turns[20].set()

    async def attempt(number: int) -> list[int]:
        await turns[number + 1].wait()
        turns[number].set()
        return [number]

    result = await subject.run("parallel", {"count": lambda _: 20, "attempt": attempt})
    expect_value(result, [[number] for number in range(20)])


@rule("parallel")
async def thousands_of_calls_may_be_in_flight(subject: Subject) -> None:
    """A program may start 3,000 calls at once; every one is answered.

    WT-134.
    """
    result = await subject.run("parallel", {"count": lambda _: 3_000, "attempt": lambda n: n})
    expect_value(result, list(range(3_000)))


@rule("unawaited")
async def a_call_in_flight_does_not_hold_a_run(subject: Subject) -> None:
    """A program that returns while a call is in flight completes; the call is cancelled.

    SC-010, WT-135.
    """
    held = anyio.Event()
    events: list[str] = []

    async def hold(_: object) -> None:
        try:
            held.set()
            await anyio.sleep_forever()
        finally:
            events.append("ended")

    async def ready(_: object) -> None:
        await held.wait()

    result = await subject.run("unawaited", {"hold": hold, "ready": ready})
    expect_value(result, "done")
    expect_same("what the function saw before run returned", events, ["ended"])


@rule("unawaited", limits=["binding_grace_ms"])
async def a_call_that_ignores_its_end_is_left(subject: Subject) -> None:
    """A call that ignores its cancellation delays `run` by the grace only; disposal waits for it.

    SC-010.
    """
    held, release = anyio.Event(), anyio.Event()
    events: list[str] = []

    async def hold(_: object) -> None:
        with anyio.CancelScope(shield=True):
            held.set()
            await release.wait()
            events.append("function ended")

    async def ready(_: object) -> None:
        await held.wait()

    try:
        async with subject.open_own(Limits(binding_grace_ms=50)) as runtime:
            request = subject.request("unawaited", {"hold": hold, "ready": ready})
            result = await runtime.run(request)
            events.append("run ended")
            expect_value(result, "done")
            outcomes = [call.outcome for call in result.calls if call.member == "hold"]
            expect_same("the outcome of the call", outcomes, ["abandoned"])
            release.set()
        expect_same("the order of events", events, ["run ended", "function ended"])
    finally:
        release.set()


@rule("hold")
async def a_fault_of_the_host_surfaces_from_run(subject: Subject) -> None:
    """What a function raises that is no `Exception` is raised from `run` once the run is over.

    SC-036.
    """

    class Fault(BaseException):
        pass

    def hold(_: object) -> NoReturn:
        raise Fault

    try:
        result: object = await subject.run("hold", {"hold": hold})
    except Fault as fault:
        logs = getattr(getattr(fault, "result", None), "logs", None)
        expect_same("the logs of the result that the fault carries", logs, ["up"])
    else:
        expect(False, "what run returned", result, "the fault of the function")


@rule("hold")
async def a_waiting_program_is_answered_while_others_run(subject: Subject) -> None:
    """Runs may overlap: two programs wait for each other through their functions.

    SC-046, PY-290.
    """
    met: list[None] = []
    both = anyio.Event()

    async def meet(_: object) -> str:
        met.append(None)
        if len(met) == 2:
            both.set()
        await both.wait()
        return "met"

    async with subject.open() as runtime:
        request = subject.request("hold", {"hold": meet})
        async with running(runtime, request, request) as results:
            pass
    for result in results:
        assert result is not None
        expect_value(result, "met")
