"""Limits of the kernel, the budget of CPU time, and behaviour when memory is short."""

from __future__ import annotations

import resource
import signal
import sys
import time
from collections.abc import Callable
from typing import Any

import pytest
from fd3_host import MIB, run_program, start_child

linux_only = pytest.mark.skipif(
    sys.platform != "linux", reason="RLIMIT_AS is not applied elsewhere"
)
READ_LIMITS = """
import resource
kinds = (resource.RLIMIT_CORE, resource.RLIMIT_CPU, resource.RLIMIT_AS)
return [list(resource.getrlimit(kind)) for kind in kinds]
"""


def inherit(kind: int, soft: int, hard: int) -> Callable[[], object]:
    return lambda: resource.setrlimit(kind, (soft, hard))


@linux_only
@pytest.mark.parametrize(
    ("prepare", "cpu", "space"),
    [
        pytest.param(None, [30, 31], [512 * MIB, 512 * MIB], id="PY-072 nothing inherited"),
        pytest.param(inherit(resource.RLIMIT_AS, 256 * MIB, 256 * MIB), [30, 31], [256 * MIB] * 2, id="PY-073 stricter"),
        pytest.param(inherit(resource.RLIMIT_AS, 256 * MIB, -1), [30, 31], [256 * MIB, 512 * MIB], id="PY-073 soft only"),
        pytest.param(inherit(resource.RLIMIT_CPU, 5, 100), [5, 31], [512 * MIB] * 2, id="PY-074 soft kept"),
        pytest.param(inherit(resource.RLIMIT_CPU, 5, 5), [4, 5], [512 * MIB] * 2, id="PY-241 soft equals hard"),
        pytest.param(inherit(resource.RLIMIT_CPU, 1, 1), [1, 1], [512 * MIB] * 2, id="PY-241 one second"),
    ],
)  # fmt: skip
def test_limits_are_the_stricter_ones(
    prepare: Callable[[], object] | None, cpu: list[int], space: list[int]
) -> None:
    """PY-070 to PY-074, PY-241."""
    outcome = run_program(READ_LIMITS, prepare=prepare, cpuSeconds=30, addressSpaceBytes=512 * MIB)
    assert outcome.value == [[0, 0], cpu, space]


@linux_only
def test_inherited_address_space_too_small_for_a_budget_is_told() -> None:
    """PY-075: before the program is there."""
    with start_child(prepare=inherit(resource.RLIMIT_AS, 256 * MIB, 256 * MIB)) as child:
        child.boot(maxValueBytes=20 * MIB, addressSpaceBytes=1024 * MIB)
        frame = child.read()
        assert child.read() is None
        assert child.process.wait(5) == 1
    message = (
        f"Cannot start the program: maxValueBytes of {20 * MIB} bytes is too large for the inherited "
        f"address-space limit of {256 * MIB} bytes"
    )
    assert frame == {"type": "done", "error": {"kind": "exception", "message": message}}


def test_limit_that_the_kernel_refuses_is_told() -> None:
    """PY-076."""
    with start_child() as child:
        child.boot(cpuSeconds=2**70)
        frame = child.read()
        assert child.process.wait(5) == 1
    assert frame is not None
    assert frame["error"]["kind"] == "exception"
    assert frame["error"]["message"].startswith("Cannot set the limits of the program: ")


def ignore_cpu_signal() -> None:
    signal.signal(signal.SIGXCPU, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGXCPU})


@pytest.mark.slow
@pytest.mark.parametrize(
    ("program", "prepare", "code"),
    [
        pytest.param("while True: pass", None, -signal.SIGXCPU, id="PY-234 loop"),
        pytest.param("while True: pass", ignore_cpu_signal, -signal.SIGXCPU, id="PY-077 ignored by the parent"),
        pytest.param("import signal\nsignal.signal(signal.SIGXCPU, signal.SIG_IGN)\nwhile True: pass", None, -signal.SIGKILL, id="PY-236 ignored"),
        pytest.param("TRAP\nBURN\nreturn 1", None, -signal.SIGXCPU, id="PY-237 trapped, then a return"),
        pytest.param("TRAP\nBURN\nraise ValueError", None, -signal.SIGXCPU, id="PY-242 trapped, then an exception"),
        pytest.param("TRAP\nBURN\nresource.getrusage = os.kill = signal.signal = signal.pthread_sigmask = os.getpid = None\nimport builtins\nbuiltins.sum = builtins.RuntimeError = None\nreturn 1", None, -signal.SIGXCPU, id="PY-237 patched"),
        pytest.param("import subprocess, sys\nfor _ in range(2): subprocess.run([sys.executable, '-c', 'import time\\nwhile time.process_time() < 0.7: pass'])\nreturn 1", None, -signal.SIGXCPU, id="PY-239 descendants"),
    ],
)  # fmt: skip
def test_cpu_budget_cannot_be_outlived(
    program: str, prepare: Callable[[], object] | None, code: int
) -> None:
    """PY-077, PY-234 to PY-243: never a success, always the signal that the host looks for."""
    trap = (
        "import os, resource, signal, time\nsignal.signal(signal.SIGXCPU, lambda *_: None)\n"
        "signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGXCPU})"
    )
    program = program.replace("TRAP", trap).replace("BURN", "while time.process_time() < 1.2: pass")
    started_s = time.monotonic()
    outcome = run_program(program, prepare=prepare, cpuSeconds=1)
    assert (outcome.done, outcome.exit_code) == (None, code)
    assert time.monotonic() - started_s < 20


