"""Spans of OpenTelemetry: one for each run of a program, and one below it for each call."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from code_mode_host import open_tools, run_program
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from code_mode import Tool

pytestmark = pytest.mark.anyio


@pytest.fixture
def exporter(monkeypatch: pytest.MonkeyPatch) -> Iterator[InMemorySpanExporter]:
    """Collect the spans of one test; the provider of a process can be set only once."""
    exporter = InMemorySpanExporter()
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(trace, "_TRACER_PROVIDER", provider)
    yield exporter
    provider.shutdown()


async def test_calls_are_spans_below_the_span_of_their_program(
    exporter: InMemorySpanExporter,
) -> None:
    def work(arguments: object) -> None:
        # What a tool does by itself belongs to its call.
        with trace.get_tracer("test").start_as_current_span("inside"):
            pass

    def fail(arguments: object) -> None:
        raise ValueError("broken")

    with trace.get_tracer("test").start_as_current_span("turn"):
        async with open_tools(
            Tool("work", "", {}, call=work), Tool("fail", "", {}, call=fail)
        ) as tools:
            await run_program(tools, "await tools.work({})\nawait tools.fail({})")
    spans = {span.name: span for span in exporter.get_finished_spans()}
    ids = {span.context.span_id: name for name, span in spans.items() if span.context}
    parents = {name: ids.get(span.parent.span_id) for name, span in spans.items() if span.parent}
    assert parents == {
        "inside": "execute_tool work",
        "execute_tool work": "execute_tool run_code",
        "execute_tool fail": "execute_tool run_code",
        "execute_tool run_code": "turn",
    }
    assert dict(spans["execute_tool work"].attributes or {}) == {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "work",
        "gen_ai.tool.call.id": "outer:code:1",
    }
    assert spans["execute_tool fail"].status.description == "broken"
    assert spans["execute_tool run_code"].status.is_ok is False
    assert spans["execute_tool work"].status.is_ok is True
