"""The floor of the Python provider: bare forks of one process, the next one always waiting."""

from __future__ import annotations

import asyncio
import os
import socket
import sys
from pathlib import Path

from ..drivers.serving import Outcome
from ..peers.asyncio_serving import Bindings, serve
from .wire import Lines, Talk


class Floor:
    """One zygote, and one fork of it that waits for its program."""

    def __init__(self, bindings: Bindings) -> None:
        self._bindings = bindings
        self._zygote, theirs = socket.socketpair()
        script = str(Path(__file__).with_name("zygote.py"))
        os.posix_spawn(
            sys.executable,
            [sys.executable, "-I", script],
            dict(os.environ),
            file_actions=[(os.POSIX_SPAWN_DUP2, theirs.fileno(), 3)],
        )
        theirs.close()
        self._spare = self._fork()

    def about(self) -> dict[str, object]:
        """Name it."""
        return {
            "name": "floor",
            "version": "of this checkout",
            "isolation": "a bare fork of a Python process",
            "lacks": {},
        }

    async def run(self, program: str) -> Outcome:
        """Run one program in the fork that waits; return when its process is gone."""
        sock, gone = self._spare
        self._spare = self._fork()
        outcome = await Talk(sock, self._bindings.functions(), None).run(program)
        await Lines(gone.recv, gone.fileno()).next()
        sock.close()
        gone.close()
        return outcome

    def _fork(self) -> tuple[socket.socket, socket.socket]:
        """Ask for a fork; return its socket, and one that tells its end."""
        ours, theirs = socket.socketpair()
        gone, teller = socket.socketpair()
        ours.setblocking(False)
        gone.setblocking(False)
        socket.send_fds(self._zygote, [b"f"], [theirs.fileno(), teller.fileno()])
        theirs.close()
        teller.close()
        return ours, gone


if __name__ == "__main__":
    asyncio.run(serve(Floor))
