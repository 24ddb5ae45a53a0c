"""How deep the values are that go into MCP messages.

The SDK and clients in other languages walk values by recursion; what is deeper stays text.
"""

from __future__ import annotations

from typing import Final

MAX_DEPTH: Final = 64


def is_deep(value: object) -> bool:
    """Tell whether a JSON value has more than 64 levels of lists and objects."""
    level = [value]
    for _ in range(MAX_DEPTH + 1):
        level = [
            child
            for item in level
            if isinstance(item, (dict, list))
            for child in (item.values() if isinstance(item, dict) else item)
        ]
        if not level:
            return False
    return True
