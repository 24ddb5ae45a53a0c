"""What docs/how-to/deploy-in-a-container.md says holds without the rights that containers withhold."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import pytest
from processes import alive, descendants, processes_with

RESTRICTED: Final = (sys.executable, str(Path(__file__).parent / "support" / "restricted.py"))
ORDINARY_USER: Final = ("unshare", "-U", "--map-user=1000", "--map-group=1000")
BOUND_S: Final = 20
HOST: Final = """
import sys
from code_runtime import CodeRunRequest, open_runtime

with open_runtime(sys.argv[1], {"memory_mb": 200}) as runtime:
    for program in sys.argv[2:]:
        result = runtime.run(CodeRunRequest(program, on_log=lambda line: print(line, flush=True)))
        print(result.value, result.error and result.error.kind, flush=True)
"""
# A process of these tests, and of no others that run at the same time.
SLEEP_S: Final = f"600.{os.getpid()}"
# Leaves a detached process behind; fills memory; leaves a detached process and waits.
PROGRAMS: Final = {
    "worker-thread": (
        "import {spawn} from 'node:child_process'; spawn('sleep', ['SLEEP'], {detached: true}); return 1",
        "const kept = []; while (true) kept.push(Buffer.alloc(1e7, 1))",
        "import {spawn} from 'node:child_process'; spawn('sleep', ['SLEEP'], {detached: true});"
        "console.log('up'); await new Promise(() => {})",
    ),
    "python": (
        "import subprocess; subprocess.Popen(['sleep', 'SLEEP'], start_new_session=True); return 1",
        "kept = []\nwhile True: kept.append(bytearray(10 ** 7))",
        "import subprocess, time; subprocess.Popen(['sleep', 'SLEEP'], start_new_session=True)\n"
        "print('up'); time.sleep(600)",
    ),
}


def _works(command: Sequence[str]) -> bool:
    try:
        return subprocess.run([*command, "true"], capture_output=True, check=False).returncode == 0
    except OSError:
        return False


CONDITIONS = [
    pytest.param(
        RESTRICTED,
        id="refused-system-calls",
        marks=pytest.mark.skipif(
            platform.machine() != "x86_64" or not _works(RESTRICTED),
            reason="the numbers of the system calls are those of x86-64, and a filter is needed",
        ),
    ),
    pytest.param(
        ORDINARY_USER,
        id="no-capabilities",
        marks=pytest.mark.skipif(
            not _works(ORDINARY_USER), reason="this system gives no user namespace"
        ),
    ),
]


def _host(condition: Sequence[str], provider: str, *programs: str) -> subprocess.Popen[str]:
    given = [program.replace("SLEEP", SLEEP_S) for program in programs]
    command = [*condition, sys.executable, "-c", HOST, provider, *given]
    return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)


def _becomes(holds: Callable[[], bool]) -> bool:
    deadline_s = time.monotonic() + BOUND_S
    while not holds() and time.monotonic() < deadline_s:
        time.sleep(0.02)  # polls the system, where nothing can be waited for
    return holds()


@pytest.mark.parametrize("condition", CONDITIONS)
@pytest.mark.parametrize("provider", PROGRAMS)
def test_runs_end_with_what_they_started(condition: Sequence[str], provider: str) -> None:
    leaving, filling, _ = PROGRAMS[provider]
    with _host(condition, provider, leaving, filling, "return 2") as host:
        out, _err = host.communicate(timeout=50)
    assert (out, host.returncode) == ("1 None\nNone worker-exit\n2 None\n", 0)
    assert processes_with(f"sleep {SLEEP_S}") == []


@pytest.mark.parametrize("condition", CONDITIONS)
@pytest.mark.parametrize("provider", PROGRAMS)
def test_host_that_is_killed_leaves_nothing(condition: Sequence[str], provider: str) -> None:
    with _host(condition, provider, PROGRAMS[provider][2]) as host:
        try:
            assert host.stdout is not None
            assert host.stdout.readline() == "up\n"
            # A process that is being executed has no command line for a moment.
            assert _becomes(lambda: processes_with(f"sleep {SLEEP_S}") != [])
            family = descendants(host.pid)
        finally:
            host.kill()
    assert _becomes(lambda: alive(family) == [])
    assert processes_with(f"sleep {SLEEP_S}") == []


def test_filter_refuses_what_a_container_refuses() -> None:
    if platform.machine() != "x86_64":
        pytest.skip("the numbers of the system calls are those of x86-64")
    done = subprocess.run(
        [*RESTRICTED, "unshare", "-U", "true"], capture_output=True, text=True, check=False
    )
    assert done.returncode != 0
    assert "Operation not permitted" in done.stderr
