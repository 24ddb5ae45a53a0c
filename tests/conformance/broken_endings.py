"""Providers that leave something behind: a program, a call, or state for the next run."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Callable, Coroutine
from typing import Any, Final

import anyio

from code_runtime import (
    BindingFunction,
    CodeCall,
    CodeRunRequest,
    CodeRunResult,
)
from code_runtime.testing import PYTHON_PROGRAMS

from .breaking import (
    Breakage,
    Broken,
    BrokenRuntime,
    Run,
    changes_calls,
    changes_functions,
    changes_kind,
    changes_result,
    done,
    failed,
    replaces_failure,
)

# Everything here runs on asyncio: what is left behind is a task that `end_tasks` ends.
_tasks: list[asyncio.Future[Any]] = []


async def end_tasks() -> None:
    """End what broken providers have left behind."""
    for task in _tasks:
        task.cancel()
    await asyncio.gather(*_tasks, return_exceptions=True)
    _tasks.clear()


def leave(work: Coroutine[Any, Any, Any]) -> asyncio.Future[Any]:
    """Start work that nobody ends."""
    task = asyncio.ensure_future(work)
    _tasks.append(task)
    return task


def leaves_programs(broken: BrokenRuntime) -> Run:
    """Let a program go on when its caller is cancelled."""

    async def run(request: CodeRunRequest) -> CodeRunResult:
        result: CodeRunResult = await asyncio.shield(leave(broken.inner.run(request)))
        return result

    return run


def leaves_when_up(result: CodeRunResult, program: str | None = None) -> Breakage:
    """Report a result of its own while the program goes on."""

    def breakage(broken: BrokenRuntime) -> Run:
        async def run(request: CodeRunRequest) -> CodeRunResult:
            up = anyio.Event()
            left = dataclasses.replace(
                request,
                program=program or request.program,
                on_log=lambda _: up.set(),
                max_wall_ms=None,
            )
            leave(broken.inner.run(left))
            await up.wait()
            return result

        return run

    return breakage


def leaves_at_disposal(broken: BrokenRuntime) -> Run:
    async def run(request: CodeRunRequest) -> CodeRunResult:
        leave(broken.inner.run(request))
        await broken.closing.wait()
        return failed("abort", "runtime disposed")

    return run


def leaves_calls(name: str, function: BindingFunction) -> BindingFunction:
    """Let a function go on when its call is cancelled."""
    if name != "hold":
        return function

    async def call(value: object) -> object:
        async def work() -> object:
            return await function(value)  # type: ignore[misc]

        return await asyncio.shield(leave(work()))

    return call


def swallows_cancellation(broken: BrokenRuntime) -> Run:
    async def run(request: CodeRunRequest) -> CodeRunResult:
        try:
            return await broken.inner.run(request)
        except anyio.get_cancelled_exc_class():
            return CodeRunResult([])

    return run


def calls_after_the_end(broken: BrokenRuntime) -> Run:
    """Call the functions of an earlier run when a later one is over."""
    functions: list[Callable[[object], object]] = []

    async def run(request: CodeRunRequest) -> CodeRunResult:
        for namespace in request.bindings:
            functions.extend(namespace.functions.values())
        result = await broken.inner.run(request)
        for function in functions:
            function(None)
        return result

    return run


def works_once(later: CodeRunResult) -> Breakage:
    """Report this result for each run but the first one of all runtimes."""
    runs: list[CodeRunRequest] = []

    def breakage(broken: BrokenRuntime) -> Run:
        async def run(request: CodeRunRequest) -> CodeRunResult:
            runs.append(request)
            return await broken.inner.run(request) if len(runs) == 1 else later

        return run

    return breakage


def is_harmed_by(harms: Callable[[CodeRunRequest, CodeRunResult], bool]) -> Breakage:
    """Fail each run that comes after one that did harm."""

    def breakage(broken: BrokenRuntime) -> Run:
        harmed: list[bool] = []

        async def run(request: CodeRunRequest) -> CodeRunResult:
            if harmed:
                return failed("worker-exit", "harmed by an earlier run")
            result = await broken.inner.run(request)
            if harms(request, result):
                harmed.append(True)
            return result

        return run

    return breakage


def shares_logs(broken: BrokenRuntime) -> Run:
    logs: list[str] = []

    async def run(request: CodeRunRequest) -> CodeRunResult:
        result = await broken.inner.run(request)
        logs.extend(result.logs)
        return dataclasses.replace(result, logs=list(logs))

    return run


def dies_together(broken: BrokenRuntime) -> Run:
    died: list[bool] = []

    async def run(request: CodeRunRequest) -> CodeRunResult:
        result = await broken.inner.run(request)
        if result.error is not None:
            died.append(True)
        return failed("worker-exit", "died together") if died else result

    return run


def never_abandons(calls: list[CodeCall]) -> list[CodeCall]:
    return [
        dataclasses.replace(call, outcome="cancelled") if call.outcome == "abandoned" else call
        for call in calls
    ]


def identity(broken: BrokenRuntime) -> Run:
    return broken.inner.run


HEARTBEAT: Final = PYTHON_PROGRAMS["heartbeat"]
NOT_DISPOSED: Final = "expected RuntimeDisposedError"

BROKEN_ENDINGS: Final[dict[str, Broken]] = {
    # Calls at the end
    "a_call_in_flight_does_not_hold_a_run": Broken(
        "before run returned is []", changes_functions(leaves_calls)
    ),
    "a_call_that_ignores_its_end_is_left": Broken(
        "the outcome of the call", changes_calls(never_abandons)
    ),
    "a_waiting_call_times_out": Broken(
        "before run returned is []", changes_functions(leaves_calls)
    ),
    "an_abort_cancels_calls": Broken("before run returned is []", changes_functions(leaves_calls)),
    # Cancellation
    "a_cancelled_caller_is_cancelled": Broken("what the caller saw", swallows_cancellation),
    "a_cancelled_run_cancels_its_calls": Broken(
        "before the caller went on is []", changes_functions(leaves_calls)
    ),
    "a_cancelled_program_calls_nothing": Broken("the number of calls later", calls_after_the_end),
    "a_cancelled_program_is_gone": Broken(
        "the growth of the file after a cancellation", leaves_programs
    ),
    "a_cancellation_by_asyncio_is_whole": Broken(
        "the growth of the file after task.cancel()", leaves_programs
    ),
    "a_timed_out_program_is_gone": Broken(
        "the growth of the file after a timeout", leaves_when_up(failed("timeout"))
    ),
    "what_a_program_started_is_gone": Broken(
        "the growth of the file after the end", leaves_when_up(done("done"), HEARTBEAT)
    ),
    # Disposal
    "a_disposal_aborts_runs": Broken(
        "a failure 'abort'", changes_kind("abort", "worker-exit"), is_disposed=True
    ),
    "a_disposal_cancels_calls": Broken(
        "before the end is []", changes_functions(leaves_calls), is_disposed=True
    ),
    "a_disposal_ends_queued_runs": Broken(
        "a failure 'abort'",
        changes_result(lambda result: result if result.logs else failed("exception")),
        is_disposed=True,
    ),
    "a_disposal_right_after_the_start_counts": Broken(
        "a failure 'abort'", replaces_failure("abort", error=None), is_disposed=True
    ),
    "a_disposed_program_is_gone": Broken(
        "the growth of the file after disposal", leaves_at_disposal
    ),
    "a_disposed_runtime_runs_nothing": Broken(NOT_DISPOSED, identity),
    "an_unused_runtime_is_disposed": Broken(NOT_DISPOSED, identity),
    "a_runtime_can_be_opened_again": Broken(
        "used up", works_once(failed("worker-exit", "used up"))
    ),
    # Isolation
    "no_state_crosses_between_runs": Broken("the value is True", works_once(done(True))),
    "broken_builtins_do_not_cross": Broken(
        "harmed by an earlier run",
        is_harmed_by(lambda request, _: "json.dumps" in request.program),
    ),
    "a_failed_run_harms_no_later_one": Broken(
        "harmed by an earlier run", is_harmed_by(lambda _, result: result.error is not None)
    ),
    "overlapping_runs_are_apart": Broken("the list of logs", shares_logs),
    "a_failure_beside_a_run_does_not_end_it": Broken("died together", dies_together),
    "a_request_may_be_used_again": Broken("used up", works_once(failed("worker-exit", "used up"))),
}
