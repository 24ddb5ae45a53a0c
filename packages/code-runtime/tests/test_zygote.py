"""Programs that are forks of a zygote: as in a new interpreter, and nothing of another run."""

from __future__ import annotations

import json
import os
import random
import resource
import signal
import socket
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest
from forked_programs import CHILD, SAY, ZYGOTE, descriptors, forked, link, until

from code_runtime._guard_proc import read_file, stat_of
from code_runtime._guarded import (
    GuardError,
    ProgramStartError,
    Warden,
    Zygote,
    open_warden,
)

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(sys.platform != "linux", reason="a zygote needs Linux"),
]

# Every interpreter that is installed beside the one that runs the tests.
PYENV = Path.home() / ".pyenv" / "versions"
PYTHONS = [
    pytest.param(
        python, id=python.parent.parent.name if python.parent.parent.parent == PYENV else "own"
    )
    for python in [
        Path(sys.executable),
        *(
            path
            for minor in (10, 12, 13)
            for path in sorted(PYENV.glob(f"3.{minor}.*/bin/python"))[:1]
        ),
    ]
]


@pytest.fixture
def null() -> Iterator[int]:
    fd = os.open("/dev/null", os.O_RDWR)
    yield fd
    os.close(fd)


LOOK = """
import asyncio, gc, json, locale, threading, warnings
def stream(s): return [s.name, s.mode, s.encoding, s.errors, s.line_buffering, s.write_through]
status = dict(line.split(':', 1) for line in open('/proc/self/status'))
try: asyncio.get_running_loop(); loop = True
except RuntimeError: loop = False
say(json.dumps({
    'signals': [status[k].strip() for k in ('SigBlk', 'SigIgn', 'SigCgt', 'Umask', 'NoNewPrivs')],
    'interrupt': repr(signal.getsignal(signal.SIGINT)), 'wakeup': signal.set_wakeup_fd(-1),
    'session': [os.getsid(0) == os.getpid(), os.getpgrp() == os.getpid()],
    'path': sys.path, 'flags': str(sys.flags), 'executable': sys.executable,
    'streams': [stream(s) for s in (sys.stdin, sys.stdout, sys.stderr)],
    'same': [sys.stdin is sys.__stdin__, sys.stdout is sys.__stdout__, sys.stderr is sys.__stderr__],
    'buffering': [sys.stdin.buffer.fileno(), sys.stdout.buffer.fileno(), sys.stdout.seekable()],
    'threads': [threading.active_count(), len(os.listdir('/proc/self/task'))],
    'thread': [threading.main_thread().native_id == os.getpid(), threading.main_thread().name,
               threading.main_thread().ident == threading.get_ident()],
    'loop': loop, 'gc': [gc.isenabled(), gc.get_threshold(), len(gc.callbacks)],
    'filters': repr(warnings.filters), 'recursion': sys.getrecursionlimit(),
    'hooks': [sys.gettrace() is None, sys.getprofile() is None, len(sys.meta_path)],
    'locale': locale.setlocale(locale.LC_ALL), 'encoding': sys.getfilesystemencoding(),
    'main': sorted(set(vars(sys.modules['__main__'])) - {'__annotations__'})
        if 'fd' in globals() else
        ['__builtins__', '__doc__', '__loader__', '__name__', '__package__', '__spec__'],
    'limits': [resource.getrlimit(getattr(resource, n)) for n in dir(resource) if n[:7] == 'RLIMIT_'],
    'dumpable': ctypes.CDLL(None).prctl(3, 0, 0, 0, 0),
    'death': death(), 'umask': os.umask(0o022),
}))
"""
BEFORE_LOOK = """
import ctypes, resource
def death():
    number = ctypes.c_int()
    ctypes.CDLL(None).prctl(2, ctypes.byref(number), 0, 0, 0)
    return number.value
"""


