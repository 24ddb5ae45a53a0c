"""Errors of the MCP side; a failed call of a tool is a `ToolError`, never one of these."""

from __future__ import annotations

from .._errors import CodeModeError


class McpConfigError(CodeModeError, ValueError):
    """The configuration of the servers is not usable.

    Args:
        field: Where, such as `mcpServers.files.args[0]`, or the name of the file.
        seen: What it held, in words.
        expected: What it may hold, in words.
    """

    def __init__(self, field: str, seen: str, expected: str) -> None:
        super().__init__(field, seen, expected)
        self.field = field
        self.seen = seen
        self.expected = expected

    def __str__(self) -> str:
        return f"Cannot use the MCP config: {self.field} is {self.seen}, expected {self.expected}"


class McpServerError(CodeModeError):
    """A server could not be started or reached.

    Args:
        server: Its name in the config.
        address: Its command or URL, for a person.
        seen: What went wrong, in words.
        stderr: The last lines of its standard error; empty for none.
    """

    def __init__(self, server: str, address: str, seen: str, stderr: str = "") -> None:
        super().__init__(server, address, seen, stderr)
        self.server = server
        self.address = address
        self.seen = seen
        self.stderr = stderr

    def __str__(self) -> str:
        text = (
            f"Cannot connect to MCP server {self.server!r} ({self.address}): {self.seen}, "
            "expected a server that lists its tools"
        )
        return f"{text}\n{tail_text(self.stderr)}" if self.stderr else text


def tail_text(stderr: str) -> str:
    """Return the last lines of a standard error with a heading."""
    return "Last lines of its standard error:\n" + stderr
