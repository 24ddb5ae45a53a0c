"""The host's reader and validator of child frames: vectors, splits at every byte, corruption."""

from __future__ import annotations

import json
import time
from dataclasses import asdict
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from code_runtime._lossless import LosslessJsonError, decode
from code_runtime_python._child.wire import CUT_MARKER, MAX_FRAGMENTS, MAX_FRAME_BYTES
from code_runtime_python._frames import (
    AckMessage,
    CallMessage,
    ChildMessage,
    DoneMessage,
    FailMessage,
    LineReader,
    LineTooLongError,
    LogMessage,
    cut_message,
    parse_child_frame,
    plain_log,
)

VECTORS = Path(__file__).parents[3] / "tests/vectors/fd3"


def read(name: str) -> Any:
    return json.loads((VECTORS / f"{name}.json").read_text("utf-8"))


HOSTILE = read("hostile")["cases"]
FRAMES = [vector for vector in read("frames")["frames"] if "value" not in vector]
READER = read("reader")["cases"]
MARKERS = read("markers")
NUMBERS = read("spelling")["numbers"]


def plain(message: ChildMessage | None) -> dict[str, Any] | None:
    """Spell a message as the vectors do."""
    match message:
        case None:
            return None
        case AckMessage():
            return {"kind": "boot-ack"}
        case CallMessage():
            return {
                "kind": "call",
                "id": message.id,
                "global": message.global_name,
                "name": message.name,
                "args": message.args,
            }
        case LogMessage():
            return {
                "kind": "log",
                "text": message.text,
                "truncated": message.truncated,
                "open": message.is_open,
            }
        case DoneMessage():
            return {
                "kind": "done",
                "hasValue": message.has_value,
                "value": message.value,
                "isExact": message.is_exact,
            }
        case FailMessage():
            return {"kind": "fail", "failure": message.kind, "message": message.message}


def bytes_of(vector: dict[str, Any]) -> bytes:
    return bytes.fromhex(vector["hex"]) if "hex" in vector else vector["line"].encode()


@pytest.mark.parametrize("vector", HOSTILE, ids=lambda vector: vector["name"])
def test_parse_child_frame_rebuilds_or_drops_as_in_the_vectors(vector: dict[str, Any]) -> None:
    """PY-175, PY-191, PY-228, PY-229, PY-230, PY-231."""
    message = parse_child_frame(bytes_of(vector))
    assert plain(message) == vector["message"]
    # 1 and True, 0 and 0.0 are equal: the exact types count too.
    assert json.dumps(plain(message)) == json.dumps(vector["message"])


@pytest.mark.parametrize(
    "vector",
    [
        vector
        for vector in FRAMES
        if vector["frame"].get("type") in {"boot-ack", "call", "log", "done"}
    ],
    ids=lambda vector: vector["name"],
)
def test_parse_child_frame_takes_every_honest_frame(vector: dict[str, Any]) -> None:
    message = parse_child_frame(vector["line"].encode())
    assert message is not None
    frame = vector["frame"]
    rebuilt = plain(message)
    assert rebuilt is not None
    if "error" in frame:
        assert (rebuilt["failure"], rebuilt["message"]) == tuple(frame["error"].values())
    else:
        for name, value in frame.items():
            assert name == "type" or rebuilt[name] == value


@pytest.mark.parametrize("vector", NUMBERS, ids=lambda vector: vector["text"][:30])
def test_numbers_are_judged_as_in_the_vectors(vector: dict[str, str]) -> None:
    message = parse_child_frame(b'{"type":"done","value":[%b]}' % vector["text"].encode())
    found = (
        "lossy"
        if message is None
        else "exact"
        if isinstance(message, DoneMessage) and message.is_exact
        else "inexact"
    )
    assert found == vector["found"]


LINES = [bytes_of(vector) for vector in HOSTILE if b"\n" not in bytes_of(vector)]


@given(st.sampled_from(LINES), st.data())
def test_parse_child_frame_never_raises_on_corrupted_frames(
    line: bytes, data: st.DataObject
) -> None:
    """PY-226, PY-292."""
    corrupted = bytearray(line)
    for _ in range(data.draw(st.integers(1, 4))):
        position = data.draw(st.integers(0, len(corrupted)))
        edit = data.draw(st.sampled_from(["set", "insert", "delete", "cut"]))
        byte = data.draw(st.integers(0, 255))
        if edit == "insert" or position == len(corrupted):
            corrupted.insert(position, byte)
        elif edit == "set":
            corrupted[position] = byte
        elif edit == "delete":
            del corrupted[position]
        else:
            del corrupted[position:]
    message = parse_child_frame(bytes(corrupted))
    assert message is None or plain(message) is not None


@given(st.binary(max_size=80))
def test_parse_child_frame_drops_what_is_no_json(line: bytes) -> None:
    try:
        decode(line.removeprefix(b"\xef\xbb\xbf"))
    except LosslessJsonError:
        assert parse_child_frame(line) is None


def test_parse_child_frame_takes_deep_values_both_exact_and_not() -> None:
    """PY-229: 100,000 levels, and a number that cannot be held at the bottom."""
    depth = 100_000
    for number, exact in ((b"1", True), (b"-0", False)):
        line = b'{"type":"done","value":' + b"[" * depth + number + b"]" * depth + b"}"
        message = parse_child_frame(line)
        assert isinstance(message, DoneMessage)
        assert message.is_exact is exact


def text_of(part: Any) -> bytes:
    if isinstance(part, str):
        return part.encode()
    text, times = str(part.get("repeat", part.get("each"))), int(part["times"])
    return text.encode() * times


