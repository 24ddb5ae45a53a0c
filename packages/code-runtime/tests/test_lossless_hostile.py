"""Depth, width, threads and stack limits at the lossless-JSON boundary."""

from __future__ import annotations

import subprocess
import sys
import threading
import tracemalloc
from pathlib import Path
from typing import Any, cast

import pytest

from code_runtime import _lossless
from code_runtime._lossless import (
    LosslessJsonError,
    decode,
    encode,
    fitting_prefix,
    measure,
    snapshot,
    string_cost,
)

MILLION = 1_000_000


def nested_lists(depth: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(depth - 1):
        value = [value]
    return value


def nested_dicts(depth: int) -> dict[str, Any]:
    value: dict[str, Any] = {}
    for _ in range(depth - 1):
        value = {"a": value}
    return value


def test_lossless_5000_nested_lists_cost_10000_bytes() -> None:
    """WT-077: 5,000 arrays around two more bytes of content cost 10,004 with it."""
    assert measure(nested_lists(5_000)) == 10_000
    value: object = None
    for _ in range(5_000):
        value = [value]
    assert measure(value) == 10_004
    assert measure(value, 10_003) is None


@pytest.mark.slow
@pytest.mark.parametrize(
    ("build", "text"),
    [
        pytest.param(nested_lists, b"[" * MILLION + b"]" * MILLION, id="lists"),
        pytest.param(
            nested_dicts, b'{"a":' * (MILLION - 1) + b"{}" + b"}" * (MILLION - 1), id="dicts"
        ),
    ],
)
def test_lossless_a_million_levels_cross(build: Any, text: bytes) -> None:
    """WT-111, WT-077."""
    copy = decode(text)
    assert encode(copy) == text
    assert measure(copy, len(text) // 2) is None
    del copy
    assert encode(snapshot(build(1_000))) == encode(build(1_000))
    with pytest.raises(LosslessJsonError):
        decode(text[:-1])


def test_lossless_depth_around_the_limits_of_the_c_codec() -> None:
    """WT-111: no depth is special."""
    for depth in (*range(98, 104), *range(900, 1_010, 9), 3_000, 12_000):
        for value in (nested_lists(depth), nested_dicts(depth), [0] * 3_000 + nested_lists(depth)):
            text = encode(value)
            assert len(text) == measure(value)
            assert encode(decode(text)) == text


def test_lossless_deep_value_is_refused_deep_inside() -> None:
    value: object = {1, 2}
    for _ in range(100_000):
        value = [value]
    with pytest.raises(LosslessJsonError) as caught:
        encode(value)
    assert caught.value.reason == "set is not JSON"
    assert len(str(caught.value)) < 300


def test_lossless_raised_recursion_limit_does_not_overflow_the_stack() -> None:
    """WT-077: before CPython 3.12 the C decoder would run off the stack of this child."""
    path = Path(_lossless.__file__)
    script = (
        "import importlib.util, sys\n"
        f"spec = importlib.util.spec_from_file_location('m', {str(path)!r})\n"
        "m = importlib.util.module_from_spec(spec)\n"
        "sys.modules['m'] = m\n"
        "spec.loader.exec_module(m)\n"
        "sys.setrecursionlimit(10**6)\n"
        "value = m.decode(b'[' * 200_000 + b']' * 200_000)\n"
        "print(len(m.encode(value)), m.measure(value))\n"
    )
    done = subprocess.run(
        [sys.executable, "-I", "-c", script], capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "400000 400000\n", "")


def test_lossless_measure_of_shared_parts_stops_at_the_limit() -> None:
    """WT-076: 2^60 leaves behind 60 lists."""
    value: list[Any] = []
    for _ in range(60):
        value = [value, value]
    assert measure(value, 1_000_000) is None


def test_lossless_measure_stops_early_and_needs_no_copy() -> None:
    """WT-076, WT-077, WT-090."""
    wide = [0] * 300_000
    text = "\0" * 1_000_000
    tracemalloc.start()
    try:
        assert measure(wide, 64) is None
        assert measure(wide) == 600_001
        assert measure(dict.fromkeys(map(str, range(20_000)), text), 64) is None
        assert measure(text) == string_cost(text) == 6_000_002
        assert string_cost(text, 1_000) is None
        assert fitting_prefix(text, 32) == "\0" * 5
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 4 * 2**20


def test_lossless_text_of_many_quotes_is_measured() -> None:
    """WT-076."""
    assert string_cost('"' * 10_000, 32) is None
    assert fitting_prefix('"' * 10_000, 32) == '"' * 15


def test_lossless_value_changed_by_its_own_size_is_refused() -> None:
    """WT-105, in Python's terms: the walk sees another size than it began with."""
    target: dict[str, Any] = {"a": "x" * 50_000, "b": 1}
    walk = _lossless._pieces([target])
    next(walk)
    target["c"] = 2
    with pytest.raises(LosslessJsonError) as caught:
        list(walk)
    assert caught.value.reason == "value changed while it was read"
    items: list[Any] = ["x" * 50_000, 1]
    walk = _lossless._pieces({"a": items})
    next(walk)
    items.pop()
    with pytest.raises(LosslessJsonError) as caught:
        list(walk)
    assert str(caught.value) == "$.a[0]: value changed while it was read"


def test_lossless_value_changed_by_a_thread_is_refused_or_exact() -> None:
    """WT-110: whatever the other thread does, there is a text that decodes or one error."""
    rows: list[Any] = [{"id": i, "tags": ["a", 1.5]} for i in range(800)]
    stop = threading.Event()

    def change() -> None:
        count = 0
        while not stop.is_set():
            count += 1
            row = rows[count % 800]
            row[f"k{count % 5}"] = [count, 2.0]
            row.pop(f"k{(count + 2) % 5}", None)
            row["tags"].append(count)
            del row["tags"][5:]

    thread = threading.Thread(target=change)
    thread.start()
    refusals = {"value changed while it was read"}
    try:
        for _ in range(10):
            try:
                decode(encode(rows))
                measure(rows)
                b"".join(_lossless._pieces(rows))
            except LosslessJsonError as error:
                refusals.add(error.reason)
    finally:
        stop.set()
        thread.join()
    assert refusals == {"value changed while it was read"}


def test_lossless_hostile_numbers_cost_no_quadratic_time() -> None:
    """SC-029: a million digits are refused or read in one pass."""
    digits = b"1" * MILLION
    for text in (digits, b"-" + digits, digits + b".5", b"1e" + digits, digits + b"e9"):
        with pytest.raises(LosslessJsonError):
            decode(b"[" + text + b"]")
    assert decode(b"0." + digits) == 0.1111111111111111
    assert decode(b"1." + b"0" * MILLION) == 1
    assert decode(b"1e" + b"0" * MILLION + b"2") == 100
    assert decode(b"1" + b"0" * 5_000 + b"e-5000") == 1


def test_lossless_many_surrogates_cost_linear_time() -> None:
    """WT-075."""
    assert len(encode("\ud800" * 300_000)) == 1_800_002
    assert len(encode("\ud83d\ude00" * 300_000)) == 1_200_002
    assert cast("str", decode(b'"' + rb"\ud800" * 300_000 + b'"')) == "\ud800" * 300_000


def test_lossless_stands_alone() -> None:
    """The child gets this one file: nothing but the standard library is imported."""
    text = Path(_lossless.__file__).read_text("utf-8")
    imports = [
        line.split()[1] for line in text.splitlines() if line.startswith(("import ", "from "))
    ]
    assert {name.partition(".")[0] for name in imports} <= sys.stdlib_module_names
    assert not any(name.startswith(".") for name in imports)
