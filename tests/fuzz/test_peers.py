"""Real hosts and children whose peer plays a damaged conversation: a typed outcome, and life goes on.

The frames are drawn in any order and number, then bytes of the stream are changed, inserted and
left out. `test_frames.py` does so for every byte, without processes.
"""

from __future__ import annotations

import socket
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import forgery
import pytest
import python_forgery
from fd3_host import start_child
from fuzzing import Runtimes, examples, node_path
from hypothesis import given
from hypothesis import strategies as st

from code_runtime import (
    CodeBindingNamespace,
    CodeRunRequest,
    CodeRunResult,
    Context,
    HostStartError,
)
from code_runtime._vocabulary import FAILURE_KINDS
from code_runtime_python import PythonCodeRuntime
from code_runtime_python._child import wire
from code_runtime_worker_thread import WorkerThreadCodeRuntime
from code_runtime_worker_thread import _frames as frames
from code_runtime_worker_thread._frames import encode_frame

CHILD = [
    wire.encode_boot_ack(),
    wire.encode_log("a"),
    wire.encode_log("é\ud800", is_open=True),
    wire.encode_log("", truncated=True),
    *(wire.encode_call(number, "tools", "echo", b'{"a":[1,-2.5e-7]}') for number in (0, 1, 2)),
    wire.encode_call(0, "tools", "none", b"1"),
    wire.encode_call(2**53, "t", "", b"[]"),
    wire.encode_done(b'{"sum":[9007199254740992,0.1,true]}'),
    wire.encode_done(),
    wire.encode_done_error("exception", "no"),
    wire.encode_done_error("output-limit", ""),
    wire.encode_reply(0, b"1"),
    b"\n",
]
ECHO = b'["tools","echo"]'
WORKER = [
    encode_frame(frames.HELLO, 1, bytes(16)),
    encode_frame(frames.LOG, b'"a"'),
    encode_frame(frames.LOG, '"é\\ud800"'.encode()),
    *(encode_frame(frames.CALL, number, ECHO, b'{"a":[1,-2.5e-7]}') for number in (1, 2, 3)),
    encode_frame(frames.CALL, 2**53 - 1, b'["t",1]', b"1"),
    encode_frame(frames.DONE, b'{"sum":[9007199254740992,0.1,true]}'),
    encode_frame(frames.DONE, b""),
    encode_frame(frames.FAIL, b"exception", b'"no"'),
    encode_frame(frames.FAIL, b"timeout", b'"no"'),
    encode_frame(frames.LIMIT),
    encode_frame(frames.RUN, b"{}"),
    encode_frame(frames.REPLY, 1, True, b"1"),
]
MAIN = [
    encode_frame(frames.READY, frames.PROTOCOL_VERSION, b"24.11.0"),
    encode_frame(frames.READY, 9, b""),
    encode_frame(frames.PREPARED, 1, b'{"code":"return 1","prologue":"","map":null}'),
    encode_frame(frames.REFUSED, 1, b'"no"', True),
    encode_frame(frames.BUSY, 1, 70_000),
    encode_frame(frames.GONE, 0, b'{"exitCode":1,"error":null,"changed":null}'),
    encode_frame(frames.GONE, 1, b"{"),
    encode_frame(frames.SPAWN, b"x", b"", b"y", 0),
    encode_frame(frames.LIMIT),
]
HOST = [
    wire.encode_boot(
        cpu_seconds=5,
        address_space_bytes=2**32,
        max_log_bytes=64,
        max_value_bytes=100,
        namespaces=[{"global": "tools", "names": ["echo", ""]}],
    ),
    wire.encode_run("print('é')\nreturn [await tools.echo(1), await tools.echo({'a': 2.5})]"),
    wire.encode_reply(0, b'{"a":[1,-2.5e-7]}'),
    wire.encode_reply(1, b"[]"),
    wire.encode_reply_error(1, "no"),
]


@st.composite
def conversations(draw: st.DrawFn, pool: list[bytes], *, ordered: bool = False) -> bytes:
    """Draw frames, or take them all in their order, then damage up to three places."""
    drawn = [*pool] if ordered else draw(st.lists(st.sampled_from(pool), max_size=8))
    stream = bytearray(b"".join(drawn))
    for _ in range(draw(st.integers(0, 3))):
        at = draw(st.integers(0, len(stream)))
        gone = draw(st.sampled_from([0, 0, 1, 1, 2, 40]))
        stream[at : at + gone] = draw(st.binary(max_size=2))
    return bytes(stream)


def check(result: CodeRunResult) -> None:
    assert result.error is None or result.error.kind in FAILURE_KINDS
    assert all(type(entry) is str for entry in result.logs)


def echo(value: object) -> object:
    return value


TOOLS = [CodeBindingNamespace("tools", {"echo": echo})]
HONEST = {
    "typescript": "console.log('a'); return await tools.echo([1])",
    "python": "print('a')\nreturn await tools.echo([1])",
}


