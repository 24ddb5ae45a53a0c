"""The fenced blocks of a page: what each one is, how it is run, and what it has to print.

CONTRIBUTING.md, section Documentation, says how a page is written so that this reads it.
"""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys
import textwrap
import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
TIMEOUT_S: Final = 50

_FENCE: Final = re.compile(r"^(?P<indent> *)(?P<ticks>`{3,})(?P<info>[^`]*)$")
_TITLE: Final = re.compile(r'\btitle="([^"]+)"')
_NOTE: Final = re.compile(r"^ *<!-- (program|from|not run|checked by)(?:: (.+?))? -->$")
# Languages that are only shown; every other block has to be run, compared or explained.
SHOWN_ONLY: Final = {"", "text", "mermaid", "diff", "html", "css", "dockerfile", "pycon"}
_PROGRAM_SUFFIX: Final = {"python": ".py", "typescript": ".ts", "ts": ".ts"}


class BlockError(Exception):
    """A block is not what its page says, or nothing says what it is."""


@dataclass(frozen=True, slots=True)
class Block:
    """One fenced block; `output` is the text of the plain block right behind it, if there is one."""

    page: Path
    line: int
    language: str
    title: str | None
    note: tuple[str, str] | None
    text: str
    output: str | None = None
    files: dict[str, str] = field(default_factory=dict)

    @property
    def id(self) -> str:
        """The place of the block, for the name of a test."""
        return f"{self.page.relative_to(ROOT)}:{self.line}"

    @property
    def is_shown_only(self) -> bool:
        """Whether nothing of the block can be run or compared."""
        return self.note is None and self.title is None and self.language in SHOWN_ONLY


@dataclass(frozen=True, slots=True)
class _Fence:
    first: int
    last: int
    language: str
    title: str | None
    text: str


def _fences(lines: list[str]) -> list[_Fence]:
    found, number = [], 0
    while number < len(lines):
        start = _FENCE.match(lines[number])
        number += 1
        if start is None:
            continue
        first, closing = number, start["indent"] + start["ticks"]
        while lines[number] != closing:
            number += 1
        text = textwrap.dedent("".join(f"{line}\n" for line in lines[first:number]))
        info = start["info"].strip()
        title = _TITLE.search(info)
        language = info.split(" ")[0]
        found.append(_Fence(first - 1, number, language, title and title[1], text))
        number += 1
    return found


def _note(above: list[str]) -> re.Match[str] | None:
    """Return the note right above a fence; one blank line may be between."""
    near = [line for line in above[-2:] if line.strip()]
    return _NOTE.match(near[-1]) if near else None


def blocks_of(page: Path) -> list[Block]:
    """Return the blocks of a page in their order; outputs are part of the block before them."""
    lines = page.read_text("utf-8").splitlines()
    fences = _fences(lines)
    blocks: list[Block] = []
    files: dict[str, str] = {}
    skip = -1
    for index, fence in enumerate(fences):
        if fence.first == skip:
            continue
        note = _note(lines[: fence.first])
        output, following = None, fences[index + 1 : index + 2]
        if following and following[0].language in ("", "text") and following[0].title is None:
            between = lines[fence.last + 1 : following[0].first]
            runs = fence.language not in SHOWN_ONLY and fence.title is None
            if runs and not any(line.strip() for line in between):
                output, skip = following[0].text, following[0].first
        shown = (note[1], note[2] or "") if note else None
        if fence.title is not None:
            files = files | {fence.title: fence.text}
        blocks.append(
            Block(
                page,
                fence.first + 1,
                fence.language,
                fence.title,
                shown,
                fence.text,
                output,
                dict(files),
            )
        )
    return blocks


def matches(shown: str, seen: str) -> bool:
    """Whether text is what a page shows, where `…` stands for any text and a line of it for any lines."""
    form = "".join(
        r"(?:.*\n)*?"
        if line.strip() == "…"
        else r".*?".join(map(re.escape, line.split("…"))) + r"\n"
        for line in shown.rstrip("\n").split("\n")
    )
    return re.fullmatch(form, seen.rstrip("\n") + "\n") is not None


def check(block: Block, folder: Path) -> None:
    """Run or compare a block in an empty folder.

    Raises:
        BlockError: What the page shows is not so.
    """
    for name, text in block.files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
    for name in ("examples", "node_modules"):
        (folder / name).symlink_to(ROOT / name)
    kind, rest = block.note or ("", "")
    if kind == "not run":
        _need(rest, "a reason")
    elif kind == "checked by":
        _need((ROOT / rest).is_file(), f"{rest} in the repository")
    elif kind == "from":
        text = (ROOT / rest).read_text("utf-8")
        _need(f"\n{block.text}" in f"\n{text}", f"the lines of {rest}")
    elif kind == "program" or (block.title is None and block.language in ("typescript", "ts")):
        _check_program(block, rest.split(), folder)
    elif block.title is not None:
        _parse(block)
    elif block.language == "python":
        _compare(block.output, _run([sys.executable, "-W", "error", "-c", block.text], folder, 0))
    elif block.language == "console":
        _check_console(block, folder)
    else:
        _parse(block)


def _need(condition: object, expected: str) -> None:
    if not condition:
        raise BlockError(f"Cannot check block: expected {expected}")


def _check_program(block: Block, bindings: list[str], folder: Path) -> None:
    path = folder / f"program{_PROGRAM_SUFFIX[block.language]}"
    path.write_text(block.text, "utf-8")
    options = [word for name in bindings for word in ("--bindings", name)]
    _need(block.output is not None, "a plain block behind the program that shows what it prints")
    _compare(block.output, _run(["code-runtime", "run", path.name, *options], folder, None))


def _check_console(block: Block, folder: Path) -> None:
    """Run each `$ command`, and compare the lines below it."""
    parts = re.split(r"^\$ ", block.text, flags=re.MULTILINE)
    _need(parts[0] == "" and len(parts) > 1, "`$ command` on the first line")
    for part in parts[1:]:
        command, _, shown = part.partition("\n")
        while command.endswith("\\"):
            more, _, shown = shown.partition("\n")
            command = f"{command}\n{more}"
        _compare(shown, _run(["bash", "-c", command], folder, None))


def _parse(block: Block) -> None:
    """Check the syntax of what is not run by itself."""
    if block.language == "python":
        ast.parse(block.text)  # unlike compile, it takes a program with its return and await
    elif block.language == "json":
        json.loads(block.text)
    elif block.language == "toml":
        tomllib.loads(block.text)
    elif block.title is None:
        _need(
            block.language in SHOWN_ONLY,
            f"a note on how a block in {block.language!r} is checked (CONTRIBUTING.md)",
        )


def _run(command: list[str], folder: Path, code: int | None) -> str:
    tools = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    done = subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, "PATH": tools, "COLUMNS": "100", "NO_COLOR": "1", "TERM": "dumb"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        timeout=TIMEOUT_S,
        check=False,
    )
    if code is not None and done.returncode != code:
        raise BlockError(f"the block ended with {done.returncode}:\n{done.stdout}")
    return done.stdout


def _compare(shown: str | None, seen: str) -> None:
    if shown is not None and not matches(shown, seen):
        raise BlockError(f"the page shows\n{shown}\nbut what is printed is\n{seen}")
