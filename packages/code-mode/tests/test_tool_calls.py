"""How a call of the model goes: its live lines, its end before the end, what comes back of it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Mapping

import anyio
import anyio.lowlevel
import anyio.to_thread
import pytest
from code_mode_host import open_tools, run_program

from code_mode import (
    CallEvent,
    CallSettled,
    Tool,
    ToolCall,
    ToolContext,
    ToolHooks,
    ToolOutput,
    ToolReply,
    ToolResult,
    tool,
)
from code_mode._tools import ToolFunction
from code_runtime import AbortSignal

pytestmark = pytest.mark.anyio
HANG = "await tools.hang({})"
PATIENCE_S = 30.0


@tool
async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


async def test_live_lines_come_while_the_program_runs() -> None:
    lines: list[str] = []
    arrived = anyio.Event()

    def on_log(line: str) -> None:
        lines.append(line)
        arrived.set()

    async def wait(arguments: Mapping[str, object]) -> object:
        await arrived.wait()
        return None

    async with open_tools(Tool("wait", "", {}, call=wait)) as tools:
        result = await run_program(tools, 'print("one")\nawait tools.wait({})', on_log=on_log)
    assert lines == ["one"]
    assert result.text == "one"


async def test_fault_of_the_log_function_is_raised_after_the_run() -> None:
    def fail(line: str) -> None:
        raise LookupError("closed")

    async with open_tools() as tools:
        with pytest.raises(LookupError, match=r"^closed$"):
            await run_program(tools, 'print("one")', on_log=fail)


async def test_after_hooks_see_the_program_though_the_log_function_has_raised() -> None:
    replies: list[tuple[str, object]] = []

    class Audit(ToolHooks):
        async def after(self, call: ToolCall, reply: ToolReply) -> None:
            replies.append((call.name, reply.value))

    def fail(line: str) -> None:
        raise LookupError("closed")

    async with open_tools(hooks=[Audit()]) as tools:
        with pytest.raises(LookupError, match=r"^closed$"):
            await run_program(tools, 'print("one")', on_log=fail)
    assert replies == [("run_code", {"logs": ["one"]})]


async def test_aborted_call_starts_nothing_or_ends_what_it_started() -> None:
    """CM-088."""
    before, during = AbortSignal(), AbortSignal()
    before.abort()
    called: list[object] = []
    stop = Tool("stop", "", {}, call=lambda arguments: during.abort("enough"))
    async with open_tools(stop, Tool("late", "", {}, call=called.append)) as tools:
        early = await run_program(tools, "await tools.late({})", signal=before)
        late = await run_program(
            tools, "await tools.stop({})\nwhile True:\n    pass", signal=during
        )
    assert early == ToolResult(
        "Error: the call was aborted before it was started", is_error=True, error_code="ABORTED"
    )
    assert late == ToolResult(
        "Error: the call was aborted", is_error=True, error_code="ABORTED", calls=late.calls
    )
    assert [(call.call_id, call.outcome) for call in late.calls] == [("outer:code:1", "ok")]
    assert called == []


async def test_aborted_program_has_the_records_of_its_calls_until_then() -> None:
    """CM-088: the model's host has to know what may have had effects."""
    signal = AbortSignal()

    async def hang(arguments: Mapping[str, object]) -> object:
        signal.abort("enough")
        await anyio.sleep_forever()
        return None

    async with open_tools(add, Tool("hang", "", {}, call=hang)) as tools:
        result = await run_program(
            tools,
            """
            await tools.add({"a": 1, "b": 2})
            await tools.hang({})
            """,
            signal=signal,
        )
    assert (result.text, result.error_code) == ("Error: the call was aborted", "ABORTED")
    assert [(call.tool_name, call.outcome) for call in result.calls] == [
        ("add", "ok"),
        ("hang", "cancelled"),
    ]


