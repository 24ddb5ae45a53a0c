"""Which name a tool of a server gets among all tools.

The rule looks at the lists of all servers together, so it does not matter which of them was ready
first:

- `auto`: a tool keeps its own name when no other server has a tool of that name and the name is not
  reserved; otherwise it becomes `<server>__<tool>`, for every server that has it.
- `always`: every tool becomes `<server>__<tool>`.
- `never`: every tool keeps its own name; of several, the server that comes first in the config has
  it, and the others are left out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final, TypeAlias

from .._tools import MAX_NAME_CHARS, RESERVED_NAMES, seen

if TYPE_CHECKING:
    from .config import Prefix

SEPARATOR: Final = "__"
ToolKey: TypeAlias = tuple[str, str]
"""The server and the name that the server has for the tool."""


def prefixed(key: ToolKey) -> str:
    """Return the name of a tool with that of its server."""
    return SEPARATOR.join(key)


def assign_names(
    tools: Mapping[str, Sequence[str]], prefix: Prefix
) -> tuple[dict[ToolKey, str], list[str]]:
    """Give each tool a name of its own.

    Args:
        tools: The names of the tools of each server, in the order of the config.
        prefix: The rule.

    Returns:
        The name of each tool, and for each tool that gets none a sentence that says why.
    """
    counts = Counter(name for names in tools.values() for name in set(names))
    names: dict[ToolKey, str] = {}
    owners: dict[str, ToolKey] = {}
    problems: list[str] = []
    for key in ((server, tool) for server, listed in tools.items() for tool in listed):
        own = key[1]
        is_free = counts[own] == 1 and own not in RESERVED_NAMES
        bare = prefix == "never" or (prefix == "auto" and is_free)
        name = own if bare else prefixed(key)
        reason = _refusal(name, key, owners)
        if reason:
            problems.append(f"Left out tool {seen(own)} of MCP server {key[0]!r}: {reason}")
        else:
            owners[name] = key
            names[key] = name
    return names, problems


def _refusal(name: str, key: ToolKey, owners: Mapping[str, ToolKey]) -> str:
    if name in RESERVED_NAMES:
        return f"{name!r} is reserved"
    if not name or len(name) > MAX_NAME_CHARS:
        return f"its name has {len(name)} characters, expected 1 to {MAX_NAME_CHARS}"
    owner = owners.get(name)
    if owner is None:
        return ""
    return "it is listed twice" if owner == key else f"server {owner[0]!r} has {name!r} already"
