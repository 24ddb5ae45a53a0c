"""Spans for OpenTelemetry, when its API package is installed; nothing otherwise.

Names and attributes follow the semantic conventions of OpenTelemetry for the execution of tools.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol, final

if TYPE_CHECKING:
    from opentelemetry.context import Context as SpanContext
    from opentelemetry.trace import Span

    from ._hooks import ToolCall


class CallSpan(Protocol):
    """The span of one call."""

    def end_with(self, error: str | None) -> None:
        """Note how the call ended."""


@final
class _NoSpan:
    __slots__ = ()

    def end_with(self, error: str | None) -> None:
        """Note nothing."""


@final
class _Span:
    __slots__ = ("_span",)

    def __init__(self, span: Span) -> None:
        self._span = span

    def end_with(self, error: str | None) -> None:
        """Mark the span as failed when the call did."""
        if error is not None:
            from opentelemetry.trace import Status, StatusCode

            self._span.set_attribute("error.type", "tool_error")
            self._span.set_status(Status(StatusCode.ERROR, error[:1_000]))


def current_span() -> SpanContext | None:
    """Return what is needed to make the span in progress the parent of others; None for none.

    The calls of a program run in tasks that have not inherited it.
    """
    try:
        from opentelemetry import trace
    except ImportError:
        return None
    return trace.set_span_in_context(trace.get_current_span())


@contextmanager
def call_span(call: ToolCall, parent: SpanContext | None = None) -> Iterator[CallSpan]:
    """Be inside the span of a call.

    Args:
        call: The call.
        parent: What `current_span` gave in the call that this one belongs to.
    """
    try:
        from opentelemetry import trace
    except ImportError:
        yield _NoSpan()
        return
    attributes = {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": call.name,
        "gen_ai.tool.call.id": call.call_id,
    }
    tracer = trace.get_tracer("code_mode")
    name = f"execute_tool {call.name}"
    with tracer.start_as_current_span(name, parent, attributes=attributes) as span:
        yield _Span(span)
