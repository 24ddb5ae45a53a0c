"""Calls of host functions by a program: what is declared, what is sent, and how each call settles."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Callable
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from run_requests import Provider, Run, build_request

from code_runtime import (
    CodeBindingErrorClass,
    CodeBindingNamespace,
    CodeRunResult,
    CodeRuntime,
)

pytestmark = pytest.mark.anyio


def failure(result: CodeRunResult) -> tuple[str, str]:
    assert result.error is not None, result
    assert not result.has_value
    return result.error.kind, result.error.message


def echo(value: object) -> object:
    return value


async def slow_echo(value: object) -> object:
    await anyio.lowlevel.checkpoint()
    return value


class Recorder:
    """Keeps the arguments it was called with."""

    def __init__(self) -> None:
        self.seen: list[object] = []

    def __call__(self, value: object) -> object:
        self.seen.append(value)
        return value


# What is declared


async def test_a_namespace_has_no_prototype_and_fixed_members(run: Run) -> None:
    """WT-118."""
    result = await run(
        """
        const d = Object.getOwnPropertyDescriptor(tools, "add")!;
        const attempt = (f: () => unknown) => { try { f(); return "worked" } catch (e: any) { return e.name } };
        (tools as any).extra = 1;
        return {
          prototype: Object.getPrototypeOf(tools), keys: Object.keys(tools),
          attributes: [d.enumerable, d.writable, d.configurable, typeof d.value],
          overwrite: attempt(() => { (tools as any).add = 1 }),
          remove: attempt(() => { delete (tools as any).add }),
          redefine: attempt(() => Object.defineProperty(tools, "add", { value: 1 })),
          inherited: typeof (tools as any).toString, works: await tools.add(1),
        }
        """,
        {"add": echo},
    )
    assert result.value == {
        "prototype": None,
        "keys": ["add", "extra"],
        "attributes": [True, False, False, "function"],
        "overwrite": "TypeError",
        "remove": "TypeError",
        "redefine": "TypeError",
        "inherited": "undefined",
        "works": 1,
    }


ODD_NAMES = [
    "",
    "__proto__",
    "constructor",
    "toString",
    "hasOwnProperty",
    "then",
    "prototype",
    "a b",
    "1",
    "00",
    "a.b",
    'quo"te\\',
    "line\nbreak\0",
    "\ud800",
    "😀",
    "length",
    "return",
]


async def test_any_string_names_a_member(run: Run) -> None:
    """SC-026, WT-120: each is an own member and reaches its own function."""
    tools = {name: (lambda value, name=name: [name, value]) for name in ODD_NAMES}
    result = await run(
        """
        const out: any[] = [];
        for (const name of Object.keys(tools)) out.push([Object.hasOwn(tools, name), await tools[name](1)]);
        return out
        """,
        tools,
    )
    assert isinstance(result.value, list)
    found = {next(iter(item[1])): item for item in result.value}
    assert found == {name: [True, [name, 1]] for name in ODD_NAMES}
    assert sorted((call.member, call.outcome) for call in result.calls) == sorted(
        (name, "ok") for name in ODD_NAMES
    )


async def test_only_the_given_members_exist(run: Run) -> None:
    """SC-027: what a mapping inherits or adds later is no member."""

    class Registry(dict[str, Callable[..., object]]):
        def hidden(self, _: object) -> str:
            return "reached"

    functions = Registry(shown=echo)
    namespace = CodeBindingNamespace("tools", functions)
    functions["late"] = echo
    result = await run(
        "return [Object.keys(tools), typeof tools.hidden, typeof tools.late, typeof tools.keys]",
        bindings=[namespace],
    )
    assert result.value == [["shown"], "undefined", "undefined", "undefined"]


async def test_a_member_that_is_no_function_is_unknown_when_called(run: Run) -> None:
    """SC-028: visible, and no call of it does anything."""
    result = await run(
        """
        try { await tools.data(1) } catch (e: any) { return [Object.keys(tools), e.toolName, e.message] }
        """,
        {"data": 5, "echo": echo},  # type: ignore[dict-item]
    )
    assert result.value == [["data", "echo"], "data", "Unknown binding: tools.data"]
    assert [(call.member, call.outcome) for call in result.calls] == [("data", "refused")]


@pytest.mark.parametrize(
    ("program", "caret", "advice"),
    [
        pytest.param(
            "return await tools.fetch(1)",
            20,
            "tools has no member fetch; declared: a, b",
            id="typo",
        ),
        pytest.param(
            "return await tools.toString()",
            20,
            "tools has no member toString; declared: a, b",
            id="inherited name",
        ),
    ],
)
async def test_an_undeclared_member_is_named_with_what_is_declared(
    run: Run, program: str, caret: int, advice: str
) -> None:
    """WT-119, GAP of the engine's bare text: the error is still its TypeError."""
    result = await run(program, {"a": echo, "b": echo})
    member = program[program.index("tools.") : program.rindex("(")]
    assert failure(result) == (
        "exception",
        f"TypeError: {member} is not a function\n{advice}\n  1 | {program}\n"
        f"    | {' ' * (caret - 1)}^\n    at program.ts:1:{caret}",
    )
    caught = await run(
        "try { await tools.fetch(1) } catch (e) { return [e instanceof TypeError, e instanceof ToolCallError] }",
        {"a": echo},
    )
    assert caught.value == [True, False]


