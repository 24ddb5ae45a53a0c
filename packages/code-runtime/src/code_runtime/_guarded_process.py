"""Hold one guarded program from the host's side: its events, and the ways to end it.

The guard's lines (see `_guard_process`) are checked word by word and nothing in them can do more
than end this one program. Signals go through pidfds that the guard sent along, never to a number.
"""

from __future__ import annotations

import array
import contextlib
import os
import signal
import socket
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, final

import anyio
from anyio import to_thread

from ._errors import CodeRuntimeError
from ._guard_proc import kill_stray

MAX_LINE_BYTES = 65_536
_RECEIVE_BYTES = 4096
# Missing on macOS, where Python ignores the signal and new descriptors are closed on exec below.
NO_SIGNAL: int = getattr(socket, "MSG_NOSIGNAL", 0)
_CLOSE_ON_EXEC: int = getattr(socket, "MSG_CMSG_CLOEXEC", 0)
# Each step of a kill: the guard, then the warden. Both answer in a few milliseconds or not at all.
_PATIENCE_S = 1.0
_ANSWER_S = 2.0


class GuardError(CodeRuntimeError, RuntimeError):
    """A warden or a guard cannot do what it was asked to.

    Args:
        action: What was asked for, such as `start a warden`.
        seen: What was seen instead.
        expected: What was expected.
    """

    def __init__(self, action: str, seen: str, expected: str) -> None:
        super().__init__(action, seen, expected)
        self.action = action
        self.seen = seen
        self.expected = expected

    def __str__(self) -> str:
        return f"Cannot {self.action}: {self.seen}, expected {self.expected}"


@final
class ProgramStartError(GuardError):
    """The program could not be executed.

    Args:
        path: The first argument of the program, or the entry of the zygote.
        stage: What failed: `fork`, `prepare`, `rlimits`, `cwd` or `exec`.
        errno: The system's error number.
    """

    def __init__(self, path: str, stage: str, errno: int) -> None:
        text = f"{stage} failed with {os.strerror(errno)!r} (errno {errno})"
        super().__init__(f"start the program {path!r}", text, "an executable file and a folder")
        self.args = (path, stage, errno)
        self.path = path
        self.stage = stage
        self.errno = errno


@dataclass(frozen=True, slots=True)
class ExitStatus:
    """Say how a guarded program ended; one of `code` and `signal` is set.

    Both are None when the guard was lost before it could tell.

    Units: times are of the program and the children that it waited for. `maxrss_bytes` starts at
    the size of the guard: a few MiB, or what a zygote has imported.

    Args:
        code: The exit code.
        signal: The number of the signal that ended it.
        utime_s: Processor time in the program.
        stime_s: Processor time in the system.
        maxrss_bytes: The largest resident size.
        reason: `memory` for the limit of `watch`; `guard-lost` when the program killed or froze its
            guard or the warden, and was killed for it; None for all other ends.
        memory_bytes: What was measured when the limit of `watch` was exceeded.
    """

    code: int | None
    signal: int | None
    utime_s: float = 0.0
    stime_s: float = 0.0
    maxrss_bytes: int = 0
    reason: Literal["memory", "guard-lost"] | None = None
    memory_bytes: int | None = None


@final
class FreeGuard:
    """A guard that waits for its next program, and the only one who holds its descriptors.

    Args:
        name: What the warden knows it by.
        channel: The host's end of its channel.
        pid: The guard.
        pidfd: A descriptor of it.
    """

    __slots__ = ("channel", "name", "pid", "pidfd")

    def __init__(self, name: int, channel: socket.socket, pid: int, pidfd: int) -> None:
        self.name = name
        self.channel = channel
        self.pid = pid
        self.pidfd = pidfd

    def is_waiting(self) -> bool:
        """Tell whether it is alive, as far as can be seen, and has said nothing more."""
        try:
            self.channel.recv(1, socket.MSG_PEEK)
        except BlockingIOError:
            pass
        except OSError:
            return False
        else:
            return False
        # A program may have stopped it; for a running guard this changes nothing.
        with contextlib.suppress(OSError):
            signal.pidfd_send_signal(self.pidfd, signal.SIGCONT)
        return True

    def close(self) -> None:
        """Release the descriptors; a guard without a host ends."""
        # A fork of the host may hold the socket too.
        with contextlib.suppress(OSError):
            self.channel.shutdown(socket.SHUT_RDWR)
        self.channel.close()
        os.close(self.pidfd)


