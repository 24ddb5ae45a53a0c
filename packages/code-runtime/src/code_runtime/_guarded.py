"""Start programs under guards, and leave nothing of them behind.

    host ── Unix socket ── warden (one process for each provider, a subreaper)
      ╚════ Unix socket ═══ guard (one for each program, a subreaper) ── program ── ...

A program is executed (`Warden.spawn`), or it is a fork of a guard of a warden that is a zygote,
which has imported what programs need (`Warden.fork`). Such a guard serves one program after
another. What a run asks for goes to its guard, not through the warden, whose memory every fork
inherits.
Both ends of each socket see the other one die. What the guard and the warden do is told in
`_guard_process` and `_guard_warden`; docs/design/guard.md says who owns what, and the limits.
"""

from __future__ import annotations

import array
import contextlib
import os
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
from anyio.abc import TaskGroup

from ._guarded_process import (
    MAX_LINE_BYTES,
    NO_SIGNAL,
    ExitStatus,
    FreeGuard,
    GuardedProcess,
    GuardError,
    ProgramStartError,
    check_owner,
    number,
)
from ._guarded_requests import Zygote, fork_fields, pack, private_pipes, spawn_fields

__all__ = [
    "ExitStatus",
    "GuardError",
    "GuardedProcess",
    "ProgramStartError",
    "Warden",
    "Zygote",
    "open_warden",
]

_IS_LINUX: bool = sys.platform == "linux"
_SCRIPT = Path(__file__).with_name("_guard.py")
# Generous, because a starved machine is no reason to fail; each is an answer of milliseconds.
_READY_S = 10.0
_PRELOAD_S = 60.0
_SEND_S = 2.0
_STARTED_S = 10.0
_RESUME_S = 1.0
_END_S = 2.0
# Guards without a program; each has a few MiB of its own.
_MOST_FREE_GUARDS = 4


