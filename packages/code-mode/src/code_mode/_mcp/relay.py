"""The live lines of a running program, as notifications to the client that asked for it."""

from __future__ import annotations

import warnings
from collections import deque
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, final

import anyio

if TYPE_CHECKING:
    from anyio.abc import TaskGroup
    from mcp.server.context import ServerRequestContext
    from mcp_types import LoggingLevel

MAX_WAITING: Final = 10_000
# A client that does not read holds up nothing but its own lines, and those not for ever.
FLUSH_S: Final = 5.0
LOGGER: Final = "run_code"


@final
class LogRelay:
    """Sends lines in order: as progress when the request has a progress token, else as logs.

    Args:
        context: The request.
        is_muted: Whether the client wants no logs of level `info`; progress is not concerned.
    """

    def __init__(self, context: ServerRequestContext[Any, Any], *, is_muted: bool) -> None:
        self._context = context
        meta: Mapping[str, object] = context.meta or {}
        has_token = meta.get("progress_token", meta.get("progressToken")) is not None
        self._wants_logs = not has_token and not is_muted
        self._lines: deque[str] = deque()
        self._count = 0
        self._is_closing = False
        self._poked = anyio.Event()

    def add(self, line: str) -> None:
        """Take a line; of more than 10,000 that wait to be sent the further ones are dropped."""
        if len(self._lines) < MAX_WAITING:
            self._lines.append(line)
            self._poked.set()

    def close(self, tasks: TaskGroup) -> None:
        """Send what waits, for at most five seconds, and end `run`."""
        self._is_closing = True
        self._poked.set()
        tasks.cancel_scope.deadline = anyio.current_time() + FLUSH_S

    async def run(self) -> None:
        """Send lines until the relay is closed and empty."""
        while self._lines or not self._is_closing:
            if self._lines:
                await self._send(self._lines.popleft())
            else:
                await self._poked.wait()
                self._poked = anyio.Event()

    async def _send(self, line: str) -> None:
        self._count += 1
        text = line.encode("utf-8", "backslashreplace").decode()
        session = self._context.session
        # Without a token this does nothing, except for a client in the same process.
        await session.report_progress(self._count, None, text)
        if not self._wants_logs:
            return
        with warnings.catch_warnings():
            # Newer versions of MCP discourage logs; older clients have nothing else.
            warnings.simplefilter("ignore")
            sending = _log(session, "info", text, self._context.request_id)
        await sending


def _log(session: Any, level: LoggingLevel, text: str, request_id: object) -> Any:
    return session.send_log_message(level, text, LOGGER, related_request_id=request_id)
