"""The order in which the calls of one program are started, overlap and end."""

from __future__ import annotations

from collections.abc import Mapping

import anyio
import anyio.lowlevel
import pytest
from code_mode_host import LANGUAGES, open_tools, run_program

from code_mode import (
    CallEvent,
    CallSettled,
    CallStarted,
    Tool,
    ToolCall,
    ToolContext,
    ToolError,
    ToolHooks,
    ToolReply,
)
from code_mode._tools import ParallelRule
from code_runtime import AbortSignal

pytestmark = pytest.mark.anyio
GATHER = """
import asyncio
await asyncio.gather(*(tools.{name}({{"n": n}}) for n in range({count})))
"""


class Stage:
    """A tool whose calls say when they begin and end, and end when they are told to."""

    def __init__(self, name: str, *, parallel: ParallelRule = False) -> None:
        self.steps: list[str] = []
        self.most_at_once = 0
        self._at_once = 0
        self.tool = Tool(name, "", {}, call=self._call, parallel=parallel)

    async def _call(self, arguments: Mapping[str, object]) -> object:
        self._at_once += 1
        self.most_at_once = max(self.most_at_once, self._at_once)
        self.steps.append(f"+{arguments['n']}")
        # Whoever may overlap has begun before this many turns of the loop are over.
        for _ in range(20):
            await anyio.lowlevel.checkpoint()
        self.steps.append(f"-{arguments['n']}")
        self._at_once -= 1
        return arguments["n"]


async def test_exclusive_calls_run_alone_in_the_order_of_submission() -> None:
    """CM-063, CM-065."""
    stage = Stage("write")
    async with open_tools(stage.tool) as tools:
        result = await run_program(tools, GATHER.format(name="write", count=4))
    assert not result.is_error
    assert stage.steps == ["+0", "-0", "+1", "-1", "+2", "-2", "+3", "-3"]


@pytest.mark.parametrize(("limit", "at_once"), [(1, 1), (3, 3), (10, 10)])
async def test_parallel_calls_overlap_up_to_the_limit(limit: int, at_once: int) -> None:
    """CM-064."""
    stage = Stage("read", parallel=True)
    async with open_tools(stage.tool, max_parallel_calls=limit) as tools:
        result = await run_program(tools, GATHER.format(name="read", count=12))
    assert not result.is_error
    assert stage.most_at_once == at_once
    assert [step for step in stage.steps if step[0] == "+"] == [f"+{n}" for n in range(12)]


async def test_rule_decides_for_each_call_by_its_arguments() -> None:
    """CM-063: only True allows it, and a rule that raises does not."""
    verdicts: list[object] = [True, 1, "yes", None]

    def rule(arguments: Mapping[str, object]) -> object:
        number = arguments["n"]
        assert isinstance(number, int)
        return verdicts[number]  # the fifth raises

    stage = Stage("mixed", parallel=rule)
    async with open_tools(stage.tool) as tools:
        await run_program(tools, GATHER.format(name="mixed", count=5))
    assert stage.steps == ["+0", "-0", "+1", "-1", "+2", "-2", "+3", "-3", "+4", "-4"]


async def test_exclusive_call_waits_for_all_before_and_bars_all_after() -> None:
    """CM-065."""
    stage = Stage("mixed", parallel=lambda arguments: arguments["n"] != 2)
    async with open_tools(stage.tool) as tools:
        await run_program(tools, GATHER.format(name="mixed", count=5))
    steps = stage.steps
    assert steps[4:6] == ["+2", "-2"]
    assert sorted(steps[:4]) == ["+0", "+1", "-0", "-1"]
    assert sorted(steps[6:]) == ["+3", "+4", "-3", "-4"]


