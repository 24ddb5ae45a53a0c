"""The child's end of the fd-3 socket: whole frames out, bytes in, from any thread.

Frames are written at once and in full, before `send` returns, so that a kill loses nothing that was
sent. While a write waits for room, what the host sends is read: host and child never wait for each
other with both directions full. A host may send a pipe along with its first frame: then log frames
go there, which takes half the time.

Three things may interrupt a write, and none may tear a frame. A signal handler that sends
something itself finds the channel busy and leaves its frame to the send that it interrupted. A
handler that raises leaves the unfinished frame in the outbox, and the next send goes on with it. A
fork makes a copy of this process: the copy closes the descriptor and can send nothing.

Standard library only, CPython 3.10 or later.
"""

from __future__ import annotations

import fcntl
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from errno import EAGAIN
from os import _exit, close, dup, getpid, read, set_blocking, write
from select import PIPE_BUF, POLLIN, POLLOUT, poll
from socket import CMSG_LEN, SCM_RIGHTS, SOL_SOCKET, socket
from sys import byteorder
from threading import RLock

from .wire import READ_BYTES

_PRIVATE_FDS = (200, 100, 40)  # above what programs count through, below the usual limits
_READS_AT_A_TIME = 16  # chunks that one callback of the loop takes in
_HEAD_BYTES = 200  # of a line that is lost, where its id is
_JOIN_BYTES = 65_536  # smaller frames are joined to one write
_RIGHT_BYTES = 4  # a descriptor in a control message