class Warden:
    """A warden process, which forks a guard for each program; made by `open_warden`."""

    def __init__(
        self,
        process: subprocess.Popen[bytes],
        channel: socket.socket,
        tasks: TaskGroup,
        *,
        zygote: Zygote | None = None,
    ) -> None:
        self._process = process
        self._channel = channel
        self._zygote = zygote
        self._tasks = tasks
        self._owner_pid = os.getpid()
        # Ours and not reaped yet: the number cannot be another process's.
        self._pidfd = os.pidfd_open(process.pid)
        self._lock = anyio.Lock()
        self._ready = anyio.Event()
        self._closed = anyio.Event()
        self._dead = anyio.Event()
        self._trouble = ("it ended before it was ready", "a line that says ready")
        self._processes: dict[int, GuardedProcess] = {}
        self._free_guards: list[FreeGuard] = []
        self._is_ending = False
        self._last_name = 0
        self._inbox = b""

    @property
    def pid(self) -> int:
        """The warden process."""
        return self._process.pid

    @property
    def alive(self) -> bool:
        """Whether programs can be started; once False it stays so, and all programs end."""
        return self._ready.is_set() and not self._closed.is_set()

    async def wait_closed(self) -> None:
        """Wait until the warden is gone; open a new one then."""
        await self._closed.wait()

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
        """Start a program under a guard of its own, and wait until it is executed.

        Standard input is the null device, and no other descriptor is open in the program. The
        descriptors stay the caller's, who closes them after this call. Give pipes that nobody else
        writes to: when guard and warden were killed, who writes to them is killed too. A
        cancellation kills the program and waits until it is gone.

        Args:
            argv: the absolute path of the file to execute, then its arguments.
            env: the whole environment.
            cwd: the working directory.
            stdout_fd: becomes descriptor 1.
            stderr_fd: becomes descriptor 2.
            control_fd: becomes descriptor 3, which is closed without it.
            rlimits: soft and hard limit by number (`resource.RLIMIT_...`), in the system's units.
                No core is ever dumped.

        Raises:
            ProgramStartError: the file cannot be executed, or the directory not be entered.
            GuardError: the warden is closed or does not answer; or this is a fork of the host.
            ValueError: the path is not absolute, or a text holds a NUL character.
        """
        action = f"start the program {argv[0]!r}" if argv else "start a program"
        fields = spawn_fields(argv, env, cwd, rlimits)
        descriptors = [stdout_fd, stderr_fd, *(() if control_fd is None else (control_fd,))]
        return await self._launch(fields, argv[0], descriptors, action)

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
        """Fork a program of the zygote under a guard of its own, and wait until it runs.

        It calls the entry of the zygote with 3, the number of its control descriptor. The rest is
        as for `spawn`: descriptors, session, environment and directory are its own, signals and
        the generators of `random` and `numpy.random` are as in a new process. What it cannot have
        of its own is the hash seed, the addresses and the command line of the zygote.

        Args:
            env: the whole environment, without additions by the interpreter.
            cwd: the working directory.
            stdout_fd: becomes descriptor 1.
            stderr_fd: becomes descriptor 2.
            control_fd: becomes descriptor 3.
            rlimits: soft and hard limit by number (`resource.RLIMIT_...`), in the system's units.
                No core is ever dumped.
            is_fit: judges a guard, given by its pid, that has served another program: what the
                system keeps for it, its limits for example, the new program begins with.

        Raises:
            ProgramStartError: a limit cannot be set, or the directory not be entered.
            GuardError: the warden is no zygote, is closed or does not answer; or this is a fork of
                the host.
            ValueError: a text holds a NUL character, or a name in `env` is wrong.
        """
        action = "fork a program"
        if self._zygote is None:
            raise GuardError(action, "the warden was opened without zygote", "one that is a zygote")
        fields = fork_fields(env, cwd, rlimits)
        descriptors = [stdout_fd, stderr_fd, control_fd]
        return await self._launch(
            fields, self._zygote.entry, descriptors, action, lambda: self._take_guard(is_fit)
        )

    async def _launch(
        self,
        fields: Sequence[bytes],
        path: str,
        descriptors: Sequence[int],
        action: str,
        find_guard: Callable[[], FreeGuard | None] = lambda: None,
    ) -> GuardedProcess:
        check_owner(self._owner_pid, action)
        if not self.alive:
            raise GuardError(action, "the warden is closed", "a living one")
        request, pipes = pack(fields), private_pipes(descriptors)
        guard = find_guard()
        if guard is not None:
            process = GuardedProcess(guard.name, path, guard.channel, pipes, guard=guard)
            self._hold(guard.name, process)
        else:
            self._last_name += 1
            name = self._last_name
            ours, theirs = socket.socketpair()
            ours.setblocking(False)
            process = GuardedProcess(name, path, ours, pipes)
            self._hold(name, process)
            with theirs:
                await self._send([b"guard", b"%d" % name], (theirs.fileno(),))
        await self._wait_started(process, request, descriptors, action)
        return process

    def _hold(self, name: int, process: GuardedProcess) -> None:
        self._processes[name] = process
        # The reader owns the socket from here on and ends when nothing of the program is left.
        self._tasks.start_soon(self._serve, process, name)

    async def _serve(self, process: GuardedProcess, name: int) -> None:
        try:
            await process.serve(self)
        finally:
            if self._processes.get(name) is process:
                del self._processes[name]

    def keep(self, guard: FreeGuard) -> None:
        """Take a guard whose program is gone; `GuardedProcess` calls this."""
        if self.alive and not self._is_ending and len(self._free_guards) < _MOST_FREE_GUARDS:
            self._free_guards.append(guard)
        else:
            guard.close()

    def _take_guard(self, is_fit: Callable[[int], bool] | None) -> FreeGuard | None:
        while self._free_guards and self.alive and os.getpid() == self._owner_pid:
            guard = self._free_guards.pop()
            if guard.is_waiting() and (is_fit is None or is_fit(guard.pid)):
                return guard
            guard.close()
        return None

    def _drop_guards(self) -> None:
        while self._free_guards:
            self._free_guards.pop().close()

    async def _wait_started(
        self, process: GuardedProcess, request: bytes, descriptors: Sequence[int], action: str
    ) -> None:
        error: GuardError | None = None
        is_started = False
        try:
            with anyio.move_on_after(_RESUME_S):
                error = await process.start(request, descriptors)
                is_started = True
            if not is_started:
                # A program may have stopped the warden.
                self._resume()
                with anyio.move_on_after(_STARTED_S - _RESUME_S):
                    error = await process.start()
                    is_started = True
        finally:
            if not is_started:
                await process.kill()
        if is_started and error is None and process.pid == 0:
            error = GuardError(action, "its guard ended at once", "a started program")
        if not is_started:
            error = GuardError(action, f"no guard answered in {_STARTED_S:g} s", "a guard")
        if error is not None:
            raise error

    async def condemn(self, name: int) -> None:
        """Have a guard killed with everything below it; `GuardedProcess` calls this."""
        self._resume()
        with contextlib.suppress(GuardError):
            await self._send([b"kill", b"%d" % name], ())

    def give_up(self) -> None:
        """Kill the warden, which ends all its programs; `GuardedProcess` calls this."""
        self._signal(signal.SIGKILL)

    def _resume(self) -> None:
        # A program may have stopped it; for a running warden this changes nothing.
        self._signal(signal.SIGCONT)

    def _signal(self, signal_number: signal.Signals) -> None:
        if not self._dead.is_set():
            with contextlib.suppress(OSError):
                signal.pidfd_send_signal(self._pidfd, signal_number)

    async def _send(self, fields: Sequence[bytes], descriptors: Sequence[int]) -> None:
        """Send one whole request; half of one would garble all that follow."""
        data = memoryview(pack(fields))
        rights = []
        if descriptors:
            rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", descriptors))]
        rest = data
        try:
            with anyio.CancelScope(shield=True):
                async with self._lock:
                    with anyio.move_on_after(_SEND_S):
                        while rest and not self._closed.is_set():
                            rest = await self._send_some(rest, rights if rest is data else [])
        except (OSError, anyio.ClosedResourceError):
            # The warden is dead; the request stays unsent, which is told below.
            pass
        finally:
            # A native cancellation of asyncio gets through a shield.
            if 0 < len(rest) < len(data):
                self.give_up()
        if rest:
            self.give_up()
            raise GuardError("send a request to the warden", "it does not take it", "a living one")

    async def _send_some(
        self, data: memoryview, rights: list[tuple[int, int, array.array[int]]]
    ) -> memoryview:
        try:
            return data[self._channel.sendmsg([data], rights, NO_SIGNAL) :]
        except BlockingIOError:
            await anyio.wait_writable(self._channel)
            return data

    async def wait_ready(self) -> None:
        """Wait until the warden serves; `open_warden` calls this.

        Raises:
            GuardError: it could not start.
        """
        patience_s = _READY_S if self._zygote is None else _PRELOAD_S
        with anyio.move_on_after(patience_s):
            await self._ready.wait()
        if not self._ready.is_set():
            self._trouble = (f"no answer in {patience_s:g} s", self._trouble[1])
        if not self.alive:
            action = "start a warden" if self._zygote is None else "start a zygote"
            raise GuardError(action, *self._trouble)

    async def serve(self) -> None:
        """Read the warden's lines until it is dead, and reap it; `open_warden` runs this."""
        with anyio.CancelScope(shield=True):
            while await self._receive():
                pass
            self._closed.set()
            self._ready.set()
            self._drop_guards()
            for process in self._processes.values():
                process.note_cleared()
            anyio.notify_closing(self._channel)
            self._channel.close()
            await anyio.wait_readable(self._pidfd)
            self._process.wait()
            self._dead.set()
            os.close(self._pidfd)

    async def _receive(self) -> bool:
        await anyio.wait_readable(self._channel)
        try:
            data = self._channel.recv(4096)
        except BlockingIOError:
            return True
        except OSError:
            return False
        *lines, self._inbox = (self._inbox + data).split(b"\n")
        for line in lines:
            try:
                self._take(line)
            except (ValueError, IndexError):
                return False
        return bool(data) and len(self._inbox) <= MAX_LINE_BYTES

    def _take(self, line: bytes) -> None:
        words = line.split(b" ")
        if words[0] == b"ready" and number(words[1]) == self.pid:
            self._ready.set()
        elif words[0] == b"broken":
            seen, _, expected = line[7:].decode(errors="replace").partition("\0")
            self._trouble = (seen, expected)
        elif words[0] == b"ended":
            process = self._processes.get(number(words[1]))
            if process is not None:
                process.note_cleared()
        else:
            raise ValueError(line)

    async def end(self) -> None:
        """Kill all programs, then end the warden; `open_warden` calls this."""
        self._is_ending = True
        self._drop_guards()
        try:
            async with anyio.create_task_group() as tasks:
                for process in list(self._processes.values()):
                    tasks.start_soon(process.kill)
            if not self._closed.is_set():
                self._resume()
                with contextlib.suppress(GuardError):
                    await self._send([b"bye"], ())
        finally:
            if not self._closed.is_set():
                # Not closed here: the reader waits for it, sees the end, and closes it.
                with contextlib.suppress(OSError):
                    self._channel.shutdown(socket.SHUT_RDWR)
        if not self._ready.is_set():
            # It hangs in an import, and has no programs yet.
            self.give_up()
        with anyio.move_on_after(_END_S):
            await self._dead.wait()
        self.give_up()


