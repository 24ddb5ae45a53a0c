"""The words that the page and the terminal share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from code_runtime._vocabulary import CallOutcome

    from ._view import View

# Names of languages as their users write them.
LANGUAGES: Final = {"typescript": "TypeScript", "python": "Python"}
FAILED_HERE: Final = "The program failed here"
CALLED_HERE: Final = "The failing code was called from here"


def heading(view: View) -> str:
    """Say in a line what ran."""
    language = LANGUAGES.get(view.language, view.language)
    what = f"{language} program" if language else "program"
    return f"{'Run' if view.kind is None else 'Failed run'} of a {what}"


def duration(view: View) -> str:
    """Say how long the run took."""
    return "not known" if view.elapsed_ms is None else show_ms(view.elapsed_ms)


def calls(view: View) -> str:
    """Say how many calls there were and how many went wrong."""
    bad = f" ({view.bad_call_count:,} not ok)" if view.bad_call_count else ""
    return f"{view.call_count:,}{bad}"


def answer_name(outcome: CallOutcome | None) -> str:
    """Name what a call was answered."""
    return "Result" if outcome == "ok" else "Error"


def show_ms(time_ms: float) -> str:
    """Write a time with its unit, and with about three figures."""
    if time_ms < 9.995:
        return f"{time_ms:.2f} ms" if time_ms else "0 ms"
    if time_ms < 99.95:
        return f"{time_ms:.1f} ms"
    return f"{time_ms:.0f} ms" if time_ms < 999.5 else f"{time_ms / 1000:,.2f} s"
