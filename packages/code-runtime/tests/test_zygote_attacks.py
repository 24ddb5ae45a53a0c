"""Forked programs that turn against guard and zygote, and hosts that die: nothing is left."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import anyio
import pytest
from forked_programs import CHILD, SAY, ZYGOTE, forked

from code_runtime._guard_proc import stat_of
from code_runtime._guarded import GuardError, open_warden

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="a zygote needs Linux")

# Two processes are below the program: a child, and a daemon in a session of its own.
TREE = """
def parent_of(pid): return int(open(f'/proc/{pid}/stat').read().rsplit(')', 1)[1].split()[1])
guard = os.getppid()
zygote = parent_of(guard)
r, w = os.pipe()
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.write(w, b'%d ' % os.getpid())
        while True: time.sleep(100)
    os._exit(0)
os.wait()
if os.fork() == 0:
    os.write(w, b'%d ' % os.getpid())
    while True: time.sleep(100)
seen = b''
while seen.count(b' ') < 2: seen += os.read(r, 100)
say(f'{os.getpid()} {seen.decode()}')
"""
REST = "\nwhile True: time.sleep(100)"


def living(line: str) -> list[int]:
    return [pid for pid in map(int, line.split()) if stat_of(pid)]


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("attack", "is_zygote_left"),
    [
        pytest.param("os.kill(guard, signal.SIGKILL)", True, id="kills its guard"),
        pytest.param("os.kill(guard, signal.SIGSTOP)", True, id="stops its guard"),
        pytest.param("os.kill(zygote, signal.SIGKILL)", False, id="kills the zygote"),
        pytest.param(
            "[os.kill(pid, signal.SIGKILL) for pid in (zygote, guard)]", False, id="kills both"
        ),
        pytest.param(
            "os.kill(zygote, signal.SIGSTOP); os.kill(guard, signal.SIGKILL)",
            True,
            id="stops the zygote and kills its guard",
        ),
    ],
)
async def test_attack_of_a_fork_leaves_nothing_and_is_told(
    attack: str, is_zygote_left: bool
) -> None:
    async with open_warden(zygote=ZYGOTE) as warden:
        async with forked(warden, TREE + attack + REST) as program:
            line = await program.line()
            with anyio.fail_after(4):
                status = await program.process.wait_gone()
            assert status.reason == "guard-lost"
            assert living(line) == []
            assert stat_of(program.process.guard_pid) is None
            # Nobody has the output open any more either.
            assert await program.rest() == ""
        if is_zygote_left:
            async with forked(warden, "say('next')") as program:
                assert await program.line() == "next"
                assert (await program.process.wait_gone()).code == 0
        else:
            with anyio.fail_after(2):
                await warden.wait_closed()
            with pytest.raises(GuardError) as caught:
                async with forked(warden, ""):
                    pass
            assert str(caught.value) == (
                "Cannot fork a program: the warden is closed, expected a living one"
            )
    assert stat_of(warden.pid) is None


@pytest.mark.anyio
async def test_dead_zygote_ends_every_program() -> None:
    async with (
        open_warden(zygote=ZYGOTE) as warden,
        forked(warden, TREE + REST) as first,
        forked(warden, None) as spare,
    ):
        line = await first.line()
        os.kill(warden.pid, signal.SIGKILL)
        with anyio.fail_after(4):
            statuses = [await first.process.wait_gone(), await spare.process.wait_gone()]
            await warden.wait_closed()
        assert [status.reason for status in statuses] == ["guard-lost", "guard-lost"]
        assert living(line) == []
        assert not stat_of(spare.process.pid)


@pytest.mark.anyio
async def test_killed_fork_takes_its_tree_along() -> None:
    code = TREE + "[signal.signal(n, signal.SIG_IGN) for n in (1, 2, 15)]; say('deaf')" + REST
    async with open_warden(zygote=ZYGOTE) as warden, forked(warden, code) as program:
        line = await program.line()
        assert await program.line() == "deaf"
        assert await program.process.leftovers() == 2
        await program.process.kill()
        assert living(line) == []
        status = program.process.exit_status
        assert status is not None
        assert (status.signal, status.reason) == (signal.SIGKILL, None)
        assert await program.rest() == ""


@pytest.mark.anyio
async def test_fork_bomb_of_a_fork_ends() -> None:
    bomb = """
import mmap
count = mmap.mmap(-1, 4)
say('ready')
while True:
    total = int.from_bytes(count[:4], 'little')
    if total < 200:
        count[:4] = (total + 1).to_bytes(4, 'little')
        if os.fork() == 0 and total % 3 == 0: os.setsid()
    else: time.sleep(1)
