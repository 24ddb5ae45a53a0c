"""Processor time and memory: the verdict comes from what the kernel and the guard have measured."""

from __future__ import annotations

import json
import subprocess
import sys
import time

import pytest
from run_requests import Provider, build_request

from code_runtime import CodeRunResult

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    """One event loop: what is tested here takes seconds, and is the kernel's."""
    return "asyncio"


def failure(result: CodeRunResult) -> tuple[str, str]:
    assert result.error is not None, result
    return result.error.kind, result.error.message


def cpu_limit(seconds: int, source: str = "cpu_seconds") -> tuple[str, str]:
    text = f"CPU limit reached: at most {seconds} s of processor time ({source})"
    return "timeout", text


BURN = """
import os, signal, time
def burn(seconds):
    end = time.process_time() + seconds
    while time.process_time() < end: pass
"""


@pytest.mark.parametrize(
    "program",
    [
        pytest.param("print('a')\nwhile True: pass", id="loop"),
        pytest.param(
            f"{BURN}\nprint('a')\nsignal.signal(signal.SIGXCPU, signal.SIG_IGN)\nburn(60)",
            id="ignored",
        ),
        pytest.param(
            f"{BURN}\nprint('a')\nsignal.signal(signal.SIGXCPU, lambda *_: None)\n"
            "signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGXCPU})\nburn(1.2)\nreturn 1",
            id="trapped and masked",
        ),
        pytest.param(
            f"{BURN}\nimport resource\nprint('a')\n"
            "signal.signal(signal.SIGXCPU, signal.SIG_IGN)\n"
            "resource.getrusage = os.kill = signal.signal = signal.pthread_sigmask = None\n"
            "burn(1.2)\nreturn 1",
            id="patched",
        ),
        pytest.param(
            f"{BURN}\nprint('a')\nsignal.signal(signal.SIGXCPU, signal.SIG_IGN)\nburn(1.2)\n"
            "raise ValueError('no')",
            id="raises",
        ),
        pytest.param(
            f"{BURN}\nprint('a')\nsignal.signal(signal.SIGXCPU, signal.SIG_IGN)\nburn(1.2)\n"
            "os._exit(0)",
            id="exits",
        ),
    ],
)
async def test_processor_time_is_a_timeout_whatever_the_program_does(
    provider: Provider, program: str
) -> None:
    """PY-234, PY-236, PY-237, PY-238, PY-242: by measurement, so a hard limit is one too."""
    async with provider(cpu_seconds=1) as runtime:
        result = await runtime.run(build_request(program))
    assert (result.logs, result.has_value, failure(result)) == (["a"], False, cpu_limit(1))


async def test_processor_time_of_descendants_counts(provider: Provider) -> None:
    """PY-239: those that were waited for, each below the limit."""
    program = (
        "import subprocess, sys\n"
        "code = 'import time\\nwhile time.process_time() < 0.6: pass'\n"
        "for _ in range(2): subprocess.run([sys.executable, '-I', '-c', code], check=True)\n"
        "return 1"
    )
    async with provider(cpu_seconds=1) as runtime:
        result = await runtime.run(build_request(program))
    assert failure(result) == cpu_limit(1)


async def test_sleeping_and_a_small_subprocess_cost_no_processor_time(provider: Provider) -> None:
    """PY-235."""
    program = (
        "import asyncio, subprocess\nsubprocess.run(['/bin/true'])\nawait asyncio.sleep(1.2)\n"
        "return 'awake'"
    )
    async with provider(cpu_seconds=1) as runtime:
        result = await runtime.run(build_request(program))
    assert (result.value, result.error) == ("awake", None)


async def test_a_signal_after_the_completion_has_no_effect(provider: Provider) -> None:
    """PY-218, PY-244: a SIGXCPU that no limit stands behind changes no outcome."""
    program = (
        "import atexit, os, signal\n"
        "atexit.register(lambda: os.kill(os.getpid(), signal.SIGXCPU))\nreturn 'value'"
    )
    async with provider(cpu_seconds=1) as runtime:
        result = await runtime.run(build_request(program))
    assert (result.value, result.error) == ("value", None)


async def test_a_value_far_above_its_budget_is_an_output_limit(provider: Provider) -> None:
    """PY-246: under an address space that a second copy would not fit into."""
    config = {"address_space_mb": 384, "max_value_bytes": 1024, "max_log_bytes": 1024}
    async with provider(**config) as runtime:
        plain = await runtime.run(build_request("return 'x' * 104_857_600"))
        zeros = await runtime.run(build_request("return '\\0' * 41_943_040"))
        wide = await runtime.run(build_request("return [1] * 2_000_000"))
    expected = ("output-limit", "The value is larger than 1024 bytes")
    assert [failure(plain), failure(zeros), failure(wide)] == [expected] * 3


