"""The driver of pydantic-monty: a session of a pooled worker process for each run."""

from __future__ import annotations

import asyncio
from importlib import import_module
from importlib.metadata import version

from .asyncio_serving import Bindings, Outcome, serve, wrap_python

monty = import_module("pydantic_monty")


class Monty:
    """A pool of workers; each is its process for one session at a time."""

    def __init__(self, pool: object, bindings: Bindings) -> None:
        self._pool: object = pool
        self._modules = {"tools": monty.ExternalModule(dict(bindings.functions()))}

    def about(self) -> dict[str, object]:
        """Name it."""
        return {
            "name": "pydantic-monty",
            "version": version("pydantic-monty"),
            "isolation": "a fresh interpreter of a Python subset, in a pooled worker process",
            "lacks": {},
        }

    async def run(self, program: str) -> Outcome:
        """Run one program in a session of its own."""
        prints = monty.CollectString(None)
        source = "import tools\n" + wrap_python(program) + "await __main()"
        session = self._pool.checkout(external_modules=self._modules)  # type: ignore[attr-defined]
        async with session as repl:
            value = await repl.feed_run(source, print_callback=prints)
        return Outcome(value, prints.output.splitlines())


async def main() -> None:
    """Open a pool and answer requests."""
    async with monty.AsyncMonty(max_processes=64) as pool:
        await serve(lambda bindings: Monty(pool, bindings))


if __name__ == "__main__":
    asyncio.run(main())