async def test_namespaces_of_equal_members_stay_separate(run: Run) -> None:
    """WT-140, WT-133."""
    result = await run(
        "return [await Promise.all([a.f(1), b.f(2), a.f(3)]), a.f === b.f]",
        bindings=[
            CodeBindingNamespace("a", {"f": lambda value: ["a", value]}),
            CodeBindingNamespace("b", {"f": lambda value: ["b", value]}),
        ],
    )
    assert result.value == [[["a", 1], ["b", 2], ["a", 3]], False]
    assert [(call.namespace, call.member) for call in result.calls] == [
        ("a", "f"),
        ("b", "f"),
        ("a", "f"),
    ]


# What is sent


@pytest.mark.parametrize("value", ["null", "0", '"text"', "false", "[]", "{}", '[1, {"a": null}]'])
@pytest.mark.parametrize("function", [echo, slow_echo], ids=["plain", "async"])
async def test_a_call_passes_any_root(
    run: Run, function: Callable[[object], object], value: str
) -> None:
    """SC-029, WT-125."""
    import json

    recorder = Recorder()

    def tool(argument: object) -> object:
        recorder(argument)
        return function(argument)

    result = await run(f"return await tools.tool({value})", {"tool": tool})
    assert (recorder.seen, result.value) == ([json.loads(value)], json.loads(value))
    assert result.has_value


async def test_a_call_without_argument_says_what_to_write(run: Run) -> None:
    """WT-121: no function is called; the next id is the first one."""
    recorder = Recorder()
    result = await run(
        "try { await tools.take() } catch (e: any) { return [e instanceof ToolCallError, e.message, await tools.take(1)] }",
        {"take": recorder},
    )
    assert result.value == [
        True,
        "Cannot call tools.take: no argument, expected one that is lossless JSON: "
        "write tools.take({}) if it takes none",
        1,
    ]
    assert (recorder.seen, len(result.calls)) == ([1], 1)


async def test_more_than_one_argument_is_refused(run: Run) -> None:
    """WT-121: upstream drops the others; here the call says so, also as a callback."""
    recorder = Recorder()
    result = await run(
        """
        const out: any[] = [];
        try { await tools.take(1, 2) } catch (e: any) { out.push(e.toolName, e.message) }
        try { await Promise.all([1, 2].map(tools["take it"])) } catch (e: any) { out.push(e.toolName, e.message) }
        return out
        """,
        {"take": recorder, "take it": recorder},
    )
    assert result.value == [
        "take",
        "Cannot call tools.take: 2 arguments, expected one: write tools.take({ ... }) with named "
        "members, and (item) => tools.take(item) where a callback is wanted",
        "take it",
        'Cannot call tools["take it"]: 3 arguments, expected one: write tools["take it"]({ ... }) '
        'with named members, and (item) => tools["take it"](item) where a callback is wanted',
    ]
    assert (recorder.seen, result.calls) == ([], [])


FORGE = """
import fs from "node:fs";
const sockets: number[] = [];
for (let fd = 4; fd < 60; fd++) { try { if (fs.fstatSync(fd).isSocket()) sockets.push(fd) } catch {} }
const text = (s: string) => { const b = Buffer.from(s); return [0xc4, b.length, ...b] };
const call = (id: number, target: string, argument: string) => {
  const body = Buffer.from([0x94, 49, id, ...text(target), ...text(argument)]);
  const head = Buffer.alloc(4); head.writeUInt32BE(body.length);
  for (const fd of sockets) { try { fs.writeSync(fd, Buffer.concat([head, body])) } catch {} }
};
"""


