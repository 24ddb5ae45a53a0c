"""The driver of mini-racer: a fresh V8 isolate for each run, values as JSON text."""

from __future__ import annotations

import asyncio
import json
from importlib import import_module
from importlib.metadata import version
from typing import Any

from .asyncio_serving import Bindings, Outcome, serve

py_mini_racer = import_module("py_mini_racer")

PRELUDE = """
globalThis.tools = {};
for (const name of ["echo", "make", "take", "hold"]) {
  tools[name] = async (value) => JSON.parse(await call(name, JSON.stringify(value)));
}
const logs = [];
globalThis.console = { log: (...words) => void logs.push(words.join(" ")) };
globalThis.performance = { now: () => Date.now() };
"""
COARSE = "its clock counts whole milliseconds"


class MiniRacer:
    """Isolates in the host's own process."""

    def __init__(self, bindings: Bindings) -> None:
        self._functions = bindings.functions()

    def about(self) -> dict[str, object]:
        """Name it."""
        return {
            "name": "mini-racer",
            "version": version("mini-racer"),
            "isolation": "a fresh V8 isolate in the host's own process",
            "lacks": dict.fromkeys(("call_least", "call_p50", "call_p95"), COARSE),
        }

    async def run(self, program: str) -> Outcome:
        """Run one program in an isolate of its own; its logs come back with its value."""

        async def call(name: str, text: str) -> str:
            return json.dumps(await self._functions[name](json.loads(text)))

        racer: Any = py_mini_racer.MiniRacer()
        try:
            async with racer.wrap_py_function(call) as function:
                source = f"""(call) => {{{PRELUDE}
return (async () => {{{program}
}})().then((value) => JSON.stringify([value ?? null, logs]));
}}"""
                start = racer.eval(source)
                text = await start(function)
            value, logs = json.loads(text)
            return Outcome(value, logs)
        finally:
            racer.close()


if __name__ == "__main__":
    asyncio.run(serve(MiniRacer))
