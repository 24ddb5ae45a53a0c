"""A run as text for a terminal."""

from __future__ import annotations

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console

from code_runtime import CodeCall, CodeRunFailure, CodeRunResult
from code_runtime._report._terminal import print_run

MAX_LINES = 1_100
MAX_CHARS = 1_000_000


def printed(result: CodeRunResult, *, width: int = 100, terminal: bool = False) -> str:
    file = io.StringIO()
    colours = "standard" if terminal else None
    print_run(
        result,
        Console(
            file=file,
            width=width,
            force_terminal=terminal,
            color_system="standard" if colours else None,
            highlight=False,
            markup=False,
            emoji=False,
        ),
    )
    return file.getvalue()


FAILED = CodeRunResult(
    ["first", "second\nline"],
    error=CodeRunFailure(
        "exception", "Error: no\n    at f (program.ts:2:7)\n    at program.ts:4:1"
    ),
    log_times_ms=[10.0, 50.0],
    calls=[
        CodeCall("tools", "one", 20.0, 40.0, "ok", argument_preview="[1]", result_preview="2"),
        CodeCall("tools", "two", 60.0, 40.0, "error"),
    ],
    program="function f() {\n\tthrow no\n}\nf()\n",
    language="typescript",
    elapsed_ms=100.0,
)


def test_failed_run_is_shown_in_full() -> None:
    assert printed(FAILED, width=60).splitlines() == [
        "Failed run of a TypeScript program: exception",
        "100 ms, calls: 2 (1 not ok), logs: 2",
        "",
        "Program  4 lines",
        "     1 | function f() {",
        ">    2 |     throw no",
        "       |          ^ The program failed here",
        "     3 | }",
        "+    4 | f()",
        "       | ^ The failing code was called from here",
        "",
        "Time line  0 to 100 ms",
        "  10.0 ms  log       ·│············· first",
        "  20.0 ms  ok        ···██████······ tools.one 40.0 ms <- […",
        "  50.0 ms  log       ·······│······· second\\nline",
        "  60.0 ms  error     ·········██████ tools.two 40.0 ms",
        "",
        "Failure  line 2 of the program",
        "Error: no",
        "    at f (program.ts:2:7)",
        "    at program.ts:4:1",
    ]


def test_completed_run_ends_with_its_value() -> None:
    done = CodeRunResult([], has_value=True, value={"a": None}, program="x", elapsed_ms=1.0)
    assert printed(done).splitlines()[-6:] == [
        "",
        "Time line  0 to 1.00 ms",
        "No logs and no calls",
        "",
        "Value",
        '{"a": null}',
    ]
    assert printed(CodeRunResult([], program="x")).splitlines()[-1] == "No value"


def test_call_that_took_no_time_has_a_bar() -> None:
    calls = [CodeCall("a", "b", begin_ms, 0.0, "ok") for begin_ms in (0.0, 10.0)]
    result = CodeRunResult([], calls=calls, program="x", elapsed_ms=10.0)
    rows = printed(result, width=40).splitlines()
    assert "     0 ms  ok        █········· a.b 0 ms" in rows
    assert "   10.0 ms  ok        ·········█ a.b 0 ms" in [f" {row}" for row in rows]


def test_output_that_cannot_hold_the_signs_has_plain_ones() -> None:
    file = io.TextIOWrapper(io.BytesIO(), "ascii", "backslashreplace")
    print_run(FAILED, Console(file=file, width=60))
    file.seek(0)
    assert "  20.0 ms  ok        ...======...... tools.one 40.0 ms <- [" in file.read()


@given(st.text(max_size=40), st.booleans())
def test_no_control_character_of_a_program_reaches_the_terminal(text: str, terminal: bool) -> None:
    hostile = text + "\x1b[2J\x1b]0;owned\x07\x9b31m\r\x08\u202e\ud800[red][/]"
    call = CodeCall(hostile, hostile, 1.0, 2.0, "error", argument_preview=hostile)
    result = CodeRunResult(
        [hostile],
        error=CodeRunFailure("exception", hostile),
        calls=[call],
        log_times_ms=[1.0],
        program=hostile,
        language=hostile,
    )
    seen = printed(result, terminal=terminal)
    if terminal:  # what is left there is the colours of this package
        seen = seen.replace("\x1b[0m", "")
        for code in ("1;31", "2", "1", "31"):
            seen = seen.replace(f"\x1b[{code}m", "")
    assert {character for character in seen if character < " " or "\x7f" <= character < "\xa0"} == {
        "\n"
    }
    assert not {"\u202e", "\ud800"} & set(seen)
    assert "[red][/]" in seen


@pytest.mark.parametrize("width", [1, 40, 80, 200])
def test_rows_are_as_wide_as_the_terminal(width: int) -> None:
    wide = "漢字" * 200
    calls = [CodeCall(wide, wide, 1.0, 2.0, "abandoned", argument_preview=wide)]
    result = CodeRunResult([wide], calls=calls, log_times_ms=[1.0], program=wide, elapsed_ms=3.0)
    rows = printed(result, width=width).splitlines()
    assert max(map(cell_len, rows)) <= max(width, 40)


def test_text_of_a_huge_run_is_bounded_and_says_what_is_left_out() -> None:
    result = CodeRunResult(
        ["\x01" * 100] * 100_000,
        error=CodeRunFailure("exception", "x" * 1_000_000 + "\n    at program.ts:4000:1"),
        calls=[CodeCall("\x01" * 500, "f", 1.0, 1.0, "error")] * 10_000,
        calls_dropped=7,
        log_times_ms=[1.0] * 100_000,
        program="\x01\n" * 5_000,
        language="typescript",
    )
    text = printed(result)
    assert text.count("\n") < MAX_LINES
    assert len(text) < MAX_CHARS
    assert "       ⋮ 3,620 lines left out here\n" in text
    assert "99,800 logs left out here\n" in text
    assert "9,700 calls left out here\n" in text
    assert "7 further calls came after those and are only counted.\n" in text
    assert "> 4000 | \\x01\n       | ^ The program failed here\n" in text
