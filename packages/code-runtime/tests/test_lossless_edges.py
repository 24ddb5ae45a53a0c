"""The lossless-JSON boundary at its borders: lengths, sizes, positions, and the lane that is taken."""

from __future__ import annotations

import pickle
import sys
from collections.abc import Iterator

import pytest

from code_runtime import _lossless
from code_runtime._lossless import (
    LosslessJsonError,
    decode,
    encode,
    encode_start,
    fitting_prefix,
    measure,
    string_cost,
)


def refusal_of_text(text: bytes) -> str:
    with pytest.raises(LosslessJsonError) as caught:
        decode(text)
    return str(caught.value)


def refusal_of_value(value: object) -> str:
    with pytest.raises(LosslessJsonError) as caught:
        encode(value)
    with pytest.raises(LosslessJsonError) as measured:
        measure(value)
    assert str(measured.value) == str(caught.value)
    return str(caught.value)


def test_lossless_error_can_be_copied_and_pickled() -> None:
    error = LosslessJsonError("$.a", "set is not JSON")
    assert error.args == ("$.a", "set is not JSON")
    copy = pickle.loads(pickle.dumps(error))
    assert (copy.path, copy.reason) == ("$.a", "set is not JSON")


# Numbers


def test_lossless_integer_is_shown_up_to_128_bits() -> None:
    tail = "is not exactly representable as a double"
    assert refusal_of_value(2**128 - 1) == f"$: {2**128 - 1} {tail}"
    assert refusal_of_value(2**128 + 1) == f"$: integer of 129 bits {tail}"
    assert refusal_of_value(-(2**128) - 1) == f"$: integer of 129 bits {tail}"


def test_lossless_integer_of_54_bits_needs_an_even_one() -> None:
    """SC-029: 53 bits from the first to the last that is set."""
    for value in (2**54 - 2, 2**53 - 1, (2**53 - 1) << 971, -((2**53 - 1) << 971)):
        assert decode(encode(value)) == value
        assert decode(encode([value] * 3_000)) == [value] * 3_000
    for value in (2**54 - 1, (2**54 - 1) << 900):
        refusal_of_value(value)
        refusal_of_text(str(value).encode())


def test_lossless_number_of_many_digits_is_refused_by_its_length() -> None:
    """SC-029: the largest double has 309 digits, and may have a sign."""
    largest = str(2**1024 - 2**971)
    assert decode(b"-" + largest.encode()) == -int(largest)
    assert refusal_of_text(b"1" * 310) == (
        "$: integer of 1027 bits is not exactly representable as a double"
    )
    assert refusal_of_text(b"1" * 311) == "$: number of 311 digits is not a finite double"


@pytest.mark.parametrize("sign", ["", "-"])
def test_lossless_number_is_shown_up_to_40_characters(sign: str) -> None:
    whole = f"{sign}9007199254740993."
    exact = whole + "0" * (40 - len(whole))
    tail = "is not exactly representable as a double"
    assert refusal_of_text(exact.encode()) == f"$: {exact} {tail}"
    assert refusal_of_text(exact.encode() + b"0") == f"$: {exact[:37]}... {tail}"
    overflow = "9" * 36 + "e999"
    assert refusal_of_text(overflow.encode()) == f"$: number {overflow} is not a finite double"
    underflow = "1" * 37 + "e-999"
    assert refusal_of_text(underflow.encode()) == (
        f"$: number {'1' * 37}... underflows a double to zero"
    )


@pytest.mark.parametrize("text", [b"-0.0", b"-0e5", b"-0.000e-9", b"-0e999999999999999999999"])
def test_lossless_spelled_out_negative_zero_is_refused(text: bytes) -> None:
    assert refusal_of_text(text) == "$: negative zero is not JSON"


@pytest.mark.parametrize("text", [b"0.0", b"0e5", b"0.000e-9", b"0e999999999999999999999"])
def test_lossless_spelled_out_zero_is_zero(text: bytes) -> None:
    value = decode(text)
    assert (value, type(value)) == (0, int)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (b"1e+3", 1_000),
        (b"1E3", 1_000),
        (b"1000e-3", 1),
        (b"-1.50e1", -15),
        (b"0.001e3", 1),
        (b"0.0010e+04", 10),
        (b"9007199254740992.000", 2**53),
        (b"90071992547409920e-1", 2**53),
        (b"1.8446744073709551616e19", 2**64),
        (b"1.8446744073709552e19", 2**64),
        (b"1.8446744073709552e+19", 2**64),
        (b"18446744073709551616.0", 2**64),
    ],
)
def test_lossless_integral_spellings_are_one_integer(text: bytes, value: int) -> None:
    """WT-066: the shortest digits or the exact ones."""
    found = decode(text)
    assert (found, type(found)) == (value, int)


