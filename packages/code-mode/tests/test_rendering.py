"""The text that a model reads of a program's result."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from code_mode._render import (
    MAX_LISTED_CALLS,
    NO_OUTPUT,
    render_failure,
    render_success,
    render_value,
    shorten_middle,
)
from code_mode._results import ToolCallRecord
from code_runtime import CodeRunFailure


def test_success_joins_logs_and_value_and_leaves_empty_parts_out() -> None:
    """CM-083."""
    assert render_success(["a", "", "b"], True, "c") == "a\nb\nc"
    assert render_success(["a"], False, None) == "a"
    assert render_success([], True, "") == NO_OUTPUT
    assert render_success([], False, None) == NO_OUTPUT


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("raw \n text", "raw \n text"),
        (None, "null"),
        (True, "true"),
        (1.5, "1.5"),
        (2**60, "1152921504606846976"),
        ([], "[]"),
        ({}, "{}"),
        ({"a": [], "b": {}}, '{\n  "a": [],\n  "b": {}\n}'),
        ([1, {"k": "ü"}], '[\n  1,\n  {\n    "k": "ü"\n  }\n]'),
    ],
)
def test_value_is_shown_as_a_reader_expects(value: object, text: str) -> None:
    """CM-084."""
    assert render_value(value) == text


def test_value_below_five_levels_is_compact() -> None:
    """CM-084."""
    assert render_value([[[[[[1, 2], {"a": 3}]]]]]) == (
        "[\n  [\n    [\n      [\n        [\n          [1,2],\n          "
        '{"a":3}\n        ]\n      ]\n    ]\n  ]\n]'
    )


def test_deep_value_renders_in_few_characters() -> None:
    """CM-085."""
    value: object = 1
    for _ in range(5_000):
        value = [value]
    text = render_value(value)
    assert len(text) < 11_000
    assert "".join(text.split()) == "[" * 5_000 + "1" + "]" * 5_000


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=30,
)


@given(value=st.lists(_JSON) | st.dictionaries(st.text(), _JSON))
def test_rendered_container_is_the_same_json(value: object) -> None:
    assert json.loads(render_value(value)) == value


def test_failure_says_kind_message_output_and_calls() -> None:
    """CM-086."""
    calls = [
        ToolCallRecord("o:code:1", "read", "ok", 0.0, 1.0),
        ToolCallRecord("o:code:2", "write", "error", 1.0, 1.0),
        ToolCallRecord("o:code:3", "send", "cancelled", 2.0, 1.0),
        ToolCallRecord("o:code:4", "wait", "abandoned"),
        ToolCallRecord("o:code:5", "drop", "denied", 2.0, 1.0),
    ]
    previews = {"o:code:1": '{"path":"a"}', "o:code:2": "x" * 200}
    text = render_failure(CodeRunFailure("timeout", "too long"), ["one", "two"], calls, previews)
    assert text == "\n".join(
        [
            "(timeout) too long",
            "",
            "Captured output:",
            "one",
            "two",
            "",
            "Tool calls of the program until then; do not repeat what must happen only once:",
            '1. read({"path":"a"}) finished',
            f"2. write({'x' * 119}…) failed",
            "3. send() was cancelled; it may have had effects",
            "4. wait() was not started",
            "5. drop() was refused",
        ]
    )


def test_failure_without_output_and_calls_is_one_line() -> None:
    """CM-086."""
    assert render_failure(CodeRunFailure("exception", "no"), [], [], {}) == "(exception) no"


def test_failure_lists_the_first_calls_only() -> None:
    calls = [ToolCallRecord(f"o:code:{n}", "t", "ok", 0.0, 1.0) for n in range(1, 60)]
    lines = render_failure(CodeRunFailure("exception", "no"), [], calls, {}).split("\n")
    assert lines[-2:] == [f"{MAX_LISTED_CALLS}. t() finished", "… and 9 more"]


def test_long_text_loses_its_middle() -> None:
    """CM-089."""
    text = "a" * 600 + "b" * 600
    short = shorten_middle(text, 380)
    assert short == (
        "a" * 200 + "\n… 900 characters left out; print or return less …\n" + "b" * 100
    )
    assert len(short) <= 380
    assert shorten_middle(text, 1) == "\n… 1200 characters left out; print or return less …\n"
    assert shorten_middle(text, 1_200) == text
