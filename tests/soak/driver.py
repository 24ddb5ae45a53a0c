"""Drives trials at a fixed concurrency, and looks at what is left at quiet points."""

from __future__ import annotations

import faulthandler
import gc
import itertools
import math
import os
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import final

import anyio
import anyio.to_thread
from tests.soak.cases import LANGUAGES, Language, make_trials
from tests.soak.leaks import Leaks
from tests.soak.sampling import (
    COUNTS,
    LAST_COUNTS,
    Inventory,
    Sample,
    take_inventory,
    take_sample,
)
from tests.soak.trials import Trial, run_trial

from code_runtime import CodeRuntime, Context
from code_runtime._execution import _pool

POLL_S = 0.25
# An idle thread of the event loop's library lives for 10 s.
THREAD_IDLE_S = 11.0
MAX_PROBLEMS = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What to run, and how long; `minutes` or `runs` ends it, whichever is given.

    The quiet points are not in `minutes`, the warm-up is.

    Args:
        provider: A key of `LANGUAGES`.
        backend: `asyncio` or `trio`.
        warm_up: Runs before the first sample.
        sample_every: Runs from one quiet point to the next.
        surplus_s: After how long the pool lets an idle process go; None leaves the product's time.
        settle_s: How long a quiet point waits for what the pool lets go.
        deadline_s: How long one run may take before it counts as stuck.
        leaks: Faults on purpose, see `leaks.NAMES`.
    """

    provider: str
    backend: str
    seed: int
    minutes: float | None
    runs: int | None
    concurrency: int
    warm_up: int
    sample_every: int
    surplus_s: float | None
    settle_s: float
    deadline_s: float
    config: Mapping[str, object]
    leaks: frozenset[str]


@dataclass(slots=True)
class Report:
    """What a soak has seen; `driven_s` is the part of `seconds` with runs in flight."""

    run_count: int = 0
    seconds: float = 0.0
    driven_s: float = 0.0
    cases: dict[str, int] = field(default_factory=dict)
    problem_count: int = 0
    problems: list[str] = field(default_factory=list)
    stuck: list[str] = field(default_factory=list)
    samples: list[Sample] = field(default_factory=list)
    changes: dict[str, dict[str, int]] = field(default_factory=dict)

    def add_problem(self, text: str) -> None:
        """Count an outcome that is not as scripted, and keep the first ones."""
        self.problem_count += 1
        if len(self.problems) < MAX_PROBLEMS:
            self.problems.append(text)


@final
class Soak:
    """One soak of one provider.

    Args:
        settings: What to do.
        on_sample: Called with each sample, for a line of progress.
        on_stuck: Called from another thread when a run is stuck; the process ends afterwards.
    """

    def __init__(
        self,
        settings: Settings,
        on_sample: Callable[[Sample], None],
        on_stuck: Callable[[Report], None],
    ) -> None:
        self.report = Report()
        self._settings = settings
        self._on_sample = on_sample
        self._on_stuck = on_stuck
        self._language: Language = LANGUAGES[settings.provider]
        self._in_flight: dict[int, tuple[float, Trial]] = {}
        self._baseline: Inventory | None = None
        self._folder = ""
        self._started_s = 0.0

    async def run(self) -> Report:
        """Run to the end; a stuck run ends the process."""
        settings = self._settings
        config = {**self._language.config, **settings.config}
        with ExitStack() as stack:
            self._folder = stack.enter_context(_own_temporary_folder())
            stack.enter_context(self._watchdog())
            stack.enter_context(_pool_that_shrinks_after(settings.surplus_s))
            async with anyio.create_task_group() as task_group, Context() as ctx:
                await ctx.plugin(self._language.provider, config)
                leaks = Leaks(settings.leaks, task_group)
                try:
                    await self._soak(ctx.codeRuntime, leaks)
                finally:
                    leaks.close()
        return self.report

    async def _soak(self, runtime: CodeRuntime, leaks: Leaks) -> None:
        settings, report = self._settings, self.report
        trials = make_trials(self._language, settings.seed)
        most_runs = sys.maxsize if settings.runs is None else settings.runs
        most_s = math.inf if settings.minutes is None else 60 * settings.minutes
        self._started_s = time.monotonic()
        await self._run_batch(runtime, itertools.islice(trials, settings.warm_up), leaks)
        await self._take_baseline()
        is_last = False
        while not is_last:
            count = min(settings.sample_every, most_runs - report.run_count)
            deadline_s = time.monotonic() + most_s - report.driven_s
            batch = _until(deadline_s, itertools.islice(trials, count))
            await self._run_batch(runtime, batch, leaks)
            is_last = report.run_count >= most_runs or report.driven_s >= most_s
            await self._settle(LAST_COUNTS if is_last else COUNTS)
        report.seconds = self._seconds()

    async def _run_batch(self, runtime: CodeRuntime, batch: Iterator[Trial], leaks: Leaks) -> None:
        """Run trials, as many at a time as the concurrency says; none is in flight afterwards."""

        async def work() -> None:
            for trial in batch:
                await self._run_one(runtime, trial)
                leaks.after_run()

        before_s = time.monotonic()
        async with anyio.create_task_group() as task_group:
            for _ in range(self._settings.concurrency):
                task_group.start_soon(work)
        self.report.driven_s += time.monotonic() - before_s

    async def _run_one(self, runtime: CodeRuntime, trial: Trial) -> None:
        report = self.report
        report.run_count += 1
        report.cases[trial.name] = report.cases.get(trial.name, 0) + 1
        number = report.run_count
        self._in_flight[number] = time.monotonic(), trial
        if "stuck" in self._settings.leaks and number == self._settings.warm_up:
            await anyio.sleep_forever()
        problem = await run_trial(runtime, trial)
        del self._in_flight[number]
        if "outcome" in self._settings.leaks and number % 10 == 0:
            problem = f"{trial.name}: scripted to be wrong"
        if problem is not None:
            report.add_problem(problem)

    async def _take_baseline(self) -> None:
        """Wait until the counts have stayed as they are for longer than anything idle is kept."""
        rest_s = max(2 * _pool.SURPLUS_S, THREAD_IDLE_S) + 1
        counts: list[int] = []
        since_s = time.monotonic()
        while time.monotonic() - since_s < rest_s:
            await anyio.sleep(POLL_S)
            await self._release_idle_threads()
            sample = self._measure()
            seen = [getattr(sample, name) for name in LAST_COUNTS]
            if seen != counts:
                counts, since_s = seen, time.monotonic()
        self._baseline = take_inventory(self._folder)
        self._sample()

    async def _settle(self, names: tuple[str, ...]) -> None:
        """Wait until the counts are those after the warm-up, for a while; then take a sample."""
        deadline_s = time.monotonic() + self._settings.settle_s
        first = self.report.samples[0]
        while True:
            await self._release_idle_threads()
            sample = self._measure()
            is_settled = all(getattr(sample, name) == getattr(first, name) for name in names)
            if is_settled or time.monotonic() > deadline_s:
                break
            await anyio.sleep(POLL_S)
        self._sample()

    async def _release_idle_threads(self) -> None:
        # asyncio has no timer for idle threads: anyio ends old ones when one is used.
        await anyio.to_thread.run_sync(gc.collect)

    def _measure(self) -> Sample:
        return take_sample(self.report.run_count, self._seconds(), self._folder)

    def _sample(self) -> None:
        sample = self._measure()
        self.report.samples.append(sample)
        assert self._baseline is not None
        self.report.changes = take_inventory(self._folder).difference(self._baseline)
        self._on_sample(sample)

    def _seconds(self) -> float:
        return time.monotonic() - self._started_s

    @contextmanager
    def _watchdog(self) -> Iterator[None]:
        """End the process when a run, or the event loop, is stuck: nothing else would be heard."""
        over = threading.Event()

        def watch() -> None:
            while not over.wait(1):
                now_s = time.monotonic()
                for started_s, trial in list(self._in_flight.values()):
                    if now_s - started_s > self._settings.deadline_s:
                        self.report.stuck.append(f"{trial.name}: {trial.program[:500]}")
                if self.report.stuck:
                    self.report.seconds = self._seconds()
                    faulthandler.dump_traceback(all_threads=True)
                    self._on_stuck(self.report)
                    os._exit(1)

        thread = threading.Thread(target=watch, name="soak-watchdog", daemon=True)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()


def _until(deadline_s: float, trials: Iterator[Trial]) -> Iterator[Trial]:
    for trial in trials:
        if time.monotonic() > deadline_s:
            return
        yield trial


@contextmanager
def _own_temporary_folder() -> Iterator[str]:
    """Let everything temporary of this process go to a folder of its own, which is then counted."""
    with tempfile.TemporaryDirectory(prefix="soak-") as folder:
        before, tempfile.tempdir = tempfile.tempdir, folder
        try:
            yield folder
        finally:
            tempfile.tempdir = before


@contextmanager
def _pool_that_shrinks_after(surplus_s: float | None) -> Iterator[None]:
    """Let the pool come to rest sooner, so that a short soak has several quiet points."""
    before_s = _pool.SURPLUS_S
    if surplus_s is not None:
        setattr(_pool, "SURPLUS_S", surplus_s)  # noqa: B010 - a constant of the product
    try:
        yield
    finally:
        setattr(_pool, "SURPLUS_S", before_s)  # noqa: B010 - as above
