"""A bare zygote, and the program in its fork. Standard library only; runs as a script."""

from __future__ import annotations

import asyncio
import gc
import json
import os
import select
import socket
import sys
import textwrap
from typing import Any, NoReturn


class Program:
    """The fork: one program, its calls and its lines over one socket."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._calls: dict[int, asyncio.Future[Any]] = {}
        self._last = 0
        self._parts: list[bytes] = []
        self._pieces: list[str] = []

    def send(self, message: object) -> None:
        """Write one message."""
        data = memoryview(json.dumps(message).encode() + b"\n")
        while data:
            try:
                data = data[os.write(self._fd, data) :]
            except BlockingIOError:
                select.select([], [self._fd], [])

    def write(self, text: str) -> None:
        """Take what `print` writes."""
        if text == "\n":
            line = b'"%b"\n' % "".join(self._pieces).encode()
            self._pieces.clear()
            try:
                os.write(self._fd, line)
            except BlockingIOError:
                select.select([], [self._fd], [])
                os.write(self._fd, line)
        else:
            self._pieces.append(text)

    def flush(self) -> None:
        """Nothing is held."""

    def call(self, name: str, value: object) -> asyncio.Future[Any]:
        """Ask the host."""
        self._last += 1
        future = self._calls[self._last] = asyncio.get_running_loop().create_future()
        self.send([self._last, name, value])
        return future

    def receive(self) -> None:
        """Take replies."""
        chunk = os.read(self._fd, 1 << 20)
        if not chunk:
            os._exit(0)
        *lines, rest = chunk.split(b"\n")
        if lines:
            lines[0] = b"".join((*self._parts, lines[0]))
            self._parts.clear()
        self._parts.append(rest)
        for line in lines:
            call, value = json.loads(line)
            self._calls.pop(call).set_result(value)

    async def run(self) -> None:
        """Wait for the program, and run it."""
        text = b""
        while not text.endswith(b"\n"):
            part = os.read(self._fd, 1 << 16)
            if not part:
                os._exit(0)  # the host is gone
            text += part
        os.set_blocking(self._fd, False)
        asyncio.get_running_loop().add_reader(self._fd, self.receive)
        names: dict[str, Any] = {"tools": _Tools(self)}
        body = textwrap.indent(json.loads(text), "    ")
        exec(f"async def main():\n{body}", names)
        self.send([await names["main"]()])


class _Tools:
    def __init__(self, program: Program) -> None:
        for name in ("echo", "make", "take", "hold"):
            setattr(self, name, lambda value, name=name: program.call(name, value))


def be_program(fd: int, teller: int) -> NoReturn:
    """Run one program, and end."""
    program = Program(fd)
    sys.stdout = program
    asyncio.run(program.run())
    os._exit(0)


def main() -> None:
    """Fork for each request; tell each end."""
    gc.freeze()
    gc.disable()
    requests = socket.socket(fileno=3)
    tellers: dict[int, tuple[int, int]] = {}
    poller = select.poll()
    poller.register(requests, select.POLLIN)
    while True:
        for ready, _ in poller.poll():
            if ready in tellers:
                pid, teller = tellers.pop(ready)
                poller.unregister(ready)
                os.close(ready)
                os.waitpid(pid, 0)
                os.write(teller, b"1\n")
                os.close(teller)
                continue
            data, fds, _, _ = socket.recv_fds(requests, 1, 2)
            if not data:
                return
            pid = os.fork()
            if pid == 0:
                be_program(*fds)
            os.close(fds[0])
            pidfd = os.pidfd_open(pid)
            tellers[pidfd] = (pid, fds[1])
            poller.register(pidfd, select.POLLIN)


if __name__ == "__main__":
    main()
