"""The worker frames at the borders of what the decoder takes."""

from __future__ import annotations

import struct
from typing import cast

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from code_runtime._execution._logs import plain_text
from code_runtime._lossless import encode
from code_runtime_worker_thread import _frames as frames
from code_runtime_worker_thread._frames import (
    MAX_UINT,
    FrameReader,
    Message,
    ProtocolError,
    decode_body,
    encode_frame,
)
from code_runtime_worker_thread._log_frames import cost_bytes, read_plain_logs


def packed(value: object) -> bytes:
    return cast("bytes", msgpack.packb(value))


def test_protocol_version_and_caps_are_those_of_the_page() -> None:
    assert (frames.PROTOCOL_VERSION, frames.MAX_BODY_BYTES, MAX_UINT) == (
        2,
        268_435_456,
        9_007_199_254_740_991,
    )


@pytest.mark.parametrize("number", [0, 1, MAX_UINT])
def test_decode_body_takes_integers_up_to_the_largest(number: int) -> None:
    assert decode_body(packed([frames.TERMINATE, number])) == (frames.TERMINATE, (number,))


def test_encode_frame_spells_an_array_of_the_kind_and_its_fields() -> None:
    frame = encode_frame(frames.REPLY, 5, True, b"ab")
    assert frame == b"\x00\x00\x00\x08" + b"\x94\x21\x05\xc3\xc4\x02ab"
    assert encode_frame(frames.LIMIT) == b"\x00\x00\x00\x02" + b"\x91\x35"


def test_encode_frame_refuses_a_body_above_the_cap(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frames, "MAX_BODY_BYTES", 8)
    assert len(encode_frame(frames.LOG, b"aaaa")) == 4 + 8
    with pytest.raises(ProtocolError) as caught:
        encode_frame(frames.LOG, b"aaaaa")
    assert str(caught.value) == "Cannot send frame LOG: 9 bytes, expected at most 8 bytes"


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(packed([frames.LOG, "a"]), id="string"),
        pytest.param(packed([frames.LOG, {b"a": 2}]), id="map"),
        pytest.param(packed([frames.LOG, msgpack.ExtType(5, b"a")]), id="extension"),
        pytest.param(packed([frames.LOG, *([0] * 8)]), id="nine items"),
        pytest.param(packed([frames.LOG, [0] * 9]), id="nine items inside"),
    ],
)
def test_decode_body_refuses_before_it_builds_what_no_frame_holds(body: bytes) -> None:
    with pytest.raises(ProtocolError) as caught:
        decode_body(body)
    assert str(caught.value) == ("Cannot decode frame: ValueError, expected one MessagePack array")


def test_decode_body_reads_eight_items_and_refuses_their_types() -> None:
    with pytest.raises(ProtocolError) as caught:
        decode_body(packed([frames.LOG, *([0] * 7)]))
    assert str(caught.value) == (
        f"Cannot decode frame LOG: fields {['int'] * 7}, expected ['bytes']"
    )


def test_decode_body_obeys_the_cap_on_one_field(monkeypatch: pytest.MonkeyPatch) -> None:
    body = packed([frames.LOG, b"aaaa"])
    monkeypatch.setattr(frames, "MAX_BODY_BYTES", 4)
    assert decode_body(body) == (frames.LOG, (b"aaaa",))
    monkeypatch.setattr(frames, "MAX_BODY_BYTES", 3)
    with pytest.raises(ProtocolError, match="Cannot decode frame: ValueError"):
        decode_body(body)


def test_decode_body_names_the_types_of_two_rows() -> None:
    with pytest.raises(ProtocolError) as caught:
        decode_body(packed([frames.REFUSED, 1, b"", 0]))
    assert str(caught.value) == (
        "Cannot decode frame REFUSED: fields ['int', 'bytes', 'int'], "
        "expected ['int', 'bytes', 'bool']"
    )


def test_decode_body_error_keeps_its_cause() -> None:
    with pytest.raises(ProtocolError) as caught:
        decode_body(b"")
    assert type(caught.value.__cause__) is ValueError


def test_frame_reader_takes_a_body_at_its_cap_and_refuses_one_more() -> None:
    def frame(size: int) -> bytes:
        return encode_frame(frames.DONE, b"a" * (size - 4))

    reader = FrameReader(max_body_bytes=20)
    assert list(reader.feed(frame(20))) == [(frames.DONE, (b"a" * 16,))]
    assert reader.held_bytes == 0
    with pytest.raises(ProtocolError) as caught:
        list(reader.feed(frame(21)))
    assert str(caught.value) == "Cannot read frame: 21 bytes announced, expected at most 20 bytes"


