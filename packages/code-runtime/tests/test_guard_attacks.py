"""Programs that turn against their guard or warden, and hosts that die: nothing is left."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import anyio
import pytest

from code_runtime._guard_proc import stat_of
from code_runtime._guarded import GuardedProcess, GuardError, Warden, open_warden
from code_runtime._guarded_process import FreeGuard, WardenLink

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the guard needs Linux")

# Two processes are below the program: a child, and a daemon in a session of its own.
ATTACK = """
import os, signal, time
def parent_of(pid): return int(open(f'/proc/{pid}/stat').read().rsplit(')', 1)[1].split()[1])
guard = os.getppid()
warden = parent_of(guard)
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        while True: time.sleep(100)
    os._exit(0)
os.wait()
if os.fork() == 0:
    while True: time.sleep(100)
os.write(1, b'ready\\n')
"""
REST = "\nwhile True: time.sleep(100)"


def marked(mark: str) -> list[int]:
    """Living processes that inherited the mark."""
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit() and stat_of(int(name)):
            with suppress(OSError):
                if mark.encode() in Path(f"/proc/{name}/environ").read_bytes():
                    found.append(int(name))
    return found


@asynccontextmanager
async def attacked(
    warden: Warden, attack: str, *, line: bytes | None = None
) -> AsyncIterator[tuple[GuardedProcess, str]]:
    mark = uuid.uuid4().hex
    reader, writer = os.pipe()
    try:
        process = await warden.spawn(
            [sys.executable, "-I", "-S", "-c", ATTACK + attack + REST],
            env={"MARK": mark},
            cwd="/",
            stdout_fd=writer,
            stderr_fd=writer,
        )
        os.close(writer)
        seen = b""
        while line is not None and line not in seen:
            await anyio.wait_readable(reader)
            seen += os.read(reader, 4096)
        yield process, mark
        await process.kill()
    finally:
        os.close(reader)


ATTACKS = [
    pytest.param("os.kill(guard, signal.SIGKILL)", True, id="kills its guard"),
    pytest.param("os.kill(guard, signal.SIGSTOP)", True, id="stops its guard"),
    pytest.param("os.kill(warden, signal.SIGKILL)", False, id="kills the warden"),
    pytest.param(
        "[os.kill(pid, signal.SIGKILL) for pid in (warden, guard)]", False, id="kills both"
    ),
    pytest.param(
        """
if os.fork() == 0:
    os.setsid()
    [os.kill(pid, signal.SIGKILL) for pid in (warden, guard)]
""",
        False,
        id="a daemon kills both",
    ),
    pytest.param(
        "os.kill(warden, signal.SIGSTOP); os.kill(guard, signal.SIGKILL)",
        True,
        id="stops the warden and kills its guard",
    ),
]


@pytest.mark.anyio
@pytest.mark.parametrize(("attack", "is_warden_left"), ATTACKS)
async def test_attack_leaves_nothing_and_is_told(attack: str, is_warden_left: bool) -> None:
    async with open_warden() as warden:
        async with attacked(warden, attack) as (process, mark):
            with anyio.fail_after(4):
                status = await process.wait_gone()
            assert status.reason == "guard-lost"
            assert marked(mark) == []
            assert stat_of(process.guard_pid) is None
        if is_warden_left:
            assert warden.alive
            # The next program is not concerned.
            async with attacked(warden, "") as (process, mark):
                await process.kill()
                assert process.exit_status is not None
                assert process.exit_status.reason is None
                assert marked(mark) == []
        else:
            assert not warden.alive
            with pytest.raises(GuardError) as caught:
                await warden.spawn(["/bin/sh"], env={}, cwd="/", stdout_fd=1, stderr_fd=1)
            assert str(caught.value) == (
                "Cannot start the program '/bin/sh': the warden is closed, expected a living one"
            )
    assert stat_of(warden.pid) is None


@pytest.mark.anyio
async def test_dead_warden_ends_the_other_programs_too() -> None:
    async with open_warden() as warden, attacked(warden, "") as (other, other_mark):
        async with attacked(warden, "os.kill(warden, signal.SIGKILL)"):
            with anyio.fail_after(4):
                status = await other.wait_gone()
        assert (status.signal, status.reason) == (signal.SIGKILL, "guard-lost")
        assert marked(other_mark) == []


@pytest.mark.anyio
async def test_polite_signals_do_not_reach_guard_and_warden() -> None:
    attack = """
for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
    if number not in (4, 6, 7, 8, 11):
        os.kill(guard, number), os.kill(warden, number)
