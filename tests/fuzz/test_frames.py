"""Both wires at the level of bytes: a short conversation cut, split and corrupted at each byte.

No processes but the one that answers for TypeScript: what a damaged stream means is compared with
what the other implementation makes of it. `test_peers.py` has the same with real hosts.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from fuzzing import FACTOR, NodePeer, examples, plain
from hypothesis import given
from hypothesis import strategies as st

import code_runtime_python
from code_runtime_python._child import inbound, wire
from code_runtime_python._frames import LineReader, parse_child_frame
from code_runtime_worker_thread import _frames as frames
from code_runtime_worker_thread._frames import FrameReader, Message, ProtocolError, encode_frame

# What a child says to its host, what a host says to its child, what a worker and its main thread say.
CHILD = b"".join(
    [
        wire.encode_boot_ack(),
        wire.encode_log("é\ud800", is_open=True),
        wire.encode_call(0, "tools", "add", b'{"a":[1,-2.5e-7],"\\u0000":null}'),
        wire.encode_done(b'{"sum":[9007199254740992,0.1,true]}'),
        wire.encode_done_error("exception", "no"),
    ]
)
HOST = [
    wire.encode_boot(
        cpu_seconds=1,
        address_space_bytes=2**32,
        max_log_bytes=64,
        max_value_bytes=1,
        namespaces=[
            {"global": "tools", "names": ["add", ""]},
            {"global": "t", "names": [], "errorClass": {"name": "E", "memberNameProperty": "m"}},
        ],
    ),
    wire.encode_run("return 'é\ud800'"),
    wire.encode_reply(0, b'{"a":[1,-2.5e-7]}'),
    wire.encode_reply_error(1, "no\n"),
]
WORKER = [
    encode_frame(frames.HELLO, 1, bytes(16)),
    encode_frame(frames.LOG, b'"a"'),
    encode_frame(frames.CALL, 1, b'["tools","add"]', b'{"a":1}'),
    encode_frame(frames.DONE, b"1.5"),
    encode_frame(frames.FAIL, b"exception", b'"no"'),
    encode_frame(frames.LIMIT),
    encode_frame(frames.READY, 1, b"24.11.0"),
    encode_frame(frames.PREPARED, 1, b'{"code":"1"}'),
    encode_frame(frames.REFUSED, 300, b'"no"', True),
    encode_frame(frames.BUSY, 1, 70_000),
    encode_frame(frames.GONE, 2**40, b"{}"),
    encode_frame(frames.LOG, b'"%b"' % (b"x" * 300)),
]
STREAM = b"".join(WORKER)

# All 256 take a minute; these have a meaning in one of the two formats, or flip a bit of one.
TELLING = b'\0\1\4\x0a\x0d 0"\\{}[]:,-.eE\x7f\x80\x90\x91\x93\xa0\xc0\xc1\xc2\xc3\xc4\xc6\xcc\xcf\xd0\xdc\xef\xff'
BYTES = bytes(range(256)) if FACTOR else TELLING
BATCH = 2_000


def corrupted(stream: bytes) -> Iterator[bytes]:
    """Change, drop and double each byte."""
    for at in range(len(stream)):
        for byte in BYTES:
            if byte != stream[at]:
                yield stream[:at] + bytes([byte]) + stream[at + 1 :]
        yield stream[:at] + stream[at + 1 :]
        yield stream[: at + 1] + stream[at:]


def compare(
    peer: NodePeer, operation: str, damaged: Iterator[Any], judge: Callable[[Any], object]
) -> None:
    """Let both languages judge; JSON has no tuples, so neither may `judge` return one."""
    batch: list[Any] = []

    def flush() -> None:
        for item, answer in zip(batch, peer.ask(operation, batch), strict=True):
            assert (item, judge(item)) == (item, answer)
        batch.clear()

    for item in damaged:
        batch.append(item)
        if len(batch) == BATCH:
            flush()
    flush()


def hexes(*chunks: bytes) -> list[str]:
    return [chunk.hex() for chunk in chunks]


# Descriptor 3


def judge_lines(chunks: list[str]) -> object:
    reader = LineReader()
    lines = [line.hex() for chunk in chunks for line in reader.push(bytes.fromhex(chunk))]
    return [lines, reader.held_bytes]


def test_line_readers_agree_on_a_stream_cut_at_each_byte(peer: NodePeer) -> None:
    """PY-227."""
    cuts = (hexes(CHILD[:at]) for at in range(len(CHILD) + 1))
    compare(peer, "lines", cuts, judge_lines)
    for at in range(len(CHILD)):
        reader = LineReader()
        whole = [*reader.push(CHILD[:at]), b""]
        assert len(whole) - 1 == CHILD[:at].count(b"\n")
        assert reader.held_bytes == at - (CHILD.rfind(b"\n", 0, at) + 1)


def test_hosts_agree_on_a_child_that_corrupts_any_byte(peer: NodePeer) -> None:
    """PY-226, PY-228: each line alone is judged, whatever the others hold."""
    lines = (
        line.hex()
        for frame in CHILD.splitlines()
        for changed in corrupted(frame)
        for line in changed.split(b"\n")
    )
    compare(peer, "line", lines, lambda line: plain(parse_child_frame(bytes.fromhex(line))))


READERS: list[Callable[[bytes], object]] = [
    inbound.read_boot,
    inbound.read_run,
    inbound.read_reply,
    inbound.read_reply,
]


@pytest.mark.parametrize(
    ("frame", "read"), [*zip(HOST, READERS, strict=True)], ids=["boot", "run", "reply", "refusal"]
)
def test_child_reads_a_corrupted_frame_as_that_frame_or_refuses_it(
    frame: bytes, read: Callable[[bytes], object]
) -> None:
    """PY-069: nothing but a FrameError ever leaves the reader."""
    kind = type(read(frame))
    damaged = [*corrupted(frame), *(frame[:at] for at in range(len(frame)))]
    refused = 0
    for line in damaged:
        inbound.reply_id(line)
        try:
            assert type(read(line)) is kind
        except inbound.FrameError:
            refused += 1
    assert refused > len(damaged) / 3


CHANNEL_SCRIPT = """
import os, socket, sys, types
package = types.ModuleType("child")
package.__path__ = [sys.argv[1]]
sys.modules["child"] = package
from child.channel import Channel
stream = bytes.fromhex(sys.argv[2])
wanted = stream.split(b"\\n")[:-1]