@pytest.mark.parametrize("part", [b"", b"\0", b"\0\0\0", b"\0\0\0\x02", b"\0\0\0\x02\x91"])
def test_frame_reader_holds_an_unfinished_frame(part: bytes) -> None:
    reader = FrameReader()
    assert list(reader.feed(part)) == []
    assert reader.held_bytes == len(part)


def test_frame_reader_hands_out_what_stands_before_a_broken_frame() -> None:
    """The broken frame and what follows it are still held; nothing before it is."""
    good = encode_frame(frames.TERMINATE, 7)
    broken = struct.pack(">I", 1) + b"\xc1"
    reader = FrameReader()
    messages = reader.feed(good + good + broken + good)
    assert [next(messages), next(messages)] == [(frames.TERMINATE, (7,))] * 2
    with pytest.raises(ProtocolError):
        next(messages)
    assert reader.held_bytes == len(broken) + len(good)


@pytest.mark.parametrize("body", [b"\x92\x32", b"\x92\x32\xc4", b"\x92\x32\xc4\x01"])
def test_frame_reader_refuses_a_log_that_is_cut_short(body: bytes) -> None:
    with pytest.raises(ProtocolError) as caught:
        list(FrameReader().feed(struct.pack(">I", len(body)) + body))
    assert str(caught.value) == ("Cannot decode frame: ValueError, expected one MessagePack array")


def test_frame_reader_drops_a_frame_once_it_is_handed_out() -> None:
    frame = encode_frame(frames.TERMINATE, 7)
    reader = FrameReader()
    messages = reader.feed(frame + frame[:5])
    assert next(messages) == (frames.TERMINATE, (7,))
    assert list(messages) == []
    assert reader.held_bytes == 5
    assert list(reader.feed(frame[5:])) == [(frames.TERMINATE, (7,))]


@pytest.mark.parametrize("length", [2**31 - 1, 2**31, 2**32 - 1])
def test_frame_reader_reads_a_length_as_unsigned(length: int) -> None:
    with pytest.raises(ProtocolError) as caught:
        list(FrameReader().feed(struct.pack(">I", length) + b"\x91\x35"))
    assert str(caught.value) == (
        f"Cannot read frame: {length} bytes announced, expected at most 268435456 bytes"
    )


def test_frame_reader_has_the_cap_of_a_body() -> None:
    """A length at the cap is waited for, one above it is refused."""
    reader = FrameReader()
    assert list(reader.feed(struct.pack(">I", frames.MAX_BODY_BYTES))) == []
    assert reader.held_bytes == 4


@pytest.mark.parametrize("size", [0, 1, 2, 254, 255, 256, 257])
def test_frame_reader_reads_log_frames_of_every_head(size: int) -> None:
    """Up to 255 bytes the head of a text is short; both kinds of head may be mixed and cut."""
    frame = encode_frame(frames.LOG, b"a" * size)
    other = encode_frame(frames.LOG, b"b")
    whole = [(frames.LOG, (b"a" * size,)), (frames.LOG, (b"b",))]
    assert list(FrameReader().feed(frame + other)) == whole
    for cut in (1, 4, 7, 8, 9, len(frame) - 1, len(frame)):
        reader = FrameReader()
        seen = [*reader.feed(frame[:cut]), *reader.feed(frame[cut:] + other)]
        assert seen == whole
        assert reader.held_bytes == 0


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b"\x92\x32\xc4\x01ab", id="longer than its text"),
        pytest.param(b"\x92\x32\xc4\x03ab", id="shorter than its text"),
        pytest.param(b"\x92\x32\xc4\x00ab", id="no text, and more"),
    ],
)
def test_frame_reader_refuses_a_log_frame_whose_lengths_differ(body: bytes) -> None:
    with pytest.raises(ProtocolError, match="expected one MessagePack array"):
        list(FrameReader().feed(struct.pack(">I", len(body)) + body))


