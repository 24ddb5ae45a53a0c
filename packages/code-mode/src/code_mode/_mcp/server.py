"""The registry as an MCP server: `run_code` over all tools, and `search_tools`."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast, final

import anyio
from mcp.server import Server
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler, ToolsListChanged
from mcp_types import (
    CallToolRequestParams,
    CallToolResult,
    ContentBlock,
    EmptyResult,
    ListToolsResult,
    LoggingLevel,
    PaginatedRequestParams,
    SetLevelRequestParams,
    TextContent,
    ToolAnnotations,
)
from mcp_types import Tool as McpTool
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import TypeAdapter, ValidationError

from .._formats import as_mcp_tools
from .._results import ToolResult
from .._search import make_search_tool
from .._tools import RUN_CODE, SEARCH_TOOLS, Tool
from .._validation import ToolValidator
from .depth import is_deep
from .relay import LogRelay

if TYPE_CHECKING:
    from mcp.server.context import ServerRequestContext
    from mcp.server.session import ServerSession

    from .._registry import ToolRegistry

    Request: TypeAlias = ServerRequestContext[Any, Any]

MAX_CLIENTS: Final = 1_000
NOTIFY_S: Final = 5.0
_LEVELS: Final[tuple[LoggingLevel, ...]] = ("debug", "info")
_BLOCK: Final[TypeAdapter[ContentBlock]] = TypeAdapter(ContentBlock)


def build_server(registry: ToolRegistry) -> Server[None]:
    """Make an MCP server of a registry.

    It offers what the registry offers to a model, `run_code` in mode `code`, with the SDK text in
    its description, so that a client needs nothing else; and `search_tools`. Lines that a program
    prints go to the client while it runs: as progress when the request has a progress token, else
    as logs of level `info`. A request that is cancelled ends its program. Clients are told when the
    tools have changed.

    Args:
        registry: Where the tools are; it has to outlive the server.

    Returns:
        A low-level server of the MCP SDK, to be run over any of its transports; `serve_stdio` and
        `serve_http` do so.
    """
    return _Facade(registry).server


def offered_tools(registry: ToolRegistry) -> list[dict[str, object]]:
    """Return the tools as an MCP client gets them, as JSON.

    The rule that nothing but `run_code` can be called is not part of it: a client has other tools.
    """
    text = registry.view(mode="both").sdk_text()
    items = as_mcp_tools(registry.wire_tools())
    for item in items:
        if item["name"] == RUN_CODE:
            item["description"] = f"{item['description']}\n\n{text}"
    return [*items, *as_mcp_tools([_make_search(registry)])]


def _make_search(registry: ToolRegistry) -> Tool:
    """Make the tool that finds what programs may call."""
    return make_search_tool(lambda: tuple(tool for tool in registry.tools() if tool.from_programs))


@final
class _Facade:
    """Answers the requests of clients."""

    def __init__(self, registry: ToolRegistry) -> None:
        from .. import __version__

        self._registry = registry
        self._search = _make_search(registry)
        self._check_search = ToolValidator(self._search)
        self._bus = InMemorySubscriptionBus()
        self._sessions: dict[str, ServerSession] = {}
        self._levels: dict[str, LoggingLevel] = {}
        self._changed = anyio.Event()
        self.server: Server[None] = Server(
            "code-mode",
            version=__version__,
            lifespan=self._lifespan,
            on_list_tools=self._list_tools,
            on_call_tool=self._call_tool,
            on_subscriptions_listen=ListenHandler(self._bus),
        )
        self.server.add_request_handler("logging/setLevel", SetLevelRequestParams, self._set_level)

    @asynccontextmanager
    async def _lifespan(self, _: Server[None]) -> AsyncGenerator[None]:
        async with anyio.create_task_group() as tasks:
            remove = self._registry.on_change(self._mark_changed)
            tasks.start_soon(self._announce)
            try:
                yield
            finally:
                remove()
                tasks.cancel_scope.cancel()

    def _mark_changed(self) -> None:
        self._changed.set()

    async def _announce(self) -> None:
        """Tell clients of changed tools."""
        offered = offered_tools(self._registry)
        while True:
            await self._changed.wait()
            self._changed = anyio.Event()
            before, offered = offered, offered_tools(self._registry)
            if offered == before:
                continue
            await self._bus.publish(ToolsListChanged())
            for session in tuple(self._sessions.values()):
                with anyio.move_on_after(NOTIFY_S):
                    await session.send_tool_list_changed()

    async def _list_tools(
        self, request: Request, params: PaginatedRequestParams | None
    ) -> ListToolsResult:
        if request.session.protocol_version not in MODERN_PROTOCOL_VERSIONS:
            self._sessions.pop(_client_of(request), None)
            self._sessions[_client_of(request)] = request.session
            while len(self._sessions) > MAX_CLIENTS:
                del self._sessions[next(iter(self._sessions))]
        tools = [McpTool.model_validate(item) for item in offered_tools(self._registry)]
        tools[-1].annotations = ToolAnnotations(read_only_hint=True, open_world_hint=False)
        return ListToolsResult(tools=tools)

    async def _set_level(self, request: Request, params: SetLevelRequestParams) -> EmptyResult:
        if len(self._levels) >= MAX_CLIENTS:
            self._levels.clear()
        self._levels[_client_of(request)] = params.level
        return EmptyResult()

    async def _call_tool(self, request: Request, params: CallToolRequestParams) -> CallToolResult:
        arguments = params.arguments or {}
        if params.name == SEARCH_TOOLS:
            return await self._find(arguments)
        level = self._levels.get(_client_of(request), "info")
        relay = LogRelay(request, is_muted=level not in _LEVELS)
        result: ToolResult | None = None
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(relay.run)
            result = await self._registry.call(params.name, arguments, on_log=relay.add)
            relay.close(tasks)
        assert result is not None
        return self._answer(result)

    async def _find(self, arguments: Mapping[str, object]) -> CallToolResult:
        fault = await self._check_search.find_input_fault(arguments)
        if fault is not None:
            text = (
                f"Error: Cannot call {SEARCH_TOOLS}: {fault}, expected what its input schema allows"
            )
            return _answer_text(text, is_error=True)
        found = cast("Sequence[Mapping[str, object]]", self._search.call(dict(arguments)))
        return _answer_text(json.dumps(found, ensure_ascii=False, indent=2))

    def _answer(self, result: ToolResult) -> CallToolResult:
        limit = self._registry.settings.max_result_chars
        structured = _sendable(result.value, limit)
        answer = _answer_text(result.text, is_error=result.is_error)
        answer.content.extend(map(_block, result.attachments))
        if structured is not None:
            answer.structured_content = structured
        return answer


def _client_of(request: Request) -> str:
    """Return what tells clients of one server apart; all that come over stdio are one."""
    headers: object = getattr(request.request, "headers", None)
    return str(headers.get("mcp-session-id", "")) if isinstance(headers, Mapping) else ""


def _answer_text(text: str, *, is_error: bool = False) -> CallToolResult:
    shown = text.encode("utf-8", "backslashreplace").decode()
    return CallToolResult(content=[TextContent(type="text", text=shown)], is_error=is_error)


def _block(attachment: Mapping[str, object]) -> ContentBlock:
    try:
        return _BLOCK.validate_python(dict(attachment), by_name=False)
    except ValidationError:
        return TextContent(type="text", text="[an attachment that is no content block of MCP]")


def _sendable(value: object, max_bytes: int) -> dict[str, object] | None:
    """Return a value as structured content, or None when its text has to do."""
    if not isinstance(value, dict) or is_deep(value):
        return None
    try:
        size_bytes = len(json.dumps(value, ensure_ascii=False).encode())
    except (ValueError, TypeError, RecursionError):
        return None
    return value if size_bytes <= max_bytes else None
