"""The list of mutants that may survive, each with its reason."""

from __future__ import annotations

import json
import tomllib
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from .mutations import Identity, Mutant


@dataclass(frozen=True, slots=True)
class Explanation:
    """One entry.

    Args:
        identity: Target, function, original line and mutated line.
        reason: Why no test can or should tell the two apart.
        times: How many mutants of the function look like this.
    """

    identity: Identity
    reason: str
    times: int


def load(path: Path) -> list[Explanation]:
    """Read the list.

    Raises:
        ValueError: an entry has a missing, empty or unknown field, or stands there twice.
    """
    entries = tomllib.loads(path.read_text("utf-8")).get("survivor", [])
    found = [_explanation(entry) for entry in entries]
    for identity, count in Counter(item.identity for item in found).items():
        if count > 1:
            raise ValueError(f"Cannot use {path.name}: {count} entries for {identity}, expected 1")
    return found


def _explanation(entry: dict[str, object]) -> Explanation:
    texts = [entry.get(name) for name in ("target", "function", "original", "mutated", "reason")]
    times = entry.get("times", 1)
    unknown = set(entry) - {"target", "function", "original", "mutated", "reason", "times"}
    if unknown or not all(isinstance(text, str) for text in texts) or not texts[4]:
        raise ValueError(f"Cannot use an entry: {entry!r}, expected four names and a reason")
    if type(times) is not int or times < 1:
        raise ValueError(f"Cannot use an entry: times is {times!r}, expected a count")
    target, function, original, mutated, reason = map(str, texts)
    return Explanation((target, function, original, mutated), reason, times)


def stale(explanations: Iterable[Explanation], mutants: Iterable[Mutant]) -> list[Explanation]:
    """Return the entries that describe more mutants than there are among these."""
    counts = Counter(mutant.identity for mutant in mutants)
    return [item for item in explanations if counts[item.identity] < item.times]


def unexplained(survivors: Iterable[Mutant], explanations: Iterable[Explanation]) -> list[Mutant]:
    """Return the survivors that no entry covers."""
    left = Counter({item.identity: item.times for item in explanations})
    found = []
    for mutant in survivors:
        left[mutant.identity] -= 1
        if left[mutant.identity] < 0:
            found.append(mutant)
    return found


def entry_text(mutant: Mutant) -> str:
    """Spell a survivor as an entry that lacks its reason."""
    names = ("target", "function", "original", "mutated")
    fields = zip(names, mutant.identity, strict=True)
    lines = [f"{name} = {_quoted(text)}" for name, text in fields]
    return "\n".join(["[[survivor]]", *lines, 'reason = ""', ""])


def _quoted(text: str) -> str:
    if "'" not in text:
        return f"'{text}'"
    return f"'''{text}'''" if "'''" not in text and text[-1] != "'" else json.dumps(text)
