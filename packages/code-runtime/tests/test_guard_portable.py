"""The fallback for systems without subreapers, run on Linux: process groups and a watcher."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import anyio
import pytest

from code_runtime._guard_proc import stat_of
from code_runtime._guarded import GuardError, ProgramStartError, Warden
from code_runtime._guarded_portable import open_portable_warden
from code_runtime._guarded_process import GuardedProcess

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks at /proc")

PAIR = "import os, time; os.fork(); os.write(1, b'x' * 5)\nwhile True: time.sleep(100)"


async def start(warden: Warden, code: str) -> tuple[GuardedProcess, int]:
    reader, writer = os.pipe()
    try:
        argv = [sys.executable, "-I", "-S", "-c", code]
        process = await warden.spawn(argv, env={}, cwd="/", stdout_fd=writer, stderr_fd=writer)
    except BaseException:
        os.close(reader)
        raise
    finally:
        os.close(writer)
    return process, reader


async def read_to_end(reader: int) -> bytes:
    """Read until nobody has the pipe open for writing, which says that all are gone."""
    seen = b""
    with anyio.fail_after(10):
        while True:
            await anyio.wait_readable(reader)
            data = os.read(reader, 4096)
            if not data:
                os.close(reader)
                return seen
            seen += data


@pytest.mark.anyio
async def test_portable_guard_reports_the_exit() -> None:
    async with open_portable_warden() as warden:
        process, reader = await start(warden, "import os; os.write(1, b'hello'); os._exit(7)")
        status = await process.wait_gone()
        assert (status.code, status.signal, status.reason) == (7, None, None)
        assert await read_to_end(reader) == b"hello"


@pytest.mark.anyio
async def test_portable_guard_kills_the_group() -> None:
    async with open_portable_warden() as warden:
        process, reader = await start(warden, PAIR)
        process.watch(1)
        assert await process.leftovers() == 0
        assert await process.sweep() == 0
        await process.kill()
        await read_to_end(reader)
        assert process.exit_status is not None
        assert process.exit_status.signal == signal.SIGKILL
    assert not warden.alive


@pytest.mark.anyio
async def test_portable_guard_that_is_killed_takes_the_program_along() -> None:
    async with open_portable_warden() as warden:
        process, reader = await start(warden, PAIR)
        os.kill(process.guard_pid, signal.SIGKILL)
        status = await process.wait_gone()
        assert status.reason == "guard-lost"
        await read_to_end(reader)


@pytest.mark.anyio
async def test_portable_guard_tells_why_a_program_cannot_start() -> None:
    async with open_portable_warden() as warden:
        with pytest.raises(ProgramStartError) as caught:
            await warden.spawn(["/nowhere"], env={}, cwd="/", stdout_fd=1, stderr_fd=1)
    assert str(caught.value) == (
        "Cannot start the program '/nowhere': exec failed with 'No such file or directory'"
        " (errno 2), expected an executable file and a folder"
    )
    with pytest.raises(GuardError) as closed:
        await warden.spawn(["/nowhere"], env={}, cwd="/", stdout_fd=1, stderr_fd=1)
    assert str(closed.value) == (
        "Cannot start the program '/nowhere': the warden is closed, expected a living one"
    )


@pytest.mark.anyio
@pytest.mark.parametrize("delay_ms", [0, 1, 5, 10, 20, 30])
async def test_portable_cancellation_leaves_nothing_behind(delay_ms: int) -> None:
    """The test's own fixture looks for processes and descriptors."""
    async with open_portable_warden() as warden:
        with anyio.move_on_after(delay_ms / 1000):
            _process, reader = await start(warden, PAIR)
            os.close(reader)
            await anyio.sleep_forever()


HOST = """
import os, sys, anyio
from code_runtime._guarded_portable import open_portable_warden
async def main():
    async with open_portable_warden() as warden:
        process = await warden.spawn(
            [sys.executable, "-c", sys.argv[1]], env={}, cwd="/", stdout_fd=1, stderr_fd=2
        )
        os.write(2, b"%d %d\\n" % (process.guard_pid, process.pid))
        await anyio.sleep_forever()
anyio.run(main)
"""


def test_dead_host_takes_the_program_along() -> None:
    command = [sys.executable, "-c", HOST, PAIR]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as host:
        assert host.stderr is not None
        pids = [int(word) for word in host.stderr.readline().split()]
        assert all(stat_of(pid) for pid in pids)
        host.kill()
        deadline = time.monotonic() + 2
        while any(stat_of(pid) for pid in pids):
            assert time.monotonic() < deadline
            time.sleep(0.01)
