"""A raw host for the CPython child: real processes, a real socket, frames as they come.

It judges nothing and bounds nothing, so that tests see what the child itself sends.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

CHILD = (
    Path(__file__).parents[2]
    / "packages/code-runtime-python/src/code_runtime_python/_child/__main__.py"
)
TIMEOUT_S = 30.0
MIB = 1024 * 1024

Binding = Callable[[Any], object]


def interpreters() -> list[str]:
    """Return one interpreter for each CPython version that this machine has."""
    root = Path("~/.pyenv/versions").expanduser()
    wanted = ("3.10", "3.11", "3.12", "3.13")
    found = [sorted(root.glob(f"{version}.*/bin/python")) for version in wanted]
    return [str(paths[-1]) for paths in found if paths] or [sys.executable]


class Rejection(Exception):
    """What a binding raises to refuse a call with a message."""


@dataclass
class Outcome:
    """What a run has left: its frames, and what a host makes of them."""

    frames: list[dict[str, Any]]
    exit_code: int
    native: dict[int, str]
    logs: list[str] = field(default_factory=list)
    done: dict[str, Any] | None = None

    def __post_init__(self) -> None:
        held: str | None = None
        for frame in self.frames:
            if frame["type"] == "done":
                self.done = self.done or frame
            if frame["type"] != "log":
                continue
            if frame.get("truncated") is True:
                if held is not None:
                    self.logs.append(held)
                held = None
                self.logs.append(frame["text"])
            elif frame.get("open") is True:
                held = (held or "") + frame["text"]
            else:
                self.logs.append((held or "") + frame["text"])
                held = None
        if held is not None:
            self.logs.append(held)

    @property
    def value(self) -> Any:
        """The value; fails if the run has none."""
        assert self.done is not None, f"no done frame: {self.frames[-3:]}, {self.native}"
        assert "value" in self.done, self.done
        return self.done["value"]

    @property
    def failure(self) -> tuple[str, str]:
        """Kind and message; fails if the run has not failed."""
        assert self.done is not None, f"no done frame: {self.frames[-3:]}, {self.native}"
        assert "error" in self.done, self.done
        return self.done["error"]["kind"], self.done["error"]["message"]

    @property
    def message(self) -> str:
        """The message of a failure of kind exception."""
        kind, message = self.failure
        assert kind == "exception", (kind, message)
        return message


class Child:
    """A child process and the host's end of its socket."""

    def __init__(
        self,
        process: subprocess.Popen[bytes],
        channel: socket.socket,
        files: Mapping[int, IO[bytes]],
    ) -> None:
        self.process = process
        self.channel = channel
        self.frames: list[dict[str, Any]] = []
        self._files = files
        self._reader = channel.makefile("rb")

    def boot(self, namespaces: list[dict[str, Any]] | None = None, **limits: int) -> None:
        """Send the boot frame, with roomy limits unless others are given."""
        frame: dict[str, Any] = {
            "type": "boot",
            "cpuSeconds": 60,
            "addressSpaceBytes": 4096 * MIB,
            "maxLogBytes": 65_536,
            "maxValueBytes": 32_768,
            "namespaces": namespaces or [],
        }
        self.send({**frame, **limits})

    def send(self, frame: object) -> None:
        """Send one frame."""
        self.send_bytes(json.dumps(frame, separators=(",", ":")).encode() + b"\n")

    def send_bytes(self, data: bytes) -> None:
        """Send bytes as they are."""
        self.channel.sendall(data)

    def read(self) -> dict[str, Any] | None:
        """Wait for one frame; None at the end of the stream."""
        try:
            line = self._reader.readline()
        except ConnectionResetError:  # it left with a reply unread; what it sent came before that
            line = self._reader.readline()
        if not line.endswith(b"\n"):
            assert line == b"", f"torn frame {line[:200]!r}"
            return None
        frame: dict[str, Any] = json.loads(line)
        self.frames.append(frame)
        return frame

    def read_until(self, kind: str) -> dict[str, Any]:
        """Read frames up to the first of a kind."""
        while frame := self.read():
            if frame["type"] == kind:
                return frame
        raise AssertionError(f"no {kind} frame: {self.frames[-3:]}, {self.native()}")

    def answer(self, call: dict[str, Any], bindings: Mapping[str, Binding]) -> None:
        """Call the binding that a call frame names, and send its reply."""
        reply = {"type": "reply", "id": call["id"]}
        try:
            value = bindings[f"{call['global']}.{call['name']}"](call["args"])
        except Rejection as error:
            reply |= {"ok": False, "message": str(error)}
        else:
            reply |= {"ok": True, "value": value}
        with suppress(BrokenPipeError):  # another reply has ended the program
            self.send(reply)

    def run(self, program: str, bindings: Mapping[str, Binding] | None = None) -> None:
        """Send a program and serve its calls until the stream ends."""
        self.send({"type": "run", "program": program})
        while frame := self.read():
            if frame["type"] == "call":
                self.answer(frame, bindings or {})

    def native(self) -> dict[int, str]:
        """Return what was written to the native descriptors so far."""
        texts = {}
        for fd, file in self._files.items():
            file.seek(0)
            texts[fd] = file.read().decode("utf-8", "surrogateescape")
        return texts

    def outcome(self) -> Outcome:
        """Wait for the process, and sum up."""
        code = self.process.wait(TIMEOUT_S)
        return Outcome(self.frames, code, self.native())

    def close(self) -> None:
        """End the process, whatever it does."""
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self._reader.close()
        self.channel.close()


@contextmanager
def start_child(
    python: str | None = None,
    *,
    prepare: Callable[[], object] | None = None,
    environment: Mapping[str, str] | None = None,
    options: tuple[str, ...] = ("-I",),
) -> Iterator[Child]:
    """Start a child; `prepare` is called in the process before it becomes the child."""
    ours, theirs = socket.socketpair()
    ours.settimeout(TIMEOUT_S)

    def enter() -> None:
        os.dup2(theirs.fileno(), 3, inheritable=True)
        if prepare is not None:
            prepare()

    with theirs, tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        process = subprocess.Popen(
            [python or sys.executable, *options, str(CHILD)],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            pass_fds=(3,),
            preexec_fn=enter,
            env=dict(environment or {"TMPDIR": tempfile.gettempdir()}),
            start_new_session=True,
        )
        theirs.close()
        child = Child(process, ours, {1: out, 2: err})
        try:
            yield child
        finally:
            child.close()


def run_program(
    program: str,
    bindings: Mapping[str, Binding] | None = None,
    *,
    python: str | None = None,
    error_classes: Mapping[str, tuple[str, str]] | None = None,
    prepare: Callable[[], object] | None = None,
    **limits: int,
) -> Outcome:
    """Run one program in a child of its own.

    Args:
        program: Its text.
        bindings: Functions by their full names, such as `tools.add`.
        python: The interpreter; by default the one that runs the tests.
        error_classes: For a namespace, the name of its error class and of the member's attribute.
        prepare: Called in the process before it becomes the child.
        limits: Fields of the boot frame.
    """
    spaces: dict[str, dict[str, Any]] = {}
    for full in bindings or {}:
        space, _, name = full.partition(".")
        spec = spaces.setdefault(space, {"global": space, "names": []})
        spec["names"].append(name)
        if error_classes and space in error_classes:
            class_name, attribute = error_classes[space]
            spec["errorClass"] = {"name": class_name, "memberNameProperty": attribute}
    with start_child(python, prepare=prepare) as child:
        child.boot(list(spaces.values()), **limits)
        child.read_until("boot-ack")
        child.run(program, bindings)
        return child.outcome()
