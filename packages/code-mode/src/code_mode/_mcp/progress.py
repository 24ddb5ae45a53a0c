"""What a server says while a call runs, as live lines of the call."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Final, final

if TYPE_CHECKING:
    from .._tools import ToolContext

MAX_LINES: Final = 1_000
MAX_LINE_CHARS: Final = 500


@final
class CallLog:
    """Turns the progress and the logs of one call into lines, at most 1,000.

    Args:
        context: The call.
    """

    __slots__ = ("_context", "_last", "_lines_left")

    def __init__(self, context: ToolContext) -> None:
        self._context = context
        self._lines_left = MAX_LINES
        self._last = -math.inf

    async def progress(self, progress: float, total: float | None, message: str | None) -> None:
        """Take a progress notification."""
        # Progress only increases; what comes late was overtaken on its way through the tasks.
        if not progress > self._last:
            return
        self._last = progress
        parts = [_number(progress) if total is None else f"{_number(progress)}/{_number(total)}"]
        if message:
            parts.append(message)
        self._write(" ".join(parts))

    def message(self, data: object) -> None:
        """Take a log notification."""
        if isinstance(data, str):
            self._write(data)
        else:
            try:
                self._write(json.dumps(data, ensure_ascii=False))
            except (TypeError, ValueError, RecursionError):
                self._write("something that is not JSON")

    def _write(self, text: str) -> None:
        if self._lines_left == 0:
            return
        self._lines_left -= 1
        line = " ".join(text[: MAX_LINE_CHARS * 2].split())[:MAX_LINE_CHARS]
        self._context.log(f"[{self._context.tool_name}] {line}")


def _number(value: float) -> str:
    return f"{value:.15g}"
