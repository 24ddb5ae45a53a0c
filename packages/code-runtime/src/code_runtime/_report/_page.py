"""Lays a run out as one page: no script, no other file, and a policy that forbids both.

Every text of the page comes through `_text`, and no attribute holds a text of the program: numbers
and words of this module only.
"""

from __future__ import annotations

import base64
import hashlib
from html import escape
from typing import TYPE_CHECKING, Final

from . import _words as words
from ._style import STYLE
from ._view import Bounds, Line, Row, View, counted, view_run

if TYPE_CHECKING:
    from collections.abc import Iterator

    from code_runtime._vocabulary import CallOutcome, CodeRunResult

# How a call ended, by a sign, a word and a colour.
OUTCOMES: Final[dict[CallOutcome, tuple[str, str]]] = {
    "ok": ("✓ ok", "good"),
    "error": ("✕ error", "bad"),
    "refused": ("✕ refused", "bad"),
    "cancelled": ("◌ cancelled", "odd"),
    "abandoned": ("◌ abandoned", "odd"),
}
LEAST_BAR_SHARE: Final = 0.004
TICK_COUNT: Final = 4
LONG_CHARS: Final = 2_000
LONG_LINES: Final = 24


def render_page(result: CodeRunResult) -> str:
    """Return the page of a recorded run."""
    view = view_run(result, Bounds())
    return "".join(_document(view))


def _text(text: str) -> str:
    return escape(text, quote=False)


def _document(view: View) -> Iterator[str]:
    heading = _text(words.heading(view))
    yield (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_policy()}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="referrer" content="no-referrer">\n'
        f"<title>{heading}</title>\n"
        f"<style>{STYLE}</style>\n</head>\n<body>\n"
    )
    yield from _header(view, heading)
    yield "<main>\n"
    yield from _outcome(view)
    yield from _program(view)
    yield from _time_line(view)
    yield "</main>\n<footer>Times count from the start of the program.</footer>\n"
    yield "</body>\n</html>\n"


def _policy() -> str:
    digest = base64.b64encode(hashlib.sha256(STYLE.encode()).digest()).decode()
    return f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"


def _header(view: View, heading: str) -> Iterator[str]:
    sign = "✓ Completed" if view.kind is None else f"✕ {_text(view.kind)}"
    colour = "good" if view.kind is None else "bad"
    yield f'<header>\n<div class="status"><h1>{heading}</h1>'
    yield f'<span class="pill {colour}">{sign}</span></div>\n<dl class="totals">'
    totals = [
        ("Duration", words.duration(view)),
        ("Calls", words.calls(view)),
        ("Logs", f"{view.log_count:,}"),
        ("Lines", f"{view.line_count:,}"),
    ]
    for name, amount in totals:
        yield f"<div><dt>{name}</dt><dd>{amount}</dd></div>"
    yield "</dl>\n</header>\n"


def _outcome(view: View) -> Iterator[str]:
    if view.kind is not None:
        link = ""
        if view.failing is not None:
            line = view.failing.line
            link = f'<p><a href="#L{line}">Line {line} of the program</a></p>'
        yield _section_start("failure", "Failure", link, "wide failed")
        yield _block(view.message, "Message of the failure")
    elif view.value is not None:
        yield _section_start("value", "Value", "", "wide")
        yield _block(view.value, "Value as JSON")
    else:
        yield _section_start("value", "Value", "<p>The program returned nothing</p>", "wide empty")
    yield "</section>\n"


def _block(text: str, label: str) -> str:
    """Return a text of any length; a long one scrolls, by keyboard too."""
    is_long = len(text) > LONG_CHARS or text.count("\n") > LONG_LINES
    scrolls = f' tabindex="0" role="group" aria-label="{label}"' if is_long else ""
    return f'<div class="text{" long" if is_long else ""}"{scrolls}>{_text(text)}</div>\n'


def _section_start(name: str, title: str, aside: str = "", classes: str = "") -> str:
    return (
        f'<section class="{classes}" aria-labelledby="{name}">'
        f'<div class="head"><h2 id="{name}">{title}</h2>{aside}</div>\n'
    )


def _program(view: View) -> Iterator[str]:
    yield _section_start("program", "Program", f"<p>{counted(view.line_count, 'line')}</p>")
    yield '<ol class="source">\n'
    expected = 1
    for line in [*view.lines, Line(view.line_count + 1, "")]:
        if line.number > expected:
            left_out = f"{counted(line.number - expected, 'line')} left out here"
            yield f'<li class="gap"><span class="n">⋮</span><span>{left_out}</span></li>\n'
        if line.number <= view.line_count:
            yield _program_line(line)
        expected = line.number + 1
    yield "</ol>\n</section>\n"


