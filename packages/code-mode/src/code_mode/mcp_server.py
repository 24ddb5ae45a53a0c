"""The registry as an MCP server, for a host that serves it itself; needs the MCP SDK at import."""

from __future__ import annotations

from ._mcp.serve import serve_http, serve_stdio
from ._mcp.server import build_server

__all__ = ["build_server", "serve_http", "serve_stdio"]
