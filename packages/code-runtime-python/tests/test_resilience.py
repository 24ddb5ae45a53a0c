"""What goes wrong around a run ends that run at most, never the provider."""

from __future__ import annotations

import asyncio
import os
import resource
import signal
import stat
import sys
import tempfile
from contextlib import suppress
from pathlib import Path

import anyio
import anyio.to_thread
import pytest
from leftovers import snapshot_resources
from python_forgery import FORGE
from run_requests import Provider, Tools, build_request

from code_runtime import AbortSignal, CodeRunResult, CodeRuntime, Context
from code_runtime_python import PythonCodeRuntime
from code_runtime_python._logs import LineLog

pytestmark = pytest.mark.anyio


async def run_fine(runtime: CodeRuntime) -> None:
    result = await runtime.run(build_request("return await tools.echo(1)", {"echo": lambda v: v}))
    assert (result.value, result.error) == (1, None)


def failure(result: CodeRunResult) -> tuple[str, str]:
    assert result.error is not None, result
    return result.error.kind, result.error.message


def idle_pids(others: set[str]) -> list[int]:
    """List the new processes of this host that have no child of their own: those that wait."""
    pids = {int(item.split()[0]) for item in snapshot_resources()[0] - others}
    parents = set()
    for pid in pids:
        with suppress(FileNotFoundError):  # it has ended meanwhile, and has no child
            text = Path(f"/proc/{pid}/stat").read_text()
            parents.add(int(text[text.rindex(")") + 2 :].split()[1]))
    return [pid for pid in pids if pid not in parents]


class Odd(Exception):
    """An error whose text cannot be made, in the worst way."""

    def __str__(self) -> str:
        raise SystemExit(1)


@pytest.mark.parametrize("is_async", [False, True], ids=["plain", "async"])
async def test_an_error_without_a_text_fails_its_call_only(
    runtime: CodeRuntime, is_async: bool
) -> None:
    """PY-187."""

    def plain(_: object) -> None:
        raise Odd

    async def later(_: object) -> None:
        raise Odd

    result = await runtime.run(
        build_request(
            "try:\n    await tools.odd(1)\nexcept ToolCallError as error:\n    return str(error)",
            {"odd": later if is_async else plain},
        )
    )
    assert result.value == "<unrenderable binding error>"
    await run_fine(runtime)


async def test_a_plain_function_that_makes_up_a_cancellation_fails_its_call(
    runtime: CodeRuntime,
) -> None:
    def cancelled(_: object) -> None:
        raise asyncio.CancelledError("made up")

    request = build_request(
        "try:\n    await tools.cancelled(1)\nexcept ToolCallError as error:\n    return str(error)",
        {"cancelled": cancelled},
    )
    if isinstance(asyncio.CancelledError(), anyio.get_cancelled_exc_class()):
        assert (await runtime.run(request)).value == "made up"
    else:
        with pytest.raises(asyncio.CancelledError):
            await runtime.run(request)
    await run_fine(runtime)


async def test_a_program_may_delete_the_folder_of_all_runs(provider: Provider) -> None:
    """PY-056, PY-057, PY-058: its own run and the next ones are fine."""
    async with provider() as runtime:
        gone = await runtime.run(
            build_request(
                "import os, shutil\nshutil.rmtree(os.path.dirname(os.getcwd()), ignore_errors=True)\nreturn 1"
            )
        )
        assert gone.value == 1
        for _ in range(4):
            await run_fine(runtime)


async def test_processes_that_die_or_freeze_while_they_wait_cost_no_run(
    provider: Provider, start_method: str
) -> None:
    """PY-066: the next process takes the run."""
    others = snapshot_resources()[0]  # of the runtime that the module shares
    async with provider(start_method=start_method) as runtime:
        await run_fine(runtime)
        for number in (signal.SIGKILL, signal.SIGSTOP):
            for pid in idle_pids(others):
                with suppress(ProcessLookupError):
                    os.kill(pid, number)
            await run_fine(runtime)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
