"""The list of a server's tools: bounded, and sifted, as the SDK refuses all for the sake of one."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Final, cast, final

from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCResponse, ListToolsResult
from mcp_types.methods import SERVER_RESULTS, validate_server_result
from pydantic import ValidationError

if TYPE_CHECKING:
    from mcp.client import Client
    from mcp.client._transport import ReadStream
    from mcp_types import Tool as McpTool

MAX_TOOLS: Final = 1_000
MAX_PAGES: Final = 100
MAX_TOOL_BYTES: Final = 262_144
MAX_LIST_BYTES: Final = 8_388_608
MAX_MISFITS: Final = 1_000
METHOD: Final = "tools/list"
# The SDK would check every result against the output schema, with whatever regular expression that
# holds and on the event loop; it is kept from it. The registry checks results, within bounds.
_OUTPUT_KEY: Final = "code-mode/outputSchema"
_SIZE_KEY: Final = "code-mode/bytes"


@final
@dataclass(frozen=True, slots=True)
class ListedTool:
    """A tool as its server describes it.

    Args:
        name: The server's name for it.
        description: What it does.
        input_schema: The JSON Schema of its arguments.
        output_schema: The JSON Schema of its structured content; None when there is none.
        is_read_only: Whether it says that it changes nothing.
    """

    name: str
    description: str
    input_schema: Mapping[str, object]
    output_schema: Mapping[str, object] | None
    is_read_only: bool


async def list_tools(client: Client, report: Callable[[str], None]) -> list[ListedTool]:
    """Ask a server for its tools, at most 1,000 of them on 100 pages and of 8 MiB together.

    Args:
        client: The connection.
        report: Takes a sentence for each thing that was left out.
    """
    if client.server_capabilities.tools is None:
        return []
    found: list[ListedTool] = []
    size_bytes = 0
    cursor: str | None = None
    for _ in range(MAX_PAGES):
        page = await client.list_tools(cursor=cursor, cache_mode="bypass")
        for tool in page.tools:
            size_bytes += (tool.meta or {}).get(_SIZE_KEY, 0)
            if len(found) == MAX_TOOLS or size_bytes > MAX_LIST_BYTES:
                report(f"Left out all tools after the first {len(found):,}")
                return found
            found.append(_read(tool))
        cursor = page.next_cursor
        if cursor is None:
            return found
    report(f"Left out all tools after the first {MAX_PAGES:,} pages")
    return found


def _read(tool: McpTool) -> ListedTool:
    hints = tool.annotations
    return ListedTool(
        tool.name,
        tool.description or tool.title or "",
        tool.input_schema,
        (tool.meta or {}).get(_OUTPUT_KEY),
        hints is not None and hints.read_only_hint is True,
    )


@final
class SiftedStream:
    """The messages of a server, without the tools that are not of the form of MCP.

    Args:
        stream: The messages.
        report: Takes a sentence for each tool that was left out.
        find_version: Gives the version of MCP that was agreed on; None before that.
    """

    def __init__(
        self,
        stream: ReadStream[SessionMessage | Exception],
        report: Callable[[str], None],
        find_version: Callable[[], str | None],
    ) -> None:
        self._stream = stream
        self._report = report
        self._find_version = find_version

    @property
    def last_context(self) -> object:
        """The context of the sender of the last message, as far as the transport knows it."""
        return getattr(self._stream, "last_context", None)

    async def receive(self) -> SessionMessage | Exception:
        """Give the next message."""
        return self._sift(await self._stream.receive())

    async def aclose(self) -> None:
        """Close the stream."""
        await self._stream.aclose()

    def __aiter__(self) -> SiftedStream:
        return self

    async def __anext__(self) -> SessionMessage | Exception:
        return self._sift(await self._stream.__anext__())

    async def __aenter__(self) -> SiftedStream:
        await self._stream.__aenter__()
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc_val: BaseException | None,
        exc_tb: TracebackType | None,
    ) -> bool | None:
        return await self._stream.__aexit__(exc_type, exc_val, exc_tb)

    def _sift(self, item: SessionMessage | Exception) -> SessionMessage | Exception:
        if isinstance(item, SessionMessage) and isinstance(item.message, JSONRPCResponse):
            result = item.message.result
            tools: object = result.get("tools")
            if isinstance(tools, list):
                kept = sift_tools(cast("list[object]", tools), self._report)
                result["tools"] = sift_misfits(result, kept, self._find_version(), self._report)
        return item


def sift_tools(tools: list[object], report: Callable[[str], None]) -> list[dict[str, object]]:
    """Leave out what cannot be a tool, and repair what can be understood.

    An input schema without `type` is one of an object.
    """
    kept: list[dict[str, object]] = []
    for index, tool in enumerate(tools[: MAX_TOOLS + 1]):
        fault, size_bytes = _examine(tool)
        if fault:
            name = tool.get("name") if isinstance(tool, dict) else None
            which = repr(name[:80]) if isinstance(name, str) else f"number {index + 1}"
            report(f"Left out tool {which}: {fault}")
            continue
        fields = dict(cast("dict[str, object]", tool))
        schema = cast("dict[str, object]", fields["inputSchema"])
        fields["inputSchema"] = {"type": "object", **schema}
        output = fields.pop("outputSchema", None)
        fields["_meta"] = {_SIZE_KEY: size_bytes}
        if isinstance(output, dict):
            fields["_meta"] = {_SIZE_KEY: size_bytes, _OUTPUT_KEY: output}
        kept.append(fields)
    return kept


def sift_misfits(
    result: Mapping[str, object],
    tools: list[dict[str, object]],
    version: str | None,
    report: Callable[[str], None],
) -> list[dict[str, object]]:
    """Leave out the tools with a field, such as `title`, for which the SDK would refuse all.

    Args:
        result: What the server gave, for its other fields.
        tools: The tools, as `sift_tools` has left them.
        version: The version of MCP, of which each has its own forms; None for an unknown one.
        report: Takes a sentence for each tool that was left out.
    """
    if not _misfit(result, tools, version):
        return tools
    kept: list[dict[str, object]] = []
    for tool in tools:
        misfit = _misfit(result, [tool], version)
        if misfit:
            report(f"Left out tool {str(tool['name'])[:80]!r}: {misfit}")
        else:
            kept.append(tool)
    return kept


def _misfit(
    result: Mapping[str, object], tools: list[dict[str, object]], version: str | None
) -> str:
    """Return what is wrong with the first tool that is no tool of MCP; empty for nothing."""
    page = {**result, "tools": tools}
    checks: list[Callable[[Mapping[str, object]], object]] = [
        partial(ListToolsResult.model_validate, by_name=False)
    ]
    if version is not None and (METHOD, version) in SERVER_RESULTS:
        checks.append(partial(validate_server_result, METHOD, version))
    for check in checks:
        try:
            check(page)
        except ValidationError as error:
            misfit = _describe(error)
            if misfit:
                return misfit
    return ""


def _describe(error: ValidationError) -> str:
    """Say where a tool differs; empty when it is something around the tools that does."""
    if error.error_count() > MAX_MISFITS:
        return "it is not of the form of MCP"
    for fault in error.errors(include_url=False, include_context=False, include_input=False):
        where = fault["loc"]
        if where[:1] == ("tools",) and len(where) > 2:
            field = ".".join(map(str, where[2:]))[:80]
            return f"{field} is not of the form of MCP ({fault['msg']})"
    return ""


def _examine(tool: object) -> tuple[str, int]:
    """Return what is wrong with a tool, empty for nothing, and its size in bytes."""
    fault = _fault(tool)
    if fault:
        return fault, 0
    try:
        size_bytes = len(json.dumps(tool))
    except (ValueError, RecursionError):
        return "it is nested too deep", 0
    if size_bytes > MAX_TOOL_BYTES:
        fault = f"it has {size_bytes:,} bytes, expected at most {MAX_TOOL_BYTES:,}"
    return fault, size_bytes


def _fault(tool: object) -> str:
    if not isinstance(tool, dict):
        return "it is not an object"
    if not isinstance(tool.get("name"), str):
        return "it has no name, expected a string"
    schema = tool.get("inputSchema")
    if not isinstance(schema, dict) or schema.get("type", "object") != "object":
        return "inputSchema is something else, expected the JSON Schema of an object"
    if not isinstance(tool.get("description"), (str, type(None))):
        return "description is something else, expected a string"
    return ""
