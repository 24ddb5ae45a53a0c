"""The pipe of a program's logs: their order with calls and ends, and what else may come through it.

`test_logs.py`, `test_child_streams.py` and the conformance suite hold the logs themselves;
`test_child_streams.py` also those of a child whose host sends no pipe.
"""

from __future__ import annotations

import anyio
import pytest
from python_forgery import THROUGH_PIPE
from run_requests import Provider, Run, build_request, slowly

pytestmark = pytest.mark.anyio

COUNT = 5_000
NO_LOG = (
    "worker-exit",
    "the Python process was killed: what came through the pipe of its logs is no log frame",
)


@pytest.mark.parametrize("is_told", [True, False])
async def test_lines_before_a_call_are_read_before_its_function_is_called(
    run: Run, is_told: bool
) -> None:
    """The call comes by the socket, and may arrive first."""
    told: list[str] = []
    told_counts: list[int] = []

    def mark(value: object) -> None:
        told_counts.append(len(told))

    result = await run(
        f"""
for turn in range(5):
    for i in range({COUNT}): print("line", i)
    await tools.mark(turn)
""",
        {"mark": mark},
        on_log=told.append if is_told else None,
    )
    assert result.error is None
    assert told_counts == [COUNT * turn if is_told else 0 for turn in range(1, 6)]
    assert result.logs == [f"line {i}" for _ in range(5) for i in range(COUNT)]


@pytest.mark.parametrize("end", ["os._exit(3)", "os.kill(os.getpid(), 9)"])
async def test_lines_before_a_hard_end_are_kept(run: Run, end: str) -> None:
    """PY-124: more of them than the pipe holds."""
    result = await run(f"import os\nfor i in range(20 * {COUNT}): print('line', i)\n{end}")
    assert result.error is not None
    assert result.error.kind == "worker-exit"
    assert result.logs == [f"line {i}" for i in range(20 * COUNT)]


async def test_long_lines_are_whole_entries_to_the_byte(run: Run) -> None:
    """A frame of the pipe has 8,192 characters at most; a pair of surrogates is never cut."""
    texts = [
        "a" * 4_096,
        "b" * 4_097,
        "é" * 8_192,
        '"\\' * 50_000,
        "x" + "\U0001f600" * 20_000,
        "y" * 8_191 + "\ud83d\ude00" * 3,
        "\udc00\x00" * 9_000,
        "",
    ]
    told: list[str] = []
    result = await run(f"for text in {texts!a}: print(text)", on_log=told.append)
    expected = [
        text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
        for text in texts
    ]
    assert result.error is None
    assert result.logs == told == expected


@pytest.mark.parametrize("spare_bytes", [0, -1])
async def test_long_line_fits_as_a_whole_or_not_at_all(
    provider: Provider, spare_bytes: int
) -> None:
    """PY-164: the list of one entry is charged its brackets' worth of one byte, quotes and comma."""
    async with provider(max_log_bytes=30_004 + spare_bytes) as runtime:
        result = await runtime.run(build_request("print('z' * 30_000)"))
    assert result.error is None
    marker = "[code-runtime] logs truncated at 30003 bytes"
    assert result.logs == (["z" * 30_000] if spare_bytes == 0 else [marker])


async def test_forged_lines_in_the_pipe_are_lines(run: Run) -> None:
    forged = b'{"type":"log","text":"for","open":true}\n{"type":"log","text":"g\\u0065d"}\n'
    result = await run(f"{THROUGH_PIPE}\nthrough_pipe({forged!r})\nprint('own')")
    assert (result.logs, result.error) == (["forged", "own"], None)


@pytest.mark.parametrize(
    "junk",
    [
        b'{"type":"call","id":0,"global":"tools","name":"echo","args":1}\n',
        b'{"type":"done","value":1}\n',
        b"[" * 60_000 + b"\n",
        b'{"type":"log","text":"' + b"a" * 70_000,
        b'{"type":"log","text":"\xff"}\n',
        b'{"type":"log","text":"a","open":false}\n',
        b'{"type":"log","text":"\n',
        b'{"type":"log", "text":"a"}\n',
        b"\0\n",
    ],
)
async def test_other_things_in_the_pipe_end_the_run(run: Run, junk: bytes) -> None:
    seen: list[object] = []
    result = await run(
        f"{THROUGH_PIPE}\nprint('before')\nthrough_pipe({junk!r})\nwhile True: pass",
        {"echo": seen.append},
    )
    assert result.error is not None
    assert (result.error.kind, result.error.message) == NO_LOG
    assert (result.logs, seen) == (["before"], [])


