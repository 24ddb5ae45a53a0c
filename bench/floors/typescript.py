"""The floor of the worker-thread provider: bare Node processes, an empty worker in each."""

from __future__ import annotations

import asyncio
import os
import socket
import sys
import tempfile
from pathlib import Path

from ..drivers.serving import Outcome
from ..peers.asyncio_serving import Bindings, serve
from .wire import Lines, Talk, line_of, readable

SPARE_COUNT = 2


class NodeProcess:
    """A Node process with an empty worker that is connected and waits."""

    def __init__(self, folder: str, number: int) -> None:
        self._path = f"{folder}/{number}"
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listener.setblocking(False)
        self._listener.bind(self._path)
        self._listener.listen()
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        self._control = ours
        self._notes = Lines(ours.recv, ours.fileno())
        self._spawned = os.posix_spawn(
            sys.argv[1],
            [sys.argv[1], str(Path(__file__).with_name("host.mjs")), self._path],
            dict(os.environ),
            file_actions=[(os.POSIX_SPAWN_DUP2, theirs.fileno(), 3)],
        )
        theirs.close()

    async def boot(self) -> None:
        """Wait for a new worker."""
        os.mkfifo(f"{self._path}-logs")
        self._logs_fd = os.open(f"{self._path}-logs", os.O_RDONLY | os.O_NONBLOCK)
        self._control.send(line_of("boot"))
        await readable(self._listener.fileno())
        self._socket = self._listener.accept()[0]
        self._socket.setblocking(False)
        os.unlink(f"{self._path}-logs")

    async def run(self, program: str, bindings: Bindings) -> Outcome:
        """Run a program in the worker, and end it."""
        outcome = await Talk(self._socket, bindings.functions(), self._logs_fd).run(program)
        self._control.send(line_of("end"))
        await self._notes.next()
        self._socket.close()
        os.close(self._logs_fd)
        return outcome


class Floor:
    """As many processes as runs have needed at once, and two more."""

    def __init__(self, bindings: Bindings) -> None:
        self._bindings = bindings
        self._folder = tempfile.TemporaryDirectory(prefix="floor-")
        self._free: asyncio.Queue[NodeProcess] = asyncio.Queue()
        self._made_count = 0
        self._running_count = 0
        self._boots: set[asyncio.Task[None]] = set()

    def about(self) -> dict[str, object]:
        """Name it."""
        return {
            "name": "floor",
            "version": "of this checkout",
            "isolation": "a fresh worker thread in a bare Node process",
            "lacks": {},
        }

    async def run(self, program: str) -> Outcome:
        """Run one program in the next worker that is ready."""
        self._running_count += 1
        while self._made_count < self._running_count + SPARE_COUNT:
            self._made_count += 1
            self._boot(NodeProcess(self._folder.name, self._made_count))
        process = await self._free.get()
        try:
            return await process.run(program, self._bindings)
        finally:
            self._running_count -= 1
            self._boot(process)

    def _boot(self, process: NodeProcess) -> None:
        async def boot() -> None:
            await process.boot()
            self._free.put_nowait(process)

        task = asyncio.ensure_future(boot())
        self._boots.add(task)
        task.add_done_callback(self._boots.discard)


if __name__ == "__main__":
    asyncio.run(serve(Floor))
