"""Carries out `code-mode serve`."""

from __future__ import annotations

import signal as signals
import sys

from code_mode._mcp.serve import serve_http, serve_stdio
from code_mode._mcp.server import build_server

from .problem import OK, Misuse
from .session import carry_out, open_registry
from .text import show


def serve_command(
    config: str, language: str | None, prefix: str, *, host: str, port: int | None
) -> int:
    """Serve until the client is gone or a signal comes; being stopped is how a server ends."""

    async def work() -> int:
        async with open_registry(config, language, prefix) as registry:
            server = build_server(registry)
            if port is None:
                await serve_stdio(server)
            else:
                try:
                    await serve_http(server, host, port, on_ready=_say_where)
                except OSError as error:
                    raise Misuse(
                        f"Cannot listen on {host} port {port}: {error.strerror or error}, "
                        "expected a free port of this machine"
                    ) from None
        return OK

    code = carry_out(work)
    return OK if code in (128 + signals.SIGINT, 128 + signals.SIGTERM) else code


def _say_where(url: str) -> None:
    show(sys.stderr, f"code-mode: serving at {url}")
