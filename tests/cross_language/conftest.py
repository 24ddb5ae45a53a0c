"""Says at the end of the run which pairs of host and language have run the scenarios."""

from __future__ import annotations

from collections import Counter

import pytest

PAIRS_RUN: pytest.StashKey[Counter[str]] = pytest.StashKey()


@pytest.fixture
def pairs_run(request: pytest.FixtureRequest) -> Counter[str]:
    """The scenarios that each pair has run so far."""
    return request.config.stash.setdefault(PAIRS_RUN, Counter())


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """Print the pairs."""
    counts = config.stash.get(PAIRS_RUN, Counter())
    if counts:
        terminalreporter.section("cross-language scenarios")
    for pair, count in sorted(counts.items()):
        terminalreporter.write_line(f"{pair}: {count} runs of a scenario")
