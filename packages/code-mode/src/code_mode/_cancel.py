"""Abort signals and cancel scopes: one as the other, and who has asked for a cancellation."""

from __future__ import annotations

import asyncio
import math
import sys
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress

import anyio

from code_runtime import AbortSignal


@contextmanager
def cancelled_by(signal: AbortSignal) -> Iterator[anyio.CancelScope]:
    """Open a scope that is cancelled when the signal fires, whatever thread that happens in."""
    with anyio.CancelScope() as scope:
        schedule = _scheduler()

        def cancel() -> None:
            # Both backends raise a RuntimeError (or a subclass) once the loop has ended.
            with suppress(RuntimeError):
                schedule(scope.cancel)

        remove = signal.add_listener(cancel)
        try:
            yield scope
        finally:
            remove()


@asynccontextmanager
async def signal_within(
    scope: anyio.CancelScope, outer: AbortSignal, reason: str
) -> AsyncGenerator[AbortSignal]:
    """Give a signal that fires when a scope is cancelled, even if what runs in it does not end.

    Args:
        scope: The scope, which the caller has entered.
        outer: Another signal that it follows, also after this context is left.
        reason: Its reason when the scope is cancelled.
    """
    signal = AbortSignal()
    outer.add_listener(lambda: signal.abort(outer.reason))
    fault: BaseException | None = None

    async def watch() -> None:
        try:
            await anyio.sleep_forever()
        finally:
            if scope.cancel_called:
                signal.abort(reason)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(watch)
        try:
            yield signal
        except anyio.get_cancelled_exc_class():
            raise
        except BaseException as error:  # carried out by hand: a task group would wrap it
            fault = error
        tasks.cancel_scope.cancel()
    if fault is not None:
        raise fault


def watch_cancellation() -> Callable[[], bool]:
    """Return a function that tells whether somebody has cancelled this task since.

    It is for an exception of cancellation that has been caught: on asyncio anybody may raise one,
    and awaiting a cancelled future does.
    """
    before = _cancel_count()
    if before is None:
        return lambda: True  # only trio itself makes its exception
    return lambda: (
        (_cancel_count() or 0) > before or anyio.current_effective_deadline() == -math.inf
    )


def _cancel_count() -> int | None:
    if anyio.get_cancelled_exc_class() is not asyncio.CancelledError:
        return None
    task = asyncio.current_task()
    return 0 if task is None else task.cancelling()


def _scheduler() -> Callable[[Callable[[], None]], object]:
    # trio is asked first: a loop of asyncio may run around it (guest mode).
    trio = sys.modules.get("trio")
    if trio is not None and trio.lowlevel.in_trio_run():
        run_sync_soon: Callable[[Callable[[], None]], object]
        run_sync_soon = trio.lowlevel.current_trio_token().run_sync_soon
        return run_sync_soon
    return asyncio.get_running_loop().call_soon_threadsafe
