"""Names of the Python SDK text: what may stand bare, and how classes are called."""

from __future__ import annotations

import keyword
import unicodedata
from typing import Final, final

MAX_BASE_UNITS: Final = 120
_MAX_HEAD_UNITS: Final = 112  # leaves room for `Args` or `Output` and for a number

_TAKEN: Final = frozenset(
    [
        "Any",
        "Literal",
        "NotRequired",
        "Protocol",
        "TypedDict",
        "Exception",
        "ToolCallError",
        "Tools",
        "tools",
        "str",
        "float",
        "int",
        "bool",
        "list",
        "dict",
        "type",
        "object",
    ]
)


def is_bare(name: str) -> bool:
    """Tell whether a name can be written as it is, after a dot or as a field (CM-051).

    Python reads names in their NFKC form, so one that this form changes would be another name.
    `match`, `case` and `type` are fine.
    """
    return (
        name.isidentifier()
        and unicodedata.is_normalized("NFKC", name)
        and not keyword.iskeyword(name)
        and name != "__debug__"
    )


def is_method_name(name: str) -> bool:
    """Tell whether a tool can be a method: bare, and not leading with an underscore (CM-046)."""
    return not name.startswith("_") and is_bare(name)


def is_field_name(name: str) -> bool:
    """Tell whether a key can be a field of a class: two leading underscores may be mangled."""
    return not name.startswith("__") and is_bare(name)


def in_code_units(name: str) -> bytes:
    """Give a sort key that orders names by their UTF-16 code units, as JavaScript does."""
    return name.encode("utf-16-be", "surrogatepass")


def camel_case(name: str) -> str:
    """Spell a name in CamelCase, without what no identifier may hold.

    The result may be empty, or start with what cannot start an identifier.
    """
    pieces = "".join(
        character if character != "_" and f"a{character}".isidentifier() else " "
        for character in unicodedata.normalize("NFKC", name)
    ).split(" ")
    joined = "".join(piece[:1].upper() + piece[1:] for piece in pieces)
    return unicodedata.normalize("NFKC", joined)


def class_base(head: str, tail: str = "") -> str:
    """Start the class names of one tool, or of one definition, from its name.

    Args:
        head: The name.
        tail: What follows it, such as `Args`.
    """
    camel = _capped(camel_case(head), _MAX_HEAD_UNITS)
    return join_base(camel if camel.isidentifier() else f"Tool{camel}", tail)


def join_base(base: str, more: str) -> str:
    """Lengthen the base of a class name, at most to 120 UTF-16 units (CM-050)."""
    return _capped(unicodedata.normalize("NFKC", base + more), MAX_BASE_UNITS)


def _capped(text: str, max_units: int) -> str:
    if len(text) * 2 <= max_units:
        return text
    units = text.encode("utf-16-be", "surrogatepass")[: max_units * 2]
    # Half of a character at the end is dropped.
    return units.decode("utf-16-be", "ignore")


@final
class ClassNames:
    """The names that the classes of one text have."""

    def __init__(self) -> None:
        self._taken: set[str] = set(_TAKEN)
        self._next: dict[str, int] = {}

    def take(self, base: str) -> str:
        """Give a base as a name, with 2, 3, … behind it if others have it."""
        number = self._next.get(base, 1)
        name = base if number == 1 else f"{base}{number}"
        while name in self._taken or keyword.iskeyword(name):
            number += 1
            name = f"{base}{number}"
        self._taken.add(name)
        self._next[base] = number + 1
        return name
