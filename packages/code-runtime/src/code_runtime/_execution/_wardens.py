"""Keeps a warden alive: a program may kill it, and the next program must find another."""

from __future__ import annotations

from typing import Final, TypedDict, final

import anyio
import anyio.abc

from code_runtime._guarded import GuardError, Warden, Zygote, open_warden

from ._settings import Settings, read_settings

# After a failed start: a program may be killing wardens, or the machine be out of processes.
LEAST_PAUSE_S: Final = 0.05
MOST_PAUSE_S: Final = 1.0


class _Options(TypedDict):
    python: str | None
    zygote: Zygote | None


@final
class WardenKeeper:
    """Opens a warden, and another one whenever it is gone.

    Args:
        folder: Removed by the warden when the host has died.
        python: The interpreter of warden and guards, None for the host's own.
        zygote: What programs are forked from, None when they are started.
    """

    __slots__ = ("_changed", "_error", "_folder", "_options", "_settings", "_warden")

    def __init__(
        self, folder: str, *, python: str | None = None, zygote: Zygote | None = None
    ) -> None:
        self._folder = folder
        self._options: _Options = {"python": python, "zygote": zygote}
        self._warden: Warden | None = None
        self._settings: Settings = None
        self._error: Exception | None = None
        self._changed = anyio.Event()

    async def serve(
        self, *, task_status: anyio.abc.TaskStatus[None] = anyio.TASK_STATUS_IGNORED
    ) -> None:
        """Hold wardens until this task is cancelled; `started` is told once the first is up.

        Raises:
            GuardError: the first warden does not start.
            OSError: likewise.
        """
        is_first = True
        pause_s = LEAST_PAUSE_S
        while True:
            try:
                async with open_warden(remove_on_exit=self._folder, **self._options) as warden:
                    self._set(warden, None)
                    if is_first:
                        task_status.started()
                        is_first = False
                    pause_s = LEAST_PAUSE_S
                    await warden.wait_closed()
            except Exception as error:
                if is_first:
                    raise
                # Who waits now is told; who comes later waits for the next attempt.
                self._set(None, error)
                await anyio.sleep(pause_s)
                pause_s = min(2 * pause_s, MOST_PAUSE_S)

    @property
    def settings(self) -> Settings:
        """What the system kept for the warden when it was new; its forks begin with the same."""
        return self._settings

    async def drop_if_changed(self) -> None:
        """End a warden whose settings a program has changed: all later ones would begin with them.

        Every program of it ends too, so this is asked right after each run, before the next one has
        begun.
        """
        warden = self._warden
        if warden is not None and warden.alive and read_settings(warden.pid) != self._settings:
            warden.give_up()
            await warden.wait_closed()

    async def current(self) -> Warden:
        """Return a warden that is alive and as it was, as soon as there is one.

        Raises:
            GuardError: the attempt that is waited for has failed.
        """
        await self.drop_if_changed()
        while self._warden is None or not self._warden.alive:
            await self._changed.wait()
            if self._error is not None:
                seen = _reason_of(self._error)
                raise GuardError("start a warden", seen, "a free process") from self._error
        return self._warden

    def _set(self, warden: Warden | None, error: Exception | None) -> None:
        self._warden, self._error = warden, error
        self._settings = None if warden is None else read_settings(warden.pid)
        changed, self._changed = self._changed, anyio.Event()
        changed.set()


def _reason_of(error: Exception) -> str:
    """Say why no warden started, without a path: the text may reach a model."""
    for reason in (error, error.__cause__):
        if isinstance(reason, OSError):
            return reason.strerror or str(reason)
    return error.seen if isinstance(error, GuardError) else str(error)
