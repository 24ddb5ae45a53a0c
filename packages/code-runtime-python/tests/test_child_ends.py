"""How a program can end: exits, loops, signals, forks, descriptors, and the time after `done`."""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress

import pytest
from fd3_host import interpreters, run_program, start_child

INTERPRETERS = [pytest.param(path, id=path.split("/")[-3]) for path in interpreters()]


def echo(args: object) -> object:
    return args


@pytest.mark.parametrize(
    ("program", "last"),
    [
        pytest.param("import sys\nsys.exit(0)", "SystemExit: 0", id="PY-214 exit 0"),
        pytest.param("import sys\nsys.exit('text')", "SystemExit: text", id="PY-214 exit text"),
        pytest.param("exit()", "SystemExit: None", id="PY-214 exit"),
        pytest.param("raise KeyboardInterrupt", "KeyboardInterrupt", id="PY-215 interrupt"),
        pytest.param("import asyncio\nraise asyncio.CancelledError", "asyncio.exceptions.CancelledError", id="PY-215 cancelled"),
        pytest.param("class B(BaseException): pass\nraise B('text')", "B: text", id="PY-215 base exception"),
        pytest.param("raise GeneratorExit", "GeneratorExit", id="PY-211 generator exit"),
        pytest.param("next(iter(()))", "RuntimeError: coroutine raised StopIteration", id="PY-211 stop iteration"),
        pytest.param("import asyncio, sys\nasync def leave(): sys.exit(3)\nasyncio.create_task(leave())\nawait asyncio.sleep(5)", "SystemExit: 3", id="PY-209 exit in a task"),
        pytest.param("import asyncio\nasync def leave(): raise KeyboardInterrupt\nawait asyncio.gather(leave())", "KeyboardInterrupt", id="PY-209 interrupt in a task"),
        pytest.param("import asyncio\nasyncio.get_running_loop().stop()\nawait asyncio.sleep(5)", "RuntimeError: the event loop was stopped before the program ended", id="PY-208 stop"),
        pytest.param("import asyncio\nfor task in asyncio.all_tasks(): task.cancel()\nawait asyncio.sleep(5)", "asyncio.exceptions.CancelledError", id="PY-207 cancel all"),
        pytest.param("import asyncio\nasync def f(): pass\nasyncio.get_running_loop().run_until_complete(f())", "RuntimeError: This event loop is already running", id="PY-205 nested loop"),
        pytest.param("import signal\ndef late(*_): raise TimeoutError('late')\nsignal.signal(signal.SIGALRM, late)\nsignal.alarm(1)\nimport asyncio\nawait asyncio.sleep(5)", "TimeoutError: late", id="handler that raises"),
    ],
)  # fmt: skip
def test_every_way_to_raise_is_named_truthfully(program: str, last: str) -> None:
    """PY-205 to PY-215."""
    started_s = time.monotonic()
    outcome = run_program(program)
    assert outcome.message.split("\n")[-1] == last
    assert outcome.message.startswith(
        ('Traceback (most recent call last):\n  File "program.py", line ', last)
    )
    assert outcome.exit_code == 0
    assert time.monotonic() - started_s < 4


def test_replies_arrive_after_a_program_has_survived_its_own_cancellation() -> None:
    """PY-207: what reads replies is no task."""
    program = """
import asyncio
for task in asyncio.all_tasks(): task.cancel()
try:
    await asyncio.sleep(0)
except asyncio.CancelledError:
    return await tools.echo(1)
"""
    assert run_program(program, {"tools.echo": echo}).value == 1


@pytest.mark.parametrize(
    ("program", "exit_code"),
    [
        pytest.param("import os\nos._exit(7)", 7, id="PY-216 7"),
        pytest.param("import os\nos._exit(0)", 0, id="PY-216 0"),
        pytest.param("import os\nos.kill(os.getpid(), 9)", -9, id="PY-217 SIGKILL"),
        pytest.param(
            "import os, signal\nos.kill(os.getpid(), signal.SIGSEGV)", -11, id="PY-217 SIGSEGV"
        ),
        pytest.param(
            "import os, signal\nos.kill(os.getpid(), signal.SIGTERM)", -15, id="PY-217 SIGTERM"
        ),
        pytest.param(
            "import os, signal\nos.kill(os.getpid(), signal.SIGXCPU)", -24, id="PY-218 SIGXCPU"
        ),
        pytest.param("import os\nos.closerange(3, 1000)", 1, id="every descriptor closed"),
    ],
)
def test_process_that_ends_by_itself_sends_no_done(program: str, exit_code: int) -> None:
    """PY-216 to PY-218."""
    outcome = run_program(f"print('before')\n{program}")
    assert (outcome.done, outcome.exit_code, outcome.logs) == (None, exit_code, ["before"])


