"""The service that turns MCP servers into tools."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, ClassVar, Final, cast, final

import anyio

from code_runtime import Service

from .._errors import ToolDefinitionError, ToolExistsError
from .._tools import Tool
from .config import read_config
from .names import ToolKey, assign_names, prefixed

if TYPE_CHECKING:
    from anyio.abc import TaskGroup

    from code_runtime import Context

    from .._registry import ToolRegistry
    from .errors import McpServerError
    from .link import ServerLink
    from .listing import ListedTool

MAX_PROBLEMS: Final = 1_000
_logger: Final = logging.getLogger("code_mode.mcp")


@final
@dataclass(frozen=True, slots=True)
class _Registered:
    name: str
    listed: ListedTool
    remove: Callable[[], None]


@final
class McpServers(Service):
    """Connects to MCP servers and registers their tools.

    Load it as `await ctx.plugin(McpServers, config)` after the `ToolRegistry`; it is active once
    every server has listed its tools. A server that is lost later is connected again by the next
    call of one of its tools; the call in flight fails. When a server says that its list of tools
    has changed, they are registered anew.

    Of the names of tools see `names.py`: by default a tool keeps its own name unless two servers
    have it. A result's structured content is the value of a call, or else its text; a tool whose
    server says that it is read-only may overlap others.

    Args:
        ctx: The scope of the plugin.
        config: The path of a `mcpServers` JSON file, or a mapping: see `read_config`.

    Raises:
        McpConfigError: The config is not usable; raised when the plugin is loaded.
        McpServerError: A server cannot be started or does not list its tools; likewise.
    """

    service_key: ClassVar[str | None] = "mcp"
    inject: ClassVar[tuple[str, ...]] = ("tools",)

    def __init__(self, ctx: Context, config: object = None) -> None:
        super().__init__(ctx, config)
        self._settings = read_config(config)
        self._listed: dict[str, tuple[ListedTool, ...]] = {}
        self._links: dict[str, ServerLink] = {}
        self._registered: dict[ToolKey, _Registered] = {}
        self._problems: dict[str, None] = {}
        self._is_ready = False

    @classmethod
    def of(cls, ctx: Context) -> McpServers:
        """Return the service of a context.

        Raises:
            ServiceMissingError: None is loaded.
        """
        return cast("McpServers", ctx["mcp"])

    @property
    def problems(self) -> tuple[str, ...]:
        """What was left out or passed over, one sentence each, at most 1,000; also logged."""
        return tuple(self._problems)

    @asynccontextmanager
    async def lifespan(self) -> AsyncGenerator[None]:
        """Connect to all servers on entering, end them on leaving."""
        error: McpServerError | None = None
        async with anyio.create_task_group() as tasks:
            # Errors are carried out by hand: a task group would wrap them.
            error = await self._start(tasks)
            if error is None:
                self._is_ready = True
                self._update()
                try:
                    yield
                finally:
                    self._is_ready = False
                    for registered in self._registered.values():
                        registered.remove()
                    self._registered.clear()
            tasks.cancel_scope.cancel()
        if error is not None:
            raise error

    async def _start(self, tasks: TaskGroup) -> McpServerError | None:
        """Start all servers at once; gives the first error."""
        from .link import ServerLink  # the SDK takes a while to import

        for entry in self._settings.servers:
            self._listed[entry.name] = ()
            self._links[entry.name] = ServerLink(
                entry,
                self._settings,
                partial(self._take, entry.name),
                partial(self._report_of, entry.name),
            )
        errors: list[McpServerError] = []

        async def start(link: ServerLink, starting: TaskGroup) -> None:
            error: McpServerError | None = await tasks.start(link.run)
            if error is not None:
                errors.append(error)
                starting.cancel_scope.cancel()

        async with anyio.create_task_group() as starting:
            for link in self._links.values():
                starting.start_soon(start, link, starting)
        return errors[0] if errors else None

    def _take(self, server: str, tools: Sequence[ListedTool]) -> None:
        self._listed[server] = tuple(tools)
        if self._is_ready:
            self._update()

    def _update(self) -> None:
        """Bring the registry up to what the servers list now."""
        lists = {server: [tool.name for tool in tools] for server, tools in self._listed.items()}
        names, problems = assign_names(lists, self._settings.prefix)
        for problem in problems:
            self._report(problem)
        wanted: dict[ToolKey, ListedTool] = {}
        for server, tools in self._listed.items():
            for tool in tools:
                wanted.setdefault((server, tool.name), tool)
        for key, registered in list(self._registered.items()):
            if wanted.get(key) != registered.listed or names.get(key) != registered.name:
                registered.remove()
                del self._registered[key]
        for key, name in names.items():
            if key not in self._registered:
                self._register(key, name, wanted[key])

    def _register(self, key: ToolKey, name: str, listed: ListedTool) -> None:
        registry = cast("ToolRegistry", self.ctx["tools"])
        names = [name]
        if self._settings.prefix == "auto" and name != prefixed(key):
            names.append(prefixed(key))  # the host may have a tool of that name
        for candidate in names:
            try:
                remove = registry.register(self._make_tool(key, candidate, listed))
            except ToolExistsError as error:
                problem = str(error)
            except ToolDefinitionError as error:
                problem = str(error)
                break
            else:
                self._registered[key] = _Registered(name, listed, remove)
                return
        self._report(f"Left out tool {key[1]!r} of MCP server {key[0]!r}: {problem}")

    def _make_tool(self, key: ToolKey, name: str, listed: ListedTool) -> Tool:
        return Tool(
            name,
            listed.description,
            listed.input_schema,
            listed.output_schema,
            call=partial(self._links[key[0]].call, key[1]),
            parallel=listed.is_read_only,
            takes_context=True,
            timeout_ms=self._settings.call_timeout_ms,
            trusts_schema=False,
        )

    def _report_of(self, server: str, sentence: str) -> None:
        self._report(f"MCP server {server!r}: {sentence}")

    def _report(self, sentence: str) -> None:
        if sentence not in self._problems and len(self._problems) < MAX_PROBLEMS:
            self._problems[sentence] = None
            _logger.warning("%s", sentence)
