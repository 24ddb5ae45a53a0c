"""Watch one program where the system has no subreaper: ``python -I -S _guard_portable.py FD HOST``.

Run by path. For macOS, where it is not tested; the tests run it on Linux. It speaks the messages
of `_guard_process`, after the same request (see `_guard_program`) with the program's descriptors,
but knows its program by the process group only: a process that starts a session of its own gets
away.
"""

from __future__ import annotations

import contextlib
import os
import resource
import select
import signal
import socket
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from code_runtime._guard_program import (
        PROGRAM_SOURCES,
        SpawnRequest,
        become_program,
        describe_exit,
        ignore_signals,
        parse_request,
        place_descriptors,
    )
else:
    sys.path.append(os.path.dirname(os.path.abspath(__file__)))
    from _guard_program import (
        PROGRAM_SOURCES,
        SpawnRequest,
        become_program,
        describe_exit,
        ignore_signals,
        parse_request,
        place_descriptors,
    )

_POLL_MS = 20
_GROUP_S = 1.0
_CHANNEL = 3


class PortableGuard:
    """The watcher's life, in one thread and one loop."""

    def __init__(self, request: SpawnRequest, host_pid: int, *, has_control: bool) -> None:
        self._request = request
        self._has_control = has_control
        self._host_pid = host_pid
        self._program = 0
        self._cause = "none"
        self._channel = socket.socket(fileno=_CHANNEL)
        self._inbox = b""

    def run(self) -> None:
        """Watch the program until its process group is gone."""
        if not self._start():
            return
        poll = select.poll()
        poll.register(_CHANNEL, select.POLLIN)
        while not self._reap():
            if poll.poll(_POLL_MS):
                self._read_commands()
            if os.getppid() != self._host_pid:
                self._cause = "host"
                self._kill_group()
        deadline = time.monotonic() + _GROUP_S
        while self._kill_group() and time.monotonic() < deadline:
            time.sleep(0.001)
        self._tell("gone 0 last")

    def _tell(self, line: str) -> None:
        with contextlib.suppress(OSError):
            self._channel.send(line.encode("ascii") + b"\n", getattr(socket, "MSG_NOSIGNAL", 0))

    def _kill_group(self) -> bool:
        try:
            os.killpg(self._program, signal.SIGKILL)
        except OSError:
            return False
        return True

    def _reap(self) -> bool:
        pid, status, usage = os.wait4(self._program, os.WNOHANG)
        if pid:
            self._tell(describe_exit(status, usage, self._cause))
        return pid != 0

    def _read_commands(self) -> None:
        try:
            data = self._channel.recv(4096)
        except OSError:
            data = b""
        *lines, self._inbox = (self._inbox + data).split(b"\n")
        if not data or b"kill" in lines:
            self._kill_group()
        for line in lines:
            if line in (b"leftovers", b"sweep"):
                self._tell("leftovers 0" if line == b"leftovers" else "swept 0")

    def _start(self) -> bool:
        reader, writer = os.pipe()
        pid = os.fork()
        if pid == 0:
            become_program(self._request, writer, has_control=self._has_control)
        os.close(writer)
        for fd in PROGRAM_SOURCES:
            os.close(fd)
        failure = os.read(reader, 64).decode("ascii")
        os.close(reader)
        self._program = pid
        if failure:
            os.waitpid(pid, 0)
            self._tell(f"failed {failure}")
            return False
        self._tell(f"started {os.getpid()} {pid}")
        return True


def _receive_request(channel: socket.socket) -> tuple[bytes, list[int]]:
    data = b""
    descriptors: list[int] = []
    while len(data) < 4 or len(data) < 4 + int.from_bytes(data[:4], "big"):
        part, more, _flags, _address = socket.recv_fds(channel, 65536, 4)
        if not part:
            sys.exit(1)
        data += part
        descriptors += more
    return data[4:], descriptors


def main(arguments: list[str]) -> None:
    """Watch one program."""
    channel = socket.socket(fileno=int(arguments[0]))
    ignore_signals()
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    body, (out, err, *control) = _receive_request(channel)
    null = 0
    fd = channel.detach()
    place_descriptors([null, null, null, fd, null, null, out, err, *(control or [null])])
    request = parse_request(body)
    PortableGuard(request, int(arguments[1]), has_control=bool(control)).run()


if __name__ == "__main__":
    main(sys.argv[1:])
