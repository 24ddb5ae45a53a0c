"""Arithmetic of the output ledger."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from code_runtime._execution._logs import LogBook, LogObserver, plain_text
from code_runtime._ledger import OutputLedger, limit_message, settle_early
from code_runtime._lossless import encode, measure, string_cost

DIRECTORY = Path(__file__).parents[3] / "tests/vectors/ledger"


def load(name: str) -> dict[str, Any]:
    return cast("dict[str, Any]", json.loads((DIRECTORY / name).read_text("utf-8")))


def params(name: str) -> list[Any]:
    cases = load(name)["cases"]
    return [pytest.param(case, id=f"{case['spec']} {case['name']}") for case in cases]


def expand(text: str | dict[str, Any]) -> str:
    return text if isinstance(text, str) else text["repeat"] * text["times"]


def json_cost(value: object) -> int:
    """Count what Python's own encoder writes; lone surrogates are six ASCII characters."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return len(text.encode("utf-8", "backslashreplace"))


def settle(ledger: OutputLedger, end: dict[str, Any]) -> dict[str, Any]:
    if "message" in end:
        message = expand(end["message"])
        fits = ledger.fits_message(message)
        total = ledger.spent_bytes + json_cost(message)
    else:
        cost: int | None = end.get("value_bytes", 0)
        if "value" in end:
            cost = measure(end["value"], ledger.remaining_bytes)
        elif "string" in end:
            cost = measure(expand(end["string"]), ledger.remaining_bytes)
        fits = ledger.fits_value(cost)
        total = ledger.spent_bytes + (cost or 0)
    if not fits:
        logs, diagnostic = ledger.limit_result()
        return {"outcome": "output-limit", "logs": logs, "message": diagnostic}
    outcome = "failure" if "message" in end else "ok"
    return {"outcome": outcome, "logs": ledger.logs, "total": total}


@pytest.mark.parametrize("case", params("outcomes.json"))
def test_ledger_outcome_vector(case: dict[str, Any]) -> None:
    """WT-065 to WT-094; each case names its line."""
    ledger = OutputLedger(case["cap"])
    logs = [expand(log) for log in case["logs"]]
    for log in logs:
        ledger.admit(log)
    assert settle(ledger, case["end"]) == {"logs": logs, **case["expected"]}


@pytest.mark.parametrize("case", params("admission.json"))
def test_ledger_admission_vector(case: dict[str, Any]) -> None:
    """WT-067, WT-078, WT-079, WT-080."""
    ledger = OutputLedger(case["cap"])
    admitted = [ledger.admit(entry) for entry in case["entries"]]
    assert ledger.logs == case["kept"]
    assert ledger.remaining_bytes == case["remaining"]
    assert ledger.exceeded is case["exceeded"]
    assert all(admitted) is not case["exceeded"]


@pytest.mark.parametrize("case", params("early.json"))
def test_ledger_early_failure_vector(case: dict[str, Any]) -> None:
    """WT-013, BF-012."""
    logs, kind, message = settle_early(case["cap"], case["kind"], case["message"])
    assert {"kind": kind, "logs": logs, "message": message} == case["expected"]


@pytest.mark.parametrize("cap", [4, 10, 64, 67_108_864])
def test_ledger_limit_message_is_28_characters_and_digits(cap: int) -> None:
    """WT-081."""
    assert len(limit_message(cap)) == 28 + len(str(cap))
    assert limit_message(cap).isascii()
    assert load("outcomes.json")["diagnostic"].format(cap=cap) == limit_message(cap)


def test_ledger_exhausted_by_the_far_side_drops_what_follows() -> None:
    """WT-080, WT-091."""
    ledger = OutputLedger(100)
    assert ledger.admit("first")
    ledger.exhaust()
    assert not ledger.admit("later")
    assert not ledger.fits_message("")
    assert not ledger.fits_value(0)
    assert ledger.remaining_bytes == 0
    assert ledger.limit_result() == (["first"], "Output is larger than 100 bytes")


def test_ledger_cuts_a_million_characters_without_reading_them_all() -> None:
    """WT-076, WT-085, WT-087."""
    ledger = OutputLedger(96)
    assert not ledger.admit('😀"\\\n' * 1_000_000)
    assert ledger.spent_bytes <= 96
    logs, message = ledger.limit_result()
    assert logs == ['😀"\\\n' * 6]
    assert message == "Output is larger than 96 bytes"


text = st.text(st.sampled_from('ab"\\\n\0é€😀\ud800\udc00'), max_size=12)


