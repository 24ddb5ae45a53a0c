"""The pages say what the code does: blocks run, tables equal the code, links lead somewhere."""

from __future__ import annotations

import dataclasses
import functools
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from page_blocks import Block, BlockError, blocks_of, check
from pymdownx.slugs import slugify  # type: ignore[import-untyped]

from code_mode import RegistrySettings
from code_runtime._names import PROGRAM_OWNED, RUNTIME_OWNED
from code_runtime_python import PythonConfig
from code_runtime_worker_thread import WorkerThreadConfig

ROOT = Path(__file__).parents[1]
PAGES = sorted(
    path
    for path in (*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("packages/*/*.md"))
    if "node_modules" not in path.parts
)
BLOCKS = [block for page in PAGES for block in blocks_of(page) if not block.is_shown_only]


@pytest.mark.parametrize("block", [pytest.param(block, id=block.id) for block in BLOCKS])
def test_block_is_what_the_page_says(block: Block, tmp_path: Path) -> None:
    check(block, tmp_path)


def test_blocks_of_the_readme_show_what_they_print() -> None:
    outputs = [b.output for b in BLOCKS if b.page == ROOT / "README.md" and b.language == "python"]
    assert len(outputs) > 1
    assert None not in outputs


PAGE = """# Page

```python title="tools.py"
word = "a"
```

```python
import tools
print(tools.word, 1.5)
```

```
{}
```

- a list
<!-- program: tools.py -->
  ```typescript
  return 1
  ```
"""


def page_of(folder: Path, output: str) -> list[Block]:
    page = folder / "page.md"
    page.write_text(PAGE.replace("{}", output), "utf-8")
    return blocks_of(page)


def test_blocks_have_files_outputs_and_notes(tmp_path: Path) -> None:
    file, script, program = page_of(tmp_path, "a 1.5")
    assert (file.title, file.output, script.output) == ("tools.py", None, "a 1.5\n")
    assert script.files == {"tools.py": 'word = "a"\n'}
    assert (program.text, program.note) == ("return 1\n", ("program", "tools.py"))


@pytest.mark.parametrize("output", ["a 1.5", "a …", "…", "…\na 1.5\n…"])
def test_block_with_its_output_passes(tmp_path: Path, output: str) -> None:
    (tmp_path / "run").mkdir()
    check(page_of(tmp_path, output)[1], tmp_path / "run")


@pytest.mark.parametrize("output", ["a 1.6", "b …", "a 1.5\n2", ""])
def test_block_with_another_output_is_refused(tmp_path: Path, output: str) -> None:
    (tmp_path / "run").mkdir()
    with pytest.raises(BlockError, match="the page shows"):
        check(page_of(tmp_path, output)[1], tmp_path / "run")


def test_block_of_a_language_that_nothing_checks_is_refused(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("```sh\nls\n```\n", "utf-8")
    (tmp_path / "run").mkdir()
    with pytest.raises(BlockError, match="a note on how a block in 'sh' is checked"):
        check(blocks_of(page)[0], tmp_path / "run")


def test_make_targets_that_pages_name_exist() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))
    named = {
        (page.name, target)
        for page in PAGES
        for target in re.findall(
            r"^\$? ?make ([a-z-]+)|`make ([a-z-]+)[ `]", page.read_text(), re.M
        )
        for target in target
        if target
    }
    assert len(named) > 5
    assert {(page, target) for page, target in named if target not in targets} == set()


def prose_of(page: Path) -> str:
    return re.sub(r"(`{3,}).*?\1|`[^`]*`", "", page.read_text("utf-8"), flags=re.DOTALL)


def anchors_of(page: Path) -> set[str]:
    """Return the anchors that a forge and the site give to the headings of a page."""
    text = re.sub(r"(`{3,}).*?\1", "", page.read_text("utf-8"), flags=re.DOTALL)
    slug = slugify(case="lower")
    return {slug(title, "-") for title in re.findall(r"^#+ (.+)$", text, re.MULTILINE)}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_of_a_page_lead_somewhere(page: Path) -> None:
    for target, anchor in re.findall(r"\]\(([^)#\s]*)#?([^)\s]*)\)", prose_of(page)):
        if not target.startswith("http"):
            goal = page.parent / target if target else page
            assert goal.exists(), target
            assert not anchor or anchor in anchors_of(goal), f"{target}#{anchor}"


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


CONFIGURATION = "docs/reference/configuration.md"


def documented_defaults(page: str, heading: str) -> dict[str, str]:
    return {
        row[0].strip("`"): row[1].strip("`").replace(",", "")
        for row in table(page, heading)
        if row[0].startswith("`")
    }


@pytest.mark.parametrize(
    ("page", "heading", "config"),
    [
        (CONFIGURATION, "The worker-thread provider", WorkerThreadConfig),
        (CONFIGURATION, "The Python provider", PythonConfig),
        ("docs/code-mode.md", "Settings", RegistrySettings),
    ],
)
def test_configuration_page_equals_the_code(page: str, heading: str, config: type[object]) -> None:
    fields = dataclasses.fields(config)  # type: ignore[arg-type]
    defaults = {field.name: str(field.default) for field in fields}
    shown = documented_defaults(page, heading)
    assert {name: text.strip("'") for name, text in shown.items()} == defaults


def test_configuration_page_equals_the_node_host() -> None:
    source = (ROOT / "packages/code-runtime-python/node/src/config.ts").read_text("utf-8")
    (body,) = re.findall(r"^const DEFAULTS = \{\n(.*?)^\};", source, re.MULTILINE | re.DOTALL)
    defaults = dict(re.findall(r"^  (\w+): (.+),$", body, re.MULTILINE))
    (interface,) = re.findall(r"^export interface PythonConfig \{\n(.*?)^\}", source, re.M | re.S)
    assert list(defaults) == re.findall(r"readonly (\w+)\?:", interface)
    numbers = {name: text.replace("8 * MIB", "8_388_608") for name, text in defaults.items()}
    assert documented_defaults(CONFIGURATION, "The Node host for Python programs") == {
        name: text.replace("_", "").strip('"') for name, text in numbers.items()
    }


def options_of(command: str) -> set[str]:
    """Return the long options that the help of a command and of its subcommands names."""
    tool = Path(sys.executable).with_name(command)
    ask = functools.partial(subprocess.run, capture_output=True, text=True, check=True)
    wide = {**os.environ, "COLUMNS": "200", "NO_COLOR": "1", "TERM": "dumb"}
    top = ask([tool, "--help"], env=wide).stdout
    subcommands = re.findall(r"^\W*(\w+)  ", top.split("Commands")[1], re.MULTILINE)
    assert len(subcommands) >= 3
    helps = [top, *(ask([tool, name, "--help"], env=wide).stdout for name in subcommands)]
    return set(re.findall(r"^\W*(?:-\w, )?(--[a-z-]+)", "\n".join(helps), re.MULTILINE))


@pytest.mark.parametrize("command", ["code-runtime", "code-mode"])
def test_command_line_page_has_every_option(command: str) -> None:
    page = (ROOT / "docs/reference/command-line.md").read_text("utf-8")
    options = options_of(command) - {"--help", "--version", "--install-completion"}
    assert len(options) > 5
    assert {name for name in options if not re.search(rf"{name}\b", page)} == set()


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
