"""Properties of the lossless-JSON boundary over generated values."""

from __future__ import annotations

import json
import math
from typing import Any

import msgspec.json
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from code_runtime import _lossless
from code_runtime._lossless import (
    LosslessJsonError,
    decode,
    encode,
    encode_within,
    fitting_prefix,
    measure,
    snapshot,
    string_cost,
)

texts = st.text(st.characters(codec=None) | st.sampled_from('"\\\n\0\x1f\x7f€\u2028😀'), max_size=8)
surrogates = st.text(st.sampled_from("a\ud83d\ude00\ud800\udfff😀é\\"), max_size=8)
integers = st.integers(-(2**53), 2**53) | st.integers(-(2**53), 2**53).flatmap(
    lambda odd: st.integers(0, 970).map(lambda shift: odd << shift)
)
fractions = st.floats(allow_nan=False, allow_infinity=False).filter(
    lambda number: number != 0 or math.copysign(1, number) > 0
)
scalars = st.none() | st.booleans() | integers | fractions | texts
values: Any = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(texts, inner, max_size=5),
    max_leaves=20,
)
values_with_surrogates: Any = st.recursive(
    st.integers(0, 9) | surrogates,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(surrogates, inner, max_size=4),
    max_leaves=12,
)


def combined(text: str) -> str:
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")


def normal(value: Any) -> Any:
    """Return what arrives: pairs combined, integral floats as int."""
    if isinstance(value, str):
        return combined(value)
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, list):
        return [normal(item) for item in value]
    if isinstance(value, dict):
        return {combined(key): normal(item) for key, item in value.items()}
    return value


def typed(value: Any) -> Any:
    """Make 1, 1.0 and True differ, and the order of keys count."""
    if isinstance(value, list):
        return [typed(item) for item in value]
    if isinstance(value, dict):
        return [(key, typed(item)) for key, item in value.items()]
    return (type(value), value)


def keys_stay_apart(value: Any) -> bool:
    """Tell whether no two keys of a dict are equal once their pairs are combined."""
    if isinstance(value, list):
        return all(map(keys_stay_apart, value))
    if isinstance(value, dict):
        return len(set(map(combined, value))) == len(value) and all(
            map(keys_stay_apart, value.values())
        )
    return True


def exact_encode(value: object) -> bytes:
    return b"".join(_lossless._pieces(value))


@settings(deadline=None)  # a loaded machine is no fault
@given(values)
@example([1.0, 1e21, 1e-7, 5e-324, 0.1, 2**60, 1e22, 123456789.125])
def test_lossless_round_trip_keeps_values_and_types(value: Any) -> None:
    """SC-029, WT-096, WT-109."""
    expected = typed(normal(value))
    assert typed(decode(encode(value))) == expected
    assert typed(snapshot(value)) == expected
    assert typed(_lossless._decode_exact(encode(value).decode())) == expected


@settings(deadline=None)  # a loaded machine is no fault
@given(values | values_with_surrogates)
def test_lossless_lanes_write_the_same_bytes(value: Any) -> None:
    if not keys_stay_apart(value):
        with pytest.raises(LosslessJsonError, match="duplicate key after combining surrogates"):
            encode(value)
        assert _lossless._encode_fast(value) is None
        return
    text = exact_encode(value)
    assert encode(value) == text
    assert _lossless._encode_fast(value) in (None, text)
    assert _lossless._encode_fast(value, msgspec.json.encode) in (None, text)
    assert measure(value) == measure(value, len(text)) == len(text)
    assert measure(value, len(text) - 1) is None
    assert encode_within(value, len(text)) == text
    assert encode_within(value, len(text) - 1) is None


plain_texts = st.text(st.characters(exclude_categories=["Cs"]) | st.sampled_from('"\\\n0.e-'))
plain_floats = st.floats(1e-4, 1e15).filter(lambda number: not number.is_integer())
plain_values: Any = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | plain_floats | plain_texts,
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(plain_texts, inner, max_size=5),
    max_leaves=20,
)


@settings(deadline=None)  # a loaded machine is no fault
@given(plain_values)
def test_lossless_fast_lane_takes_plain_values(value: Any) -> None:
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
    assert _lossless._encode_fast(value) == exact_encode(value) == text
    assert _lossless._encode_fast(value, msgspec.json.encode) == text
    assert sum(_lossless._group_costs(value)) == len(text)
    assert sum(map(_lossless._least_cost, _lossless._groups(value))) <= len(text)