@pytest.mark.parametrize(
    "text",
    [
        b"1.8446744073709551615e19",
        b"1.8446744073709551617e19",
        b"1.84467440737095516160001e24",
        b"9007199254740993.0",
        b"9007199254740993e0",
        b"9.007199254740993e15",
        b"90071992547409930e-1",
    ],
)
def test_lossless_rounded_integer_is_refused_however_it_is_spelled(text: bytes) -> None:
    assert refusal_of_text(text).endswith(" is not exactly representable as a double")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.000001, b"0.000001"),
        (-0.00000123, b"-0.00000123"),
        (0.0000001, b"1e-7"),
        (-1.5e-7, b"-1.5e-7"),
        (0.0001, b"0.0001"),
        (0.00009, b"0.00009"),
        (1.5e-10, b"1.5e-10"),
        (5e-324, b"5e-324"),
        (1e21, b"1000000000000000000000"),
    ],
)
def test_lossless_float_is_spelled_as_javascript_does(value: float, text: bytes) -> None:
    """WT-066."""
    assert encode(value) == text
    assert encode([value] * 3_000) == b"[" + b",".join([text] * 3_000) + b"]"
    assert measure([value] * 3_000) == 3_000 * (len(text) + 1) + 1


# Names in messages


def test_lossless_type_is_named_by_60_characters() -> None:
    exact, longer = type("T" * 60, (), {})(), type("U" * 61, (), {})()
    assert refusal_of_value(exact) == f"$: {'T' * 60} is not JSON"
    assert refusal_of_value(longer) == f"$: {'U' * 60} is not JSON"


def test_lossless_path_shows_40_characters_of_a_key() -> None:
    assert refusal_of_value({"k" * 40: {1}}) == f"$.{'k' * 40}: set is not JSON"
    assert refusal_of_value({"k" * 41: {1}}) == f'$["{"k" * 37}..."]: set is not JSON'


def nested(keys: list[str]) -> object:
    value: object = {1}
    for key in reversed(keys):
        value = {key: value}
    return value


def test_lossless_path_shows_40_steps() -> None:
    keys = [f"k{index}" for index in range(40)]
    assert refusal_of_value(nested(keys)) == f"$.{'.'.join(keys)}: set is not JSON"
    keys.append("k40")
    shown = f"$.{'.'.join([*keys[:20], *keys[-20:]])}"
    assert refusal_of_value(nested(keys)) == f"{shown[:98]}...{shown[-98:]}: set is not JSON"


def test_lossless_path_shows_200_characters() -> None:
    keys = ["k" * 24] * 7 + ["l" * 23]
    assert refusal_of_value(nested(keys)) == f"$.{'.'.join(keys)}: set is not JSON"
    keys[-1] += "l"
    path = f"$.{'.'.join(keys)}"
    assert len(path) == 201
    assert refusal_of_value(nested(keys)) == f"{path[:98]}...{path[-98:]}: set is not JSON"


def test_lossless_path_names_the_member_that_is_refused() -> None:
    assert refusal_of_value([{1}, 2, 3]) == "$[0]: set is not JSON"
    assert refusal_of_value([1, 2, {3}]) == "$[2]: set is not JSON"
    assert refusal_of_value({"a": {1}, "b": 2}) == "$.a: set is not JSON"
    assert refusal_of_value({"a": 1, "b": [[], {"c": 1, "d": {2}}]}) == "$.b[1].d: set is not JSON"


# Positions in the exact lane


@pytest.mark.parametrize(
    ("text", "position"),
    [
        ("", 0),
        (" ", 1),
        ("nul", 0),
        ("truefalse", 4),
        ("1 2", 2),
        ("01", 1),
        ("[]]", 2),
        ("[", 1),
        ("[1", 2),
        ("[1 2]", 3),
        ("[1}", 2),
        ("[,]", 1),
        ("[1, ]", 4),
        ("{", 1),
        ("{1:2}", 1),
        ('{"a"', 4),
        ('{"a" 1}', 5),
        ('{"a": }', 6),
        ('{"a":1 "b":2}', 7),
        ('{"a":1]', 6),
        ('{"a":1, }', 8),
        ('{"a":1, 2:3}', 8),
        ('[{"a":[1, {"b" : x}]}]', 17),
    ],
)
def test_lossless_exact_lane_tells_where_a_text_is_broken(text: str, position: int) -> None:
    with pytest.raises(LosslessJsonError) as caught:
        _lossless._decode_exact(text)
    assert str(caught.value) == f"$: Unexpected text at character {position}"


