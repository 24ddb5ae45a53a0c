"""Be the guard of one program: start it, watch it, and leave nothing of it behind.

A guard is forked from the warden, in a session of its own and as a subreaper, so that every
process the program starts stays below it whatever the program does. It talks to the host over
its channel, first a request with the program's descriptors (see `_guard_program`), then lines of
text, one message a line:

| up (guard to host)                          | down (host to guard)                    |
|---------------------------------------------|-----------------------------------------|
| started GUARD_PID PROGRAM_PID (+ pidfds)    | watch BYTES (0 stops it)                |
| failed STAGE ERRNO                          | leftovers                               |
| memory BYTES LIMIT                          | sweep                                   |
| exit code/signal N UTIME_US STIME_US MAXRSS_BYTES CAUSE | kill                        |
| leftovers COUNT, swept COUNT                |                                         |
| gone COUNT free/last                        |                                         |

The COUNT of the last line is that of processes which it may not kill. A guard of a zygote that has
left nothing behind is free: it waits for the next request, and saves that program a fork.

The program can signal the guard, so signals are ignored and the warden watches it. Nothing that
the program sends is ever read here.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import select
import signal
import socket
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from code_runtime._guard_proc import Hunt, Tree
    from code_runtime._guard_program import (
        PROGRAM_SOURCES,
        ForkedProgram,
        become_program,
        describe_exit,
        move_descriptors,
        parse_request,
        place_descriptors,
        take_in_orphans,
    )
else:
    from _guard_proc import Hunt, Tree
    from _guard_program import (
        PROGRAM_SOURCES,
        ForkedProgram,
        become_program,
        describe_exit,
        move_descriptors,
        parse_request,
        place_descriptors,
        take_in_orphans,
    )

# A silent guard is killed after 1 s, so it wakes three times in that time.
_IDLE_MS = 300
_SAMPLE_MS = 50
_HUNT_MS = 1
_SWEEP_S = 0.5
# An excess must show in this many samples: a vfork child shows its parent's memory a second time.
_CONFIRMATIONS = 3
_CONFIRM_S = 0.004
_MAX_COMMAND_BYTES = 4096
_CHANNEL, _HOST, _WARDEN = range(3, 6)


class Guard:
    """The guard's life, in one thread and one loop."""

    def __init__(self, beats: mmap.mmap, slot: int) -> None:
        self._beats = beats
        self._slot = slot
        self._is_leaving = False
        self._sources: tuple[int, ...] = ()
        self._outbox = b""
        self._begin()
        self._poll = select.poll()
        self._channel = socket.socket(fileno=_CHANNEL)
        self._channel.setblocking(False)
        self._tree = Tree()
        self._hunt = Hunt(self._tree, os.getpid(), self._beat)

    def _begin(self) -> None:
        """Know nothing of any program."""
        self._program: int | None = None
        self._limit_bytes = 0
        self._sample_at_s = 0.0
        self._is_killing = False
        self._is_alone = False
        self._cause = "none"
        self._inbox = bytearray()

    def run(self) -> None:
        """Guard one program after another."""
        for fd in (_CHANNEL, _HOST, _WARDEN):
            self._poll.register(fd, select.POLLIN)
        while self._guard_one():
            self._begin()

    def _guard_one(self) -> bool:
        """Guard a program until nothing of it is left; return whether another may come."""
        request = self._receive_request()
        is_forked = request is not None and request.startswith(b"fork\0")
        pidfd = None if request is None else self._start(request)
        if pidfd is None:
            return False
        self._poll.register(pidfd, select.POLLIN)
        while not self._is_done():
            self._wait(pidfd)
            self._beat()
            self._reap()
            if self._limit_bytes and not self._is_killing:
                self._sample_when_due()
        with contextlib.suppress(KeyError):
            self._poll.unregister(pidfd)
        os.close(pidfd)
        # A warden that the program froze must be able to leave too.
        with contextlib.suppress(OSError):
            signal.pidfd_send_signal(_WARDEN, signal.SIGCONT)
        is_free = is_forked and not (self._is_leaving or self._hunt.immune)
        self._tell(f"gone {len(self._hunt.immune)} {'free' if is_free else 'last'}")
        # A host that does not hear of it sees the end of this guard.
        return self._flush() and is_free

    def _is_done(self) -> bool:
        if not self._is_killing:
            return False
        if self._is_alone:
            return True
        if not self._hunt.step():
            return False
        self._reap()
        # A scan misses a process that is handed on while it looks; `wait4` misses no child.
        if self._is_alone or not self._hunt.immune:
            return self._is_alone
        return self._program is None or self._program in self._hunt.immune

    def _beat(self) -> None:
        self._beats[self._slot] = (self._beats[self._slot] + 1) & 255

    def _tell(self, line: str) -> None:
        """Send a line soon: a host that sleeps is woken once for all lines of a turn."""
        self._outbox += line.encode("ascii") + b"\n"

    def _flush(self) -> bool:
        """Send these lines; return whether all of them are on their way."""
        # A host that is gone or does not read loses the message; the work goes on.
        lines, self._outbox = self._outbox, b""
        with contextlib.suppress(OSError):
            return not lines or self._channel.send(lines, socket.MSG_NOSIGNAL) == len(lines)
        return False

    def _wait(self, pidfd: int) -> None:
        self._flush()
        timeout = _HUNT_MS if self._is_killing else _SAMPLE_MS if self._limit_bytes else _IDLE_MS
        for fd, _events in self._poll.poll(timeout):
            if fd == _CHANNEL:
                self._read_commands()
            else:
                # The first cause is the true one; the others follow from the kill.
                if fd != pidfd and not self._is_killing:
                    self._cause = "host" if fd == _HOST else "warden"
                self._is_killing = True
                self._is_leaving = self._is_leaving or fd != pidfd
                self._poll.unregister(fd)

    def _reap(self) -> None:
        while True:
            try:
                pid, status, usage = os.wait4(-1, os.WNOHANG)
            except ChildProcessError:
                # Who loses its parent becomes a child of this subreaper before that one can be
                # reaped, so without children there are no descendants either.
                self._is_alone = True
                return
            if pid == 0:
                return
            if pid == self._program:
                self._program = None
                self._is_killing = True
                self._tell(describe_exit(status, usage, self._cause))

    def _read_commands(self) -> None:
        try:
            data = self._channel.recv(_MAX_COMMAND_BYTES)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self._poll.unregister(_CHANNEL)
            if not self._is_killing:
                self._cause = "host"
            self._is_killing = self._is_leaving = True
            return
        self._inbox += data
        *lines, rest = bytes(self._inbox).split(b"\n")
        self._inbox = bytearray(rest)
        for line in lines:
            self._obey(line)

    def _obey(self, line: bytes) -> None:
        if line == b"kill":
            self._is_killing = True
        elif line == b"leftovers":
            self._tell(f"leftovers {self._count()}")
        elif line == b"sweep":
            self._sweep()
            self._tell(f"swept {self._count()}")
        elif line.startswith(b"watch "):
            self._limit_bytes = int(line[6:])
            self._sample_at_s = time.monotonic() + _SAMPLE_MS / 1000

    def _count(self) -> int:
        return len(self._tree.living(os.getpid(), spare=self._spare()))

    def _spare(self) -> tuple[int, ...]:
        return () if self._program is None else (self._program,)

    def _sweep(self) -> None:
        # The program itself runs on and may start more: the time is bounded, the rest is counted.
        deadline = time.monotonic() + _SWEEP_S
        while not self._hunt.step(spare=self._spare()) and time.monotonic() < deadline:
            self._beat()
            self._reap()
            time.sleep(_HUNT_MS / 1000)

    def _sample_when_due(self) -> None:
        if time.monotonic() >= self._sample_at_s:
            self._sample()
            self._sample_at_s = time.monotonic() + _SAMPLE_MS / 1000

    def _sample(self) -> None:
        used = 0
        for attempt in range(_CONFIRMATIONS):
            pids = self._tree.living(os.getpid())
            used = self._tree.memory_bytes(pids)
            if used > self._limit_bytes and len(pids) > 1:
                used = self._tree.proportional_bytes(pids)
            if used <= self._limit_bytes:
                return
            if len(pids) == 1:
                break
            if attempt + 1 < _CONFIRMATIONS:
                time.sleep(_CONFIRM_S)
        self._is_killing = True
        self._cause = "memory"
        self._hunt.step()
        self._tell(f"memory {used} {self._limit_bytes}")

    def _receive_request(self) -> bytearray | None:
        """Read what to start, and with what; None when the host or the warden is gone."""
        descriptors: list[int] = []
        head = bytearray(4)
        # A request begins with a zero byte. Others before it are of a word to the last program,
        # which crossed the news of its end.
        head[0] = 1
        while head[0]:
            if not self._receive(memoryview(head)[:1], descriptors):
                return None
        if not self._receive(memoryview(head)[1:], descriptors):
            return None
        body = bytearray(int.from_bytes(head, "big"))
        if not self._receive(memoryview(body), descriptors):
            return None
        self._sources = PROGRAM_SOURCES[: len(descriptors)]
        move_descriptors(descriptors, PROGRAM_SOURCES[0])
        return body

    def _receive(self, room: memoryview, descriptors: list[int]) -> bool:
        """Fill a buffer, and nothing else: no copy may stay behind for the next program."""
        space = socket.CMSG_SPACE(len(PROGRAM_SOURCES) * 4)
        while room:
            for fd, _events in self._poll.poll(_IDLE_MS):
                if fd != _CHANNEL:
                    return False
                size, ancillary, _flags, _address = self._channel.recvmsg_into(
                    [room], space, socket.MSG_CMSG_CLOEXEC
                )
                if not size:
                    return False
                room = room[size:]
                for level, kind, payload in ancillary:
                    if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
                        whole = len(payload) - len(payload) % 4
                        descriptors += memoryview(payload[:whole]).cast("i").tolist()
            self._beat()
        return True

    def _start(self, body: bytearray) -> int | None:
        """Start the program; return its pidfd, or None when it could not be executed.

        Only the program reads what was asked for; here it is wiped out.
        """
        reader, writer = os.pipe2(os.O_CLOEXEC)
        try:
            pid = os.fork()
        except OSError as error:
            self._tell(f"failed fork {error.errno}")
            self._flush()
            return None
        if pid == 0:
            request = parse_request(bytes(body))
            become_program(request, writer, has_control=self._sources == PROGRAM_SOURCES)
            # Number 3 is another descriptor now.
            self._channel.detach()
            raise ForkedProgram(request.env)
        body[:] = bytes(len(body))
        os.close(writer)
        for fd in self._sources:
            os.close(fd)
        pidfd = os.pidfd_open(pid)
        failure = self._await_exec(reader)
        if failure:
            os.waitpid(pid, 0)
            self._tell(f"failed {failure}")
            self._flush()
            return None
        self._program = pid
        own = os.pidfd_open(os.getpid())
        message = f"started {os.getpid()} {pid}\n".encode("ascii")
        with contextlib.suppress(OSError):
            socket.send_fds(self._channel, [message], [pidfd, own], socket.MSG_NOSIGNAL)
        os.close(own)
        return pidfd

    def _await_exec(self, reader: int) -> str:
        # A slow disk may hold the exec for long, so the guard goes on beating meanwhile.
        poll = select.poll()
        poll.register(reader, select.POLLIN)
        while not poll.poll(_IDLE_MS):
            self._beat()
        text = os.read(reader, 64).decode("ascii")
        os.close(reader)
        return text


def run_guard(
    channel_fd: int, *, host_fd: int, warden_fd: int, beats: mmap.mmap, slot: int
) -> None:
    """Turn this freshly forked process into a guard, and guard until nothing is left.

    Args:
        channel_fd: the channel.
        host_fd: a pidfd of the host.
        warden_fd: a pidfd of the warden.
        beats: counters in memory that the warden reads.
        slot: which of them is this guard's.

    Raises:
        ForkedProgram: this is the program, forked from a zygote.
    """
    os.setsid()
    take_in_orphans()
    place_descriptors([0, 0, 0, channel_fd, host_fd, warden_fd])
    Guard(beats, slot).run()
