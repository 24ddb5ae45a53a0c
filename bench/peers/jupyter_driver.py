"""The driver of jupyter_client: one IPython kernel that serves all runs."""

from __future__ import annotations

import ast
import asyncio
import json
from importlib import import_module
from importlib.metadata import version
from typing import Any

from .asyncio_serving import Outcome, serve, wrap_python

manager = import_module("jupyter_client.manager")

NO_CALLS = "a kernel cannot call a function of its host"
FIGURES = (
    "call_least call_p50 call_p95 call_mean calls_2000 calls_5000 value_in value_in_out "
    "memory_idle memory_load objects_10 objects_1000000 growth_objects"
)


class Kernel:
    """One kernel: state of a run is there in the next."""

    def __init__(self, client: Any) -> None:
        self._client = client
        self._turn = asyncio.Lock()

    def about(self) -> dict[str, object]:
        """Name it."""
        return {
            "name": "jupyter_client",
            "version": f"{version('jupyter_client')} with ipykernel {version('ipykernel')}",
            "isolation": "nothing between runs: one kernel process serves them in turn",
            "lacks": dict.fromkeys(FIGURES.split(), NO_CALLS),
        }

    async def run(self, program: str) -> Outcome:
        """Execute one program and read back its value as JSON."""
        chunks: list[str] = []

        def output(message: dict[str, Any]) -> None:
            if message["msg_type"] == "stream":
                chunks.append(message["content"]["text"])

        async with self._turn:
            reply = await self._client.execute_interactive(
                "import json\n" + wrap_python(program) + "__value = await __main()",
                store_history=False,
                output_hook=output,
                user_expressions={"value": "json.dumps(__value)"},
            )
        content = reply["content"]
        if content["status"] != "ok":
            raise RuntimeError(f"{content['ename']}: {content['evalue']}")
        text = ast.literal_eval(content["user_expressions"]["value"]["data"]["text/plain"])
        return Outcome(json.loads(text), "".join(chunks).splitlines())


async def main() -> None:
    """Start the kernel and answer requests."""
    kernel, client = await manager.start_new_async_kernel()
    try:
        await serve(lambda _bindings: Kernel(client))
    finally:
        client.stop_channels()
        await kernel.shutdown_kernel(now=True)


if __name__ == "__main__":
    asyncio.run(main())