async def test_guards_and_wardens_that_die_or_freeze_cost_no_later_run(
    provider: Provider, number: signal.Signals
) -> None:
    """The zygote and every guard, while nothing runs."""
    others = snapshot_resources()[0]  # of the runtime that the module shares
    async with provider() as runtime:
        await run_fine(runtime)
        for item in snapshot_resources()[0] - others:
            with suppress(ProcessLookupError):  # it went with one before it
                os.kill(int(item.split()[0]), number)
        with anyio.fail_after(20):
            await run_fine(runtime)
            await run_fine(runtime)


async def test_an_interpreter_that_is_deleted_fails_runs_with_a_reason(
    provider: Provider, tmp_path: Path
) -> None:
    """PY-034, PY-064, PY-065: and never raises."""
    python = tmp_path / "python"
    python.symlink_to(sys.executable)
    async with provider(start_method="spawn", python_bin=str(python)) as runtime:
        await run_fine(runtime)
        python.unlink()
        failures = [await runtime.run(build_request("return 1")) for _ in range(3)]
        assert failures[-1].error is not None
        assert failure(failures[-1]) == (
            "worker-exit",
            "worker did not start: Python cannot be started: No such file or directory",
        )
        python.symlink_to(sys.executable)
        await runtime.run(build_request("return 1"))  # may get the last of the failed starts
        await run_fine(runtime)


async def test_a_host_without_free_descriptors_fails_runs_with_a_reason(
    provider: Provider,
) -> None:
    """PY-064: EMFILE; PY-055: no directory can be made either."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    async with provider() as runtime:
        await run_fine(runtime)
        try:
            lowest_free = os.dup(0)
            os.close(lowest_free)
            resource.setrlimit(resource.RLIMIT_NOFILE, (lowest_free, hard))
            results = [await runtime.run(build_request("return 1")) for _ in range(3)]
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        assert failure(results[-1]) == (
            "worker-exit",
            "worker did not start: Too many open files",
        )
        await runtime.run(build_request("return 1"))  # may get the last of the failed starts
        await run_fine(runtime)


def replace_by_a_file(folder: str) -> str:
    """Put a file in the place of a folder of empty folders, without a turn of the loop."""
    for name in os.listdir(folder):
        os.rmdir(os.path.join(folder, name))
    os.rmdir(folder)
    Path(folder).write_text("not a folder")
    return folder


@pytest.mark.parametrize("replacement", ["file", "link"])
async def test_a_program_may_replace_the_folder_of_all_runs(
    provider: Provider, replacement: str, tmp_path: Path
) -> None:
    """PY-055: what is there then is not trusted; later runs get a new folder."""
    async with provider() as runtime:
        before = await runtime.run(build_request("import os\nreturn os.path.dirname(os.getcwd())"))
        assert isinstance(before.value, str)
        if replacement == "file":
            replace_by_a_file(before.value)
        else:
            await runtime.run(
                build_request(
                    "import os, shutil\nshutil.rmtree(os.path.dirname(os.getcwd()))\n"
                    f"os.symlink({str(tmp_path)!r}, {before.value!r})"
                )
            )
        for _ in range(4):
            result = await runtime.run(build_request("import os\nreturn os.getcwd()"))
            if result.error is None:
                assert isinstance(result.value, str)
        assert result.error is None
        assert isinstance(result.value, str)
        assert not result.value.startswith((before.value, str(tmp_path)))


async def test_no_usable_temporary_folder_fails_runs_with_a_reason(
    provider: Provider, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """PY-055: and shows no path of the host."""
    async with provider() as runtime:
        before = await runtime.run(build_request("import os\nreturn os.path.dirname(os.getcwd())"))
        assert isinstance(before.value, str)
        monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "missing"))
        replace_by_a_file(before.value)
        for _ in range(8):  # those that were started before have their directories
            result = await runtime.run(build_request("return 1"))
            if result.error is not None:
                break
        assert result.error is not None
        assert (result.error.kind, result.error.message) == (
            "worker-exit",
            "worker did not start: No such file or directory",
        )
        monkeypatch.undo()
        await runtime.run(build_request("return 1"))  # may get the last of the failed starts
        await run_fine(runtime)


@pytest.mark.parametrize("victim", ["zygote", "spare"])
async def test_limits_that_a_program_sets_for_others_do_not_reach_the_next_run(
    provider: Provider, victim: str
) -> None:
    """PY-289: any process of the same user may lower them."""
    program = f"""
