"""Keeps a warden alive: a program may kill it, and the next program must find another."""

from __future__ import annotations

from typing import final

import anyio
import anyio.abc

from code_runtime._guarded import GuardError, Warden, open_warden


@final
class WardenKeeper:
    """Opens a warden, and another one whenever it is gone.

    Args:
        folder: Removed by the warden when the host has died.
    """

    __slots__ = ("_changed", "_error", "_folder", "_warden")

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._warden: Warden | None = None
        self._error: GuardError | OSError | None = None
        self._changed = anyio.Event()

    async def serve(
        self, *, task_status: anyio.abc.TaskStatus[None] = anyio.TASK_STATUS_IGNORED
    ) -> None:
        """Hold wardens until this task is cancelled; `started` is told once the first is up.

        A later one that cannot be opened ends this: `current` then raises what was wrong.

        Raises:
            GuardError: the first warden does not start.
            OSError: likewise.
        """
        is_first = True
        while True:
            try:
                async with open_warden(remove_on_exit=self._folder) as warden:
                    self._set(warden, None)
                    if is_first:
                        task_status.started()
                        is_first = False
                    await warden.wait_closed()
            except (GuardError, OSError) as error:
                if is_first:
                    raise
                self._set(None, error)
                return

    async def current(self) -> Warden:
        """Return a warden that is alive, as soon as there is one.

        Raises:
            GuardError: none can be opened any more.
            OSError: likewise.
        """
        while self._warden is None or not self._warden.alive:
            if self._error is not None:
                raise self._error
            await self._changed.wait()
        return self._warden

    def _set(self, warden: Warden | None, error: GuardError | OSError | None) -> None:
        self._warden, self._error = warden, error
        changed, self._changed = self._changed, anyio.Event()
        changed.set()