@pytest.mark.parametrize("python", PYTHONS)
async def test_forked_program_is_like_a_new_interpreter(python: Path) -> None:
    """The two differ in nothing that is looked at, but in how they came to be."""
    reader, writer = os.pipe()
    async with open_warden(python=str(python), zygote=ZYGOTE) as warden:
        argv = [str(python), "-I", "-c", SAY + BEFORE_LOOK + LOOK]
        executed = await warden.spawn(argv, env={}, cwd="/", stdout_fd=writer, stderr_fd=writer)
        os.close(writer)
        assert (await executed.wait_gone()).code == 0
        expected: dict[str, Any] = json.loads(os.read(reader, 65536))
        os.close(reader)
        async with forked(warden, BEFORE_LOOK + LOOK) as program:
            seen: dict[str, Any] = json.loads(await program.rest())
    assert seen == expected
    assert seen["dumpable"] == 1
    assert seen["death"] == signal.SIGKILL


@pytest.mark.parametrize("python", PYTHONS)
async def test_forked_program_has_what_was_asked_for(python: Path, tmp_path: Path) -> None:
    code = """
import ctypes, resource
libc = ctypes.CDLL(None)
libc.getenv.restype = ctypes.c_char_p
names = [n for n in os.listdir('/proc/self/fd') if os.path.exists('/proc/self/fd/' + n)]
say(repr([sorted(names), os.readlink('/proc/self/fd/0'), fd, os.get_inheritable(3)]))
say(repr([os.environ, libc.getenv(b'LC_CTYPE'), libc.getenv(b'A')]))
say(repr([os.getcwd(), time.tzname[0], sys.argv, sys.orig_argv == [sys.executable, '-I']]))
say(repr([resource.getrlimit(n) for n in (resource.RLIMIT_NOFILE, resource.RLIMIT_CORE)]))
"""
    environment = {"A": "b=ü\n", "TZ": "XYZ3"}
    value = environment["A"].encode()
    limits = {resource.RLIMIT_NOFILE: (64, 65)}
    async with (
        open_warden(python=str(python), zygote=ZYGOTE) as warden,
        forked(warden, code, env=environment, cwd=str(tmp_path), rlimits=limits) as program,
    ):
        assert await program.line() == "[['0', '1', '2', '3'], '/dev/null', 3, True]"
        assert await program.line() == f"[environ({environment}), None, {value!r}]"
        assert await program.line() == f"['{tmp_path}', 'XYZ', [''], True]"
        assert await program.line() == "[(64, 65), (0, 0)]"


async def test_forked_program_finds_no_name_of_guard_and_warden() -> None:
    """Objects of both are gone, not only out of sight."""
    code = """
import gc
gc.unfreeze()
def where(o): return f'{type(o).__module__}.{type(o).__qualname__}'
names = {where(o) for o in gc.get_objects()}
say(repr(sorted(n for n in names if '_guard' in n)))
say(repr([where(o) for o in gc.get_objects() if type(o).__name__ in ('socket', 'mmap', 'poll')]))
say(repr(sorted(n for n in sys.modules if 'guard' in n or 'fixture' in n)))
say(repr([line for line in open('/proc/self/maps') if '/dev/zero' in line or ' rw-s ' in line]))
try: import _guard_warden
except ImportError: say('no module')
frame = sys._getframe()
while frame.f_back: frame = frame.f_back
say(frame.f_code.co_name)
try: raise KeyError
except KeyError as error: say(repr(error.__context__))
"""
    async with open_warden(zygote=ZYGOTE) as warden, forked(warden, code) as program:
        # The entry is what the program was started by.
        assert await program.line() == "['_guard_zygote.Entry']"
        assert await program.line() == "[]"
        assert await program.line() == "['_fixture', '_fixture.main']"
        assert await program.line() == "[]"
        assert await program.line() == "no module"
        assert await program.line() == "<module>"
        assert await program.line() == "None"