import os, resource
def parent(pid):
    with open(f"/proc/{{pid}}/status") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("PPid:"))
zygote = parent(parent(os.getpid()))
guards = [int(n) for n in open(f"/proc/{{zygote}}/task/{{zygote}}/children").read().split()]
spares = [int(n) for g in guards for n in open(f"/proc/{{g}}/task/{{g}}/children").read().split()]
for pid in [zygote] if {victim!r} == "zygote" else [n for n in spares if n != os.getpid()]:
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (1000, 1000))
return zygote
"""
    probe = "import resource\nreturn list(resource.getrlimit(resource.RLIMIT_FSIZE))"
    async with provider(start_method="zygote") as runtime:
        honest = await runtime.run(build_request(probe))
        attack = await runtime.run(build_request(program))
        assert attack.error is None
        for _ in range(4):
            after = await runtime.run(build_request(probe))
            assert (after.value, after.error) == (honest.value, None)


async def test_an_unterminated_string_costs_no_time(provider: Provider) -> None:
    """PY-226, PY-231: the scan of a forged line is linear, and never holds the host."""
    program = (
        "import os\n"
        f"{FORGE}\n"
        "raw(b'{\"type\":\"log\",\"text\":\"' + b'\\\\\"' * 500_000 + b'\\n')\nreturn 'honest'"
    )
    async with provider(max_wall_ms=20_000) as runtime:
        result = await runtime.run(build_request(program))
    assert (result.value, result.error) == ("honest", None)


FAKE = """#!{python}
import os, sys
if "-c" in sys.argv or not os.path.exists({count!r}):
    os.execv({python!r}, [{python!r}, *sys.argv[1:]])
import time, socket
channel = socket.socket(fileno=3)
with open({count!r}, "a") as file: file.write("x")
{body}
"""


def fake_python(folder: Path, body: str) -> tuple[str, Path]:
    """Make an interpreter that is real until the second path exists.

    From then on its programs are `body`, on `channel`, and each start leaves an x there.
    """
    path, count = folder / "fake", folder / "count"
    path.write_text(FAKE.format(python=sys.executable, count=str(count), body=body))
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path), count


async def run_on_fake(
    runtime: CodeRuntime, count: Path, tools: Tools | None = None
) -> CodeRunResult:
    """Run until the run has a process that is not real."""
    await anyio.Path(count).touch()
    while True:
        result = await runtime.run(build_request("return 'real'", tools))
        if result.value != "real":
            return result


ACK = 'channel.recv(65536); channel.sendall(b\'{"type":"boot-ack"}\\n\')'


@pytest.mark.parametrize(
    ("body", "text"),
    [
        pytest.param("sys.exit(3)", "ended with code 3 before completing", id="exits"),
        pytest.param(
            "os.kill(os.getpid(), 9)", "was ended by SIGKILL before completing", id="dies"
        ),
        pytest.param(
            "channel.recv(65536); sys.exit(4)", "ended with code 4 before completing", id="boot"
        ),
        pytest.param(
            f"{ACK}; sys.exit(5)", "ended with code 5 before completing", id="acknowledged"
        ),
        pytest.param(
            "channel.close(); time.sleep(60)", "was killed: it closed its channel", id="closes"
        ),
    ],
)
async def test_a_child_that_does_not_serve_is_worker_exit(
    provider: Provider, tmp_path: Path, body: str, text: str
) -> None:
    """PY-066, PY-067, PY-069: and the next process is tried until one has acknowledged."""
    python, count = fake_python(tmp_path, body)
    async with provider(start_method="spawn", python_bin=python) as runtime:
        result = await run_on_fake(runtime, count)
    assert failure(result) == ("worker-exit", f"the Python process {text}")
    if "boot-ack" not in body:
        assert len(count.read_text()) >= 3


async def test_a_second_acknowledgement_sends_no_second_program(
    provider: Provider, tmp_path: Path
) -> None:
    """PY-068."""
    body = """
