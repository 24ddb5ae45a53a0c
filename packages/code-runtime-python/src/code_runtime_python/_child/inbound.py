"""What the child reads from its host: the boot frame, the run frame, and replies.

The host is trusted; shapes are checked so that a broken host ends with a clear error.

Standard library only, CPython 3.10 or later.
"""

from __future__ import annotations

import re
from typing import cast

from .lossless import JsonValue, LosslessJsonError, decode
from .wire import Boot, ErrorClass, Namespace, ReplyError, ReplyOk, Run


class FrameError(ValueError):
    """A line of the host is not the frame that the child expects."""


def read_boot(line: bytes) -> Boot:
    """Parse the first line of the host.

    Raises:
        FrameError: it is not a boot frame.
    """
    frame = _object(line, "boot")
    numbers = {name: frame.get(name) for name in _BOOT_NUMBERS}
    namespaces = frame.get("namespaces")
    exact = all(type(number) is int for number in numbers.values())
    if not exact or not isinstance(namespaces, list):
        raise FrameError("Cannot read the boot frame: a field is missing or of another type")
    built = {"type": "boot", **numbers, "namespaces": [_namespace(item) for item in namespaces]}
    return cast("Boot", built)


def read_run(line: bytes) -> Run:
    """Parse the second line of the host.

    Raises:
        FrameError: it is not a run frame.
    """
    program = _object(line, "run").get("program")
    if not isinstance(program, str):
        raise FrameError("Cannot read the run frame: program is missing or not a string")
    return {"type": "run", "program": program}


def read_reply(line: bytes) -> ReplyOk | ReplyError:
    """Parse a reply.

    Raises:
        FrameError: it is not a reply frame, or its value cannot be held exactly.
    """
    frame = _object(line, "reply")
    call_id, ok, message = frame.get("id"), frame.get("ok"), frame.get("message")
    if type(call_id) is int and ok is True and "value" in frame:
        return {"type": "reply", "id": call_id, "ok": True, "value": frame["value"]}
    if type(call_id) is int and ok is False and isinstance(message, str):
        return {"type": "reply", "id": call_id, "ok": False, "message": message}
    raise FrameError("Cannot read a reply frame: a field is missing or of another type")


def reply_id(line: bytes) -> int | None:
    """Find the id of a reply that could not be parsed, for want of memory for example.

    Returns:
        The id, or None if the line does not begin as both hosts write it.
    """
    match = _REPLY_HEAD.match(line)
    return None if match is None else int(match.group(1))


_BOOT_NUMBERS = ("cpuSeconds", "addressSpaceBytes", "maxLogBytes", "maxValueBytes")
_REPLY_HEAD = re.compile(rb'\{"type":"reply","id":([0-9]{1,16}),')


def _object(line: bytes, expected: str) -> dict[str, JsonValue]:
    try:
        frame = decode(line)
    except LosslessJsonError as error:
        raise FrameError(f"Cannot read the {expected} frame: {error}") from None
    if not isinstance(frame, dict) or frame.get("type") != expected:
        raise FrameError(f"Cannot read the {expected} frame: another frame was seen")
    return frame


def _namespace(item: JsonValue) -> Namespace:
    fields = item if isinstance(item, dict) else {}
    global_name, names, error_class = (fields.get(key) for key in ("global", "names", "errorClass"))
    if not isinstance(global_name, str) or not isinstance(names, list):
        raise FrameError("Cannot read the boot frame: a namespace has another shape")
    if not all(isinstance(name, str) for name in names):
        raise FrameError("Cannot read the boot frame: a namespace has another shape")
    built: Namespace = {"global": global_name, "names": cast("list[str]", names)}
    if error_class is not None:
        built["errorClass"] = _error_class(error_class)
    return built


def _error_class(item: JsonValue) -> ErrorClass:
    fields = item if isinstance(item, dict) else {}
    name, member = fields.get("name"), fields.get("memberNameProperty")
    if not isinstance(name, str) or not isinstance(member, str):
        raise FrameError("Cannot read the boot frame: an error class has another shape")
    return {"name": name, "memberNameProperty": member}
