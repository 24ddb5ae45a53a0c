"""The child as a fork of a zygote, over its descriptor 3, with every interpreter at hand."""

from __future__ import annotations

import json
import os
import socket
import sys
from pathlib import Path

import anyio
import anyio.to_thread
import pytest

from code_runtime._guarded import Warden, Zygote, open_warden
from code_runtime_python._interpreter import CHILD_FOLDER

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(sys.platform != "linux", reason="a zygote needs Linux"),
]

ZYGOTE = Zygote(str(CHILD_FOLDER), "_child.__main__:rehearse()", ("decimal",))
PYENV = Path.home() / ".pyenv" / "versions"
PYTHONS = [Path(sys.executable)]
for minor in (10, 11, 12, 13):
    PYTHONS += sorted(PYENV.glob(f"3.{minor}.*/bin/python"))[:1]
BOOT = {
    "type": "boot",
    "cpuSeconds": 10,
    "addressSpaceBytes": 4 << 30,
    "maxLogBytes": 100_000,
    "maxValueBytes": 100_000,
    "namespaces": [{"global": "tools", "names": ["add"]}],
}
PROGRAM = """
import builtins, sys
print([hasattr(builtins, "mark"), "decimal" in sys.modules])
print([name for name in sys.modules if "guard" in name or "child" in name])
builtins.mark = 1
return await tools.add({"a": 1, "b": 2})
"""


async def converse(warden: Warden) -> tuple[list[object], int | None]:
    """Run the program in a new process; return its frames and its exit code."""
    null = os.open(os.devnull, os.O_RDWR)
    ours, theirs = socket.socketpair()
    with ours, theirs:
        process = await warden.fork(
            env={"TMPDIR": "/"},
            cwd="/",
            stdout_fd=null,
            stderr_fd=null,
            control_fd=theirs.fileno(),
        )
        theirs.close()
        os.close(null)
        frames = await anyio.to_thread.run_sync(_answer, ours)
    return frames, (await process.wait_gone()).code


def _answer(channel: socket.socket) -> list[object]:
    def send(frame: dict[str, object]) -> None:
        channel.sendall(json.dumps(frame).encode() + b"\n")

    frames = []
    send(BOOT)
    with channel.makefile("rb") as lines:
        for line in lines:
            frame = json.loads(line)
            frames.append(frame)
            if frame["type"] == "boot-ack":
                send({"type": "run", "program": PROGRAM})
            if frame["type"] == "call":
                send({"type": "reply", "id": frame["id"], "ok": True, "value": 3})
    return frames


@pytest.mark.parametrize("python", PYTHONS, ids=[path.parent.parent.name for path in PYTHONS])
async def test_child_of_a_zygote_serves_one_run_after_the_other(python: Path) -> None:
    async with open_warden(python=str(python), zygote=ZYGOTE) as warden:
        for _ in range(2):
            frames, code = await converse(warden)
            assert frames == [
                {"type": "boot-ack"},
                {"type": "log", "text": "[False, True]"},
                {"type": "log", "text": "[]"},
                {
                    "type": "call",
                    "id": 0,
                    "global": "tools",
                    "name": "add",
                    "args": {"a": 1, "b": 2},
                },
                {"type": "done", "value": 3},
            ]
            assert code == 0