class WardenLink(Protocol):
    """What a program's handle needs of its warden."""

    @property
    def alive(self) -> bool:
        """Whether the warden still answers."""
        ...

    async def condemn(self, name: int) -> None:
        """Have the guard of this name killed, with everything below it."""
        ...

    def give_up(self) -> None:
        """Kill a warden that does not do its work."""
        ...

    def keep(self, guard: FreeGuard) -> None:
        """Take a guard whose program is gone, for another one or to close it."""
        ...


class _Answer:
    def __init__(self) -> None:
        self.done = anyio.Event()
        self.count = 0


@final
class GuardedProcess:
    """A program under its guard; made by `Warden.spawn`.

    Everything may be called from any task of the loop. Leaving the warden's block kills it.
    """

    def __init__(
        self,
        name: int,
        path: str,
        channel: socket.socket,
        pipes: frozenset[tuple[int, int]],
        *,
        has_pidfds: bool = True,
        guard: FreeGuard | None = None,
    ) -> None:
        self._has_pidfds = has_pidfds
        self._name = name
        self._path = path
        self._channel = channel
        self._pipes = pipes
        self._owner_pid = os.getpid()
        self._pid = 0
        self._pidfd = -1
        self._guard_pid, self._guard_fd = (0, -1) if guard is None else (guard.pid, guard.pidfd)
        self._status: ExitStatus | None = None
        self._memory_bytes: int | None = None
        self._start_error: ProgramStartError | None = None
        self._is_finished = False
        self._is_last = False
        self._is_free = False
        self._is_condemned = False
        self._started = anyio.Event()
        self._exited = anyio.Event()
        self._gone = anyio.Event()
        self._cleared = anyio.Event()
        self._leftovers: deque[_Answer] = deque()
        self._swept: deque[_Answer] = deque()
        self._scope = anyio.CancelScope(shield=True)
        self._link: WardenLink | None = None
        self._unsent = memoryview(b"")

    @property
    def pid(self) -> int:
        """The program process."""
        return self._pid

    @property
    def guard_pid(self) -> int:
        """The guard, which is the parent of the program process."""
        return self._guard_pid

    @property
    def pidfd(self) -> int:
        """A pidfd of the program process, owned by this object; -1 when all is gone."""
        return self._pidfd

    @property
    def exit_status(self) -> ExitStatus | None:
        """How the program ended; None while it runs."""
        return self._status

    @property
    def is_gone(self) -> bool:
        """Whether nothing of the program is left."""
        return self._gone.is_set()

    def watch(self, memory_bytes: int | None) -> None:
        """Sample the memory of the whole tree every 50 ms, and kill it above a limit.

        Anonymous, shared and swapped memory count; a page shared in the tree counts once.

        Args:
            memory_bytes: the limit; None stops the sampling.

        Raises:
            GuardError: this process is a fork of the one that started the program.
            ValueError: the limit is not positive.
        """
        if memory_bytes is not None and memory_bytes <= 0:
            raise ValueError(
                f"Cannot watch a program: memory_bytes is {memory_bytes} bytes, expected at least 1"
            )
        self._check_owner("watch a program")
        self._send(b"watch %d\n" % (memory_bytes or 0))

    def send_signal(self, number: signal.Signals) -> None:
        """Send a signal to the program process; without effect where there is no pidfd of it."""
        if self._pidfd >= 0:  # there is none on macOS, nor when all is gone
            with contextlib.suppress(OSError):
                signal.pidfd_send_signal(self._pidfd, number)

    async def wait_exit(self) -> ExitStatus:
        """Wait until the program process has ended; its descendants may still be dying."""
        await self._exited.wait()
        assert self._status is not None
        return self._status

    async def wait_gone(self) -> ExitStatus:
        """Wait until nothing of the program is left."""
        await self._gone.wait()
        assert self._status is not None
        return self._status

    async def leftovers(self) -> int:
        """Count the living descendants other than the program process.

        Raises:
            GuardError: the guard does not answer, or this process is a fork of the host.
        """
        return await self._ask(b"leftovers\n", self._leftovers)

    async def sweep(self) -> int:
        """Kill all descendants other than the program process; return how many are left.

        The program runs on and may start new ones: the guard tries for 0.5 s.

        Raises:
            GuardError: the guard does not answer, or this process is a fork of the host.
        """
        return await self._ask(b"sweep\n", self._swept)

    async def kill(self) -> None:
        """Kill the program and everything that it started, and wait until all is gone.

        Idempotent, and not interrupted by a cancellation. A guard that does not answer in 1 s is
        killed by the warden; if the warden does not answer either, both are killed from here,
        with what can still be found of the program.

        Raises:
            GuardError: this process is a fork of the one that started the program.
        """
        self._check_owner("kill a program")
        with anyio.CancelScope(shield=True):
            self._order_kill()
            if await self._wait_gone(_PATIENCE_S):
                return
            if self._link is not None and self._link.alive:
                # The warden knows the guard, not the program: from now on it may kill the guard.
                self._is_condemned = True
                await self._link.condemn(self._name)
                if await self._wait_gone(_PATIENCE_S):
                    return
            await self._destroy()

    async def aclose(self) -> None:
        """Kill the program and release every descriptor."""
        await self.kill()

    def _order_kill(self) -> None:
        if self._unsent and not self._is_finished:
            # Words would become part of the request; an end is understood.
            with contextlib.suppress(OSError):
                self._channel.shutdown(socket.SHUT_WR)
        self._send(b"kill\n")

    async def _wait_gone(self, seconds: float) -> bool:
        with anyio.move_on_after(seconds):
            await self._gone.wait()
        return self._gone.is_set()

    def _check_owner(self, action: str) -> None:
        check_owner(self._owner_pid, action)

    def _send(self, line: bytes) -> None:
        # A line that a frozen guard cannot take is lost; whoever needs an answer has a deadline.
        if not self._is_finished:
            with contextlib.suppress(OSError):
                self._channel.send(line, NO_SIGNAL)

    async def _ask(self, command: bytes, queue: deque[_Answer]) -> int:
        action = f"{command.decode().strip()} below a program"
        self._check_owner(action)
        if self._gone.is_set():
            return 0
        answer = _Answer()
        queue.append(answer)
        self._send(command)
        with anyio.move_on_after(_ANSWER_S):
            await answer.done.wait()
        if not answer.done.is_set():
            raise GuardError(action, f"no answer of the guard in {_ANSWER_S:g} s", "a count")
        return answer.count

    # From here on: the reader, which owns the channel and both pidfds.

    async def serve(self, link: WardenLink) -> None:
        """Read the guard's events until nothing of the program is left (the warden's task)."""
        self._link = link
        with self._scope:
            while not self._is_last and await self._receive():
                pass
            if self._is_last and not self._is_free and self._guard_fd >= 0:
                # The guard ends right after its last word, and then really nothing is left.
                await anyio.wait_readable(self._guard_fd)
            elif not self._is_last:
                await self._recover(link)
        self._finish(link)

    async def start(
        self, request: bytes = b"", descriptors: Sequence[int] = ()
    ) -> ProgramStartError | None:
        """Tell the guard what to start, and wait until it runs, or cannot (the warden's task).

        None is returned when it runs, and also when the guard was lost. A call that was cancelled
        is taken up again by one without a request.
        """
        rights = []
        if request:
            self._unsent = memoryview(request)
            rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", descriptors))]
        while self._unsent and not self._started.is_set():
            try:
                sent_bytes = self._channel.sendmsg([self._unsent], rights, NO_SIGNAL)
                self._unsent, rights = self._unsent[sent_bytes:], []
            except BlockingIOError:
                with contextlib.suppress(anyio.ClosedResourceError):
                    await anyio.wait_writable(self._channel)
            except OSError:
                # The reader sees the end too, and tells.
                break
        await self._started.wait()
        return self._start_error

    def note_cleared(self) -> None:
        """Take note that the warden has removed the guard and everything below it."""
        self._cleared.set()

    _inbox = b""

    async def _receive(self) -> bool:
        """Read and handle what there is; False at the end or at the first wrong line."""
        await anyio.wait_readable(self._channel)
        try:
            data, descriptors = receive_with_descriptors(self._channel, _RECEIVE_BYTES, 2)
        except BlockingIOError:
            return True
        except OSError:
            return False
        *lines, self._inbox = (self._inbox + data).split(b"\n")
        try:
            for line in lines:
                self._take(line.split(b" "), descriptors)
        except (ValueError, IndexError):
            return False
        finally:
            for fd in descriptors:
                os.close(fd)
        return bool(data) and len(self._inbox) <= MAX_LINE_BYTES

    def _take(self, words: list[bytes], descriptors: list[int]) -> None:
        kind = words[0]
        if kind == b"started" and not self._started.is_set():
            guard_pid, pid = number(words[1]), number(words[2])
            if self._guard_pid not in (0, guard_pid):
                raise ValueError(guard_pid)
            if len(descriptors) != (2 if self._has_pidfds else 0):
                raise ValueError(descriptors)
            self._guard_pid, self._pid = guard_pid, pid
            if descriptors:
                self._pidfd = descriptors.pop(0)
                if self._guard_fd < 0:
                    self._guard_fd = descriptors.pop()
            self._started.set()
        elif kind == b"failed" and not self._started.is_set():
            error = number(words[2])
            self._start_error = ProgramStartError(self._path, words[1].decode("ascii"), error)
            self._status = ExitStatus(None, None)
            self._is_last = True
        elif kind == b"memory":
            self._memory_bytes = number(words[1])
        elif kind == b"exit" and self._status is None:
            self._take_exit(words)
        elif kind == b"leftovers" and self._leftovers:
            _answer(self._leftovers.popleft(), number(words[1]))
        elif kind == b"swept" and self._swept:
            _answer(self._swept.popleft(), number(words[1]))
        elif kind == b"gone" and self._exited.is_set():
            self._is_last = True
            # What is no guard of a warden cannot be asked again.
            self._is_free = words[2:] == [b"free"] and self._has_pidfds
        else:
            raise ValueError(kind)

    def _take_exit(self, words: list[bytes]) -> None:
        how, value, cause = words[1], number(words[2]), words[6]
        if how not in (b"code", b"signal"):
            raise ValueError(how)
        is_memory = self._memory_bytes is not None or cause == b"memory"
        # The end of the warden reaches host and guard; the host's order to kill may come first.
        is_ordered = self._has_pidfds and self._link is not None and not self._link.alive
        is_lost = cause == b"warden" or (is_ordered and (how, value) == (b"signal", signal.SIGKILL))
        self._status = ExitStatus(
            code=value if how == b"code" else None,
            signal=value if how == b"signal" else None,
            utime_s=number(words[3]) / 1e6,
            stime_s=number(words[4]) / 1e6,
            maxrss_bytes=number(words[5]),
            reason="memory" if is_memory else "guard-lost" if is_lost else None,
            memory_bytes=self._memory_bytes,
        )
        self._exited.set()

    def _settle(self, status: ExitStatus) -> None:
        self._status = status
        for event in (self._started, self._exited, self._gone):
            event.set()
        for queue in (self._leftovers, self._swept):
            while queue:
                _answer(queue.popleft(), 0)

    async def _recover(self, link: WardenLink) -> None:
        """Deal with a guard that is dead or talks nonsense, and its program."""
        if link.alive:
            await link.condemn(self._name)
            with anyio.move_on_after(_PATIENCE_S):
                await self._cleared.wait()
        if not self._cleared.is_set() or not link.alive:
            await self._destroy()
        if self._guard_fd >= 0:
            # Its channel closes a moment before its end.
            with anyio.move_on_after(_PATIENCE_S):
                await anyio.wait_readable(self._guard_fd)
        self._settle_lost()

    def _settle_lost(self) -> None:
        if not self._gone.is_set():
            self._settle(self._status or ExitStatus(None, None, reason="guard-lost"))

    async def _destroy(self) -> None:
        """Kill everything that can be found, without guard and warden."""
        if self._link is not None:
            self._link.give_up()
        if self._guard_fd >= 0:
            with contextlib.suppress(OSError):
                signal.pidfd_send_signal(self._guard_fd, signal.SIGKILL)
        if self._pidfd >= 0:
            # Its own descriptor, because a native cancellation of asyncio leaves the thread behind.
            own = os.dup(self._pidfd)
            await to_thread.run_sync(_kill_stray, self._pid, own, self._pipes)
        elif self._pid and not self._has_pidfds and self._status is None:
            # Its guard did not reap it, so the number is still the program's.
            with contextlib.suppress(OSError):
                os.killpg(self._pid, signal.SIGKILL)
        self._settle_lost()
        self._scope.cancel()

    def _finish(self, link: WardenLink) -> None:
        if self._is_finished:
            return
        self._is_finished = True
        self._settle_lost()
        if self._is_free and not self._is_condemned and self._guard_fd >= 0:
            link.keep(FreeGuard(self._name, self._channel, self._guard_pid, self._guard_fd))
            self._guard_fd = -1
        else:
            anyio.notify_closing(self._channel)
            self._channel.close()
        for fd in (self._pidfd, self._guard_fd):
            if fd >= 0:
                os.close(fd)
        self._pidfd = self._guard_fd = -1
        # Only where this host is the init process of a container its orphans become its children.
        for pid in (self._pid, self._guard_pid):
            if pid and os.getpid() == 1:
                with contextlib.suppress(OSError):
                    os.waitpid(pid, os.WNOHANG)