seen = channel.recv(65536)
channel.sendall(b'{"type":"boot-ack"}\\n{"type":"boot-ack","more":1}\\n{"type":"boot-ack"}\\n')
channel.settimeout(0.3)
try:
    while True: seen += channel.recv(65536)
except TimeoutError:
    pass
channel.sendall(b'{"type":"done","value":%d}\\n' % seen.count(b'"type":"run"'))
"""
    python, count = fake_python(tmp_path, body)
    async with provider(start_method="spawn", python_bin=python) as runtime:
        result = await run_on_fake(runtime, count)
    assert (result.value, result.error) == (1, None)


async def test_calls_before_the_acknowledgement_count_for_nothing(
    provider: Provider, tmp_path: Path
) -> None:
    body = """
channel.recv(65536)
channel.sendall(b'{"type":"call","id":0,"global":"tools","name":"echo","args":1}\\n')
channel.sendall(b'{"type":"boot-ack"}\\n')
channel.sendall(b'{"type":"done","value":2}\\n')
"""
    python, count = fake_python(tmp_path, body)
    async with provider(start_method="spawn", python_bin=python) as runtime:
        result = await run_on_fake(runtime, count, {"echo": lambda v: v})
    assert (result.value, result.calls) == (2, [])


async def test_a_program_of_several_megabytes_is_sent_whole(runtime: CodeRuntime) -> None:
    """PY-067, PY-080."""
    text = "x" * 3_000_000
    result = await runtime.run(build_request(f"text = {text!r}\nreturn len(text)"))
    assert result.value == 3_000_000


async def test_a_load_that_is_cancelled_leaves_nothing(anyio_backend: str) -> None:
    """PY-019."""
    for delay_ms in (5, 15, 30, 60, 90):
        with anyio.move_on_after(delay_ms / 1000):
            async with Context() as ctx:
                await ctx.plugin(PythonCodeRuntime)
                await anyio.sleep_forever()


async def test_an_abort_from_a_signal_handler(runtime: CodeRuntime) -> None:
    """PY-291: a program may signal its host, which is of the same user."""
    abort = AbortSignal()
    before = signal.signal(signal.SIGUSR2, lambda *_: abort.abort("by signal"))
    try:
        result = await runtime.run(
            build_request(
                f"import os, signal\nprint('up')\nos.kill({os.getpid()}, signal.SIGUSR2)\n"
                "while True: pass",
                signal=abort,
            )
        )
    finally:
        signal.signal(signal.SIGUSR2, before)
    assert failure(result) == ("abort", "by signal")


async def test_a_fault_of_our_own_in_a_log_ends_its_run(
    provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever raises where frames are read, the run does not wait for its wall."""

    def fail(_log: LineLog, _texts: list[str]) -> bool:
        raise RuntimeError("a fault of our own")

    async with provider() as runtime:
        with monkeypatch.context() as patch:
            patch.setattr(LineLog, "add_plain_lines", fail)
            result = await runtime.run(build_request("print('x')\nwhile True: pass"))
        assert result.error is not None
        assert (result.error.kind, result.error.message) == (
            "worker-exit",
            "the Python process was killed: its output could not be read",
        )
        await run_fine(runtime)