os.write(1, b'sent')
"""
    async with open_warden() as warden, attacked(warden, attack, line=b"sent") as (process, _):
        assert await process.leftovers() == 2
        assert process.exit_status is None
        assert warden.alive


@pytest.mark.anyio
@pytest.mark.parametrize("attack", ["guard", "warden", "guard, warden"])
async def test_kill_is_bounded_when_they_are_frozen(attack: str) -> None:
    stop = f"[os.kill(pid, signal.SIGSTOP) for pid in ({attack},)]; os.write(1, b'done')"
    async with open_warden() as warden, attacked(warden, stop, line=b"done") as (process, mark):
        begin = anyio.current_time()
        await process.kill()
        assert anyio.current_time() - begin < 3
        assert marked(mark) == []
        assert stat_of(process.guard_pid) is None


class DeadWarden:
    """Stands in for a warden that is gone, so that only the byte stream is under test."""

    alive = False

    async def condemn(self, name: int) -> None:
        raise AssertionError(name)

    def give_up(self) -> None:
        return

    def keep(self, guard: FreeGuard) -> None:
        guard.close()


@pytest.mark.anyio
@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(b"\n", id="empty line"),
        pytest.param(b"started 1 2\n", id="no descriptors"),
        pytest.param(b"started\n", id="too few words"),
        pytest.param(b"failed exec x\n", id="no number"),
        pytest.param(b"failed \xff 1\n", id="not ascii"),
        pytest.param(b"exit code -1 0 0 0 none\n", id="negative"),
        pytest.param(b"exit code " + b"9" * 17 + b" 0 0 0 none\n", id="huge number"),
        pytest.param(b"exit how 1 0 0 0 none\n", id="unknown kind of exit"),
        pytest.param(b"gone 0 free\n", id="gone before exit"),
        pytest.param(b"leftovers 1\n", id="answer without a question"),
        pytest.param(b"x" * 70_000, id="endless line"),
        pytest.param("exit code ² 0 0 0 none\n".encode(), id="odd digit"),
    ],
)
async def test_garbage_of_a_guard_counts_as_a_lost_guard(data: bytes) -> None:
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    process = GuardedProcess(1, "/bin/sh", ours, frozenset())
    async with anyio.create_task_group() as tasks:
        link: WardenLink = DeadWarden()
        tasks.start_soon(process.serve, link)
        with theirs, suppress(BrokenPipeError):
            await anyio.to_thread.run_sync(theirs.sendall, data)
            if not data:
                theirs.shutdown(socket.SHUT_WR)
        with anyio.fail_after(5):
            await process.wait_gone()
    status = process.exit_status
    assert status is not None
    assert (status.code, status.signal, status.reason) == (None, None, "guard-lost")
    assert ours.fileno() == -1


HOST = """
import os, signal, sys, time
import anyio
from code_runtime._guarded import open_warden

async def main():
    python, mark, folder, code, attack = sys.argv[1:]
    async with open_warden(remove_on_exit=folder) as warden:
        reader, writer = os.pipe()
        process = await warden.spawn(
            [python, "-I", "-S", "-c", code], env={"MARK": mark}, cwd="/",
            stdout_fd=writer, stderr_fd=writer,
        )
        assert os.read(reader, 6) == b"ready\\n"
        fork = 0
        if attack == "fork":
            fork = os.fork()
            if fork == 0:
                while True:
                    time.sleep(100)
        elif attack == "stop":
            os.kill(warden.pid, signal.SIGSTOP)
        print(warden.pid, process.guard_pid, fork, flush=True)
        await anyio.sleep_forever()

anyio.run(main, backend="trio")
"""


def wait_until(condition: Callable[[], bool], *, within_s: float) -> None:
    deadline = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.mark.parametrize("attack", ["none", "fork", "stop"])
def test_dead_host_leaves_nothing_behind(tmp_path: Path, attack: str) -> None:
    """Also when a fork of the host keeps the lifeline open, or the warden was frozen."""
    mark = uuid.uuid4().hex
    folder = tmp_path / "folder"
    (folder / "below").mkdir(parents=True)
    (folder / "below" / "file").touch()
    arguments = [sys.executable, "-c", HOST, sys.executable, mark, str(folder), ATTACK + REST]
    with subprocess.Popen([*arguments, attack], stdout=subprocess.PIPE) as host:
        assert host.stdout is not None
        warden, guard, fork = map(int, host.stdout.readline().split())
        assert len(marked(mark)) == 3
        host.kill()
        try:
            wait_until(
                lambda: not marked(mark) and not stat_of(guard) and not stat_of(warden),
                within_s=2,
            )
            assert not folder.exists()
        finally:
            if fork:
                os.kill(fork, signal.SIGKILL)


def test_dead_host_ends_a_fork_bomb(tmp_path: Path) -> None:
    bomb = """
import mmap, os, time
count = mmap.mmap(-1, 4)
os.write(1, b'ready\\n')
while True:
    total = int.from_bytes(count[:4], 'little')
    if total < 200:
        count[:4] = (total + 1).to_bytes(4, 'little')
        if os.fork() == 0 and total % 3 == 0: os.setsid()
    else: time.sleep(1)
"""
    mark = uuid.uuid4().hex
    arguments = [sys.executable, "-c", HOST, sys.executable, mark, str(tmp_path / "x"), bomb]
    with subprocess.Popen([*arguments, "none"], stdout=subprocess.PIPE) as host:
        assert host.stdout is not None
        warden, guard, _fork = map(int, host.stdout.readline().split())
        host.kill()
        wait_until(
            lambda: not marked(mark) and not stat_of(guard) and not stat_of(warden), within_s=2
        )