def test_done_is_whole_when_the_host_reads_it_late() -> None:
    """PY-219, PY-198: the process waits until every byte is in the socket."""
    with start_child() as child:
        child.boot(maxValueBytes=8_000_000)
        child.read_until("boot-ack")
        child.send({"type": "run", "program": "return 'x' * 5_000_000"})
        assert child.read_until("done") == {"type": "done", "value": "x" * 5_000_000}


# Descriptors


def test_descriptor_3_is_free_for_the_program() -> None:
    """PY-220, PY-221, PY-226: what it does with number 3 touches no frame."""
    program = """
import os
try:
    os.close(3)
except OSError as error:
    seen = error.errno
handle = open(os.devnull, "w")
number = handle.fileno()
os.write(number, b'{"type":"done","value":"forged"}')
os.closerange(3, 32)
os.open(os.devnull, os.O_RDONLY)
print("still here")
return [seen, number, await tools.echo(1)]
"""
    outcome = run_program(program, {"tools.echo": echo})
    assert outcome.value == [9, 3, 1]
    assert outcome.logs == ["still here"]


def test_descriptors_of_the_machinery_are_closed_on_exec() -> None:
    """PY-223: in `os.system`, and in a subprocess that keeps descriptors."""
    program = """
import os, subprocess
os.system("ls /proc/self/fd")
subprocess.run(["ls", "/proc/self/fd"], close_fds=False, env={"PATH": os.defpath})
"""
    outcome = run_program(program)
    # ls holds the folder itself open, as number 3.
    assert outcome.native[1].split() == ["0", "1", "2", "3"] * 2


# Forks


@pytest.mark.parametrize("python", INTERPRETERS)
def test_forked_copy_can_send_nothing(python: str) -> None:
    """PY-222: what it prints is native output; its calls are refused; its end is silent."""
    program = """
import os, sys
print("held", end="")
pid = os.fork()
if not pid:
    print("copy")
    sys.stderr.write("copy half")
    try:
        await tools.echo("copy")
    except RuntimeError as error:
        print(error)
    fds = [fd for fd in os.listdir("/proc/self/fd") if int(fd) >= 200]
    print(fds)
    return "copy"
print(" original")
return [await tools.echo("original"), os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])]
"""
    outcome = run_program(program, {"tools.echo": echo}, python=python)
    assert outcome.value == ["original", 0]
    assert outcome.logs == ["held original"]
    assert [frame["type"] for frame in outcome.frames] == ["boot-ack", "log", "call", "done"]
    refused = "Cannot call tools.echo: this is a forked copy of the program, expected the original"
    assert outcome.native == {1: f"copy\n{refused}\n[]\n", 2: "copy half"}


def test_forked_copy_that_fails_says_so_on_its_native_stream() -> None:
    program = """
import os
pid = os.fork()
if not pid:
    raise ValueError("copy")
return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
"""
    outcome = run_program(program)
    assert outcome.value == 1
    assert outcome.native[2] == (
        'Traceback (most recent call last):\n  File "program.py", line 5, in <module>\n'
        '    raise ValueError("copy")\nValueError: copy\n'
    )


@pytest.mark.parametrize(
    ("end", "code"), [("sys.exit()", 0), ("sys.exit(5)", 5), ("sys.exit('no')", 1)]
)
def test_forked_copy_that_exits_has_its_exit_code(end: str, code: int) -> None:
    program = f"""
import os, sys
pid = os.fork()
if not pid:
    {end}
return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
"""
    assert run_program(program).value == code


def test_fork_in_a_thread_while_another_prints() -> None:
    """A lock that some thread holds at the fork does not block the copy."""
    program = """
import os, sys, threading, warnings
warnings.simplefilter("ignore")  # from 3.12 on a fork beside threads is warned about
stop = False
def chatter():
    while not stop: sys.stdout.write("x" * 500 + "\\n")
threads = [threading.Thread(target=chatter) for _ in range(2)]
for thread in threads: thread.start()
codes = []
for _ in range(20):
    pid = os.fork()
    if not pid:
        print("copy")
        os._exit(0)
    codes.append(os.waitpid(pid, 0)[1])
stop = True
for thread in threads: thread.join()
return sum(codes)
"""
    outcome = run_program(program, maxLogBytes=50_000_000)
    assert outcome.value == 0
    assert set(outcome.logs) == {"x" * 500}
    assert outcome.native[1] == "copy\n" * 20


