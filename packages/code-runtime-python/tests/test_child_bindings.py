"""The host's functions as a program calls them."""

from __future__ import annotations

import json
import sys

import pytest
from fd3_host import MIB, Rejection, interpreters, run_program, start_child

linux_only = pytest.mark.skipif(
    sys.platform != "linux", reason="RLIMIT_AS is not applied elsewhere"
)
INTERPRETERS = [pytest.param(path, id=path.split("/")[-3]) for path in interpreters()]
TOOLS = [{"global": "tools", "names": ["echo", "other"]}]


def echo(args: object) -> object:
    return args


def refuse(args: object) -> object:
    raise Rejection(f"refused {args!r}")


def calls(outcome: object) -> list[tuple[int, object]]:
    return [(f["id"], f["args"]) for f in outcome.frames if f["type"] == "call"]  # type: ignore[attr-defined]


@pytest.mark.parametrize("python", INTERPRETERS)
def test_call_in_every_way_that_asyncio_knows(python: str) -> None:
    """PY-176, PY-179, PY-201."""
    program = """
import asyncio, inspect
call = tools.echo(1)
assert asyncio.iscoroutine(call) and inspect.isawaitable(call)
results = [await call, await tools["echo"](2), await tools.echo(args=3)]
results += await asyncio.gather(tools.echo(4), asyncio.create_task(tools.echo(5)), *map(tools.echo, [6, 7]))
results.append(await asyncio.wait_for(tools.echo(8), 5))
results.append(await asyncio.shield(tools.echo(9)))
results += [await item for item in asyncio.as_completed([tools.echo(10)])]
done, _ = await asyncio.wait([asyncio.ensure_future(tools.echo(11))])
results += [task.result() for task in done]
try:
    await call
except RuntimeError as error:
    results.append(str(error))
try:
    await asyncio.wait_for(tools.slow(1), 0.01)
except asyncio.TimeoutError:
    results.append("late")
results.append(await tools.echo(12))
return results
"""
    with start_child(python) as child:
        child.boot([{"global": "tools", "names": ["echo", "slow"]}])
        child.read_until("boot-ack")
        child.send({"type": "run", "program": program})
        late: list[int] = []
        while (frame := child.read()) is not None:
            if frame["type"] == "call" and frame["name"] == "slow":
                late.append(frame["id"])
            elif frame["type"] == "call":
                for call_id in late:
                    child.send({"type": "reply", "id": call_id, "ok": True, "value": "late"})
                child.answer(frame, {"tools.echo": echo})
        outcome = child.outcome()
    expected = [*range(1, 12), "cannot await the same call of tools.echo twice", "late", 12]
    assert outcome.value == expected
    assert outcome.logs == []
    assert [frame["id"] for frame in outcome.frames if frame["type"] == "call"] == list(range(13))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        pytest.param("tools.echo()", "Cannot call tools.echo: no argument, expected one: write tools.echo({}) if it takes none", id="none"),
        pytest.param("tools.echo(1, 2)", 'Cannot call tools.echo: 2 arguments, expected one: write tools.echo({"name": ...}) with named members', id="two"),
        pytest.param("tools.echo(a=1, b=2)", 'Cannot call tools.echo: 2 arguments, expected one: write tools.echo({"a": ..., "b": ...}) with named members', id="keywords"),
        pytest.param("tools.echo(a=1)", 'Cannot call tools.echo: the keyword argument a, expected one: write tools.echo({"a": ...}) with named members', id="keyword"),
        pytest.param("tools['o-d'](1, a=2)", "Cannot call tools['o-d']: 2 arguments, expected one: write tools['o-d']({\"name\": ...}) with named members", id="odd name"),
    ],
)  # fmt: skip
def test_call_with_other_arguments_says_what_to_write(call: str, message: str) -> None:
    """PY-177: a TypeError at the call; nothing is sent."""
    program = f"try:\n    {call}\nexcept TypeError as error:\n    return str(error)"
    outcome = run_program(program, {"tools.echo": echo, "tools.o-d": echo})
    assert outcome.value == message
    assert calls(outcome) == []
    assert outcome.logs == []


