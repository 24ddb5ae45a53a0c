"""JSON lines between a floor and its programs: the same for both languages."""

from __future__ import annotations

import asyncio
import json
import os
import socket
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from ..drivers.serving import Outcome

Functions = Mapping[str, Callable[[object], Awaitable[object]]]

_CHUNK_BYTES = 1 << 20
_spell = json.JSONEncoder(ensure_ascii=False, check_circular=False, separators=(",", ":")).encode


def line_of(message: object) -> bytes:
    """Encode a message."""
    return _spell(message).encode() + b"\n"


class Lines:
    """Messages of a non-blocking stream, whoever writes it."""

    def __init__(self, read: Callable[[int], bytes], fd: int) -> None:
        self._read = read
        self._fd = fd
        self._parts: list[bytes] = []

    def take(self) -> list[Any] | None:
        """Read what has arrived; None at the end of the stream."""
        try:
            chunk = self._read(_CHUNK_BYTES)
        except BlockingIOError:
            return []
        if not chunk:
            return None
        *lines, rest = chunk.split(b"\n")
        if lines:
            lines[0] = b"".join((*self._parts, lines[0]))
            self._parts.clear()
        self._parts.append(rest)
        return json.loads(b"[%b]" % b",".join(lines)) if lines else []

    async def next(self) -> Any:
        """Wait for one message, of a stream that brings one at a time."""
        while not (messages := self.take()):
            if messages is None:
                raise EOFError
            await readable(self._fd)
        return messages[0]


async def readable(fd: int) -> None:
    """Wait until there is something to read."""
    loop = asyncio.get_running_loop()
    ready = loop.create_future()

    def wake() -> None:
        if not ready.done():
            ready.set_result(None)

    loop.add_reader(fd, wake)
    try:
        await ready
    finally:
        loop.remove_reader(fd)


class Talk:
    """One run, from its program to its value: logs are kept, calls answered."""

    def __init__(self, sock: socket.socket, functions: Functions, logs_fd: int | None) -> None:
        self._socket = sock
        self._functions = functions
        self._sources = [Lines(sock.recv, sock.fileno())]
        self._fds = [sock.fileno()]
        if logs_fd is not None:
            self._sources.append(Lines(lambda size: os.read(logs_fd, size), logs_fd))
            self._fds.append(logs_fd)
        self._logs: list[str] = []
        self._over: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        self._tasks: set[asyncio.Task[None]] = set()
        self._unsent = b""

    async def run(self, program: str) -> Outcome:
        """Send the program and return what it gives."""
        loop = asyncio.get_running_loop()
        self._send(line_of(program))
        for fd in self._fds:
            loop.add_reader(fd, self._receive)
        try:
            return await self._over
        finally:
            for fd in self._fds:
                loop.remove_reader(fd)

    def _receive(self) -> None:
        replies: list[bytes] = []
        # Lines that were written before a message are read after it, and are handled before.
        taken = [source.take() or [] for source in self._sources]
        for messages in reversed(taken):
            for message in messages:
                if type(message) is str:
                    self._logs.append(message)
                elif len(message) == 1:
                    self._over.set_result(Outcome(message[0], self._logs))
                else:
                    call, name, value = message
                    self._answer(call, name, value, replies)
        self._send(b"".join(replies))

    def _answer(self, call: int, name: str, value: object, replies: list[bytes]) -> None:
        pending = self._functions[name](value)
        try:
            pending.send(None)  # type: ignore[attr-defined]  # a coroutine
        except StopIteration as done:
            replies.append(line_of([call, done.value]))
        else:
            pending.close()  # type: ignore[attr-defined]
            task = asyncio.ensure_future(self._wait(call, name, value))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _wait(self, call: int, name: str, value: object) -> None:
        self._send(line_of([call, await self._functions[name](value)]))

    def _send(self, data: bytes) -> None:
        self._unsent += data
        if self._unsent and len(self._unsent) == len(data):
            self._write()

    def _write(self) -> None:
        loop = asyncio.get_running_loop()
        view = memoryview(self._unsent)
        while view:
            try:
                view = view[self._socket.send(view) :]
            except BlockingIOError:
                loop.add_writer(self._socket, self._write)
                self._unsent = bytes(view)
                return
        loop.remove_writer(self._socket)
        self._unsent = b""
