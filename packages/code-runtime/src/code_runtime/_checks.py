"""What a provider tells `code-runtime doctor` about its own prerequisites."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final


@final
@dataclass(frozen=True, slots=True)
class ProviderCheck:
    """One prerequisite: whether it is met, what was seen, and what to do when it is not.

    A provider class offers them through an optional class method `doctor`, plain or async, that
    takes no argument and returns a list of them.

    Args:
        name: The prerequisite in a word or two, such as `Node`.
        ok: Whether it is met.
        detail: What was seen, such as a path and a version.
        fix: What to do about it, as a command where there is one; empty when it is met.
    """

    name: str
    ok: bool
    detail: str
    fix: str = ""
