"""Start programs under watchers where the system has no subreaper (macOS, not tested there).

Each program has a watcher process, a child of the host, that knows it by its process group. The
tests run this on Linux.
"""

from __future__ import annotations

import array
import os
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import final

import anyio
from anyio.abc import TaskGroup

from ._guarded import Warden
from ._guarded_process import NO_SIGNAL, FreeGuard, GuardedProcess, GuardError, check_owner
from ._guarded_requests import pack, spawn_fields

_SCRIPT = Path(__file__).with_name("_guard_portable.py")
_REAP_S = 2.0
_STARTED_S = 10.0


class _NoWarden:
    """What a program's handle sees: there is nobody else to ask."""

    alive = False

    async def condemn(self, name: int) -> None:
        """Do nothing."""

    def give_up(self) -> None:
        """Do nothing."""

    def keep(self, guard: FreeGuard) -> None:
        """Close it: it serves one program."""
        guard.close()


@final
class PortableWarden(Warden):
    """Stands in for a warden with the same calls."""

    def __init__(self, python: str, tasks: TaskGroup) -> None:
        self._python = python
        self._tasks = tasks
        self._owner_pid = os.getpid()
        self._ended = anyio.Event()
        self._processes: dict[int, GuardedProcess] = {}
        self._last_name = 0

    @property
    def pid(self) -> int:
        """This process: there is no warden."""
        return self._owner_pid

    @property
    def alive(self) -> bool:
        """Whether the block is still open."""
        return not self._ended.is_set()

    async def wait_closed(self) -> None:
        """Wait for the end of the block."""
        await self._ended.wait()

    async def fork(
        self,
        *,
        env: Mapping[str, str],
        cwd: str,
        stdout_fd: int,
        stderr_fd: int,
        control_fd: int,
        rlimits: Mapping[int, tuple[int, int]] | None = None,
        is_fit: Callable[[int], bool] | None = None,
    ) -> GuardedProcess:
        """Refuse: there is no zygote.

        Raises:
            GuardError: always.
        """
        raise GuardError("fork a program", f"platform {sys.platform!r}", "'linux'")

    async def spawn(
        self,
        argv: Sequence[str],
        *,
        env: Mapping[str, str],
        cwd: str,
        stdout_fd: int,
        stderr_fd: int,
        control_fd: int | None = None,
        rlimits: Mapping[int, tuple[int, int]] | None = None,
    ) -> GuardedProcess:
        """Start a program under a watcher; see `Warden.spawn`."""
        action = f"start the program {argv[0]!r}" if argv else "start a program"
        check_owner(self._owner_pid, action)
        descriptors = [stdout_fd, stderr_fd, *(() if control_fd is None else (control_fd,))]
        self._last_name += 1
        fields = spawn_fields(argv, env, cwd, rlimits)
        if not self.alive:
            raise GuardError(action, "the warden is closed", "a living one")
        watcher, channel = self._start(action)
        process = GuardedProcess(self._last_name, argv[0], channel, frozenset(), has_pidfds=False)
        self._processes[self._last_name] = process
        self._tasks.start_soon(self._watch, process, watcher, self._last_name)
        error: GuardError | None = None
        is_started = False
        try:
            with anyio.move_on_after(_STARTED_S):
                await _send(channel, pack(fields), descriptors)
                error = await process.start()
                is_started = True
        finally:
            if not is_started:
                await process.kill()
        if not is_started or (error is None and process.pid == 0):
            error = GuardError(action, "its watcher ended or is silent", "a started program")
        if error is not None:
            raise error
        return process

    def _start(self, action: str) -> tuple[subprocess.Popen[bytes], socket.socket]:
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        command = [self._python, "-I", "-S", str(_SCRIPT), str(theirs.fileno()), str(os.getpid())]
        with theirs:
            try:
                watcher = subprocess.Popen(
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    pass_fds=(theirs.fileno(),),
                    start_new_session=True,
                    cwd="/",
                    env={},
                )
            except OSError as error:
                ours.close()
                seen = f"{self._python!r} cannot be executed ({error.strerror})"
                raise GuardError(action, seen, "a Python interpreter") from error
        return watcher, ours

    async def _watch(
        self, process: GuardedProcess, watcher: subprocess.Popen[bytes], name: int
    ) -> None:
        try:
            await process.serve(_NoWarden())
            with anyio.CancelScope(shield=True), anyio.move_on_after(_REAP_S):
                while watcher.poll() is None:  # noqa: ASYNC110 - no descriptor tells of its end
                    await anyio.sleep(0.002)
        finally:
            if watcher.poll() is None:
                watcher.kill()
            watcher.wait()
            self._processes.pop(name, None)

    async def end(self) -> None:
        """Kill all programs; `open_portable_warden` calls this."""
        self._ended.set()
        async with anyio.create_task_group() as tasks:
            for process in list(self._processes.values()):
                tasks.start_soon(process.kill)


async def _send(channel: socket.socket, request: bytes, descriptors: Sequence[int]) -> None:
    rest = memoryview(request)
    rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", descriptors))]
    while rest:
        try:
            rest = rest[channel.sendmsg([rest], rights, NO_SIGNAL) :]
            rights = []
        except BlockingIOError:
            await anyio.wait_writable(channel)
        except OSError:
            return


@asynccontextmanager
async def open_portable_warden(*, python: str | None = None) -> AsyncIterator[Warden]:
    """Make it possible to start programs, and end them on leaving the block.

    Raises:
        GuardError: the platform has no process groups.
    """
    if not hasattr(os, "killpg") or not hasattr(socket, "send_fds"):
        raise GuardError("start a warden", f"platform {sys.platform!r}", "Linux or macOS")
    failure: Exception | None = None
    async with anyio.create_task_group() as tasks:
        warden = PortableWarden(python or sys.executable, tasks)
        try:
            yield warden
        except Exception as error:
            failure = error
        finally:
            with anyio.CancelScope(shield=True):
                await warden.end()
    if failure is not None:
        raise failure
