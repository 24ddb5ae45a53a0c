"""Run a random mix of programs and outcomes for a long time, and show that nothing grows.

    python tests/soak/soak.py --provider both --runs 10000 --json out.json
    python tests/soak/soak.py --provider python --minutes 30 --backend trio

The exit code is 0 when every outcome was as scripted, no run was stuck, and nothing has grown since
the warm-up; else 1.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import anyio
from rich.console import Console
from rich.table import Table

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.soak.cases import LANGUAGES
from tests.soak.driver import Report, Settings, Soak
from tests.soak.judgement import MIB, Line, judge_counts, judge_memory
from tests.soak.leaks import NAMES
from tests.soak.sampling import Sample

CONSOLE = Console(stderr=True, highlight=False, width=max(100, Console().width))


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        description="Run a random mix of programs and outcomes, and show that nothing grows.",
    )
    add = parser.add_argument
    add("--provider", choices=[*LANGUAGES, "both"], default="both")
    length = parser.add_mutually_exclusive_group()
    length.add_argument(
        "--minutes", type=float, help="for each provider, quiet points not counted (1)"
    )
    length.add_argument("--runs", type=int, help="for each provider, the warm-up included")
    add("--concurrency", type=int, default=8)
    add("--backend", choices=["asyncio", "trio"], default="asyncio")
    add("--seed", type=int, default=20_261_129)
    add("--warm-up", type=int, default=500, help="runs before the first sample")
    add("--sample-every", type=int, default=500, help="runs between two quiet points")
    add("--deadline-s", type=float, default=120, help="a run that takes longer is stuck")
    add("--settle-s", type=float, default=45, help="longest wait at a quiet point")
    add("--surplus-s", type=float, help="the pool lets idle processes go after this (default: 10)")
    add(
        "--allocator",
        choices=["libc", "python"],
        default="libc",
        help="CPython's own keeps what was free once, so that memory in use cannot be told",
    )
    add("--bound-kib", type=float, default=1_024, help="growth of memory in 1,000 runs")
    add("--least-kib", type=float, default=4_096, help="growth of memory that is never judged")
    add("--config", type=json.loads, default={}, help="further fields of the provider, as JSON")
    add("--json", type=Path, help="also write what was seen to this file")
    add("--leak", action="append", choices=NAMES, default=[], help="a fault that must be found")
    options = parser.parse_args(arguments)
    if options.minutes is None and options.runs is None:
        options.minutes = 1.0
    return options


def soak(provider: str, options: argparse.Namespace) -> tuple[Report, list[Line]]:
    """Soak one provider, with a line of progress at each quiet point."""
    settings = Settings(
        provider=provider,
        backend=options.backend,
        seed=options.seed,
        minutes=options.minutes,
        runs=options.runs,
        concurrency=options.concurrency,
        warm_up=options.warm_up,
        sample_every=options.sample_every,
        surplus_s=options.surplus_s,
        settle_s=options.settle_s,
        deadline_s=options.deadline_s,
        config=options.config,
        leaks=frozenset(options.leak),
    )

    def on_stuck(report: Report) -> None:
        lines = judge(report, options)
        show(provider, report, lines, options)
        write({provider: (report, lines)}, options)

    driver = Soak(settings, lambda sample: _show_progress(provider, sample), on_stuck)
    report = anyio.run(driver.run, backend=options.backend)
    return report, judge(report, options)


def judge(report: Report, options: argparse.Namespace) -> list[Line]:
    """Return the lines of the verdict."""
    wrong, stuck = report.problem_count, len(report.stuck)
    lines = [
        Line("outcomes not as scripted", "", str(wrong), "", "0", wrong == 0),
        Line("stuck runs", "", str(stuck), "", "0", stuck == 0),
    ]
    samples = report.samples
    if len(samples) < 2:
        return [*lines, Line("samples", "", str(len(samples)), "", "≥ 2", False)]
    memory = judge_memory(
        samples, bound_bytes=1024 * options.bound_kib, least_bytes=1024 * options.least_kib
    )
    return [*lines, *judge_counts(samples[0], samples[-1]), *memory]


def show(provider: str, report: Report, lines: Sequence[Line], options: argparse.Namespace) -> None:
    """Print the closing table."""
    rate = report.run_count / max(report.driven_s, 0.001)
    table = Table(
        title=f"{provider} on {options.backend}: {report.run_count:,} runs of "
        f"{len(report.cases)} cases in {report.seconds:.0f} s, {rate:.0f} a second without quiet points"
    )
    # Growth and bound of memory are MiB for each 1,000 runs.
    for heading in ("", "after warm-up", "at the end", "growth", "bound", ""):
        table.add_column(heading)
    for line in lines:
        row = [line.name, line.first, line.last, line.growth, line.bound]
        table.add_row(*row, "ok" if line.ok else "FAILED")
    CONSOLE.print(table)
    for problem in (*report.problems, *report.stuck):
        CONSOLE.print(problem, markup=False)
    for kind, changes in report.changes.items():
        CONSOLE.print(f"{kind}, changed since the warm-up: {changes}", markup=False)


def write(reports: dict[str, tuple[Report, list[Line]]], options: argparse.Namespace) -> None:
    """Write everything that was seen as JSON."""
    if options.json is None:
        return
    document = {
        "command": " ".join(["python", "tests/soak/soak.py", *sys.argv[1:]]),
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
        "machine": f"{platform.system()} {platform.release()}, {os.cpu_count()} processors, "
        f"{platform.python_implementation()} {platform.python_version()}",
        "providers": {
            provider: {
                "ok": is_ok(lines),
                "lines": [asdict(line) for line in lines],
                **asdict(report),
            }
            for provider, (report, lines) in reports.items()
        },
    }
    options.json.write_text(json.dumps(document, indent=1) + "\n", "utf-8")


def is_ok(lines: Sequence[Line]) -> bool:
    """Tell whether nothing has failed."""
    return all(line.ok for line in lines)


def _show_progress(provider: str, sample: Sample) -> None:
    CONSOLE.print(
        f"{provider}: {sample.run_count:6,} runs, {sample.seconds:6.0f} s, "
        f"host {sample.host_bytes / MIB:.1f} MiB ({sample.heap_bytes / MIB:.1f} allocated), "
        f"{sample.objects:,} objects, {sample.blocks:,} blocks, "
        f"{sample.descriptors} descriptors, {sample.tasks} tasks, {sample.threads} threads, "
        f"{sample.processes} processes with {sample.family_bytes / MIB:.1f} MiB, "
        f"{sample.files} files",
        markup=False,
    )


def main() -> int:
    """Soak the providers one after the other."""
    options = parse()
    if options.allocator == "libc" and "PYTHONMALLOC" not in os.environ:
        environment = {**os.environ, "PYTHONMALLOC": "malloc"}
        os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]], environment)
    providers = list(LANGUAGES) if options.provider == "both" else [options.provider]
    reports = {}
    for provider in providers:
        report, lines = reports[provider] = soak(provider, options)
        show(provider, report, lines, options)
    write(reports, options)
    return 0 if all(is_ok(lines) for _, lines in reports.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