async def test_first_stages_never_overlap_and_keep_their_order() -> None:
    """CM-066, CM-067: the last stages keep it too, whatever ended first."""
    steps: list[str] = []
    second_is_done = anyio.Event()

    class Watch(ToolHooks):
        async def before(self, call: ToolCall) -> None:
            steps.append(f"before {call.arguments.get('n')}")
            await anyio.lowlevel.checkpoint()
            steps.append(f"decided {call.arguments.get('n')}")

        async def after(self, call: ToolCall, reply: ToolReply) -> None:
            steps.append(f"after {reply.value}")

    async def read(arguments: Mapping[str, object]) -> object:
        if arguments["n"] == 0:
            await second_is_done.wait()
        else:
            second_is_done.set()
        return arguments["n"]

    watch = Watch()
    async with open_tools(Tool("read", "", {}, call=read, parallel=True), hooks=[watch]) as tools:
        await run_program(tools, GATHER.format(name="read", count=2))
    inner = [step for step in steps if step.endswith(("0", "1"))]
    assert inner == ["before 0", "decided 0", "before 1", "decided 1", "after 0", "after 1"]


async def test_value_reaches_the_program_before_earlier_calls_have_ended() -> None:
    """CM-068: without hooks nothing is left to do that could change it."""
    released = anyio.Event()

    async def read(arguments: Mapping[str, object]) -> object:
        if arguments["n"] == 0:
            await released.wait()
        if arguments["n"] == 2:
            released.set()
        return arguments["n"]

    async with open_tools(Tool("read", "", {}, call=read, parallel=True)) as tools:
        result = await run_program(
            tools,
            """
            import asyncio
            slow = asyncio.ensure_future(tools.read({"n": 0}))
            quick = await tools.read({"n": 1})
            await tools.read({"n": 2})
            return [quick, await slow]
            """,
        )
    assert result.value == {"logs": [], "result": [1, 0]}


async def test_events_come_in_pairs_and_settle_in_the_order_of_submission() -> None:
    """CM-060, CM-062, CM-067, CM-074: the text of the arguments is from before the tool."""
    events: list[CallEvent] = []
    second_is_done = anyio.Event()

    async def read(arguments: dict[str, object]) -> object:
        number = arguments.pop("n")
        if number == 0:
            await second_is_done.wait()
            return "first"
        second_is_done.set()
        raise ToolError("no second")

    async with open_tools(
        Tool("read", "", {}, call=read, parallel=True), on_event=events.append
    ) as tools:
        result = await run_program(
            tools,
            """
            import asyncio
            calls = [tools.read({"n": n}) for n in range(2)]
            first, second = await asyncio.gather(*calls, return_exceptions=True)
            return [first, str(second), second.toolName, type(second).__name__]
            """,
        )
    assert result.value == {
        "logs": [],
        "result": ["first", "no second", "read", "ToolCallError"],
    }
    ids = [
        ("outer:code:1", "outer", "read", '{"n":0}'),
        ("outer:code:2", "outer", "read", '{"n":1}'),
    ]
    assert events == [
        CallStarted(*ids[0]),
        CallStarted(*ids[1]),
        CallSettled(*ids[0], "ok", ToolReply("first")),
        CallSettled(*ids[1], "error", ToolReply(error="no second")),
    ]


async def test_event_function_that_raises_changes_nothing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """CM-075."""

    def fail(event: CallEvent) -> None:
        raise ValueError("full disk")

    async with open_tools(Stage("read").tool, on_event=fail) as tools:
        result = await run_program(tools, 'return await tools.read({"n": 7})')
    assert result.value == {"logs": [], "result": 7}
    assert [record.getMessage() for record in caplog.records] == [
        "on_event raised for call outer:code:1",
        "on_event raised for call outer:code:1",
    ]


