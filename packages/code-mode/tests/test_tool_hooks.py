"""Hooks decide on calls and look at what they gave."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from code_mode_host import open_tools, run_program

from code_mode import (
    CallEvent,
    CallSettled,
    CallStarted,
    Decision,
    Deny,
    Proceed,
    Tool,
    ToolCall,
    ToolHooks,
    ToolReply,
)

pytestmark = pytest.mark.anyio


def _echo(arguments: Mapping[str, object]) -> object:
    return dict(arguments)


ECHO = Tool("echo", "", {"properties": {"n": {"type": "integer"}}}, call=_echo)
CALL = 'return await tools.echo({"n": 1})'
CATCH = """
try:
    return await tools.echo({"n": 1})
except ToolCallError as error:
    print(error)
"""


class Decide(ToolHooks):
    """Gives one decision on every call of one tool."""

    def __init__(self, decision: Decision | Exception, name: str = "echo") -> None:
        self.seen: list[ToolCall] = []
        self.replies: list[ToolReply] = []
        self._decision = decision
        self._name = name

    async def before(self, call: ToolCall) -> Decision:
        if call.name != self._name:
            return None
        self.seen.append(call)
        if isinstance(self._decision, Exception):
            raise self._decision
        return self._decision

    async def after(self, call: ToolCall, reply: ToolReply) -> None:
        if call.name == self._name:
            self.replies.append(reply)


async def test_denied_call_is_a_failure_that_the_program_may_catch() -> None:
    """CM-070."""
    events: list[CallEvent] = []
    policy = Decide(Deny("it is Sunday"))
    async with open_tools(ECHO, hooks=[policy], on_event=events.append) as tools:
        result = await run_program(tools, CATCH)
    assert result.text == "Cannot call echo: it is Sunday"
    assert [call.outcome for call in result.calls] == ["denied"]
    assert policy.replies == []
    ids = ("outer:code:1", "outer", "echo", '{"n":1}')
    reply = ToolReply(error="Cannot call echo: it is Sunday")
    assert events == [CallStarted(*ids), CallSettled(*ids, "denied", reply)]


async def test_hook_that_raises_ends_the_call_without_tool_and_second_half() -> None:
    """CM-071: its settle event comes all the same."""
    events: list[CallEvent] = []
    policy = Decide(ValueError("broken policy"))
    async with open_tools(ECHO, hooks=[policy], on_event=events.append) as tools:
        result = await run_program(tools, CATCH)
    assert result.text == "broken policy"
    assert policy.replies == []
    assert [type(event) for event in events] == [CallStarted, CallSettled]


@pytest.mark.parametrize("decision", [False, Deny, "deny"])
async def test_decision_that_is_none_refuses_the_call(decision: object) -> None:
    policy = Decide(decision)  # type: ignore[arg-type]
    async with open_tools(ECHO, hooks=[policy]) as tools:
        result = await run_program(tools, CATCH)
    assert result.text == (
        f"Cannot call echo: a hook has decided {type(decision).__name__}, "
        "expected Deny, Proceed, ToolReply or None"
    )
    assert [call.outcome for call in result.calls] == ["denied"]


async def test_hook_answers_in_place_of_the_tool() -> None:
    async with open_tools(ECHO, hooks=[Decide(ToolReply({"cached": True}))]) as tools:
        result = await run_program(tools, CALL)
    assert result.value == {"logs": [], "result": {"cached": True}}
    assert [call.outcome for call in result.calls] == ["ok"]


async def test_hook_changes_arguments_which_are_checked_then() -> None:
    async with open_tools(ECHO, hooks=[Decide(Proceed({"n": 2}))]) as tools:
        good = await run_program(tools, CALL)
    async with open_tools(ECHO, hooks=[Decide(Proceed({"n": "x"}))]) as tools:
        bad = await run_program(tools, CATCH)
    assert good.value == {"logs": [], "result": {"n": 2}}
    assert bad.text == (
        "Cannot call echo: $.n: 'x' is not of type 'integer', expected what its input schema allows"
    )


async def test_hooks_stand_around_each_other() -> None:
    """The first one decides first and sees the reply last."""
    steps: list[str] = []

    class Wrap(ToolHooks):
        def __init__(self, name: str) -> None:
            self._name = name

        async def before(self, call: ToolCall) -> None:
            steps.append(f"{self._name} before {call.name}")

        async def after(self, call: ToolCall, reply: ToolReply) -> ToolReply:
            steps.append(f"{self._name} after {call.name}")
            return ToolReply([reply.value, self._name], text=reply.text)

    async with open_tools(ECHO, hooks=[Wrap("a"), Wrap("b")]) as tools:
        result = await run_program(tools, CALL)
    assert steps == [
        "a before run_code",
        "b before run_code",
        "a before echo",
        "b before echo",
        "b after echo",
        "a after echo",
        "b after run_code",
        "a after run_code",
    ]
    assert result.value == [[{"logs": [], "result": [[{"n": 1}, "b"], "a"]}, "b"], "a"]


async def test_second_half_that_raises_fails_the_call() -> None:
    class Broken(ToolHooks):
        async def after(self, call: ToolCall, reply: ToolReply) -> None:
            if call.name == "echo":
                raise ValueError("cannot read the reply")

    async with open_tools(ECHO, hooks=[Broken()]) as tools:
        result = await run_program(tools, CATCH)
    assert result.text == "cannot read the reply"
    assert [call.outcome for call in result.calls] == ["error"]


async def test_hooks_see_the_program_before_it_runs_and_may_replace_its_text() -> None:
    """CM-025: the call of run_code goes the same way as all others."""

    class Spill(ToolHooks):
        async def before(self, call: ToolCall) -> Decision:
            if call.name == "run_code" and "rm -rf" in str(call.arguments["code"]):
                return Deny("the program deletes files")
            return None

        async def after(self, call: ToolCall, reply: ToolReply) -> ToolReply | None:
            if call.parent_id is None and len(reply.text or "") > 10:
                return ToolReply(reply.value, text="too long, see out.txt")
            return None

    async with open_tools(hooks=[Spill()]) as tools:
        denied = await run_program(tools, "print('rm -rf /')")
        spilled = await run_program(tools, "print('x' * 100)")
    assert (denied.text, denied.error_code) == (
        "Error: Cannot call run_code: the program deletes files",
        "DENIED",
    )
    assert (spilled.text, spilled.value) == ("too long, see out.txt", {"logs": ["x" * 100]})


async def test_hooks_know_whose_call_it_is() -> None:
    """CM-062."""
    inner, outer = Decide(None), Decide(None, "run_code")
    async with open_tools(ECHO, hooks=[inner, outer]) as tools:
        await run_program(tools, CALL)
    assert [(call.call_id, call.parent_id) for call in inner.seen] == [("outer:code:1", "outer")]
    assert [(call.call_id, call.parent_id) for call in outer.seen] == [("outer", None)]
    assert inner.seen[0].signal is outer.seen[0].signal
    assert inner.seen[0].signal.aborted
