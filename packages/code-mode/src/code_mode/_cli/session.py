"""What all commands share: the registry over the servers of a file, signals, and problems."""

from __future__ import annotations

import logging
import os
import signal as signals
import sys
import traceback
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final, final

import anyio

from code_mode._errors import CodeModeError
from code_mode._mcp import McpServers
from code_mode._registry import ToolRegistry
from code_runtime import CodeRuntimeError, Context, PluginNotFoundError
from code_runtime._cli.interrupts import watch_interrupts

from .problem import MISUSE, OK, PROGRAM_FAILED, Misuse
from .text import show

if TYPE_CHECKING:
    from anyio.abc import TaskStatus

PROVIDERS: Final = {"typescript": "worker-thread", "python": "python"}


@asynccontextmanager
async def open_registry(
    config: str, language: str | None, prefix: str
) -> AsyncGenerator[ToolRegistry]:
    """Load the runtime, the registry and the servers.

    Raises:
        Misuse: The language is unknown, or its runtime is not installed.
        CodeModeError: The config or a server is not usable.
    """
    language = language or "typescript"
    if language not in PROVIDERS:
        expected = " or ".join(PROVIDERS)
        raise Misuse(f"Cannot run programs in {language!r}: expected {expected}")
    provider = PROVIDERS[language]
    async with Context() as context:
        try:
            await context.plugin(provider)
        except PluginNotFoundError:
            raise Misuse(
                f"Cannot run programs in {language!r}: the runtime is not installed, expected "
                f"`pip install code-runtime-{provider}`"
            ) from None
        await context.plugin(ToolRegistry)
        await context.plugin(McpServers, {"mcpServers": config, "prefix": prefix})
        yield ToolRegistry.of(context)


def carry_out(
    work: Callable[[], Awaitable[int]], on_interrupt: Callable[[], object] | None = None
) -> int:
    """Do the work of a command and return its exit code; every problem becomes a message here.

    SIGINT and SIGTERM cancel the work, and the exit code is 128 and their number; the second one
    ends the process at once.

    Args:
        work: The work.
        on_interrupt: Called in place of the cancellation.
    """
    logging.basicConfig(format="code-mode: %(message)s", level=logging.WARNING)
    for name in ("mcp", "client", "server", "httpx2", "asyncio", "uvicorn"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    for stream in (sys.stdout, sys.stderr):
        # A character that the locale's encoding lacks must not end the command.
        stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    try:
        return anyio.run(_with_signals, work, on_interrupt)
    except (Misuse, CodeModeError, CodeRuntimeError) as error:
        show(sys.stderr, f"code-mode: {error}")
        return MISUSE
    except BrokenPipeError:
        _silence()
        return PROGRAM_FAILED
    except KeyboardInterrupt:
        return 128 + signals.SIGINT
    except Exception:
        traceback.print_exc()
        return MISUSE


async def _with_signals(
    work: Callable[[], Awaitable[int]], on_interrupt: Callable[[], object] | None
) -> int:
    code = OK
    problem: Exception | None = None
    watch = _Watch()
    async with anyio.create_task_group() as tasks:
        await tasks.start(watch.run, on_interrupt or tasks.cancel_scope.cancel)
        # Errors are carried out by hand: a task group would wrap them.
        try:
            code = await work()
        except Exception as error:
            problem = error
        finally:
            watch.scope.cancel()
    if problem is not None:
        raise _single(problem)
    return code if watch.number is None else 128 + watch.number


@final
class _Watch:
    """Waits for signals, also while the work is being cancelled."""

    def __init__(self) -> None:
        self.scope = anyio.CancelScope(shield=True)
        self.number: int | None = None

    async def run(
        self, on_interrupt: Callable[[], object], *, task_status: TaskStatus[None]
    ) -> None:

        def on_first(number: signals.Signals) -> None:
            self.number = number
            on_interrupt()

        with self.scope:
            await watch_interrupts(on_first, task_status=task_status)


def _single(error: Exception) -> Exception:
    """Return the only error inside groups."""
    while isinstance(error, ExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    return error


def _silence() -> None:
    """Send what is still in the buffer of the standard output nowhere."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.close(nowhere)
