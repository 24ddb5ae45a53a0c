"""What a provider of one's own needs beside the contract: names, values and reasons.

Every provider uses these, so that a request is valid for all of them or for none, and a value that
one of them refuses is refused by all with the same path.
"""

from __future__ import annotations

from ._abort import render_reason
from ._ledger import OutputLedger
from ._lossless import JsonValue, LosslessJsonError, decode, encode, measure, snapshot, string_cost
from ._names import check_namespaces

__all__ = [
    "JsonValue",
    "LosslessJsonError",
    "OutputLedger",
    "check_namespaces",
    "decode",
    "encode",
    "measure",
    "render_reason",
    "snapshot",
    "string_cost",
]
