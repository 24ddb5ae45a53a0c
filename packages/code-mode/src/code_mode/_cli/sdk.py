"""Carries out `code-mode sdk`."""

from __future__ import annotations

import json
import sys

from code_mode._mcp.server import offered_tools
from code_mode._tools import RUN_CODE

from .problem import OK
from .session import carry_out, open_registry
from .text import show


def sdk_command(config: str, language: str | None, prefix: str, *, as_json: bool) -> int:
    """Print what a model would see and return the exit code of the command."""

    async def work() -> int:
        async with open_registry(config, language, prefix) as registry:
            tools = offered_tools(registry)
        if as_json:
            text = json.dumps(tools, ensure_ascii=False, indent=2)
        else:
            text = next(str(tool["description"]) for tool in tools if tool["name"] == RUN_CODE)
        show(sys.stdout, text)
        return OK

    return carry_out(work)
