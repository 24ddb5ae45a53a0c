"""MCP on both sides: servers become tools, and the registry becomes a server."""

from __future__ import annotations

from .client import McpServers
from .errors import McpConfigError, McpServerError

__all__ = ["McpConfigError", "McpServerError", "McpServers"]