async def test_aborted_call_of_the_model_itself_ends_its_tool() -> None:
    signal = AbortSignal()
    ended: list[str] = []

    async def hang(arguments: Mapping[str, object]) -> object:
        signal.abort("enough")
        try:
            await anyio.sleep_forever()
        finally:
            ended.append("hang")
        return None

    async with open_tools(Tool("hang", "", {}, call=hang), mode="native") as tools:
        result = await tools.call("hang", {}, signal=signal)
    assert result == ToolResult("Error: the call was aborted", is_error=True, error_code="ABORTED")
    assert ended == ["hang"]


async def test_result_that_is_no_json_or_has_odd_attachments_is_a_failure() -> None:
    odd = Tool("odd", "", {}, call=lambda arguments: {1})
    block = Tool("block", "", {}, call=lambda arguments: ToolOutput(1, ["text"]))  # type: ignore[list-item]
    async with open_tools(odd, block, mode="native") as tools:
        results = [await tools.call(name, {}) for name in ("odd", "block")]
    assert [result.text for result in results] == [
        "Error: Cannot use the result: $: set is not JSON, expected JSON",
        "Error: Cannot use the result of block: its attachments are no list of content blocks, "
        "expected JSON objects",
    ]


async def test_abort_ends_the_wait_for_an_approval() -> None:
    signal = AbortSignal()

    class Approval(ToolHooks):
        async def before(self, call: ToolCall) -> None:
            signal.abort("never mind")
            await anyio.sleep_forever()

    async with open_tools(add, mode="native", hooks=[Approval()]) as tools:
        with anyio.fail_after(10):
            result = await tools.call("add", {"a": 1, "b": 2}, signal=signal)
    assert result.error_code == "ABORTED"


async def test_cancelled_call_ends_the_program_and_its_tools() -> None:
    """CM-073."""
    begun, ended = anyio.Event(), anyio.Event()

    async def hang(arguments: Mapping[str, object]) -> object:
        begun.set()
        try:
            await anyio.sleep_forever()
        finally:
            ended.set()
        return None

    async with open_tools(Tool("hang", "", {}, call=hang)) as tools:
        async with anyio.create_task_group() as group:
            group.start_soon(run_program, tools, "await tools.hang({})")
            await begun.wait()
            group.cancel_scope.cancel()
        assert ended.is_set()


def _cancelled_future() -> asyncio.Future[object]:
    future: asyncio.Future[object] = asyncio.get_running_loop().create_future()
    future.cancel()
    return future


async def _raise_cancelled(arguments: Mapping[str, object]) -> object:
    raise asyncio.CancelledError


@pytest.mark.parametrize("anyio_backend", ["asyncio"], indirect=True)
@pytest.mark.parametrize(
    "call",
    [_raise_cancelled, lambda arguments: _cancelled_future()],
    ids=["raised", "awaited"],
)
async def test_cancellation_that_nobody_asked_for_is_a_failure_of_the_tool(
    call: ToolFunction, anyio_backend_name: str
) -> None:
    """CM-070: trio lets nobody raise its own."""
    events: list[CallEvent] = []
    odd = Tool("odd", "", {}, call=call)
    async with open_tools(odd, add, mode="both", on_event=events.append) as tools:
        native = await tools.call("odd", {})
        result = await run_program(
            tools,
            """
            try:
                await tools.odd({})
            except ToolCallError as error:
                print(error)
            return await tools.add({"a": 1, "b": 2})
            """,
        )
    assert native == ToolResult("Error: CancelledError", is_error=True, error_code="TOOL_FAILED")
    assert result.text == "CancelledError\n3"
    assert [call.outcome for call in result.calls] == ["error", "ok"]
    settled = [event for event in events if isinstance(event, CallSettled)]
    assert [event.outcome for event in settled] == ["error", "ok"]


