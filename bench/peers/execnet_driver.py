"""The driver of execnet: a fresh interpreter process for each run, values by its own serializer."""

from __future__ import annotations

import asyncio
import sys
from importlib import import_module
from importlib.metadata import version
from typing import Any

from .asyncio_serving import Bindings, Outcome, serve, wrap_python

execnet = import_module("execnet")

# A call waits for its answer: the channel has one reader.
PRELUDE = """
import asyncio

class tools:
    pass

def _offer(name):
    async def call(value):
        channel.send(("call", name, value))
        return channel.receive()
    setattr(tools, name, call)

for _name in ("echo", "make", "take", "hold"):
    _offer(_name)

def print(*words):
    channel.send(("log", " ".join(map(str, words))))

"""
CODA = """
channel.send(("done", asyncio.run(__main())))
"""


class Execnet:
    """A gateway to a process of its own for each run."""

    def __init__(self, bindings: Bindings) -> None:
        self._functions = bindings.functions()

    def about(self) -> dict[str, object]:
        """Name it."""
        return {
            "name": "execnet",
            "version": version("execnet"),
            "isolation": "a fresh CPython process, one gateway a run",
            "lacks": {},
        }

    async def run(self, program: str) -> Outcome:
        """Run one program behind a gateway of its own."""
        loop = asyncio.get_running_loop()
        messages: asyncio.Queue[Any] = asyncio.Queue()
        gateway = await asyncio.to_thread(execnet.makegateway, f"popen//python={sys.executable}")
        try:
            channel = gateway.remote_exec(PRELUDE + wrap_python(program) + CODA)
            channel.setcallback(
                lambda message: loop.call_soon_threadsafe(messages.put_nowait, message),
                endmarker=("end",),
            )
            return await self._talk(channel, messages)
        finally:
            await asyncio.to_thread(gateway.exit)

    async def _talk(self, channel: Any, messages: asyncio.Queue[Any]) -> Outcome:
        logs: list[str] = []
        while True:
            message = await messages.get()
            match message[0]:
                case "log":
                    logs.append(message[1])
                case "call":
                    channel.send(await self._functions[message[1]](message[2]))
                case "done":
                    return Outcome(message[1], logs)
                case _:
                    channel.waitclose(1)
                    raise RuntimeError("Cannot run the program: the channel has closed")


if __name__ == "__main__":
    asyncio.run(serve(Execnet))
