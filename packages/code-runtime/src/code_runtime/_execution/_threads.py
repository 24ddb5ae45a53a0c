"""Calls from other threads and from signal handlers, brought to the event loop of a run."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Callable


def on_loop(function: Callable[[], None]) -> Callable[[], None]:
    """Return a callable that runs `function` on the current event loop from any thread.

    On the loop's own thread it runs at once. After the loop has closed it does nothing.
    """
    thread = threading.get_ident()
    schedule = _scheduler()

    def call() -> None:
        if threading.get_ident() == thread:
            function()
            return
        try:
            schedule(function)
        except RuntimeError:
            # Both backends raise a RuntimeError (or a subclass) once the loop has ended.
            return

    return call


def _scheduler() -> Callable[[Callable[[], None]], object]:
    # trio is asked first: a loop of asyncio may run around it (guest mode).
    trio = sys.modules.get("trio")
    if trio is not None and trio.lowlevel.in_trio_run():
        run_sync_soon: Callable[[Callable[[], None]], object]
        run_sync_soon = trio.lowlevel.current_trio_token().run_sync_soon
        return run_sync_soon
    return asyncio.get_running_loop().call_soon_threadsafe
