"""The pages say what the code does: blocks run, tables equal the code, links lead somewhere."""

from __future__ import annotations

import dataclasses
import re
import subprocess
import sys
from pathlib import Path

import pytest

from code_runtime._names import PROGRAM_OWNED, RUNTIME_OWNED
from code_runtime_python import PythonConfig
from code_runtime_worker_thread import WorkerThreadConfig

ROOT = Path(__file__).parents[1]
PAGES = sorted(
    path
    for path in (*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("packages/*/*.md"))
    if "node_modules" not in path.parts
)
BLOCK = re.compile(r"```python\n(.*?)```(?:\n\n```\n(.*?)```)?", re.DOTALL)


def blocks() -> list[tuple[str, str, str | None]]:
    return [
        (f"{page.relative_to(ROOT)}:{number}", match.group(1), match.group(2))
        for page in PAGES
        if page.name == "README.md"
        for number, match in enumerate(BLOCK.finditer(page.read_text("utf-8")), 1)
    ]


@pytest.mark.parametrize(
    ("program", "output"),
    [pytest.param(program, output, id=name) for name, program, output in blocks()],
)
def test_block_runs_and_prints_what_the_page_shows(program: str, output: str | None) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", program],
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout
    if output is not None:
        assert done.stdout == output


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_of_a_page_lead_somewhere(page: Path) -> None:
    prose = re.sub(r"```.*?```|`[^`]*`", "", page.read_text("utf-8"), flags=re.DOTALL)
    for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", prose):
        if not target.startswith("http"):
            assert (page.parent / target).exists(), target


def table(page: str, heading: str | None = None) -> list[list[str]]:
    """Return the rows of a page, or those between one of its headings and the next."""
    text = (ROOT / page).read_text("utf-8")
    if heading is not None:
        text = re.split("\n##", text.split(f"\n## {heading}\n")[1])[0]
    return [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in text.splitlines()
        if line.startswith("|")
    ]


@pytest.mark.parametrize(
    ("heading", "config"),
    [
        ("The worker-thread provider", WorkerThreadConfig),
        ("The Python provider", PythonConfig),
    ],
)
def test_configuration_page_equals_the_code(heading: str, config: type[object]) -> None:
    documented = {
        row[0].strip("`"): row[1].replace(",", "")
        for row in table("docs/reference/configuration.md", heading)
        if row[0].startswith("`")
    }
    assert documented == {
        field.name: str(field.default)
        for field in dataclasses.fields(config)  # type: ignore[arg-type]
    }


def test_names_page_equals_the_code() -> None:
    rows = {
        row[0]: set(re.findall("`([^`]+)`", row[1])) for row in table("docs/reference/names.md")
    }
    assert rows["owned by the runtime"] == RUNTIME_OWNED
    assert (
        rows["constants in all but syntax"]
        | rows["what nearly every TypeScript program uses"]
        | rows["what nearly every Python program uses"]
    ) == PROGRAM_OWNED