@pytest.mark.parametrize(
    "argument", ["-0", "NaN", "[1,]", "", "9007199254740993", "1e400", "undefined"]
)
async def test_a_forged_argument_reaches_no_function(runtime: CodeRuntime, argument: str) -> None:
    """WT-123, SC-030, SC-044: Python checks again; the run goes on."""
    recorder = Recorder()
    result = await runtime.run(
        build_request(
            FORGE + f'call(7, \'["tools","take"]\', {argument!r}); return 1', {"take": recorder}
        )
    )
    assert (result.value, recorder.seen) == (1, [])
    assert [(call.member, call.outcome) for call in result.calls] == [("take", "refused")]


async def test_a_repeated_id_is_answered_once(runtime: CodeRuntime) -> None:
    """WT-132, WT-189, WT-190: a stolen id hurts the program only."""
    recorder = Recorder()
    target = '["tools","take"]'
    result = await runtime.run(
        build_request(
            FORGE
            + f"""
            call(5, '{target}', '"first"'); call(5, '{target}', '"again"'); call(4, '{target}', '"lower"');
            call(0, '{target}', '"zero"'); call(6, '{target}', '"next"');
            const pending = [1, 2, 3, 4, 5, 6].map(i => tools.take(i));
            return await tools.take("own")
            """,
            {"take": recorder},
        )
    )
    assert result.value == "own"
    assert recorder.seen == ["first", "next", "own"]


# How a call fails


class Nameless(Exception):
    def __str__(self) -> str:
        return ""


class Mute(Exception):
    """GP-001, BF-022: an exception that cannot be shown."""

    def __str__(self) -> str:
        raise RuntimeError("no text")


class NoText(Exception):
    def __str__(self) -> str:
        return 5  # type: ignore[return-value]


class Fancy(str):
    def __str__(self) -> str:
        raise RuntimeError("no text")


class FancyText(Exception):
    def __str__(self) -> str:
        return Fancy("fancy")


@pytest.mark.parametrize("kind", ["plain", "async", "async after a wait"])
@pytest.mark.parametrize(
    ("error", "message"),
    [
        pytest.param(ValueError("no such row"), "no such row", id="WT-126 message"),
        pytest.param(ValueError(), "", id="WT-126 empty message"),
        pytest.param(Nameless(), "", id="WT-126 empty text"),
        pytest.param(KeyError("id"), "'id'", id="KeyError"),
        pytest.param(ValueError({"a": 1}), "{'a': 1}", id="message that is no string"),
        pytest.param(ValueError("a\ud800b"), "a\ud800b", id="lone surrogate"),
        pytest.param(Mute(), "<unrenderable binding error>", id="WT-142 text that raises"),
        pytest.param(NoText(), "<unrenderable binding error>", id="WT-142 text that is no string"),
        pytest.param(FancyText(), "fancy", id="WT-142 text of a hostile class"),
        pytest.param(ExceptionGroup("two", [ValueError("x")]), "two (1 sub-exception)", id="group"),
        pytest.param(StopIteration(3), "3", id="StopIteration"),
        pytest.param(TimeoutError(), "", id="TimeoutError"),
    ],
)
async def test_a_function_that_raises_rejects_its_call(
    run: Run, kind: str, error: Exception, message: str
) -> None:
    """SC-031, SC-032, WT-125, WT-126, WT-128, WT-142: the run and the host go on."""

    def fail(_: object) -> object:
        raise error

    async def fail_async(_: object) -> object:
        if kind != "async":
            await anyio.lowlevel.checkpoint()
        raise error

    if kind != "plain" and isinstance(error, StopIteration):
        message = "coroutine raised StopIteration"  # Python's own rule
    result = await run(
        "try { await tools.fail(1) } catch (e: any) { return [e.name, e.toolName, e.message, await tools.echo(2)] }",
        {"fail": fail if kind == "plain" else fail_async, "echo": echo},
    )
    assert (result.value, result.error) == (["ToolCallError", "fail", message, 2], None)
    assert [call.outcome for call in result.calls] == ["error", "ok"]


