"""Reads the scenarios of `tests/scenarios`, whose README describes the format."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

FOLDER: Final = Path(__file__).parents[1] / "scenarios"
DATA: Final = FOLDER / "data"
LANGUAGES: Final[tuple[str, ...]] = ("typescript", "python")
# A reader must see the whole program at once.
MAX_LINES: Final = 22

_BLOCKS: Final = ("json given", *LANGUAGES, "json expect")
_GIVEN: Final = {"limits", "runs"}
_EXPECTED: Final = {"value", "failure", "logs", "log_count", "logs_truncated", "calls"}
_FAILURE: Final = {"kind", "message", "mentions", *LANGUAGES}
_LIMITS: Final = {
    *("wall_ms", "compute_s", "memory_mb"),
    *("value_bytes", "output_bytes", "log_bytes"),
}


@dataclass(frozen=True, slots=True)
class Scenario:
    """One file: `name` is its path within the folder, without the suffix."""

    name: str
    about: str
    programs: Mapping[str, str]
    limits: Mapping[str, int]
    runs: int
    expect: Mapping[str, Any]


def read_scenarios(folder: Path = FOLDER) -> Iterator[Scenario]:
    """Yield the scenarios of the themes, in the order of their names."""
    for path in sorted(folder.glob("*/*.md")):
        name = path.relative_to(folder).with_suffix("").as_posix()
        try:
            yield parse_scenario(name, path.read_text(encoding="utf-8"))
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from error


def parse_scenario(name: str, text: str) -> Scenario:
    """Read one file.

    Raises:
        ValueError: something that the format does not name, which nobody would check.
    """
    lines = text.split("\n")
    heading = re.fullmatch(r"# (\S.*[.])", lines[0])
    if heading is None:
        raise _refuse("the heading", lines[0], "'# ' and one sentence")
    blocks = dict(_blocks(lines[1:]))
    programs: dict[str, str] = {name: blocks[name] for name in LANGUAGES if name in blocks}
    if not programs:
        raise _refuse("the programs", sorted(blocks), "one or both languages")
    given = json.loads(blocks.get("json given", "{}"))
    expect = json.loads(blocks.get("json expect", "null"))
    _check_given(given)
    _check_expected(expect)
    _check_programs(name, programs)
    limits = given.get("limits", {})
    return Scenario(name, heading[1], programs, limits, given.get("runs", 1), expect)


def _refuse(part: str, seen: object, expected: str) -> ValueError:
    return ValueError(f"Cannot read {part}: {seen!r}, expected {expected}")


def _blocks(lines: list[str]) -> Iterator[tuple[str, str]]:
    """Yield the info and the text of each fenced block; they stand in the order of `_BLOCKS`."""
    left = list(_BLOCKS)
    rest = iter(lines)
    for line in rest:
        if not line:
            continue
        info = line.removeprefix("```")
        if info == line or info not in left:
            raise _refuse("a line", line, f"the start of a block: {', '.join(left)}, in this order")
        del left[: left.index(info) + 1]
        body = []
        end = ""
        for end in rest:
            if end.startswith("```"):
                break
            body.append(end)
        if end != "```":
            raise _refuse("a block", info, "a line ``` that ends it")
        yield info, "\n".join(body)


def _check_fields(part: str, document: object, allowed: set[str]) -> None:
    if not isinstance(document, dict) or not set(document) <= allowed:
        seen = sorted(document) if isinstance(document, dict) else document
        raise _refuse(part, seen, f"an object with some of {', '.join(sorted(allowed))}")


def _check_given(given: Any) -> None:
    _check_fields("given", given, _GIVEN)
    _check_fields("given.limits", given.get("limits", {}), _LIMITS)


def _check_expected(expect: Any) -> None:
    _check_fields("expect", expect, _EXPECTED)
    if "failure" not in expect:
        return
    _check_fields("expect.failure", expect["failure"], _FAILURE)
    if "value" in expect:
        raise _refuse("expect", sorted(expect), "a value or a failure")
    said = set(expect["failure"])
    if "kind" not in said or said == {"kind"}:
        raise _refuse("expect.failure", sorted(said), "a kind, and what the message says")


def _check_programs(name: str, programs: Mapping[str, str]) -> None:
    for language, program in programs.items():
        count = program.count("\n") + 1
        if count > MAX_LINES:
            raise _refuse(language, count, f"at most {MAX_LINES} lines")
    # What runs in one language only says so in its name.
    if len(programs) == 1 and not Path(name).name.startswith(tuple(f"{one}_" for one in programs)):
        raise _refuse("the file's name", name, f"a name that begins with {next(iter(programs))}_")
