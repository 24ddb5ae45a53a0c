"""The mutation check itself: its list is up to date, and it tells killed from survived."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

FOLDER = Path(__file__).parent
ROOT = FOLDER.parents[1]

MODULE = """\
LIMIT = 3


def larger(left, right):
    return left if left > right else right


class Box:
    @property
    def size(self):
        return 7
"""
TEST = """\
import tiny


def test_tiny():
    assert (tiny.LIMIT, tiny.larger(1, 2), tiny.larger(2, 1)) == (3, 2, 2)
"""
SCRIPT = """\
import sys
from scripts.mutants.mutations import mutants_of
from scripts.mutants.trial import Target, try_mutants

folder = sys.argv[1]
sys.path.insert(0, folder)
target = Target("tiny", "tiny", f"{folder}/tiny.py", (f"{folder}/test_tiny.py",))
mutants = mutants_of("tiny", open(f"{folder}/tiny.py").read())
for mutant, outcome in zip(mutants, try_mutants(target, mutants, 2), strict=True):
    print(outcome.value, mutant.function, mutant.mutated)
"""


def read(name: str) -> dict[str, Any]:
    return tomllib.loads((FOLDER / f"{name}.toml").read_text("utf-8"))


TARGETS = read("targets")
SURVIVORS: list[dict[str, Any]] = read("explained")["survivor"]


@pytest.mark.parametrize("target", TARGETS.values(), ids=list(TARGETS))
def test_target_names_files_and_tests_that_exist(target: dict[str, Any]) -> None:
    files = [ROOT / name for name in (target["source"], *target["tests"])]
    assert [file for file in files if not file.is_file()] == []
    assert target["source"].removesuffix(".py").endswith(target["module"].replace(".", "/"))
    tests = "".join(file.read_text("utf-8") for file in files[1:])
    assert [name for name in target.get("without", []) if name not in tests] == []


def test_every_explained_survivor_names_a_line_that_the_source_has() -> None:
    """The reason of each is spelled, and no entry stands there twice."""
    names = {"target", "function", "original", "mutated", "reason"}
    seen = set()
    for entry in SURVIVORS:
        assert set(entry) - {"times"} == names, entry
        assert all(isinstance(entry[name], str) and entry[name] for name in names), entry
        assert entry.get("times", 1) >= 1, entry
        source = (ROOT / TARGETS[entry["target"]]["source"]).read_text("utf-8")
        assert entry["original"] in " ".join(source.split()), entry
        assert entry["function"].rpartition(".")[2] in {"<module>", *re.findall(r"\w+", source)}
        seen.add((entry["target"], entry["function"], entry["original"], entry["mutated"]))
    assert len(seen) == len(SURVIVORS)


@pytest.mark.slow
@pytest.mark.timeout(300)  # a dozen processes, each of which imports pytest
def test_mutants_are_killed_or_survive(tmp_path: Path) -> None:
    """One of `left >= right` is equivalent; no test looks at the property."""
    (tmp_path / "tiny.py").write_text(MODULE)
    (tmp_path / "test_tiny.py").write_text(TEST)
    done = subprocess.run(
        [sys.executable, "-B", "-c", SCRIPT, tmp_path],
        cwd=ROOT,
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
    )
    assert done.stderr == ""
    assert done.stdout.splitlines() == [
        "killed <module> LIMIT = None",
        "killed <module> LIMIT = 4",
        "killed larger return left if (left > right) and False else right",
        "killed larger return left if (left > right) or True else right",
        "survived larger return left if left >= right else right",
        "survived Box.size return 8",
    ]