"""
    async with open_warden(zygote=ZYGOTE) as warden, forked(warden, bomb) as program:
        assert await program.line() == "ready"
        with anyio.fail_after(10):
            await program.process.kill()
        assert await program.rest() == ""


@pytest.mark.anyio
async def test_memory_of_a_fork_is_watched() -> None:
    code = "say('ready'); os.read(fd, 1); kept = b'x' * (200 << 20)" + REST
    async with open_warden(zygote=ZYGOTE) as warden, forked(warden, code) as program:
        assert await program.line() == "ready"
        program.process.watch(128 << 20)
        program.control.send(b"x")
        with anyio.fail_after(15):
            status = await program.process.wait_gone()
        assert (status.signal, status.reason) == (signal.SIGKILL, "memory")
        assert status.memory_bytes is not None
        assert status.memory_bytes > 128 << 20


@pytest.mark.anyio
async def test_processor_time_of_a_fork_starts_at_zero() -> None:
    code = "while time.process_time() < 0.2: pass\nos._exit(0)"
    async with open_warden(zygote=ZYGOTE) as warden, forked(warden, code) as program:
        status = await program.process.wait_gone()
        assert 0.19 < status.utime_s + status.stime_s < 2


# Root without its rights, as any user: a fork of a guard must not be taken for the guard.
STEAL = """
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
header = (ctypes.c_uint32 * 2)(0x20080522, 0)
assert libc.capset(header, (ctypes.c_uint32 * 6)()) == 0
def attempt(call):
    try: call()
    except OSError as error: return error.errno
    return 0
def steal(pid):
    fd = os.pidfd_open(pid)
    if libc.syscall(438, fd, 3, 0) < 0: raise OSError(ctypes.get_errno(), '')
guard = os.getppid()
zygote = int(open(f'/proc/{guard}/stat').read().rsplit(')', 1)[1].split()[1])
seen = []
for pid in (guard, zygote):
    seen += [attempt(lambda: os.open(f'/proc/{pid}/fd/3', os.O_RDWR))]
    seen += [attempt(lambda: os.open(f'/proc/{pid}/mem', os.O_RDWR))]
    seen += [attempt(lambda: steal(pid))]
child = os.fork()
if child == 0: time.sleep(100)
seen += [attempt(lambda: steal(child))]
say(repr(seen))
"""


@pytest.mark.anyio
async def test_fork_cannot_take_what_its_guard_has() -> None:
    if sys.implementation._multiarch != "x86_64-linux-gnu":
        pytest.skip("knows the numbers of system calls of one machine only")
    async with open_warden(zygote=ZYGOTE) as warden, forked(warden, STEAL) as program:
        # The last attempt, on a process of its own, shows that the others could work.
        assert await program.line() == repr([13, 13, 1, 13, 13, 1, 0])


HOST = """
import os, signal, socket, sys, time
import anyio
from code_runtime._guarded import Zygote, open_warden

async def main():
    child, code, attack, folder = sys.argv[1:]
    zygote = Zygote(child, "_fixture.main:serve")
    async with open_warden(zygote=zygote, remove_on_exit=folder) as warden:
        reader, writer = os.pipe()
        ours, theirs = socket.socketpair()
        process = await warden.fork(
            env={}, cwd="/", stdout_fd=writer, stderr_fd=writer, control_fd=theirs.fileno()
        )
        ours.sendall(code.encode() + b"\\0")
        line = os.read(reader, 1000).decode().strip()
        fork = 0
        if attack == "fork":
            fork = os.fork()
            if fork == 0:
                time.sleep(100)
        elif attack == "stop":
            os.kill(warden.pid, signal.SIGSTOP)
        print(warden.pid, process.guard_pid, line, flush=True)
        print(fork, flush=True)
        await anyio.sleep_forever()

anyio.run(main)
"""


@pytest.mark.parametrize("attack", ["none", "fork", "stop"])
def test_dead_host_leaves_no_fork_behind(tmp_path: Path, attack: str) -> None:
    """Also when a fork of the host keeps every socket open, or the zygote was frozen."""
    folder = tmp_path / "folder"
    folder.mkdir()
    arguments = [sys.executable, "-c", HOST, CHILD, SAY + TREE + REST, attack, str(folder)]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True) as host:
        assert host.stdout is not None
        line = host.stdout.readline()
        fork = int(host.stdout.readline())
        assert len(living(line)) == 5
        host.kill()
        try:
            deadline = time.monotonic() + 2
            while living(line):
                assert time.monotonic() < deadline
                time.sleep(0.01)
            assert not folder.exists()
        finally:
            if fork:
                os.kill(fork, signal.SIGKILL)
