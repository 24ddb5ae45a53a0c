"""The text that a model reads of what a program gave (CM-083 to CM-086)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from code_runtime.provider_kit import encode

if TYPE_CHECKING:
    from code_runtime import CodeRunFailure

    from ._results import ToolCallRecord

INDENT: Final = "  "
# Objects and lists deeper than this are written without line breaks (CM-084).
MAX_INDENT_STEPS: Final = 5
MAX_LISTED_CALLS: Final = 50
MAX_PREVIEW_CHARS: Final = 120
MAX_NOTE_CHARS: Final = 80
NO_OUTPUT: Final = "The program completed with no output."
_STATES: Final = {
    "ok": "finished",
    "error": "failed",
    "denied": "was refused",
    "cancelled": "was cancelled; it may have had effects",
    "abandoned": "was not started",
}


def render_success(logs: Sequence[str], has_value: bool, value: object) -> str:
    """Return logs and value as one text (CM-083)."""
    parts = [text for text in logs if text]
    if has_value and (text := render_value(value)):
        parts.append(text)
    return "\n".join(parts) or NO_OUTPUT


def render_failure(
    failure: CodeRunFailure,
    logs: Sequence[str],
    calls: Sequence[ToolCallRecord],
    previews: Mapping[str, str],
) -> str:
    """Return why a program failed, what it had printed, and which calls it had made (CM-086).

    Args:
        failure: The failure.
        logs: What it had printed.
        calls: Its calls, in the order of submission.
        previews: The start of the arguments of calls, by call id.
    """
    parts = [f"({failure.kind}) {failure.message}"]
    if logs:
        parts.append("\n".join(["Captured output:", *logs]))
    if calls:
        parts.append("\n".join(_call_lines(calls, previews)))
    return "\n\n".join(parts)


def _call_lines(calls: Sequence[ToolCallRecord], previews: Mapping[str, str]) -> Iterator[str]:
    yield "Tool calls of the program until then; do not repeat what must happen only once:"
    for number, call in enumerate(calls[:MAX_LISTED_CALLS], 1):
        arguments = _shorten(previews.get(call.call_id, ""))
        yield f"{number}. {call.tool_name}({arguments}) {_STATES[call.outcome]}"
    if len(calls) > MAX_LISTED_CALLS:
        yield f"… and {len(calls) - MAX_LISTED_CALLS} more"


def _shorten(text: str) -> str:
    return text if len(text) <= MAX_PREVIEW_CHARS else text[: MAX_PREVIEW_CHARS - 1] + "…"


def shorten_middle(text: str, limit: int) -> str:
    """Cut the middle out of a text that is longer than `limit` characters, and say so.

    Of a limit that is shorter than the note, the note is what is left.
    """
    if len(text) <= limit:
        return text
    kept = max(0, limit - MAX_NOTE_CHARS)
    note = f"\n… {len(text) - kept} characters left out; print or return less …\n"
    head = kept * 2 // 3
    return text[:head] + note + text[len(text) - (kept - head) :]


def render_value(value: object) -> str:
    """Return a JSON value as text: strings as they are, objects and lists over several lines.

    Values may be nested deeper than Python can recurse.
    """
    if isinstance(value, str):
        return value
    return "".join(_pieces(value))


def _pieces(value: object) -> Iterator[str]:
    # One iterator for each open object or list, never more than MAX_INDENT_STEPS.
    opened: list[tuple[Iterator[tuple[str, object]], str]] = []
    prefix, item = "", value
    while True:
        yield prefix
        if _is_container(item) and len(opened) < MAX_INDENT_STEPS:
            entries, brackets = _entries(item)
            opened.append((entries, brackets[1]))
            yield brackets[0] + "\n"
            separator = ""
        else:
            yield _compact(item)
            separator = ",\n"
        while opened:
            entries, closing = opened[-1]
            following = next(entries, None)
            if following is not None:
                key, item = following
                prefix = f"{separator}{INDENT * len(opened)}{key}"
                break
            opened.pop()
            yield f"\n{INDENT * len(opened)}{closing}"
            separator = ",\n"
        else:
            return


def _is_container(item: object) -> bool:
    return isinstance(item, (dict, list)) and bool(item)


def _entries(item: object) -> tuple[Iterator[tuple[str, object]], str]:
    if isinstance(item, dict):
        return ((f"{_compact(key)}: ", part) for key, part in item.items()), "{}"
    assert isinstance(item, list)
    return (("", part) for part in item), "[]"


def _compact(item: object) -> str:
    return encode(item).decode("utf-8", "surrogatepass")
