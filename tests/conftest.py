"""Says at the end of a session which pairs of host and runtime have run the scenarios.

It stands above `tests/scenarios` because with pytest-xdist the process that prints collects nothing,
and so loads the conftest files of the test paths only.
"""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections import Counter
from pathlib import Path
from typing import Final, cast

import pytest

ROOT: Final = Path(__file__).parents[1]
NODE_PAIR: Final = "Node host, CPython child"
NODE_TEST: Final = "node/test/scenarios.test.ts"
OPTION: Final = "--scenario-table"

Outcomes = dict[tuple[str, str], str]


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option that asks for the whole table."""
    parser.addoption(
        OPTION,
        action="store_true",
        help="print a table of scenario and pair; runs the pair of the Node host too",
    )


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """Print the pairs, and the table if it was asked for."""
    outcomes = _outcomes(terminalreporter)
    if not outcomes:
        return
    terminalreporter.section("scenarios")
    if config.getoption(OPTION):
        outcomes |= _node_outcomes({scenario for scenario, _ in outcomes})
        for line in _table(outcomes):
            terminalreporter.write_line(line)
    counts = Counter(pair for _, pair in outcomes)
    passed = Counter(pair for (_, pair), outcome in outcomes.items() if outcome == "ok")
    for pair in sorted(counts):
        terminalreporter.write_line(f"{pair}: {passed[pair]} of {counts[pair]} scenarios passed")
    if NODE_PAIR not in counts:
        terminalreporter.write_line(f"{NODE_PAIR}: run by vitest, {NODE_TEST}")


def _outcomes(reporter: pytest.TerminalReporter) -> Outcomes:
    """Return what became of each scenario on each pair, whichever process ran it."""
    reports = [
        report
        for status in ("passed", "failed")
        for report in reporter.stats.get(status, ())
        if isinstance(report, pytest.TestReport) and report.when == "call"
    ]
    found: Outcomes = {}
    for report in reports:
        for name, value in report.user_properties:
            if name == "scenario":
                scenario, pair = cast("tuple[str, str]", value)
                found[scenario, pair] = "ok" if report.passed else "FAILED"
    return found


def _node_outcomes(scenarios: set[str]) -> Outcomes:
    """Run some scenarios on a Node host."""
    names = "|".join(sorted(scenarios))
    vitest = ROOT / "node_modules" / "vitest" / "vitest.mjs"
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "report.json")
        options = ["--reporter=json", f"--outputFile={path}", f"-t=^({names})$"]
        subprocess.run(
            ["node", str(vitest), "run", NODE_TEST, *options],
            cwd=ROOT / "packages" / "code-runtime-python",
            stdout=subprocess.DEVNULL,
            check=False,  # a failed scenario fails it; the table says which
        )
        report = json.loads(path.read_text(encoding="utf-8"))
    return {
        (test["title"], NODE_PAIR): "ok" if test["status"] == "passed" else "FAILED"
        for file in report["testResults"]
        for test in file["assertionResults"]
        if test["status"] in ("passed", "failed")
    }


def _table(outcomes: Outcomes) -> list[str]:
    """Return the lines of a table: a row for each scenario, a column for each pair."""
    scenarios = sorted({scenario for scenario, _ in outcomes})
    pairs = sorted({pair for _, pair in outcomes})
    width = max(map(len, scenarios))
    lines = [f"{number}: {pair}" for number, pair in enumerate(pairs, 1)]
    numbers = [f"{number:<6}" for number in range(1, len(pairs) + 1)]
    lines.append(" ".join(["scenario".ljust(width), *numbers]).rstrip())
    for scenario in scenarios:
        cells = [f"{outcomes.get((scenario, pair), '-'):<6}" for pair in pairs]
        lines.append(" ".join([scenario.ljust(width), *cells]).rstrip())
    return lines
