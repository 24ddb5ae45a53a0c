"""Runs the tests of a target against each mutant, in a process of its own.

No file is changed. A mutant that differs in one function is tried in a fork of a process that has
imported and collected everything: the function gets the mutant's code, and the tests run. Any other
mutant is tried in a fork that has imported nothing yet: an import hook gives the module the text of
the mutant.
"""

from __future__ import annotations

import importlib.abc
import importlib.util
import mmap
import os
import pickle
import resource
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from importlib import metadata
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import FunctionType, ModuleType
from typing import TypeVar, cast

import pytest
from _pytest.runner import runtestprotocol
from hypothesis import HealthCheck, Phase, settings

from .mutations import Mutant, code_of

ROOT = Path(__file__).resolve().parents[2]
_MAX_MEMORY_BYTES = 3 * 2**30  # a mutant may fill a list for ever
_MAX_WAIT_S = 3_600  # for a mutant that waits, and so takes no processor time
_KILLERS_COUNT = 6
_NOTES = os.dup(2)  # pytest takes the descriptor itself
_PROFILE = "mutants"
T = TypeVar("T")

# Whether a mutant survives must depend on it alone: the same examples each time, and no verdict on
# how long they take. What a failing example can be reduced to is of no use here.
settings.register_profile(
    _PROFILE,
    deadline=None,
    database=None,
    derandomize=True,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
)


@dataclass(frozen=True, slots=True)
class Target:
    """A module to mutate, and the tests that must notice.

    Args:
        name: What `ONLY=` takes.
        module: The name that it is imported under.
        source: Its file, from the root of the repository.
        tests: Files of tests that run in this process, fastest first.
        without: Names of tests to leave out: those that start processes, or take seconds.
    """

    name: str
    module: str
    source: str
    tests: tuple[str, ...]
    without: tuple[str, ...] = ()


class Outcome(Enum):
    """What became of a mutant."""

    KILLED = "killed"
    TIMEOUT = "timeout"
    SURVIVED = "survived"


class TrialError(Exception):
    """The tests cannot be run at all, or fail without a mutant."""


def try_mutants(target: Target, mutants: Sequence[Mutant], jobs_count: int) -> list[Outcome]:
    """Return what became of each mutant.

    Raises:
        TrialError: the tests of the target fail on the unchanged source.
    """
    for plugin in metadata.entry_points(group="pytest11"):
        plugin.load()  # once, not in each fork
    patched = [mutant for mutant in mutants if mutant.unit is not None]
    fresh = [mutant for mutant in mutants if mutant.unit is None]
    outcomes: dict[tuple[str, ...], Outcome] = {}
    times_s, found = _in_child(lambda: _try_patched(target, patched, jobs_count))
    outcomes.update(zip(map(_key, patched), found, strict=True))
    unchanged = Mutant(target.name, "", "", "", (ROOT / target.source).read_text("utf-8"), None)
    found = _try_each(
        [unchanged, *fresh],
        lambda mutant: _run_fresh(target, mutant, times_s),
        jobs_count,
        sum(times_s.values()) + 3,
    )
    if found[0] is not Outcome.SURVIVED:
        raise TrialError(f"Cannot try mutants of {target.name}: {found[0].value} without a change")
    outcomes.update(zip(map(_key, fresh), found[1:], strict=True))
    return [outcomes[_key(mutant)] for mutant in mutants]


def _key(mutant: Mutant) -> tuple[str, ...]:
    return (mutant.source,)


def _pytest_arguments(target: Target) -> list[str]:
    deselected = " or ".join(target.without)
    return [
        *target.tests,
        *(("-k", f"not ({deselected})") if deselected else ()),
        f"--rootdir={ROOT}",
        f"--hypothesis-profile={_PROFILE}",
        "--assert=plain",  # nobody reads why a mutant fails
        *("-p", "no:unraisableexception"),  # collects garbage several times at the end
        "--timeout=0",  # a busy machine must not kill a mutant; forks are limited otherwise
        "-xq",
        "--tb=short",
    ]


def _without_leftovers(items: Sequence[pytest.Item]) -> None:
    """Save what looking for leftovers costs: the tests of a target start nothing."""
    for item in items:
        names = cast("pytest.Function", item).fixturenames
        if "no_leftovers" in names:
            names.remove("no_leftovers")