@pytest.mark.parametrize(
    ("argument", "seen"),
    [
        ("None", "null"),
        ("True", "a boolean"),
        ("1.5", "a number"),
        ("'x'", "a string"),
        ("[1]", "a list"),
    ],
)
async def test_argument_that_is_no_object_takes_no_number(argument: str, seen: str) -> None:
    """CM-059."""
    async with open_tools(Stage("read").tool) as tools:
        result = await run_program(
            tools,
            f"""
            try:
                await tools.read({argument})
            except ToolCallError as error:
                print(error)
            await tools.read({{"n": 1}})
            """,
        )
    assert result.text == (
        f"Cannot call read: the argument is {seen}, expected one object of named arguments, "
        'such as {"name": value}'
    )
    assert [call.call_id for call in result.calls] == ["outer:code:1"]


async def test_lossy_argument_is_refused_before_anything_happens() -> None:
    """CM-059."""
    events: list[CallEvent] = []
    async with open_tools(Stage("read").tool, on_event=events.append) as tools:
        result = await run_program(
            tools,
            """
            try:
                await tools.read({"n": {1, 2}})
            except ToolCallError as error:
                print(error.toolName, error)
            """,
        )
    assert result.text == (
        "read Cannot call tools.read: the argument must be lossless JSON: $.n: set is not JSON"
    )
    assert events == []
    assert result.calls == ()


async def test_deep_argument_reaches_tool_and_event() -> None:
    """CM-061."""
    events: list[CallEvent] = []

    def measure(arguments: Mapping[str, object]) -> object:
        depth, item = 0, arguments["n"]
        while isinstance(item, list) and item:
            depth, item = depth + 1, item[0]
        return depth

    async with open_tools(Tool("depth", "", {}, call=measure), on_event=events.append) as tools:
        result = await run_program(
            tools,
            """
            value = []
            for _ in range(5_000):
                value = [value]
            return await tools.depth({"n": value})
            """,
        )
    assert result.value == {"logs": [], "result": 5_000}
    started = events[0]
    assert isinstance(started, CallStarted)
    assert started.arguments_json == '{"n":' + "[" * 5_001 + "]" * 5_001 + "}"


async def test_call_budget_refuses_further_calls() -> None:
    async with open_tools(Stage("read").tool, max_calls=2) as tools:
        result = await run_program(
            tools,
            """
            for n in range(3):
                print(await tools.read({"n": n}))
            """,
        )
    assert result.is_error
    assert result.text.split("\n")[4:7] == [
        "ToolCallError: Cannot call read: the program has made 2 calls, "
        "expected no more than max_calls",
        "",
        "Captured output:",
    ]


async def test_call_that_takes_too_long_fails_and_the_program_goes_on() -> None:
    async def wait(arguments: Mapping[str, object]) -> object:
        await anyio.sleep_forever()
        return None

    tool = Tool("wait", "", {}, call=wait, timeout_ms=20)
    slow = Tool("slow", "", {}, call=wait)
    async with open_tools(tool, slow, call_timeout_ms=30) as tools:
        result = await run_program(
            tools,
            """
            for call in (tools.wait, tools.slow):
                try:
                    await call({})
                except ToolCallError as error:
                    print(error)
            """,
        )
    assert result.text == (
        "Cannot finish wait: no result after 20 ms, expected one within that time\n"
        "Cannot finish slow: no result after 30 ms, expected one within that time"
    )


