"""A whole agent: a model that is shown `run_code`, a loop that does what it asks for.

    python examples/agent_loop.py

The model here is a script, so that the example needs no network. A real one takes its place in
`ScriptedModel.respond`: the messages and tools have the form of OpenAI's Responses API.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

import anyio

from code_mode import ToolRegistry, as_openai_tools, tool
from code_runtime import Context
from code_runtime_worker_thread import WorkerThreadCodeRuntime

STOCK = {"apples": 12, "pears": 0, "plums": 7}
PRICES = {"apples": 1.2, "pears": 2.5, "plums": 0.4}
ORDERS: list[str] = []


@tool(parallel=True)
async def stock(item: str) -> int:
    """Say how many pieces of an item are left."""
    return STOCK[item]


@tool(parallel=True)
async def price(item: str) -> float:
    """Say what a piece of an item costs, in euros."""
    return PRICES[item]


@tool
async def order(item: str, count: int) -> str:
    """Order pieces of an item; gives the number of the order."""
    ORDERS.append(f"{count} {item}")
    return f"order {len(ORDERS)}"


class ScriptedModel:
    """Answers as a model might: a program with a slip, the mended program, and a summary."""

    def __init__(self) -> None:
        self._answers = self._script()

    def respond(
        self, messages: list[dict[str, object]], tools: list[dict[str, object]]
    ) -> dict[str, object]:
        """Give the next item of output for the conversation so far."""
        return next(self._answers)

    def _script(self) -> Iterator[dict[str, object]]:
        slip = """
const items = ["apples", "pears", "plums"];
const left = await Promise.all(items.map((item) => tools.stock({ item })));
const empty = items.filter((_, index) => left[index] < 5);
for (const item of empty) console.log(item, await tools.order({ item, count: "10" }));
"""
        yield _call("call_1", slip, "Orders what is running out")
        yield _call("call_2", slip.replace('"10"', "10"), "Orders what is running out")
        yield {"type": "message", "content": "Pears had run out; I ordered 10."}


def _call(call_id: str, code: str, description: str) -> dict[str, object]:
    arguments = json.dumps({"code": code, "description": description})
    return {
        "type": "function_call",
        "call_id": call_id,
        "name": "run_code",
        "arguments": arguments,
    }


async def main() -> None:
    """Run the loop until the model has no more to ask for."""
    model = ScriptedModel()
    async with Context() as ctx:
        await ctx.plugin(WorkerThreadCodeRuntime)
        await ctx.plugin(ToolRegistry, {"tools": [stock, price, order]})
        tools = ToolRegistry.of(ctx)
        messages: list[dict[str, object]] = [
            {"role": "system", "content": tools.sdk_text()},
            {"role": "user", "content": "Order ten of everything that is running out."},
        ]
        while True:
            output = model.respond(messages, as_openai_tools(tools.wire_tools()))
            messages.append(output)
            if output["type"] == "message":
                print("model:", output["content"])
                break
            arguments = json.loads(str(output["arguments"]))
            print("run_code:", arguments["description"])
            result = await tools.call(
                str(output["name"]),
                arguments,
                call_id=str(output["call_id"]),
                on_log=lambda line: print("  live:", line),
            )
            print("\n".join(f"  {line}" for line in result.text.splitlines()))
            messages.append(
                {
                    "type": "function_call_output",
                    "call_id": output["call_id"],
                    "output": result.text,
                }
            )
    print("orders:", ORDERS)


anyio.run(main)
