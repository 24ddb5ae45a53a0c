from __future__ import annotations

import json

import pytest

from code_runtime._cli.bindings import Reference, parse_reference
from code_runtime._cli.discovery import language_of
from code_runtime._cli.text import pretty, printable, source_frame
from code_runtime._lossless import JsonValue


def test_pretty_keeps_on_one_line_what_fits() -> None:
    rows: list[JsonValue] = [{"a": 1, "b": "x"}, {"a": 2, "b": "y"}]
    long: list[JsonValue] = ["x" * 60, "x" * 60]
    value: JsonValue = {"rows": rows, "none": [], "long": long}
    assert pretty(value, width=40) == "\n".join(
        [
            "{",
            '  "rows": [',
            '    {"a": 1, "b": "x"},',
            '    {"a": 2, "b": "y"}',
            "  ],",
            '  "none": [],',
            '  "long": [',
            f'    "{"x" * 60}",',
            f'    "{"x" * 60}"',
            "  ]",
            "}",
        ]
    )


@pytest.mark.parametrize("value", [None, True, 0, 1.5, 2**60, "é\n", [], {}, [[]], {"": {"": 1}}])
@pytest.mark.parametrize("width", [1, 88])
def test_pretty_is_json_of_the_value(value: JsonValue, width: int) -> None:
    assert json.loads(pretty(value, width=width)) == value


def test_printable_on_a_terminal_spells_out_every_control_character() -> None:
    kept = {chr(code) for code in range(0xA0) if printable(chr(code), terminal=True) == chr(code)}
    assert kept == {chr(code) for code in range(0x20, 0x7F)} | {"\t", "\n"}
    assert printable("a\x1b[2J\u202e\ud800", terminal=True) == "a\\x1b[2J\\u202e\\ud800"


def test_printable_in_a_file_changes_lone_surrogates_only() -> None:
    assert printable("a\x1b[2J\u202e\ud800", terminal=False) == "a\x1b[2J\u202e\\ud800"


def test_source_frame_marks_line_and_column() -> None:
    frame = source_frame("let a = 1;\n\tboom();\nreturn a;", "Error: no (program.ts:2:2)")
    assert frame == "     1 | let a = 1;\n>    2 | \tboom();\n       | \t^\n     3 | return a;"


@pytest.mark.parametrize(
    "message",
    ["Error: no", "at program.ts:9:1", "program.ts:2:1 boom() failed", "program.ts:0:1"],
    ids=["no-position", "outside", "line-is-shown", "line-zero"],
)
def test_source_frame_is_empty_without_a_line_to_show(message: str) -> None:
    assert source_frame("let a = 1;\nboom()", message) == ""


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a/b.py", Reference("a/b.py", "bindings")),
        ("a/b.py:tools", Reference("a/b.py", "tools")),
        ("pkg.mod", Reference("pkg.mod", "bindings")),
        ("pkg.mod:make", Reference("pkg.mod", "make")),
    ],
)
def test_parse_reference_splits_source_and_name(text: str, expected: Reference) -> None:
    assert parse_reference(text) == expected


def test_reference_is_a_file_by_suffix_or_separator() -> None:
    assert [parse_reference(text).is_file for text in ("a.py", "./a", "pkg.mod")] == [
        True,
        True,
        False,
    ]


@pytest.mark.parametrize(
    ("file", "language"),
    [("a.ts", "typescript"), ("a.MJS", "typescript"), ("-", "typescript"), ("b.py", "python")],
)
def test_language_follows_the_suffix(file: str, language: str) -> None:
    assert language_of(file) == language
