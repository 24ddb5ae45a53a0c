"""Be the warden: fork one guard for each program, and clean up after guards that died.

The host talks to the warden over a stream socket. A request is a length (4 bytes, big-endian) and
a body of fields with a NUL byte between them; descriptors ride with its first byte:

    guard ID             fork a guard for this descriptor: its channel
    kill ID              kill this guard; what it leaves is hunted
    bye                  an orderly end follows

Answers are lines: ``ready PID``, ``broken SEEN`` NUL ``EXPECTED`` (it could not start), ``ended ID
COUNT`` (the guard and all below it are gone but COUNT processes that may not be killed).

It may be a zygote too (see `_guard_zygote`): every program then is a fork of this process, which
therefore never holds what the host asks for a run, such as its environment.

The warden is a subreaper above the guards: what a dead guard leaves becomes the warden's own
child, and a child that it does not know is killed. It ends when the host does, seen by the end
of the socket (which a fork of the host keeps open) and by a pidfd (which nobody can).
"""

from __future__ import annotations

import contextlib
import mmap
import os
import resource
import select
import signal
import socket
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from code_runtime._guard_proc import Hunt, Tree, remove_tree, stat_of
    from code_runtime._guard_process import run_guard
    from code_runtime._guard_program import (
        ForkedProgram,
        die_with_parent,
        ignore_signals,
        refuse_tracers,
        take_in_orphans,
    )
    from code_runtime._guard_zygote import Entry, Unfit, check_interpreter, prepare
else:
    from _guard_proc import Hunt, Tree, remove_tree, stat_of
    from _guard_process import run_guard
    from _guard_program import (
        ForkedProgram,
        die_with_parent,
        ignore_signals,
        refuse_tracers,
        take_in_orphans,
    )
    from _guard_zygote import Entry, Unfit, check_interpreter, prepare

_TICK_S = 0.25
_HUNT_MS = 1
# Own ticks without a beat until a guard counts as frozen: 1 s. One that waits for a processor or
# a disk is not frozen, on a starved machine, and gets 10 s.
_SILENT_TICKS = 4
_STARVED_TICKS = 40
# How long guards may take to end by themselves after the host is gone.
_LEAVE_S = 1.0
_SLOTS = 4096


class _Record:
    def __init__(self, name: bytes, slot: int, pidfd: int, beat: int) -> None:
        self.name = name
        self.slot = slot
        self.pidfd = pidfd
        self.beat = beat
        self.silent_ticks = 0


