"""The smallest host: one function, one TypeScript program."""

import anyio

from code_runtime import CodeBindingNamespace, CodeRunRequest, Context
from code_runtime_worker_thread import WorkerThreadCodeRuntime

PRICES = {"apples": 1.2, "pears": 2.5}
PROGRAM = """
const cost: number[] = await Promise.all(["apples", "pears"].map((item) => shop.price(item)));
console.log("prices", cost);
return 3 * cost[0] + 2 * cost[1];
"""


async def main() -> None:
    """Run the program and print what it printed and returned."""
    async with Context() as ctx:
        await ctx.plugin(WorkerThreadCodeRuntime)
        shop = CodeBindingNamespace("shop", {"price": PRICES.__getitem__})
        result = await ctx.codeRuntime.run(CodeRunRequest(PROGRAM, [shop]))
        print(result.logs, result.value, result.error)


anyio.run(main)
