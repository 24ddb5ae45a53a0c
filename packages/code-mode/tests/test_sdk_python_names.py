"""Names, comments and literals of the Python SDK text."""

from __future__ import annotations

import ast
import keyword
import unicodedata

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from code_mode._sdk.python_names import (
    ClassNames,
    camel_case,
    class_base,
    in_code_units,
    is_bare,
    is_field_name,
    is_method_name,
    join_base,
)
from code_mode._sdk.python_text import (
    docstring,
    fence,
    literal_parts,
    plain,
    quoted_type,
    shortened,
    string_literal,
)

hostile_texts = st.text(
    st.characters(codec=None)
    | st.sampled_from('"\\\n\r\t\0\x1c\x7f\x85\xa0\u2028\u2029\ud800\udfff`#{}ﬁ½ŉßͅ😀'),
    max_size=200,
)


@pytest.mark.parametrize(
    "name", ["a", "read_file", "match", "case", "type", "_", "日本", "é", "async_"]
)
def test_a_name_of_letters_is_bare(name: str) -> None:
    """CM-051."""
    assert is_bare(name)


@pytest.mark.parametrize(
    "name",
    [
        pytest.param("", id="empty"),
        pytest.param("1a", id="digit first"),
        pytest.param("a-b", id="hyphen"),
        pytest.param("ﬁle", id="another name in NFKC"),
        pytest.param("e\u0301", id="not composed"),
        pytest.param("__debug__", id="debug"),
        pytest.param("\ud800", id="surrogate"),
        *[pytest.param(word, id=word) for word in keyword.kwlist],
    ],
)
def test_another_name_is_not_bare(name: str) -> None:
    """CM-051."""
    assert not is_bare(name)


def test_there_are_thirty_five_hard_keywords() -> None:
    """CM-051."""
    assert len(keyword.kwlist) == 35


def test_a_tool_with_a_leading_underscore_is_no_method() -> None:
    """CM-046."""
    assert [is_method_name(name) for name in ("_a", "__a__", "a_", "a")] == [
        False,
        False,
        True,
        True,
    ]


def test_a_key_that_python_would_mangle_is_no_field() -> None:
    """CM-051."""
    names = ("_a", "__a", "__a__", "a__")
    assert [is_field_name(name) for name in names] == [True, False, False, True]


def test_names_are_ordered_by_their_code_units() -> None:
    """CM-044."""
    # U+FF01 is behind the surrogates of U+1F600, though the smaller code point.
    assert sorted(["\uff01", "😀", "b", "B", "_"], key=in_code_units) == [
        "B",
        "_",
        "b",
        "😀",
        "\uff01",
    ]


@pytest.mark.parametrize(
    ("head", "tail", "expected"),
    [
        ("read_file", "Args", "ReadFileArgs"),
        ("get-HTTP url", "Output", "GetHTTPUrlOutput"),
        ("2fa", "Args", "Tool2faArgs"),
        ("???", "Args", "ToolArgs"),
        ("日本語", "Args", "日本語Args"),
        ("ﬁle", "Args", "FileArgs"),
        ("\u0301x", "Args", "Too\u013axArgs"),
        ("None", "", "None"),
    ],
)
def test_a_class_is_called_in_camel_case(head: str, tail: str, expected: str) -> None:
    """CM-050."""
    assert class_base(head, tail) == expected


def test_the_base_of_a_class_name_is_normalised_after_a_join() -> None:
    """CM-050."""
    assert join_base("ItemE", "\u0301") == "ItemÉ"


def test_the_base_of_a_class_name_is_cut_at_120_units() -> None:
    """CM-050."""
    assert join_base("A" * 100, "B" * 100) == "A" * 100 + "B" * 20
    assert join_base("A" * 119, "😀") == "A" * 119
    assert join_base("A" * 118, "\U0001d4b3x") == "A" * 118 + "Xx"
    assert join_base("A" * 118, "𐐀x") == "A" * 118 + "𐐀"
    assert join_base("A" * 119, "𐐀x") == "A" * 119


