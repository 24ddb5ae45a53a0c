"""What the content blocks of an MCP result become."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from mcp_types import CallToolResult

from code_mode import ToolContext, ToolOutput
from code_mode._errors import ToolError
from code_mode._mcp.progress import CallLog
from code_mode._mcp.results import read_result
from code_runtime import AbortSignal

TEXT = {"type": "text", "text": "a"}
IMAGE = {"type": "image", "data": "AAAA", "mimeType": "image/png"}
SOUND = {"type": "audio", "data": "AAAA", "mimeType": "audio/wav"}
LINK = {"type": "resource_link", "name": "n", "uri": "file:///n"}
BLOB = {"type": "resource", "resource": {"uri": "file:///b", "blob": "AAAA"}}
FILE = {"type": "resource", "resource": {"uri": "file:///t", "text": "t"}}


def read(*content: Mapping[str, object], **fields: object) -> ToolOutput:
    return read_result(CallToolResult.model_validate({"content": list(content), **fields}))


@pytest.mark.parametrize(
    ("content", "value", "attachments"),
    [
        ([], "", ()),
        ([TEXT, {"type": "text", "text": '{"b": 1}'}], 'a\n{"b": 1}', ()),
        ([TEXT, IMAGE, TEXT], "a\na", (IMAGE,)),
        ([TEXT, FILE], "a\nt", ()),
        ([IMAGE, SOUND], "[image image/png]\n[audio audio/wav]", (IMAGE, SOUND)),
        ([LINK, BLOB], "[link file:///n]\n[resource file:///b]", (LINK, BLOB)),
    ],
    ids=["nothing", "texts", "text and image", "text resource", "images", "links"],
)
def test_texts_are_the_value_and_other_blocks_are_attached(
    content: list[dict[str, object]], value: str, attachments: tuple[object, ...]
) -> None:
    assert read(*content) == ToolOutput(value, attachments)  # type: ignore[arg-type]


@pytest.mark.parametrize("structure", [{"a": 1}, [1], 0, False, ""])
def test_structured_content_is_the_value(structure: object) -> None:
    assert read(TEXT, IMAGE, structuredContent=structure) == ToolOutput(structure, (IMAGE,))


def test_null_is_a_value_only_without_content() -> None:
    assert read(structuredContent=None) == ToolOutput(None)
    assert read(TEXT, structuredContent=None) == ToolOutput("a")


@pytest.mark.parametrize(
    ("content", "fields", "text"),
    [
        ([TEXT, IMAGE, TEXT], {}, "a\na"),
        ([], {"structuredContent": {"code": 7}}, '{"code": 7}'),
        ([{"type": "text", "text": " \n"}], {}, "The tool failed and did not say why"),
    ],
)
def test_failure_has_the_text_of_the_tool(
    content: list[dict[str, object]], fields: dict[str, object], text: str
) -> None:
    with pytest.raises(ToolError) as caught:
        read(*content, isError=True, **fields)
    assert str(caught.value) == text


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("progress", "total", "message", "line"),
    [
        (3.0, 10.0, "half\n done", "[t] 3/10 half done"),
        (0.5, None, None, "[t] 0.5"),
        (1e20, None, "x" * 600, "[t] 1e+20 " + "x" * 494),
        (float("nan"), None, "never", None),
    ],
)
async def test_progress_becomes_one_line(
    progress: float, total: float | None, message: str | None, line: str | None
) -> None:
    lines: list[str] = []
    log = CallLog(ToolContext("t", "call_1", AbortSignal(), lines.append))
    await log.progress(progress, total, message)
    await log.progress(progress, total, message)  # nothing new
    log.message({"a": [1]})
    log.message(object())
    rest = ['[t] {"a": [1]}', "[t] something that is not JSON"]
    assert lines == ([] if line is None else [line]) + rest
