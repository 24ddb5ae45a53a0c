"""Which line of a program a failure names."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from code_runtime._report._position import Failing, find_failing, split_lines

LINES = ["one()", "two()", "😀.three()"]
TRACEBACK = "Traceback (most recent call last):\n"


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        pytest.param(
            "Error: x\n  1 | one()\n    at f (program.ts:1:2)\n    at program.ts:2:1",
            Failing(1, 2, frozenset({2})),
            id="typescript-frames",
        ),
        pytest.param("    at async f (program.ts:3:4)", Failing(3, 3), id="utf-16-column"),
        pytest.param("    at program.ts:1:60", Failing(1), id="column-behind-the-line"),
        pytest.param("    at program.ts:1:0", Failing(1), id="column-zero"),
        pytest.param(
            "Error: a\n    at program.ts:2:1\nCaused by: Error: b\n    at program.ts:1:1",
            Failing(2, 1),
            id="not-the-cause",
        ),
        pytest.param(
            TRACEBACK + '  File "program.py", line 3, in <module>\n    f()\n'
            '  File "program.py", line 1, in f\n    one()\nValueError: x',
            Failing(1, None, frozenset({3})),
            id="python-traceback",
        ),
        pytest.param(
            TRACEBACK + '  File "program.py", line 2, in <module>\nKeyError: 1\n\nDuring handling '
            f'of it:\n\n{TRACEBACK}  File "program.py", line 3, in <module>\nValueError: x',
            Failing(3),
            id="python-last-of-a-chain",
        ),
        pytest.param(
            TRACEBACK + '  File "program.py", line 2, in <module>\n'
            "  Library json.decoder, line 353, in raw_decode\n"
            "JSONDecodeError: Expecting value: line 1 column 1 (char 0)",
            Failing(2),
            id="python-library",
        ),
        pytest.param(
            '  File "program.py", line 1\n    one(\n       ^\nSyntaxError: never closed',
            Failing(1),
            id="python-syntax",
        ),
        pytest.param("KeyError: 'gone' (line 3)", Failing(3), id="other-provider"),
        pytest.param("wall-clock ceiling exceeded: 50 ms", None, id="no-place"),
        pytest.param("    at program.ts:4:1", None, id="behind-the-program"),
        pytest.param("    at program.ts:0:1", None, id="line-zero"),
        pytest.param("", None, id="empty"),
    ],
)
def test_failing_place_is_that_of_the_innermost_frame(
    message: str, expected: Failing | None
) -> None:
    assert find_failing(LINES, message) == expected


def test_lines_are_counted_as_the_compiler_of_the_language_counts() -> None:
    program = "a\r\nb\rc\u2028d\x0ce\n"
    assert split_lines(program, "typescript") == ["a", "b", "c", "d\x0ce"]
    assert split_lines(program, "python") == ["a", "b", "c\u2028d\x0ce"]
    assert split_lines("", "python") == [""]


@given(st.text(), st.text(), st.integers(0, 10**12), st.integers(0, 10**12))
def test_failing_place_is_in_the_program_or_none(
    program: str, text: str, line: int, column: int
) -> None:
    lines = split_lines(program, "typescript")
    found = find_failing(lines, f"{text}\n    at program.ts:{line}:{column}\n{text}")
    if found is not None:
        assert 1 <= found.line <= len(lines)
        assert found.column is None or 1 <= found.column <= len(lines[found.line - 1])
        assert all(1 <= number <= len(lines) for number in found.callers)


def test_failing_place_is_found_in_megabytes_of_near_misses() -> None:
    """A pattern that goes back and forth would not end within the timeout of a test."""
    for part in ("\n", " ", "    at ", "    at (", '  File "program.py", line ', "program.ts:"):
        assert find_failing(LINES, part * (4_000_000 // len(part))) is None
