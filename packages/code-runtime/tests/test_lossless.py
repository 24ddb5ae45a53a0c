"""The lossless-JSON boundary: vectors, rules, refusals and paths."""

from __future__ import annotations

import collections
import datetime
import decimal
import enum
import json
import math
from pathlib import Path
from typing import Any, cast

import pytest

from code_runtime import _lossless
from code_runtime._lossless import (
    LosslessJsonError,
    decode,
    encode,
    encode_small,
    fitting_prefix,
    measure,
    snapshot,
    string_cost,
)

DIRECTORY = Path(__file__).parents[3] / "tests/vectors/json"


def load(name: str, key: str = "cases") -> list[dict[str, Any]]:
    return cast("list[dict[str, Any]]", json.loads((DIRECTORY / name).read_text("utf-8"))[key])


def params(name: str, label: str) -> list[Any]:
    return [pytest.param(case, id=ascii(case[label])[1:-1][:40]) for case in load(name)]


def encode_exact(value: object) -> bytes:
    return b"".join(_lossless._pieces(value))


def decode_exact(text: bytes) -> object:
    return _lossless._decode_exact(text.decode())


def refusal(value: object) -> str:
    """Return the text of the refusal, which is the same from each way in."""
    texts = set()
    for call in (encode, measure, snapshot):
        with pytest.raises(LosslessJsonError) as caught:
            call(value)
        texts.add(str(caught.value))
    assert len(texts) == 1
    return texts.pop()


@pytest.mark.parametrize("case", [*params("values.json", "name"), *params("numbers.json", "input")])
def test_lossless_vector(case: dict[str, Any]) -> None:
    """SC-029, WT-066, WT-096, WT-108, WT-109, WT-116."""
    text = case["canonical"].encode()
    for read in (decode, decode_exact):
        value = read(case["input"].encode())
        assert encode(value) == text
        assert encode_exact(value) == text
        assert measure(value) == measure(value, case["cost"]) == case["cost"]
        assert measure(value, case["cost"] - 1) is None


@pytest.mark.parametrize("case", [*params("values.json", "name"), *params("numbers.json", "input")])
def test_lossless_vector_in_a_value_that_takes_the_fast_lane(case: dict[str, Any]) -> None:
    """SC-029, WT-066: 1,500 copies are too many for the lane of small values."""
    values = [decode(case["input"].encode()) for _ in range(1_500)]
    text = b"[" + b",".join([case["canonical"].encode()] * 1_500) + b"]"
    assert encode(values) == text
    assert measure(values) == measure(values, len(text)) == len(text)
    assert measure(values, len(text) - 1) is None


@pytest.mark.parametrize("case", params("numbers.json", "input"))
def test_lossless_integral_number_is_an_int(case: dict[str, Any]) -> None:
    """WT-066, WT-116."""
    value = decode(case["input"].encode())
    integral = "." not in case["canonical"] and "e" not in case["canonical"]
    assert type(value) is (int if integral else float)


@pytest.mark.parametrize("case", params("strings.json", "name"))
def test_lossless_string_vector(case: dict[str, Any]) -> None:
    """WT-065, WT-075, WT-096."""
    value, text, cost = case["value"], case["canonical"].encode(), case["cost"]
    assert encode(value) == text
    assert encode({value: [value]}) == b"{" + text + b":[" + text + b"]}"
    assert decode(text) == decode_exact(text) == value
    assert string_cost(value) == string_cost(value, cost) == measure(value) == cost
    assert string_cost(value, cost - 1) is None
    assert measure([value] * 1_500) == 1_500 * (cost + 1) + 1


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(case, id=ascii((case["value"][:9], case["budget"])))
        for case in load("strings.json", "prefixes")
    ],
)
def test_lossless_prefix_vector(case: dict[str, Any]) -> None:
    """WT-078."""
    assert fitting_prefix(case["value"], case["budget"]) == case["prefix"]


@pytest.mark.parametrize("case", params("refused.json", "name"))
def test_lossless_refused_text_vector(case: dict[str, Any]) -> None:
    """SC-029, WT-097; in Python section 2.5: exact or refused, whatever the spelling."""
    text = bytes.fromhex(case["hex"]) if "hex" in case else case["text"].encode()
    with pytest.raises(LosslessJsonError) as caught:
        decode(text)
    assert caught.value.path == "$"
    assert len(str(caught.value)) < 100
    with pytest.raises(LosslessJsonError):  # where the C decoder cannot go
        decode(b"[0," * 3_000 + text + b"]" * 3_000)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param(b'"\xff"', "$: invalid UTF-8 at byte 1", id="utf-8"),
        pytest.param(b"[1,]", "$: Expecting value at character 3", id="syntax"),
        pytest.param(b"[NaN]", "$: number NaN is not a finite double", id="constant"),
        pytest.param(b"[-0]", "$: negative zero is not JSON", id="negative zero"),
        pytest.param(b"1e999", "$: number 1e999 is not a finite double", id="overflow"),
        pytest.param(
            b"1" * 400, "$: number of 400 digits is not a finite double", id="long overflow"
        ),
        pytest.param(b"1e-999", "$: number 1e-999 underflows a double to zero", id="underflow"),
        pytest.param(
            b"9007199254740993",
            "$: 9007199254740993 is not exactly representable as a double",
            id="integer",
        ),
        pytest.param(
            b"0." + b"1" * 50 + b"e51",
            "$: 0.11111111111111111111111111111111111... is not exactly representable as a double",
            id="long spelling",
        ),
    ],
)
def test_lossless_decode_message(text: bytes, message: str) -> None:
    with pytest.raises(LosslessJsonError) as caught:
        decode(text)
    assert str(caught.value) == message


