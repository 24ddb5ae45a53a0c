"""The parser corpus of test262 as programs for the worker-thread provider.

What Node itself says about each text, in the place where a program stands, is the measure: the body of
an async function in strict mode, for `.module.js` a module. Every difference is listed in
`test262_differences.json` and explained in `docs/reference/corpora.md`.

`CODE_RUNTIME_CORPORA=all` runs every file as a program, otherwise one in 120.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Final, TypedDict

import anyio
import pytest

from code_runtime import CodeRunRequest, CodeRunResult, Context
from code_runtime_worker_thread import WorkerThreadCodeRuntime
from code_runtime_worker_thread._node import find_node

ALL: Final = os.environ.get("CODE_RUNTIME_CORPORA") == "all"
HERE: Final = Path(__file__).parent
CORPUS: Final = HERE.parents[1] / "node_modules" / "test262-parser-tests"
PAGE: Final = HERE.parents[1] / "docs" / "reference" / "corpora.md"
SAMPLE: Final = 1 if ALL else 120
CONFIG: Final = {"compute_ms": 1_000, "max_concurrent_runs": 4}
HANG_S: Final = 3_600
PLACE: Final = re.compile(r"\n {4}at program\.ts:(\d+):(\d+)\Z")
LINE_END: Final = re.compile("\r\n|[\n\r\u2028\u2029]")


class Verdict(TypedDict):
    """Of one file: messages of those who refuse it, and what became of its text."""

    node: str | None
    ours: str | None
    retire: bool
    same: bool


class Reason(TypedDict):
    """Why the verdicts on some files differ."""

    here: str
    files: list[str]


TWINS: Final = ("pass", "pass-explicit")
LISTED: Final = json.loads((HERE / "test262_differences.json").read_text(encoding="utf-8"))
REASONS: Final[Mapping[str, Reason]] = LISTED["differences"]
ENDLESS: Final = {f"{folder}/{name}" for folder in TWINS for name in LISTED["endless"]}


def text_of(file: str) -> str:
    """Read a file of the corpus with its own line ends."""
    return (CORPUS / file).read_bytes().decode()


@pytest.fixture(scope="module")
def verdicts() -> Mapping[str, Verdict]:
    """Both verdicts on every file, from one process of Node."""
    node = anyio.run(find_node).path
    script = HERE / "test262_verdicts.mjs"
    flags = ["--experimental-vm-modules", "--no-warnings"]
    done = subprocess.run([node, *flags, script], capture_output=True, text=True, check=True)
    found: dict[str, Verdict] = json.loads(done.stdout)
    return found


def test_the_corpus_is_complete(verdicts: Mapping[str, Verdict]) -> None:
    folders = Counter(file.partition("/")[0] for file in verdicts)
    assert folders == {"pass": 1981, "pass-explicit": 1981, "fail": 731, "early": 668}


def test_verdicts_differ_from_node_only_as_listed(verdicts: Mapping[str, Verdict]) -> None:
    seen = {
        file: "accepted" if verdict["ours"] is None else "refused"
        for file, verdict in verdicts.items()
        if (verdict["ours"] is None) != (verdict["node"] is None)
    }
    listed = {file: reason["here"] for reason in REASONS.values() for file in reason["files"]}
    assert seen == listed


def test_every_reason_is_explained_with_its_count() -> None:
    page = PAGE.read_text(encoding="utf-8").partition("### Where the corpus expects")[0]
    rows = re.findall(r"^\| (.+?) \| (\d+) \| (accepted|refused) \|", page, re.MULTILINE)
    assert [(name, int(count), here) for name, count, here in rows] == [
        (name, len(reason["files"]), reason["here"]) for name, reason in REASONS.items()
    ]


def test_a_program_without_types_runs_as_it_was_written(
    verdicts: Mapping[str, Verdict],
) -> None:
    changed = {file for file, v in verdicts.items() if v["ours"] is None and not v["same"]}
    types = {*REASONS["type of a field"]["files"], *REASONS["overload of a constructor"]["files"]}
    markers = {file for file in changed if text_of(file).startswith("export {}")}
    assert changed == types | markers


def test_every_refusal_names_a_place_in_the_program(verdicts: Mapping[str, Verdict]) -> None:
    refused = {file: v["ours"] for file, v in verdicts.items() if v["ours"] is not None}
    astray = []
    for file, message in refused.items():
        place = PLACE.search(message)
        lines = LINE_END.split(text_of(file))
        line, column = map(int, place.groups()) if place else (0, 0)
        if not (1 <= line <= len(lines) and 1 <= column <= len(lines[line - 1]) + 1):
            astray.append((file, message))
    assert astray == []


def test_no_program_breaks_the_stripper(verdicts: Mapping[str, Verdict]) -> None:
    assert [file for file, verdict in verdicts.items() if verdict["retire"]] == []


def end_of(result: CodeRunResult) -> str:
    """Tell how a run ended: a refusal with its message, else the kind."""
    if result.error is None:
        return "value"
    refused = result.error.message.startswith("SyntaxError: ")
    return result.error.message if refused else result.error.kind


def ends_allowed(file: str, verdict: Verdict) -> set[str]:
    """What a run of the file may come to."""
    if verdict["ours"] is not None:
        return {verdict["ours"]}
    # The programs use names that nobody defines, so most throw; none prints or returns anything.
    return {"timeout"} if file in ENDLESS else {"value", "exception"}


@pytest.mark.slow
@pytest.mark.timeout(HANG_S)
@pytest.mark.anyio
async def test_complete_runs_end_as_the_verdicts_say(verdicts: Mapping[str, Verdict]) -> None:
    ends: dict[str, str] = {}
    files = {*list(verdicts)[::SAMPLE], min(ENDLESS)}
    async with Context() as ctx:
        await ctx.plugin(WorkerThreadCodeRuntime, CONFIG)

        async def run_one(file: str) -> None:
            result = await ctx.codeRuntime.run(CodeRunRequest(text_of(file)))
            assert (result.logs, result.value) == ([], None)
            ends[file] = end_of(result)

        async with anyio.create_task_group() as group:
            for file in sorted(files):
                group.start_soon(run_one, file)
    assert set(ends) == files
    wrong = {f: end for f, end in ends.items() if end not in ends_allowed(f, verdicts[f])}
    assert wrong == {}
    counts = Counter("refused" if end.startswith("SyntaxError: ") else end for end in ends.values())
    assert not ALL or counts == LISTED["runs"]
