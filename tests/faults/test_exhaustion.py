"""Descriptors, processes and room for files run out: typed outcomes, then runs work again."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from faults import BACKENDS, Backend, host_process

NO_FILE = "`worker-exit`: worker did not start: Too many open files"
NO_GUARD = (
    "`worker-exit`: worker did not start: Cannot start a process: "
    "its guard ended at once, expected a started program"
)
AGAIN = "Resource temporarily unavailable"
NO_ROOM = "`worker-exit`: worker did not start: No space left on device"
FULL = {
    "Python": "`exception`: Traceback (most recent call last):\n"
    '  File "program.py", line 1, in <module>\n'
    "    open('big', 'wb').write(bytes(1_000_000))\n"
    "OSError: [Errno 28] No space left on device",
    "Worker thread": "`exception`: Error: ENOSPC: no space left on device, write\n"
    "  1 | (await import('node:fs')).writeFileSync('big', Buffer.alloc(1e6)); return 'fine'\n"
    "    |                           ^\n"
    "    at program.ts:1:27",
}
NO_PROCESS = {
    NO_GUARD,
    f"`worker-exit`: worker did not start: Python cannot be started: {AGAIN}",
    f"`worker-exit`: worker did not start: Node cannot be started: {AGAIN}",
}


def test_64_descriptors_serve_what_they_can(backend: Backend, loop: str, tmp_path: Path) -> None:
    """PY-064: 10 programs that are all up at one time do not fit."""
    with host_process(backend, loop, env={"TMPDIR": str(tmp_path)}) as process:
        process.ask("free 0")
        assert process.ask("load") == (
            f"HostStartError: Cannot start {thing(backend)}: [Errno 24] Too many open files, "
            f"expected {expected(backend)}"
        )
        process.ask("files 64")
        assert process.ask("load") is None
        outcomes = set(process.outcomes("crowd 10"))
        # The descriptors that a guard sends may be those that find no place.
        assert "value" in outcomes
        assert outcomes - {"value"}
        assert outcomes <= {NO_FILE, NO_GUARD, "value"}
        process.ask("files 256")
        # The start of a spare that failed before the limit was lifted may meet the first run.
        process.outcomes("run 1")
        assert process.outcomes("crowd 10") == ["value"] * 10


def test_no_descriptor_to_try_a_temporary_folder_with() -> None:
    """What tempfile says then has no reason in it."""
    with host_process(BACKENDS["worker-thread"], "asyncio") as process:
        process.ask("free 0")
        assert process.ask("load") == (
            "HostStartError: Cannot start the working directories: tempfile finds none that it "
            "can use, expected a temporary folder to write to"
        )
        process.ask("files 256")


NOT_UP = "`worker-exit`: worker did not start: "


def user_of_its_own() -> list[str]:
    """Return a launcher that runs a command as a user that nobody else is."""
    if os.getuid() != 0 or shutil.which("setpriv") is None:
        pytest.skip("only root can become a user whose processes nobody else starts")
    rights = ("--inh-caps=+dac_override", "--ambient-caps=+dac_override")
    return ["setpriv", f"--reuid={1_000_000 + os.getpid()}", "--clear-groups", *rights]


@pytest.mark.timeout(300)  # a Node that gets no thread may hang until its boot is given up
def test_no_further_process_can_be_started(backend: Backend, loop: str) -> None:
    """PY-064: RLIMIT_NPROC counts the processes and threads of a user; root is exempt."""
    with host_process(backend, loop, launcher=user_of_its_own()) as process:
        process.ask("processes 90")
        assert process.ask("load") is None
        assert process.outcomes("run 2") == ["value"] * 2
        process.ask("fill")
        outcomes = set(process.outcomes("crowd 4"))
        refused = {item for item in outcomes if item in NO_PROCESS or item.startswith(NOT_UP)}
        assert outcomes - refused <= {"value"}
        assert refused
        process.ask("empty")
        process.outcomes("run 1")
        assert process.outcomes("run 2") == ["value"] * 2


@pytest.fixture
def small_disk(tmp_path: Path) -> tuple[list[str], dict[str, str]]:
    """A launcher and an environment that give a process a temporary folder of 64 KiB."""
    rights = [] if os.getuid() == 0 else ["--user", "--map-root-user"]
    mount = 'mount -t tmpfs -o size=64k,nr_inodes=16 tmpfs "$0" && exec "$@"'
    launcher = ["unshare", *rights, "--mount", "sh", "-c", mount, str(tmp_path)]
    if shutil.which("unshare") is None or subprocess.run([*launcher, "true"]).returncode != 0:
        pytest.skip("this system lets the user mount no file system of its own")
    return launcher, {"TMPDIR": str(tmp_path)}


def test_a_full_temporary_folder(
    backend: Backend, loop: str, small_disk: tuple[list[str], dict[str, str]]
) -> None:
    """PY-055: no room for the directory of a run; a program that fills it fails by itself."""
    launcher, env = small_disk
    with host_process(backend, loop, launcher=launcher, env=env) as process:
        process.ask("clutter")
        assert process.ask("load") == (
            "HostStartError: Cannot start the working directories: No space left on device, "
            "expected a temporary folder to write to"
        )
        process.ask("tidy")
        assert process.ask("load") is None
        assert process.ask("program write") == FULL[backend.heading]
        process.ask("clutter")
        # Those that wait already have their directories.
        outcomes = set(process.outcomes("crowd 6"))
        assert NO_ROOM in outcomes
        assert outcomes <= {NO_ROOM, "value"}
        process.ask("tidy")
        process.outcomes("run 1")
        assert process.outcomes("run 2") == ["value"] * 2


def thing(backend: Backend) -> str:
    return "the guard" if backend.heading != "Python" else f"the interpreter {sys.executable!r}"


def expected(backend: Backend) -> str:
    if backend.heading != "Python":
        return "a Linux or macOS system"
    return "CPython that imports what it needs"