class Text(str):
    __slots__ = ()


class Colour(enum.IntEnum):
    RED = 1


class Rude(type):
    def __hash__(cls) -> int:
        raise OSError("no hash")

    @property
    def __name__(cls) -> str:  # type: ignore[override]
        raise OSError("no name")


class RudeThing(metaclass=Rude):
    pass


Pair = collections.namedtuple("Pair", "left right")


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        pytest.param(math.nan, "non-finite float nan is not JSON", id="nan"),
        pytest.param(math.inf, "non-finite float inf is not JSON", id="inf"),
        pytest.param(-math.inf, "non-finite float -inf is not JSON", id="-inf"),
        pytest.param(-0.0, "negative zero is not JSON", id="-0.0"),
        pytest.param(
            2**53 + 1, "9007199254740993 is not exactly representable as a double", id="2^53+1"
        ),
        pytest.param(
            -(2**64) - 1,
            "-18446744073709551617 is not exactly representable as a double",
            id="-2^64-1",
        ),
        pytest.param(
            2**1024, "integer of 1025 bits is not exactly representable as a double", id="2^1024"
        ),
        pytest.param(
            10**5000,
            "integer of 16610 bits is not exactly representable as a double",
            id="5000 digits",
        ),
        pytest.param((1, 2), "tuple is not JSON", id="tuple"),
        pytest.param(Pair(1, 2), "Pair is not JSON", id="namedtuple"),
        pytest.param({1}, "set is not JSON", id="set"),
        pytest.param(frozenset({1}), "frozenset is not JSON", id="frozenset"),
        pytest.param(b"a", "bytes is not JSON", id="bytes"),
        pytest.param(bytearray(b"a"), "bytearray is not JSON", id="bytearray"),
        pytest.param(1j, "complex is not JSON", id="complex"),
        pytest.param(decimal.Decimal(1), "Decimal is not JSON", id="Decimal"),
        pytest.param(datetime.date(2024, 1, 2), "date is not JSON", id="date"),
        pytest.param(Colour.RED, "Colour is not JSON", id="IntEnum"),
        pytest.param(Text("a"), "Text is not JSON", id="str subclass"),
        pytest.param(collections.OrderedDict(a=1), "OrderedDict is not JSON", id="dict subclass"),
        pytest.param(collections.UserList([1]), "UserList is not JSON", id="UserList"),
        pytest.param(print, "builtin_function_or_method is not JSON", id="function"),
        pytest.param(int, "type is not JSON", id="class"),
        pytest.param(json, "module is not JSON", id="module"),
        pytest.param((item for item in [1]), "generator is not JSON", id="generator"),
        pytest.param(Ellipsis, "ellipsis is not JSON", id="Ellipsis"),
        pytest.param(RudeThing(), "RudeThing is not JSON", id="hostile metaclass"),
        pytest.param({1: 2}, "non-string dict key of type int", id="int key"),
        pytest.param({None: 2}, "non-string dict key of type NoneType", id="None key"),
        pytest.param({True: 2}, "non-string dict key of type bool", id="bool key"),
        pytest.param({Text("a"): 2}, "non-string dict key of type Text", id="str subclass key"),
    ],
)
def test_lossless_refuses_value(value: object, reason: str) -> None:
    """SC-029, SC-030, WT-097, WT-099: alone, deep inside, and inside a large value."""
    assert refusal(value) == f"$: {reason}"
    assert refusal({"items": [0, {"a b": value}]}) == f'$.items[1]["a b"]: {reason}'
    assert refusal([*range(3_000), value]) == f"$[3000]: {reason}"
    large = {"rows": [{"id": i} for i in range(1_500)], "last": [value]}
    assert refusal(large) == f"$.last[0]: {reason}"


def test_lossless_refuses_rounding_up_to_infinity() -> None:
    """SC-029: the largest double passes, the next integer of 1,024 bits does not."""
    largest = 2**1024 - 2**971
    assert decode(encode(largest)) == largest
    assert refusal(2**1024 - 1) == (
        "$: integer of 1024 bits is not exactly representable as a double"
    )


def test_lossless_exact_integers_pass_both_ways() -> None:
    """WT-066: exact digits beyond 2^53."""
    for value in (2**53, -(2**53), 2**53 + 2, 2**60, 2**64, 10**22, 3 * 2**1000):
        assert encode(value) == str(value).encode()
        assert decode(encode(value)) == value