@pytest.mark.parametrize("anyio_backend", ["asyncio"], indirect=True)
async def test_cancellation_that_nobody_asked_for_is_a_failure_of_the_hook(
    anyio_backend_name: str,
) -> None:
    """CM-071."""

    class Odd(ToolHooks):
        async def before(self, call: ToolCall) -> None:
            if call.arguments["a"] == 1:
                raise asyncio.CancelledError

        async def after(self, call: ToolCall, reply: ToolReply) -> None:
            raise asyncio.CancelledError

    async with open_tools(add, mode="native", hooks=[Odd()]) as tools:
        before = await tools.call("add", {"a": 1, "b": 2})
        after = await tools.call("add", {"a": 2, "b": 2})
    assert (before.text, before.error_code) == ("Error: CancelledError", "DENIED")
    assert (after.text, after.error_code) == ("Error: CancelledError", "TOOL_FAILED")


@pytest.mark.parametrize("anyio_backend", ["asyncio"], indirect=True)
@pytest.mark.parametrize("mode", ["code", "native"])
async def test_cancelled_task_of_asyncio_stays_cancelled(
    mode: str, anyio_backend_name: str
) -> None:
    """CM-073: also without a scope of anyio."""
    begun = asyncio.Event()

    async def hang(arguments: Mapping[str, object]) -> object:
        begun.set()
        await anyio.sleep_forever()
        return None

    async with open_tools(Tool("hang", "", {}, call=hang), mode=mode) as tools:
        call = tools.call("hang", {}) if mode == "native" else run_program(tools, HANG)
        task = asyncio.ensure_future(call)
        await begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert task.cancelled()


async def test_plain_function_runs_on_the_event_loop() -> None:
    """Nothing of a host has to be safe for threads."""

    @tool
    def made() -> bool:
        return threading.get_ident() == own

    own = threading.get_ident()
    plain = Tool("plain", "", {}, call=lambda arguments: threading.get_ident() == own)
    async with open_tools(made, plain, mode="both") as tools:
        native = [(await tools.call(name, {})).value for name in ("made", "plain")]
        result = await run_program(tools, "return [await tools.made({}), await tools.plain({})]")
    assert native == [True, True]
    assert result.value == {"logs": [], "result": [True, True]}


@pytest.mark.parametrize("limit", ["tool", "registry"])
async def test_signal_fires_at_the_limit_of_the_call_itself(limit: str) -> None:
    """A tool that works in a thread learns in no other way that nobody waits for it."""
    signals: list[AbortSignal] = []
    gone = threading.Event()

    async def work(arguments: Mapping[str, object], context: ToolContext) -> object:
        signals.append(context.signal)
        context.signal.add_listener(gone.set)
        was_told = await anyio.to_thread.run_sync(gone.wait, PATIENCE_S)
        await anyio.lowlevel.checkpoint()  # cancelled here, but not before the thread has ended
        return was_told

    own, common = (20, None) if limit == "tool" else (None, 20)
    tool = Tool("work", "", {}, call=work, takes_context=True, timeout_ms=own)
    quick = Tool("quick", "", {}, call=lambda a, c: signals.append(c.signal), takes_context=True)
    async with open_tools(tool, quick, mode="native", call_timeout_ms=common) as tools:
        result = await tools.call("work", {})
        await tools.call("quick", {})
    text = "Cannot finish work: no result after 20 ms, expected one within that time"
    assert result == ToolResult(f"Error: {text}", is_error=True, error_code="TOOL_FAILED")
    assert [signal.reason for signal in signals] == [text, "the call is over"]


async def test_signal_of_a_call_with_a_limit_follows_that_of_the_run() -> None:
    """CM-058: also for what outlives the call."""
    signals: list[AbortSignal] = []
    states: list[bool] = []

    def note(arguments: Mapping[str, object], context: ToolContext) -> None:
        signals.append(context.signal)
        states.extend(signal.aborted for signal in signals)

    tool = Tool("note", "", {}, call=note, takes_context=True, timeout_ms=60_000)
    async with open_tools(tool) as tools:
        await run_program(tools, "await tools.note({})\nawait tools.note({})")
    assert states == [False, False, False]
    assert [signal.reason for signal in signals] == ["the run is over"] * 2


