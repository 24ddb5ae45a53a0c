"""Tracebacks as the author of a program should see them.

The program's own frames are shown with their source lines, and with carets from CPython 3.11 on. A
run of library frames is one line; frames of this machinery are left out. A chain or a tree of
exceptions is cut after 100 links. Nothing that the exception's class does can make this fail: what
classes can override is read past them, and their texts are guarded.

Standard library only, CPython 3.10 or later.
"""

from __future__ import annotations

import linecache
import traceback
from collections.abc import Iterator
from itertools import islice
from types import CodeType, FrameType, TracebackType
from typing import Any, cast

from .program import LABEL

_MAX_LINKS = 100
_MAX_FRAMES = 40  # of the program, half of them from each end
_MAX_NAME = 200  # characters of a type's name
_MAX_NOTES = 20
_UNRENDERABLE = "<exception str() failed>"
_GROUP_RULE = "+---------------- {} ----------------"

_name_of = vars(type)["__qualname__"].__get__
_module_of = vars(type)["__module__"].__get__
_cause_of = vars(BaseException)["__cause__"].__get__
_context_of = vars(BaseException)["__context__"].__get__
_suppresses = vars(BaseException)["__suppress_context__"].__get__
_traceback_of = vars(BaseException)["__traceback__"].__get__
_Group: type[Any] | None = getattr(__import__("builtins"), "BaseExceptionGroup", None)
_members_of = vars(_Group)["exceptions"].__get__ if _Group is not None else None
_Summary = traceback.FrameSummary
_Stack = traceback.StackSummary
_Exception = traceback.TracebackException
_cache = linecache.cache
# Their text says more than their arguments: a place, or a name that may have been meant.
_TOLD_BETTER = (SyntaxError, NameError, AttributeError, ImportError)


def register_source(source: str) -> None:
    """Let tracebacks find the program's lines, those that the program itself formats too."""
    lines = [f"{line}\n" for line in source.split("\n")]
    _cache[LABEL] = (len(source), None, lines, LABEL)


def render(error: BaseException, source: str) -> str:
    """Return an exception's traceback; it ends without a line feed."""
    try:
        register_source(source)
        lines = list(_render(error, _Budget(_MAX_LINKS)))
        return "\n".join(lines)
    except BaseException:
        return f"{_type_name(type(error))}: rendering the exception failed"


class _Budget:
    """Counts the links that may still be shown, of all chains and groups together."""

    def __init__(self, links: int) -> None:
        self.links = links

    def take(self) -> bool:
        self.links -= 1
        return self.links >= 0


def _render(error: BaseException, budget: _Budget) -> Iterator[str]:
    links: list[tuple[BaseException, str]] = []
    seen: set[int] = set()
    link: BaseException | None = error
    lead = ""
    while link is not None and id(link) not in seen:
        if not budget.take():
            yield f"[more than {_MAX_LINKS} linked exceptions: the rest is not shown]"
            yield ""
            break
        seen.add(id(link))
        links.append((link, lead))
        cause, context = _cause_of(link), _context_of(link)
        if cause is not None:
            link, lead = cause, _CAUSE
        elif context is not None and not _suppresses(link):
            link, lead = context, _CONTEXT
        else:
            link = None
    for index in range(len(links) - 1, -1, -1):
        exception = links[index][0]
        yield from _one(exception, budget)
        if index:
            yield ""
            yield links[index][1]
            yield ""


_CAUSE = "The above exception was the direct cause of the following exception:"
_CONTEXT = "During handling of the above exception, another exception occurred:"


def _one(error: BaseException, budget: _Budget) -> Iterator[str]:
    frames = list(_frames(_traceback_of(error)))
    members = _members(error)
    if frames:
        title = "Exception Group Traceback" if members else "Traceback"
        yield f"{title} (most recent call last):"
        yield from frames
    yield from _description(error)
    for number, member in enumerate(members, 1):
        yield "  " + _GROUP_RULE.format(number)
        for piece in _render(member, budget):
            yield "\n".join(f"  | {line}" for line in piece.split("\n"))
        if budget.links < 0:
            break
    if members:
        yield "  +------------------------------------"