def test_a_long_tool_name_keeps_its_ending() -> None:
    """CM-050."""
    assert class_base("a" * 256, "Output") == "A" + "a" * 111 + "Output"


def test_names_that_are_taken_get_the_next_free_number() -> None:
    """CM-050."""
    names = ClassNames()
    assert names.take("A2") == "A2"
    assert [names.take("A") for _ in range(4)] == ["A", "A3", "A4", "A5"]
    assert names.take("A3") == "A32"


@pytest.mark.parametrize("base", ["Tools", "tools", "ToolCallError", "Any", "list", "None", "True"])
def test_a_class_hides_no_name_of_the_text(base: str) -> None:
    assert ClassNames().take(base) == f"{base}2"


@given(hostile_texts, hostile_texts)
@example("𐐀" * 60, "ͅ")
@example("ŉ", "½")
def test_every_class_name_is_an_identifier(head: str, more: str) -> None:
    """CM-050."""
    base = join_base(class_base(head, "Args"), camel_case(more))
    assert base.isidentifier()
    assert unicodedata.is_normalized("NFKC", base)
    assert len(base.encode("utf-16-le")) <= 240


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("  one\n\ttwo\u2028three\u00a0 four\x85", "one two three four"),
        ("\x00\x1b[0m\x7f\x9f", "\\x00\\x1b[0m\\x7f\\x9f"),
        ("a\ud800b\udfff😀", "a\\ud800b\\udfff😀"),
        (" \n\t\u3000", ""),
    ],
)
def test_a_description_becomes_one_line(text: str, expected: str) -> None:
    """CM-053."""
    assert plain(text) == expected


def test_a_docstring_doubles_backslashes_and_escapes_quotes() -> None:
    """CM-053."""
    assert docstring(r'a "b" \n') == r'"""a \"b\" \\n"""'


@given(hostile_texts)
def test_a_docstring_says_what_the_comment_says(text: str) -> None:
    line = plain(text)
    assert ast.literal_eval(docstring(line)) == line
    assert ast.parse(f"# {line}").body == []
    assert line.encode().decode() == line


@given(hostile_texts)
def test_a_string_literal_is_the_string(value: str) -> None:
    """CM-052."""
    literal = string_literal(value)
    assert ast.literal_eval(literal) == value
    assert literal.encode().decode() == literal
    assert len(literal.splitlines()) == 1


@given(hostile_texts)
def test_a_quoted_type_is_the_type(text: str) -> None:
    assert ast.literal_eval(quoted_type(f"Literal[{string_literal(text)}]")) == (
        f"Literal[{string_literal(text)}]"
    )


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([True, False], ["Literal[True, False]"]),
        (["a", 'b"\n', 1, -2], ['Literal["a", "b\\"\\n", 1, -2]']),
        ([2**60], ["Literal[1152921504606846976]"]),
        ([1e21], ["Literal[1000000000000000000000]"]),
        ([1.0, 1], ["Literal[1]"]),
        ([1, True], ["Literal[1, True]"]),
        ([0.5], ["Literal[0.5]"]),
        ([None], ["None"]),
        (["a", None], ['Literal["a", None]']),
        ([[1], {"a": 1}, "x"], ['Literal["x"]', "list[Any]", "dict[str, Any]"]),
        ([10**5000, float("inf"), object()], ["int", "float", "Any"]),
        ([], []),
    ],
)
def test_literals_are_spelled_in_python(values: list[object], expected: list[str]) -> None:
    """CM-052."""
    assert literal_parts(values) == expected


def test_a_summary_is_cut_behind_a_word() -> None:
    assert shortened("one two three", 13) == "one two three"
    assert shortened("one two three", 12) == "one two…"
    assert shortened("one two three", 8) == "one two…"
    assert shortened("x" * 20, 10) == "x" * 9 + "…"


@pytest.mark.parametrize(
    ("block", "expected"), [("a ` b `` c", "```"), ("a ``` b", "````"), ("`````", "``````")]
)
def test_a_fence_is_longer_than_any_in_the_block(block: str, expected: str) -> None:
    assert fence(block) == expected
