"""Guards that serve one program after another: nothing of one is left for the next."""

from __future__ import annotations

import os
import resource
import signal
import socket
import sys

import anyio
import pytest
from forked_programs import ZYGOTE, Program, descriptors, forked, until

from code_runtime._guard_proc import read_file, stat_of
from code_runtime._guarded import ExitStatus, GuardedProcess, Warden, open_warden
from code_runtime._guarded_process import FreeGuard
from code_runtime._guarded_requests import pack

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(sys.platform != "linux", reason="a zygote needs Linux"),
]

FACTS = """
import json, resource
status = dict(line.split(':', 1) for line in open('/proc/self/status'))
say(json.dumps([
    sorted(os.environ.items()), os.getcwd(), sorted(os.listdir('/proc/self/fd')),
    os.getsid(0) == os.getpid(), os.getppid(), os.nice(0),
    [resource.getrlimit(number) for number in range(16)],
    [status[key].strip() for key in ('SigBlk', 'SigIgn', 'SigCgt', 'Umask', 'Threads')],
]))
"""


async def ended(warden: Warden, code: str) -> tuple[GuardedProcess, str]:
    """Run a program to its end; return it with what it said."""
    async with forked(warden, code) as program:
        text = await program.rest()
        await program.process.wait_gone()
    return program.process, text


async def test_second_program_of_a_guard_begins_like_the_first() -> None:
    disturb = FACTS + (
        "os.environ['LEFT'] = 'x'; os.chdir('/tmp'); os.umask(0); os.nice(5); os.setsid\n"
        "signal.signal(signal.SIGUSR1, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))\n"
    )
    async with open_warden(zygote=ZYGOTE) as warden:
        first, facts = await ended(warden, disturb)
        second, same = await ended(warden, FACTS)
    assert facts.count("\n") == 1
    assert same == facts
    assert first.guard_pid == second.guard_pid
    assert first.pid != second.pid


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        pytest.param("", ExitStatus(0, None), id="returns"),
        pytest.param("os._exit(7)", ExitStatus(7, None), id="exits"),
        pytest.param("os.kill(os.getpid(), 9)", ExitStatus(None, 9), id="dies"),
        pytest.param(
            "if os.fork() == 0:\n    os.setsid(); os.fork(); time.sleep(100)",
            ExitStatus(0, None),
            id="leaves processes",
        ),
    ],
)
async def test_guard_is_free_after_any_end_of_its_program(code: str, expected: ExitStatus) -> None:
    async with open_warden(zygote=ZYGOTE) as warden:
        async with forked(warden, code) as program:
            status = await program.process.wait_gone()
            assert (status.code, status.signal) == (expected.code, expected.signal)
            assert await program.rest() == ""
        process, text = await ended(warden, "say('next')")
        assert (process.guard_pid, text) == (program.process.guard_pid, "next\n")


async def test_guard_is_free_after_a_kill_and_after_too_much_memory() -> None:
    async with open_warden(zygote=ZYGOTE) as warden:
        async with forked(warden, "say('up'); time.sleep(100)") as killed:
            assert await killed.line() == "up"
        async with forked(warden, "x = b'x' * (200 << 20); time.sleep(100)") as large:
            large.process.watch(100 << 20)
            assert (await large.process.wait_gone()).reason == "memory"
        # The limit of the last program is not that of this one.
        process, text = await ended(warden, "x = b'x' * (200 << 20); time.sleep(0.2); say('ok')")
        assert text == "ok\n"
        assert killed.process.guard_pid == large.process.guard_pid == process.guard_pid


async def test_words_to_the_last_program_mean_nothing_to_the_next() -> None:
    """The host's order to kill may cross the news of the end."""
    async with open_warden(zygote=ZYGOTE) as warden:
        first, _text = await ended(warden, "")
        (guard,) = warden._free_guards
        guard.channel.send(b"kill\nwatch 1\nleftovers\nkill\n")
        second, text = await ended(warden, "time.sleep(0.2); say('alive')")
        assert (second.guard_pid, text) == (first.guard_pid, "alive\n")


async def test_guard_that_died_while_it_waited_is_passed_over() -> None:
    async with open_warden(zygote=ZYGOTE) as warden:
        first, _text = await ended(warden, "")
        os.kill(first.guard_pid, signal.SIGKILL)
        await until(lambda: stat_of(first.guard_pid) is None)
        second, text = await ended(warden, "say('other')")
        assert text == "other\n"
        assert second.guard_pid != first.guard_pid


async def test_guard_that_was_stopped_while_it_waited_goes_on() -> None:
    async with open_warden(zygote=ZYGOTE) as warden:
        first, _text = await ended(warden, "")
        os.kill(first.guard_pid, signal.SIGSTOP)
        second, text = await ended(warden, "say('same')")
        assert (second.guard_pid, text) == (first.guard_pid, "same\n")