@pytest.mark.parametrize(
    "text", ["[NaN]", "[Infinity]", "[-Infinity]", "[1234567890123456,NaN]", "[-0,NaN]"]
)
def test_lossless_constants_that_are_no_json_are_refused(text: str) -> None:
    """SC-029: also beside numbers that need another decoder."""
    refusal_of_text(text.encode())
    with pytest.raises(LosslessJsonError):
        _lossless._decode_exact(text)


def test_lossless_numbers_beside_long_ones_are_read_alike() -> None:
    value = decode(b"[1234567890123456,1.0,1.5,7,1e3]")
    assert repr(value) == "[1234567890123456, 1, 1.5, 7, 1000]"
    assert refusal_of_text(b"[1234567890123456,NaN]") == "$: number NaN is not a finite double"
    assert refusal_of_text(b"[1234567890123456,1e999]") == "$: number 1e999 is not a finite double"


@pytest.fixture
def recursion_limit() -> Iterator[None]:
    before = sys.getrecursionlimit()
    yield
    sys.setrecursionlimit(before)


@pytest.mark.usefixtures("recursion_limit")
@pytest.mark.parametrize("opener", ["[", '{"a":'])
@pytest.mark.parametrize(
    ("limit", "depth", "is_exact"),
    [(5_000, 1_001, False), (5_001, 1_000, False), (5_001, 1_001, True)],
)
def test_lossless_raised_recursion_limit_sends_deep_texts_to_the_exact_lane(
    opener: str, limit: int, depth: int, is_exact: bool
) -> None:
    """WT-077: the C decoder of CPython 3.12 and later guards its own stack."""
    sys.setrecursionlimit(limit)
    words = "Unexpected text" if is_exact and sys.version_info < (3, 12) else "Expecting value"
    text = opener * depth
    assert refusal_of_text(text.encode()) == f"$: {words} at character {len(text)}"


# Lanes


@pytest.mark.parametrize(
    "value",
    [
        pytest.param([2**53, -(2**53)], id="safe integers"),
        pytest.param([1e-4, -1e-4, 0.5], id="fractions that are spelled out"),
        pytest.param([None, True, False, 1, 0.5, "a", [], {}], id="all types"),
        pytest.param({"é": "€" * 3_000}, id="text beyond ASCII"),
    ],
)
def test_lossless_fast_lane_takes(value: object) -> None:
    text = encode(value)
    assert _lossless._encode_fast(value) == text
    assert sum(_lossless._group_costs(value)) == len(text)


@pytest.mark.parametrize("size_bytes", [0, 1, 10, 5_000, 20_000, 1_000_000])
def test_encode_start_is_a_part_of_the_text(size_bytes: int) -> None:
    value = {"items": list(range(20_000))}
    start = encode_start(value, size_bytes)
    text = encode(value)
    assert text.startswith(start)
    assert min(size_bytes, len(text)) <= len(start) <= size_bytes + 20_000 or start == text


@pytest.mark.parametrize(
    "value",
    [
        pytest.param(2**53 + 2, id="integer above"),
        pytest.param(-(2**53) - 2, id="integer below"),
        pytest.param(9e-5, id="fraction with an exponent"),
        pytest.param(1.0, id="integral float"),
        pytest.param("\ud800", id="surrogate"),
        pytest.param({"\ud800": 1}, id="surrogate in a key"),
        pytest.param("x" * 1_100 + "\ud800", id="surrogate in a long text"),
    ],
)
def test_lossless_fast_lane_leaves_to_the_exact_one(value: object) -> None:
    text = encode(value)
    for whole in (value, [value], [1, "a", value]):
        assert _lossless._encode_fast(whole) is None
        with pytest.raises((_lossless._Odd, UnicodeEncodeError)):
            sum(_lossless._group_costs(whole))
    assert encode([value] * 1_100) == b"[" + b",".join([text] * 1_100) + b"]"
    assert measure([value] * 1_100) == 1_100 * (len(text) + 1) + 1


