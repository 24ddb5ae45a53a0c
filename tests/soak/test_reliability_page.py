"""The tests that the page on reliability names are there."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs/reliability.md").read_text("utf-8")
NAMED = sorted(set(re.findall(r"`([\w./-]+)::([^`]+)`", PAGE)))
# A function of Python, or a title of vitest.
DEFINITIONS = (r"def {}\b", r"class {}\b", r"""["'`]{}["'`]""")


def is_there(path: str, name: str) -> bool:
    file = ROOT / path
    text = file.read_text("utf-8") if file.exists() else ""
    return any(re.search(form.format(re.escape(name)), text) for form in DEFINITIONS)


def test_every_test_that_the_page_names_exists() -> None:
    assert len(NAMED) > 100
    assert [pair for pair in NAMED if not is_there(*pair)] == []
    assert not is_there("tests/soak/test_reliability_page.py", "test_that_nobody_has_" + "written")


def test_page_has_a_section_with_tests_for_each_promise() -> None:
    sections = re.split(r"^## ", PAGE, flags=re.MULTILINE)[1:]
    numbered = [section for section in sections if re.match(r"\d+\. ", section)]
    assert [int(section.split(".")[0]) for section in numbered] == list(range(1, 11))
    assert all(re.search(r"^\| `[\w./-]+::", section, re.MULTILINE) for section in numbered)


def test_page_names_tests_in_backticks_only_by_path_and_name() -> None:
    """A path without a test, or a test without its path, would escape the check above."""
    loose = [
        word
        for word in re.findall(r"`([^`]+)`", PAGE)
        if re.search(r"\btest_\w+", word) and "::" not in word
    ]
    assert loose == []