# In a process that has collected the tests


class _Session:
    """A plugin that tries mutants in place of one run of the collected tests."""

    def __init__(self, target: Target, mutants: Sequence[Mutant], jobs_count: int) -> None:
        self.target = target
        self.mutants = mutants
        self.jobs_count = jobs_count
        self.failures: list[str] = []
        self.times_s: dict[str, float] = {}
        self.outcomes: list[Outcome] | None = None

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        _without_leftovers(session.items)
        for item, follower in _with_next(session.items):
            begin_s = time.process_time()
            reports = runtestprotocol(item, log=False, nextitem=follower)
            self.times_s[item.nodeid] = time.process_time() - begin_s
            self.failures.extend(report.longreprtext for report in reports if report.failed)
        if self.failures:
            return True
        items = sorted(session.items, key=lambda item: self.times_s[item.nodeid])
        module = sys.modules[self.target.module]
        killers = _Killers()
        self.outcomes = _try_each(
            self.mutants,
            lambda mutant: _run_patched(module, mutant, items, killers, self.times_s),
            self.jobs_count,
            sum(self.times_s.values()),
        )
        return True


def _try_patched(
    target: Target, mutants: Sequence[Mutant], jobs_count: int
) -> tuple[dict[str, float], list[Outcome]]:
    session = _Session(target, mutants, jobs_count)
    code = pytest.main(_pytest_arguments(target), plugins=[session])
    if session.outcomes is None:
        details = "\n".join(session.failures)
        raise TrialError(f"Cannot try mutants of {target.name}: pytest ends with {code}\n{details}")
    return session.times_s, session.outcomes


class _Killers:
    """Which tests have noticed mutants last, in memory that all forks share.

    Neighbours in the source are mostly noticed by the same test, so these are asked first. Two
    forks may write at once; what is lost is an order.
    """

    def __init__(self) -> None:
        self._memory = mmap.mmap(-1, 2 * _KILLERS_COUNT)

    def first(self, items: Sequence[pytest.Item]) -> list[pytest.Item]:
        """Return the items, those that have noticed a mutant lately first."""
        recent = [items[index] for index in self._read() if index < len(items)]
        return [*recent, *(item for item in items if item not in recent)]

    def add(self, index: int) -> None:
        """Put a test in front."""
        recent = [index, *(item for item in self._read() if item != index)][:_KILLERS_COUNT]
        data = b"".join((item + 1).to_bytes(2, "big") for item in recent)
        self._memory[: len(data)] = data

    def _read(self) -> list[int]:
        data = self._memory[:]
        numbers = [int.from_bytes(data[at : at + 2], "big") for at in range(0, len(data), 2)]
        return list(dict.fromkeys(number - 1 for number in numbers if number))


def _run_patched(
    module: ModuleType,
    mutant: Mutant,
    items: Sequence[pytest.Item],
    killers: _Killers,
    times_s: dict[str, float],
) -> bool:
    assert mutant.unit is not None
    _function(module, mutant.unit).__code__ = code_of(mutant.source, mutant.unit)
    for item, follower in _with_next(killers.first(items)):
        _limit(times_s[item.nodeid])
        reports = runtestprotocol(item, log=False, nextitem=follower)
        if any(report.failed for report in reports):
            killers.add(items.index(item))
            return False
    return True


def _function(module: ModuleType, unit: str) -> FunctionType:
    found: object = module
    for name in unit.split("."):
        found = vars(found)[name]
    found = found.fget if isinstance(found, property) else found
    return cast("FunctionType", found)


def _with_next(items: Sequence[pytest.Item]) -> Iterator[tuple[pytest.Item, pytest.Item | None]]:
    return zip(items, (*items[1:], None), strict=True)