@pytest.mark.parametrize("vector", READER, ids=lambda vector: vector["name"])
def test_line_reader_does_as_in_the_vectors(vector: dict[str, Any]) -> None:
    """PY-227, PY-232, PY-233."""
    reader = LineReader(vector["max_bytes"])
    lines: list[bytes] = []

    def push_all() -> None:
        for part in vector["chunks"]:
            each = part["times"] if isinstance(part, dict) and "each" in part else 1
            whole = text_of(part)
            for index in range(each):
                lines.extend(reader.push(whole[index : index + 1] if each > 1 else whole))

    if vector["too_long"]:
        with pytest.raises(LineTooLongError):
            push_all()
        assert (reader.held_bytes, reader.held_pieces) == (0, 0)
        return
    push_all()
    assert lines == [text_of(line) for line in vector["lines"]]
    assert reader.held_bytes == vector["held_bytes"]


STREAM = b"".join(line + b"\n" for line in LINES)
EXPECTED = [line for line in LINES if line]


def test_line_reader_finds_the_same_lines_when_split_at_every_byte() -> None:
    for cut in range(len(STREAM)):
        reader = LineReader()
        assert reader.push(STREAM[:cut]) + reader.push(STREAM[cut:]) == EXPECTED
    reader = LineReader()
    assert [line for byte in STREAM for line in reader.push(bytes([byte]))] == EXPECTED


@given(
    st.lists(st.binary(max_size=20).map(lambda line: line.replace(b"\n", b"")), max_size=30),
    st.lists(st.integers(0, 700), max_size=12),
)
def test_line_reader_does_not_depend_on_the_chunks(lines: list[bytes], cuts: list[int]) -> None:
    stream = b"\n".join(lines)
    edges = [0, *sorted(min(cut, len(stream)) for cut in cuts), len(stream)]
    reader = LineReader()
    seen = [line for start, end in pairwise(edges) for line in reader.push(stream[start:end])]
    assert seen == [line for line in lines[:-1] if line]
    assert reader.held_bytes == len(lines[-1] if lines else b"")


@given(st.permutations(range(12)))
def test_frames_are_independent_of_their_order(order: list[int]) -> None:
    whole = {index: plain(parse_child_frame(line)) for index, line in enumerate(EXPECTED[:12])}
    stream = b"".join(EXPECTED[index] + b"\n" for index in order)
    parsed = [plain(parse_child_frame(line)) for line in LineReader().push(stream)]
    assert parsed == [whole[index] for index in order]


def test_line_reader_seals_fragments_so_that_a_drip_costs_few_objects() -> None:
    """PY-233: 60,000 single bytes are held in at most 1024 fragments and one block per 1024."""
    reader = LineReader()
    most = 0
    for _ in range(60_000):
        assert reader.push(b"a") == []
        most = max(most, reader.held_pieces)
    assert reader.held_bytes == 60_000
    assert most <= MAX_FRAGMENTS + 60_000 // MAX_FRAGMENTS
    assert reader.push(b"\nb\n") == [b"a" * 60_000, b"b"]


def test_line_reader_takes_linear_time_for_a_line_at_the_cap() -> None:
    """PY-232, PY-233: quadratic joining of 64 MiB in pieces of 4 KiB would copy 500 GiB."""
    reader = LineReader()
    piece = b"a" * 4_096
    started = time.monotonic()
    for _ in range(MAX_FRAME_BYTES // len(piece)):
        assert reader.push(piece) == []
    assert [len(line) for line in reader.push(b"\nnext\n")] == [MAX_FRAME_BYTES, 4]
    assert time.monotonic() - started < 10


def test_line_too_long_error_names_the_cap() -> None:
    with pytest.raises(LineTooLongError) as caught:
        LineReader(4).push(b"aaaaa")
    assert str(caught.value) == "Cannot read a frame: line without end, expected at most 4 bytes"
    assert caught.value.max_bytes == 4


@pytest.mark.parametrize("vector", MARKERS["cut"], ids=lambda vector: vector["name"])
def test_cut_message_cuts_as_in_the_vectors(vector: dict[str, Any]) -> None:
    """PY-119, PY-120, PY-121, PY-122."""
    message = vector["message"]
    if isinstance(message, dict):
        message = message["repeat"] * message["times"]
    assert cut_message(message, vector["budget"]) == vector["result"]


@given(st.text(), st.integers(15, 80))
def test_cut_message_is_within_its_budget(message: str, budget: int) -> None:
    cut = cut_message(message, budget)
    assert len(cut.encode("utf-8", "surrogatepass")) <= budget
    assert cut == message or message.startswith(cut.removesuffix(CUT_MARKER))


def test_messages_are_frozen() -> None:
    message = FailMessage("exception", "m")
    assert asdict(message) == {"kind": "exception", "message": "m"}
    with pytest.raises(AttributeError):
        message.message = "n"  # type: ignore[misc]


@pytest.mark.parametrize(
    ("line", "text"),
    [
        pytest.param(b'{"type":"log","text":"a b"}', "a b", id="plain"),
        pytest.param(b'{"type":"log","text":""}', "", id="empty"),
        pytest.param(b'{"type":"log","text":"}', None, id="no end of the text"),
        pytest.param(b'{"type":"log","text":"a"]', None, id="another end"),
        pytest.param(b'{"type":"log","text":"a","open":true}', None, id="open"),
        pytest.param(b'{"type":"log","text":"a","text":"b"}', None, id="twice"),
        pytest.param(b'{"type":"log","text":"\\u0061"}', None, id="escape"),
        pytest.param(b'{"text":"a","type":"log"}', None, id="another order"),
    ],
)
def test_plain_log_reads_what_the_parser_reads(line: bytes, text: str | None) -> None:
    assert plain_log(line) == text
    if text is not None:
        assert parse_child_frame(line) == LogMessage(text, truncated=False, is_open=False)