def test_sleeping_costs_no_cpu_time() -> None:
    """PY-235."""
    program = "import asyncio, subprocess\nawait asyncio.sleep(1.2)\nsubprocess.run(['/bin/true'])\nreturn 1"
    assert run_program(program, cpuSeconds=1).value == 1


@linux_only
def test_recheck_compares_with_the_inherited_soft_limit() -> None:
    """PY-240."""
    program = "import signal, time\nsignal.signal(signal.SIGXCPU, lambda *_: None)\nwhile time.process_time() < 1.2: pass\nreturn 1"
    outcome = run_program(program, cpuSeconds=30, prepare=inherit(resource.RLIMIT_CPU, 1, 100))
    assert (outcome.done, outcome.exit_code) == (None, -signal.SIGXCPU)


# Memory


@linux_only
@pytest.mark.parametrize(
    "program",
    [
        pytest.param("x = bytearray(1 << 40)", id="one object"),
        pytest.param("x = []\nwhile True: x.append(bytearray(1000000))", id="large objects"),
        pytest.param("x = []\nwhile True: x.append([x])", id="small objects"),
        pytest.param("x = 'x'\nwhile True: x += x", id="text"),
    ],
)
def test_allocation_beyond_the_limit_is_a_memory_error(program: str) -> None:
    """PY-245, PY-251: the failure is told although the program still holds all memory."""
    outcome = run_program(program, addressSpaceBytes=256 * MIB)
    assert outcome.message.endswith("MemoryError")


@linux_only
@pytest.mark.parametrize(
    ("program", "budget", "space"),
    [
        pytest.param("return 'x' * (100 << 20)", 1024, 256, id="PY-246 text"),
        pytest.param("return '\\0' * (40 << 20)", 1024, 256, id="PY-246 control characters"),
        pytest.param("return '\\0' * 8_000_000", 16 * MIB, 384, id="PY-247"),
        pytest.param("return [0] * 2_000_000", 64, 256, id="section 2.1 wide list"),
        pytest.param("return dict.fromkeys(map(str, range(500_000)), 0)", 64, 256, id="section 2.1 wide dict"),
        pytest.param("return [[]] * 1_000_000", 64, 256, id="wide list of lists"),
        pytest.param("x = []\nfor _ in range(500_000): x = [x]\nreturn x", 64, 256, id="deep list"),
    ],
)  # fmt: skip
def test_value_over_the_budget_fails_fast_and_lean(program: str, budget: int, space: int) -> None:
    """PY-246, PY-247."""
    outcome = run_program(program, maxValueBytes=budget, addressSpaceBytes=space * MIB)
    assert outcome.failure == (
        "output-limit",
        fit(f"The value is larger than {budget} bytes", budget),
    )


def fit(message: str, budget: int) -> str:
    return message if len(message) + 2 <= budget else message[: budget - 17] + "\u2026 [truncated]"


@pytest.mark.parametrize(
    ("program", "size"),
    [
        pytest.param("return '\\ud800' * 30_000", 180_002, id="PY-248 lone surrogates"),
        pytest.param("return 'x' * 1000", 1002, id="text"),
        pytest.param("return [1.0, -5, None, {'a': [], 'é': {}}]", 28, id="structure"),
        pytest.param("return 2**60", 19, id="integer"),
    ],
)
def test_budget_of_the_value_is_inclusive(program: str, size: int) -> None:
    """PY-248, section 2.3."""
    assert "value" in (run_program(program, maxValueBytes=size).done or {})
    assert run_program(program, maxValueBytes=size - 1).failure[0] == "output-limit"


@linux_only
def test_list_of_six_million_elements_passes_in_little_memory() -> None:
    """Section 2.1: as a value and as an argument, under 384 MiB."""
    limits: dict[str, Any] = {"maxValueBytes": 20 * MIB, "addressSpaceBytes": 384 * MIB}
    outcome = run_program("return [0] * 6_000_000", **limits)
    assert outcome.value == [0] * 6_000_000
    program = "return await tools.size([0] * 6_000_000)"
    assert run_program(program, {"tools.size": lambda args: len(args)}, **limits).value == 6_000_000


@linux_only
def test_machinery_needs_little_address_space() -> None:
    """PY-081: no thread, and little more than the interpreter with asyncio."""
    program = """
def mapped():
    return int(next(line for line in open("/proc/self/status") if line.startswith("VmSize")).split()[1]) // 1024
before = mapped()
await tools.echo(1)
return [before, mapped(), len(__import__("os").listdir("/proc/self/task"))]
"""
    outcome = run_program(program, {"tools.echo": lambda args: args}, addressSpaceBytes=256 * MIB)
    before, after, threads = outcome.value
    assert before < 48
    assert after - before < 8
    assert threads == 1


def test_value_that_a_thread_changes_is_sent_whole_or_not_at_all() -> None:
    """Section 2.1: it is checked and spelled once; what is sent is the finished text."""
    program = """
import threading
value = [[str(i)] for i in range(20000)]
def change():
    while True:
        value.append({1}); value.pop()
threading.Thread(target=change, daemon=True).start()
return value
"""
    for _ in range(3):
        done = run_program(program, maxValueBytes=MIB).done
        assert done is not None
        if "value" in done:
            assert done["value"] == [[str(i)] for i in range(20_000)]
        else:
            assert done["error"]["kind"] in ("invalid-output", "exception")
