"""The worker frames in Python: bytes, refusals, splits."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any, cast

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from code_runtime_worker_thread import _frames as frames
from code_runtime_worker_thread._frames import (
    FRAMES,
    MAX_BODY_BYTES,
    MAX_UINT,
    Field,
    FrameReader,
    Message,
    ProtocolError,
    decode_body,
    encode_frame,
)

ROOT = Path(__file__).parents[3]
TYPE_NAMES = {int: "uint", bool: "bool", bytes: "bytes"}


def field_of(kind: type) -> st.SearchStrategy[Field]:
    strategies: dict[type, st.SearchStrategy[Field]] = {
        int: st.integers(0, MAX_UINT),
        bool: st.booleans(),
        bytes: st.binary(max_size=300),
    }
    return strategies[kind]


messages = st.sampled_from(sorted(FRAMES)).flatmap(
    lambda kind: st.tuples(st.just(kind), st.tuples(*map(field_of, FRAMES[kind].field_types)))
)


@given(messages)
def test_decode_body_returns_what_encode_frame_took(message: Message) -> None:
    frame = encode_frame(message[0], *message[1])
    assert struct.unpack(">I", frame[:4])[0] == len(frame) - 4
    assert decode_body(frame[4:]) == message


@given(st.lists(messages, max_size=8), st.integers(1, 400))
def test_frame_reader_finds_the_same_messages_for_every_split(
    sent: list[Message], size: int
) -> None:
    stream = b"".join(encode_frame(kind, *fields) for kind, fields in sent)
    reader = FrameReader()
    seen = [
        message
        for start in range(0, len(stream), size)
        for message in reader.feed(stream[start : start + size])
    ]
    assert seen == sent
    assert reader.held_bytes == 0


@given(st.binary(max_size=200))
def test_decode_body_refuses_or_returns_a_message_of_the_table(body: bytes) -> None:
    try:
        kind, fields = decode_body(body)
    except ProtocolError:
        return
    assert tuple(map(type, fields)) == FRAMES[kind].field_types


@pytest.mark.parametrize(
    ("body", "text"),
    [
        pytest.param(
            b"",
            "Cannot decode frame: ValueError, expected one MessagePack array",
            id="empty",
        ),
        pytest.param(
            msgpack.packb(None),
            "Cannot decode frame: no kind, expected an array that starts with one",
            id="null",
        ),
        pytest.param(
            msgpack.packb([]),
            "Cannot decode frame: no kind, expected an array that starts with one",
            id="no-kind",
        ),
        pytest.param(
            msgpack.packb([True]),
            "Cannot decode frame: no kind, expected an array that starts with one",
            id="bool-kind",
        ),
        pytest.param(
            msgpack.packb([99]),
            "Cannot decode frame: unknown kind 99, expected one of the table",
            id="unknown-kind",
        ),
        pytest.param(
            msgpack.packb([frames.LOG]),
            "Cannot decode frame LOG: fields [], expected ['bytes']",
            id="missing-field",
        ),
        pytest.param(
            msgpack.packb([frames.CALL, 1.5, b"", b""]),
            "Cannot decode frame CALL: fields ['float', 'bytes', 'bytes'], "
            "expected ['int', 'bytes', 'bytes']",
            id="fraction",
        ),
        pytest.param(
            msgpack.packb([frames.TERMINATE, -1]),
            "Cannot decode frame TERMINATE: integer -1, expected 0 to 2**53-1",
            id="negative",
        ),
        pytest.param(
            msgpack.packb([frames.TERMINATE, 2**53]),
            "Cannot decode frame TERMINATE: integer 9007199254740992, expected 0 to 2**53-1",
            id="above-2**53",
        ),
        pytest.param(
            b"\xc1",
            "Cannot decode frame: FormatError, expected one MessagePack array",
            id="reserved-byte",
        ),
        pytest.param(
            b"\xdd\xff\xff\xff\xff",
            "Cannot decode frame: ValueError, expected one MessagePack array",
            id="huge-array",
        ),
        pytest.param(
            b"\x91" * 100_000,
            "Cannot decode frame: StackError, expected one MessagePack array",
            id="deep",
        ),
    ],
)
def test_decode_body_refuses(body: bytes, text: str) -> None:
    with pytest.raises(ProtocolError) as caught:
        decode_body(body)
    assert str(caught.value) == text


def test_frame_reader_refuses_a_length_above_the_cap_before_its_body_arrives() -> None:
    reader = FrameReader()
    with pytest.raises(ProtocolError) as caught:
        list(reader.feed(struct.pack(">I", MAX_BODY_BYTES + 1)))
    assert str(caught.value) == (
        "Cannot read frame: 268435457 bytes announced, expected at most 268435456 bytes"
    )


def test_the_table_equals_the_documentation() -> None:
    page = (ROOT / "docs/reference/worker-frames.md").read_text("utf-8")
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in page.splitlines()
        if line.startswith("| ") and line.split("|")[1].strip().isdigit()
    ]
    documented = {
        int(row[0]): (row[1], "" if row[3] == "none" else row[3].replace("json", "bytes"))
        for row in rows
    }
    assert documented == {
        kind: (
            row.name,
            ", ".join(
                f"{name} {TYPE_NAMES[type_]}"
                for name, type_ in zip(row.field_names, row.field_types, strict=True)
            ),
        )
        for kind, row in FRAMES.items()
    }


VECTORS: dict[str, list[dict[str, Any]]] = json.loads(
    (ROOT / "tests/vectors/worker/frames.json").read_text("utf-8")
)
# An unsigned integer in a signed spelling: Python's library does not tell the two apart.
LENIENT = {"TERMINATE with int8", "TERMINATE with int64"}


def vector_bytes(item: object) -> bytes:
    """Build bytes from their parts: hex, or one byte repeated."""
    parts = cast("list[dict[str, Any]]", item if isinstance(item, list) else [item])
    built = b""
    for part in parts:
        is_hex = "hex" in part
        built += bytes.fromhex(part["hex"]) if is_hex else bytes([part["byte"]]) * part["count"]
    return built


def vector_fields(item: dict[str, Any]) -> tuple[object, ...]:
    return tuple(
        value if isinstance(value, int | bool) else vector_bytes(value)
        for value in item["fields"].values()
    )


def vector_name(item: dict[str, Any]) -> str:
    return f"{item.get('name', '')} {item.get('reason', '')}".strip()


@pytest.mark.parametrize("item", VECTORS["frames"], ids=vector_name)
def test_a_frame_of_the_vectors_has_their_bytes(item: dict[str, Any]) -> None:
    fields = vector_fields(item)
    expected = vector_bytes(item["bytes"])
    assert encode_frame(item["kind"], *cast("tuple[Field, ...]", fields)) == expected
    assert decode_body(expected[4:]) == (item["kind"], fields)


@pytest.mark.parametrize("item", VECTORS["accepted"], ids=vector_name)
def test_another_spelling_of_the_vectors_is_accepted(item: dict[str, Any]) -> None:
    kind = next(number for number, row in FRAMES.items() if row.name == item["name"])
    assert decode_body(bytes.fromhex(item["body"])) == (kind, vector_fields(item))


@pytest.mark.parametrize("item", VECTORS["malformed"], ids=vector_name)
def test_what_the_vectors_call_malformed_is_refused(item: dict[str, Any]) -> None:
    body = bytes.fromhex(item["body"])
    if item["reason"] in LENIENT:
        assert decode_body(body) == (frames.TERMINATE, (5,))
        return
    with pytest.raises(ProtocolError):
        decode_body(body)
