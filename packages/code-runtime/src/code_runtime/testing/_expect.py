"""Short forms of what rules expect; each raises AssertionError with what was seen."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final, final

import anyio
import anyio.abc
import anyio.lowlevel

from code_runtime._runtime import CodeRuntime
from code_runtime._text import bounded_repr
from code_runtime._vocabulary import CodeRunRequest, CodeRunResult, FailureKind

from ._subject import NO_LIMITS, Limits, Subject

# Walls for runs in which something must happen before the time is over: the next one is tried when
# the machine was too busy for that.
WALLS_MS: Final = (500, 4_000, 20_000)


def expect(held: bool, what: str, seen: object, expected: str) -> None:
    """Raise unless something held."""
    if not held:
        raise AssertionError(f"{what} is {_show(seen)}, expected {expected}")


def expect_same(what: str, seen: object, expected: object) -> None:
    """Raise unless two values are equal, types included, at any depth."""
    if not _same(seen, expected):
        raise AssertionError(f"{what} is {_show(seen)}, expected {_show(expected)}")


def expect_value(result: CodeRunResult, value: object) -> None:
    """Raise unless a run ended with this value."""
    expect(result.error is None and result.has_value, "the outcome", result, "a value")
    expect_same("the value", result.value, value)


def expect_failure(result: CodeRunResult, kind: FailureKind) -> str:
    """Raise unless a run failed with this kind, and return the message."""
    seen = None if result.error is None else result.error.kind
    if seen != kind or result.has_value:
        raise AssertionError(f"the outcome is {result!r}, expected a failure {kind!r}")
    assert result.error is not None
    expect(bool(result.error.message.strip()), "the message", result.error.message, "a text")
    return result.error.message


def expect_logs(result: CodeRunResult, logs: list[str]) -> None:
    """Raise unless a run has exactly these logs."""
    expect_same("the list of logs", result.logs, logs)


@asynccontextmanager
async def running(
    runtime: CodeRuntime, *requests: CodeRunRequest
) -> AsyncIterator[list[CodeRunResult | None]]:
    """Run requests beside the block, and wait for all of them at its end.

    Yields:
        The results in the order of the requests; None for what is not over yet.
    """
    results: list[CodeRunResult | None] = [None] * len(requests)

    async def one(index: int, request: CodeRunRequest) -> None:
        results[index] = await runtime.run(request)

    async with anyio.create_task_group() as task_group:
        for index, request in enumerate(requests):
            task_group.start_soon(one, index, request)
        yield results


@final
class OwnRuntime:
    """A runtime that a task of its own holds open, so that a rule can dispose it at any point."""

    def __init__(self, runtime: CodeRuntime) -> None:
        self.runtime = runtime
        self.closing = anyio.Event()
        self.closed = anyio.Event()

    async def dispose(self) -> None:
        """Dispose the runtime and wait until its disposal is over."""
        self.closing.set()
        await self.closed.wait()


@asynccontextmanager
async def own_runtime(subject: Subject, limits: Limits = NO_LIMITS) -> AsyncIterator[OwnRuntime]:
    """Open a runtime that the block may dispose before its end."""

    async def hold(*, task_status: anyio.abc.TaskStatus[OwnRuntime]) -> None:
        async with subject.open_own(limits) as runtime:
            own = OwnRuntime(runtime)
            task_status.started(own)
            await own.closing.wait()
        own.closed.set()

    async with anyio.create_task_group() as task_group:
        own: OwnRuntime = await task_group.start(hold)
        try:
            yield own
        finally:
            own.closing.set()


async def dispose_during(
    subject: Subject,
    *requests: CodeRunRequest,
    when: anyio.Event | None = None,
    limits: Limits = NO_LIMITS,
) -> list[CodeRunResult]:
    """Start requests on a runtime of their own, dispose it, and return the results.

    Args:
        subject: Opens the runtime.
        *requests: What to run.
        when: The event to wait for; None for as soon as `run` was called.
        limits: Those of the runtime.

    Raises:
        AssertionError: A run was not over when the disposal was.
    """
    async with own_runtime(subject, limits) as own, anyio.create_task_group() as task_group:
        results: list[CodeRunResult] = []

        async def one(request: CodeRunRequest) -> None:
            results.append(await own.runtime.run(request))

        for request in requests:
            task_group.start_soon(one, request)
        if when is not None:
            await when.wait()
        await anyio.lowlevel.checkpoint()
        await own.dispose()
        # A run that is over returns in a task of its own: give it the turns to do so.
        for _ in range(20):
            await anyio.lowlevel.checkpoint()
        expect_same("the number of runs that are over with disposal", len(results), len(requests))
    return results


def _same(left: object, right: object) -> bool:
    """Compare two values with their types; iterative, because they may be a million levels deep."""
    pairs = [(left, right)]
    while pairs:
        one, other = pairs.pop()
        if type(one) is not type(other):
            return False
        if isinstance(one, list) and isinstance(other, list):
            if len(one) != len(other):
                return False
            pairs += zip(one, other, strict=True)
        elif isinstance(one, dict) and isinstance(other, dict):
            if list(one) != list(other):
                return False
            pairs += zip(one.values(), other.values(), strict=True)
        elif one != other:
            return False
    return True


def _show(value: object) -> str:
    # The repr of a result is bounded; of anything else only plain data is spelled out.
    return repr(value) if isinstance(value, CodeRunResult) else bounded_repr(value, limit=1_000)
