"""A completion is charged by its canonical text, however its text is spelled."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from code_runtime._lossless import decode, measure
from code_runtime_worker_thread._session import _read_value

numbers = st.sampled_from(
    ["1e300", "1E+3", "-1e-6", "-0.1e-6", "15e-8", "1.50", "0.000001", "0.0000001", "123.0", "1e0"]
)
fractions = st.floats(-1e9, 1e9).filter(bool).map(repr)
strings = st.builds(json.dumps, st.text(max_size=6), ensure_ascii=st.booleans())
spellings = st.lists(st.one_of(numbers, fractions, strings, st.just(' {"a" : 1, "a":2}')))


@given(spellings, st.integers(-60, 400))
def test_a_completion_fits_when_its_canonical_text_does(parts: list[str], spare: int) -> None:
    """WT-065, WT-066: the spelling of a hostile worker may be shorter or longer than that."""
    text = f"[{','.join(parts)}]".encode()
    room_bytes = max(0, len(text) + spare)
    value, fits = _read_value(text, room_bytes)
    assert value == decode(text)
    assert fits == (measure(value, room_bytes) is not None)


@pytest.mark.parametrize(("text", "cost"), [("1e300", 301), ("1E-6", 8), ("[1e2,1e2]", 9)])
def test_a_number_with_an_exponent_costs_its_digits(text: str, cost: int) -> None:
    assert _read_value(text.encode(), cost)[1]
    assert not _read_value(text.encode(), cost - 1)[1]
