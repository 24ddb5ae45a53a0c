"""The benchmark runs, says what it measured, and its arithmetic is right; nothing is timed here."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
# The benchmark stands at the root, which is no package that is installed.
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

from bench import programs  # noqa: E402
from bench.bars import BARS, Bar  # noqa: E402
from bench.cli import Provider  # noqa: E402
from bench.compare import is_worse  # noqa: E402
from bench.driver import Driver  # noqa: E402
from bench.figures import FIGURES, Figure  # noqa: E402
from bench.figures.figure import run, times_of  # noqa: E402
from bench.measure import Spread, best_ratio, interleave, ratios_of, spread_of  # noqa: E402
from bench.report import line_of, verdict  # noqa: E402
from bench.run import Row  # noqa: E402
from bench.steps import STEPS  # noqa: E402
from bench.subjects import FLOOR, Language, all_peers  # noqa: E402

LOWER = Figure("one", "one", "ms")
HIGHER = Figure("two", "two", "1/s", "higher")


def bench(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "bench", *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.slow
@pytest.mark.timeout(240)  # four processes start, one after another, on whatever machine this is
@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_bench_writes_each_sample_of_a_figure(tmp_path: Path, backend: str) -> None:
    path = tmp_path / "figures.json"
    choice = ("--quick", "--provider", "python", "--figure", "warm_rested", "--rounds", "2")
    done = bench(*choice, "--backend", backend, "--json", str(path))
    assert (done.returncode, done.stderr) == (0, "")
    report = json.loads(path.read_text())
    assert set(report) == {"machine", "quick", "subjects", "figures"}
    assert report["quick"] is True
    assert [(entry["subject"], entry["language"]) for entry in report["subjects"]] == [
        ("ours", "python")
    ]
    (figure,) = report["figures"]
    samples = figure["subjects"]["ours"].pop("samples")
    assert len(samples) == 2
    assert all(sample > 0 for sample in samples)
    spread = spread_of(samples)
    assert figure == {
        "figure": "warm_rested",
        "title": "warm run, rested 60 ms",
        "language": "python",
        "unit": "ms",
        "better": "lower",
        "subjects": {
            "ours": {"median": spread.median, "low": spread.low, "high": spread.high, "count": 2}
        },
        "ratios": {},
        "missing": {},
        "bar": "≤ 0.05",
        "verdict": None,
    }


@pytest.mark.slow
@pytest.mark.timeout(240)  # as above
@pytest.mark.parametrize("language", ["typescript", "python"])
def test_floor_does_the_work_of_the_figures(language: Language) -> None:
    """A floor that did less would tell nothing of what a figure could be."""
    (floor,) = [peer for peer in all_peers() if (peer.name, peer.language) == (FLOOR, language)]
    with Driver(floor) as driver:
        assert driver.ask(op="about")["name"] == "floor"
        runs = run(driver, programs.TRIVIAL[language], repeat=5, concurrency=3)
        assert (runs["value"], len(times_of(runs))) == (2, 5)
        calls = run(driver, programs.gather(language, 50))["value"]
        assert isinstance(calls, dict)
        assert calls["wrong"] == 0
        logs = run(driver, programs.logs(language, 3_000))
        assert (logs["value"], logs["log_count"], logs["last_log"]) == (3_000, 3_000, "line 2999")
        both = programs.value_in_out(language, "wide", 2_000)
        assert run(driver, both, prepare=("wide", 2_000))["value"] == [2_000, 1_999]


def test_bench_refuses_a_figure_that_is_not_there() -> None:
    done = bench("--figure", "speed")
    assert done.returncode == 2
    assert "no figure 'speed'" in done.stderr


def test_spread_is_median_and_inclusive_quartiles() -> None:
    assert spread_of([5, 1, 4, 2, 3]) == Spread(3, 2, 4, 5)
    assert spread_of([4, 1, 3, 2]) == Spread(2.5, 1.75, 3.25, 4)
    assert spread_of([7]) == Spread(7, 7, 7, 1)


def test_spread_of_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="no samples"):
        spread_of([])


def test_ratios_pair_the_rounds() -> None:
    # The machine was twice as slow in the second round, for both.
    assert ratios_of([1, 2, 1], [10, 20, 10]) == Spread(0.1, 0.1, 0.1, 3)
    with pytest.raises(ValueError, match="longer"):
        ratios_of([1], [1, 2])


def test_best_ratio_takes_the_best_round_of_each() -> None:
    assert best_ratio([4, 2, 9], [8, 30, 16], higher=False) == 0.25
    assert best_ratio([4, 2, 9], [8, 3, 6], higher=True) == 1.125


def test_rounds_interleave_and_turn() -> None:
    order = []

    def measure(name: str) -> dict[str, float]:
        order.append(name)
        return {"figure": float(len(order))}

    samples = interleave(["a", "b", "c"], measure, 3)
    assert "".join(order) == "abcbcacab"
    assert samples == {
        "a": {"figure": [1.0, 6.0, 8.0]},
        "b": {"figure": [2.0, 4.0, 9.0]},
        "c": {"figure": [3.0, 5.0, 7.0]},
    }


@pytest.mark.parametrize(
    ("figure", "ratio", "worse"),
    [
        pytest.param(LOWER, Spread(1.5, 1.3, 1.7, 5), True, id="beyond its spread"),
        pytest.param(LOWER, Spread(1.5, 1.2, 1.7, 5), False, id="within its spread"),
        pytest.param(LOWER, Spread(0.5, 0.4, 0.6, 5), False, id="better"),
        pytest.param(LOWER, Spread(1.5, 1.3, 1.7, 2), False, id="too few rounds"),
        pytest.param(HIGHER, Spread(0.6, 0.5, 0.7, 5), True, id="rate beyond its spread"),
        pytest.param(HIGHER, Spread(0.6, 0.5, 0.9, 5), False, id="rate within its spread"),
        pytest.param(HIGHER, Spread(1.5, 1.3, 1.7, 5), False, id="better rate"),
    ],
)
def test_comparison_is_worse_only_beyond_threshold_and_spread(
    figure: Figure, ratio: Spread, worse: bool
) -> None:
    assert is_worse(figure, ratio, 1.25) is worse


def test_bars_name_figures_that_are_measured() -> None:
    assert {name for name, _ in BARS} <= set(FIGURES)


def test_bar_of_a_ratio_is_judged_by_its_median() -> None:
    row = Row(FIGURES["call_p50"], "python", {"ours": [60, 64, 80], "upstream": [100, 100, 100]})
    assert verdict(row) == "bar ≤ 0.65: met"
    row.samples["ours"] = [60, 66, 80]
    assert verdict(row) == "bar ≤ 0.65: NOT MET"
    assert Bar("≥", 3).met_by(3.0)
    assert not Bar("≥", 3).met_by(2.9)


def test_line_says_why_a_peer_has_no_value() -> None:
    row = Row(LOWER, "python", {"ours": [2, 2, 2]}, {"peer": "it cannot"})
    assert line_of(row) == "python     one | ours 2 (2-2) ms | peer - (it cannot)"


@pytest.mark.parametrize("provider", ["worker-thread", "python"])
def test_steps_of_a_run_are_all_measured(provider: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "bench.steps", "--provider", provider, "--count", "2"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    for _owner, _method, _at_end, label in STEPS[Provider(provider)]:
        assert label in done.stdout