async def test_settlement_cancels_what_runs_and_abandons_what_waits() -> None:
    """CM-058, CM-072, CM-073, CM-074."""
    events: list[CallEvent] = []
    signals: list[AbortSignal] = []
    ended: list[str] = []

    async def hang(arguments: Mapping[str, object], context: ToolContext) -> object:
        signals.append(context.signal)
        try:
            await anyio.sleep_forever()
        finally:
            ended.append(context.call_id)
        return None

    tool = Tool("hang", "", {}, call=hang, takes_context=True)
    begun = Tool("begun", "", {}, call=lambda arguments: bool(signals), parallel=True)
    async with open_tools(tool, on_event=events.append) as tools:
        tools.register(begun)
        result = await run_program(
            tools,
            """
            import asyncio
            calls = [asyncio.ensure_future(tools.hang({"n": n})) for n in range(2)]
            await asyncio.sleep(0.05)
            return "over"
            """,
        )
        assert ended == ["outer:code:1"]
        assert [signal.aborted for signal in signals] == [True]
    assert result.value == {"logs": [], "result": "over"}
    assert [(call.call_id, call.outcome) for call in result.calls] == [
        ("outer:code:1", "cancelled"),
        ("outer:code:2", "abandoned"),
    ]
    assert [type(event) for event in events] == [CallStarted, CallSettled]
    settled = events[1]
    assert isinstance(settled, CallSettled)
    assert (settled.outcome, settled.reply.error) == (
        "cancelled",
        "Cannot call hang: the run is over, expected a call before its end",
    )


async def test_call_of_a_tool_that_has_gone_is_refused() -> None:
    """CM-070, CM-082: the program keeps the names that it started with."""
    async with open_tools() as tools:
        remove = tools.register(Stage("read").tool)

        def take_away(arguments: Mapping[str, object]) -> object:
            remove()
            tools.register(Stage("late").tool)
            return None

        tools.register(Tool("take_away", "", {}, call=take_away))
        result = await run_program(
            tools,
            """
            await tools.take_away({})
            print(hasattr(tools, "late"))
            await tools.read({"n": 1})
            """,
        )
    assert result.text.split("\n")[3:] == [
        "ToolCallError: Cannot call read: the tool is no longer registered, expected one that is",
        "",
        "Captured output:",
        "False",
        "",
        "Tool calls of the program until then; do not repeat what must happen only once:",
        "1. take_away({}) finished",
        '2. read({"n":1}) failed',
    ]


@pytest.mark.parametrize("language", ["typescript"])
async def test_typescript_program_sees_the_same_rules(language: str) -> None:
    """CM-057, CM-069: order, error class and its property."""
    stage = Stage("write")

    def fail(arguments: Mapping[str, object]) -> object:
        raise ValueError("not today")

    async with open_tools(stage.tool, Tool("fail", "", {}, call=fail), language=language) as tools:
        result = await run_program(
            tools,
            """
            const values = await Promise.all([1, 2, 3].map((n) => tools.write({ n })));
            try {
              await tools.fail({});
            } catch (error) {
              if (!(error instanceof ToolCallError)) throw error;
              console.log(error.name, error.toolName, error.message);
            }
            return values;
            """,
        )
    assert result.value == {"logs": ["ToolCallError fail not today"], "result": [1, 2, 3]}
    assert stage.steps == ["+1", "-1", "+2", "-2", "+3", "-3"]


@pytest.mark.parametrize("language", LANGUAGES)
async def test_small_call_does_not_overtake_a_large_one(language: str) -> None:
    """CM-063: though the argument of a large one is decoded in a thread."""
    numbers: list[object] = []
    tool = Tool("take", "", {}, call=lambda arguments: numbers.append(arguments["n"]))
    programs = {
        "python": """
            import asyncio
            sizes = [10 if n % 3 else 200_000 for n in range(12)]
            await asyncio.gather(*(tools.take({"n": n, "s": "x" * s}) for n, s in enumerate(sizes)))
            raise SystemExit
            """,
        "typescript": """
            const sizes = Array.from({ length: 12 }, (_, n) => (n % 3 ? 10 : 200_000));
            await Promise.all(sizes.map((size, n) => tools.take({ n, s: "x".repeat(size) })));
            throw new Error("end");
            """,
    }
    async with open_tools(tool, language=language) as tools:
        result = await run_program(tools, programs[language])
    assert numbers == list(range(12))
    listed = [line for line in result.text.split("\n") if ". take(" in line]
    assert [line.partition(',"s')[0] for line in listed] == [
        f'{n + 1}. take({{"n":{n}' for n in range(12)
    ]