async def test_program_that_closes_the_pipe_ends_only_itself(provider: Provider) -> None:
    async with provider() as runtime:
        result = await runtime.run(
            build_request(
                f"{THROUGH_PIPE}\nprint('before')\nos.close(PIPE)\nprint('after')\nwhile True: pass"
            )
        )
        after = await runtime.run(build_request("print('next')\nreturn 1"))
    assert result.error is not None
    assert (result.logs, result.error.kind) == (["before"], "worker-exit")
    assert (after.logs, after.value, after.error) == (["next"], 1, None)


async def test_process_that_keeps_the_pipe_keeps_no_run(provider: Provider) -> None:
    """A process of the program has the writing end; it is killed, and nobody waits for its end."""
    program = f"""{THROUGH_PIPE}
import subprocess
subprocess.Popen(["/bin/sleep", "100"], pass_fds=[PIPE], start_new_session=True)
print("kept")
return 1
"""
    async with provider() as runtime:
        with anyio.fail_after(20):
            result = await runtime.run(build_request(program))
            after = await runtime.run(build_request("print('next')\nreturn 2"))
    assert (result.logs, result.value, result.error) == (["kept"], 1, None)
    assert (after.logs, after.value, after.error) == (["next"], 2, None)


async def test_copies_of_a_program_tear_no_line(run: Run) -> None:
    """Those of `os.fork` print to the native descriptor; others may have the pipe still."""
    result = await run(
        """
import ctypes, os
print("original")
for fork in (os.fork, ctypes.CDLL(None).fork):
    pid = fork()
    if pid == 0:
        for _ in range(500): print("copy")
        os._exit(0)
    for _ in range(500): print("original")
    os.waitpid(pid, 0)
"""
    )
    assert result.error is None
    assert sorted(result.logs) == ["copy"] * 1_000 + ["original"] * 1_001


@pytest.mark.parametrize("error", ["TimeoutError", "BlockingIOError", "ConnectionResetError"])
async def test_errors_of_a_signal_handler_are_the_programs(run: Run, error: str) -> None:
    """An alarm that comes in the middle of `print` is no sign that the host is gone."""
    result = await run(
        f"""
import signal
def on_alarm(*_): raise {error}("too slow")
signal.signal(signal.SIGALRM, on_alarm)
caught = 0
for _ in range(200):
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.001)
        while True: print("step")
    except {error}:
        caught += 1
        print()
return caught
"""
    )
    assert (result.value, result.error) == (200, None)
    assert set(result.logs) <= {"", "step", "stepstep"}


async def test_marker_comes_though_a_signal_handler_raises_all_the_time(provider: Provider) -> None:
    """PY-164: nothing is dropped without a word."""
    program = """
import signal
class Alarm(Exception): pass
armed = False
def on_alarm(*_):
    global armed
    if armed:
        armed = False
        raise Alarm
signal.signal(signal.SIGALRM, on_alarm)
signal.setitimer(signal.ITIMER_REAL, 0.0005, 0.0002)
count = 0
while count < 4_000:
    try:
        armed = True
        while count < 4_000:
            count += 1
            print("x" * 1_000)
        armed = False
    except Alarm: pass
"""
    async with provider(max_log_bytes=200_000) as runtime:
        for _ in range(8):
            result = await runtime.run(build_request(program))
            assert result.error is None
            assert result.logs_truncated
            assert result.logs[-1] == "[code-runtime] logs truncated at 200000 bytes"


async def test_call_is_answered_though_the_program_prints_on_and_on(run: Run) -> None:
    """What is printed after the call is not waited for, though it comes faster than it is told."""
    told: list[str] = []

    result = await run(
        """
import asyncio
count = 0
call = None
while call is None or not call.done():
    print("x")
    count += 1
    if count == 2_500: call = asyncio.ensure_future(tools.echo(1))
    if count % 1_000 == 0: await asyncio.sleep(0)
return count
""",
        {"echo": lambda value: value},
        on_log=slowly(told.append),
        max_wall_ms=20_000,
    )
    assert result.error is None
    assert len(told) == result.value
