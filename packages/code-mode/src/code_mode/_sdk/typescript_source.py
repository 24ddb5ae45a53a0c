"""Names, literals and comments of TypeScript source, from texts that nobody has vetted."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from .json_text import json_pieces

_BARE_KEY: Final = re.compile(r"[A-Za-z_$][A-Za-z0-9_$]*\Z")
_NO_WORD: Final = re.compile(r"[^A-Za-z0-9]+")
_BACKTICKS: Final = re.compile("`{3,}")

# What no text of ours may hold as it is: control characters, line ends of JavaScript, surrogates
# (no UTF-8), marks that reorder or hide what a reader sees.
_UNSEEN: Final = re.compile(
    "[\x00-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufeff\ufffe\uffff]"
)

_MAX_WORD_CHARS: Final = 60


def key_text(name: str) -> str:
    """Spell a property name, bare where TypeScript allows it (CM-033)."""
    return name if _BARE_KEY.match(name) else literal_text(name)


def literal_text(value: object) -> str:
    """Spell a JSON value as a literal, which is valid as a type too."""
    return "".join(escape_unseen(piece) for piece in json_pieces(value))


def comment_text(note: str) -> str:
    """Give the text of a one-line comment: white space collapsed, nothing that could end it."""
    return escape_unseen(" ".join(note.split())).replace("*/", "*\\/")


def doc_lines(note: str, indent: str) -> str:
    """Give a doc comment as a whole line, or nothing for a note without a word (CM-035)."""
    text = comment_text(note)
    return f"{indent}/** {text} */\n" if text else ""


def escape_unseen(text: str) -> str:
    r"""Write characters that cannot be seen, or not be encoded, as `\uXXXX`."""
    return _UNSEEN.sub(lambda match: f"\\u{ord(match.group()):04x}", text)


def fenced(source: str) -> str:
    """Put source into a Markdown block whose fence is longer than every run of backticks in it."""
    longest = max((len(run) for run in _BACKTICKS.findall(source)), default=2)
    fence = "`" * (longest + 1)
    return f"{fence}ts\n{source}{fence}\n"


class TypeNames:
    """Gives type aliases names that are identifiers, each once.

    Args:
        taken: Names that mean something else in the text.
    """

    def __init__(self, taken: Iterable[str]) -> None:
        self._taken = set(taken)
        self._next_number: dict[str, int] = {}

    def choose(self, *words: str) -> str:
        """Choose a name of some words in CamelCase, with a number where it is taken."""
        stem = "".join(_camel(word) for word in words)
        if not stem or stem[0].isdigit():
            stem = f"Tool{stem}"
        name = stem
        number = self._next_number.get(stem, 2)
        while name in self._taken:
            name = f"{stem}{number}"
            number += 1
        self._next_number[stem] = number
        self._taken.add(name)
        return name


def _camel(text: str) -> str:
    words = _NO_WORD.sub(" ", text).split()
    return "".join(word[0].upper() + word[1:] for word in words)[:_MAX_WORD_CHARS]