@pytest.mark.parametrize(
    ("program", "logs"),
    [
        pytest.param("tools.echo(1)", ["a call of tools.echo was never awaited and did not happen: write await tools.echo(...)"], id="dropped"),
        pytest.param("kept = [tools.echo(i) for i in range(3)]", ["3 calls of tools.echo were never awaited and did not happen: write await tools.echo(...), or asyncio.gather for several at once"], id="kept"),
        pytest.param("tools.echo(1)\ntools['o-d'](1)\nraise ValueError", ["a call of tools.echo was never awaited and did not happen: write await tools.echo(...)", "a call of tools['o-d'] was never awaited and did not happen: write await tools['o-d'](...)"], id="exception"),
        pytest.param("await tools.echo(1)", [], id="awaited"),
    ],
)  # fmt: skip
def test_call_without_await_is_reported_by_name(program: str, logs: list[str]) -> None:
    """PY-178: it sends nothing."""
    outcome = run_program(program, {"tools.echo": echo, "tools.o-d": echo})
    assert outcome.logs == logs
    assert len(calls(outcome)) == (0 if logs else 1)
    assert outcome.native == {1: "", 2: ""}


@pytest.mark.parametrize(
    ("program", "reason"),
    [
        pytest.param("return tools.echo(1)", "$: call of tools.echo without await is not JSON", id="root"),
        pytest.param("return {'items': [1, tools.echo(1)]}", "$.items[1]: call of tools.echo without await is not JSON", id="inside"),
        pytest.param(f"return [tools.{'x' * 60}(1)]", f"$[0]: call of tools.{'x' * 25}... without await is not JSON", id="long name"),
    ],
)  # fmt: skip
def test_call_without_await_in_a_value_is_named_with_its_path(program: str, reason: str) -> None:
    """PY-101."""
    outcome = run_program(program, {"tools.echo": echo, f"tools.{'x' * 60}": echo})
    assert outcome.failure == ("invalid-output", f"The value must be lossless JSON: {reason}")
    assert outcome.logs == []


def test_call_without_await_names_itself_where_it_is_used() -> None:
    message = run_program("tools.echo(1)['x']", {"tools.echo": echo}).message
    assert message.endswith(
        "TypeError: 'call of tools.echo without await' object is not subscriptable"
    )


def test_namespace_has_its_members_and_nothing_else() -> None:
    """PY-048, PY-180, PY-181, PY-182."""
    program = """
facts = [
    await tools.__class__(1), await tools["__class__"](2), await tools.__dict__(3), await tools["a-b"](4),
    await tools.__proto__(5), await tools.constructor(6), hasattr(tools, "missing"), "echo" in tools,
    "missing" in tools, 0 in tools, list(tools), dir(tools), repr(tools), bool(tools), tools.echo.__name__,
]
for look in (lambda: tools.missing, lambda: tools["missing"], lambda: tools[0],
             lambda: setattr(tools, "echo", 1), lambda: delattr(tools, "echo")):
    try:
        look()
    except (AttributeError, KeyError) as error:
        facts.append([type(error).__name__, error.args[0]])
return facts
"""
    names = ["echo", "__class__", "__dict__", "a-b", "__proto__", "constructor"]
    outcome = run_program(program, {f"tools.{name}": echo for name in names})
    listed = ", ".join(names)
    assert outcome.value == [
        1, 2, 3, 4, 5, 6, False, True, False, False, names, sorted(names), f"<tools: {listed}>", True, "echo",
        ["AttributeError", f"tools has no member 'missing'; declared: {listed}"],
        ["KeyError", f"tools has no member 'missing'; declared: {listed}"],
        ["KeyError", f"tools has no member int; declared: {listed}"],
        ["AttributeError", "tools is read-only, 'echo' cannot be changed"],
        ["AttributeError", "tools is read-only, 'echo' cannot be changed"],
    ]  # fmt: skip


def test_rejection_without_an_error_class_is_a_runtime_error() -> None:
    """PY-183."""
    program = "try:\n    await tools.no(1)\nexcept RuntimeError as error:\n    return [type(error).__name__, str(error)]"
    assert run_program(program, {"tools.no": refuse}).value == ["RuntimeError", "refused 1"]


