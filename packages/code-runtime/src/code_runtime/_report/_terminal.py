"""Prints a run on a terminal, or as plain text into a file; needs rich.

The program with the line that failed, then logs and calls in the order of time, each with a bar on
a common scale, then the value or the failure. One row is one line of the screen: longer texts are
cut. Control characters are spelled out in a file too, since a file may be shown on a terminal.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from rich.text import Text

from . import _words as words
from ._view import Bounds, Line, Row, View, counted, view_run

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import Console

    from code_runtime._vocabulary import CodeRunResult

BOUNDS: Final = Bounds(
    line_count=400,
    row_count=300,
    program_chars=100_000,
    log_chars=50_000,
    entry_chars=500,
    preview_chars=50_000,
    value_chars=20_000,
)
STYLES: Final = {"ok": "green", "error": "red", "refused": "red", "log": "", "gap": "dim"}
TIME_CELLS: Final = 9
KIND_CELLS: Final = 10
LEAST_TRACK_CELLS: Final = 10
LEAST_WIDTH: Final = 40
# Lane, bar and tick; the second row is for encodings that lack the signs of the first.
SIGNS: Final = (("·", "█", "│"), (".", "=", "|"))


def print_run(result: CodeRunResult, out: Console) -> None:
    """Print a recorded run."""
    view = view_run(result, BOUNDS)
    width = max(out.width, LEAST_WIDTH)
    for text in _texts(view, width, _signs(out.encoding)):
        out.print(text, soft_wrap=True)


def _signs(encoding: str) -> tuple[str, str, str]:
    try:
        "".join(SIGNS[0]).encode(encoding)
    except (UnicodeEncodeError, LookupError):
        return SIGNS[1]
    return SIGNS[0]


def _texts(view: View, width: int, signs: tuple[str, str, str]) -> Iterator[Text]:
    colour = "green" if view.kind is None else "red"
    ending = "completed" if view.kind is None else view.kind
    yield Text(f"{words.heading(view)}: {ending}", style=f"bold {colour}")
    yield Text(
        f"{words.duration(view)}, calls: {words.calls(view)}, logs: {view.log_count:,}", style="dim"
    )
    yield from _head("Program", counted(view.line_count, "line"))
    yield from _program(view, width)
    yield from _head("Time line", f"0 to {words.show_ms(view.span_ms)}")
    for row in view.rows:
        yield from _row(row, view, width, signs)
    if not view.rows:
        yield Text("No logs and no calls")
    for note in view.notes:
        yield Text(note, style="dim")
    yield from _outcome(view)


def _head(title: str, aside: str) -> Iterator[Text]:
    yield Text("")
    yield Text.assemble((title, "bold"), (f"  {aside}" if aside else "", "dim"))


def _outcome(view: View) -> Iterator[Text]:
    if view.kind is not None:
        place = "" if view.failing is None else f"line {view.failing.line} of the program"
        yield from _head("Failure", place)
        yield Text(view.message, style="red")
    elif view.value is not None:
        yield from _head("Value", "")
        yield Text(view.value)
    else:
        yield from _head("No value", "")


def _program(view: View, width: int) -> Iterator[Text]:
    expected = 1
    for line in [*view.lines, Line(view.line_count + 1, "")]:
        if line.number > expected:
            left_out = counted(line.number - expected, "line")
            yield Text(f"       ⋮ {left_out} left out here", style="dim")
        if line.number <= view.line_count:
            yield from _program_line(line, width)
        expected = line.number + 1


def _program_line(line: Line, width: int) -> Iterator[Text]:
    sign, style, note = " ", "", ""
    if line.is_failing:
        sign, style, note = ">", "bold red", words.FAILED_HERE
    elif line.is_caller:
        sign, style, note = "+", "yellow", words.CALLED_HERE
    yield _cut(Text(f"{sign} {line.number:>4} | {_one_row(line.text)}", style=style), width)
    if note:
        blank = " " * len(_one_row(line.text[: (line.column or 1) - 1]))
        mark = f"{blank}^ {note}"
        room = width - 9
        yield Text(f"       | {mark if len(mark) <= room else '^ ' + note}", style=style)


def _row(row: Row, view: View, width: int, signs: tuple[str, str, str]) -> Iterator[Text]:
    track_cells = max(LEAST_TRACK_CELLS, width // 4)
    if row.kind == "gap":
        yield Text(" " * (TIME_CELLS + KIND_CELLS + 2) + row.text, style="dim")
        return
    time = "" if row.begin_ms is None else words.show_ms(row.begin_ms)
    style = STYLES.get(row.outcome or row.kind, "yellow")
    rest = row.text
    if row.kind == "call":
        rest = f"{row.text} {words.show_ms(row.duration_ms)}"
        for sign, text in (("<-", row.argument), ("->", row.result)):
            rest += "" if text is None else f" {sign} {text}"
    shown = Text(f"{time:>{TIME_CELLS}}  ")
    shown.append(f"{row.outcome or row.kind:<{KIND_CELLS}}", style=style)
    shown.append(_track(row, view.span_ms, track_cells, signs), style=style)
    shown.append(f" {_one_row(rest)}")
    yield _cut(shown, width)


def _track(row: Row, span_ms: float, cells: int, signs: tuple[str, str, str]) -> str:
    lane, bar, tick = signs
    if row.begin_ms is None:
        return lane * cells
    start = min(int(row.begin_ms / span_ms * cells), cells - 1)
    if row.kind == "log":
        return lane * start + tick + lane * (cells - start - 1)
    length = min(max(1, math.ceil(row.duration_ms / span_ms * cells)), cells - start)
    return lane * start + bar * length + lane * (cells - start - length)


def _one_row(text: str) -> str:
    return text.replace("\t", "    ").replace("\n", "\\n")


def _cut(text: Text, width: int) -> Text:
    text.truncate(width, overflow="ellipsis")
    return text
