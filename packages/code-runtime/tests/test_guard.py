"""The guard with real processes: ends, trees, memory, descriptors, cancellation."""

from __future__ import annotations

import asyncio
import os
import pickle
import re
import resource
import signal
import socket
import sys
import uuid
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, suppress

import anyio
import pytest

from code_runtime._guard_proc import stat_of
from code_runtime._guarded import (
    GuardedProcess,
    GuardError,
    ProgramStartError,
    Warden,
    open_warden,
)

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(sys.platform != "linux", reason="the guard needs Linux"),
]

# A program says in its output when it has done what the test waits for.
SAY = "import os, sys, time, signal\ndef say(text): os.write(1, (text + '\\n').encode())\n"


class Program:
    """One program under test, with its output and the mark in its environment."""

    def __init__(self, process: GuardedProcess, output: int, mark: str) -> None:
        self.process = process
        self.output = output
        self.mark = mark
        self.seen = b""

    async def line(self) -> str:
        with anyio.fail_after(20):
            while b"\n" not in self.seen:
                await anyio.wait_readable(self.output)
                data = os.read(self.output, 65536)
                assert data, f"output ended after {self.seen!r}"
                self.seen += data
        line, self.seen = self.seen.split(b"\n", 1)
        return line.decode()

    def alive(self) -> list[int]:
        return marked(self.mark)


def marked(mark: str) -> list[int]:
    """Living processes that inherited the mark."""
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit() and stat_of(int(name)):
            try:
                with open(f"/proc/{name}/environ", "rb") as file:
                    if mark.encode() in file.read():
                        found.append(int(name))
            except OSError:
                continue
    return found


def descriptors() -> dict[str, str]:
    return {name: link(name) for name in os.listdir("/proc/self/fd") if link(name)}


def link(name: str) -> str:
    try:
        return os.readlink(f"/proc/self/fd/{name}")
    except OSError:
        return ""


async def until(condition: Callable[[], bool], *, within_s: float = 10) -> None:
    with anyio.fail_after(within_s):
        while not condition():  # noqa: ASYNC110 - another process's state has no event
            await anyio.sleep(0.01)


@pytest.fixture
def null() -> Iterator[int]:
    fd = os.open("/dev/null", os.O_RDWR)
    yield fd
    os.close(fd)


@asynccontextmanager
async def running(
    warden: Warden,
    code: str,
    *,
    rlimits: Mapping[int, tuple[int, int]] | None = None,
    control_fd: int | None = None,
) -> AsyncIterator[Program]:
    mark = uuid.uuid4().hex
    reader, writer = os.pipe()
    try:
        try:
            process = await warden.spawn(
                [sys.executable, "-I", "-S", "-c", SAY + code],
                env={"MARK": mark},
                cwd="/",
                stdout_fd=writer,
                stderr_fd=writer,
                control_fd=control_fd,
                rlimits=rlimits,
            )
        finally:
            os.close(writer)
        try:
            yield Program(process, reader, mark)
        finally:
            await process.kill()
    finally:
        os.close(reader)


async def test_guard_reports_exit_code_and_resources() -> None:
    code = "kept = b'x' * 50_000_000\nwhile time.process_time() < 0.1: pass\nsys.exit(7)"
    async with open_warden() as warden, running(warden, code) as program:
        status = await program.process.wait_gone()
        assert (status.code, status.signal, status.reason) == (7, None, None)
        assert 0.09 < status.utime_s + status.stime_s < 5
        assert 50_000_000 < status.maxrss_bytes < 500_000_000
        assert program.process.exit_status == status


async def test_guard_reports_the_signal_that_ended_the_program() -> None:
    code = "os.kill(os.getpid(), signal.SIGTERM)"
    async with open_warden() as warden, running(warden, code) as program:
        status = await program.process.wait_exit()
        assert (status.code, status.signal) == (None, signal.SIGTERM)