async def test_the_escaped_size_of_a_value_decides(provider: Provider) -> None:
    """PY-247, PY-248: to the byte."""
    surrogates = "return '\\ud800' * 3_000_000"
    async with provider(max_value_bytes=18_000_001) as runtime:
        zeros = await runtime.run(build_request("return '\\0' * 8_388_608"))
        over = await runtime.run(build_request(surrogates))
    async with provider(max_value_bytes=18_000_002) as runtime:
        exact = await runtime.run(build_request(surrogates))
    assert failure(zeros) == ("output-limit", "The value is larger than 18000001 bytes")
    assert failure(over) == ("output-limit", "The value is larger than 18000001 bytes")
    assert exact.value == "\ud800" * 3_000_000


async def test_a_failure_is_told_under_memory_pressure(provider: Provider) -> None:
    """PY-245, PY-251: with nothing left, the message still comes."""
    program = (
        "k = []\nsize = 1 << 26\nwhile True:\n    try:\n        k.append(bytearray(size))\n"
        + ("    except MemoryError:\n        if size == 1: raise\n        size //= 2\n")
    )
    async with provider(address_space_mb=256, max_log_bytes=65_536, max_value_bytes=65_536) as run:
        result = await run.run(build_request(program))
    kind, message = failure(result)
    assert (kind, message.splitlines()[-1]) == ("exception", "MemoryError")


async def test_many_threads_fit_under_the_default_limits(provider: Provider) -> None:
    """PY-213: better than with an address space of 512 MiB."""
    program = """
import threading
release = threading.Event()
threads = [threading.Thread(target=release.wait) for _ in range(40)]
for thread in threads: thread.start()
count = threading.active_count()
release.set()
for thread in threads: thread.join()
return count
"""
    async with provider() as runtime:
        result = await runtime.run(build_request(program))
    assert result.value == 41


HOST = """
import json, resource, signal, sys, anyio
from code_runtime import CodeRunRequest, Context
from code_runtime_python import PythonCodeRuntime
exec(sys.argv[1])
async def main():
    async with Context() as ctx:
        await ctx.plugin(PythonCodeRuntime, json.loads(sys.argv[2]))
        result = await ctx.codeRuntime.run(CodeRunRequest(sys.argv[3]))
        error = None if result.error is None else [result.error.kind, result.error.message]
        print(json.dumps([result.value, error]))
anyio.run(main)
"""


def run_under(setup: str, program: str, **config: object) -> list[object]:
    """Run a program on a host that has executed `setup` first."""
    command = [sys.executable, "-c", HOST, setup, json.dumps(config), program]
    answer: list[object] = json.loads(subprocess.check_output(command, timeout=60))
    return answer


LIMITS = "import resource\nreturn [list(resource.getrlimit(resource.{name}))]"


def test_a_stricter_address_space_is_kept(start_method: str) -> None:
    """PY-073: and the run works."""
    setup = "resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))"
    program = LIMITS.format(name="RLIMIT_AS")
    config = {"max_log_bytes": 65_536, "max_value_bytes": 65_536, "start_method": start_method}
    assert run_under(setup, program, **config) == [[[1 << 30, 1 << 30]], None]


def test_a_stricter_soft_limit_of_processor_time_is_kept() -> None:
    """PY-074."""
    setup = "resource.setrlimit(resource.RLIMIT_CPU, (5, resource.RLIM_INFINITY))"
    program = LIMITS.format(name="RLIMIT_CPU")
    assert run_under(setup, program, cpu_seconds=30) == [[[5, 31]], None]


def test_budgets_that_do_not_fit_into_an_inherited_limit_fail_the_run() -> None:
    """PY-075: before any of the program has run."""
    setup = "resource.setrlimit(resource.RLIMIT_AS, (1 << 29, 1 << 29))"
    value, error = run_under(setup, "return 1", max_log_bytes=50_000_000)
    assert (value, error) == (
        None,
        [
            "exception",
            "Cannot start the program: maxLogBytes of 50000000 bytes is too large for the "
            f"inherited address-space limit of {1 << 29} bytes",
        ],
    )


def test_an_ignored_and_blocked_signal_of_the_host_does_not_matter() -> None:
    """PY-077."""
    setup = (
        "signal.signal(signal.SIGXCPU, signal.SIG_IGN)\n"
        "signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGXCPU})"
    )
    program = "while True: pass"
    assert run_under(setup, program, cpu_seconds=1) == [None, list(cpu_limit(1))]


@pytest.mark.parametrize(
    ("limits", "seconds"),
    [("(1, 3)", 1), ("(2, 2)", 1), ("(1, 1)", 1)],
    ids=["soft", "equal", "one"],
)
def test_an_inherited_limit_of_processor_time_is_a_timeout(limits: str, seconds: int) -> None:
    """PY-240, PY-241: also where the kernel kills at once; the host spends none of its own."""
    setup = f"resource.setrlimit(resource.RLIMIT_CPU, {limits})"
    before_s = time.monotonic()
    answer = run_under(setup, "while True: pass", cpu_seconds=30)
    assert answer == [None, list(cpu_limit(seconds, "inherited by the host"))]
    assert time.monotonic() - before_s < 20