async def test_the_error_class_is_real(run: Run) -> None:
    """SC-032, WT-129, SC-034: its two names are data."""
    result = await run(
        """
        let caught: any;
        try { await db["run query"]({}) } catch (e) { caught = e }
        const d = (key: string) => { const p = Object.getOwnPropertyDescriptor(caught, key)!; return [p.enumerable, p.writable] };
        const attempt = (f: () => unknown) => { try { f(); return "worked" } catch (e: any) { return e.name } };
        return {
          is: [caught instanceof QueryFault, caught instanceof Error, caught.constructor === QueryFault],
          keys: Object.keys(caught), name: caught.name, member: caught["the member"],
          message: caught.message, text: String(caught), attributes: [d("name"), d("the member")],
          change: attempt(() => { caught.name = "x" }), stack: caught.stack.split("\\n")[0],
          className: QueryFault.name,
        }
        """,
        bindings=[
            CodeBindingNamespace(
                "db", {"run query": raise_text}, CodeBindingErrorClass("QueryFault", "the member")
            )
        ],
    )
    assert result.value == {
        "is": [True, True, True],
        "keys": ["name", "the member"],
        "name": "QueryFault",
        "member": "run query",
        "message": "table is locked",
        "text": "QueryFault: table is locked",
        "attributes": [[True, False], [True, False]],
        "change": "TypeError",
        "stack": "QueryFault: table is locked",
        "className": "QueryFault",
    }


def raise_text(_: object) -> object:
    raise LookupError("table is locked")


async def test_a_program_can_construct_the_error_class(run: Run) -> None:
    """WT-130: its name is the declared one, which upstream's is not."""
    result = await run(
        """
        class Mine extends ToolCallError {}
        const own = new ToolCallError("member", "text"), mine = new Mine("m", "t");
        return [own instanceof ToolCallError, own.name, own.toolName, own.message, ToolCallError.name,
          mine instanceof ToolCallError, mine.toolName]
        """,
        {"echo": echo},
    )
    assert result.value == [
        *(True, "ToolCallError", "member", "text", "ToolCallError"),
        *(True, "m"),
    ]


async def test_without_an_error_class_it_is_a_plain_error(run: Run) -> None:
    """SC-033."""
    result = await run(
        """
        try { await db.get(1) } catch (e: any) {
          return [Object.getPrototypeOf(e) === Error.prototype, Object.keys(e), e.name, e.message]
        }
        """,
        bindings=[CodeBindingNamespace("db", {"get": raise_text})],
    )
    assert result.value == [True, [], "Error", "table is locked"]


async def test_two_namespaces_have_error_classes_of_their_own(run: Run) -> None:
    """SC-032, SC-020: also one whose name is usual for an error class."""
    result = await run(
        """
        const kinds: any[] = [];
        for (const call of [a.f, b.f, ToolCallError.f])
          try { await call(1) } catch (e: any) { kinds.push([e instanceof AFault, e instanceof BFault, e.name]) }
        return kinds
        """,
        bindings=[
            CodeBindingNamespace("a", {"f": raise_text}, CodeBindingErrorClass("AFault", "member")),
            CodeBindingNamespace("b", {"f": raise_text}, CodeBindingErrorClass("BFault", "member")),
            CodeBindingNamespace("ToolCallError", {"f": raise_text}),
        ],
    )
    assert result.value == [
        [True, False, "AFault"],
        [False, True, "BFault"],
        [False, False, "Error"],
    ]


async def test_an_uncaught_rejection_ends_the_run_where_it_was_awaited(run: Run) -> None:
    """WT-131, GP-005."""
    result = await run("const a = 1;\nawait tools.fail({ a });\nreturn a", {"fail": raise_text})
    assert failure(result) == (
        "exception",
        "ToolCallError: table is locked\n  2 | await tools.fail({ a });\n    |             ^\n"
        "    at program.ts:2:13",
    )


# Many calls, slow calls, calls that nobody waits for


@pytest.mark.parametrize("function", [echo, slow_echo], ids=["plain", "async"])
async def test_5000_calls_at_once(run: Run, function: Callable[[object], object]) -> None:
    """WT-134, GP-014."""
    result = await run(
        "const all = await Promise.all(Array.from({length: 5000}, (_, i) => tools.f({i})));\n"
        "return [all.length, all.every((v, i) => v.i === i)]",
        {"f": function},
    )
    assert (result.value, result.error) == ([5000, True], None)
    assert (len(result.calls), {call.outcome for call in result.calls}) == (5000, {"ok"})


