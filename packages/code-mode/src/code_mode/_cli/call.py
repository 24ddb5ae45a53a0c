"""Carries out `code-mode call`."""

from __future__ import annotations

import sys
from pathlib import Path, PurePath
from typing import Final

from code_mode._results import ToolResult
from code_mode._tools import RUN_CODE
from code_runtime import AbortSignal

from .problem import OK, PROGRAM_FAILED, Misuse
from .session import carry_out, open_registry
from .text import show

_PYTHON_SUFFIXES: Final = (".py",)


def call_command(config: str, file: str, language: str | None, prefix: str) -> int:
    """Run a program and return the exit code of the command."""
    abort = AbortSignal()

    async def work() -> int:
        program = _read_program(file)
        async with open_registry(config, language or _language_of(file), prefix) as registry:
            arguments = {"code": program, "description": "Runs a program given by hand"}
            result = await registry.call(
                RUN_CODE, arguments, signal=abort, on_log=lambda line: show(sys.stderr, line)
            )
        _report(result)
        return PROGRAM_FAILED if result.is_error else OK

    return carry_out(work, lambda: abort.abort("interrupted"))


def _report(result: ToolResult) -> None:
    for block in result.attachments:
        kind, mime_type = block.get("type", "block"), block.get("mimeType", "")
        show(sys.stderr, f"code-mode: attached {kind} {mime_type}".rstrip())
    show(sys.stdout, result.text)


def _language_of(file: str) -> str:
    return "python" if PurePath(file).suffix in _PYTHON_SUFFIXES else "typescript"


def _read_program(file: str) -> str:
    try:
        data = sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
        return data.decode("utf-8-sig")
    except OSError as error:
        reason = error.strerror or str(error)
    except UnicodeDecodeError as error:
        reason = f"byte {error.start} is not UTF-8"
    raise Misuse(f"Cannot read program {file!r}: {reason}, expected a file of UTF-8 text")