@settings(deadline=None)  # a loaded machine is no fault
@given(values, st.sampled_from([None, 1, "\t"]), st.booleans())
def test_lossless_decode_takes_any_spelling(value: Any, indent: Any, ascii_only: bool) -> None:
    """SC-029: white space, escapes and other number spellings change nothing."""
    try:
        text = json.dumps(value, indent=indent, ensure_ascii=ascii_only).encode()
    except UnicodeEncodeError:
        return  # a lone surrogate is an escape or nothing
    assert typed(decode(text)) == typed(_lossless._decode_exact(text.decode()))
    assert typed(decode(text)) == typed(normal(value))


@settings(deadline=None)  # a loaded machine is no fault
@given(st.text(st.sampled_from('[]{},:"\\ \n01-.eEtrufalsn€')) | values.map(repr))
def test_lossless_lanes_accept_the_same_texts(text: str) -> None:
    """SC-029: hostile text is refused with the one error of this module."""
    results: list[Any] = []
    for read in (decode, decode_deep):
        try:
            results.append(typed(read(text.encode("utf-8", "replace"))))
        except LosslessJsonError:
            results.append("refused")
    assert results[0] == results[1]


def test_lossless_encoders_spell_every_character_alike() -> None:
    characters = [chr(code) for code in range(0x110000) if not 0xD800 <= code < 0xE000]
    assert msgspec.json.encode(characters) == exact_encode(characters)


digits = st.text("0123456789", min_size=1, max_size=18) | st.text("09", min_size=1, max_size=18)
numbers = st.builds(
    "{}{}{}{}".format,
    st.sampled_from(["", "-"]),
    digits.map(lambda text: text.lstrip("0") or "0"),
    st.just("") | digits.map(".{}".format),
    st.just("") | st.sampled_from(["e0", "E0", "e-3", "e5", "E+5"]),
)


@settings(deadline=None, max_examples=500)  # a loaded machine is no fault
@given(numbers)
@example("0.9999999999999999999")
@example("100000000.9999999")
@example("99999999999999.9")
@example("999999999999999.9")
@example("123456789012345.0")
@example("-0.0")
@example("-0.5")
@example("1.000000000000001")
@example("4503599627370496.5")
def test_lossless_number_is_read_alike_by_all_lanes(number: str) -> None:
    """Beside a fraction, so that a lane that knows fractions may be taken."""
    results: list[Any] = []
    for read in (decode, decode_deep):
        try:
            results.append(typed(read(f'[0.25, {number}, ".5"]'.encode())))
        except LosslessJsonError:
            results.append("refused")
    assert results[0] == results[1]


def decode_deep(text: bytes) -> Any:
    """Read a text where the C decoder cannot go, and take it out again."""
    value: Any = decode(b"[0," * 2_000 + text + b"]" * 2_000)
    for _ in range(2_000):
        if len(value) != 2:  # several values with commas between them are no text of their own
            raise LosslessJsonError("$", "several values")
        value = value[1]
    return value


def oracle_cost(text: str) -> int:
    total = 2
    for character in combined(text):
        code = ord(character)
        if character in '"\\\b\t\n\f\r':
            total += 2
        elif code < 0x20 or 0xD800 <= code <= 0xDFFF:
            total += 6
        else:
            total += 1 + (code > 0x7F) + (code > 0x7FF) + (code > 0xFFFF)
    return total


@settings(deadline=None)  # a loaded machine is no fault
@given(texts | surrogates | st.text(), st.integers(-1, 60))
def test_lossless_string_cost_equals_a_table(text: str, limit: int) -> None:
    """WT-065."""
    cost = oracle_cost(text)
    assert string_cost(text) == measure(text) == len(encode(text)) == cost
    assert string_cost(text, limit) == (cost if cost <= limit else None)


@settings(deadline=None)  # a loaded machine is no fault
@given(texts | surrogates, st.integers(-1, 40), st.sampled_from([1, 2, 3, 8_192]))
def test_lossless_fitting_prefix_is_the_longest(text: str, budget: int, piece: int) -> None:
    """WT-078; the size of the pieces that a long string is read in makes no difference."""
    before = _lossless._PIECE
    _lossless._PIECE = piece
    try:
        prefix = fitting_prefix(text, budget)
        assert string_cost(text) == oracle_cost(text)
    finally:
        _lossless._PIECE = before
    assert text.startswith(prefix)
    assert not prefix or oracle_cost(prefix) <= budget
    units = combined(text)
    taken = 0
    while taken < len(units) and oracle_cost(units[: taken + 1]) <= budget:
        taken += 1
    assert combined(prefix) == units[:taken]
