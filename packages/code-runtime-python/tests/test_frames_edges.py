"""The host's reader and validator of child frames at the borders of what they take."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from code_runtime._execution._answers import has_exponents
from code_runtime._lossless import LosslessJsonError, decode, encode
from code_runtime_python._child.wire import CUT_MARKER, MAX_FRAGMENTS, MAX_FRAME_BYTES
from code_runtime_python._frames import (
    MAX_SCANNED_BYTES,
    DoneMessage,
    LineReader,
    LineTooLongError,
    cut_message,
    parse_child_frame,
)


def reference_cut(message: str, max_bytes: int) -> str:
    """Take whole code points while they and the marker fit."""
    sizes = [len(character.encode("utf-8", "surrogatepass")) for character in message]
    if sum(sizes) <= max_bytes:
        return message
    count = 0
    while sum(sizes[: count + 1]) <= max_bytes - 15:
        count += 1
    return message[:count] + CUT_MARKER


@pytest.mark.parametrize("character", ["a", "\x7f", "\x80", "\u07ff", "\u0800", "\uffff", "😀"])
@pytest.mark.parametrize("lead", ["", "a", "ab", "abc"])
def test_cut_message_cuts_between_characters_at_every_budget(lead: str, character: str) -> None:
    """PY-119 to PY-122."""
    message = lead + character * 9
    for max_bytes in range(45):
        assert cut_message(message, max_bytes) == reference_cut(message, max_bytes)


@given(st.text(st.sampled_from("aé€😀\ud800\udfff"), max_size=24), st.integers(0, 70))
def test_cut_message_equals_one_that_counts(message: str, max_bytes: int) -> None:
    """PY-119 to PY-122."""
    assert cut_message(message, max_bytes) == reference_cut(message, max_bytes)


@pytest.mark.parametrize("bom", [b"", b"\xef\xbb\xbf"])
def test_line_with_an_inexact_number_is_judged_up_to_a_length(bom: bytes) -> None:
    """The mark at the start of a line is not part of its length."""
    assert MAX_SCANNED_BYTES == 1_048_576
    line = b'{"type":"done","value":-0}'
    longest = line + b" " * (MAX_SCANNED_BYTES - len(line))
    assert parse_child_frame(bom + longest) == DoneMessage(True, 0, False)
    assert parse_child_frame(bom + longest + b" ") is None
    exact = line.replace(b"-0", b"1") + b" " * MAX_SCANNED_BYTES
    assert parse_child_frame(bom + exact) == DoneMessage(True, 1, True)


@pytest.mark.parametrize(
    "number", [b"1E400", b"-1E400", b"1E-400", b"1.5E+400", b"-0E0", b"-0.0E-5"]
)
def test_inexact_number_is_replaced_whatever_the_case_of_its_exponent(number: bytes) -> None:
    """PY-229."""
    for spelled in (number, number.lower()):
        line = b'{"type":"done","value":[1,%b]}' % spelled
        assert parse_child_frame(line) == DoneMessage(True, [1, 0], False)


@pytest.mark.parametrize(
    "chunks", [[b"aaaa\n"], [b"aa", b"aa\n"], [b"b\naaaa\n"], [b"b\naaaa", b"\n"]]
)
def test_line_reader_takes_a_line_at_its_cap(chunks: list[bytes]) -> None:
    """PY-232."""
    reader = LineReader(4)
    assert [line for chunk in chunks for line in reader.push(chunk)][-1] == b"aaaa"
    assert (reader.held_bytes, reader.held_pieces) == (0, 0)


@pytest.mark.parametrize(
    "chunks",
    [
        [b"aaaaa\n"],
        [b"aaaaa"],
        [b"aaaa", b"a\n"],
        [b"b\naaaaa\n"],
        [b"b\naaaaa"],
        [b"b\nc\naaaaa\nd\n"],
    ],
)
def test_line_reader_refuses_a_line_above_its_cap(chunks: list[bytes]) -> None:
    """PY-232: what came before it, and what is held, is dropped."""
    reader = LineReader(4)
    for chunk in chunks[:-1]:
        reader.push(chunk)
    with pytest.raises(LineTooLongError) as caught:
        reader.push(chunks[-1])
    assert caught.value.max_bytes == 4
    assert caught.value.args == (4,)
    assert (reader.held_bytes, reader.held_pieces) == (0, 0)


def test_line_reader_has_the_cap_of_a_frame() -> None:
    reader = LineReader()
    assert reader.push(b"a" * MAX_FRAME_BYTES) == []
    with pytest.raises(LineTooLongError) as caught:
        reader.push(b"a")
    assert caught.value.max_bytes == MAX_FRAME_BYTES == 67_108_864


def test_line_reader_joins_its_pieces_as_soon_as_they_are_many() -> None:
    """PY-233."""
    reader = LineReader()
    pieces = []
    for _ in range(MAX_FRAGMENTS + 1):
        reader.push(b"a")
        pieces.append(reader.held_pieces)
    assert pieces == [*range(1, MAX_FRAGMENTS), 1, 2]
    assert reader.held_bytes == MAX_FRAGMENTS + 1


def test_line_reader_holds_no_empty_piece() -> None:
    reader = LineReader()
    assert (reader.push(b""), reader.push(b"\n"), reader.push(b"a\n")) == ([], [], [b"a"])
    assert (reader.held_bytes, reader.held_pieces) == (0, 0)


DIGITS = st.text("0123456789", max_size=24)


@given(
    st.builds(
        lambda sign, head, tail: sign + (head.lstrip("0") or "0") + ("." + tail if tail else ""),
        st.sampled_from(["", "-"]),
        DIGITS,
        DIGITS,
    )
    | st.text().map(lambda text: json.dumps(text, ensure_ascii=True))
)
def test_text_without_exponents_is_as_long_as_its_value_at_least(text: str) -> None:
    """PY-229: so a value need not be measured when its line fits."""
    source = f'[{text},{{"a":{text}}}]'.encode()
    try:
        value = decode(source)
    except LosslessJsonError:
        return  # a number that no double holds
    assert len(encode(value)) <= len(source)


@pytest.mark.parametrize(
    ("text", "expected"),
    [(b"[1e3]", True), (b"[1.5E3]", True), (b'["1e"]', True), (b'["e1",true]', False)],
)
def test_exponents_are_seen_and_suspected(text: bytes, expected: bool) -> None:
    assert has_exponents(text) is expected
