"""The page of a run: what it shows, that it shows it as text, and how large it can become."""

from __future__ import annotations

import base64
import hashlib
import re
from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st

from code_runtime import CodeCall, CodeRunFailure, CodeRunResult, RequestError
from code_runtime._cli.text import printable

MAX_PAGE_BYTES = 6_000_000
VOID = {"meta", "input", "rect"}
ELEMENTS = VOID | {
    *("html", "head", "title", "style", "body", "header", "main", "section", "footer", "h1", "h2"),
    *("span", "div", "p", "a", "dl", "dt", "dd", "ol", "li", "code", "small", "mark", "svg"),
    *("fieldset", "label", "details", "summary"),
}
# What a page that is a program of someone else would be made of.
HOSTILE = (
    "</code></li></ol></div></title></style><script>alert(1)</script><img src=x onerror=alert(1)>"
    "&lt;&amp;\"'<!-- ]]> \x00\x1b[31m\r\x85\u202e\ud800\udfff\x7f<svg/onload=alert(1)>"
)


class Reader(HTMLParser):
    """Reads a page back: the text of each element, by the first of its classes or its name."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.names: set[str] = set()
        self.attributes: set[tuple[str, str]] = set()
        self.texts: dict[str, list[str]] = {}
        self._open: list[tuple[str, str, list[str]]] = []
        self.feed(page)
        self.close()
        assert self._open == [], "an element stays open"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.names.add(tag)
        self.attributes |= {(name, value or "") for name, value in attrs}
        if tag not in VOID:
            classes = dict(attrs).get("class") or tag
            self._open.append((tag, classes.split()[0], []))

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID:
            opened, name, parts = self._open.pop()
            assert opened == tag
            self.texts.setdefault(name, []).append("".join(parts))

    def handle_data(self, data: str) -> None:
        for _, _, parts in self._open:
            parts.append(data)

    def handle_comment(self, data: str) -> None:
        raise AssertionError(f"a comment: {data}")


def shown(text: str) -> str:
    return printable(text, terminal=True)


def recorded(
    program: str = "return 1",
    *,
    language: str = "typescript",
    error: CodeRunFailure | None = None,
    logs: list[str] | None = None,
    times_ms: list[float] | None = None,
    calls: list[CodeCall] | None = None,
    calls_dropped: int = 0,
    logs_truncated: bool = False,
) -> CodeRunResult:
    return CodeRunResult(
        logs or [],
        error=error,
        log_times_ms=times_ms,
        calls=calls or [],
        calls_dropped=calls_dropped,
        logs_truncated=logs_truncated,
        program=program,
        language=language,
        elapsed_ms=80.0,
    )


def read(result: CodeRunResult) -> Reader:
    page = result.to_html()
    assert len(page.encode()) <= MAX_PAGE_BYTES
    return Reader(page)


def test_page_of_a_run_without_record_is_refused() -> None:
    with pytest.raises(RequestError) as caught:
        CodeRunResult([]).to_html()
    assert str(caught.value) == (
        "Cannot build a page of CodeRunResult: program is None, "
        "expected that of a run with record=True"
    )


def test_page_shows_the_program_and_marks_the_failing_line_and_its_caller() -> None:
    program = "function f() {\n  throw new Error('x')\n}\nf()\n"
    message = "Error: x\n    at f (program.ts:2:9)\n    at program.ts:4:1"
    page = read(recorded(program, error=CodeRunFailure("exception", message)))
    assert page.texts["code"] == ["function f() {", "  throw new Error('x')", "}", "f()"]
    assert page.texts["fails"] == ["2  throw new Error('x')✕ The program failed here"]
    assert page.texts["calls"] == ["4f()↳ The failing code was called from here"]
    assert page.texts["mark"] == ["new"]
    assert page.texts["text"] == [message]
    assert page.texts["pill"] == ["✕ exception"]
    assert page.texts["a"] == ["Line 2 of the program"]
    assert {("href", "#L2"), ("id", "L2")} <= page.attributes


def test_page_puts_logs_and_calls_in_the_order_of_time() -> None:
    calls = [
        CodeCall("tools", "one", 5.0, 30.0, "ok", argument_preview="[1]", result_preview="2"),
        CodeCall("tools", "two", 20.0, 60.0, "error", result_preview='"no"'),
        CodeCall("tools", "three", 50.0, 20.0, "cancelled"),
    ]
    result = recorded(logs=["first\n", "second\nline"], times_ms=[1.0, 30.0], calls=calls)
    page = read(result)
    assert page.texts["time"] == ["1.00 ms", "5.00 ms", "20.0 ms", "30.0 ms", "50.0 ms"]
    assert page.texts["what"] == [
        "first",
        "tools.one ✓ ok 30.0 ms",
        "tools.two ✕ error 60.0 ms",
        "second\nline",
        "tools.three ◌ cancelled 20.0 ms",
    ]
    assert page.texts["io"] == ["Argument[1]Result2", 'Error"no"']
    bars = re.findall(
        r'class="(?:bar|tick)" x="(.*?)"(?: y="15%")? width="(.*?)"', result.to_html()
    )
    assert bars == [
        ("1.250%", "2"),
        ("6.250%", "37.500%"),
        ("25.000%", "75.000%"),
        ("37.500%", "2"),
        ("62.500%", "25.000%"),
    ]
    assert page.texts["totals"] == ["Duration80.0 msCalls3 (2 not ok)Logs2Lines1"]


def test_page_tells_a_value_null_and_nothing_apart() -> None:
    pages = [
        read(CodeRunResult([], has_value=True, value={"a": [1, None]}, program="x")),
        read(CodeRunResult([], has_value=True, value=None, program="x")),
        read(CodeRunResult([], program="x")),
    ]
    assert [page.texts.get("text", [])[:1] for page in pages[:2]] == [
        ['{"a": [1, null]}'],
        ["null"],
    ]
    assert "The program returned nothing" in pages[2].texts["p"]
    assert pages[2].texts["h1"] == ["Run of a program"]


def test_page_says_what_the_record_lacks() -> None:
    page = read(recorded(logs=["x"], logs_truncated=True, calls_dropped=2))
    assert page.texts["note"] == [
        "Further logs were dropped during the run: they were over the limit.",
        "2 further calls came after those and are only counted.",
    ]


def test_page_allows_itself_nothing_but_its_own_style() -> None:
    html = recorded("x", logs=["y"], times_ms=[1.0]).to_html()
    style = re.findall(r"<style>(.*?)</style>", html, re.DOTALL)[0]
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    assert f'<meta http-equiv="Content-Security-Policy" content="{policy}">' in html
    assert html.index("Content-Security-Policy") < html.index("<style>")
    assert re.findall(r"url\(|@import|src=|style=|\son[a-z]+=|https?:", html) == []


def hostile_everywhere(text: str) -> CodeRunResult:
    call = CodeCall(text, text, 1.0, 2.0, "error", argument_preview=text, result_preview=text)
    return CodeRunResult(
        [text],
        error=CodeRunFailure("exception", text),
        calls=[call],
        log_times_ms=[3.0],
        program=text,
        language=text,
        elapsed_ms=5.0,
    )


def check_texts(text: str) -> None:
    page = read(hostile_everywhere(text))
    assert page.names <= ELEMENTS
    lines = re.split("\r\n|\r|\n", text)
    lines = lines[:-1] if len(lines) > 1 and not lines[-1] else lines
    assert page.texts["code"] == [shown(line) for line in lines]
    assert page.texts["text"] == [shown(text)]
    assert page.texts["name"] == [f"{shown(text)}.{shown(text)}"]
    assert page.texts["io"] == [f"Argument{shown(text)}Error{shown(text)}"]
    log = [what for what in page.texts["what"] if "✕ error" not in what or "✕ error" in text]
    assert shown(text.removesuffix("\n")) in log
    assert page.texts["h1"] == [
        f"Failed run of a {shown(text)} program" if text else "Failed run of a program"
    ]


def test_page_shows_markup_of_a_program_as_text() -> None:
    check_texts(HOSTILE[:100])
    check_texts(HOSTILE[100:])


MARKUP = st.sampled_from(
    ["<", ">", "&", '"', "'", "</", "<!--", "-->", "<script>", "&#60;", "&lt", "]]>", "\n", "\r\n"]
)
TEXTS = st.lists(st.one_of(MARKUP, st.characters(), st.text(max_size=3)), max_size=12).map("".join)


@given(TEXTS.filter(lambda text: len(text) <= 100))
def test_page_shows_any_text_as_it_is(text: str) -> None:
    check_texts(text)


@given(
    st.lists(st.floats() | st.floats(0, 100), max_size=6),
    st.lists(st.tuples(st.floats(), st.floats() | st.floats(0, 1e9)), max_size=6),
    st.none() | st.floats(),
)
def test_page_can_be_drawn_whatever_was_measured(
    times_ms: list[float], moments: list[tuple[float, float]], elapsed_ms: float | None
) -> None:
    calls = [CodeCall("a", "b", begin, took, "ok") for begin, took in moments]
    result = CodeRunResult(
        ["log"] * 4, calls=calls, log_times_ms=times_ms, program="", elapsed_ms=elapsed_ms
    )
    html = result.to_html()
    page = Reader(html)
    assert len(page.texts["what"]) == 4 + len(calls)
    times = [*page.texts["time"], *page.texts["totals"], *page.texts.get("took", [])]
    assert not [text for text in times if "inf" in text or "nan" in text]
    shares = re.findall(r'(?:x|width)="([^"]+)%"', html)
    assert all(0 <= float(share) <= 100 for share in shares)


def test_page_of_a_huge_run_is_bounded_and_says_what_is_left_out() -> None:
    calls = [
        CodeCall("tools", "f", float(index), 0.5, "error" if index == 5_000 else "ok")
        for index in range(10_000)
    ]
    page = read(
        recorded(
            "x\n" * 5_000,
            error=CodeRunFailure("exception", "Error: no\n    at program.ts:4000:1"),
            logs=[f"log {index}" for index in range(100_000)],
            times_ms=[index / 10 for index in range(100_000)],
            calls=calls,
        )
    )
    assert [text for text in page.texts["gap"] if "line" in text] == [
        "⋮2,020 lines left out here",
        "⋮980 lines left out here",
    ]
    assert page.texts["fails"] == ["4000x✕ The program failed here"]
    assert page.texts["log-gap"] == ["99,600 logs left out here"]
    assert page.texts["call-gap"] == ["4,800 calls left out here", "4,799 calls left out here"]
    assert len(page.texts["log-row"]) == 400
    assert sum("✕ error" in what for what in page.texts["what"]) == 1
    assert page.texts["what"].count("log 99999") == 1


WIDE = ["\u2028", "<", "\U0001f600", "&"]


@pytest.mark.parametrize("character", WIDE, ids=["spelled-out", "less-than", "emoji", "ampersand"])
def test_page_is_bounded_whatever_the_program_is_full_of(character: str) -> None:
    call = CodeCall(
        character * 1_000,
        character * 1_000,
        1.0,
        1.0,
        "error",
        argument_preview=character * 680,
        result_preview=character * 680,
    )
    frames = "".join(f'  File "program.py", line {line}, in f\n' for line in range(1, 2_500))
    read(
        CodeRunResult(
            [character * 300] * 100_000,
            error=CodeRunFailure("exception", frames + character * 1_000_000),
            calls=[call] * 10_000,
            program=(character * 70 + "\n") * 5_000,
            language="python",
        )
    )


def test_page_of_one_line_and_one_log_of_megabytes_says_what_is_left_out() -> None:
    page = read(recorded("x" * 8_000_000, logs=["y" * 8_000_000], times_ms=[1.0]))
    assert page.texts["code"] == ["x" * 4_000 + "… (7,996,000 further characters)"]
    assert page.texts["log-row"][0].endswith("y… (7,996,000 further characters)")


def test_page_of_a_value_deeper_than_python_can_recurse_is_bounded() -> None:
    value: object = []
    for _ in range(200_000):
        value = [value]
    page = read(CodeRunResult([], has_value=True, value=value, program="x"))
    assert page.texts["text"][0].startswith("[\n  [\n    [")


def test_page_of_a_value_that_is_no_json_shows_what_it_is() -> None:
    page = read(CodeRunResult([], has_value=True, value={"f": print}, program="x"))
    assert page.texts["text"] == ["{'f': <builtin_function_or_method>}"]


def test_recording_fields_are_checked() -> None:
    with pytest.raises(RequestError) as caught:
        CodeRunResult([], program=b"x")  # type: ignore[arg-type]
    assert str(caught.value) == (
        "Cannot build CodeRunResult: program is bytes, expected str or None"
    )