@pytest.mark.parametrize(
    ("path", "cwd", "message"),
    [
        pytest.param(
            "/nowhere/program",
            "/",
            "Cannot start the program '/nowhere/program': exec failed with 'No such file or"
            " directory' (errno 2), expected an executable file and a folder",
            id="no file",
        ),
        pytest.param(
            "/bin/sh",
            "/nowhere",
            "Cannot start the program '/bin/sh': cwd failed with 'No such file or directory'"
            " (errno 2), expected an executable file and a folder",
            id="no folder",
        ),
        pytest.param(
            "/",
            "/",
            "Cannot start the program '/': exec failed with 'Permission denied' (errno 13),"
            " expected an executable file and a folder",
            id="not executable",
        ),
    ],
)
async def test_guard_tells_why_a_program_cannot_start(
    path: str, cwd: str, message: str, null: int
) -> None:
    async with open_warden() as warden:
        with pytest.raises(ProgramStartError) as caught:
            await warden.spawn([path], env={}, cwd=cwd, stdout_fd=null, stderr_fd=null)
        assert str(caught.value) == message
        copy = pickle.loads(pickle.dumps(caught.value))
        assert (str(copy), copy.errno) == (message, caught.value.errno)


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        ([], "Cannot start a program: argv is [], expected an absolute path first"),
        (["sh"], "Cannot start a program: argv is ['sh'], expected an absolute path first"),
        (
            ["/bin/sh", "\0"],
            "Cannot start a program: a NUL character in argv, env or cwd, expected none",
        ),
    ],
)
async def test_warden_refuses_a_wrong_command(argv: list[str], message: str) -> None:
    async with open_warden() as warden:
        with pytest.raises(ValueError, match="Cannot") as caught:
            await warden.spawn(argv, env={}, cwd="/", stdout_fd=1, stderr_fd=1)
        assert str(caught.value) == message


async def test_program_starts_clean() -> None:
    """Own session, default signals, usual umask, no core, only its own descriptors."""
    code = """
status = dict(line.split(':', 1) for line in open('/proc/self/status'))
import resource
say(repr([status[k].strip() for k in ('SigBlk', 'SigCgt', 'NoNewPrivs', 'Umask')]))
say(repr([os.getsid(0) == os.getpid(), os.readlink('/proc/self/fd/0'), os.getcwd()]))
say(repr([resource.getrlimit(resource.RLIMIT_CORE), resource.getrlimit(resource.RLIMIT_NOFILE)]))
say(repr(dict(os.environ).keys() - {'LC_CTYPE'}))
"""
    limits = {resource.RLIMIT_NOFILE: (64, 65)}
    async with open_warden() as warden, running(warden, code, rlimits=limits) as program:
        # SIGINT is what the interpreter catches by itself.
        assert await program.line() == "['0000000000000000', '0000000000000002', '0', '0022']"
        assert await program.line() == "[True, '/dev/null', '/']"
        assert await program.line() == "[(0, 0), (64, 65)]"
        assert await program.line() == "{'MARK'}"


async def test_program_ignores_no_signal() -> None:
    reader, writer = os.pipe()
    before = signal.signal(signal.SIGUSR2, signal.SIG_IGN)
    try:
        async with open_warden() as warden:
            argv = ["/bin/cat", "/proc/self/status"]
            process = await warden.spawn(argv, env={}, cwd="/", stdout_fd=writer, stderr_fd=writer)
            await process.wait_gone()
        match = re.search(rb"SigIgn:\t([0-9a-f]+)\n", os.read(reader, 65536))
        assert match is not None
        # 32 and 33 belong to the C library: no program can set them, and `make` passes them ignored.
        assert int(match[1], 16) & ~(3 << 31) == 0
    finally:
        signal.signal(signal.SIGUSR2, before)
        os.close(reader)
        os.close(writer)


