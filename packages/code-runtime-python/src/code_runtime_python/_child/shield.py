"""Makes the value boundary independent of what a program can rebind in the `json` module.

`lossless.py` is the same file for host and child, and its fast lane calls methods of
`json.JSONDecoder`. In a child these could be replaced by the program; here they give way to the C
scanner, which was set up with what it needs. (The fast lane of encoding needs no such care: when it
fails, the exact lane does the work.)

Standard library only, CPython 3.10 or later.
"""

from __future__ import annotations

import json
from typing import Any

from . import lossless

_Error = json.JSONDecodeError
_skip = lossless._skip


class _Scanner:
    def __init__(self, decoder: json.JSONDecoder) -> None:
        self._scan: Any = decoder.scan_once  # type: ignore[attr-defined]

    def decode(self, source: str) -> object:
        """Parse a JSON text, as `JSONDecoder.decode` does."""
        try:
            value, end = self._scan(source, _skip(source, 0))
        except StopIteration as error:
            raise _Error("Expecting value", source, error.value) from None
        end = _skip(source, end)
        if end != len(source):
            raise _Error("Extra data", source, end)
        return value


def apply() -> None:
    """Put the scanners in; once, before the program is known."""
    for name in ("_ANY_INTEGERS", "_SHORT_INTEGERS", "_PLAIN_NUMBERS"):
        decoder = getattr(lossless, name)
        if isinstance(decoder, json.JSONDecoder):
            setattr(lossless, name, _Scanner(decoder))
    # The first use of a codec imports it, which a program could prevent.
    for codec in ("utf-16-le", "utf-8"):
        "\ud800".encode(codec, "surrogatepass").decode(codec, "surrogatepass")