@asynccontextmanager
async def open_warden(
    *,
    python: str | None = None,
    zygote: Zygote | None = None,
    remove_on_exit: str | None = None,
) -> AsyncIterator[Warden]:
    """Start a warden; end it, with every program under it, on leaving the block.

    On macOS, which is not tested, there is no warden: each program has a watcher and is killed by
    its process group, memory is not watched, and `remove_on_exit` does nothing.

    Args:
        python: the interpreter for warden and guards (CPython 3.10 or later); the host's own
            without it.
        zygote: what the warden imports, so that `Warden.fork` works; needs Linux.
        remove_on_exit: a directory that the warden deletes if the host dies. Leaving the block
            keeps it: the host deletes it itself.

    Raises:
        GuardError: the warden cannot start, or the platform is neither Linux nor macOS; or a
            module of the zygote cannot be imported, leaves threads running or descriptors open.
        ValueError: the zygote has a field of the wrong shape.
    """
    if not _IS_LINUX:
        from ._guarded_portable import open_portable_warden

        if zygote is not None:
            raise GuardError("start a zygote", f"platform {sys.platform!r}", "'linux'")
        async with open_portable_warden(python=python) as portable:
            yield portable
        return
    failure: Exception | None = None
    process, channel = _start(python or sys.executable, zygote, remove_on_exit)
    async with anyio.create_task_group() as tasks:
        warden = Warden(process, channel, tasks, zygote=zygote)
        tasks.start_soon(warden.serve)
        try:
            await warden.wait_ready()
            yield warden
        except Exception as error:
            # Kept out of the task group, which would wrap it in an exception group.
            failure = error
        finally:
            with anyio.CancelScope(shield=True):
                await warden.end()
    if failure is not None:
        raise failure


def _start(
    python: str, zygote: Zygote | None, remove_on_exit: str | None
) -> tuple[subprocess.Popen[bytes], socket.socket]:
    # On the loop, which a fork by vfork and the exec of a loaded interpreter hold for 2 ms: a
    # thread could not be stopped by a cancellation, and its process would have no owner then.
    extra = [] if zygote is None else zygote.arguments()
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    # A zygote needs site, which makes installed packages importable.
    options = ["-I", "-S"] if zygote is None else ["-I"]
    arguments = [str(theirs.fileno()), str(os.getpid()), remove_on_exit or "", *extra]
    with theirs:
        try:
            process = subprocess.Popen(
                [python, *options, str(_SCRIPT), *arguments],
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
            seen = f"{python!r} cannot be executed ({error.strerror})"
            raise GuardError("start a warden", seen, "a Python interpreter") from error
    return process, ours