def _program_line(line: Line) -> str:
    classes, note = "", ""
    if line.is_failing:
        classes = ' class="fails" aria-current="true"'
        note = f"<small>✕ {words.FAILED_HERE}</small>"
    elif line.is_caller:
        classes = ' class="calls"'
        note = f"<small>↳ {words.CALLED_HERE}</small>"
    code = _text(line.text)
    if line.column is not None:
        before, after = line.text[: line.column - 1], line.text[line.column - 1 :]
        token = _token(after)
        code = f"{_text(before)}<mark>{_text(token)}</mark>{_text(after[len(token) :])}"
    return (
        f'<li id="L{line.number}"{classes}><span class="n">{line.number}</span>'
        f"<code>{code}</code>{note}</li>\n"
    )


def _token(text: str) -> str:
    """Return the word at the start of a text, or its first character."""
    end = 0
    while end < len(text) and (text[end].isalnum() or text[end] in "_$"):
        end += 1
    return text[: max(end, 1)]


def _time_line(view: View) -> Iterator[str]:
    yield _section_start("time-line", "Time line", _filters(view))
    if view.rows:
        marks = (
            f"<span>{words.show_ms(view.span_ms * step / TICK_COUNT)}</span>"
            for step in (0, TICK_COUNT / 2, TICK_COUNT)
        )
        yield f'<div class="row axis" aria-hidden="true"><span class="scale">{"".join(marks)}'
        yield '</span></div>\n<ol class="rows">\n'
        for row in view.rows:
            yield _row(row, view.span_ms)
        yield "</ol>\n"
    else:
        yield '<p class="note">No logs and no calls</p>\n'
    for note in view.notes:
        yield f'<p class="note">{_text(note)}</p>\n'
    yield "</section>\n"


def _filters(view: View) -> str:
    """Return what hides rows by the style sheet alone, where there is something to choose."""
    choices = [("all", "All")]
    if view.log_count and view.call_count:
        choices += [("logs", "Logs"), ("calls", "Calls")]
    if view.bad_call_count and len(view.rows) > 1:
        choices.append(("bad", "Calls not ok"))
    if len(choices) == 1:
        return ""
    inputs = "".join(
        f'<label><input type="radio" name="show" id="show-{name}"'
        f"{' checked' if name == 'all' else ''}>{label}</label>"
        for name, label in choices
    )
    return f'<fieldset aria-label="Show">{inputs}</fieldset>'


def _row(row: Row, span_ms: float) -> str:
    if row.kind == "gap":
        what = f'<div class="row"><span class="what">{_text(row.text)}</span></div>'
        return f'<li class="{row.gap_of}-gap gap">{what}</li>\n'
    if row.kind == "log":
        return (
            f'<li class="log-row"><div class="row">{_time(row)}{_track(row, span_ms)}'
            f'<span class="what log">{_text(row.text)}</span></div></li>\n'
        )
    return _call(row, span_ms)


def _call(row: Row, span_ms: float) -> str:
    assert row.outcome is not None
    sign, colour = OUTCOMES[row.outcome]
    what = (
        f'<span class="what"><span class="name">{_text(row.text)}</span> '
        f'<span class="how {colour}">{sign}</span> '
        f'<span class="took">{words.show_ms(row.duration_ms)}</span></span>'
    )
    head = f'<div class="row">{_time(row)}{_track(row, span_ms, colour)}{what}</div>'
    texts = [("Argument", row.argument), (words.answer_name(row.outcome), row.result)]
    parts = "".join(
        f"<dt>{name}</dt><dd>{_text(text)}</dd>" for name, text in texts if text is not None
    )
    if parts:
        head = f'<details><summary>{head}</summary><dl class="io">{parts}</dl></details>'
    return f'<li class="call {"is-ok" if row.outcome == "ok" else "is-bad"}">{head}</li>\n'


def _time(row: Row) -> str:
    shown = "" if row.begin_ms is None else words.show_ms(row.begin_ms)
    return f'<span class="time">{shown}</span>'


def _track(row: Row, span_ms: float, colour: str = "") -> str:
    """Draw when a log came or a call was in flight; the same is said in words beside it."""
    shapes = '<rect class="lane" width="100%" height="100%" rx="2"/>'
    if row.begin_ms is not None:
        start = min(row.begin_ms / span_ms, 1 - LEAST_BAR_SHARE)
        if row.kind == "log":
            shapes += f'<rect class="tick" x="{start:.3%}" width="2" height="100%"/>'
        else:
            share = min(max(row.duration_ms / span_ms, LEAST_BAR_SHARE), 1 - start)
            shapes += (
                f'<rect class="bar" x="{start:.3%}" y="15%" width="{share:.3%}" height="70%" '
                'rx="2"/>'
            )
    return f'<span class="track {colour}" aria-hidden="true"><svg>{shapes}</svg></span>'