async def test_5000_slow_calls_at_once(run: Run) -> None:
    """WT-134, GP-014: the host runs 1,024 at a time, no more and no fewer."""
    running = most = 0
    full = anyio.Event()

    async def slow(value: object) -> object:
        nonlocal running, most
        running += 1
        most = max(most, running)
        if running == 1024:
            full.set()
        await full.wait()
        running -= 1
        return value

    result = await run(
        "const all = await Promise.all(Array.from({length: 5000}, (_, i) => tools.slow(i)));\n"
        "return all.every((v, i) => v === i)",
        {"slow": slow},
    )
    assert (result.value, result.error) == (True, None)
    assert most == 1024


async def test_10000_calls_one_after_the_other(run: Run) -> None:
    """WT-134."""
    result = await run(
        "let sum = 0; for (let i = 0; i < 10_000; i++) sum += await tools.f(i); return sum",
        {"f": echo},
    )
    assert result.value == 49_995_000


async def test_calls_settle_in_the_order_the_host_finishes_them(run: Run) -> None:
    """WT-134: three calls wait for each other in reverse."""
    done = {name: anyio.Event() for name in ("b", "c", "end")}

    async def wait(value: Any) -> object:
        if value == "a":
            await done["b"].wait()
        elif value == "b":
            await done["c"].wait()
            done["b"].set()
        else:
            done["c"].set()
        return value

    result = await run(
        """
        const order: string[] = [];
        await Promise.all(["a", "b", "c"].map(x => tools.wait(x).then((y: string) => { order.push(y) })));
        return order
        """,
        {"wait": wait},
    )
    assert isinstance(result.value, list)
    assert result.value[0] == "c"
    assert sorted(result.value) == ["a", "b", "c"]
    assert [call.outcome for call in result.calls] == ["ok", "ok", "ok"]


async def test_eight_replies_of_4_mib(run: Run) -> None:
    """SC-029: no cap on a reply; they are encoded one at a time."""
    result = await run(
        "const all = await Promise.all([0,1,2,3,4,5,6,7].map(i => tools.big(i)));\n"
        "return all.map((s, i) => s.length === 4 * 1024 * 1024 && s[0] === String(i))",
        {"big": lambda i: str(i) * (4 * 1024 * 1024)},
    )
    assert result.value == [True] * 8


async def test_eight_arguments_of_4_mib(run: Run) -> None:
    """SC-029: 32 MiB out at once, above what the host reads ahead."""
    sizes: list[int] = []

    async def take(value: object) -> int:
        assert isinstance(value, str)
        await anyio.sleep(0.01)
        sizes.append(len(value))
        return len(value)

    result = await run(
        "return await Promise.all([0,1,2,3,4,5,6,7].map(i => tools.take(String(i).repeat(4 * 1024 * 1024))))",
        {"take": take},
    )
    assert (result.value, sizes) == ([4 * 1024 * 1024] * 8, [4 * 1024 * 1024] * 8)


async def test_a_program_that_reads_no_reply_holds_up_only_itself(provider: Provider) -> None:
    """WT-152: calls whose replies it never takes, from a loop that never waits."""
    async with provider(compute_ms=1_000, spare_hosts=1) as runtime:
        result = await runtime.run(
            build_request(
                "for (let i = 0; i < 64; i++) tools.big(i); console.log('sent'); for (;;);",
                {"big": lambda _: "x" * 1_048_576},
            )
        )
        after = await runtime.run(build_request("return 1"))
    assert (result.logs, failure(result)) == (
        ["sent"],
        ("timeout", "compute budget exceeded: 1000 ms of busy time"),
    )
    assert after.value == 1


async def test_pending_calls_do_not_hold_the_completion(run: Run) -> None:
    """WT-135, WT-136: they reach the host, and are cancelled there."""
    started, cancelled = anyio.Event(), False

    async def wait(_: object) -> None:
        nonlocal cancelled
        started.set()
        try:
            await anyio.sleep_forever()
        except anyio.get_cancelled_exc_class():
            cancelled = True
            raise

    result = await run("tools.wait(1); return 'done'", {"wait": wait})
    assert (result.value, started.is_set(), cancelled) == ("done", True, True)
    assert [(call.member, call.outcome) for call in result.calls] == [("wait", "cancelled")]


