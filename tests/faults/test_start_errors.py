"""What keeps a provider from loading is an error with a whole sentence, and leaves nothing."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import anyio
import pytest
from faults import Backend

from code_runtime import HostStartError
from code_runtime_worker_thread._node import list_candidates

pytestmark = pytest.mark.anyio

DIES, STALLS = "kill -9 $$", "kill -STOP $$"
READY = "expected a line that says ready"


def break_command(folder: Path, real: str, action: str, condition: str = "true") -> str:
    """Make a command that does something where the real one would start."""
    path = folder / "command"
    path.write_text(f'#!/bin/sh\nif {condition}; then {action}; fi\nexec {real} "$@"\n')
    path.chmod(0o755)
    return str(path)


async def load_error(backend: Backend, **config: object) -> str:
    """Return the text of the error with which the provider does not load."""
    with anyio.fail_after(40), pytest.raises(HostStartError) as caught:
        async with backend.open(**config):
            pass
    return str(caught.value)


@pytest.mark.parametrize(
    ("action", "seen"),
    [
        pytest.param(DIES, "it ended before it was ready", id="dies"),
        pytest.param(STALLS, "no answer in 1 s", id="stalls"),
    ],
)
async def test_a_warden_that_does_not_start(
    backend: Backend,
    action: str,
    seen: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The interpreter of the host is what wardens run on."""
    python = break_command(tmp_path, sys.executable, action)
    monkeypatch.setattr(sys, "executable", python)
    for name in ("_READY_S", "_PRELOAD_S"):
        monkeypatch.setattr(f"code_runtime._guarded.{name}", 1.0)
    kind = "zygote" if backend.name == "python-zygote" else "warden"
    thing, expected = "the guard", "a Linux or macOS system"
    if backend.heading == "Python":
        thing, expected = f"the interpreter {python!r}", "CPython that imports what it needs"
    assert await load_error(backend) == (
        f"Cannot start {thing}: Cannot start a {kind}: {seen}, {READY}, expected {expected}"
    )


@pytest.mark.parametrize(
    ("action", "seen"),
    [
        pytest.param(DIES, "the Node process closed its control socket", id="dies"),
        pytest.param("exec sleep 1000", "no handshake within 1 s", id="stalls"),
    ],
)
async def test_a_node_that_does_not_start(
    action: str, seen: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It answers the question for its features, and then does not serve."""
    from faults import BACKENDS

    monkeypatch.setattr("code_runtime_worker_thread._host.BOOT_TIMEOUT_S", 1)
    real = next(item.path for item in list_candidates() if item.path is not None)
    node = break_command(tmp_path, real, action, 'case "$*" in *host.mjs*) true;; *) false;; esac')
    assert await load_error(BACKENDS["worker-thread"], node_bin=node) == (
        f"Cannot start the Node host: {seen}, expected a Node process that boots"
    )


@pytest.mark.parametrize(
    ("action", "seen"),
    [
        pytest.param(
            DIES,
            "the Python process was ended by SIGKILL before completing",
            id="dies",
        ),
        pytest.param(
            "exec sleep 1000", "the Python process was killed: it does not answer", id="stalls"
        ),
    ],
)
async def test_a_child_that_does_not_start(
    action: str, seen: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It tells its version, and then does not serve."""
    from faults import BACKENDS

    monkeypatch.setattr("code_runtime_python._session.ANSWER_S", 0.5)
    python = break_command(
        tmp_path, sys.executable, action, 'case "$*" in *_child*) true;; *) false;; esac'
    )
    assert await load_error(BACKENDS["python-spawn"], python_bin=python) == (
        f"Cannot start the interpreter {python!r}: {seen}, expected CPython that runs"
    )


@pytest.mark.parametrize("how", ["missing", "a file"])
async def test_no_temporary_folder(
    backend: Backend, how: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PY-055."""
    folder = tmp_path / "gone"
    if how == "a file":
        folder.write_text("")
    reason = "No such file or directory" if how == "missing" else "Not a directory"
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    assert await load_error(backend) == (
        f"Cannot start the working directories: {reason}, expected a temporary folder to write to"
    )
