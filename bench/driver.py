"""The runner's side of a driver: a process, and one JSON line each way."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import tempfile
import time
from collections.abc import Mapping
from typing import IO, Self

from .subjects import ROOT, Subject

# Long enough for the slowest figure of the slowest peer that still makes sense to wait for.
DEADLINE_S = 240.0
LEAVE_S = 15.0


class WorkFailedError(Exception):
    """A driver could not do a piece of work; the text says why."""


class Driver:
    """A running driver; leaving its `with` block ends the process and all in its session."""

    def __init__(self, subject: Subject, first: Mapping[str, object] | None = None) -> None:
        self.subject = subject
        command = list(subject.command)
        if first is not None:
            command += ["--first", json.dumps(first)]
        self._errors: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 closed by close()
        self._pending = b""
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            env=dict(subject.environment),
            cwd=ROOT,
            start_new_session=True,
        )

    @property
    def pid(self) -> int:
        """The process of the host."""
        return self._process.pid

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def ask(self, deadline_s: float = DEADLINE_S, /, **request: object) -> dict[str, object]:
        """Send a request and return its answer.

        Raises:
            WorkFailedError: the driver says so, has left, or does not answer in time.
        """
        self.send(request)
        return self.answer(deadline_s)

    def send(self, request: object) -> None:
        """Send a line; a driver that has left says why at the next answer."""
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.write(json.dumps(request).encode() + b"\n")
            self._process.stdin.flush()

    def answer(self, deadline_s: float = DEADLINE_S) -> dict[str, object]:
        """Wait for the next answer."""
        answer = json.loads(self._read_line(deadline_s))
        if "error" in answer:
            raise WorkFailedError(str(answer["error"]))
        assert isinstance(answer, dict)
        return answer

    def close(self) -> None:
        """Let the driver leave by itself, or kill its session."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()
        try:
            self._process.wait(LEAVE_S)
        except subprocess.TimeoutExpired:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
        self._process.stdout.close()
        self._errors.close()

    def _read_line(self, deadline_s: float) -> bytes:
        assert self._process.stdout is not None
        descriptor = self._process.stdout.fileno()
        end = time.monotonic() + deadline_s
        while b"\n" not in self._pending:
            if not select.select([descriptor], [], [], max(0.0, end - time.monotonic()))[0]:
                self._end()
                raise WorkFailedError(f"no answer in {deadline_s:g} s")
            chunk = os.read(descriptor, 65_536)
            if not chunk:
                raise WorkFailedError(f"the driver has left: {self._last_words()}")
            self._pending += chunk
        line, _, self._pending = self._pending.partition(b"\n")
        return line

    def _end(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)

    def _last_words(self) -> str:
        self._errors.seek(0)
        lines = self._errors.read().decode(errors="replace").strip().splitlines()
        return " | ".join(lines[-4:])[-600:] or "no text"
