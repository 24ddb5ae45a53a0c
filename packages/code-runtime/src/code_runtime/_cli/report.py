"""Presents what a run gave: for a person, or as one JSON document."""

from __future__ import annotations

import contextlib
import os
import stat
import sys
from typing import TYPE_CHECKING, Final, cast

from rich.console import Console
from rich.highlighter import JSONHighlighter
from rich.table import Table
from rich.text import Text

from code_runtime._lossless import JsonValue, encode
from code_runtime._report._terminal import print_run

from .problem import Misuse
from .text import pretty, printable, source_frame

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from code_runtime._vocabulary import CodeCall, CodeRunResult

MAX_ROWS: Final = 200
MAX_HIGHLIGHTED_CHARS: Final = 65_536
STYLE_OF_OUTCOME: Final = {"ok": "green", "error": "red", "refused": "red"}


def show_result(result: CodeRunResult, *, program: str, elapsed_s: float, with_calls: bool) -> None:
    """Print the value or the failure, the journal when wanted, and one closing line."""
    out = Console(highlight=False, markup=False, emoji=False, soft_wrap=True)
    err = Console(stderr=True, highlight=False, markup=False, emoji=False, soft_wrap=True)
    if result.has_value:
        _show_value(out, cast("JsonValue", result.value))
    if with_calls:
        _show_calls(out, result)
    if result.error is not None:
        _show_failure(err, result.error.kind, result.error.message, program)
    err.print(Text(_closing_line(result, elapsed_s), style="dim"))


def _show_value(out: Console, value: JsonValue) -> None:
    shown = printable(pretty(value), terminal=out.is_terminal)
    text = Text(shown)
    if out.is_terminal and len(shown) <= MAX_HIGHLIGHTED_CHARS:
        JSONHighlighter().highlight(text)
    out.print(text)


def _show_failure(err: Console, kind: str, message: str, program: str) -> None:
    err.print(Text(f"Failed ({kind}): ", style="bold red"), end="")
    err.print(Text(printable(message, terminal=err.is_terminal)))
    frame = source_frame(program, message)
    if frame:
        err.print(Text(printable(frame, terminal=err.is_terminal), style="dim"))


def _show_calls(out: Console, result: CodeRunResult) -> None:
    table = Table(title="Calls", title_justify="left", title_style="bold")
    for header, justify in (
        ("#", "right"),
        ("function", "left"),
        ("start ms", "right"),
        ("took ms", "right"),
    ):
        table.add_column(header, justify="right" if justify == "right" else "left")
    table.add_column("outcome")
    for number, call in enumerate(result.calls[:MAX_ROWS], 1):
        name = printable(f"{call.namespace}.{call.member}", terminal=True)
        table.add_row(
            str(number),
            Text(name),
            f"{call.started_ms:.1f}",
            f"{call.duration_ms:.1f}",
            Text(call.outcome, style=STYLE_OF_OUTCOME.get(call.outcome, "yellow")),
        )
    out.print(table)
    hidden = max(0, len(result.calls) - MAX_ROWS)
    if hidden:
        out.print(f"{hidden} more calls; --json gives them all")


def _closing_line(result: CodeRunResult, elapsed_s: float) -> str:
    count = len(result.calls) + result.calls_dropped
    parts = [f"{'ok' if result.ok else 'failed'} in {elapsed_s:.2f} s"]
    if count:
        parts.append(f"{count} call{'' if count == 1 else 's'}")
    if result.ok and not result.has_value:
        parts.append("no value")
    if result.logs_truncated:
        parts.append("further logs were dropped")
    return ", ".join(parts)


def document(result: CodeRunResult, *, elapsed_s: float) -> bytes:
    """Return a result as one line of JSON; field names are those of the Python classes."""
    error = result.error
    fields: dict[str, JsonValue] = {
        "ok": result.ok,
        "logs": list(result.logs),
        "has_value": result.has_value,
        "value": cast("JsonValue", result.value),
        "error": None if error is None else {"kind": error.kind, "message": error.message},
        "logs_truncated": result.logs_truncated,
        "calls": [_call(call) for call in result.calls],
        "calls_dropped": result.calls_dropped,
        "elapsed_ms": round(elapsed_s * 1_000, 3),
    }
    return encode(fields) + b"\n"


def _call(call: CodeCall) -> JsonValue:
    return {
        "namespace": call.namespace,
        "member": call.member,
        "started_ms": round(call.started_ms, 3),
        "duration_ms": round(call.duration_ms, 3),
        "outcome": call.outcome,
    }


@contextlib.contextmanager
def open_report(path: str | None) -> Iterator[Callable[[CodeRunResult], None]]:
    """Open the file of the page before the run, and give what writes the page into it.

    What the file held stays until there is a page; a file that was made for nothing is removed.

    Raises:
        Misuse: the file cannot be written.
    """
    if path is None:
        yield lambda result: None
        return
    is_new = not os.path.lexists(path)
    written = False

    def write(result: CodeRunResult) -> None:
        nonlocal written
        page = result.to_html().encode()
        try:
            if stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                file.truncate(0)
            file.write(page)
            file.flush()
        except OSError as error:
            raise _unwritable(path, error) from None
        written = True

    try:
        file = open(path, "ab")  # noqa: SIM115 (its close may fail, and is no block's end)
    except OSError as error:
        raise _unwritable(path, error) from None
    try:
        with file:
            yield write
    finally:
        if is_new and not written:
            with contextlib.suppress(OSError):
                os.unlink(path)


def _unwritable(path: str, error: OSError) -> Misuse:
    reason = error.strerror or str(error)
    return Misuse(f"Cannot write report {path!r}: {reason}, expected a file that can be written")


def show_run(result: CodeRunResult) -> None:
    """Print the program, a time line of its logs and calls, and its outcome."""
    out = Console(highlight=False, markup=False, emoji=False)
    print_run(result, out)


def complain(text: str) -> None:
    """Print why the command could not be carried out."""
    shown = printable(text, terminal=sys.stderr.isatty())
    sys.stderr.write(f"code-runtime: {shown}\n")