async def test_no_descriptor_of_another_run_is_open() -> None:
    code = """
names = sorted(os.listdir('/proc/self/fd'), key=int)
say(repr([n for n in names if os.path.exists('/proc/self/fd/' + n)]))
time.sleep(100)
"""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        control = theirs.fileno()
        async with open_warden() as warden, running(warden, code, control_fd=control) as first:
            assert await first.line() == "['0', '1', '2', '3']"
            async with running(warden, code) as second:
                assert await second.line() == "['0', '1', '2']"
                if os.geteuid() != 0:
                    return  # the guard lets nobody else look at its descriptors
                folder = f"/proc/{second.process.guard_pid}/fd"
                kinds = [os.readlink(f"{folder}/{name}") for name in os.listdir(folder)]
                assert sorted(kind.split("[")[0] for kind in kinds) == [
                    *["/dev/null"] * 3,
                    *["anon_inode:"] * 3,
                    "socket:",
                ]


TREE = """
for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT): signal.signal(number, signal.SIG_IGN)
r, w = os.pipe()
if os.fork() == 0:
    os.setsid()
    for _ in range(3):
        if os.fork() == 0:
            os.setsid()
            os.write(w, b'x')
            while True: time.sleep(100)
    os._exit(0)
if os.fork() == 0:
    os.write(w, b'x')
    while True: time.sleep(100)
os.wait()
count = 0
while count < 4: count += len(os.read(r, 4))
say('ready')
"""


async def test_kill_ends_new_sessions_double_forks_and_ignored_signals() -> None:
    code = TREE + "time.sleep(100)"
    async with open_warden() as warden, running(warden, code) as program:
        assert await program.line() == "ready"
        assert len(program.alive()) == 5
        assert await program.process.leftovers() == 4
        await program.process.kill()
        assert program.alive() == []
        assert program.process.is_gone
        status = program.process.exit_status
        assert status is not None
        assert (status.signal, status.reason) == (signal.SIGKILL, None)
        await program.process.kill()


async def test_clean_end_leaves_nothing_behind() -> None:
    async with open_warden() as warden, running(warden, TREE + "os._exit(3)") as program:
        status = await program.process.wait_gone()
        assert status.code == 3
        assert program.alive() == []


async def test_sweep_spares_the_program() -> None:
    code = TREE + "sys.stdin.read(); time.sleep(100)"
    async with open_warden() as warden, running(warden, code) as program:
        assert await program.line() == "ready"
        assert await program.process.sweep() == 0
        assert program.alive() == [program.process.pid]
        assert await program.process.leftovers() == 0
        await program.process.kill()
        assert await program.process.leftovers() == 0
        assert await program.process.sweep() == 0


BOMB = """
import mmap
count = mmap.mmap(-1, 4)
def total(): return int.from_bytes(count[:4], 'little')
say('ready')
while True:
    if total() < 200:
        count[:4] = (total() + 1).to_bytes(4, 'little')
        if os.fork() == 0 and total() % 3 == 0: os.setsid()
    elif total() == 200:
        count[:4] = (201).to_bytes(4, 'little')
        say('full')
    else: time.sleep(1)
"""


@pytest.mark.parametrize("when", ["ready", "full"])
async def test_kill_ends_a_fork_bomb(when: str) -> None:
    async with open_warden() as warden, running(warden, BOMB) as program:
        while await program.line() != when:
            pass
        with anyio.fail_after(10):
            await program.process.kill()
        assert program.alive() == []
        assert program.process.exit_status is not None
        assert program.process.exit_status.reason is None


async def test_kill_ends_a_stopped_tree() -> None:
    code = "os.fork(); say('ready'); os.kill(0, signal.SIGSTOP)"
    async with open_warden() as warden, running(warden, code) as program:
        await program.line()
        pids = program.alive()
        await until(lambda: all((stat_of(pid) or "?")[0] == "T" for pid in pids))
        await program.process.kill()
        assert program.alive() == []


