"""Faults on purpose: each keeps something of every run, so that a soak which sees none is broken."""

from __future__ import annotations

import os
import subprocess
import tempfile
import threading
from collections.abc import Callable
from typing import final

import anyio
import anyio.abc

NAMES = ("descriptors", "memory", "tasks", "threads", "processes", "files", "outcome", "stuck")
KEPT_BYTES = 51_200


@final
class Leaks:
    """Keeps things as `names` says, until closed.

    Args:
        names: Some of `NAMES`; `outcome` and `stuck` are faults of a trial, for the driver.
        task_group: Where the kept tasks live.
    """

    def __init__(self, names: frozenset[str], task_group: anyio.abc.TaskGroup) -> None:
        self._task_group = task_group
        self._memory: list[bytes] = []
        self._descriptors: list[int] = []
        self._processes: list[subprocess.Popen[bytes]] = []
        self._release = threading.Event()
        ways: dict[str, Callable[[], None]] = {
            "descriptors": self._keep_descriptor,
            "tasks": self._keep_task,
            "threads": self._keep_thread,
            "processes": self._keep_process,
            "files": self._keep_file,
        }
        self._keeps_memory = "memory" in names
        self._keep = [ways[name] for name in sorted(names & ways.keys())]
        self._run_count = 0

    def after_run(self) -> None:
        """Keep 50 KiB of every run, and one of each other thing of every tenth."""
        self._run_count += 1
        if self._keeps_memory:
            self._memory.append(os.urandom(KEPT_BYTES))
        if self._run_count % 10 == 0:
            for keep in self._keep:
                keep()

    def close(self) -> None:
        """Give back what would outlive this process, or keep it from ending."""
        self._release.set()
        self._task_group.cancel_scope.cancel()
        for number in self._descriptors:
            os.close(number)
        for process in self._processes:
            process.kill()
            process.wait()

    def _keep_descriptor(self) -> None:
        self._descriptors.append(os.dup(0))

    def _keep_task(self) -> None:
        self._task_group.start_soon(anyio.sleep_forever)

    def _keep_thread(self) -> None:
        threading.Thread(target=self._release.wait, daemon=True).start()

    def _keep_process(self) -> None:
        self._processes.append(subprocess.Popen(["/bin/sleep", "600"]))

    def _keep_file(self) -> None:
        number, _ = tempfile.mkstemp()
        os.close(number)