@pytest.mark.parametrize(
    ("code", "expected", "output"),
    [
        pytest.param("print('done', end='')", 0, "done", id="returns"),
        pytest.param("sys.exit(3)", 3, "", id="exits"),
        pytest.param("sys.exit('why')", 1, "why\n", id="exits with a text"),
        pytest.param(
            "import atexit; atexit.register(print, 'last'); print('first')",
            0,
            "first\nlast\n",
            id="handlers of the end",
        ),
    ],
)
async def test_forked_program_ends_like_a_script(code: str, expected: int, output: str) -> None:
    async with open_warden(zygote=ZYGOTE) as warden, forked(warden, code) as program:
        status = await program.process.wait_gone()
        assert (status.code, status.signal, status.reason) == (expected, None, None)
        assert await program.rest() == output


async def test_forked_program_ends_with_its_control() -> None:
    """A spare that was never used leaves when the host lets go of it."""
    async with open_warden(zygote=ZYGOTE) as warden, forked(warden, None) as program:
        program.control.shutdown(socket.SHUT_WR)
        assert (await program.process.wait_gone()).code == 0


async def test_state_of_one_program_does_not_reach_the_next(tmp_path: Path) -> None:
    code = """
import builtins, random, tempfile, threading
say(repr([os.getcwd(), hasattr(builtins, 'mark'), 'MARK' in os.environ, sys.argv]))
say(repr([random.random(), tempfile.gettempdir(), sys.modules['_fixture.keeps_state'].marks]))
builtins.mark = os.environ['MARK'] = '1'
sys.argv.append('x')
sys.path.append('x')
sys.modules['_fixture.keeps_state'].marks.append('x')
os.chdir('/tmp')
signal.signal(signal.SIGTERM, signal.SIG_IGN)
threading.Thread(target=time.sleep, args=(100,), daemon=True).start()
random.seed(1)
"""
    zygote = Zygote(CHILD, "_fixture.main:serve", ("random", "_fixture.keeps_state"))
    numbers = set()
    async with open_warden(zygote=zygote) as warden:
        for folder in (tmp_path, tmp_path.parent, tmp_path):
            async with forked(warden, code, env={"TMPDIR": str(folder)}) as program:
                assert await program.line() == "['/', False, False, ['']]"
                number, rest = (await program.line())[1:-1].split(", ", 1)
                assert rest == f"'{folder}', []"
                numbers.add(number)
                assert (await program.process.wait_gone()).code == 0
                assert await program.rest() == ""
    assert len(numbers) == 3


NEEDLE = """
import re
found = set()
with open('/proc/self/mem', 'rb') as memory:
    for line in open('/proc/self/maps'):
        span, mode = line.split()[:2]
        if mode[0] == 'r' and not line.endswith(('[vvar]\\n', '[vsyscall]\\n', '[vvar_vclock]\\n')):
            start, end = (int(part, 16) for part in span.split('-'))
            memory.seek(start)
            found |= set(re.findall(rb'needle:[0-9a-f]{32}', memory.read(end - start)))
say(repr(sorted(found)))
"""


async def test_memory_of_a_program_holds_nothing_of_another_run() -> None:
    """What a run asks for does not pass through the zygote, whose memory every program shares."""
    first, second = (f"needle:{random.getrandbits(128):032x}" for _ in range(2))
    async with open_warden(zygote=ZYGOTE) as warden:
        async with forked(warden, NEEDLE, env={"A": first}) as program:
            assert await program.line() == repr([first.encode()])
            async with forked(warden, NEEDLE, env={"A": second}) as other:
                assert await other.line() == repr([second.encode()])
        async with forked(warden, NEEDLE) as program:
            assert await program.line() == "[]"


async def test_large_environment_arrives_whole() -> None:
    environment = {f"NAME{number}": "x" * 1000 for number in range(2000)}
    code = "say(repr([len(os.environ), sum(map(len, os.environ.values()))]))"
    async with open_warden(zygote=ZYGOTE) as warden, forked(warden, code, env=environment) as big:
        assert await big.line() == "[2000, 2000000]"