class Halt(BaseException):
    """What no tool should raise, and nobody may lose."""


async def test_exception_for_the_host_leaves_a_call_with_a_limit_as_it_is() -> None:
    def halt(arguments: Mapping[str, object], context: ToolContext) -> object:
        raise Halt

    tool = Tool("halt", "", {}, call=halt, takes_context=True, timeout_ms=60_000)
    async with open_tools(tool, mode="native") as tools:
        with pytest.raises(Halt):
            await tools.call("halt", {})


async def test_result_is_checked_though_the_tool_has_gone_meanwhile() -> None:
    removers: list[Callable[[], None]] = []

    def leave(arguments: Mapping[str, object]) -> object:
        removers.pop()()
        return 3

    async with open_tools(mode="both") as tools:
        results: list[str] = []
        for program in (None, "await tools.leave({})"):
            tool = Tool("leave", "", {}, {"type": "string"}, call=leave)
            removers.append(tools.register(tool))
            result = await (run_program(tools, program) if program else tools.call("leave", {}))
            results.append(result.text)
            assert tools.tools() == ()
    text = (
        "Cannot use the result of leave: $: 3 is not of type 'string', expected its output schema"
    )
    assert results[0] == f"Error: {text}"
    assert f"ToolCallError: {text}\n" in results[1]


@pytest.mark.parametrize("size", [1, 1_000])
async def test_result_that_is_no_json_is_recorded_as_the_failure_that_the_program_sees(
    size: int,
) -> None:
    events: list[CallEvent] = []
    odd = Tool("odd", "", {}, call=lambda arguments: [*range(1, size), {1}])
    async with open_tools(odd, on_event=events.append) as tools:
        result = await run_program(
            tools,
            """
            try:
                await tools.odd({})
            except ToolCallError as error:
                return str(error)
            """,
        )
    text = f"Cannot use the result of odd: $[{size - 1}]: set is not JSON, expected JSON"
    assert result.value == {"logs": [], "result": text}
    assert [call.outcome for call in result.calls] == ["error"]
    settled = events[1]
    assert isinstance(settled, CallSettled)
    assert (settled.outcome, settled.reply) == ("error", ToolReply(error=text))


@pytest.mark.parametrize("half", ["before", "after"])
async def test_reply_of_a_hook_that_is_no_json_is_recorded_as_a_failure(half: str) -> None:
    class Odd(ToolHooks):
        async def before(self, call: ToolCall) -> ToolReply | None:
            return ToolReply({1}) if half == "before" and call.name == "add" else None

        async def after(self, call: ToolCall, reply: ToolReply) -> ToolReply | None:
            return ToolReply({1}) if half == "after" and call.name == "add" else None

    async with open_tools(add, hooks=[Odd()]) as tools:
        result = await run_program(tools, 'await tools.add({"a": 1, "b": 2})')
    text = "Cannot use the result of add: $: set is not JSON, expected JSON"
    assert f"ToolCallError: {text}\n" in result.text
    assert [call.outcome for call in result.calls] == ["error"]


class Turns:
    """Counts the turns of the event loop that pass while something is awaited."""

    def __init__(self) -> None:
        self.count = 0

    async def run(self) -> None:
        while True:
            await anyio.sleep(0.001)
            self.count += 1


async def test_rendering_of_a_large_value_leaves_the_loop_to_others() -> None:
    """A value of many parts takes half a second to write, in a thread."""
    rows = [[number] for number in range(200_000)]
    turns = Turns()
    async with (
        open_tools(Tool("rows", "", {}, call=lambda arguments: rows), mode="native") as tools,
        anyio.create_task_group() as tasks,
    ):
        tasks.start_soon(turns.run)
        result = await tools.call("rows", {})
        tasks.cancel_scope.cancel()
    assert "characters left out" in result.text
    assert turns.count > 5
