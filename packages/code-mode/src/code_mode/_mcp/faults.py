"""What goes wrong with a server, in words."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_REQUEST
from pydantic import ValidationError

from .._errors import ToolError
from .depth import MAX_DEPTH, is_deep

if TYPE_CHECKING:
    from .stdio import StdioTransport
    from .streamable_http import HttpTransport

MAX_FAULT_CHARS: Final = 2_000
# What the SDK says when a server does not know the session: the first to HTTP status 404, as MCP
# wants it, the second to any other that is no success; many servers use 400.
_TERMINATED: Final = "Session terminated"
REFUSED: Final = "Server returned an error response"


def is_forgotten(error: MCPError, transport: StdioTransport | HttpTransport) -> bool:
    """Tell whether a server has refused a request because it does not know the session."""
    if error.code == INVALID_REQUEST and error.message == _TERMINATED:
        return True
    return error.message == REFUSED and transport.status == 400


def check_arguments(arguments: Mapping[str, object]) -> None:
    """Refuse what the SDK cannot send, which would break the connection."""
    if is_deep(arguments):
        raise ToolError(
            f"Cannot send the arguments: they are nested too deep, expected at most {MAX_DEPTH:,} "
            "levels"
        )
    try:
        json.dumps(arguments, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise ToolError(
            "Cannot send the arguments: a string holds an unpaired surrogate, expected text that "
            "has a UTF-8 form"
        ) from None


def without_repeat(reason: str, seen: str) -> str:
    """Join why a transport ended and what the SDK says of it."""
    # A lost connection says nothing that the end of the process does not say better.
    if reason and (not seen or seen == "Connection closed"):
        return reason
    return f"{seen} ({reason})" if reason and reason not in seen else seen


def describe(error: BaseException) -> str:
    """Say in a few words what an exception of the SDK or of the system is about."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    if isinstance(error, OSError) and error.strerror:
        return f"{error.strerror}: {error.filename!r}" if error.filename else error.strerror
    if isinstance(error, ValidationError):
        return "its answer is not of the form of MCP"
    text = str(error) or type(error).__name__
    if not isinstance(error, MCPError):
        text = f"{type(error).__name__}: {text}" if str(error) else text
    return shorten(text)


def shorten(text: str) -> str:
    """Cut a text that came from a server."""
    return text if len(text) <= MAX_FAULT_CHARS else text[: MAX_FAULT_CHARS - 1] + "…"