@pytest.mark.parametrize("python", INTERPRETERS)
def test_process_pools_work_with_functions_of_the_top_level(python: str) -> None:
    """PY-099."""
    program = """
import multiprocessing, concurrent.futures, os
class Point:
    def __init__(self, x): self.x = x
def work(point):
    print("worker")
    return Point(point.x * 2)
context = multiprocessing.get_context("fork")
with concurrent.futures.ProcessPoolExecutor(1, mp_context=context) as pool:
    return [point.x for point in pool.map(work, [Point(1), Point(2)])]
"""
    outcome = run_program(program, python=python)
    assert outcome.value == [2, 4]
    assert outcome.native[1] == "worker\nworker\n"


# After done


@pytest.mark.parametrize("python", INTERPRETERS)
def test_program_gets_a_short_time_to_end_after_done(python: str) -> None:
    """PY-199, PY-212: finally blocks, asynchronous generators, threads, executors, atexit."""
    program = """
import asyncio, atexit, threading
from concurrent.futures import ThreadPoolExecutor
async def pending():
    try:
        await asyncio.sleep(60)
    finally:
        await asyncio.sleep(0.01)
        print("finally")
async def numbers():
    try:
        while True: yield 1
    finally:
        print("generator")
        others_are_over.set()
others_are_over = threading.Event()
asyncio.create_task(pending())
stream = numbers()
await stream.__anext__()
await asyncio.to_thread(int)
pool = ThreadPoolExecutor(); pool.submit(int)
threading.Thread(target=lambda: (others_are_over.wait(), print("thread"))).start()
atexit.register(print, "atexit")
await asyncio.sleep(0)
return 1
"""
    started_s = time.monotonic()
    outcome = run_program(program, python=python)
    assert (outcome.value, outcome.exit_code, outcome.logs) == (1, 0, [])
    assert outcome.frames[-1]["type"] == "done"
    assert outcome.native == {1: "finally\ngenerator\nthread\natexit\n", 2: ""}
    assert time.monotonic() - started_s < 3


@pytest.mark.parametrize(
    "program",
    [
        pytest.param("import atexit, time\natexit.register(time.sleep, 60)", id="atexit"),
        pytest.param("import threading, time\nthreading.Thread(target=time.sleep, args=(60,)).start()", id="thread"),
        pytest.param("import asyncio\nasync def f():\n    while True:\n        try: await asyncio.sleep(60)\n        except BaseException: pass\nasyncio.create_task(f())\nawait asyncio.sleep(0)", id="task"),
        pytest.param("import asyncio\nasync def f():\n    try: await asyncio.sleep(60)\n    finally:\n        while True: pass\nasyncio.create_task(f())\nawait asyncio.sleep(0)", id="loop"),
        pytest.param("import asyncio, time\nasyncio.get_running_loop().run_in_executor(None, time.sleep, 60)", id="executor"),
        pytest.param("import atexit, signal, time\nsignal.signal(signal.SIGALRM, signal.SIG_IGN)\nsignal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGALRM})\natexit.register(time.sleep, 60)", id="masked"),
    ],
)  # fmt: skip
def test_time_after_done_is_bounded(program: str) -> None:
    """PY-199: `done` is there at once, the process is gone 250 ms later."""
    with start_child() as child:
        child.boot()
        child.read_until("boot-ack")
        child.send({"type": "run", "program": program + "\nreturn 1"})
        assert child.read_until("done") == {"type": "done", "value": 1}
        done_s = time.monotonic()
        assert child.process.wait(5) in (0, -signal.SIGALRM)
        assert 0.05 < time.monotonic() - done_s < 1.5


def test_exception_of_a_task_that_nobody_awaited_changes_nothing() -> None:
    """PY-200."""
    program = "import asyncio\nasync def f(): raise ValueError\ntask = asyncio.create_task(f())\nawait asyncio.sleep(0)\nreturn 1"
    assert run_program(program).value == 1


def test_child_ends_when_its_host_is_gone() -> None:
    """Without a guard nobody else would end it."""
    with start_child() as child:
        child.boot()
        child.read_until("boot-ack")
        child.send(
            {"type": "run", "program": "import asyncio\nprint('up')\nawait asyncio.sleep(60)"}
        )
        child.read_until("log")
        child._reader.close()
        child.channel.close()
        assert child.process.wait(5) == 1


