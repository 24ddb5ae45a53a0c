"""Compares this tree with another commit: `python -m bench.compare BASE`.

Both are measured by the drivers and figures of this tree, in the same rounds. The exit code is 1
when a figure is worse than the threshold allows by more than its own spread.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from .cli import Backend, Provider, chosen_families
from .figures import Figure
from .measure import Spread, ratios_of
from .report import spread_text
from .run import Lacks, Row, measure_all
from .subjects import PROVIDERS, ROOT, Language, Subject, node_binary, ours

# Cheap figures that each watch another path; the rest on request.
DEFAULT_FIGURES = ("warm", "call_", "calls_", "value_in", "logs", "runs_8", "import")
LEAST_ROUNDS = 3
LOCKS = ("pdm.lock", "package-lock.json")
HOST_PACKAGE = "packages/code-runtime-worker-thread"


def is_worse(figure: Figure, ratio: Spread, threshold: float) -> bool:
    """Tell whether a figure of this tree is beyond the threshold, its spread set aside.

    `ratio` is this tree over the base. The better quartile has to be beyond it too: when the rounds
    do not agree, or are fewer than three, nothing is said.
    """
    if ratio.count < LEAST_ROUNDS:
        return False
    if figure.better == "higher":
        return 1 / ratio.high > threshold
    return ratio.low > threshold


@contextmanager
def checkout(base: str) -> Iterator[Path]:
    """Check a commit out in a folder that goes again."""
    with tempfile.TemporaryDirectory(prefix="code-runtime-bench-") as parent:
        folder = Path(parent) / "base"
        _git("worktree", "add", "--quiet", "--detach", str(folder), base)
        try:
            yield folder
        finally:
            _git("worktree", "remove", "--force", str(folder))


def _git(*arguments: str) -> None:
    subprocess.run(["git", "-C", str(ROOT), *arguments], check=True)


def set_up(folder: Path) -> bool:
    """Make a checkout able to run, and tell whether it has an environment of its own.

    With the dependencies of this tree it borrows them, which takes a second, not minutes.
    """
    if any((folder / name).read_bytes() != (ROOT / name).read_bytes() for name in LOCKS):
        subprocess.run(
            [sys.executable, "scripts/setup.py"], cwd=folder, env=_plain_environment(), check=True
        )
        return True
    for path in (Path("node_modules"), Path(HOST_PACKAGE) / "node_modules"):
        if (ROOT / path).exists() and not (folder / path).exists():
            (folder / path).symlink_to(ROOT / path)
    build = [str(node_binary()), "scripts/build.mjs"]
    subprocess.run(build, cwd=folder / HOST_PACKAGE, stdout=subprocess.DEVNULL, check=True)
    return False


def _plain_environment() -> dict[str, str]:
    dropped = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "NODE_OPTIONS")
    return {name: value for name, value in os.environ.items() if name not in dropped}


def base_subject(provider: Provider, backend: Backend, folder: Path, own: bool) -> Subject:
    """Return a provider of the base commit."""
    subject = ours(provider, backend, folder if own else ROOT, name="base")
    if own:
        return subject
    sources = os.pathsep.join(str(path) for path in sorted(folder.glob("packages/*/src")))
    environment = {**subject.environment, "PYTHONPATH": sources}
    return replace(subject, environment=environment)


def judge(row: Row, threshold: float) -> bool:
    """Print the ratio of a row, and tell whether it is too bad."""
    head = f"{row.language:<10} {row.figure.title}"
    if row.missing:
        typer.echo(f"{head}: - ({row.missing})")
        return "ours" in row.missing and "base" not in row.missing
    ratio = ratios_of(row.samples["ours"], row.samples["base"])
    worse = is_worse(row.figure, ratio, threshold)
    sense = "" if row.figure.better == "lower" else ", higher is better"
    mark = "  WORSE" if worse else ""
    typer.echo(f"{head}: this / base {spread_text(ratio)}{sense}{mark}")
    return worse


def main(
    base: Annotated[str, typer.Argument(help="The commit to compare with.")],
    figure: Annotated[
        list[str] | None, typer.Option(help="Only figures that start so (may be repeated).")
    ] = None,
    provider: Annotated[list[Provider] | None, typer.Option(help="Only this provider.")] = None,
    rounds: Annotated[int | None, typer.Option(min=1, help="Rounds of each figure.")] = None,
    threshold: Annotated[float, typer.Option(min=1.0, help="How much worse is too much.")] = 1.25,
    quick: Annotated[bool, typer.Option(help="A small part of the work.")] = False,
    backend: Annotated[Backend, typer.Option(help="Event loop of the host.")] = Backend.ASYNCIO,
) -> None:
    """Measure this tree against a commit; exit with 1 when a figure has become worse."""
    families = chosen_families(figure or list(DEFAULT_FIGURES))
    with checkout(base) as folder:
        own = set_up(folder)
        subjects: dict[Language, list[Subject]] = {
            PROVIDERS[each]: [ours(each, backend), base_subject(each, backend, folder, own)]
            for each in provider or list(Provider)
        }
        lacks: Lacks = {}
        rows = measure_all(families, subjects, lacks, rounds, quick)
        verdicts = [judge(row, threshold) for row in rows]
    if any(verdicts):
        raise typer.Exit(1)


if __name__ == "__main__":
    typer.run(main)
