"""Servers that are child processes: starting, ending, and what is known of their end.

A server runs in a session of its own, so that Ctrl-C at the terminal reaches it only through us,
and so that whatever it starts can be ended with it.
"""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from typing import TYPE_CHECKING, Final

import anyio
from mcp.client.stdio import get_default_environment

if TYPE_CHECKING:
    from anyio.abc import AsyncResource, Process

    from .config import StdioServer

# A server may go on working a while after its input has ended.
POLITE_EXIT_S: Final = 2.0
TERMINATED_EXIT_S: Final = 1.0
KILLED_EXIT_S: Final = 2.0
POLL_S: Final = 0.01


async def start_process(entry: StdioServer) -> Process:
    """Start a server with three pipes.

    Raises:
        OSError: It cannot be started.
    """
    return await anyio.open_process(
        [entry.command, *entry.args],
        env={**get_default_environment(), **entry.env},
        cwd=entry.cwd,
        start_new_session=True,
    )


async def stop_process(process: Process) -> None:
    """End a server and all that it has started in its session; to be called under a shield.

    First its input is closed, then its group is terminated, then killed; every wait is bounded.
    """
    if process.stdin is not None:
        await _close(process.stdin)
    await wait_for_exit(process, POLITE_EXIT_S)
    # Also when the leader has left: children of a shell or a launcher may have stayed.
    if _send(process, signal.SIGTERM):
        with anyio.move_on_after(TERMINATED_EXIT_S):
            while _send(process, 0):  # noqa: ASYNC110 - the system tells nobody
                await anyio.sleep(POLL_S)
    _send(process, signal.SIGKILL)
    await wait_for_exit(process, KILLED_EXIT_S)
    for stream in (process.stdout, process.stderr):
        if stream is not None:
            await _close(stream)
    _release(process)


async def wait_for_exit(process: Process, timeout_s: float) -> bool:
    """Wait until a process has ended, and tell whether it has.

    Not `process.wait()`: on asyncio that also waits for the end of the pipes, which a child of the
    server may hold open.
    """
    with anyio.move_on_after(timeout_s):
        while process.returncode is None:  # noqa: ASYNC110 - see above
            await anyio.sleep(POLL_S)
    return process.returncode is not None


def describe_exit(process: Process) -> str:
    """Say how a process ended, or that it has not."""
    code = process.returncode
    if code is None:
        return "it closed its standard output"
    if code >= 0:
        return f"it exited with code {code}"
    try:
        return f"it was killed by {signal.Signals(-code).name}"
    except ValueError:
        return f"it was killed by signal {-code}"


def _send(process: Process, number: int) -> bool:
    """Signal the group of a server; False when nothing of it is left."""
    # Reading the return code reaps the leader on trio; as a zombie it would keep the group alive.
    _ = process.returncode
    try:
        os.killpg(process.pid, number)
    except ProcessLookupError:
        return False
    except PermissionError:
        return number != 0  # some member runs as another user; it cannot be waited for
    return True


async def _close(stream: AsyncResource) -> None:
    with suppress(OSError, anyio.BrokenResourceError, anyio.ClosedResourceError):
        await stream.aclose()


def _release(process: Process) -> None:
    # On asyncio the pipes belong to a transport that waits for their other ends, which a child that
    # left the group may hold; anyio has no public way to close it.
    transport = getattr(getattr(process, "_process", None), "_transport", None)
    close = getattr(transport, "close", None)
    if callable(close):
        with suppress(PermissionError):
            close()