def test_lossless_cycle_is_refused_and_a_shared_part_is_not() -> None:
    """WT-102."""
    loop: list[object] = [1]
    loop.append({"back": loop})
    assert refusal(loop) == "$[1].back: circular reference"
    table: dict[str, object] = {}
    table["self"] = table
    assert refusal([*range(2_000), table]) == "$[2000].self: circular reference"
    shared = {"a": [1]}
    assert encode([shared, shared, shared["a"]]) == b'[{"a":[1]},{"a":[1]},[1]]'
    copy = cast("list[object]", snapshot([shared, shared]))
    assert copy[0] is not copy[1]


def test_lossless_copy_is_detached() -> None:
    """WT-110, SC-029."""
    value = {"a": [1, {"b": 2.0}]}
    text, copy = encode(value), snapshot(value)
    value["a"].clear()
    assert text == b'{"a":[1,{"b":2}]}'
    assert copy == {"a": [1, {"b": 2}]}
    assert type(cast("Any", copy)["a"][1]["b"]) is int


def test_lossless_spelled_out_pair_is_one_character() -> None:
    """WT-065; Python section 2.1."""
    assert encode("\ud83d\ude00") == '"😀"'.encode()
    assert encode({"\ud83d\ude00": ["\ud83d\ude00\ud83d"]}) == '{"😀":["😀\\ud83d"]}'.encode()
    assert string_cost("\ud83d\ude00") == 6
    assert fitting_prefix("\ud83d\ude00", 6) == "\ud83d\ude00"
    assert fitting_prefix("\ud83d\ude00", 5) == ""
    assert refusal({"x" * 2_000 + "\ud83d\ude00": 1, "x" * 2_000 + "😀": 2}).endswith(
        ": duplicate key after combining surrogates"
    )


def test_lossless_refuses_keys_that_combine_to_one() -> None:
    """SC-029; Python section 2.1."""
    reason = "duplicate key after combining surrogates"
    pair = "\ud83d\ude00"
    assert refusal({pair: 1, "😀": 2}) == f'$["\\ud83d\\ude00"]: {reason}'
    assert refusal([*range(3_000), {"a": {"b": 1, pair + "😀": 1, "😀" + pair: 2}}]).endswith(
        f": {reason}"
    )
    assert encode({pair: 1, pair[::-1]: 2}) == '{"😀":1,"\\ude00\\ud83d":2}'.encode()


@pytest.mark.parametrize("offset", range(-2, 3))
def test_lossless_long_string_is_never_cut_inside_a_pair(offset: int) -> None:
    """WT-065, WT-078."""
    text = "x" * (_lossless._PIECE + offset) + "\ud83d\ude00" + "y" * _lossless._PIECE
    cost = len(text) - 2 + 4 + 2
    assert string_cost(text) == measure(text) == len(encode(text)) == cost
    assert string_cost(text, cost) == cost
    assert string_cost(text, cost - 1) is None
    assert fitting_prefix(text, cost) == text
    assert fitting_prefix(text, cost - 1) == text[:-1]
    until_pair = text[: _lossless._PIECE + offset]
    assert fitting_prefix(text, len(until_pair) + 5) == until_pair
    assert fitting_prefix(text, len(until_pair) + 6) == until_pair + "\ud83d\ude00"


def test_lossless_path_is_elided_in_the_middle() -> None:
    value: object = datetime.date(2024, 1, 2)
    for index in range(100_000):
        value = {f"key{index % 7}": value}
    text = refusal(value)
    assert text.startswith("$.key4.key3.key2.key1.key0.key6.key5.key4")
    assert "..." in text
    assert text.endswith(".key2.key1.key0: date is not JSON")
    assert len(text) < 300
    long_key = {"k" * 1_000_000: {"\U0010ffff" * 50: {1}}}
    assert len(refusal(long_key)) < 300


def test_lossless_path_names_odd_keys() -> None:
    assert refusal({"a": {"": {"é": {"0": {"x-y": {1}}}}}}) == (
        '$.a[""]["\\u00e9"]["0"]["x-y"]: set is not JSON'
    )
    assert refusal({"a": 1, "b": {2: 3}}) == "$.b: non-string dict key of type int"


def test_lossless_error_keeps_path_and_reason() -> None:
    error = LosslessJsonError("$.a", "set is not JSON")
    assert (error.path, error.reason, str(error)) == ("$.a", "set is not JSON", str(error))
    assert isinstance(error, ValueError)


@pytest.mark.parametrize(
    ("value", "is_small"),
    [
        pytest.param({"a": [1, 2.5, None, "é"]}, True, id="a handful"),
        pytest.param("x" * 20_000, True, id="a page of text"),
        pytest.param("x" * 40_000, False, id="a long text"),
        pytest.param([1] * 4_000, True, id="four groups"),
        pytest.param([1] * 5_000, False, id="five groups"),
    ],
)
def test_lossless_encode_small_gives_the_text_or_none(value: object, is_small: bool) -> None:
    assert encode_small(value) == (encode(value) if is_small else None)


def test_lossless_encode_small_refuses_what_it_meets() -> None:
    with pytest.raises(LosslessJsonError) as caught:
        encode_small({"a": [1, float("nan")]})
    assert str(caught.value) == "$.a[1]: non-finite float nan is not JSON"
