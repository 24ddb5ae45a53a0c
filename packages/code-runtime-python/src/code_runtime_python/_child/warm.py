"""Goes once through what a run goes through, while nobody waits for it.

A child may wait for its boot frame as a spare. In a forked one the first write to each page of
memory costs a copy of that page, and in any process the first pass through code is the slow one;
so both are done before, the second in the zygote already.

Standard library only, CPython 3.10 or later.
"""

from __future__ import annotations

from asyncio import AbstractEventLoop
from collections.abc import Awaitable
from types import ModuleType

from .bindings import Calls, build_namespaces
from .channel import Channel
from .inbound import read_boot, read_reply, read_run
from .ledger import LogLedger
from .lossless import encode, encode_within
from .program import compile_program

_BOOT = (
    b'{"type":"boot","cpuSeconds":1,"addressSpaceBytes":1,"maxLogBytes":99,"maxValueBytes":1,'
    b'"namespaces":[{"global":"a","names":["b"],"errorClass":{"name":"C","memberNameProperty":"d"}}]}'
)
_RUN = b'{"type":"run","program":"a\\n\\"b\\""}'
_REPLY = b'{"type":"reply","id":0,"ok":true,"value":{"a":[1,1.5,"b",null]}}'
_PROGRAM = """
import sys
def f(x: int):
    if x: return [i for i in range(x) if i] + [f"{x}"]
class C: pass
for b in 1, 2: a = {"b": f(b)}
try: a["c"]
except KeyError as e: pass
return a
"""


def warm_up(channel: Channel, loop: AbstractEventLoop) -> None:
    """Exercise the parts of a run; sends nothing and leaves nothing."""
    # The first use of a codec imports it, which a program could prevent.
    for codec in ("utf-16-le", "utf-8"):
        "\ud800".encode(codec, "surrogatepass").decode(codec, "surrogatepass")
    boot = read_boot(_BOOT)
    build_namespaces(Calls(channel, loop, {}), boot["namespaces"])
    LogLedger(boot["maxLogBytes"]).frame("x", continued=False, is_open=False)
    program = compile_program(_PROGRAM, ModuleType("__main__"))
    loop.run_until_complete(loop.create_task(_spell(program())))
    read_run(_RUN)
    read_reply(_REPLY)


async def _spell(program: Awaitable[tuple[object] | None]) -> None:
    outcome = await program
    value = outcome and outcome[0]
    encode(value)
    encode_within(value, 1_000)