@pytest.mark.parametrize("python", INTERPRETERS)
def test_asyncio_subprocesses_work(python: str) -> None:
    program = """
import asyncio
process = await asyncio.create_subprocess_exec("echo", "text", stdout=asyncio.subprocess.PIPE)
out, _ = await process.communicate()
return [out.decode(), process.returncode]
"""
    outcome = run_program(program, python=python)
    assert outcome.value == ["text\n", 0]
    assert outcome.logs == []


def test_value_is_sent_while_calls_are_outstanding() -> None:
    """PY-197, PY-198: also while a large reply is on its way."""
    program = """
import asyncio
calls = [asyncio.ensure_future(tools.echo(i)) for i in range(1024)]
await calls[0]
return "value"
"""
    with start_child() as child:
        child.boot([{"global": "tools", "names": ["echo"]}])
        child.read_until("boot-ack")
        child.send({"type": "run", "program": program})
        for _ in range(1024):
            child.read_until("call")
        child.send({"type": "reply", "id": 0, "ok": True, "value": 1})
        # The program may end, and its process leave, before all of this has been taken.
        with suppress(BrokenPipeError):
            child.send_bytes(b'{"type":"reply","id":1,"ok":true,"value":"' + b"x" * 100_000)
        assert child.read_until("done") == {"type": "done", "value": "value"}
        assert child.process.wait(5) == 0


# Boot


@pytest.mark.parametrize(
    ("data", "text"),
    [
        pytest.param(b"", "", id="end"),
        pytest.param(b'{"type":"run","program":""}\n', "Cannot read the boot frame: another frame was seen\n", id="wrong"),
        pytest.param(b"{\n", "Cannot read the boot frame: $: Expecting property name enclosed in double quotes at character 1\n", id="torn"),
    ],
)  # fmt: skip
def test_child_without_a_boot_frame_ends_with_an_error(data: bytes, text: str) -> None:
    """PY-069."""
    with start_child() as child:
        child.send_bytes(data)
        child.channel.shutdown(1)
        assert child.read() is None
        outcome = child.outcome()
    assert outcome.exit_code == 1
    assert outcome.native == {1: "", 2: text}


def test_child_without_a_run_frame_ends_with_an_error() -> None:
    """PY-069, PY-070: the limits are in force before the program is read."""
    with start_child() as child:
        child.boot()
        child.read_until("boot-ack")
        child.send({"type": "reply", "id": 0, "ok": True, "value": 1})
        assert child.read() is None
        outcome = child.outcome()
    assert outcome.exit_code == 1
    assert outcome.native == {1: "", 2: "Cannot read the run frame: another frame was seen\n"}


def test_handshake_may_come_in_pieces_or_at_once() -> None:
    """PY-080."""
    boot = b'{"type":"boot","cpuSeconds":60,"addressSpaceBytes":4294967296,"maxLogBytes":65536,"maxValueBytes":1000,"namespaces":[]}\n'
    run = b'{"type":"run","program":"return 1"}\n'
    with start_child() as child:
        child.send_bytes(boot + run)
        assert child.read_until("done") == {"type": "done", "value": 1}
    with start_child() as child:
        for position in range(len(boot)):
            child.send_bytes(boot[position : position + 1])
        child.read_until("boot-ack")
        for position in range(len(run)):
            child.send_bytes(run[position : position + 1])
        assert child.read_until("done") == {"type": "done", "value": 1}


def test_environment_is_that_of_the_process() -> None:
    """PY-060, PY-061, PY-078: under the C locale Python adds LC_CTYPE and turns UTF-8 mode on."""
    outcome = run_program(
        "import os, sys\nreturn [sorted(os.environ), sys.flags.utf8_mode, os.getcwd() in sys.path]"
    )
    assert outcome.value in ([["LC_CTYPE", "TMPDIR"], 1, False], [["TMPDIR"], 1, False])


def test_program_cannot_make_a_session_of_its_own() -> None:
    """PY-224: the process that the host starts leads its session already."""
    assert run_program("import os\nos.setsid()").message.endswith(
        "PermissionError: [Errno 1] Operation not permitted"
    )


def test_signal_to_the_process_group_ends_it() -> None:
    with start_child() as child:
        child.boot()
        child.read_until("boot-ack")
        child.send({"type": "run", "program": "print('up')\nwhile True: pass"})
        child.read_until("log")
        os.killpg(child.process.pid, signal.SIGTERM)
        assert child.process.wait(5) == -signal.SIGTERM
