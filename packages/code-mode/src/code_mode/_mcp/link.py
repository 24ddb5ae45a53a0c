"""The connection to one server, kept up by one task: connect, serve calls, connect again.

The SDK's client opens cancel scopes, which must be left by the task that entered them; so one task
of the plugin owns each connection from its start to its end, and calls come from other tasks.
"""

from __future__ import annotations

import math
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final, cast, final

import anyio
from mcp.client import Client
from mcp.client.subscriptions import ListenNotSupportedError, SubscriptionLost
from mcp.shared.exceptions import MCPError
from mcp_types import (
    CONNECTION_CLOSED,
    Implementation,
    LoggingMessageNotificationParams,
    ToolListChangedNotification,
)
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import ValidationError

from .._cancel import cancelled_by
from .._errors import ToolError
from .config import StdioServer
from .errors import McpServerError, tail_text
from .faults import (
    REFUSED,
    check_arguments,
    describe,
    is_forgotten,
    shorten,
    without_repeat,
)
from .listing import ListedTool, SiftedStream, list_tools
from .progress import CallLog
from .results import read_result
from .stdio import StdioTransport
from .streamable_http import HttpTransport

if TYPE_CHECKING:
    from anyio.abc import TaskStatus
    from mcp.client import Transport
    from mcp.client._transport import TransportStreams
    from mcp.client.session import IncomingMessage
    from mcp_types import CallToolResult

    from .._tools import ToolContext, ToolOutput
    from .config import McpConfig, ServerEntry

MAX_ATTEMPTS: Final = 3
BACK_OFF_S: Final = (0.2, 1.0)
# A server may announce changes of its list as often as it likes.
MIN_REFRESH_S: Final = 0.1
POST_MORTEM_S: Final = 3.0
CANCELLED: Final = "Cannot finish {name}: the call was cancelled"


@final
class Session:
    """One connection, from the moment its tools are known to its end."""

    def __init__(self, client: Client, transport: StdioTransport | HttpTransport) -> None:
        self.client = client
        self.transport = transport
        self.calls: list[CallLog] = []
        self.is_over = False
        self.ended = anyio.Event()
        self.reason = ""

    def end(self, reason: str) -> None:
        """Note why it is over; everything that waits for that goes on."""
        self.is_over = True
        self.reason = self.reason or reason
        self.ended.set()


@final
class _Outcome:
    """What comes of the next attempts to connect."""

    def __init__(self) -> None:
        self.known = anyio.Event()
        self.session: Session | None = None
        self.error: McpServerError | None = None