def reference_prefix(entry: str, budget: int) -> str:
    """Take whole code points, a spelled-out pair as one, while they fit."""
    units = entry.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
    taken = ""
    for unit in units:
        if json_cost(taken + unit) > budget:
            break
        taken += unit
    return taken if budget >= 2 else ""


def combined(logs: list[str]) -> list[str]:
    return [
        log.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
        for log in logs
    ]


@settings(deadline=None)  # a loaded machine is no fault
@given(st.integers(4, 120), st.lists(text, max_size=8))
def test_ledger_equals_a_naive_one(cap: int, entries: list[str]) -> None:
    """WT-067, WT-069, WT-079, WT-081."""
    ledger = OutputLedger(cap)
    for entry in entries:
        ledger.admit(entry)
    whole = combined(entries)
    if json_cost(whole) <= cap:
        assert combined(ledger.logs) == whole
        assert ledger.spent_bytes == json_cost(whole)
    else:
        assert ledger.exceeded
        assert json_cost(combined(ledger.logs)) == ledger.spent_bytes <= cap
    logs, message = ledger.limit_result()
    budget = cap - len(limit_message(cap)) - 2
    expected: list[str] = []
    for entry in combined(entries):
        if json_cost([*expected, entry]) <= budget:
            expected.append(entry)
            continue
        spent = json_cost(expected) + bool(expected)
        if prefix := reference_prefix(entry, budget - spent):
            expected.append(prefix)
        break
    assert combined(logs) == expected
    assert message == reference_prefix(limit_message(cap), cap - json_cost(expected))
    assert json_cost(expected) + json_cost(message) <= cap


@pytest.mark.parametrize("text", ["", "plain text", "it's {curly} [square] ~", " " * 40])
def test_plain_text_reads_what_costs_as_many_bytes_as_it_has(text: str) -> None:
    spelled = encode(text)
    assert plain_text(spelled) == text
    assert string_cost(text) == len(spelled)


@pytest.mark.parametrize(
    "spelled",
    [b"", b'"', b'"a', b'a"', b"aa", b'"a\\n"', b'"a"b"', b'"\x7f"', b'"\x01"', b'"\xc3\xa9"', b'"a" ',
     b' "a"', b'"a","b"', b"12", b'"a\n"'],
)  # fmt: skip
def test_plain_text_leaves_every_other_spelling_to_the_decoder(spelled: bytes) -> None:
    assert plain_text(spelled) is None


@given(st.text(max_size=20), st.integers(2, 60))
def test_a_known_cost_changes_nothing(text: str, max_bytes: int) -> None:
    """WT-065, WT-079."""
    known, asked = OutputLedger(max_bytes), OutputLedger(max_bytes)
    for _ in range(3):
        assert known.admit(text, string_cost(text)) == asked.admit(text)
    assert (known.logs, known.spent_bytes, known.exceeded) == (
        asked.logs,
        asked.spent_bytes,
        asked.exceeded,
    )


@given(
    st.lists(st.text(st.sampled_from("ab c"), max_size=5), max_size=4),
    st.lists(st.text(st.sampled_from("ab c"), max_size=5), min_size=1, max_size=8),
    st.integers(4, 80),
)
def test_many_plain_entries_are_charged_as_each_of_them(
    before: list[str], texts: list[str], max_bytes: int
) -> None:
    single, joined = OutputLedger(max_bytes), OutputLedger(max_bytes)
    for text in before:
        assert single.admit(text) == joined.admit(text)
    observer = LogObserver(None, record=False)
    fits = all(single.admit(text) for text in texts)
    cost_bytes = sum(len(text) + 2 for text in texts)
    assert LogBook(joined, observer).admit_plain(texts, cost_bytes) == fits
    assert joined.logs == single.logs
    assert joined.spent_bytes == single.spent_bytes
    assert joined.exceeded == single.exceeded


def test_many_entries_fit_to_the_byte_or_not_at_all() -> None:
    """WT-079: two brackets, `"ab"`, a comma, `"c"`; then a comma before each."""
    fits, over = OutputLedger(14), OutputLedger(9)
    assert fits.admit_all(["ab", "c"], 7)
    assert fits.admit_all(["d"], 3)
    assert not fits.admit_all([""], 2)
    assert (fits.logs, fits.spent_bytes, fits.exceeded) == (["ab", "c", "d"], 14, False)
    assert not over.admit_all(["ab", "c"], 7)
    assert (over.logs, over.spent_bytes, over.exceeded) == ([], 2, False)
    over.exhaust()
    assert not over.admit_all(["a"], 3)