async def test_no_descriptor_of_another_run_is_open_in_a_fork() -> None:
    code = "say(repr(len(os.listdir('/proc/self/fd')))); time.sleep(100)"
    async with (
        open_warden(zygote=ZYGOTE) as warden,
        forked(warden, code) as first,
        forked(warden, code) as second,
    ):
        for program in (first, second):
            # Four, and the one that lists them.
            assert await program.line() == "5"
        if os.geteuid() != 0:
            return  # guard and warden let nobody else look at their descriptors
        # Pidfds of the host, the warden and the program; the socket to the host.
        guard = [*["/dev/null"] * 3, *["anon_inode:"] * 3, "socket:"]
        assert await settled_kinds(second.process.guard_pid, guard) == guard
        # Pidfds of the host, itself and two guards; the socket to the host.
        above = [*["/dev/null"] * 3, *["anon_inode:"] * 4, "socket:"]
        assert await settled_kinds(warden.pid, above) == above


async def settled_kinds(pid: int, expected: list[str]) -> list[str]:
    """Return `kinds` once they are as expected; a process may open one more for a moment."""
    with anyio.move_on_after(5):
        while kinds(pid) != expected:  # noqa: ASYNC110 nobody tells
            await anyio.sleep(0.01)
    return kinds(pid)


def kinds(pid: int) -> list[str]:
    """What the descriptors of a process are, without those that were closed meanwhile."""
    folder = f"/proc/{pid}/fd"
    links = [link(f"{folder}/{name}") for name in os.listdir(folder)]
    return sorted(text.split("[")[0] for text in links if text)


async def test_two_hundred_forks_leave_nothing(null: int) -> None:
    async with open_warden(zygote=ZYGOTE) as warden:
        async with forked(warden, "") as program:
            await program.process.wait_gone()
            guard_pid = program.process.guard_pid
        before = descriptors()
        sizes = []
        for _ in range(200):
            ours, theirs = socket.socketpair()
            with ours:
                with theirs:
                    process = await warden.fork(
                        env={"A": "x" * 10_000},
                        cwd="/",
                        stdout_fd=null,
                        stderr_fd=null,
                        control_fd=theirs.fileno(),
                    )
                ours.sendall(b"\0")
                assert (await process.wait_gone()).code == 0
                assert stat_of(process.pid) is None
                assert process.guard_pid == guard_pid
            sizes.append(read_file(f"/proc/{guard_pid}/statm").split()[1])
        assert descriptors() == before
        warden._drop_guards()
        children = f"/proc/{warden.pid}/task/{warden.pid}/children"
        await until(lambda: read_file(children) == b"")
        if os.geteuid() == 0:
            # Pidfds of the host and itself; the socket to the host.
            left = [*["/dev/null"] * 3, *["anon_inode:"] * 2, "socket:"]
            await until(lambda: kinds(warden.pid) == left)
        # Pages of 4 KiB; the first forks still fill what the allocator keeps.
        assert int(sizes[-1]) - int(sizes[50]) < 64


async def test_many_forks_run_at_once() -> None:
    codes: list[int | None] = []

    async def one(warden: Warden, code: int) -> None:
        async with forked(warden, f"os._exit({code})") as program:
            codes.append((await program.process.wait_gone()).code)

    async with open_warden(zygote=ZYGOTE) as warden, anyio.create_task_group() as tasks:
        for code in range(16):
            tasks.start_soon(one, warden, code)
    assert sorted(code for code in codes if code is not None) == list(range(16))


async def test_zygote_executes_programs_too() -> None:
    reader, writer = os.pipe()
    async with open_warden(zygote=ZYGOTE) as warden:
        process = await warden.spawn(
            ["/bin/echo", "hello"], env={}, cwd="/", stdout_fd=writer, stderr_fd=writer
        )
        os.close(writer)
        assert (await process.wait_gone()).code == 0
    assert os.read(reader, 100) == b"hello\n"
    os.close(reader)


