"""Measures families of figures, all subjects of one language in turn."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field

from .driver import Driver, WorkFailedError
from .figures import Family, Figure
from .measure import interleave
from .subjects import Language, Subject

# Some peers fail by chance: a queue of theirs may or may not overflow.
ATTEMPTS = 3
# Why a subject has no value for a figure, by language and name of the subject.
Lacks = Mapping[tuple[Language, str], Mapping[str, str]]


@dataclass(slots=True)
class Row:
    """One figure of all subjects: samples by subject, or why there are none."""

    figure: Figure
    language: Language
    samples: dict[str, list[float]] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)


def measure_family(
    family: Family,
    language: Language,
    subjects: Sequence[Subject],
    lacks: Lacks,
    rounds: int,
    quick: bool,
) -> list[Row]:
    """Measure a family; a subject that fails in a round is left out, with its reason."""
    missing: dict[str, str] = {}
    taken = [subject for subject in subjects if subject.ours or not family.only_ours]
    names = {figure.name for figure in family.figures}
    with ExitStack() as stack:
        measures: dict[str, Callable[[], Mapping[str, float]]] = {}
        for subject in taken:
            if names <= set(lacks.get((language, subject.name), ())):
                continue
            measures[subject.name] = _measure_of(family, subject, quick, stack)
        samples = interleave(list(measures), lambda name: _attempt(name, measures, missing), rounds)
    rows = [Row(figure, language) for figure in family.figures]
    for row in rows:
        for subject in taken:
            name = subject.name
            lacking = lacks.get((language, name), {})
            reason = missing.get(name) or lacking.get(row.figure.name)
            if reason is not None:
                row.missing[name] = reason
            else:
                row.samples[name] = samples[name][row.figure.name]
    return rows


def _measure_of(
    family: Family, subject: Subject, quick: bool, stack: ExitStack
) -> Callable[[], Mapping[str, float]]:
    on_subject, on_driver = family.on_subject, family.on_driver
    if on_subject is not None:
        return lambda: on_subject(subject, quick)
    assert on_driver is not None
    driver = stack.enter_context(Driver(subject))
    return lambda: on_driver(driver, quick)


def _attempt(
    name: str, measures: Mapping[str, Callable[[], Mapping[str, float]]], missing: dict[str, str]
) -> Mapping[str, float]:
    if name in missing:
        return {}
    reason = ""
    for _ in range(ATTEMPTS):
        try:
            return measures[name]()
        except WorkFailedError as error:
            reason = str(error)
    missing[name] = reason
    return {}


def rounds_of(family: Family, rounds: int | None, quick: bool) -> int:
    """Return how many rounds a family gets."""
    if rounds is not None:
        return rounds
    if quick:
        return 1
    return 5 if family.heavy else 11


def measure_all(
    families: Sequence[Family],
    subjects: Mapping[Language, Sequence[Subject]],
    lacks: Lacks,
    rounds: int | None,
    quick: bool,
) -> Iterator[Row]:
    """Measure figure after figure, each in one language after the other."""
    for family in families:
        count = rounds_of(family, rounds, quick)
        # What holds for the product as a whole is measured once.
        languages = list(subjects)[:1] if family.only_ours else list(subjects)
        for language in languages:
            yield from measure_family(family, language, subjects[language], lacks, count, quick)
