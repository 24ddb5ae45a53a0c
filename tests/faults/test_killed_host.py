"""The host is ended by SIGKILL at each stage: nothing of it stays."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from faults import Backend, HostProcess, host_process, parent_of
from processes import alive, descendants

# Two seconds are promised, and pinned for a program that runs; a starved machine may take longer.
GONE_S = 15.0


def kill_host(process: HostProcess) -> None:
    """End the host, and wait until nothing of it lives."""
    family = descendants(process.pid)
    process.kill()
    # What was being started meanwhile is below those that were there.
    family += [child for pid, _ in family for child in descendants(pid)]
    deadline_s = time.monotonic() + GONE_S
    while alive(family) and time.monotonic() < deadline_s:
        time.sleep(0.01)  # polls the system: no one is left to wait for these
    assert alive(family) == []


def test_a_host_that_is_killed_with_runs_at_all_stages(
    backend: Backend, loop: str, tmp_path: Path
) -> None:
    """First statement, mid-call, mid-reply, after done; a spare waits beside them."""
    env = {"TMPDIR": str(tmp_path)}
    with host_process(backend, loop, env=env) as process:
        assert process.ask("load") is None
        assert process.ask(f"stages {tmp_path}") is None
        assert len(descendants(process.pid)) >= 9
        kill_host(process)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("depth", [1, 2, 3], ids=["warden", "guard", "program"])
def test_a_host_that_is_killed_while_it_loads(backend: Backend, depth: int, tmp_path: Path) -> None:
    """As soon as the warden, a guard or a program appears; the loop is not concerned yet."""
    env = {"TMPDIR": str(tmp_path)}
    with host_process(backend, "asyncio", env=env) as process:
        process.tell("load")
        deadline_s = time.monotonic() + 30
        while not is_at_depth(process.pid, depth):
            assert time.monotonic() < deadline_s
        kill_host(process)
    # Before the first warden is up, no one is there to delete the folder of the provider.
    folders = list(tmp_path.iterdir())
    assert [path for folder in folders for path in folder.iterdir()] == []
    assert folders == [] or depth == 1


def is_at_depth(pid: int, depth: int) -> bool:
    for child, _ in descendants(pid):
        generation = 0
        try:
            while child != pid:
                child, generation = parent_of(child), generation + 1
        except OSError:
            continue
        if generation == depth:
            return True
    return False