def _members(error: BaseException) -> tuple[BaseException, ...]:
    if _Group is None or _members_of is None or not issubclass(type(error), _Group):
        return ()
    return cast("tuple[BaseException, ...]", _members_of(error))


# Frames


def _frames(trace: TracebackType | None) -> Iterator[str]:
    """Render frames from the outermost on; nothing if none is the program's."""
    entries: list[tuple[CodeType, int, int] | str] = []
    library: list[str] = []
    shown = 0
    while trace is not None:
        code = trace.tb_frame.f_code
        if code.co_filename == LABEL:
            if library and shown:  # what comes before the program is the event loop
                entries.append(_library_line(library))
            library = []
            entries.append((code, trace.tb_lineno, trace.tb_lasti))
            shown += 1
        elif not _is_own(code):
            library.append(_place(trace.tb_frame, trace.tb_lineno))
        trace = trace.tb_next
    if not shown:
        return
    if library:
        entries.append(_library_line(library))
    if len(entries) > _MAX_FRAMES:
        half = _MAX_FRAMES // 2
        left_out = f"  ... {len(entries) - 2 * half} more frames"
        entries = [*entries[:half], left_out, *entries[-half:]]
    for entry in entries:
        yield entry if isinstance(entry, str) else _program_lines(*entry)


def _is_own(code: CodeType) -> bool:
    return code.co_filename.rpartition("/")[0] == _OWN_FOLDER


def _program_lines(code: CodeType, line: int, last: int) -> str:
    try:
        summary = _Summary(LABEL, line, code.co_name, **_columns(code, last))
        return "".join(_Stack.from_list([summary]).format()).rstrip("\n")
    except Exception:  # the program has changed the traceback module
        return f'  File "{LABEL}", line {line}, in {code.co_name}'


def _columns(code: CodeType, last: int) -> dict[str, Any]:
    positions = getattr(code, "co_positions", None)
    if positions is None or last < 0:
        return {}
    _, end_line, column, end_column = next(islice(positions(), last // 2, None))
    return {"end_lineno": end_line, "colno": column, "end_colno": end_column}


def _place(frame: FrameType, line: int) -> str:
    module = frame.f_globals.get("__name__")
    name = module if type(module) is str else "?"
    return f"{name[:_MAX_NAME]}, line {line}, in {frame.f_code.co_name[:_MAX_NAME]}"


def _library_line(places: list[str]) -> str:
    count = len(places)
    return f"  Library {places[-1]}" + (f" ({count} library frames)" if count > 1 else "")


# Types and texts


def _description(error: BaseException) -> Iterator[str]:
    kind = type(error)
    if issubclass(kind, _TOLD_BETTER):
        try:
            seen = {id(item) for item in (_cause_of(error), _context_of(error)) if item is not None}
            # With _seen it looks at this exception alone, and leaves out what a group would need.
            told = cast("Any", _Exception)(kind, error, _traceback_of(error), limit=0, _seen=seen)
            told.exceptions = None
            yield "".join(told.format_exception_only()).rstrip("\n")
            return
        except BaseException:  # its attributes are the program's
            pass
    text = _text(error)
    yield f"{_type_name(kind)}: {text}" if text else _type_name(kind)
    yield from _notes(error)


def _text(error: BaseException) -> str:
    try:
        text = str(error)
        return text if type(text) is str else str.__str__(text)
    except BaseException:
        return _UNRENDERABLE


def _notes(error: BaseException) -> Iterator[str]:
    try:
        notes = vars(error).get("__notes__")
    except BaseException:
        return
    if type(notes) is list:
        for note in notes[:_MAX_NOTES]:
            if type(note) is str:
                yield note


def _type_name(kind: type) -> str:
    shown = cast("str", _name_of(kind))[:_MAX_NAME]
    try:
        module = _module_of(kind)
    except BaseException:  # a class need not have one
        return shown
    if type(module) is not str or module in ("builtins", "__main__"):
        return shown
    return f"{module[:_MAX_NAME]}.{shown}"


_OWN_FOLDER = _one.__code__.co_filename.rpartition("/")[0]
