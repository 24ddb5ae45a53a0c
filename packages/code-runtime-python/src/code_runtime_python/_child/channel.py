"""The child's end of the fd-3 socket: whole frames out, bytes in, from any thread.

Frames are written at once and in full, before `send` returns, so that a kill loses nothing that was
sent. While a write waits for room, what the host sends is read: host and child never wait for each
other with both directions full.

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
from os import _exit, close, getpid, read, set_blocking, write
from select import POLLIN, POLLOUT, poll
from threading import RLock

from .wire import READ_BYTES

_PRIVATE_FDS = (200, 100, 40)  # above what programs count through, below the usual limits
_READS_AT_A_TIME = 16  # chunks that one callback of the loop takes in
_HEAD_BYTES = 200  # of a line that is lost, where its id is
_JOIN_BYTES = 65_536  # smaller frames are joined to one write


class Channel:
    """Sends frames and collects what the host sends.

    Args:
        fd: The socket. It is moved to a private descriptor, closed on exec, and `fd` is closed.
    """

    def __init__(self, fd: int) -> None:
        self.fd = _moved(fd)
        set_blocking(self.fd, False)
        self.owner = getpid()
        self.done = False  # whether the last frame was sent, or cannot be sent by this copy
        self.lock = RLock()
        self.on_input: Callable[[], object] | None = None
        self.on_leave: Callable[[], object] | None = None
        self._busy = False
        self._outbox: deque[tuple[bytes, deque[int]]] = deque()  # a piece, and counts of its bytes
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
        """Close the descriptor."""
        close(self.fd)
        self.fd = -1

    # Out

    def send(self, *parts: bytes, last: bool = False) -> None:
        """Write one frame, or several, given in pieces."""
        if self.owner != getpid():
            return
        with self.lock:
            if self.done:
                return
            if len(parts) > 1 and sum(map(len, parts)) <= _JOIN_BYTES:
                parts = (b"".join(parts),)
            self._outbox.extend([(part, deque()) for part in parts])
            self.done = last
            self.flush()

    def send_frame(self, frame: bytes) -> None:
        """Write one frame, by a thread that has the lock; `send` with less ado."""
        outbox = self._outbox
        if self._busy or outbox or self.done:
            self.send(frame)
            return
        counts: deque[int] = deque()
        outbox.append((frame, counts))
        try:
            self._busy = True
            counts.extend(map(write, (self.fd,), (frame,)))  # as in `_write`
            if counts[0] == len(frame):
                outbox.popleft()
        except BlockingIOError:
            pass
        except OSError:
            _exit(1)
        finally:
            self._busy = False
        if outbox:
            self.flush()

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

    def _write(self, piece: bytes, counts: deque[int]) -> None:
        """Write what is left of the first piece, as far as there is room."""
        start = sum(counts)
        try:
            # In one C loop: a signal handler that raises right after the write cannot lose the
            # count, which would tear the frame.
            counts.extend(map(write, (self.fd,), (memoryview(piece)[start:] if start else piece,)))
        except BlockingIOError:
            self._wait()
            return
        except OSError:  # the host is gone, and with it everyone who would hear of it
            _exit(1)
        if sum(counts) >= len(piece):
            self._outbox.popleft()

    def _wait(self) -> None:
        """Wait for room; meanwhile take in what the host sends."""
        poller = poll()
        poller.register(self.fd, POLLOUT | POLLIN)
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
        except BlockingIOError:
            return 0
        except MemoryError:
            self._short_of_memory = True
            return 0
        except OSError:
            _exit(1)
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