def test_rejection_with_an_error_class_is_of_that_class() -> None:
    """PY-184, PY-185."""
    program = """
import math
facts = [ToolError.__bases__[0].__name__, ToolError.__module__, ToolError.__qualname__]
for args in (1, math.nan, {"when": {1, 2}}):
    try:
        await tools.no(args)
    except ToolError as error:
        facts += [str(error), getattr(error, "tool-name")]
facts.append(await tools.echo(2.0))
return facts
"""
    outcome = run_program(
        program,
        {"tools.no": refuse, "tools.echo": echo},
        error_classes={"tools": ("ToolError", "tool-name")},
    )
    lossy = "Cannot call tools.no: the argument must be lossless JSON"
    assert outcome.value == [
        "Exception", "__main__", "ToolError", "refused 1", "no",
        f"{lossy}: $: non-finite float nan is not JSON", "no", f"{lossy}: $.when: set is not JSON", "no", 2,
    ]  # fmt: skip
    assert calls(outcome) == [(0, 1), (1, 2)]


REFUSED = [
    ("float('inf')", "$: non-finite float inf is not JSON"),
    ("-0.0", "$: negative zero is not JSON"),
    ("2**53 + 1", "$: 9007199254740993 is not exactly representable as a double"),
    ("10**400", "$: integer of 1329 bits is not exactly representable as a double"),
    ("(1, 2)", "$: tuple is not JSON"),
    ("b'x'", "$: bytes is not JSON"),
    ("bytearray()", "$: bytearray is not JSON"),
    ("1j", "$: complex is not JSON"),
    ("{1: 2}", "$: non-string dict key of type int"),
    ("[__import__('datetime').date.today()]", "$[0]: date is not JSON"),
    ("__import__('decimal').Decimal(1)", "$: Decimal is not JSON"),
    ("type('Sub', (dict,), {})()", "$: Sub is not JSON"),
    ("type('Sub', (int,), {})(1)", "$: Sub is not JSON"),
    ("__import__('enum').IntEnum('E', 'A').A", "$: E is not JSON"),
    ("(i for i in ())", "$: generator is not JSON"),
    ("__import__('sys')", "$: module is not JSON"),
    (
        "{'\\ud83d\\ude00': 1, '\\U0001f600': 2}",
        '$["\\ud83d\\ude00"]: duplicate key after combining surrogates',
    ),
    ("cycle", "$[0]: circular reference"),
    ("type('x' * 70_000_000, (), {})()", "$: " + "x" * 60 + " is not JSON"),
]


def test_values_that_are_not_lossless_are_refused_on_both_ways() -> None:
    """PY-123, PY-185, PY-186, PY-188, section 2.1."""
    expressions = ", ".join(f"lambda: {expression}" for expression, _ in REFUSED)
    program = f"""
cycle = []; cycle.append(cycle)
texts = []
for make in ({expressions}):
    try:
        await tools.echo(make())
    except RuntimeError as error:
        texts.append(str(error))
return texts
"""
    outcome = run_program(program, {"tools.echo": echo})
    start = "Cannot call tools.echo: the argument must be lossless JSON: "
    assert outcome.value == [start + reason for _, reason in REFUSED]
    assert calls(outcome) == []


def test_values_that_are_lossless_pass_on_both_ways() -> None:
    """PY-189, PY-190, PY-191, section 2.1 and 2.2."""
    program = """
shared = [1]
value = [None, True, False, 0, -1, 2**53, 2**60, 2**64, 1.0, 1.5, 1e-7, 1e-6, 1e-5, 1e21, 1.797e308, 5e-324,
         "", "\\x00\\x1f\\"\\\\/", "é\\u2028\\U0001f600", "\\ud800", "\\ud83d\\ude00", [], {}, {"": {"a": [{}]}}, shared, shared]
back = await tools.echo(value)
return [back, [type(item).__name__ for item in back[3:16]], back[6] == 2**60, len(back[19])]
"""
    outcome = run_program(program, {"tools.echo": echo})
    back, types, exact, length = outcome.value
    assert types == ["int"] * 6 + ["float"] * 4 + ["int"] * 2 + ["float"] or types == [
        "int"
    ] * 6 + ["float"] * 4 + ["int", "int", "float"]
    assert (exact, length) == (True, 1)
    assert back[20] == "\U0001f600"


