"""The fd-3 wire: frame shapes, constants, encoders, and what the child reads from its host.

One socket, descriptor 3 of the child, both ways; one JSON object a line, UTF-8, one LF at the end.
The host takes every line of the child as hostile and rebuilds it (`_frames.py`, `validate.ts`); the
child trusts its host, and checks shapes only so that a broken host ends with a clear error
(`inbound.py`).

JSON values travel as canonical text and are spliced into a frame as they are: who makes a value
serialises it once. Keys are written in the order of the shapes below.

Standard library only, CPython 3.10 or later: the child and the Python host import this same file.
`node/src/wire.ts` and `docs/reference/fd3-protocol.md` declare the same; tests compare all three.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypedDict

from .lossless import JsonValue, encode, fitting_prefix, string_cost

CHANNEL_FD = 3
"""The descriptor that the child finds its socket at."""

MAX_FRAME_BYTES = 64 * 1024 * 1024
"""The longest line that a host reads, without its LF."""

ENVELOPE_BYTES = 64
"""What a budget must leave free in a frame for everything around its text."""

MAX_FRAGMENTS = 1_024
"""The pieces of an unfinished line that are held before they are joined."""

MAX_CALLS = 1_024
"""The binding calls in flight at which a host stops reading."""

MIN_LOG_BYTES = 64
"""The lowest `maxLogBytes`; the list that holds only its own marker fits from 45 bytes on."""

READ_BYTES = 65_536
"""How much the child reads at a time."""

CUT_MARKER = "\u2026 [truncated]"
"""Ends a failure message that was cut: 13 characters, 15 bytes of UTF-8."""

DoneKind = Literal["exception", "invalid-output", "output-limit"]
"""The failures that a child can report; the host observes all others itself."""

DONE_KINDS: tuple[DoneKind, ...] = ("exception", "invalid-output", "output-limit")


class ErrorClass(TypedDict):
    """An exception class that the program finds as a global."""

    name: str
    memberNameProperty: str


# `global` is a keyword, so these two shapes need the functional form.
_Namespace = TypedDict("_Namespace", {"global": str, "names": "list[str]"})
Call = TypedDict(
    "Call",
    {"type": Literal["call"], "id": int, "global": str, "name": str, "args": "JsonValue"},
)


class Namespace(_Namespace, total=False):
    """A group of functions that the program can call."""

    errorClass: ErrorClass


class Boot(TypedDict):
    """Host to child, the first line: limits and namespaces."""

    type: Literal["boot"]
    cpuSeconds: int
    addressSpaceBytes: int
    maxLogBytes: int
    maxValueBytes: int
    namespaces: list[Namespace]


class Run(TypedDict):
    """Host to child, once, after the first `boot-ack`: the program."""

    type: Literal["run"]
    program: str


class ReplyOk(TypedDict):
    """Host to child: the value of a call."""

    type: Literal["reply"]
    id: int
    ok: Literal[True]
    value: JsonValue


class ReplyError(TypedDict):
    """Host to child: a call failed."""

    type: Literal["reply"]
    id: int
    ok: Literal[False]
    message: str


class BootAck(TypedDict):
    """Child to host: limits are applied, namespaces are built."""

    type: Literal["boot-ack"]


class _Log(TypedDict):
    type: Literal["log"]
    text: str


class Log(_Log, total=False):
    """Child to host: one log entry, a part of an open line, or the marker of dropped logs."""

    truncated: Literal[True]
    open: Literal[True]


class DoneError(TypedDict):
    """Why a program failed."""

    kind: DoneKind
    message: str


class _Done(TypedDict):
    type: Literal["done"]


class Done(_Done, total=False):
    """Child to host, last: the completion. Without `value` and `error` it returned nothing."""

    value: JsonValue
    error: DoneError


# Texts that both sides compute


def log_marker(max_log_bytes: int) -> str:
    """Return the log entry that stands for all dropped ones: 39 ASCII characters and the digits."""
    return f"[code-runtime] logs truncated at {max_log_bytes} bytes"


def fit_message(message: str, max_bytes: int) -> str:
    """Cut a failure message so that its JSON text, quotes and cut marker included, fits.

    Units: `max_bytes` counts canonical JSON bytes; if not even the marker fits, it stands alone.

    Source: PY-117 to PY-119.
    """
    if string_cost(message, max_bytes) is not None:
        return message
    return fitting_prefix(message, max_bytes - len(CUT_MARKER.encode())) + CUT_MARKER


# Host to child


def encode_boot(
    *,
    cpu_seconds: int,
    address_space_bytes: int,
    max_log_bytes: int,
    max_value_bytes: int,
    namespaces: Sequence[Namespace],
) -> bytes:
    """Write the first frame."""
    frame = {
        "type": "boot",
        "cpuSeconds": cpu_seconds,
        "addressSpaceBytes": address_space_bytes,
        "maxLogBytes": max_log_bytes,
        "maxValueBytes": max_value_bytes,
        "namespaces": list(namespaces),
    }
    return encode(frame) + b"\n"


def encode_run(program: str) -> bytes:
    """Write the frame that starts the program."""
    return b'{"type":"run","program":%b}\n' % encode(program)


def encode_reply(call_id: int, value: bytes) -> bytes:
    """Write the value of a call; `value` is canonical JSON text."""
    return b'{"type":"reply","id":%d,"ok":true,"value":%b}\n' % (call_id, value)


def encode_reply_error(call_id: int, message: str) -> bytes:
    """Write the failure of a call."""
    return b'{"type":"reply","id":%d,"ok":false,"message":%b}\n' % (call_id, encode(message))


# Child to host


def encode_boot_ack() -> bytes:
    """Write the answer to the boot frame."""
    return b'{"type":"boot-ack"}\n'


def encode_call(call_id: int, global_name: str, name: str, args: bytes) -> bytes:
    """Write a call; `args` is canonical JSON text."""
    names = (encode(global_name), encode(name))
    return b'{"type":"call","id":%d,"global":%b,"name":%b,"args":%b}\n' % (call_id, *names, args)


def encode_log(text: str, *, truncated: bool = False, is_open: bool = False) -> bytes:
    """Write a log entry.

    Args:
        text: The entry, without its line end.
        truncated: The entry is the marker, and all later output is dropped.
        is_open: The line goes on: the host joins the next entry to it.
    """
    flags = (b',"truncated":true' if truncated else b"") + (b',"open":true' if is_open else b"")
    return b'{"type":"log","text":%b%b}\n' % (encode(text), flags)


def encode_done(value: bytes | None = None) -> bytes:
    """Write the completion; `value` is canonical JSON text, None if there is none."""
    return b'{"type":"done"}\n' if value is None else b'{"type":"done","value":%b}\n' % value


def encode_done_error(kind: DoneKind, message: str) -> bytes:
    """Write the failure of the program."""
    error = (encode(kind), encode(message))
    return b'{"type":"done","error":{"kind":%b,"message":%b}}\n' % error
