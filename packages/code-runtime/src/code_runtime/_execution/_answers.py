"""What goes into the reply of a binding call."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from code_runtime._lossless import JsonValue, LosslessJsonError, decode, encode, encode_small
from code_runtime._vocabulary import CallOutcome

# A message that no reader needs: longer ones are cut.
MAX_REJECTION_CHARS: Final = 1_048_576
# Values above this are encoded and decoded in a thread: 8 KiB of brackets keep the loop for 20 ms,
# ordinary ones for less than one.
INLINE_BYTES: Final = 8_192
# What fits into one frame of any provider with all that is around it.
MAX_RESULT_BYTES: Final = 268_435_456 - 65_536

# Shows each digit before an exponent, and some in strings, as `0e`.
_DIGITS: Final = bytes.maketrans(b"123456789E", b"000000000e")

LOSSY_ARGUMENT: Final = "Binding arguments must be lossless JSON"
LOSSY_RESULT: Final = "Binding resolution must be lossless JSON"
UNRENDERABLE_REJECTION: Final = "<unrenderable binding error>"


@contextmanager
def collector_off() -> Iterator[None]:
    """Keep the collector of garbage from going over a large value while it is built."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def decode_large(text: bytes) -> JsonValue:
    """Decode a large text; for a thread."""
    with collector_off():
        return decode(text)


def has_exponents(text: bytes) -> bool:
    """Tell whether a number in a JSON text may have an exponent.

    If none has, the canonical text of the value is no longer than this one: of all spellings of a
    string it is the shortest, and of all that a number has without exponent. 1e300 stands for 301
    digits.
    """
    return b"0e" in text.translate(_DIGITS)


def render_rejection(error: BaseException) -> str:
    """Return the message of what a binding raised, a placeholder when it does not render."""
    try:
        text = str(error)
        text = text if type(text) is str else str.__str__(text)
    except KeyboardInterrupt:
        raise
    except BaseException:
        return UNRENDERABLE_REJECTION
    return text if len(text) <= MAX_REJECTION_CHARS else text[:MAX_REJECTION_CHARS] + "…"


def encode_small_result(value: object) -> tuple[CallOutcome, bytes] | None:
    """Return what `encode_result` returns, or None if that would hold the event loop."""
    try:
        text = encode_small(value)
    except LosslessJsonError as error:
        return "error", encode(f"{LOSSY_RESULT}: {error}")
    return None if text is None else ("ok", text)


def encode_result(value: object) -> tuple[CallOutcome, bytes]:
    """Return the outcome of a call that returned `value`, and the payload of its reply.

    It takes long for a large value; for a thread.
    """
    # Nobody waits for its import (30 ms) but the first large value.
    from msgspec.json import encode as spell

    try:
        with collector_off():
            text = encode(value, spell)
    except LosslessJsonError as error:
        return "error", encode(f"{LOSSY_RESULT}: {error}")
    if len(text) > MAX_RESULT_BYTES:
        return "error", encode(f"Binding resolution is larger than {MAX_RESULT_BYTES} bytes")
    return "ok", text
