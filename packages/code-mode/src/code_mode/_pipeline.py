"""What happens to one call, of a program or of the model: hooks, check, tool, check, hooks."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final, final

import anyio

from code_runtime.provider_kit import LosslessJsonError

from ._cancel import signal_within, watch_cancellation
from ._errors import ToolError
from ._hooks import CallEvent, Deny, Proceed, ToolCall, ToolHooks, ToolReply
from ._telemetry import call_span
from ._tools import Tool, ToolContext, ToolOutput
from ._validation import ToolValidator, check_json

if TYPE_CHECKING:
    from opentelemetry.context import Context as SpanContext

    from code_runtime import AbortSignal

    from ._tools import JsonObject

MAX_ERROR_CHARS: Final = 100_000
_logger: Final = logging.getLogger("code_mode")


@final
class ToolPipeline:
    """Takes calls through their stages.

    Args:
        hooks: What sees each call.
        find_validator: Gives the validator of a tool, or None when the tool is no longer
            registered.
        timeout_ms: How long a tool may take, unless it says so itself.
        on_event: Told of the calls of programs.
    """

    __slots__ = ("_find_validator", "_hooks", "_on_event", "_timeout_ms")

    def __init__(
        self,
        hooks: Sequence[ToolHooks],
        find_validator: Callable[[Tool], ToolValidator | None],
        timeout_ms: float | None,
        on_event: Callable[[CallEvent], object] | None,
    ) -> None:
        self._hooks = tuple(hooks)
        self._find_validator = find_validator
        self._timeout_ms = timeout_ms
        self._on_event = on_event

    @property
    def has_hooks(self) -> bool:
        """Whether anything looks at replies."""
        return bool(self._hooks)

    @property
    def tells_events(self) -> bool:
        """Whether anybody wants to know of the calls of programs."""
        return self._on_event is not None

    def may_overlap(self, tool: Tool, arguments: JsonObject) -> bool:
        """Tell whether a call may overlap others; a rule that fails says no (CM-063)."""
        rule = tool.parallel
        if not callable(rule):
            return rule
        try:
            return rule(arguments) is True
        except Exception:
            return False

    def tell(self, event: CallEvent) -> None:
        """Hand an event to the host; what that raises changes nothing (CM-075)."""
        if self._on_event is not None:
            try:
                self._on_event(event)
            except Exception:
                _logger.exception("on_event raised for call %s", event.call_id)

    async def decide(self, call: ToolCall) -> ToolCall | ToolReply:
        """Let the hooks decide on a call; a reply means that the tool is not to be called."""
        for hooks in self._hooks:
            try:
                decision = await _value_of(partial(hooks.before, call))
            except Exception as error:
                return ToolReply(error=error_text(error))
            if isinstance(decision, Deny):
                return ToolReply(error=f"Cannot call {call.name}: {decision.reason}")
            if isinstance(decision, ToolReply):
                return decision
            if isinstance(decision, Proceed):
                given: object = decision.arguments
                if not isinstance(given, Mapping):
                    seen = "a hook has given arguments that are no object"
                    return ToolReply(error=f"Cannot call {call.name}: {seen}, expected a mapping")
                arguments = dict(given)
                call = ToolCall(call.name, arguments, call.call_id, call.parent_id, call.signal)
            elif decision is not None:
                # A policy that has slipped must not let the call through.
                return ToolReply(
                    error=f"Cannot call {call.name}: a hook has decided {type(decision).__name__}, "
                    "expected Deny, Proceed, ToolReply or None"
                )
        return call

    async def find_check(self, tool: Tool, arguments: object) -> ToolValidator | str:
        """Return what checks the result of a call; of one that cannot be made, why."""
        validator = self._find_validator(tool)
        if validator is None:
            seen = "the tool is no longer registered"
            return f"Cannot call {tool.name}: {seen}, expected one that is"
        fault = await validator.find_input_fault(arguments)
        if fault is None:
            return validator
        return f"Cannot call {tool.name}: {fault}, expected what its input schema allows"

    async def execute(
        self,
        tool: Tool,
        check: ToolValidator,
        call: ToolCall,
        log: Callable[[str], None],
        parent: SpanContext | None = None,
    ) -> ToolReply:
        """Call the tool; whatever it raises is a failed reply.

        Args:
            tool: The tool.
            check: What `find_check` gave; it counts even if the tool is taken away meanwhile.
            call: The call, as `decide` gave it.
            log: Takes live lines of the tool.
            parent: The span that the call belongs to.
        """
        timeout_ms = self._timeout_ms if tool.timeout_ms is None else tool.timeout_ms
        timeout_s = None if timeout_ms is None else timeout_ms / 1_000
        with call_span(call, parent) as span:
            reply: ToolReply | None = None
            seen = f"no result after {timeout_ms or 0:g} ms"
            late = f"Cannot finish {tool.name}: {seen}, expected one within that time"
            with anyio.move_on_after(timeout_s) as scope:
                if timeout_s is None or not tool.takes_context:
                    reply = await self._call(tool, check, call, call.signal, log)
                else:
                    async with signal_within(scope, call.signal, late) as signal:
                        reply = await self._call(tool, check, call, signal, log)
            if reply is None:
                reply = ToolReply(error=late)
            span.end_with(reply.error)
            return reply

    async def conclude(self, call: ToolCall, reply: ToolReply) -> ToolReply:
        """Let the hooks look at a reply."""
        for hooks in reversed(self._hooks):
            try:
                replaced = await _value_of(partial(hooks.after, call, reply))
            except Exception as error:
                reply = ToolReply(error=error_text(error))
            else:
                reply = replaced if isinstance(replaced, ToolReply) else reply
        return reply

    async def check_value(self, name: str, reply: ToolReply) -> ToolReply:
        """Return a reply; a failed one in place of one whose value is no JSON."""
        if reply.error is not None:
            return reply
        try:
            await check_json(reply.value)
        except LosslessJsonError as error:
            return ToolReply(error=f"Cannot use the result of {name}: {error}, expected JSON")
        return reply

    async def _call(
        self,
        tool: Tool,
        check: ToolValidator,
        call: ToolCall,
        signal: AbortSignal,
        log: Callable[[str], None],
    ) -> ToolReply:
        context = ToolContext(call.name, call.call_id, signal, log)
        try:
            arguments = (call.arguments, context) if tool.takes_context else (call.arguments,)
            value = await _value_of(partial(tool.call, *arguments))
        except Exception as error:
            return ToolReply(error=error_text(error))
        output = value if isinstance(value, ToolOutput) else ToolOutput(value)
        attachments = output.attachments
        if not (
            isinstance(attachments, Sequence)
            and all(isinstance(block, Mapping) for block in attachments)
        ):
            seen = "its attachments are no list of content blocks"
            text = f"Cannot use the result of {tool.name}: {seen}, expected JSON objects"
            return ToolReply(error=text)
        fault = await check.find_output_fault(output.value)
        if fault is not None:
            text = f"Cannot use the result of {tool.name}: {fault}, expected its output schema"
            return ToolReply(error=text)
        return ToolReply(output.value, attachments=tuple(attachments))


async def _value_of(function: Callable[[], object]) -> object:
    """Call a function and await what it gives.

    Raises:
        ToolError: It has raised a cancellation that nobody asked for, which is a failure like any.
    """
    is_cancelled = watch_cancellation()
    try:
        value = function()
        return await value if inspect.isawaitable(value) else value
    except anyio.get_cancelled_exc_class() as error:
        if is_cancelled():
            raise
        raise ToolError(error_text(error)) from error


def error_text(error: BaseException) -> str:
    """Return the text of a failure for a program or a model; never empty."""
    try:
        text = str(error)
    except Exception:
        text = ""
    if not text.strip():
        text = type(error).__name__
    return text if len(text) <= MAX_ERROR_CHARS else text[: MAX_ERROR_CHARS - 1] + "…"
