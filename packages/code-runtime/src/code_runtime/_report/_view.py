"""The part of a run that is shown: bounded, without recursion, every text fit to be shown.

The bounds hold whatever the program did. Of many logs and calls the first and the last are shown,
and of the calls between them those that went wrong; what is left out is counted.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, cast

from code_runtime._cli.text import pretty, printable
from code_runtime._lossless import JsonValue, LosslessJsonError
from code_runtime._text import bounded_repr

from ._position import Failing, find_failing, split_lines

if TYPE_CHECKING:
    from collections.abc import Sequence

    from code_runtime._vocabulary import CallOutcome, CodeCall, CodeRunResult

CONTEXT_LINES: Final = 20
MAX_NAME_CHARS: Final = 100


@dataclass(frozen=True, slots=True)
class Bounds:
    """How much of a run is shown.

    Args:
        line_count: Lines of the program.
        row_count: Logs, and likewise calls.
        program_chars: Characters of the program.
        log_chars: Characters of all logs.
        entry_chars: Characters of one log, or of one line of the program.
        preview_chars: Characters of all arguments and results of calls.
        value_chars: Characters of the value, or of the message of the failure.
    """

    line_count: int = 2_000
    row_count: int = 600
    program_chars: int = 150_000
    log_chars: int = 150_000
    entry_chars: int = 4_000
    preview_chars: int = 150_000
    value_chars: int = 50_000


@dataclass(frozen=True, slots=True)
class Line:
    """One line of the program; `column` is the character, from 1, at which it failed."""

    number: int
    text: str
    is_caller: bool = False
    column: int | None = None
    is_failing: bool = False


@dataclass(frozen=True, slots=True)
class Row:
    """A log or a call on the time line.

    Units: milliseconds from the start of the program.

    Args:
        kind: Which of them, or `gap` for what is left out here.
        text: The log; the name of the function; what is left out.
        begin_ms: When; None when it is not known.
        duration_ms: How long a call took.
        outcome: How a call ended.
        argument: The start of its argument, None when it is not known.
        result: The start of its result or error, None when it is not known.
    """

    kind: Literal["log", "call", "gap"]
    text: str
    begin_ms: float | None
    duration_ms: float = 0.0
    outcome: CallOutcome | None = None
    argument: str | None = None
    result: str | None = None

    @property
    def gap_of(self) -> str:
        """What is left out: `log` or `call`."""
        return "call" if "call" in self.text else "log"


@dataclass(frozen=True, slots=True)
class View:
    """All that is shown of a run.

    Args:
        language: Of the program, empty when it is not known.
        kind: The kind of the failure; None when there is none.
        message: The text of the failure.
        value: The value as JSON; None when there is none.
        elapsed_ms: How long the run took; None when it is not known.
        span_ms: How long the time line is; more than zero.
        failing: Where the program failed, if it is known.
        lines: The shown lines of the program, with a jump of the numbers where some are left out.
        line_count: All lines of the program.
        rows: The time line.
        log_count: All logs.
        call_count: All calls.
        bad_call_count: The calls among the kept ones that did not end with `ok`.
        notes: What is missing from the record itself.
    """

    language: str
    kind: str | None
    message: str
    value: str | None
    elapsed_ms: float | None
    span_ms: float
    failing: Failing | None
    lines: list[Line]
    line_count: int
    rows: list[Row]
    log_count: int
    call_count: int
    bad_call_count: int
    notes: list[str]


def view_run(result: CodeRunResult, bounds: Bounds) -> View:
    """Choose what is shown of a run."""
    lines = split_lines(result.program or "", result.language)
    error = result.error
    failing = None if error is None else find_failing(lines, error.message)
    return View(
        language=clean(result.language or "", MAX_NAME_CHARS),
        kind=None if error is None else error.kind,
        message="" if error is None else clean(error.message, bounds.value_chars),
        value=_value(result.value, bounds.value_chars) if result.has_value else None,
        elapsed_ms=None if result.elapsed_ms is None else _moment(result.elapsed_ms),
        span_ms=_span_ms(result),
        failing=failing,
        lines=_lines(lines, failing, bounds),
        line_count=len(lines),
        rows=_rows(result, bounds),
        log_count=len(result.logs),
        call_count=len(result.calls) + result.calls_dropped,
        bad_call_count=sum(call.outcome != "ok" for call in result.calls),
        notes=_notes(result),
    )


def clean(text: str, limit: int) -> str:
    """Cut a text, say so, and spell out what cannot be shown as it is."""
    if len(text) <= limit:
        return printable(text, terminal=True)
    left_out = f"… ({counted(len(text) - limit, 'further character')})"
    return printable(text[:limit], terminal=True) + left_out


def counted(count: int, noun: str) -> str:
    """Say how many there are of something."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def _value(value: object, limit: int) -> str:
    try:
        return clean(pretty(cast("JsonValue", value)), limit)
    except (LosslessJsonError, TypeError, ValueError):
        # A result that was built by hand may hold anything.
        return clean(bounded_repr(value, limit=limit), limit)


def _moment(time_ms: float) -> float:
    """Return a time that can be drawn, whatever was measured."""
    return max(0.0, time_ms) if math.isfinite(time_ms) else 0.0


