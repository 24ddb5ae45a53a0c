"""An abort signal as a cancel scope."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

import anyio

if TYPE_CHECKING:
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


def _scheduler() -> Callable[[Callable[[], None]], object]:
    # trio is asked first: a loop of asyncio may run around it (guest mode).
    trio = sys.modules.get("trio")
    if trio is not None and trio.lowlevel.in_trio_run():
        run_sync_soon: Callable[[Callable[[], None]], object]
        run_sync_soon = trio.lowlevel.current_trio_token().run_sync_soon
        return run_sync_soon
    return asyncio.get_running_loop().call_soon_threadsafe