@pytest.mark.parametrize("size", [1, 127, 128, 255])
def test_frame_reader_needs_no_decoder_for_a_short_log_frame(
    size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(frames, "decode_body", None)
    frame = encode_frame(frames.LOG, b"a" * size)
    assert list(FrameReader().feed(frame)) == [(frames.LOG, (b"a" * size,))]


# Mostly what is read many at a time, and everything next to it.
log_texts = st.one_of(
    st.text(
        st.characters(min_codepoint=32, max_codepoint=126, exclude_characters='"\\'), max_size=9
    ),
    st.text(max_size=3),
    st.sampled_from([1, 99, 246, 247, 248, 249, 250, 251, 252, 253, 254, 300]).map("a".__mul__),
)
log_frames = log_texts.map(lambda text: encode_frame(frames.LOG, encode(text)))
other_frames = st.one_of(
    st.binary(max_size=3).map(lambda text: encode_frame(frames.LOG, text)),
    st.just(encode_frame(frames.LIMIT)),
    st.just(encode_frame(frames.DONE, b'"\0\0\0\x922\xc4"')),
    st.binary(max_size=3).map(lambda text: encode_frame(frames.LOG, b'"' + text + b'"')),
)


@given(
    st.lists(log_frames, max_size=40),
    st.lists(other_frames, max_size=2),
    st.lists(log_frames, max_size=40),
    st.sampled_from([64, 300, 1_000, 65_536]),
    st.booleans(),
)
def test_frame_reader_reads_many_logs_as_it_reads_each(
    before: list[bytes], others: list[bytes], after: list[bytes], size: int, is_broken: bool
) -> None:
    """Whatever comes as LOGS is what would have come one by one, in order and with its cost."""
    stream = b"".join([*before, *others, *after])
    if is_broken:
        middle = len(stream) // 2
        stream = stream[:middle] + b"\0" + stream[middle:]

    def read(*, joins: bool) -> tuple[list[Message], int, bool]:
        reader = FrameReader()
        reader.joins_logs = joins
        seen: list[Message] = []
        try:
            for start in range(0, len(stream), size):
                for kind, fields in reader.feed(stream[start : start + size]):
                    if kind != frames.LOGS:
                        seen.append((kind, fields))
                        continue
                    texts, cost_bytes = fields
                    assert cost_bytes == sum(len(encode(text)) for text in texts)
                    assert [plain_text(encode(text)) for text in texts] == texts
                    seen += [(frames.LOG, (encode(text),)) for text in texts]
        except ProtocolError:
            return seen, reader.held_bytes, True
        return seen, reader.held_bytes, False

    assert read(joins=True) == read(joins=False)


def test_frame_reader_joins_logs_when_it_may() -> None:
    stream = b"".join(encode_frame(frames.LOG, b'"line %d"' % index) for index in range(100))
    reader = FrameReader()
    assert [kind for kind, _ in reader.feed(stream)] == [frames.LOG] * 100
    reader.joins_logs = True
    texts = [f"line {index}" for index in range(100)]
    joined, *rest = reader.feed(stream)
    assert joined == (frames.LOGS, (texts[:-1], sum(len(text) + 2 for text in texts[:-1])))
    assert rest == [(frames.LOG, (b'"line 99"',))]
    assert reader.held_bytes == 0


def test_frame_reader_takes_the_kind_of_a_short_frame_into_account() -> None:
    frame = encode_frame(frames.DONE, b"ab")
    assert list(FrameReader().feed(frame)) == [(frames.DONE, (b"ab",))]


def test_decode_body_refuses_a_long_head_of_an_array() -> None:
    assert decode_body(b"\x92\x03\x05") == (frames.TERMINATE, (5,))
    with pytest.raises(ProtocolError) as caught:
        decode_body(b"\xdc\x00\x02\x03\x05")
    assert str(caught.value) == (
        "Cannot decode frame: a long head, expected the short one of an array"
    )


def log_frame(text: bytes) -> bytes:
    return encode_frame(frames.LOG, b'"' + text + b'"')


@pytest.mark.parametrize("size", [246, 247, 248, 249])
def test_plain_logs_are_read_at_once_from_256_bytes_to_the_longest_short_text(size: int) -> None:
    """What follows is the beginning of another frame."""
    stream = bytearray(log_frame(b"a" * size) + log_frame(b"b") + b"\0\0\0")
    assert read_plain_logs(stream) == (["a" * size, "b"], size + 21)
    assert cost_bytes(2, size + 21) == size + 5
    assert read_plain_logs(bytearray(log_frame(b"a" * size) + b"\0\0\0")) == (
        ["a" * size],
        size + 10,
    )
    assert read_plain_logs(bytearray(log_frame(b"a" * 245) + b"\0\0\0")) is None


@pytest.mark.parametrize(
    "stream",
    [
        pytest.param(log_frame(b"a" * 250), id="long"),
        pytest.param(log_frame(b"a" * 240) + log_frame(b'b"c'), id="quote"),
        pytest.param(log_frame(b"a" * 240) + log_frame(b"b\\c"), id="backslash"),
        pytest.param(log_frame(b"a" * 240) + log_frame(b"b\tc"), id="tab"),
        pytest.param(log_frame(b"a" * 240) + log_frame(b"\xc3\xa9"), id="not ASCII"),
        pytest.param(
            log_frame(b"a" * 240) + log_frame(b"b").replace(b"\x07", b"\x08"), id="length"
        ),
        pytest.param(log_frame(b"a" * 240) + log_frame(b"b").replace(b"\x03", b"\x04"), id="size"),
        pytest.param(
            log_frame(b"a" * 240) + encode_frame(frames.LIMIT) + log_frame(b""), id="other"
        ),
    ],
)
def test_logs_that_are_not_plain_are_read_one_by_one(stream: bytes) -> None:
    assert read_plain_logs(bytearray(stream + b"\0\0\0")) is None