class Warden:
    """The warden's life, in one thread and one loop."""

    def __init__(self, channel: socket.socket, host_fd: int) -> None:
        self._channel = channel
        self._host_fd = host_fd
        self._own_fd = os.pidfd_open(os.getpid())
        self._beats = mmap.mmap(-1, _SLOTS)
        self._free = list(range(_SLOTS - 1, -1, -1))
        self._guards: dict[int, _Record] = {}
        self._ended: list[bytes] = []
        self._inbox = bytearray()
        self._descriptors: list[int] = []
        self._hunt = Hunt(Tree(), os.getpid(), lambda: None)
        self._is_hunting = False
        self._next_tick_s = 0.0
        self._leave_by_s: float | None = None
        self.is_orderly = False
        self._poll = select.poll()
        for fd in (channel.fileno(), host_fd):
            self._poll.register(fd, select.POLLIN)

    def run(self) -> None:
        """Serve until the host is gone and nothing is left below."""
        while self._leave_by_s is None or self._guards or self._is_hunting:
            self._wait()
            self._reap()
            if self._guards and time.monotonic() >= self._next_tick_s:
                self._tick()
            if self._is_hunting:
                self._clean()

    def _wait(self) -> None:
        timeout = None
        if self._is_hunting:
            timeout = float(_HUNT_MS)
        elif self._guards:
            timeout = max(0.0, self._next_tick_s - time.monotonic()) * 1000 + 1
        for fd, _events in self._poll.poll(timeout):
            if fd == self._channel.fileno():
                self._read_requests()
            elif fd == self._host_fd:
                self._leave()
            # The end of a guard only has to wake the loop.

    def _leave(self) -> None:
        if self._leave_by_s is None:
            self._leave_by_s = time.monotonic() + _LEAVE_S
            self._is_hunting = True
            for fd in (self._channel.fileno(), self._host_fd):
                self._poll.unregister(fd)

    def _tell(self, line: bytes) -> None:
        with contextlib.suppress(OSError):
            self._channel.send(line + b"\n", socket.MSG_NOSIGNAL)

    def _reap(self) -> None:
        while True:
            try:
                pid, _status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            record = self._guards.pop(pid, None)
            if record is not None:
                self._poll.unregister(record.pidfd)
                os.close(record.pidfd)
                self._free.append(record.slot)
                self._ended.append(record.name)
                self._is_hunting = True

    def _tick(self) -> None:
        # Ticks are counted, not time: a warden that was starved itself blames nobody.
        self._next_tick_s = time.monotonic() + _TICK_S
        self._is_hunting = True
        is_late = self._leave_by_s is not None and time.monotonic() > self._leave_by_s
        for pid, record in self._guards.items():
            beat = self._beats[record.slot]
            record.silent_ticks = 0 if beat != record.beat else record.silent_ticks + 1
            record.beat = beat
            if is_late or self._is_frozen(pid, record):
                self._kill_guard(record)

    @staticmethod
    def _is_frozen(pid: int, record: _Record) -> bool:
        if record.silent_ticks < _SILENT_TICKS:
            return False
        seen = stat_of(pid)
        is_starved = seen is not None and seen[0] in "RD"
        return record.silent_ticks >= _STARVED_TICKS or not is_starved

    @staticmethod
    def _kill_guard(record: _Record) -> None:
        with contextlib.suppress(OSError):
            signal.pidfd_send_signal(record.pidfd, signal.SIGKILL)

    def _clean(self) -> None:
        """Kill children that are no guards, with all below them; report when none is left."""
        if not self._hunt.step(prune=self._guards):
            return
        self._is_hunting = False
        for name in self._ended:
            self._tell(b"ended %s %d" % (name, len(self._hunt.immune)))
        self._ended.clear()

    def _read_requests(self) -> None:
        size = socket.CMSG_SPACE(16 * 4)
        try:
            data, ancillary, flags, _address = self._channel.recvmsg(1 << 16, size)
        except BlockingIOError:
            return
        except OSError:
            data, ancillary, flags = b"", [], 0
        # Lost descriptors would shift those of the requests that follow.
        if not data or flags & socket.MSG_CTRUNC:
            self._leave()
            return
        for level, kind, payload in ancillary:
            if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
                whole = len(payload) - len(payload) % 4
                self._descriptors += memoryview(payload[:whole]).cast("i").tolist()
        self._inbox += data
        while len(self._inbox) >= 4:
            end = 4 + int.from_bytes(self._inbox[:4], "big")
            if len(self._inbox) < end:
                return
            body = bytes(self._inbox[4:end])
            del self._inbox[:end]
            self._obey(body.split(b"\0"))

    def _obey(self, fields: list[bytes]) -> None:
        if fields[0] == b"guard":
            self._fork_guard(fields[1])
        elif fields[0] == b"bye":
            self.is_orderly = True
        elif fields[0] == b"kill":
            self._kill_named(fields[1])

    def _kill_named(self, name: bytes) -> None:
        for record in self._guards.values():
            if record.name == name:
                self._kill_guard(record)
                return
        # Ended already, or never asked for: the host waits for the answer all the same.
        self._ended.append(name)
        self._is_hunting = True

    def _fork_guard(self, name: bytes) -> None:
        channel_fd = self._descriptors.pop(0)
        slot = self._free.pop() if self._free else None
        try:
            pid = os.fork() if slot is not None else -1
        except OSError:
            pid = -1
        if pid == 0 and slot is not None:
            self._be_guard(channel_fd, slot)
        os.close(channel_fd)
        if slot is None:
            self._tell(b"ended %s 0" % name)
        elif pid < 0:
            self._free.append(slot)
            self._tell(b"ended %s 0" % name)
        else:
            self._keep(pid, name, slot)

    def _keep(self, pid: int, name: bytes, slot: int) -> None:
        if not self._guards:
            self._next_tick_s = time.monotonic() + _TICK_S
        try:
            pidfd = os.pidfd_open(pid)
        except OSError:
            # Out of descriptors: the host is told as if the guard had died.
            os.kill(pid, signal.SIGKILL)
            self._free.append(slot)
            self._ended.append(name)
            self._is_hunting = True
            return
        self._guards[pid] = _Record(name, slot, pidfd, self._beats[slot])
        self._poll.register(pidfd, select.POLLIN)

    def _be_guard(self, channel_fd: int, slot: int) -> None:
        try:
            run_guard(
                channel_fd,
                host_fd=self._host_fd,
                warden_fd=self._own_fd,
                beats=self._beats,
                slot=slot,
            )
        except ForkedProgram:
            # The program must not beat for a guard, nor close a number that is its own by now.
            self._beats.close()
            self._channel.detach()
            raise
        except BaseException:
            os._exit(1)
        os._exit(0)


def _host_pidfd(host_pid: int) -> int:
    fd = os.pidfd_open(host_pid)
    # Were the host dead already, its number could be another process's by now.
    if os.getppid() != host_pid:
        raise OSError(f"the host process {host_pid} is not the parent")
    return fd


def _start(channel: socket.socket, host_pid: int, zygote: list[str]) -> tuple[Warden, Entry | None]:
    try:
        check_interpreter()
        take_in_orphans()
        refuse_tracers()
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        if os.readlink("/proc/self") != str(os.getpid()):
            raise OSError("/proc shows another process namespace")
        # Nothing here sees the end of the host while an import hangs. The signal follows the
        # thread that started this process, and that one waits for it.
        die_with_parent(signal.SIGKILL)
        host_fd = _host_pidfd(host_pid)
        entry = prepare(zygote) if zygote else None
        die_with_parent(None)
        ignore_signals()
        channel.setblocking(False)
        warden = Warden(channel, host_fd)
        channel.send(b"ready %d\n" % os.getpid())
    except (OSError, AttributeError, Unfit) as error:
        seen, expected = str(error), "a line that says ready"
        if isinstance(error, Unfit):
            seen, expected = error.seen, error.expected
        text = f"broken {seen[:2000]}\0{expected}".replace("\n", " ")
        channel.send(text.encode(errors="replace") + b"\n")
        # Threads of a preloaded module could hold up an orderly exit.
        os._exit(1)
    return warden, entry


def main(arguments: Sequence[str]) -> Callable[[], object] | None:
    """Be a warden until the host is gone.

    Args:
        arguments: the number of the channel, the process of the host, the directory to delete or
            nothing, and what a zygote imports (see `_guard_zygote.prepare`).

    Returns:
        What to call with an empty stack, if this process became a forked program.
    """
    channel = socket.socket(fileno=int(arguments[0]))
    warden, entry = _start(channel, int(arguments[1]), list(arguments[3:]))
    try:
        warden.run()
    except ForkedProgram as program:
        if entry is not None:
            return entry.program(program.env)
        raise
    if not warden.is_orderly and arguments[2]:
        remove_tree(arguments[2])
    # What a preloaded module does at the end of an interpreter may hang.
    os._exit(0)
