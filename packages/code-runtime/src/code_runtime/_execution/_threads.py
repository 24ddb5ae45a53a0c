"""Calls from other threads and from signal handlers, brought to the event loop of a run."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from contextlib import suppress


def on_loop(function: Callable[[], None]) -> Callable[[], None]:
    """Return a callable that brings `function` to the current event loop, from any thread.

    It never runs at once, on the loop's own thread neither: the caller may be a signal handler in
    the middle of a step of the loop. After the loop has closed it does nothing.
    """
    schedule = _scheduler()

    def call() -> None:
        # Both backends raise a RuntimeError (or a subclass) once the loop has ended.
        with suppress(RuntimeError):
            schedule(function)

    return call


def _scheduler() -> Callable[[Callable[[], None]], object]:
    # trio is asked first: a loop of asyncio may run around it (guest mode).
    trio = sys.modules.get("trio")
    if trio is not None and trio.lowlevel.in_trio_run():
        run_sync_soon: Callable[[Callable[[], None]], object]
        run_sync_soon = trio.lowlevel.current_trio_token().run_sync_soon
        return run_sync_soon
    return asyncio.get_running_loop().call_soon_threadsafe