async def test_calls_right_before_the_end_reach_their_functions(run: Run) -> None:
    """WT-136: plain functions have run when the result is there."""
    recorder = Recorder()
    result = await run("for (const i of [1, 2, 3]) tools.note(i); return 0", {"note": recorder})
    assert (result.value, recorder.seen) == (0, [1, 2, 3])


async def test_a_call_after_the_end_reaches_nothing(provider: Provider) -> None:
    """WT-137: the next run on the same runtime waits long enough for it to come."""
    recorder = Recorder()
    async with provider(spare_hosts=1, max_concurrent_runs=1) as runtime:
        result = await runtime.run(
            build_request(
                "setTimeout(() => tools.late(1), 0); process.on('exit', () => tools.late(2)); return 1",
                {"late": recorder},
            )
        )
        await runtime.run(build_request("await new Promise(r => setTimeout(r, 30))"))
    assert (result.value, recorder.seen, result.calls) == (1, [], [])


@pytest.mark.parametrize("end", ["return 1", "throw 'x'", "process.exit(0)"])
async def test_a_late_resolution_is_dropped(run: Run, end: str) -> None:
    """WT-135, WT-138: a function that answers its cancellation with a value."""
    entered = anyio.Event()

    async def stubborn(_: object) -> object:
        entered.set()
        with contextlib.suppress(anyio.get_cancelled_exc_class()):
            await anyio.sleep_forever()
        return {"late": True}

    async def wait(_: object) -> None:
        await entered.wait()

    result = await run(
        f"tools.stubborn(1); await tools.wait(0); {end}", {"stubborn": stubborn, "wait": wait}
    )
    assert [call.member for call in result.calls] == ["stubborn", "wait"]
    assert (result.error is None) == (end == "return 1")


async def test_a_failure_that_nobody_awaits_is_an_exception(run: Run) -> None:
    """WT-141, WT-166: upstream reports the death of the worker."""
    result = await run("tools.fail(1);\nawait new Promise(() => {})", {"fail": raise_text})
    assert failure(result) == (
        "exception",
        "ToolCallError: table is locked\n  1 | tools.fail(1);\n    |       ^\n    at program.ts:1:7\n"
        "Nothing awaited the call of tools.fail when it failed: write await tools.fail(...), "
        "or Promise.all for several calls",
    )


async def test_a_failure_that_is_awaited_later_is_caught(run: Run) -> None:
    """WT-141: a program that keeps the promise and looks at it in the same turn is fine."""
    result = await run(
        """
        const settled = await Promise.allSettled([tools.fail(1), tools.echo(2)]);
        return settled.map((s: any) => s.status === "fulfilled" ? s.value : s.reason.message)
        """,
        {"fail": raise_text, "echo": echo},
    )
    assert result.value == ["table is locked", 2]


async def test_a_binding_may_run_a_program_itself(runtime: CodeRuntime) -> None:
    async def nested(value: object) -> object:
        inner = await runtime.run(
            build_request(f"return (await tools.echo({value})) + 1", {"echo": echo})
        )
        return inner.value

    result = await runtime.run(build_request("return await tools.nested(4)", {"nested": nested}))
    assert result.value == 5


async def test_awaitables_of_any_kind_are_awaited(run: Run) -> None:
    """WT-125."""

    class Later:
        def __await__(self) -> Any:
            return slow_echo("later").__await__()

    result = await run("return await tools.get(1)", {"get": lambda _: Later()})
    assert result.value == "later"


async def test_no_coroutine_is_left_unawaited(run: Run) -> None:
    """WT-135: calls that come as the run ends; a coroutine never started would warn."""

    async def never(_: object) -> None:
        await anyio.sleep_forever()

    result = await run("for (let i = 0; i < 1000; i++) tools.never(i); return 1", {"never": never})
    assert (result.value, len(result.calls)) == (1, 1000)
    gc.collect()
    assert {call.outcome for call in result.calls} == {"cancelled"}


async def test_any_number_of_pending_calls_does_not_hold_the_completion(run: Run) -> None:
    """WT-135: the end stands behind more calls than the host runs at once."""

    async def never(_: object) -> None:
        await anyio.sleep_forever()

    result = await run(
        "for (let i = 0; i < 2000; i++) tools.never(i); return 1",
        {"never": never},
        max_wall_ms=3_000,
    )
    assert (result.value, result.error) == (1, None)
