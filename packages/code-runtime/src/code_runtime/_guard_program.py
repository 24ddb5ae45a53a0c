"""Start a program from its guard: what was asked for, and the way from a fork to a program.

The host writes a request to the guard's channel, before all commands: a length (4 bytes,
big-endian, less than 2^24) and a body of fields with a NUL byte between them. What becomes the
program's descriptors 1, 2 and perhaps 3 rides with its first byte.

    spawn CWD RLIMITS ARGC ARG... NAME=VALUE...        execute a file
    fork CWD RLIMITS 0 NAME=VALUE...                   go on in the entry of the zygote

Standard library only; loaded by path in guard processes, on Linux and macOS.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import os
import resource
import signal
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from signal import signal as set_action
else:
    # What `signal.signal` calls, without making enumerations of what goes in and out.
    from _signal import signal as set_action

_PR_SET_PDEATHSIG = 1
_PR_SET_DUMPABLE = 4
_PR_SET_CHILD_SUBREAPER = 36
_IS_LINUX: bool = sys.platform == "linux"
_libc = ctypes.CDLL(None, use_errno=True)
# Where a guard holds what becomes the program's descriptors 1, 2 and 3.
PROGRAM_SOURCES = (_OUT, _ERR, _CONTROL) = (6, 7, 8)


class SpawnRequest:
    """What the host asked for; without arguments the program is a fork of the zygote."""

    def __init__(
        self,
        *,
        argv: Sequence[bytes],
        env: dict[bytes, bytes],
        cwd: bytes,
        rlimits: Sequence[tuple[int, int, int]],
    ) -> None:
        self.argv = argv
        self.env = env
        self.cwd = cwd
        self.rlimits = rlimits


class ForkedProgram(BaseException):
    """Unwinds the stack of warden and guard in a program that was forked from a zygote.

    Raised and not called, so that nothing of either is in reach of the program.
    """

    def __init__(self, env: dict[bytes, bytes]) -> None:
        self.env = env


def parse_request(body: bytes) -> SpawnRequest:
    """Read the body of a request."""
    _kind, cwd, rlimits, argument_count, *rest = body.split(b"\0")
    size = int(argument_count)
    numbers = [int(number) for number in rlimits.split()]
    return SpawnRequest(
        argv=rest[:size],
        env=dict(pair.split(b"=", 1) for pair in rest[size:]),
        cwd=cwd,
        rlimits=list(zip(numbers[::3], numbers[1::3], numbers[2::3], strict=True)),
    )


def describe_exit(status: int, usage: resource.struct_rusage, cause: str) -> str:
    """Word the guard's message on the end of the program."""
    is_code = os.WIFEXITED(status)
    number = os.WEXITSTATUS(status) if is_code else os.WTERMSIG(status)
    maxrss_unit_bytes = 1024 if _IS_LINUX else 1
    return (
        f"exit {'code' if is_code else 'signal'} {number}"
        f" {round(usage.ru_utime * 1e6)} {round(usage.ru_stime * 1e6)}"
        f" {usage.ru_maxrss * maxrss_unit_bytes} {cause}"
    )


def place_descriptors(sources: Sequence[int]) -> None:
    """Give these descriptors the numbers from 0 on, and close all others."""
    # First out of the way of the targets, then to them.
    parked = [fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 32) for fd in sources]
    for target, fd in enumerate(parked):
        os.dup2(fd, target, inheritable=target < 3)
    close_from(len(sources))


def move_descriptors(sources: Sequence[int], first: int) -> None:
    """Give these descriptors the numbers from `first` on, which are free or their own."""
    if list(sources) == list(range(first, first + len(sources))):
        return
    parked = [fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 32) for fd in sources]
    for fd in sources:
        os.close(fd)
    for target, fd in enumerate(parked, first):
        os.dup2(fd, target, inheritable=False)
        os.close(fd)


def close_from(first: int) -> None:
    """Close every descriptor from a number on."""
    # By name, not by range: some systems set the limit of descriptors to a billion.
    for name in os.listdir("/proc/self/fd" if _IS_LINUX else "/dev/fd"):
        if int(name) >= first:
            with contextlib.suppress(OSError):
                os.close(int(name))


def become_program(request: SpawnRequest, writer: int, *, has_control: bool) -> None:
    """Execute the program, in a session of its own and with its own descriptors only.

    It returns in a fork of a zygote only, which is prepared in the same way. The end of `writer`
    without text says that the program runs.
    """
    stage = "prepare"
    try:
        os.setsid()
        # Safe here, because the guard has one thread: the signal follows the parent's thread.
        if _IS_LINUX:
            die_with_parent(signal.SIGKILL)
        writer = _place_program_descriptors(writer, has_control=has_control)
        restore_signals()
        os.umask(0o022)
        stage = "rlimits"
        for number, soft, hard in request.rlimits:
            resource.setrlimit(number, (soft, hard))
        stage = "cwd"
        os.chdir(request.cwd)
        stage = "exec"
        if not request.argv:
            os.close(writer)
            return
        os.execve(request.argv[0], list(request.argv), request.env)
    except OSError as error:
        os.write(writer, f"{stage} {error.errno}".encode("ascii"))
    except BaseException:
        os.write(writer, f"{stage} 22".encode("ascii"))
    os._exit(127)


def _place_program_descriptors(writer: int, *, has_control: bool) -> int:
    writer = fcntl.fcntl(writer, fcntl.F_DUPFD_CLOEXEC, 32)
    os.dup2(_OUT, 1)
    os.dup2(_ERR, 2)
    if has_control:
        os.dup2(_CONTROL, 3)
    else:
        os.close(3)
    os.dup2(writer, 4, inheritable=False)
    close_from(5)
    return 4


def take_in_orphans() -> None:
    """Become a subreaper, which a fork does not inherit.

    Raises:
        OSError: the system refuses.
    """
    if _libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_CHILD_SUBREAPER)")


def die_with_parent(number: signal.Signals | None) -> None:
    """Get a signal when the thread that started this process ends, or none."""
    _libc.prctl(_PR_SET_PDEATHSIG, int(number or 0), 0, 0, 0)


def refuse_tracers() -> None:
    """Keep processes of the same user from tracing this one or opening its descriptors in /proc.

    It does not hold against CAP_SYS_PTRACE, and an exec sets it back.
    """
    _libc.prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)


def admit_tracers() -> None:
    """Take back what `refuse_tracers` did, as an exec does."""
    _libc.prctl(_PR_SET_DUMPABLE, 1, 0, 0, 0)


def clear_environment() -> None:
    """Remove every variable, those that `os.environ` does not know included."""
    os.environ.clear()
    _libc.clearenv()


_LEFT_ALONE = frozenset({signal.SIGKILL, signal.SIGSTOP, signal.SIGCHLD, signal.SIGCONT})
_FAULTS = frozenset({signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGABRT})


# As plain numbers, which take a tenth of the time: a program starts after one pass through them.
_IGNORED = [int(number) for number in signal.valid_signals() - _LEFT_ALONE - _FAULTS]
_RESTORED = [int(n) for n in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}]
_DEFAULT = int(signal.SIG_DFL)


def ignore_signals() -> None:
    """Ignore every signal that a program could send to stop this process politely."""
    for number in _IGNORED:
        with contextlib.suppress(OSError, ValueError):
            signal.signal(number, signal.SIG_IGN)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


def restore_signals() -> None:
    """Give every signal its default action, as a program expects at its start."""
    for number in _RESTORED:
        try:
            set_action(number, _DEFAULT)
        except (OSError, ValueError):
            continue  # the C library keeps a few for itself
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