def check_owner(owner_pid: int, action: str) -> None:
    """Refuse to work in a fork of the process that the warden belongs to.

    Raises:
        GuardError: this is another process.
    """
    if os.getpid() != owner_pid:
        raise GuardError(
            action,
            f"this is process {os.getpid()}, a fork of the host process {owner_pid}",
            "the process that opened the warden",
        )


def number(word: bytes) -> int:
    """Read an unsigned decimal of at most 16 digits.

    Raises:
        ValueError: it is something else.
    """
    if not word.isdigit() or len(word) > 16:
        raise ValueError(word)
    return int(word)


def receive_with_descriptors(
    channel: socket.socket, size: int, most: int
) -> tuple[bytes, list[int]]:
    """Receive bytes and the descriptors that came with them, closed on exec."""
    space = socket.CMSG_SPACE(most * 4)
    data, ancillary, _flags, _address = channel.recvmsg(size, space, _CLOSE_ON_EXEC)
    descriptors: list[int] = []
    for level, kind, payload in ancillary:
        if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
            whole = len(payload) - len(payload) % 4
            descriptors += memoryview(payload[:whole]).cast("i").tolist()
    if not _CLOSE_ON_EXEC:
        for fd in descriptors:
            os.set_inheritable(fd, False)
    return data, descriptors


def _kill_stray(pid: int, pidfd: int, pipes: frozenset[tuple[int, int]]) -> None:
    try:
        kill_stray(pid, pidfd, pipes)
    finally:
        os.close(pidfd)


def _answer(answer: _Answer, count: int) -> None:
    answer.count = count
    answer.done.set()
