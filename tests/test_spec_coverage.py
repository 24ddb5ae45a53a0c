"""Each numbered behaviour is pinned by a test that cites it, or listed as a deviation.

The numbers are the product's own list: SC are the behaviours of the contract, WT those of programs
in worker threads, PY those of Python programs, CM those of Code Mode. A citation is the number in a test's name,
docstring, comment or title, alone or as a range (`WT-001…WT-007`, `WT-001 to WT-007`). The rules of
the conformance suite count as tests: `tests/conformance` runs each on every provider.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
DEVIATIONS = ROOT / "docs" / "reference" / "deviations.md"
LAST_NUMBERS = {"SC": 46, "WT": 197, "PY": 292, "CM": 89}
BEHAVIOURS = frozenset(
    f"{area}-{number:03}" for area, last in LAST_NUMBERS.items() for number in range(1, last + 1)
)
TEST_FILES = (
    "packages/code-runtime/src/code_runtime/testing/_rules_*.py",
    "packages/*/tests/**/test_*.py",
    "packages/*/host/test/**/*.test.ts",
    "packages/*/node/test/**/*.test.ts",
    "tests/**/test_*.py",
)
_CITATION = re.compile(
    r"\b(?P<area>SC|WT|PY|CM)-(?P<first>\d{3})\b"
    r"(?:\s*(?:…|\.\.\.|to)\s*(?:(?P<last_area>SC|WT|PY|CM)-)?(?P<last>\d{3})\b)?"
)


def cited_in(text: str) -> set[str]:
    """Return the behaviours that a text cites, those within its ranges included.

    Raises:
        ValueError: a range that goes backwards or from one area to another.
    """
    found = set()
    for match in _CITATION.finditer(text):
        area, first = match["area"], int(match["first"])
        last = int(match["last"] or first)
        if last < first or match["last_area"] not in (None, area):
            raise ValueError(f"Cannot read a citation: {match[0]!r}, expected a rising range")
        found |= {f"{area}-{number:03}" for number in range(first, last + 1)}
    return found


def deviating_in(page: str) -> set[str]:
    """Return the behaviours that the first cells of a page's tables name."""
    rows = (line for line in page.splitlines() if line.startswith("| "))
    return {name for row in rows for name in cited_in(row.split("|")[1])}


def find_test_files() -> Iterator[Path]:
    """Yield the test files of both languages but this one, whose list is no proof of anything."""
    for pattern in TEST_FILES:
        for path in sorted(ROOT.glob(pattern)):
            if "node_modules" not in path.parts and path != Path(__file__):
                yield path


def test_citations_and_ranges_are_read() -> None:
    assert cited_in("WT-045, WT-046; GP-001. XWT-001 WT-0011 SC-1") == {"WT-045", "WT-046"}
    assert cited_in("SC-012…SC-014") == {"SC-012", "SC-013", "SC-014"}
    assert cited_in("WT-001 to WT-003, WT-196…WT-197") == {
        *("WT-001", "WT-002", "WT-003"),
        *("WT-196", "WT-197"),
    }
    assert cited_in("WT-017...019 (WT-021)") == {"WT-017", "WT-018", "WT-019", "WT-021"}
    assert cited_in("PY-163 to PY-165: as WT-065") == {"PY-163", "PY-164", "PY-165", "WT-065"}
    assert cited_in("from WT-005 to the end") == {"WT-005"}
    assert cited_in("no number") == set()


@pytest.mark.parametrize("text", ["WT-007…WT-001", "SC-001 to WT-003"])
def test_ranges_that_do_not_rise_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="expected a rising range"):
        cited_in(text)


def test_only_the_first_cell_of_a_row_deviates() -> None:
    page = "WT-001 is here.\n\n| line | instead |\n|---|---|\n| WT-002, WT-004 | as WT-003 |\n"
    assert deviating_in(page) == {"WT-002", "WT-004"}


def test_every_behaviour_is_pinned_or_listed_as_a_deviation() -> None:
    cited = {
        name for path in find_test_files() for name in cited_in(path.read_text(encoding="utf-8"))
    }
    listed = deviating_in(DEVIATIONS.read_text(encoding="utf-8"))
    missing = sorted(BEHAVIOURS - cited - listed)
    assert not missing, f"neither cited by a test nor listed: {', '.join(missing)}"


def test_no_test_or_page_cites_a_behaviour_that_does_not_exist() -> None:
    unknown = {
        f"{path.relative_to(ROOT)}: {name}"
        for path in (*find_test_files(), DEVIATIONS)
        for name in cited_in(path.read_text(encoding="utf-8")) - BEHAVIOURS
    }
    assert unknown == set()
