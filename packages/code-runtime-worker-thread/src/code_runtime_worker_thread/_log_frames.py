"""Reads many LOG frames at once, in a few calls that run in C.

A talkative program sends a hundred thousand of them, nearly all the same way: a line of printable
ASCII without an escape, short enough for the shortest heads. To step through them in Python would
take longer than the program needs to print them.
"""

from __future__ import annotations

from operator import add, itemgetter
from typing import Final

# Bytes before the opening quote of a text.
HEAD_BYTES: Final = 8
# From here on the length of the frame's body takes a second byte.
MOST_CHARS: Final = 249
# Below this the single way is as fast.
LEAST_BYTES: Final = 256

_MARK: Final = "\x922\xc4"  # an array of two, kind LOG, a short text
# What stands between the text before and a text of so many characters, both quotes included.
_BETWEEN: Final = tuple(
    f'"\0\0\0{chr(count + 6)}{_MARK}{chr(count + 2)}"' for count in range(MOST_CHARS + 1)
)
# A part between two marks is: length, quote, text, quote, and four bytes of the next frame.
_text_of = itemgetter(slice(2, -5))


def read_plain_logs(buffer: bytearray) -> tuple[list[str], int] | None:
    """Read the LOG frames that a buffer begins with, if all in it are plain.

    Args:
        buffer: A stream from the start of a LOG frame on.

    Returns:
        The texts and how many bytes their frames take; None if anything in the buffer is not the
        frame of a plain text, but for the part of one at its end.
    """
    size_bytes = buffer.rfind(b'"\0\0\0') + 1
    if size_bytes < LEAST_BYTES:
        return None
    stream = buffer[:size_bytes].decode("latin-1")
    texts = list(map(_text_of, f"{stream}\0\0\0 ".split(_MARK)[1:]))
    joined = "".join(texts)
    if not (joined.isascii() and joined.isprintable()) or '"' in joined or "\\" in joined:
        return None
    # The cut above has looked at marks only. What the texts spell is the proof: byte for byte what
    # has arrived, and each frame as the single way would read it.
    try:
        spelled = "".join(map(add, map(_BETWEEN.__getitem__, map(len, texts)), texts))
    except IndexError:
        return None
    return (texts, size_bytes) if spelled[1:] == stream[:-1] else None


def cost_bytes(text_count: int, size_bytes: int) -> int:
    """Return what plain texts cost as JSON, commas not counted, given the bytes of their frames."""
    return size_bytes - HEAD_BYTES * text_count
