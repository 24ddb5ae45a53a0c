"""Programs that are forked from a zygote with the stand-in for a child in the core's tests."""

from __future__ import annotations

import os
import socket
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import anyio

from code_runtime._guarded import GuardedProcess, Warden, Zygote

CHILD = str(Path(__file__).parents[2] / "packages" / "code-runtime" / "tests" / "zygote_child")
ZYGOTE = Zygote(CHILD, "_fixture.main:serve")
SAY = "import os, sys, time, signal\ndef say(text): os.write(1, (text + '\\n').encode())\n"


class Program:
    """One program under test, with its output."""

    def __init__(self, process: GuardedProcess, output: int, control: socket.socket) -> None:
        self.process = process
        self.output = output
        self.control = control
        self.seen = b""

    async def line(self) -> str:
        with anyio.fail_after(20):
            while b"\n" not in self.seen:
                await anyio.wait_readable(self.output)
                data = os.read(self.output, 65536)
                assert data, f"output ended after {self.seen!r}"
                self.seen += data
        line, self.seen = self.seen.split(b"\n", 1)
        return line.decode()

    async def rest(self) -> str:
        """Read until nobody can write any more."""
        with anyio.fail_after(20):
            while True:
                await anyio.wait_readable(self.output)
                data = os.read(self.output, 65536)
                if not data:
                    return self.seen.decode()
                self.seen += data


@asynccontextmanager
async def forked(
    warden: Warden,
    code: str | None,
    *,
    env: Mapping[str, str] | None = None,
    cwd: str = "/",
    rlimits: Mapping[int, tuple[int, int]] | None = None,
) -> AsyncIterator[Program]:
    reader, writer = os.pipe()
    ours, theirs = socket.socketpair()
    try:
        try:
            process = await warden.fork(
                env=env or {},
                cwd=cwd,
                stdout_fd=writer,
                stderr_fd=writer,
                control_fd=theirs.fileno(),
                rlimits=rlimits,
            )
        finally:
            os.close(writer)
            theirs.close()
        try:
            if code is not None:
                ours.sendall((SAY + code).encode() + b"\0")
            yield Program(process, reader, ours)
        finally:
            await process.kill()
    finally:
        os.close(reader)
        ours.close()


async def until(condition: Callable[[], bool], *, within_s: float = 10) -> None:
    with anyio.fail_after(within_s):
        while not condition():  # noqa: ASYNC110 - another process's state has no event
            await anyio.sleep(0.01)


def descriptors() -> dict[str, str]:
    """What this process has open."""
    folder = "/proc/self/fd"
    links = {name: link(f"{folder}/{name}") for name in os.listdir(folder)}
    return {name: text for name, text in links.items() if text}


def link(path: str) -> str:
    """Read a link; empty when it is gone."""
    try:
        return os.readlink(path)
    except OSError:
        return ""
