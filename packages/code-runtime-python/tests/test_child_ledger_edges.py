"""The child's log ledger: what each entry is charged, to the byte, and the frame it becomes."""

from __future__ import annotations

import json
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from code_runtime._lossless import string_cost
from code_runtime_python._child import ledger as child_ledger
from code_runtime_python._child.ledger import LogLedger

MARKER = b'{"type":"log","text":"[code-runtime] logs truncated at %d bytes","truncated":true}\n'
OTHERS = ['"', "\\", "\n", "é", "€", "😀", "\0"]


def expected_frame(text: str, *, is_open: bool) -> bytes:
    spelled = json.dumps(text, ensure_ascii=False).encode("utf-8", "backslashreplace")
    return b'{"type":"log","text":%b%b}\n' % (spelled, b',"open":true' if is_open else b"")


def test_child_ledger_starts_at_one_byte_less_than_its_budget() -> None:
    """PY-163."""
    ledger = LogLedger(64)
    assert (ledger.max_bytes, ledger.remaining, ledger.truncated) == (64, 63, False)


@pytest.mark.parametrize(
    ("continued", "charged"),
    [pytest.param(False, 13, id="first"), pytest.param(True, 10, id="later")],
)
@pytest.mark.parametrize("is_open", [False, True])
def test_child_ledger_charges_quotes_and_comma_once(
    continued: bool, charged: int, is_open: bool
) -> None:
    """PY-163, PY-166: 10 characters, and 3 bytes around the first part of a line."""
    ledger = LogLedger(64)
    frame = ledger.frame("x" * 10, continued=continued, is_open=is_open)
    assert frame == expected_frame("x" * 10, is_open=is_open)
    assert (ledger.remaining, ledger.truncated) == (63 - charged, False)


@pytest.mark.parametrize("is_open", [False, True])
@pytest.mark.parametrize("continued", [False, True])
@pytest.mark.parametrize("unit", ["x", '"', "€"])
@pytest.mark.parametrize("length", [4_096, 4_097, 8_192, 8_193, 20_000])
def test_child_ledger_cuts_a_long_text_and_charges_it_as_one(
    length: int, unit: str, continued: bool, is_open: bool
) -> None:
    """PY-166: 8,192 characters a frame; all but the last are open."""
    text = unit * length
    cost = len(json.dumps(text, ensure_ascii=False).encode()) + (-2 if continued else 1)
    ledger = LogLedger(cost + 1)
    parts = [text[start : start + 8_192] for start in range(0, length, 8_192)]
    frames = [expected_frame(part, is_open=True) for part in parts[:-1]]
    frames.append(expected_frame(parts[-1], is_open=is_open))
    assert ledger.frame(text, continued=continued, is_open=is_open) == b"".join(frames)
    assert (ledger.remaining, ledger.truncated) == (0, False)
    ledger = LogLedger(cost)
    assert ledger.frame(text, continued=continued, is_open=is_open) == MARKER % cost
    assert (ledger.remaining, ledger.truncated) == (cost - 1, True)


@pytest.mark.parametrize(
    ("continued", "most"), [pytest.param(False, 60, id="first"), pytest.param(True, 63, id="later")]
)
def test_child_ledger_admits_what_fits_exactly_and_not_one_more(continued: bool, most: int) -> None:
    """PY-164, PY-166."""
    ledger = LogLedger(64)
    frame = ledger.frame("x" * most, continued=continued, is_open=False)
    assert frame == expected_frame("x" * most, is_open=False)
    assert (ledger.remaining, ledger.truncated) == (0, False)
    ledger = LogLedger(64)
    assert ledger.frame("x" * (most + 1), continued=continued, is_open=False) == MARKER % 64
    assert (ledger.remaining, ledger.truncated) == (63, True)


@pytest.mark.parametrize("continued", [False, True])
@pytest.mark.parametrize("character", ["x", *OTHERS])
@pytest.mark.parametrize("length", [child_ledger._SHORT, child_ledger._SHORT + 1])
def test_child_ledger_treats_a_long_text_as_a_short_one(
    length: int, character: str, continued: bool
) -> None:
    """PY-163: the length from which on the cost is asked for first changes no verdict."""
    text = character * length
    cost = (string_cost(text) or 0) - (2 if continued else -1)
    ledger = LogLedger(cost + 1)
    frame = ledger.frame(text, continued=continued, is_open=False)
    assert frame == expected_frame(text, is_open=False)
    assert ledger.remaining == 0
    ledger = LogLedger(cost)
    assert ledger.frame(text, continued=continued, is_open=False) == MARKER % cost
    assert ledger.truncated


@pytest.mark.parametrize("continued", [False, True])
def test_child_ledger_refuses_a_long_text_without_spelling_it(continued: bool) -> None:
    """PY-163: a refused line of 4 MB costs no second one."""
    text = "x" * 4_000_000
    ledger = LogLedger(1_000_000)
    tracemalloc.start()
    try:
        assert ledger.frame(text, continued=continued, is_open=False) == MARKER % 1_000_000
        assert tracemalloc.get_traced_memory()[1] < 100_000
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    ("characters", "continued", "fits"),
    [(60, False, True), (61, False, False), (63, True, True), (64, True, False)],
)
def test_child_ledger_tells_what_may_fit(characters: int, continued: bool, fits: bool) -> None:
    """PY-163, PY-166: each character costs a byte at least."""
    assert LogLedger(64).may_fit(characters, continued=continued) is fits


def test_child_ledger_overflow_is_the_marker_of_its_budget() -> None:
    ledger = LogLedger(4_096)
    assert ledger.overflow() == MARKER % 4_096
    assert (ledger.truncated, ledger.remaining) == (True, 4_095)


@pytest.mark.parametrize("text", ["", "a b", "it's {curly} [square] ~", "x" * 60])
def test_child_ledger_charges_a_plain_line_as_any_other(text: str) -> None:
    """PY-163."""
    plain, other = LogLedger(64), LogLedger(64)
    assert plain.plain_frame(text) == other.frame(text, continued=False, is_open=False)
    assert plain.remaining == other.remaining == 60 - len(text)
    assert not plain.truncated


@pytest.mark.parametrize("text", ['a"', "a\\", "a\n", "a\t", "\x7f", "é", "€", "x" * 61], ids=ascii)
def test_child_ledger_leaves_what_is_not_plain_and_charges_nothing(text: str) -> None:
    ledger = LogLedger(64)
    assert ledger.plain_frame(text) is None
    assert (ledger.remaining, ledger.truncated) == (63, False)


@given(
    st.lists(st.tuples(st.text(st.sampled_from(["x", *OTHERS]), max_size=9), st.booleans())),
    st.integers(64, 120),
)
def test_child_ledger_holds_a_list_within_its_budget(
    parts: list[tuple[str, bool]], budget: int
) -> None:
    """PY-163, PY-166: what is left is the budget less the JSON text of the entries."""
    ledger = LogLedger(budget)
    entries: list[str] = []
    was_open = False
    for text, is_open in parts:
        before = ledger.remaining
        ledger.frame(text, continued=was_open, is_open=is_open)
        if ledger.truncated:
            assert ledger.remaining == before
            return
        entries = [*entries[:-1], entries[-1] + text] if was_open else [*entries, text]
        was_open = is_open
        listed = json.dumps(entries, ensure_ascii=False, separators=(",", ":")).encode()
        assert len(listed) == budget - ledger.remaining
