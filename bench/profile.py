"""Where the processor time of a piece of work goes: `python -m bench.profile`.

Processor time counts what was executed, not what was waited for, so it says something on a machine
that others use too. It is read from /proc before and after: the host's process by itself, and all
other processes of its family together, those that ended meanwhile included.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from . import programs
from .cli import Backend, Provider, chosen_subjects
from .driver import Driver, WorkFailedError
from .figures.figure import run
from .measure import interleave, spread_of
from .processes import Usage, usage_of
from .subjects import ROOT, Language


@dataclass(frozen=True, slots=True)
class Work:
    """A piece of work, and how many of its unit it holds."""

    title: str
    unit: str
    count: int
    act: Callable[[Driver], object]


def _program(text: Callable[[Language], str], repeat: int = 1) -> Callable[[Driver], object]:
    return lambda driver: run(driver, text(driver.subject.language), repeat=repeat)


def _values(text: Callable[[Language, str, int], str], count: int) -> Callable[[Driver], object]:
    def act(driver: Driver) -> object:
        program = text(driver.subject.language, "wide", count)
        return run(driver, program, prepare=("wide", count))

    return act


def works() -> list[Work]:
    """Return what is profiled; each is long enough for the kernel's ticks of 10 ms."""
    runs, calls, lines, objects = 50, 5_000, 100_000, 100_000
    return [
        Work("warm run", "run", runs, _program(lambda of: programs.TRIVIAL[of], repeat=runs)),
        Work("sequential call", "call", calls, _program(lambda of: programs.sequential(of, calls))),
        Work("call in a gather", "call", calls, _program(lambda of: programs.gather(of, calls))),
        Work("log line", "line", lines, _program(lambda of: programs.logs(of, lines))),
        Work("object in", "object", objects, _values(programs.value_in, objects)),
        Work("object in + out", "object", objects, _values(programs.value_in_out, objects)),
    ]


def spend(driver: Driver, work: Work) -> dict[str, float]:
    """Do the work once, and return what it took for each unit."""
    before = usage_of(driver.pid)
    work.act(driver)
    return per_unit(before, usage_of(driver.pid), work.count)


def per_unit(before: Usage, after: Usage, count: int) -> dict[str, float]:
    """Return differences for each unit: µs of processor time, and sleeps of the host."""
    return {
        "host": (after.host_s - before.host_s) * 1_000_000 / count,
        "others": (after.others_s - before.others_s) * 1_000_000 / count,
        "sleeps": (after.host_sleeps - before.host_sleeps) / count,
    }


def main(
    provider: Annotated[list[Provider] | None, typer.Option(help="Only this provider.")] = None,
    peer: Annotated[list[str] | None, typer.Option(help="Profile this peer too.")] = None,
    work: Annotated[list[str] | None, typer.Option(help="Only work that starts so.")] = None,
    rounds: Annotated[int, typer.Option(min=1, help="Rounds of each piece of work.")] = 3,
    backend: Annotated[Backend, typer.Option(help="Event loop of our host.")] = Backend.ASYNCIO,
    checkout: Annotated[Path, typer.Option(help="Profile this checkout, which is set up.")] = ROOT,
) -> None:
    """Print processor time for each unit of work, of the host and of all other processes."""
    subjects = chosen_subjects(provider or [], backend, peer or [], checkout.resolve())
    wanted = [one for one in works() if not work or any(one.title.startswith(w) for w in work)]
    for language, of_language in subjects.items():
        drivers = {subject.name: Driver(subject) for subject in of_language}
        try:
            for one in wanted:
                for name, driver in drivers.items():
                    typer.echo(f"{language:<10} {_line(one, name, driver, rounds)}")
        finally:
            for driver in drivers.values():
                driver.close()


def _line(work: Work, name: str, driver: Driver, rounds: int) -> str:
    try:
        samples = interleave([name], lambda _: spend(driver, work), rounds)[name]
    except WorkFailedError as error:
        return f"{work.title}: {name} - ({error})"
    host, others, sleeps = (
        spread_of(samples[part]).median for part in ("host", "others", "sleeps")
    )
    return (
        f"{work.title}: {name} host {host:,.2f} µs + others {others:,.2f} µs "
        f"a {work.unit}, {sleeps:.2f} sleeps of the host"
    )


if __name__ == "__main__":
    typer.run(main)