async def test_guard_that_is_not_as_it_was_is_passed_over() -> None:
    """A program may lower the limits of the guards that wait."""
    async with open_warden(zygote=ZYGOTE) as warden:
        first, _text = await ended(warden, "")
        resource.prlimit(first.guard_pid, resource.RLIMIT_NOFILE, (40, 40))
        reader, writer = os.pipe()
        ours, theirs = socket.socketpair()
        judged: list[int] = []

        def is_fit(pid: int) -> bool:
            judged.append(pid)
            return resource.prlimit(pid, resource.RLIMIT_NOFILE) != (40, 40)

        process = await warden.fork(
            env={},
            cwd="/",
            stdout_fd=writer,
            stderr_fd=writer,
            control_fd=theirs.fileno(),
            is_fit=is_fit,
        )
        program = Program(process, reader, ours)
        os.close(writer)
        theirs.close()
        ours.sendall(b"import os; os.write(1, b'fresh\\n')\0")
        assert await program.rest() == "fresh\n"
        await process.wait_gone()
        ours.close()
        os.close(reader)
        assert judged == [first.guard_pid]
        assert process.guard_pid != first.guard_pid
        await until(lambda: stat_of(first.guard_pid) is None)


async def test_guard_is_free_only_when_it_has_no_child_left() -> None:
    """A process that forks and goes on in its child is missed by scans, now and then."""
    hop = "if os.fork() == 0: os.execv('/bin/sh', ['sh', '-c', 'hop() { hop & }; hop'])"
    async with open_warden(zygote=ZYGOTE) as warden:
        for _ in range(25):
            process, _text = await ended(warden, hop)
            guard = process.guard_pid
            assert read_file(f"/proc/{guard}/task/{guard}/children") == b""


async def test_guard_ends_though_a_fork_of_the_host_holds_its_socket() -> None:
    async with open_warden(zygote=ZYGOTE) as warden:
        process, _text = await ended(warden, "")
        (guard,) = warden._free_guards
        with guard.channel.dup():
            warden._drop_guards()
            await until(lambda: stat_of(process.guard_pid) is None)


async def test_guard_that_the_warden_was_asked_to_kill_serves_no_other_program() -> None:
    """The warden may come to it only when the next program is there."""
    async with open_warden(zygote=ZYGOTE) as warden:
        async with forked(warden, "say('up'); time.sleep(100)") as program:
            await program.line()
            program.process._is_condemned = True
        assert warden._free_guards == []
        await until(lambda: stat_of(program.process.guard_pid) is None)


async def test_request_that_cannot_be_sent_takes_no_guard() -> None:
    async with open_warden(zygote=ZYGOTE) as warden:
        await ended(warden, "")
        before = descriptors()
        with pytest.raises(ValueError, match=r"^Cannot start a program: argv and env have "):
            async with forked(warden, "", env={"A": "x" * (1 << 24)}):
                pass
        assert descriptors() == before
        assert len(warden._free_guards) == 1


async def test_four_guards_wait_and_the_others_end() -> None:
    async with open_warden(zygote=ZYGOTE) as warden:
        before = descriptors()
        programs: list[Program] = []

        async def run() -> None:
            async with forked(warden, "say('up'); time.sleep(100)") as program:
                await program.line()
                programs.append(program)
                await until(lambda: len(programs) == 6)

        async with anyio.create_task_group() as tasks:
            for _ in range(6):
                tasks.start_soon(run)
        guards = {program.process.guard_pid for program in programs}
        assert len(guards) == 6
        await until(lambda: sum(stat_of(pid) is not None for pid in guards) == 4)
        warden._drop_guards()
        await until(lambda: not any(stat_of(pid) for pid in guards))
        assert descriptors() == before


async def test_another_guard_than_the_known_one_counts_as_a_lost_guard() -> None:
    async with open_warden(zygote=ZYGOTE) as warden:
        await ended(warden, "")
        known = warden._free_guards.pop()
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        forged = FreeGuard(known.name, ours, known.pid, known.pidfd)
        process = GuardedProcess(1, "/bin/sh", ours, frozenset(), guard=forged)
        with theirs:
            theirs.send(b"started %d 2\n" % (known.pid + 1))
            await process.serve(warden)
        assert process.exit_status == ExitStatus(None, None, reason="guard-lost")
        known.channel.close()


def test_request_too_long_for_its_first_byte_is_refused() -> None:
    message = "argv and env have 16777216 bytes, expected at most 16777215"
    with pytest.raises(ValueError, match=f"^Cannot start a program: {message}$"):
        pack([b"x" * (1 << 24)])