# In a process that has imported nothing yet


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Gives one module another text."""

    def __init__(self, target: Target, source: str) -> None:
        self.target = target
        self.source = source

    def find_spec(self, fullname: str, path: object, target: object = None) -> ModuleSpec | None:
        if fullname != self.target.module:
            return None
        location = ROOT / self.target.source
        return importlib.util.spec_from_file_location(fullname, location, loader=self)

    def exec_module(self, module: ModuleType) -> None:
        code = compile(self.source, str(module.__file__), "exec", dont_inherit=True)
        exec(code, vars(module))


class _FastestFirst:
    def __init__(self, times_s: dict[str, float]) -> None:
        self.times_s = times_s

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        _without_leftovers(items)
        items.sort(key=lambda item: self.times_s.get(item.nodeid, 0))

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        _limit(self.times_s.get(nodeid, 0))

    @staticmethod
    def pytest_runtest_logreport(report: pytest.TestReport) -> None:
        if report.failed:
            os._exit(_KILLED)


def _run_fresh(target: Target, mutant: Mutant, times_s: dict[str, float]) -> bool:
    assert target.module not in sys.modules
    sys.meta_path.insert(0, _Finder(target, mutant.source))
    code = pytest.main(_pytest_arguments(target), plugins=[_FastestFirst(times_s)])
    return code == 0  # a module that cannot be imported ends in many ways, all of them noticed


# Processes

_SURVIVED, _KILLED = 0, 1


def _try_each(
    mutants: Sequence[Mutant], survives: Callable[[Mutant], bool], jobs_count: int, cpu_s: float
) -> list[Outcome]:
    """Fork for each mutant, a few at a time.

    Units: `cpu_s` is the processor time of a run without a mutant. The limit is on processor time,
    so that a busy machine ends nothing.
    """
    limit_s = int(3 * cpu_s + 5)
    outcomes: dict[int, Outcome] = {}
    running: dict[int, int] = {}
    pending = list(enumerate(mutants))[::-1]
    while pending or running:
        while pending and len(running) < jobs_count:
            index, mutant = pending.pop()
            process_id = os.fork()
            if process_id == 0:
                _be_child(mutant, survives, limit_s)
            running[process_id] = index
        process_id, status = os.wait()
        if process_id in running:
            outcomes[running.pop(process_id)] = _judge(status)
            if len(outcomes) % 50 == 0:
                os.write(_NOTES, f"mutants: {len(outcomes)} of {len(mutants)}\n".encode())
    return [outcomes[index] for index in range(len(mutants))]


def _be_child(mutant: Mutant, survives: Callable[[Mutant], bool], limit_s: int) -> None:
    code = _KILLED
    try:
        _silence()
        spent_s = int(time.process_time())
        resource.setrlimit(resource.RLIMIT_CPU, (spent_s + limit_s, spent_s + limit_s + 2))
        resource.setrlimit(resource.RLIMIT_AS, (_MAX_MEMORY_BYTES, _MAX_MEMORY_BYTES))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        signal.alarm(_MAX_WAIT_S)
        code = _SURVIVED if survives(mutant) else _KILLED
    finally:
        os._exit(code)


def _limit(usual_s: float) -> None:
    """End this process if the test that begins takes far more processor time than usual."""
    signal.setitimer(signal.ITIMER_PROF, 10 * usual_s + 1)


def _judge(status: int) -> Outcome:
    code = os.waitstatus_to_exitcode(status)
    if -code in (signal.SIGPROF, signal.SIGXCPU, signal.SIGALRM, signal.SIGKILL):
        return Outcome.TIMEOUT
    return Outcome.SURVIVED if code == _SURVIVED else Outcome.KILLED


def _silence() -> None:
    nowhere = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(nowhere, descriptor)
    os.close(nowhere)


def _in_child(action: Callable[[], T]) -> T:
    """Return what an action returns in a fork, whose imports stay there."""
    reader, writer = os.pipe()
    process_id = os.fork()
    if process_id == 0:
        os.close(reader)
        code = 1
        try:
            _silence()
            try:
                answer: tuple[T | None, str] = action(), ""
            except Exception:
                answer = None, traceback.format_exc()
            with open(writer, "wb") as stream:
                pickle.dump(answer, stream)
            code = 0
        finally:
            os._exit(code)
    os.close(writer)
    with open(reader, "rb") as stream:
        data = stream.read()
    os.waitpid(process_id, 0)
    result, problem = pickle.loads(data) if data else (None, "The process of a target has died")
    if problem:
        raise TrialError(problem)
    return cast("T", result)
