"""What is this provider's own in the life of a run; `code_runtime.testing` has what every provider does."""

from __future__ import annotations

import os
import time

import anyio
import anyio.lowlevel
import anyio.to_thread
import pytest
from run_requests import Provider, Run, build_request

from code_runtime import (
    CodeRunResult,
    CodeRuntime,
    ForkedHostError,
    RequestTypeError,
)

pytestmark = pytest.mark.anyio

FOREVER = "import asyncio\nprint('up')\nawait asyncio.Event().wait()"
HOT = "print('up')\nwhile True: pass"


def failure(result: CodeRunResult) -> tuple[str, str]:
    assert result.error is not None, result
    return result.error.kind, result.error.message


async def test_descriptors(runtime: CodeRuntime) -> None:
    """PY-291: a label, and no security claim."""
    assert (runtime.language, runtime.isolation) == ("python", "process")


async def test_a_request_of_a_wrong_type_is_refused(runtime: CodeRuntime) -> None:
    with pytest.raises(RequestTypeError) as caught:
        await runtime.run("return 1")  # type: ignore[arg-type]
    assert str(caught.value) == (
        "Cannot build PythonCodeRuntime.run: request is 'return 1' (str), expected CodeRunRequest"
    )


async def test_the_wall_ends_a_run_in_time(provider: Provider) -> None:
    """PY-252; a request can lower the ceiling, and not raise it."""
    async with provider(max_wall_ms=400, grace_ms=200) as runtime:
        before_s = time.monotonic()
        lowered = await runtime.run(build_request(FOREVER, max_wall_ms=200))
        assert time.monotonic() - before_s < 1.5
        raised = await runtime.run(build_request(HOT, max_wall_ms=9_000))
    assert failure(lowered) == ("timeout", "wall-clock ceiling exceeded: 200 ms")
    assert failure(raised) == ("timeout", "wall-clock ceiling exceeded: 400 ms")


async def test_no_state_crosses_from_one_run_to_the_next(run: Run) -> None:
    """PY-057, PY-289: a fresh process each time, whatever the program changes in its own."""
    program = """
import builtins, json, os, sys
seen = [hasattr(builtins, "mark"), os.environ.get("MARK"), hasattr(json, "mark")]
builtins.mark = json.mark = 1
os.environ["MARK"] = "1"
json.dumps = json.loads = None
sys.path.clear()
return [*seen, os.getpid()]
"""
    pids = set()
    for _ in range(4):
        result = await run(program)
        assert isinstance(result.value, list), result
        *seen, pid = result.value
        assert seen == [False, None, False]
        pids.add(pid)
    assert len(pids) == 4


async def test_working_directory_is_private_empty_and_gone_afterwards(
    provider: Provider, start_method: str
) -> None:
    """PY-052, PY-053, PY-063: better than the host's own directory."""
    program = """
import os, stat, tempfile
mode = stat.S_IMODE(os.stat(".").st_mode)
before = os.listdir(".")
os.makedirs("a/b")
with open("a/b/c.txt", "w") as file: file.write("x")
os.chmod("a", 0)
return [os.getcwd(), tempfile.gettempdir(), before, mode]
"""
    folders = set()
    async with provider(start_method=start_method) as runtime:
        for _ in range(2):
            result = await runtime.run(build_request(program))
            assert isinstance(result.value, list), result
            cwd, tmpdir, before, mode = result.value
            assert isinstance(cwd, str)
            assert (tmpdir, before, mode) == (cwd, [], 0o700)
            assert not await anyio.Path(cwd).exists()
            folders.add(cwd)
    assert len(folders) == 2


async def test_a_forked_copy_of_the_host_is_refused(runtime: CodeRuntime) -> None:
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:  # pragma: no cover - the forked copy
        try:
            coroutine = runtime.run(build_request("return 1"))
            try:
                coroutine.send(None)
            except ForkedHostError as error:
                os.write(write, str(error).encode())
        finally:
            os._exit(0)
    os.close(write)
    await anyio.to_thread.run_sync(os.waitpid, pid, 0)
    with os.fdopen(read) as stream:
        text = stream.read()
    assert text == (
        f"Cannot use PythonCodeRuntime: process {pid} is a fork of process {os.getpid()} "
        "that started it, expected a Context of its own in each process"
    )


async def test_record_keeps_times_and_previews(run: Run) -> None:
    result = await run(
        "print('a')\nawait tools.echo({'text': 'x' * 5000})\nprint('b')\nreturn 1",
        {"echo": lambda value: value},
        record=True,
    )
    assert result.log_times_ms is not None
    assert len(result.log_times_ms) == 2
    assert 0 <= result.log_times_ms[0] <= result.log_times_ms[1]
    (call,) = result.calls
    assert call.argument_preview == '{"text":"' + "x" * (2045 - 9) + "…"
    assert call.result_preview == call.argument_preview


async def test_a_run_without_survivors_is_not_delayed(run: Run) -> None:
    """PY-264, PY-266, PY-275: it resolves when its process has left by itself."""
    times = []
    for _ in range(5):
        before_s = time.monotonic()
        await run("return 1")
        times.append(time.monotonic() - before_s)
    assert min(times) < 0.1


async def test_the_end_of_a_program_runs_its_cleanup(run: Run) -> None:
    """PY-199: better, there is a short time for `finally` and atexit."""
    result = await run(
        "import asyncio, atexit, os\n"
        "async def background():\n"
        "    try:\n        await asyncio.sleep(60)\n"
        "    finally:\n        os.write(1, b'finally\\n')\n"
        "task = asyncio.ensure_future(background())\n"
        "await asyncio.sleep(0)\n"
        "atexit.register(lambda: os.write(1, b'atexit\\n'))\nreturn 1"
    )
    assert (result.logs, result.value) == (["finally", "atexit"], 1)


async def test_a_program_that_does_not_leave_is_ended(provider: Provider) -> None:
    """PY-265, PY-212: SIGALRM of the child's own window, SIGTERM, and SIGKILL after the grace."""
    program = """
import os, signal, threading, time
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
threading.Thread(target=time.sleep, args=(60,)).start()
class Stubborn:
    def __del__(self): pass
import atexit
def never():
    signal.setitimer(signal.ITIMER_REAL, 0)
    while True: time.sleep(1)
atexit.register(never)
return 'value'
"""
    async with provider(grace_ms=200) as runtime:
        before_s = time.monotonic()
        result = await runtime.run(build_request(program))
        took_s = time.monotonic() - before_s
    assert (result.value, result.error) == ("value", None)
    assert 1 < took_s < 3  # the window of 1 s, then the grace