def _span_ms(result: CodeRunResult) -> float:
    ends = [_moment(call.started_ms) + _moment(call.duration_ms) for call in result.calls]
    logs = [_moment(time_ms) for time_ms in result.log_times_ms or ()]
    span_ms = max([_moment(result.elapsed_ms or 0.0), *ends, *logs])
    return span_ms if 0 < span_ms < math.inf else 1.0


def _notes(result: CodeRunResult) -> list[str]:
    notes = []
    if result.logs_truncated:
        notes.append("Further logs were dropped during the run: they were over the limit.")
    if result.calls_dropped:
        dropped = counted(result.calls_dropped, "further call")
        notes.append(f"{dropped} came after those and are only counted.")
    return notes


def _lines(lines: list[str], failing: Failing | None, bounds: Bounds) -> list[Line]:
    """Return the first lines, and those around the failing one."""
    shown = set(range(1, min(len(lines), bounds.line_count) + 1))
    if failing is not None and failing.line not in shown:
        end = min(len(lines), failing.line + CONTEXT_LINES)
        around = range(max(1, failing.line - CONTEXT_LINES), end + 1)
        shown = set(range(1, max(1, bounds.line_count - len(around)) + 1)) | set(around)
    room = bounds.program_chars
    # The failing line first: it is shown even where the others use up the room.
    order = sorted(shown, key=lambda number: (failing is None or number != failing.line, number))
    chosen = []
    for number in order:
        text = lines[number - 1]
        if room <= 0 and text:
            continue
        limit = min(bounds.entry_chars, max(room, 1))
        room -= min(len(text), limit)
        chosen.append(_line(number, text, limit, failing))
    return sorted(chosen, key=lambda line: line.number)


def _line(number: int, text: str, limit: int, failing: Failing | None) -> Line:
    if failing is None:
        return Line(number, clean(text, limit))
    is_failing = number == failing.line
    column = failing.column if is_failing else None
    if column is not None:
        # What is spelled out before the column takes more room than it had.
        column = len(printable(text[: column - 1], terminal=True)) + 1 if column <= limit else None
    return Line(number, clean(text, limit), number in failing.callers, column, is_failing)


def _rows(result: CodeRunResult, bounds: Bounds) -> list[Row]:
    """Merge logs and calls by time; a log without a time stands after the one before it."""
    logs, calls = result.logs, result.calls
    bad = [index for index, call in enumerate(calls) if call.outcome != "ok"]
    rows = [
        *_with_gaps(_log_rows(logs, result.log_times_ms or [], bounds), len(logs), "log"),
        *_with_gaps(_call_rows(calls, bad, bounds), len(calls), "call"),
    ]
    return [row for _, row in sorted(rows, key=lambda item: item[0])]


def _log_rows(logs: Sequence[str], times_ms: Sequence[float], bounds: Bounds) -> dict[int, Row]:
    room = bounds.log_chars
    rows = {}
    for index in _from_both_ends(_choose(len(logs), (), bounds.row_count)):
        limit = min(bounds.entry_chars, room)
        if limit <= 0:
            break
        room -= min(len(logs[index]), limit)
        begin_ms = _moment(times_ms[index]) if index < len(times_ms) else None
        rows[index] = Row("log", clean(logs[index].removesuffix("\n"), limit), begin_ms)
    return rows


def _call_rows(calls: Sequence[CodeCall], bad: Sequence[int], bounds: Bounds) -> dict[int, Row]:
    room = bounds.preview_chars
    rows = {}
    for index in _from_both_ends(_choose(len(calls), bad, bounds.row_count)):
        call = calls[index]
        texts: list[str | None] = []
        for text in (call.argument_preview, call.result_preview):
            limit = min(bounds.entry_chars, max(room, 0))
            texts.append(None if text is None else clean(text, limit))
            room -= min(len(text or ""), limit)
        rows[index] = Row(
            "call",
            f"{clean(call.namespace, MAX_NAME_CHARS)}.{clean(call.member, MAX_NAME_CHARS)}",
            _moment(call.started_ms),
            _moment(call.duration_ms),
            call.outcome,
            *texts,
        )
    return rows


def _choose(count: int, wanted: Sequence[int], most: int) -> list[int]:
    """Choose the first and the last, and of the wanted ones between them the first."""
    if count <= most:
        return list(range(count))
    end = most // 3
    ends = {*range(end), *range(count - end, count)}
    between = [index for index in wanted if index not in ends][: most - 2 * end]
    return sorted(ends.union(between))


def _from_both_ends(indices: list[int]) -> list[int]:
    """Order indices so that the room goes to the first and the last by turns."""
    count = len(indices)
    return [indices[step // 2 if step % 2 == 0 else count - 1 - step // 2] for step in range(count)]


def _with_gaps(rows: dict[int, Row], count: int, noun: str) -> list[tuple[tuple[float, int], Row]]:
    """Give each row its place in time, and say where some are left out."""
    placed: list[tuple[tuple[float, int], Row]] = []
    time_ms = 0.0
    expected = 0
    for index in [*sorted(rows), count]:
        row = rows.get(index)
        if row is not None and row.begin_ms is not None:
            time_ms = max(time_ms, row.begin_ms)
        if index > expected:
            text = f"{counted(index - expected, noun)} left out here"
            placed.append(((time_ms, index), Row("gap", text, None)))
        if row is not None:
            placed.append(((time_ms, index), row))
        expected = index + 1
    return placed
