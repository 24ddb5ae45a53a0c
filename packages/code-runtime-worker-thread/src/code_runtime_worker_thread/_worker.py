"""One worker of a Node host: how it connects, what is known of it, how it ended."""

from __future__ import annotations

import json
import os
import secrets
import socket
import struct
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, final

import anyio

from code_runtime._execution._channel import StreamChannel

from . import _frames as frames
from ._frames import MAX_BODY_BYTES, FrameReader, Message
from ._log_pipe import NamedLogPipe

MAX_DETAIL_BYTES: Final = 1_048_576
# What a LOG frame has around its text, with room to spare.
LOG_HEAD_BYTES: Final = 64
# What the main thread tells as the error of a worker whose heap is full.
OUT_OF_HEAP: Final = "ERR_WORKER_OUT_OF_MEMORY"
_CREDENTIALS: Final = struct.Struct("3i")

FrameChannel = StreamChannel[Message]


@dataclass(frozen=True, slots=True)
class WorkerExit:
    """How a worker ended, as the main thread tells it (untrusted)."""

    exit_code: int
    error: str | None
    changed: str | None


@final
class Worker:
    """A worker from its SPAWN to its end; a Node host has one after another.

    `gone` is set when the main thread has told the end, `closed` when the worker's socket has been
    read to its end; both mean that nothing more comes.

    Args:
        max_log_bytes: The most that an entry takes as JSON.
    """

    def __init__(self, max_log_bytes: int) -> None:
        self.nonce = secrets.token_bytes(16)
        self.ready = anyio.Event()
        self.gone = anyio.Event()
        self.closed = anyio.Event()
        self.exit: WorkerExit | None = None
        self._reader = FrameReader()
        self._log_reader = FrameReader(min(max_log_bytes + LOG_HEAD_BYTES, MAX_BODY_BYTES))
        self._channel: FrameChannel | None = None
        self.logs: NamedLogPipe | None = None

    @property
    def channel(self) -> FrameChannel:
        """The worker's socket; it exists once the worker has connected."""
        assert self._channel is not None
        return self._channel

    @property
    def is_connected(self) -> bool:
        """Whether the worker has connected."""
        return self._channel is not None

    @property
    def is_out_of_heap(self) -> bool:
        """Whether the worker ended because its heap was full."""
        return self.exit is not None and self.exit.error == OUT_OF_HEAP

    def greet(self, message: Message) -> bool:
        """Take the first frame of the worker; return whether it is the right one."""
        if message != (frames.HELLO, (frames.PROTOCOL_VERSION, self.nonce)):
            return False
        if self.logs is not None:
            self.logs.hide()
        self.ready.set()
        return True

    def tell_exit(self, detail: bytes) -> None:
        """Take what the main thread says of the end."""
        self.exit = _worker_exit(detail)
        self.gone.set()

    async def accept(self, listener: socket.socket, pid: int) -> None:
        """Wait for the connection of the process `pid`; turn others away."""
        connection = await _accept(listener, pid)
        self._channel = StreamChannel(connection, self._reader.feed)

    def join_logs(self) -> None:
        """Let LOG frames come many in one message: nobody looks at them one by one."""
        self._reader.joins_logs = self._log_reader.joins_logs = True

    def open_logs(
        self, folder: str, handle: Callable[[Message], None], refuse: Callable[[str], None]
    ) -> bytes:
        """Make the pipe for LOG frames; return its path, empty if they come by the socket.

        Args:
            folder: Where the pipe has a name until the worker is ready; mode 0700.
            handle: Called with each message that comes through it.
            refuse: Told what is wrong with what comes through it.
        """
        try:
            self.logs = NamedLogPipe(folder, self._log_reader, handle, refuse)
        except OSError:
            return b""  # not every file system has named pipes
        return os.fsencode(self.logs.path)

    def close(self) -> None:
        """Close socket and pipe; nothing may be reading from them."""
        if self.logs is not None:
            self.logs.close()
            self.logs = None
        if self._channel is not None:
            self._channel.close()
            self._channel = None


def listen(folder: str) -> tuple[socket.socket, bytes]:
    """Open a listener for one worker; return it and its address.

    Args:
        folder: For a socket file where there are no abstract names; mode 0700.

    Raises:
        OSError: no descriptor is free.
    """
    token = secrets.token_hex(16)
    if hasattr(socket, "SO_PEERCRED"):
        address = b"\0code-runtime-" + token.encode()
    else:
        # No abstract names and no credentials: a socket file in a 0700 folder and the nonce.
        address = os.fsencode(os.path.join(folder, token[:12]))
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        listener.setblocking(False)
        listener.bind(address)
        listener.listen(4096)  # strangers may crowd in; each is turned away
    except OSError:
        listener.close()
        raise
    return listener, address


async def _accept(listener: socket.socket, pid: int) -> socket.socket:
    """Return the first connection of the process `pid`; drop those of others."""
    while True:
        try:
            connection, _ = listener.accept()
        except BlockingIOError:
            await anyio.wait_readable(listener)
            continue
        if not hasattr(socket, "SO_PEERCRED"):
            return connection
        raw = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
        if _CREDENTIALS.unpack(raw)[0] == pid:
            return connection
        connection.close()


def _worker_exit(detail: bytes) -> WorkerExit:
    """Rebuild the detail of a GONE frame field by field."""
    content: object = None
    if len(detail) <= MAX_DETAIL_BYTES:
        with suppress(ValueError, RecursionError):
            content = json.loads(detail)
    fields = content if isinstance(content, dict) else {}
    code, error, changed = (fields.get(name) for name in ("exitCode", "error", "changed"))
    return WorkerExit(
        exit_code=code if type(code) is int and abs(code) < 2**53 else -1,
        error=error if isinstance(error, str) else None,
        changed=changed[:200] if isinstance(changed, str) else None,
    )