class Channel:
    """Sends frames and collects what the host sends.

    Args:
        fd: The socket. It is moved to a private descriptor, closed on exec, and `fd` is closed.
    """

    def __init__(self, fd: int) -> None:
        self.fd = _moved(fd)
        set_blocking(self.fd, False)
        self.logs_fd = self.fd  # where log frames go
        self.owner = getpid()
        self.done = False  # whether the last frame was sent, or cannot be sent by this copy
        self.lock = RLock()
        self.on_input: Callable[[], object] | None = None
        self.on_leave: Callable[[], object] | None = None
        self._busy = False
        # Where a piece goes, the piece, and counts of its bytes that are written.
        self._outbox: deque[tuple[int, bytes, deque[int]]] = deque()
        self._chunks: deque[bytes] = deque()
        self._held = bytearray()
        self._short_of_memory = False
        self._lost = False

    @property
    def foreign(self) -> bool:
        """Whether this is a forked copy of the process that the host started."""
        return self.owner != getpid()

    def leave(self) -> None:
        """Close the channel in a forked copy, whatever thread held its lock when it forked."""
        self.lock = RLock()
        self._outbox.clear()
        self._busy = False
        self.done = True
        if self.fd >= 0:
            if self.on_leave is not None:
                self.on_leave()
            self.close()

    def close(self) -> None:
        """Close the descriptors; a program may have closed them before."""
        descriptors = {self.fd, self.logs_fd}
        self.fd = self.logs_fd = -1
        for fd in descriptors:
            with suppress(OSError):
                close(fd)

    # Out

    def send(self, *parts: bytes, last: bool = False) -> None:
        """Write one frame, or several, given in pieces."""
        self._send(self.fd, parts, last)

    def send_logs(self, frames: bytes) -> None:
        """Write log frames."""
        self._send(self.logs_fd, (frames,), False)

    def _send(self, fd: int, parts: tuple[bytes, ...], last: bool) -> None:
        if self.owner != getpid():
            return
        with self.lock:
            if self.done:
                return
            if len(parts) > 1 and sum(map(len, parts)) <= _JOIN_BYTES:
                parts = (b"".join(parts),)
            self._outbox.extend([(fd, part, deque()) for part in parts])
            self.done = last
            self.flush()

    def send_log(self, frame: bytes) -> None:
        """Write one log frame, by a thread that has the lock; `send_logs` with less ado.

        A pipe takes a short frame whole or not at all: nothing has to be counted.
        """
        fd = self.logs_fd
        if fd != self.fd and len(frame) <= PIPE_BUF and not (self._busy or self._outbox):
            try:
                write(fd, frame)
                return
            except OSError as error:
                self._check(fd, error)
        self.send_logs(frame)

    def flush(self) -> None:
        """Write what a send that was interrupted has left."""
        with self.lock:
            if self._busy:  # this is a signal handler inside a send, which goes on with the rest
                return
            while self._outbox:
                try:
                    self._busy = True
                    while self._outbox:
                        self._write(*self._outbox[0])
                finally:
                    self._busy = False

    def _write(self, fd: int, piece: bytes, counts: deque[int]) -> None:
        """Write what is left of the first piece, as far as there is room."""
        start = sum(counts)
        try:
            # In one C loop: a signal handler that raises right after the write cannot lose the
            # count, which would tear the frame.
            counts.extend(map(write, (fd,), (memoryview(piece)[start:] if start else piece,)))
        except OSError as error:
            self._check(fd, error)
            self._wait(fd)
            return
        if sum(counts) >= len(piece):
            self._outbox.popleft()

    def _check(self, fd: int, error: OSError) -> None:
        """Return if there was no room, or nothing to read; else end this process, or raise.

        An error of a signal handler, such as the `TimeoutError` of an alarm, comes up where this
        reads and writes, too, and is the program's.
        """
        if type(error) is BlockingIOError and error.errno == EAGAIN:
            return
        poller = poll()
        poller.register(fd, 0)
        if error.errno is not None and poller.poll(0):
            _exit(1)  # the host is gone, and with it everyone who would hear of it
        raise error

    def _wait(self, fd: int) -> None:
        """Wait for room; meanwhile take in what the host sends."""
        poller = poll()
        poller.register(fd, POLLOUT)
        poller.register(self.fd, POLLOUT | POLLIN if fd == self.fd else POLLIN)
        for _, events in poller.poll():
            if events & POLLIN and (self._read() or self._short_of_memory):
                self._notify()

    # In

    def _notify(self) -> None:
        notify = self.on_input
        if notify is not None:
            try:
                notify()
            except Exception:  # the program has closed or broken its loop; the write goes on
                return

    def _read(self) -> int:
        try:
            chunk = read(self.fd, READ_BYTES)
        except MemoryError:
            self._short_of_memory = True
            return 0
        except OSError as error:
            self._check(self.fd, error)
            return 0
        if chunk:
            self._chunks.append(chunk)
        elif not self.done:  # the host is gone
            _exit(1)
        return len(chunk)

    def receive(self) -> None:
        """Read what has arrived, unless another thread is at the socket, which reads it then."""
        if self.owner != getpid() or not self.lock.acquire(False):
            return
        try:
            for _ in range(_READS_AT_A_TIME):
                if self._read() < READ_BYTES:
                    return
        finally:
            self.lock.release()

    def drain(self) -> None:
        """Take what is left in the socket: closed with unread data, it would reset the host's."""
        try:
            while self.fd >= 0 and read(self.fd, READ_BYTES):
                pass
        except OSError:
            return

    def lines(self) -> list[bytes | bytearray | MemoryError]:
        """Take the lines that are complete; in place of one that memory cannot hold, its error.

        The error's argument is the beginning of the line. Called by one thread only.
        """
        found: list[bytes | bytearray | MemoryError] = []
        while self._chunks:
            first, *rest = self._chunks.popleft().split(b"\n")
            if not rest:
                self._hold(first)
                continue
            found.append(self._complete(first))
            found.extend(rest[:-1])
            self._hold(rest[-1])
        if self._short_of_memory:
            self._short_of_memory = False
            self._drop_held()
        return found

    def _hold(self, piece: bytes) -> None:
        """Keep the beginning of a line in one buffer.

        One that grows by large steps: when it cannot grow, there is memory left to say so. Small
        pieces would take all of it to the last.
        """
        if not self._lost:
            try:
                self._held += piece
            except MemoryError:
                self._drop_held()

    def _drop_held(self) -> None:
        """Give up the line that is being read, but for its beginning."""
        if len(self._held) > _HEAD_BYTES:
            self._held = self._held[:_HEAD_BYTES]
            self._lost = True

    def _complete(self, piece: bytes) -> bytes | bytearray | MemoryError:
        held, lost = self._held, self._lost
        if not held:
            return piece
        self._held, self._lost = bytearray(), False
        if not lost:
            try:
                held += piece
                return held
            except MemoryError:
                pass
        return MemoryError(bytes(held[:_HEAD_BYTES]))

    def take_logs_pipe(self) -> None:
        """Wait for the first bytes of the host, and use the pipe that may come with them."""
        poller = poll()
        poller.register(self.fd, POLLIN)
        poller.poll()
        with socket(fileno=dup(self.fd)) as ours:
            chunk, rights, *_ = ours.recvmsg(READ_BYTES, CMSG_LEN(_RIGHT_BYTES))
        if chunk:
            self._chunks.append(chunk)
        for level, kind, data in rights:
            if (level, kind, len(data)) == (SOL_SOCKET, SCM_RIGHTS, _RIGHT_BYTES):
                self.logs_fd = _moved(int.from_bytes(data, byteorder))
                set_blocking(self.logs_fd, False)

    def read_line(self) -> bytes | None:
        """Wait for one line of the handshake; None if the host has closed the socket."""
        poller = poll()
        poller.register(self.fd, POLLIN)
        while True:
            if self._chunks:
                first, end, rest = self._chunks.popleft().partition(b"\n")
                self._held += first
                if end:
                    if rest:
                        self._chunks.appendleft(rest)
                    line = bytes(self._held)
                    self._held = bytearray()
                    return line
            else:
                poller.poll()
                chunk = read(self.fd, READ_BYTES)
                if not chunk:
                    return None
                self._chunks.append(chunk)


def _moved(fd: int) -> int:
    """Move a descriptor to a high number, as far as the limit of descriptors allows."""
    for lowest in _PRIVATE_FDS:
        try:
            high = fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, lowest)
        except OSError:
            continue
        close(fd)
        return high
    raise OSError(f"Cannot move descriptor {fd}: no number above {_PRIVATE_FDS[-1]} is free")