def test_deep_and_wide_values_pass_on_both_ways() -> None:
    """PY-189, PY-190: 100,000 levels, 4 MiB of text, an argument far above the budget of values."""
    program = """
deep = []
for _ in range(100_000): deep = [deep]
back = await tools.same(deep)
levels = 0
while back: back, levels = back[0], levels + 1
text = await tools.same("x" * (4 << 20))
wide = await tools.same([str(i) for i in range(50 * 4096)])
deep = back = None
return [levels, len(text), len(wide)]
"""
    with start_child() as child:
        child.boot([{"global": "tools", "names": ["same"]}], addressSpaceBytes=512 * MIB)
        child.read_until("boot-ack")
        child.send({"type": "run", "program": program})
        while line := child._reader.readline():  # too deep for the json module
            if line.startswith(b'{"type":"call"'):
                head, _, args = line.partition(b',"args":')
                call_id = json.loads(head + b"}")["id"]
                child.send_bytes(b'{"type":"reply","id":%d,"ok":true,"value":%b' % (call_id, args))
            else:
                child.frames.append(json.loads(line))
        outcome = child.outcome()
    assert outcome.value == [100_000, 4 << 20, 50 * 4096]


def test_ids_are_consecutive_and_a_refused_argument_uses_none() -> None:
    """PY-185, section 1.3: from several threads too."""
    program = """
import asyncio, threading
async def some():
    return [await tools.echo(i) for i in range(20)]
def work(): results.append(asyncio.run(some()))
results = []
threads = [threading.Thread(target=work) for _ in range(3)]
for thread in threads: thread.start()
for i in range(20):
    try: await tools.echo({1})
    except RuntimeError: pass
    await tools.echo(i)
while any(thread.is_alive() for thread in threads): await asyncio.sleep(0.01)
return results == [list(range(20))] * 3
"""
    outcome = run_program(program, {"tools.echo": echo})
    assert outcome.value is True
    assert [call_id for call_id, _ in calls(outcome)] == list(range(80))


def test_call_of_a_thread_whose_loop_is_closed_is_dropped() -> None:
    """PY-202, PY-203."""
    program = """
import asyncio, threading
def work():
    loop = asyncio.new_event_loop()
    task = loop.create_task(tools.late(1))
    loop.run_until_complete(asyncio.sleep(0.01))
    task.cancel()
    loop.run_until_complete(asyncio.gather(task, return_exceptions=True))
    loop.close()
thread = threading.Thread(target=work); thread.start()
while thread.is_alive(): await asyncio.sleep(0.01)
return await tools.echo(2)
"""
    with start_child() as child:
        child.boot([{"global": "tools", "names": ["echo", "late"]}])
        child.read_until("boot-ack")
        child.send({"type": "run", "program": program})
        late = child.read_until("call")
        honest = child.read_until("call")
        child.send({"type": "reply", "id": late["id"], "ok": True, "value": 1})
        child.answer(honest, {"tools.echo": echo})
        assert child.read_until("done") == {"type": "done", "value": 2}


def test_gather_of_five_thousand_calls_with_a_host_that_reads_late() -> None:
    """PY-195, PY-196: while the child waits for room to write, it takes in replies."""
    program = """
import asyncio
results = await asyncio.gather(*(tools.echo([i, "x" * 500]) for i in range(5000)))
return results == [[i, "x" * 500] for i in range(5000)]
"""
    assert run_program(program, {"tools.echo": echo}).value is True


def test_replies_that_fill_the_socket_while_the_program_prints() -> None:
    """Both directions full at once: neither side waits for the other for ever."""
    program = """
import asyncio, time
calls = [asyncio.create_task(tools.echo(i)) for i in range(8)]
await asyncio.sleep(0)
for i in range(300): print(i, "y" * 20_000)
return [len(item) for item in await asyncio.gather(*calls)]
"""
    outcome = run_program(
        program, {"tools.echo": lambda args: "z" * (1 << 20)}, maxLogBytes=16 * MIB
    )
    assert outcome.value == [1 << 20] * 8
    assert len(outcome.logs) == 300


def test_replies_in_any_order_reach_their_calls() -> None:
    """Section 1.3; a reply with an unknown id is ignored."""
    program = "import asyncio\nreturn await asyncio.gather(*(tools.echo(i) for i in range(5)))"
    with start_child() as child:
        child.boot(TOOLS)
        child.read_until("boot-ack")
        child.send({"type": "run", "program": program})
        seen = [child.read_until("call") for _ in range(5)]
        replies = [
            {"type": "reply", "id": frame["id"], "ok": True, "value": value}
            for frame in reversed(seen)
            for value in (f"r{frame['args']}", "again")
        ]
        # In one piece: the child may leave once it has the last reply that it waits for.
        child.send_bytes("".join(f"{json.dumps(reply)}\n" for reply in replies).encode())
        assert child.read_until("done") == {"type": "done", "value": ["r0", "r1", "r2", "r3", "r4"]}