@final
class ServerLink:
    """Keeps the connection to one server.

    Args:
        entry: The server.
        config: The limits.
        on_tools: Given the tools when they are known, and again whenever they have changed.
        report: Takes a sentence for each thing that is wrong with the server and was passed over.
    """

    def __init__(
        self,
        entry: ServerEntry,
        config: McpConfig,
        on_tools: Callable[[Sequence[ListedTool]], None],
        report: Callable[[str], None],
    ) -> None:
        self._entry = entry
        self._config = config
        self._on_tools = on_tools
        self._report = report
        self._session: Session | None = None
        self._outcome = _Outcome()
        self._wanted = anyio.Event()
        self._poked = anyio.Event()
        self._is_stale = False
        self._has_started = False
        self._has_stopped = False

    @property
    def name(self) -> str:
        """The name of the server."""
        return self._entry.name

    async def run(self, *, task_status: TaskStatus[McpServerError | None]) -> None:
        """Connect, and from then on connect again whenever a call wants it.

        Reports None as started once the tools are known, or the error of the first attempt, with
        which it ends. A later failure is that of the call that wanted the connection.
        """
        try:
            await self._keep_up(task_status)
        finally:
            self._has_stopped = True
            error = McpServerError(self.name, self._entry.address, "it was stopped")
            self._settle(None, error)

    async def _keep_up(self, task_status: TaskStatus[McpServerError | None]) -> None:
        failures = 0
        while True:
            error = await self._live(task_status)
            if error is not None and not self._has_started:
                task_status.started(error)
                return
            failures = 0 if error is None else failures + 1
            if 0 < failures < MAX_ATTEMPTS:
                await anyio.sleep(BACK_OFF_S[failures - 1])
                continue
            if error is not None:
                failures = 0
                self._settle(None, error)
                self._outcome, self._wanted = _Outcome(), anyio.Event()
            await self._wanted.wait()

    async def call(
        self, tool: str, arguments: Mapping[str, object], context: ToolContext
    ) -> ToolOutput:
        """Call a tool of the server.

        Raises:
            ToolError: The tool has failed, the server is gone, or what it gave cannot be used.
        """
        check_arguments(arguments)
        if context.signal.aborted:
            raise ToolError(CANCELLED.format(name=context.tool_name))
        with cancelled_by(context.signal):
            session = await self._connected()
            result = await self._ask(session, tool, arguments, context)
            if result is None:
                # The server does not know the session, so it has not carried the call out.
                session = await self._connected()
                result = await self._ask(session, tool, arguments, context)
            if result is None:
                raise ToolError(self._fault(f"{REFUSED} ({session.transport.refusal})"))
            return read_result(result)
        raise ToolError(CANCELLED.format(name=context.tool_name))

    async def _connected(self) -> Session:
        session = self._session
        if session is not None and not session.is_over:
            if not session.transport.is_ending:
                return session
            await session.ended.wait()
        outcome = self._outcome
        self._wanted.set()
        await outcome.known.wait()
        if outcome.session is None:
            # The command line may hold secrets: it is for the host, not for a model.
            seen = outcome.error.seen if outcome.error is not None else "it was stopped"
            expected = "a server that lists its tools"
            raise ToolError(
                f"Cannot connect to MCP server {self.name!r}: {seen}, expected {expected}"
            )
        return outcome.session

    async def _ask(
        self, session: Session, tool: str, arguments: Mapping[str, object], context: ToolContext
    ) -> CallToolResult | None:
        """Make one request; None when the server does not know the session any more."""
        log = CallLog(context)
        session.calls.append(log)
        try:
            result = await session.client.call_tool(
                tool, dict(arguments), progress_callback=log.progress
            )
            # What came before the answer is delivered by tasks that have been scheduled by now.
            await anyio.lowlevel.checkpoint()
            return result
        except MCPError as error:
            if is_forgotten(error, session.transport):
                self._lose(session, "it ended the session")
                return None
            if error.message == REFUSED:
                raise ToolError(self._fault(f"{REFUSED} ({session.transport.refusal})")) from None
            if error.code == CONNECTION_CLOSED and error.message == "Connection closed":
                raise await self._gone(session) from None
            raise ToolError(self._fault(error.message)) from None
        except ValidationError:
            fault = "what it gave is not of the form of MCP"
            raise ToolError(self._fault(fault)) from None
        except RuntimeError as error:
            # The SDK's words for a result that does not fit its schema, and for a closed client.
            if session.is_over:
                raise await self._gone(session) from None
            raise ToolError(self._fault(str(error))) from None
        finally:
            session.calls.remove(log)

    async def _gone(self, session: Session) -> ToolError:
        self._lose(session, "")
        with anyio.move_on_after(POST_MORTEM_S):
            await session.ended.wait()
        reason = session.reason or "the connection was closed"
        return ToolError(
            f"MCP server {self.name!r} was lost during the call: {reason}. Whether the call was "
            "carried out is not known; the next call starts the server again"
        )

    def _fault(self, text: str) -> str:
        return f"MCP server {self.name!r}: {shorten(text)}"

    async def _live(self, task_status: TaskStatus[McpServerError | None]) -> McpServerError | None:
        """Go through one connection; gives why there was none, or None when there was one."""
        self._poked, self._is_stale = anyio.Event(), False
        transport = self._make_transport()
        session: Session | None = None
        seen = ""
        timeout_s = self._config.connect_timeout_ms / 1_000
        with anyio.CancelScope(deadline=anyio.current_time() + timeout_s) as scope:
            try:
                async with self._open(transport) as client:
                    tools = await list_tools(client, self._report)
                    scope.deadline = math.inf
                    # Registered first: a failure of that is one of the connection, with back-off.
                    self._on_tools(tools)
                    session = Session(client, transport)
                    self._settle(session, None)
                    if not self._has_started:
                        self._has_started = True
                        task_status.started(None)
                    await self._hold(session, transport)
            except Exception as error:
                seen = describe(error)
            finally:
                if session is not None:
                    reason = transport.reason or seen or "the connection was closed"
                    stderr = transport.tail.text()
                    session.end(f"{reason}\n{tail_text(stderr)}\n" if stderr else reason)
                    self._lose(session, "")
        if session is not None:
            return None
        if scope.cancelled_caught:
            seen = f"no answer after {self._config.connect_timeout_ms:g} ms"
        else:
            seen = without_repeat(transport.reason or transport.refusal, seen)
        return McpServerError(self.name, self._entry.address, seen, transport.tail.text())

    def _make_transport(self) -> StdioTransport | HttpTransport:
        limit = self._config.max_message_bytes
        if isinstance(self._entry, StdioServer):
            return StdioTransport(self._entry, limit, self._poke)
        return HttpTransport(self._entry, limit)

    @asynccontextmanager
    async def _open(self, transport: StdioTransport | HttpTransport) -> AsyncGenerator[Client]:
        @asynccontextmanager
        async def sifted() -> AsyncGenerator[TransportStreams]:
            async with transport.open() as (read, write):
                yield SiftedStream(read, self._report, lambda: _version_of(client)), write

        from .. import __version__

        client = Client(
            cast("Transport", sifted()),
            cache=None,
            client_info=Implementation(name="code-mode", version=__version__),
            log_level="info",
            logging_callback=self._on_log,
            message_handler=self._on_message,
        )
        async with client:
            yield client

    async def _hold(self, session: Session, transport: StdioTransport | HttpTransport) -> None:
        """Keep a connection until it is lost, and its list of tools up to date."""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._listen, session.client)
            while not session.is_over and not _has_ended(transport):
                await self._poked.wait()
                self._poked = anyio.Event()
                if self._is_stale and not session.is_over and not _has_ended(transport):
                    self._is_stale = False
                    await self._refresh(session.client)
            tasks.cancel_scope.cancel()

    async def _refresh(self, client: Client) -> None:
        timeout_s = self._config.connect_timeout_ms / 1_000
        try:
            with anyio.fail_after(timeout_s):
                self._on_tools(await list_tools(client, self._report))
        except (MCPError, ValidationError, TimeoutError) as error:
            self._report(f"Kept the old list of tools: {describe(error)}")
        await anyio.sleep(MIN_REFRESH_S)

    async def _listen(self, client: Client) -> None:
        """Ask a newer server for changes of its list; older ones tell them unasked."""
        tools = client.server_capabilities.tools
        if client.protocol_version not in MODERN_PROTOCOL_VERSIONS or not (
            tools and tools.list_changed
        ):
            return
        try:
            async with client.listen(tools_list_changed=True) as events:
                async for _ in events:
                    self._mark_stale()
        except (MCPError, SubscriptionLost, ListenNotSupportedError, TimeoutError) as error:
            self._report(f"No news of changed tools any more: {describe(error)}")

    async def _on_message(self, message: IncomingMessage) -> None:
        if isinstance(message, ToolListChangedNotification):
            self._mark_stale()

    async def _on_log(self, params: LoggingMessageNotificationParams) -> None:
        # A log names no request; with several calls it could be shown to the wrong one.
        session = self._session
        if session is not None and len(session.calls) == 1:
            session.calls[0].message(params.data)

    def _mark_stale(self) -> None:
        self._is_stale = True
        self._poke()

    def _poke(self) -> None:
        self._poked.set()

    def _settle(self, session: Session | None, error: McpServerError | None) -> None:
        """Tell all who wait for a connection what came of it."""
        self._session = session
        self._outcome.session, self._outcome.error = session, error
        self._outcome.known.set()

    def _lose(self, session: Session, reason: str) -> None:
        """Let no further call use a connection, and its owner leave it."""
        session.is_over = True
        session.reason = session.reason or reason
        if self._session is session and not self._has_stopped:
            self._session = None
            self._outcome, self._wanted = _Outcome(), anyio.Event()
        self._poke()


def _version_of(client: Client) -> str | None:
    try:
        return client.protocol_version
    except RuntimeError:  # until the handshake is over
        return None


def _has_ended(transport: StdioTransport | HttpTransport) -> bool:
    return isinstance(transport, StdioTransport) and bool(transport.reason)