def read(*pieces):
    ours, theirs = socket.socketpair()
    channel = Channel(theirs.detach())
    found = []
    for piece in pieces:
        ours.sendall(piece)
        channel.receive()
        found += map(bytes, channel.lines())
    os.close(channel.fd)
    return found, bytes(channel._held)

for at in range(len(stream) + 1):
    assert read(stream[:at], stream[at:]) == (wanted, b""), at
    found, held = read(stream[:at])
    assert found == wanted[:stream[:at].count(b"\\n")], at
    assert held == stream[:at].rpartition(b"\\n")[2], at
assert read(*(bytes([byte]) for byte in stream)) == (wanted, b"")

# The handshake: one line at a time, the rest stays for the loop.
for at in range(1, len(stream)):
    ours, theirs = socket.socketpair()
    channel = Channel(theirs.detach())
    ours.sendall(stream[:at])
    sent = at
    lines = []
    for line in wanted[:2]:
        while stream[:sent].count(b"\\n") <= len(lines):
            ours.sendall(stream[sent:sent + 7])
            sent += 7
        lines.append(channel.read_line())
    ours.sendall(stream[sent:])
    channel.receive()
    lines += map(bytes, channel.lines())
    assert lines == wanted, at
    os.close(channel.fd)
print("ok")
"""


def test_child_finds_the_same_lines_when_its_input_is_split_or_cut_at_each_byte() -> None:
    """PY-227, in a process of its own: a channel that fails ends its process."""
    assert code_runtime_python.__file__ is not None
    folder = Path(code_runtime_python.__file__).parent / "_child"
    done = subprocess.run(
        [sys.executable, "-I", "-c", CHANNEL_SCRIPT, str(folder), b"".join(HOST).hex()],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "ok\n", "")


# Worker


def shown(message: Message) -> list[object]:
    kind, fields = message
    return [kind, *(field.hex() if isinstance(field, bytes) else field for field in fields)]


def read_frames(chunks: list[str]) -> tuple[list[Message], str]:
    reader = FrameReader()
    found: list[Message] = []
    try:
        for chunk in chunks:
            found.extend(reader.feed(bytes.fromhex(chunk)))
    except ProtocolError:
        return found, "refused"
    assert reader.held_bytes <= sum(len(chunk) // 2 for chunk in chunks)
    return found, "cut" if reader.held_bytes else "whole"


def judge_frames(chunks: list[str]) -> object:
    found, state = read_frames(chunks)
    return [[*map(shown, found)], state]


def test_frame_readers_agree_on_a_stream_split_and_cut_at_each_byte(peer: NodePeer) -> None:
    """A prefix holds its whole frames and no more; where it was split makes no difference."""
    whole = read_frames(hexes(STREAM))
    assert whole == (
        [message for frame in WORKER for message in FrameReader().feed(frame)],
        "whole",
    )
    for at in range(len(STREAM) + 1):
        assert read_frames(hexes(STREAM[:at], STREAM[at:])) == whole
    compare(peer, "frames", (hexes(STREAM[:at]) for at in range(len(STREAM) + 1)), judge_frames)


def test_frame_readers_agree_on_a_peer_that_corrupts_any_byte(peer: NodePeer) -> None:
    """What TypeScript takes, Python takes as the same; Python also takes other spellings of it."""
    for frame in WORKER:
        # A length that announces up to 256 MiB makes the other side allocate that much, once.
        damaged = [item for item in corrupted(frame) if item[:2] == b"\0\0"]
        answers = peer.ask("frames", [hexes(item, WORKER[0]) for item in damaged])
        for item, answer in zip(damaged, answers, strict=True):
            found, state = read_frames(hexes(item, WORKER[0]))
            if [[*map(shown, found)], state] == answer:
                continue
            assert answer[1] == "refused", item.hex()
            spelled = b"".join(encode_frame(kind, *fields) for kind, fields in found)
            assert read_frames(hexes(spelled))[0] == found


@pytest.mark.parametrize("first", [0x00, 0x01, 0x0F, 0x10, 0x11, 0x7F, 0x80, 0xFF])
def test_frame_reader_holds_no_more_than_it_was_given(first: int) -> None:
    """A length is a promise: nothing is allocated for it, and one over the cap is refused."""
    reader = FrameReader()
    try:
        assert [*reader.feed(bytes([first, 0, 0, 9]) + b"\x91")] == []
    except ProtocolError:
        assert first >= 0x10
    else:
        assert first < 0x10
        assert reader.held_bytes <= 5


@examples(50)
@given(st.lists(st.sampled_from(WORKER), max_size=12), st.lists(st.integers(0, 2_000), max_size=4))
def test_frame_readers_agree_on_frames_reordered_doubled_and_left_out(
    peer: NodePeer, drawn: list[bytes], cuts: list[int]
) -> None:
    stream = b"".join(drawn)
    edges = [0, *sorted(min(cut, len(stream)) for cut in cuts), len(stream)]
    chunks = hexes(*(stream[a:b] for a, b in pairwise(edges)))
    expected = [message for frame in drawn for message in FrameReader().feed(frame)]
    assert read_frames(chunks) == (expected, "whole")
    assert peer.ask("frames", [chunks]) == [judge_frames(chunks)]