@pytest.mark.parametrize(
    ("cwd", "rlimits", "message"),
    [
        pytest.param(
            "/nowhere",
            {},
            "Cannot start the program '_fixture.main:serve': cwd failed with 'No such file or"
            " directory' (errno 2), expected an executable file and a folder",
            id="no folder",
        ),
        pytest.param(
            "/",
            {9999: (1, 1)},
            "Cannot start the program '_fixture.main:serve': rlimits failed with 'Invalid argument'"
            " (errno 22), expected an executable file and a folder",
            id="no such limit",
        ),
    ],
)
async def test_fork_tells_why_a_program_cannot_start(
    cwd: str, rlimits: dict[int, tuple[int, int]], message: str
) -> None:
    async with open_warden(zygote=ZYGOTE) as warden:
        with pytest.raises(ProgramStartError) as caught:
            async with forked(warden, "", cwd=cwd, rlimits=rlimits):
                pass
        assert str(caught.value) == message


@pytest.mark.parametrize(
    ("env", "message"),
    [
        (
            {"A": "\0"},
            "Cannot start a program: a NUL character in argv, env or cwd, expected none",
        ),
        (
            {"A=B": "c"},
            "Cannot start a program: env holds the name 'A=B', expected one that is not empty and"
            " without '='",
        ),
        (
            {"": "c"},
            "Cannot start a program: env holds the name '', expected one that is not empty and"
            " without '='",
        ),
    ],
)
async def test_fork_refuses_a_wrong_environment(env: dict[str, str], message: str) -> None:
    async with open_warden(zygote=ZYGOTE) as warden:
        with pytest.raises(ValueError, match="Cannot") as caught:
            async with forked(warden, "", env=env):
                pass
        assert str(caught.value) == message


async def test_fork_needs_a_zygote() -> None:
    async with open_warden() as warden:
        with pytest.raises(GuardError) as caught:
            async with forked(warden, ""):
                pass
    assert str(caught.value) == (
        "Cannot fork a program: the warden was opened without zygote, expected one that is a zygote"
    )


async def test_fork_is_refused_after_the_end_and_in_a_fork_of_the_host() -> None:
    async with open_warden(zygote=ZYGOTE) as warden:
        owner = warden._owner_pid
        warden._owner_pid = 1
        with pytest.raises(GuardError) as caught:
            async with forked(warden, ""):
                pass
        warden._owner_pid = owner
        assert str(caught.value) == (
            f"Cannot fork a program: this is process {owner}, a fork of the host process 1,"
            " expected the process that opened the warden"
        )
    with pytest.raises(GuardError) as closed:
        async with forked(warden, ""):
            pass
    assert str(closed.value) == (
        "Cannot fork a program: the warden is closed, expected a living one"
    )


@pytest.mark.parametrize("delay_ms", [0, 0.3, 1, 2, 3, 4, 5, 7, 10])
async def test_cancelled_fork_leaves_nothing_behind(delay_ms: float, null: int) -> None:
    async with open_warden(zygote=ZYGOTE) as warden:
        before = descriptors()
        for step in range(5):
            ours, theirs = socket.socketpair()
            with ours, theirs, anyio.move_on_after((delay_ms + step * 0.2) / 1000):
                process = await warden.fork(
                    env={"A": "x" * 400_000},
                    cwd="/",
                    stdout_fd=null,
                    stderr_fd=null,
                    control_fd=theirs.fileno(),
                )
                await process.kill()
                await anyio.sleep_forever()
        warden._drop_guards()
        await until(lambda: descriptors() == before)
        children = f"/proc/{warden.pid}/task/{warden.pid}/children"
        await until(lambda: read_file(children) == b"")
        assert warden.alive
