"""What sees each call of a tool before and after it: policy, approval, audit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeAlias, final

from code_runtime import AbortSignal

from ._results import CallOutcome
from ._tools import JsonObject


@final
@dataclass(frozen=True, slots=True)
class ToolCall:
    """One call, as hooks see it.

    Args:
        name: The tool; `run_code` for a program as a whole.
        arguments: The arguments; of `run_code` the program and its description.
        call_id: Names the call.
        parent_id: The call of `run_code` whose program makes this one; None for a call of the
            model itself.
        signal: Fires when the call is no longer wanted.
    """

    name: str
    arguments: JsonObject
    call_id: str
    parent_id: str | None
    signal: AbortSignal


@final
@dataclass(frozen=True, slots=True)
class ToolReply:
    """How a call ended.

    Args:
        value: The JSON value of a call that succeeded.
        error: The text of a failure; None when it succeeded.
        attachments: Content blocks in the form of MCP that are for the model.
        text: What the model reads in place of the value; None for the value itself. A program
            never sees it.
    """

    value: object = None
    error: str | None = None
    attachments: Sequence[JsonObject] = ()
    text: str | None = None


@final
@dataclass(frozen=True, slots=True)
class Deny:
    """Refuse a call; the tool is not called.

    Args:
        reason: What the program, or the model, reads.
    """

    reason: str


@final
@dataclass(frozen=True, slots=True)
class Proceed:
    """Go on with other arguments, which are checked like the first ones.

    Args:
        arguments: The arguments.
    """

    arguments: JsonObject


Decision: TypeAlias = "Deny | Proceed | ToolReply | None"
"""None goes on; a `ToolReply` answers in place of the tool."""


class ToolHooks:
    """Base of what sees each call; a subclass overrides one method or both.

    The first half of calls never overlaps, and both halves come in the order of submission
    (CM-066, CM-067). A hook that raises an `Exception` ends that call with its text.
    """

    async def before(self, call: ToolCall) -> Decision:
        """Decide on a call before its arguments are checked and the tool is called.

        Args:
            call: The call, as the hooks before this one have left it.
        """
        return None

    async def after(self, call: ToolCall, reply: ToolReply) -> ToolReply | None:
        """Look at what a call gave; a reply takes the place of it, None leaves it.

        Args:
            call: The call, as the tool saw it.
            reply: What it gave, or what a hook behind this one has made of that.
        """
        return None


@final
@dataclass(frozen=True, slots=True)
class CallStarted:
    """A call of a program has been started (CM-074).

    Args:
        call_id: `<outer id>:code:<number>`.
        parent_id: The id of the call of `run_code`.
        tool_name: The tool.
        arguments_json: The arguments as JSON, from before any hook or tool saw them.
    """

    call_id: str
    parent_id: str
    tool_name: str
    arguments_json: str


@final
@dataclass(frozen=True, slots=True)
class CallSettled:
    """A call of a program that had been started is over; there is exactly one for each start.

    Args:
        call_id: As at its start.
        parent_id: As at its start.
        tool_name: As at its start.
        arguments_json: As at its start.
        outcome: `ok`, `error`, `denied` or `cancelled`.
        reply: What it gave.
    """

    call_id: str
    parent_id: str
    tool_name: str
    arguments_json: str
    outcome: CallOutcome
    reply: ToolReply = field(repr=False)


CallEvent: TypeAlias = "CallStarted | CallSettled"