async def test_program_without_its_first_thread_is_alive() -> None:
    """The leader of the threads is a zombie then, which must not count as an end."""
    code = """
import ctypes, _thread
def rest():
    while stat() != 'Z': pass
    say('ready')
    time.sleep(100)
def stat(): return open('/proc/self/stat').read().rsplit(')', 1)[1].split()[0]
_thread.start_new_thread(rest, ())
ctypes.CDLL(None).pthread_exit(None)
"""
    async with open_warden() as warden:
        async with running(warden, "if os.fork(): time.sleep(100)\n" + code) as program:
            assert await program.line() == "ready"
            assert await program.process.leftovers() == 1
            assert await program.process.sweep() == 0
            assert program.alive() == [program.process.pid]
        async with running(warden, code) as program:
            assert await program.line() == "ready"
            assert program.process.exit_status is None
            await program.process.kill()
            assert program.alive() == []


MIB = 1024 * 1024


@pytest.mark.parametrize(
    "code",
    [
        pytest.param("kept = b'x' * (200 << 20)", id="one process"),
        pytest.param("[os.fork() for _ in range(2)]; kept = b'x' * (50 << 20)", id="tree"),
        pytest.param(
            "import mmap; kept = mmap.mmap(-1, 200 << 20); kept[:] = b'x' * len(kept)", id="shared"
        ),
        pytest.param(
            "os.fork() or (os.setsid(), os.fork() and os._exit(0)); kept = b'x' * (100 << 20)",
            id="daemon",
        ),
    ],
)
async def test_memory_over_the_limit_ends_the_tree(code: str) -> None:
    start = "say('ready'); sys.stdin.read(); time.sleep(0.1)\n"
    code = start + code + "\ntime.sleep(100)"
    async with open_warden() as warden, running(warden, code) as program:
        program.process.watch(128 * MIB)
        with anyio.fail_after(15):
            status = await program.process.wait_gone()
        assert (status.signal, status.reason) == (signal.SIGKILL, "memory")
        assert status.memory_bytes is not None
        assert 128 * MIB < status.memory_bytes < 1024 * MIB
        assert program.alive() == []


async def test_memory_shared_by_forks_counts_once() -> None:
    code = """
kept = b'x' * (60 << 20)
children = [os.fork() for _ in range(1)]
if os.fork() and children[0]:
    time.sleep(0.5)
    say('done')
time.sleep(100)
"""
    async with open_warden() as warden, running(warden, code) as program:
        program.process.watch(150 * MIB)
        assert await program.line() == "done"
        program.process.watch(None)
        assert program.process.exit_status is None


async def test_stopped_watch_kills_nothing() -> None:
    code = "time.sleep(0.1); kept = b'x' * (100 << 20); time.sleep(0.3); say('done')"
    async with open_warden() as warden, running(warden, code) as program:
        program.process.watch(50 * MIB)
        program.process.watch(None)
        assert await program.line() == "done"
        with pytest.raises(ValueError, match="Cannot") as caught:
            program.process.watch(0)
        assert str(caught.value) == (
            "Cannot watch a program: memory_bytes is 0 bytes, expected at least 1"
        )


@pytest.mark.parametrize("delay_ms", [0, 0.3, 1, 2, 3, 4, 5, 6, 8, 10])
async def test_cancellation_leaves_nothing_behind(delay_ms: float) -> None:
    mark = uuid.uuid4().hex
    reader, writer = os.pipe()
    async with open_warden() as warden:
        before = descriptors()
        for step in range(5):
            with anyio.move_on_after((delay_ms + step * 0.2) / 1000):
                process = await warden.spawn(
                    [sys.executable, "-I", "-S", "-c", TREE],
                    env={"MARK": mark},
                    cwd="/",
                    stdout_fd=writer,
                    stderr_fd=writer,
                )
                await process.kill()
                await anyio.sleep_forever()
        await until(lambda: descriptors() == before)
        assert marked(mark) == []
    os.close(reader)
    os.close(writer)