@pytest.mark.parametrize("size", [1_023, 1_024, 1_025, 2_047, 2_048, 2_049])
def test_lossless_size_of_a_group_of_values_changes_nothing(size: int) -> None:
    numbers = list(range(size))
    table = {f"k{number}": number for number in numbers}
    texts = ["x" * size] * 3
    for value in (numbers, table, texts, [numbers, table], "é" * size, ["é" * size, "\ud800"]):
        text = encode(value)
        assert b"".join(_lossless._pieces(value)) == text
        assert decode(text) == value
        assert measure(value) == measure(value, len(text)) == len(text)
        assert measure(value, len(text) - 1) is None


@pytest.mark.parametrize("size", [8_191, 8_192, 8_193, 16_385])
@pytest.mark.parametrize("character", ["x", '"', "😀"])
def test_lossless_size_of_a_piece_of_text_changes_nothing(size: int, character: str) -> None:
    """WT-065, WT-078."""
    text = character * size
    each = len(encode(character)) - 2
    assert len(encode(text)) == string_cost(text) == size * each + 2
    for budget in (1, 2, 2 + each, 1 + size * each, 2 + size * each, 3 + size * each):
        fits = min(size, max(0, budget - 2) // each)
        assert fitting_prefix(text, budget) == character * fits
        assert string_cost(text, budget) == (2 + size * each if fits == size else None)


def test_lossless_small_value_ends_at_four_pieces() -> None:
    for value, longer in (([0] * 4_095, [0] * 4_096), ("x" * 24_576, "x" * 24_577)):
        assert _lossless.encode_small(value) == encode(value)
        assert _lossless.encode_small(longer) is None


def test_lossless_limit_of_a_small_value_is_kept_exactly() -> None:
    for value, cost in ((None, 4), (True, 4), (False, 5), ([], 2), ({}, 2), ("", 2), (12, 2)):
        assert [measure(value, limit) for limit in (cost - 1, cost, cost + 1)] == [None, cost, cost]


# Encoding within a limit

WIDE = [{"key": "x" * 40}, [0.5, "y" * 40]] * 300  # more than one piece of the exact lane
ODD = [*WIDE, 1.0]  # which the fast lane does not take


@pytest.mark.parametrize("value", [WIDE, ODD, ["a"], "a"], ids=["fast", "exact", "small", "text"])
def test_lossless_encode_within_stops_above_the_limit(value: object) -> None:
    """PY-229."""
    text = encode(value)
    assert _lossless.encode_within(value, len(text)) == text
    assert _lossless.encode_within(value, len(text) + 1) == text
    assert _lossless.encode_within(value, len(text) - 1) is None
    assert _lossless.encode_within(value, 0) is None


class BuiltError(BaseException):
    """The whole text was built."""


def test_lossless_encode_within_builds_no_text_that_is_far_too_long(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def encode_all(value: object) -> str:
        raise BuiltError

    monkeypatch.setattr(_lossless._ENCODER, "encode", encode_all)
    assert _lossless.encode_within(WIDE, 100) is None
    with pytest.raises(BuiltError):
        _lossless.encode_within(WIDE, 1_000_000)
    # What comes after the limit is never looked at by the exact lane.
    assert _lossless.encode_within([*ODD, {1}], 100) is None


@pytest.mark.parametrize("limit", [100, 1_000_000])
def test_lossless_encode_within_names_what_is_met_first(limit: int) -> None:
    """Too large, or not lossless: whichever comes first decides."""
    first, last = [{1}, *WIDE], [*WIDE, {1}]
    with pytest.raises(LosslessJsonError) as caught:
        _lossless.encode_within(first, limit)
    assert str(caught.value) == "$[0]: set is not JSON"
    if limit == 100:
        assert _lossless.encode_within(last, limit) is None
    else:
        with pytest.raises(LosslessJsonError) as caught:
            _lossless.encode_within(last, limit)
        assert str(caught.value) == "$[600]: set is not JSON"


def test_lossless_least_cost_counts_values_texts_and_keys() -> None:
    """A byte for each value, and what its text and its keys have at least."""
    value = ["ab", 7, None, {"key": "c", "k": [0.5]}]
    costs = [_lossless._least_cost(group) for group in _lossless._groups(value)]
    assert costs == [1, 4 + 2 + 4, 2 + 1, 1]