def attack(runtimes: Runtimes, language: str, program: str) -> None:
    """Run a program that forges, then one that does not."""
    # A forged call may take the id of an honest one, which is never answered then.
    check(runtimes[language].run(CodeRunRequest(program, TOOLS, max_wall_ms=2_000)))
    after = runtimes[language].run(CodeRunRequest(HONEST[language], TOOLS))
    assert (after.logs, after.value, after.error) == (["a"], [1], None)


@examples(12, processes=True)
@given(conversations(CHILD), st.sampled_from(["return 1", "os._exit(0)", "await tools.echo(1)"]))
def test_python_host_outlives_a_child_that_talks_nonsense(
    runtimes: Runtimes, stream: bytes, then: str
) -> None:
    """PY-226, PY-292."""
    attack(
        runtimes, "python", f"{python_forgery.FORGE}\nraw(bytes.fromhex('{stream.hex()}'))\n{then}"
    )


@examples(12, processes=True)
@given(
    conversations(WORKER), st.sampled_from(["return 1", "process.exit(0)", "await tools.echo(1)"])
)
def test_python_host_outlives_a_worker_that_talks_nonsense(
    runtimes: Runtimes, stream: bytes, then: str
) -> None:
    """WT-177."""
    program = f"{forgery.FORGE}\nraw(Buffer.from('{stream.hex()}', 'hex'));\n{then}"
    attack(runtimes, "typescript", program)


@examples(8, processes=True)
@given(conversations(MAIN), st.sampled_from(["return 1", "process.exit(0)", "await tools.echo(1)"]))
def test_python_host_outlives_a_main_thread_that_talks_nonsense(
    runtimes: Runtimes, stream: bytes, then: str
) -> None:
    """WT-177: the program writes to the control socket of its process."""
    program = f"fs.writeSync(3, Buffer.from('{stream.hex()}', 'hex'));\n{then}"
    attack(runtimes, "typescript", f"const fs = process.getBuiltinModule('fs');\n{program}")


# Peers that are hostile from their first byte


@dataclass(frozen=True, slots=True)
class Wrapper:
    """A command that is the real one, except where the provider starts its peer."""

    path: str
    stream: Path


@contextmanager
def wrapper(real: str, word: str) -> Iterator[Wrapper]:
    """Make a command that plays a stream on descriptor 3 when its arguments hold a word."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        play = folder / "play.py"
        stream = folder / "stream"
        play.write_text(
            "import socket\n"
            f"data = open({str(stream)!r}, 'rb').read()\n"
            "with socket.socket(fileno=3) as channel:\n"
            "    channel.sendall(data)\n"
            "    channel.shutdown(socket.SHUT_WR)\n"
        )
        command = folder / "command"
        command.write_text(
            f'#!/bin/sh\ncase "$*" in *{word}*) exec {sys.executable} -I {play};; esac\n'
            f'exec {real} "$@"\n'
        )
        command.chmod(0o700)
        yield Wrapper(str(command), stream)


def load(backend: str, provider: type[Any], config: dict[str, object]) -> None:
    """Load a provider whose peers are hostile; a run on one that comes up all the same ends."""

    async def play() -> None:
        with anyio.fail_after(120):
            async with Context() as ctx:
                try:
                    await ctx.plugin(provider, config)
                except HostStartError:
                    return
                check(await ctx.codeRuntime.run(CodeRunRequest("return 1", max_wall_ms=3_000)))

    anyio.run(play, backend=backend)


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
@examples(4, processes=True)
@given(st.one_of(conversations(MAIN), conversations(MAIN[:1])))
def test_worker_provider_refuses_to_start_on_a_hostile_node(backend: str, stream: bytes) -> None:
    with wrapper(node_path(), "host.mjs") as hostile:
        hostile.stream.write_bytes(stream)
        load(backend, WorkerThreadCodeRuntime, {"node_bin": hostile.path, "spare_hosts": 1})


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
@examples(4, processes=True)
@given(st.one_of(conversations(CHILD), conversations(CHILD[:2], ordered=True)))
def test_python_provider_outlives_hostile_children(backend: str, stream: bytes) -> None:
    with wrapper(sys.executable, "_child") as hostile:
        hostile.stream.write_bytes(stream)
        config = {"python_bin": hostile.path, "start_method": "spawn", "spare_hosts": 1}
        load(backend, PythonCodeRuntime, config)


# A host that is broken


@examples(12, processes=True)
@given(st.one_of(conversations(HOST), conversations(HOST, ordered=True)))
def test_child_ends_with_a_host_that_talks_nonsense(stream: bytes) -> None:
    """PY-069: a clear error or an honest run, never a hang and never a traceback."""
    with start_child() as child:
        try:
            child.send_bytes(stream)
            child.channel.shutdown(socket.SHUT_WR)
            while child.read() is not None:
                pass
        except OSError:
            pass  # it has ended already
        outcome = child.outcome()
    assert outcome.exit_code in (0, 1), outcome
    assert "Traceback" not in outcome.native[2], outcome
