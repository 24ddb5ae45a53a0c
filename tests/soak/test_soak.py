"""The bounded form of `make soak`, and the proof that the soak sees what it is there to see."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.soak.judgement import MIB, find_trend, judge_memory
from tests.soak.sampling import Sample

SOAK = Path(__file__).parent / "soak.py"
# For each provider, quiet points not counted.
DURATION_S = float(os.environ.get("CODE_RUNTIME_SOAK_S", "30"))
# Several quiet points in a short time; the heap of a young process still grows by itself.
SHORT = ("--surplus-s", "1", "--sample-every", "100", "--warm-up", "150", "--least-kib", "24576")


@dataclass(frozen=True, slots=True)
class Outcome:
    """The exit code of a soak, the report that it wrote, and its lines that failed."""

    code: int
    report: Mapping[str, object]
    failed: frozenset[str]
    text: str


def soak(folder: Path, provider: str, *arguments: str) -> Outcome:
    path = folder / "soak.json"
    done = subprocess.run(
        [
            *(sys.executable, "-W", "error", str(SOAK)),
            *("--provider", provider, "--json", str(path), *arguments),
        ],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert path.exists(), done.stdout
    report = json.loads(path.read_text("utf-8"))["providers"][provider]
    failed = frozenset(line["name"] for line in report["lines"] if not line["ok"])
    return Outcome(done.returncode, report, failed, done.stdout)


@pytest.mark.slow
@pytest.mark.timeout(10 * DURATION_S + 240)
@pytest.mark.parametrize(
    ("provider", "backend"), [("python", "trio"), ("worker-thread", "asyncio")]
)
def test_soak_of_a_provider_sees_scripted_outcomes_and_no_growth(
    tmp_path: Path, provider: str, backend: str
) -> None:
    minutes = str(DURATION_S / 60)
    outcome = soak(tmp_path, provider, "--minutes", minutes, "--backend", backend, *SHORT)
    assert (outcome.code, outcome.failed) == (0, frozenset()), outcome.text


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_soak_fails_for_each_thing_that_is_kept(tmp_path: Path) -> None:
    """A fault on purpose for each line of the verdict."""
    faults = ("descriptors", "memory", "tasks", "threads", "processes", "files", "outcome")
    outcome = soak(
        tmp_path,
        "python",
        *(word for fault in faults for word in ("--leak", fault)),
        *("--runs", "400", "--warm-up", "100", "--sample-every", "50"),
        *("--surplus-s", "1", "--settle-s", "1"),
    )
    assert outcome.code == 1
    assert outcome.failed >= {
        "outcomes not as scripted",
        "descriptors",
        "tasks",
        "threads",
        "processes",
        "files",
        "memory: host",
    }, outcome.text


@pytest.mark.timeout(120)
def test_soak_ends_at_a_stuck_run_and_names_it(tmp_path: Path) -> None:
    outcome = soak(
        tmp_path,
        "python",
        *("--leak", "stuck", "--deadline-s", "10", "--runs", "40", "--warm-up", "20"),
    )
    assert outcome.code == 1
    assert "stuck runs" in outcome.failed
    assert outcome.report["stuck"]


def test_trend_is_the_slope_and_ignores_single_samples() -> None:
    line = [(500.0 * n, 100.0 + 2 * n) for n in range(20)]
    assert find_trend(line).per_1000 == pytest.approx(4)
    line[7] = (line[7][0], 1e9)
    trend = find_trend(line)
    assert trend.per_1000 == pytest.approx(4)
    assert trend.low == pytest.approx(4)


def test_trend_of_noise_includes_zero() -> None:
    noise = [3, 9, 1, 7, 2, 8, 4, 6, 5, 5, 6, 4, 8, 2, 7, 1, 9, 3]
    trend = find_trend([(500.0 * n, float(size)) for n, size in enumerate(noise)])
    assert trend.low < 0 < trend.high


def sample(run_count: int, host_mib: float) -> Sample:
    counts = dict.fromkeys(
        ("objects", "descriptors", "tasks", "threads", "processes", "left_over_processes", "files"),
        1,
    )
    return Sample(
        run_count=run_count,
        seconds=1.0,
        host_bytes=int(host_mib * MIB),
        heap_bytes=MIB,
        blocks=1,
        family_bytes=MIB,
        sizes_bytes={"7 1": MIB},
        **counts,
    )


@pytest.mark.parametrize(("per_1000_mib", "ok"), [(0.9, True), (1.1, False), (-5.0, True)])
def test_memory_is_judged_by_the_bound_of_a_thousand_runs(per_1000_mib: float, ok: bool) -> None:
    samples = [sample(500 * n, 100 + per_1000_mib * n / 2) for n in range(21)]
    lines = judge_memory(samples, bound_bytes=MIB, least_bytes=4 * MIB)
    assert [line.ok for line in lines] == [ok, True, True, True]


def test_memory_of_a_short_soak_is_judged_by_what_it_has_grown_in_all() -> None:
    def verdict(growth_mib: float) -> bool:
        samples = [sample(20 * n, 100 + growth_mib * n / 10) for n in range(11)]
        return judge_memory(samples, bound_bytes=MIB, least_bytes=4 * MIB)[0].ok

    assert [verdict(growth) for growth in (3.9, 4.1)] == [True, False]
