"""Mutate the modules of `tests/mutants/targets.toml` and tell which changes no test notices.

Run through `make mutants`, or `python -m scripts.mutants --only names`. Exit code 1: a mutant
survived that `tests/mutants/explained.toml` does not explain.
"""

from __future__ import annotations

import argparse
import sys
import time
import tomllib
from collections import Counter
from collections.abc import Sequence

from . import explained
from .mutations import mutants_of
from .trial import ROOT, Outcome, Target, TrialError, try_mutants

FOLDER = ROOT / "tests/mutants"


def load_targets() -> list[Target]:
    """Read what is mutated and by which tests it is judged."""
    tables = tomllib.loads((FOLDER / "targets.toml").read_text("utf-8"))
    return [
        Target(
            name,
            table["module"],
            table["source"],
            tuple(table["tests"]),
            tuple(table.get("without", ())),
        )
        for name, table in tables.items()
    ]


def judge(
    target: Target,
    explanations: Sequence[explained.Explanation],
    jobs_count: int,
    function: str | None,
) -> int:
    """Try the mutants of one target and print what became of them.

    Returns:
        How many faults there are: survivors without an entry, and entries without a survivor.
    """
    begin_s = time.monotonic()
    source = (ROOT / target.source).read_text("utf-8")
    mutants = [
        item for item in mutants_of(target.name, source) if function in (None, item.function)
    ]
    outcomes = try_mutants(target, mutants, jobs_count)
    counts = Counter(outcomes)
    survivors = [
        mutant
        for mutant, outcome in zip(mutants, outcomes, strict=True)
        if outcome is Outcome.SURVIVED
    ]
    relevant = [
        item
        for item in explanations
        if item.identity[0] == target.name and function in (None, item.identity[1])
    ]
    missing = explained.unexplained(survivors, relevant)
    outdated = explained.stale(relevant, survivors)
    print(
        f"mutants: {target.name}: {len(mutants)} mutants, {counts[Outcome.KILLED]} killed, "
        f"{counts[Outcome.TIMEOUT]} timeout, {len(survivors)} survived, "
        f"{len(survivors) - len(missing)} of them explained, {time.monotonic() - begin_s:.0f} s",
        flush=True,
    )
    for item in outdated:
        print(f"mutants: {target.name}: explained, but no survivor: {item.identity}", flush=True)
    for mutant in missing:
        print(explained.entry_text(mutant), flush=True)
    return len(missing) + len(outdated)


def main() -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(prog="mutants", description=__doc__)
    parser.add_argument("--only", default="", help="targets, separated by commas")
    parser.add_argument("--function", help="only mutants of this function")
    parser.add_argument("--jobs", type=int, default=2, help="processes at a time")
    arguments = parser.parse_args()
    targets = load_targets()
    names = [name for name in arguments.only.split(",") if name]
    if unknown := set(names) - {target.name for target in targets}:
        parser.error(f"unknown target {sorted(unknown)}")
    chosen = [target for target in targets if not names or target.name in names]
    explanations = explained.load(FOLDER / "explained.toml")
    try:
        faults_count = sum(
            judge(target, explanations, arguments.jobs, arguments.function) for target in chosen
        )
    except TrialError as error:
        print(error, file=sys.stderr)
        return 1
    print(f"mutants: {faults_count} survivors without an entry, or entries without a survivor")
    return 1 if faults_count else 0


if __name__ == "__main__":
    sys.exit(main())