@pytest.mark.parametrize("is_twice", [False, True], ids=["once", "twice"])
async def test_native_cancellation_leaves_nothing_behind(
    is_twice: bool, anyio_backend: str, null: int
) -> None:
    """A task of asyncio can be cancelled through a shield, at any await."""
    if anyio_backend != "asyncio":
        return
    mark = uuid.uuid4().hex

    async def job(warden: Warden) -> None:
        process = await warden.spawn(
            ["/bin/sleep", "100"], env={"MARK": mark}, cwd="/", stdout_fd=null, stderr_fd=null
        )
        await process.kill()

    async with open_warden() as warden:
        before = descriptors()
        for step in range(25):
            task = asyncio.create_task(job(warden))
            await asyncio.sleep(step * 0.0002)
            task.cancel()
            if is_twice:
                await asyncio.sleep(0)
                task.cancel()
            with suppress(asyncio.CancelledError):
                await task
        await until(lambda: not marked(mark) and descriptors() == before)
        assert warden.alive


async def test_leaving_the_block_ends_all(null: int) -> None:
    before = descriptors()
    async with open_warden() as outer:
        # The event loop's own descriptors exist from here on.
        pid = outer.pid
    async with open_warden() as warden:
        async with running(warden, TREE + "time.sleep(100)") as program:
            await program.line()
        argv = ["/bin/sleep", "100"]
        process = await warden.spawn(argv, env={}, cwd="/", stdout_fd=null, stderr_fd=null)
    assert process.is_gone
    assert process.pidfd == -1
    assert not warden.alive
    for gone in (pid, warden.pid, process.pid, process.guard_pid):
        assert stat_of(gone) is None
    assert descriptors() == before


async def test_warden_block_is_cancelled_as_a_whole() -> None:
    opened: list[tuple[Warden, GuardedProcess]] = []
    with anyio.CancelScope() as scope:
        async with open_warden() as warden, running(warden, "time.sleep(100)") as program:
            opened.append((warden, program.process))
            scope.cancel()
            await anyio.sleep_forever()
    [(warden, process)] = opened
    assert process.is_gone
    assert stat_of(warden.pid) is None


async def test_warden_block_does_not_wrap_errors() -> None:
    with pytest.raises(LookupError, match="mine"):
        async with open_warden():
            raise LookupError("mine")


async def test_warden_is_refused_in_a_fork() -> None:
    async with open_warden() as warden, running(warden, "time.sleep(100)") as program:
        owner = warden._owner_pid
        warden._owner_pid = program.process._owner_pid = 1
        try:
            with pytest.raises(GuardError) as spawning:
                await warden.spawn(["/bin/sh"], env={}, cwd="/", stdout_fd=1, stderr_fd=1)
            with pytest.raises(GuardError) as killing:
                await program.process.kill()
        finally:
            warden._owner_pid = program.process._owner_pid = owner
        seen = f"this is process {owner}, a fork of the host process 1"
        expected = "the process that opened the warden"
        assert str(spawning.value) == (
            f"Cannot start the program '/bin/sh': {seen}, expected {expected}"
        )
        assert str(killing.value) == f"Cannot kill a program: {seen}, expected {expected}"


async def test_warden_that_is_no_python_is_refused() -> None:
    with pytest.raises(GuardError) as missing:
        async with open_warden(python="/nowhere/python"):
            pass
    assert str(missing.value) == (
        "Cannot start a warden: '/nowhere/python' cannot be executed (No such file or directory),"
        " expected a Python interpreter"
    )
    with pytest.raises(GuardError) as wrong:
        async with open_warden(python="/bin/true"):
            pass
    assert str(wrong.value) == (
        "Cannot start a warden: it ended before it was ready, expected a line that says ready"
    )


async def test_many_programs_run_at_once() -> None:
    async with open_warden() as warden:
        codes: list[int | None] = []

        async def one(code: int) -> None:
            async with running(warden, f"os._exit({code})") as program:
                codes.append((await program.process.wait_gone()).code)

        async with anyio.create_task_group() as tasks:
            for code in range(12):
                tasks.start_soon(one, code)
        assert sorted(code for code in codes if code is not None) == list(range(12))