FORGE = """
import os
channel = next(int(fd) for fd in os.listdir("/proc/self/fd") if int(fd) >= 200)
import select
def forge(number):
    select.select([], [channel], [])
    os.write(channel, b'{"type":"call","id":%d,"global":"tools","name":"other","args":"forged"}\\n' % number)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the program finds its channel in /proc")
@pytest.mark.parametrize(
    ("program", "value"),
    [
        pytest.param("import asyncio\nforge(0); await asyncio.sleep(0.05)\nreturn await tools.echo('honest')", "honest", id="before"),
        pytest.param("forge(0)\nreturn [await tools.echo('honest'), await tools.echo('next')]", ["forged", "next"], id="same id"),
        pytest.param("import asyncio\nfor i in range(5): forge(i)\nfirst = await tools.echo('honest')\nawait asyncio.sleep(0.05)\nreturn await tools.echo('next')", "next", id="several"),
        pytest.param("for i in range(2000, 0, -1): forge(i)\nreturn await tools.echo('honest')", "honest", id="PY-230 wrong ids"),
    ],
)  # fmt: skip
def test_forged_call_cannot_hang_an_honest_one(program: str, value: object) -> None:
    """PY-230: the host answers every id once, in order, as a real one does."""
    with start_child() as child:
        child.boot(TOOLS)
        child.read_until("boot-ack")
        child.send({"type": "run", "program": FORGE + program})
        expected = 0
        while (frame := child.read()) is not None:
            if frame["type"] == "call" and frame["id"] == expected:
                expected += 1
                child.answer(frame, {"tools.echo": echo, "tools.other": echo})
        assert child.outcome().value == value


@linux_only
def test_reply_that_memory_cannot_hold_fails_that_call_only() -> None:
    """PY-249: the others go on."""
    program = """
import asyncio
async def attempt(args):
    try:
        return len(await tools.size(args))
    except RuntimeError as error:
        return str(error)
return await asyncio.gather(*map(attempt, (10, 100 << 20, 70 << 20, 20))) + [await attempt(30)]
"""
    outcome = run_program(
        program, {"tools.size": lambda size: "x" * size}, addressSpaceBytes=128 * MIB
    )
    failed = "Cannot call tools.size: the reply does not fit into memory"
    assert outcome.value == [10, failed, failed, 20, 30]


def test_argument_above_the_frame_cap_fails_that_call_only() -> None:
    """Section 5.1, item 5."""
    program = """
try:
    await tools.echo("x" * (64 << 20))
except RuntimeError as error:
    return [str(error), await tools.echo(1)]
"""
    text = (
        "Cannot call tools.echo: the argument has 67108866 bytes, expected less than 67108864 bytes"
    )
    assert run_program(program, {"tools.echo": echo}).value == [text, 1]


def test_blocked_main_thread_gets_its_replies_when_the_block_ends() -> None:
    """PY-204."""
    program = """
import asyncio, time
call = asyncio.create_task(tools.echo(1))
await asyncio.sleep(0)
time.sleep(0.2)
return await call
"""
    assert run_program(program, {"tools.echo": echo}).value == 1


def test_reply_that_cannot_be_read_fails_that_call_only() -> None:
    with start_child() as child:
        child.boot(TOOLS)
        child.read_until("boot-ack")
        program = "try:\n    await tools.echo(1)\nexcept RuntimeError as error:\n    return [str(error), await tools.echo(2)]"
        child.send({"type": "run", "program": program})
        child.read_until("call")
        child.send_bytes(b'{"type":"reply","id":0,"ok":true,"value":1e400}\n')
        child.answer(child.read_until("call"), {"tools.echo": echo})
        text = "Cannot call tools.echo: the reply cannot be read: Cannot read the reply frame: $: number 1e400 is not a finite double"
        assert child.read_until("done") == {"type": "done", "value": [text, 2]}
