"""Which lane of the lossless-JSON boundary a value takes, and what that spares."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import pytest

from code_runtime import _lossless
from code_runtime._lossless import LosslessJsonError, decode, encode, measure

LARGE = [0] * 9_000


def refusal(value: object) -> str:
    with pytest.raises(LosslessJsonError) as caught:
        encode(value)
    with pytest.raises(LosslessJsonError) as measured:
        measure(value)
    assert str(measured.value) == str(caught.value)
    return str(caught.value)


def test_lossless_large_value_is_left_to_the_fast_lane(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_lossless, "_encode_fast", lambda value, spell: b"fast")
    monkeypatch.setattr(_lossless, "_group_costs", lambda value: iter([3, 4]))
    assert encode(LARGE) == b"fast"
    assert [measure(LARGE), measure(LARGE, 7), measure(LARGE, 6)] == [7, 7, None]
    assert encode([1, 2]) == b"[1,2]"
    assert measure([1, 2]) == 5


@pytest.mark.parametrize(("call", "most"), [(encode, 2), (measure, 2), (_lossless.encode_small, 5)])
def test_lossless_exact_lane_makes_few_pieces_of_a_large_value(
    call: Any, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is more than that is thrown away when another lane takes over."""
    made: list[bytes] = []
    pieces = _lossless._pieces

    def counted(value: object) -> Iterator[bytes]:
        for piece in pieces(value):
            made.append(piece)
            yield piece

    monkeypatch.setattr(_lossless, "_pieces", counted)
    call(LARGE)
    assert len(made) == most


def test_lossless_cycle_behind_many_values_is_refused() -> None:
    """WT-102: it is met first by the lane that looks for no cycle."""
    table: dict[str, object] = {}
    table["self"] = table
    assert refusal([*range(9_000), table]) == "$[9000].self: circular reference"


def test_lossless_keys_with_surrogates_are_compared_once(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []
    combined = _lossless._combined

    def counted(text: str) -> str:
        calls.append(text)
        return combined(text)

    monkeypatch.setattr(_lossless, "_combined", counted)
    table = {f"\ud800{number}": number for number in range(50)}
    assert encode(table).startswith(b'{"\\ud8000":0,')
    assert len(calls) == 2 * len(table)  # to compare each key, and to spell it


@pytest.mark.parametrize("is_emptied", [False, True])
def test_lossless_dict_that_changes_while_it_is_read_is_named(is_emptied: bool) -> None:
    """WT-105."""
    table: dict[str, Any] = {"a": "x" * 50_000, "b": 1}
    walk = _lossless._pieces([7, table])
    next(walk)
    if is_emptied:
        table.clear()
    else:
        table["c"] = 2
    with pytest.raises(LosslessJsonError) as caught:
        list(walk)
    assert caught.value.path in {"$[1]", "$[1].c"}
    assert caught.value.reason == "value changed while it was read"


def test_lossless_path_leaves_out_a_key_that_is_gone() -> None:
    """WT-105: the dict around the refused value was emptied while that one was read."""
    table: dict[str, Any] = {"a": ["x" * 50_000, {1}]}
    walk = _lossless._pieces([7, table])
    next(walk)
    table.clear()
    with pytest.raises(LosslessJsonError) as caught:
        list(walk)
    assert str(caught.value) == "$[1][1]: set is not JSON"


@pytest.mark.parametrize("text", ['{"a\n":1}', '["\n"]', '{"a":"\x1f"}', '"\t"'])
def test_lossless_exact_lane_refuses_control_characters(text: str) -> None:
    """SC-029: in keys as in values, also where the C decoder cannot go."""
    with pytest.raises(LosslessJsonError):
        decode(text.encode())
    with pytest.raises(LosslessJsonError):
        decode(b"[" * 3_000 + text.encode() + b"]" * 3_000)


@pytest.mark.parametrize("digits", [17, 18, 19, 5_000])
def test_lossless_exponent_of_any_length_is_judged(digits: int) -> None:
    """SC-029: `int` refuses more than 4,300 digits, with an error of its own."""
    exponent = b"9" * digits
    for text, reason in (
        (b"1e-" + exponent, "underflows a double to zero"),
        (b"1e" + exponent, "is not a finite double"),
        (b"-0e-" + exponent, "negative zero is not JSON"),
    ):
        with pytest.raises(LosslessJsonError, match=reason):
            decode(text)
    assert decode(b"0e-" + exponent) == decode(b"0e" + exponent) == 0


def test_lossless_c_decoder_of_a_later_python_guards_itself(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """WT-077: from CPython 3.12 on the recursion limit does not matter."""
    before = sys.getrecursionlimit()
    text = b"[" * 1_001
    try:
        sys.setrecursionlimit(5_001)
        for version, words in (
            ((3, 11, 9), "Unexpected text"),
            ((3, 12, 0), "Expecting value"),
            ((3, 13, 0), "Expecting value"),
        ):
            monkeypatch.setattr(sys, "version_info", version)
            with pytest.raises(LosslessJsonError) as caught:
                decode(text)
            assert str(caught.value) == f"$: {words} at character 1001"
    finally:
        sys.setrecursionlimit(before)
