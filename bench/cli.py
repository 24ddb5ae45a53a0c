"""The options of `python -m bench`."""

from __future__ import annotations

import json
from enum import StrEnum
from itertools import chain
from pathlib import Path
from typing import Annotated

import typer

from . import report
from .driver import Driver, WorkFailedError
from .figures import FAMILIES, FIGURES, Family
from .run import measure_all
from .subjects import FLOOR, PROVIDERS, ROOT, Language, Subject, all_peers, ours


class Provider(StrEnum):
    """Our providers."""

    WORKER_THREAD = "worker-thread"
    PYTHON = "python"


class Backend(StrEnum):
    """Event loops of the host."""

    ASYNCIO = "asyncio"
    TRIO = "trio"


def chosen_families(names: list[str]) -> list[Family]:
    """Return the families that hold any of some figures; a name may be a prefix.

    Raises:
        BadParameter: a name fits no figure.
    """
    for name in names:
        if not any(figure.startswith(name) for figure in FIGURES):
            raise typer.BadParameter(f"no figure {name!r}; there are {', '.join(FIGURES)}")
    return [
        family
        for family in FAMILIES
        if not names
        or any(figure.name.startswith(name) for figure in family.figures for name in names)
    ]


def chosen_subjects(
    providers: list[Provider], backend: Backend, peers: list[str], checkout: Path
) -> dict[Language, list[Subject]]:
    """Return ours and the peers of each language.

    Raises:
        BadParameter: a peer is unknown or not installed.
    """
    known = all_peers()
    for name in peers:
        if name != "all" and name not in {peer.name for peer in known}:
            raise typer.BadParameter(f"no peer {name!r}")
    subjects: dict[Language, list[Subject]] = {}
    for provider in providers or list(Provider):
        language = PROVIDERS[provider]
        subjects[language] = [ours(provider, backend, checkout)]
        for peer in known:
            is_asked = peer.name in peers or ("all" in peers and peer.name != FLOOR)
            if peer.language == language and is_asked:
                if not peer.installed:
                    raise typer.BadParameter(f"{peer.name} is not installed; run make bench-peers")
                subjects[language].append(peer)
    return subjects


def ask_about(subjects: dict[Language, list[Subject]]) -> list[dict[str, object]]:
    """Ask each subject for its version and what isolates its runs."""
    found = []
    for of_language in subjects.values():
        for subject in of_language:
            with Driver(subject) as driver:
                try:
                    answer = driver.ask(op="about")
                except WorkFailedError as error:
                    raise typer.BadParameter(f"{subject.name} does not start: {error}") from None
                found.append(report.about_of(subject, answer))
    return found


def lacks_of(about: dict[str, object]) -> dict[str, str]:
    """Return for which figures a subject has no value, and why."""
    lacks = about["lacks"]
    assert isinstance(lacks, dict)
    return {str(figure): str(reason) for figure, reason in lacks.items()}


def main(
    provider: Annotated[
        list[Provider] | None, typer.Option(help="Only this provider (may be repeated).")
    ] = None,
    figure: Annotated[
        list[str] | None, typer.Option(help="Only figures that start so (may be repeated).")
    ] = None,
    peer: Annotated[
        list[str] | None, typer.Option(help="Measure this peer too, or 'all' (may be repeated).")
    ] = None,
    rounds: Annotated[int | None, typer.Option(min=1, help="Rounds of each figure.")] = None,
    quick: Annotated[bool, typer.Option(help="One round of a small part of the work.")] = False,
    json_file: Annotated[Path | None, typer.Option("--json", help="Write the samples too.")] = None,
    backend: Annotated[Backend, typer.Option(help="Event loop of our host.")] = Backend.ASYNCIO,
    checkout: Annotated[
        Path, typer.Option(help="Measure the product of this checkout, which is set up.")
    ] = ROOT,
) -> None:
    """Measure the product, and peers beside it. Figures of `--quick` compare to nothing."""
    families = chosen_families(figure or [])
    subjects = chosen_subjects(provider or [], backend, peer or [], checkout.resolve())
    about = ask_about(subjects)
    for entry in about:
        typer.echo("# {subject} ({language}): {name} {version}, {isolation}".format_map(entry))
    lacks: dict[tuple[Language, str], dict[str, str]] = {
        (subject.language, subject.name): lacks_of(entry)
        for subject, entry in zip(chain.from_iterable(subjects.values()), about, strict=True)
    }
    rows = []
    for row in measure_all(families, subjects, lacks, rounds, quick):
        rows.append(row)
        typer.echo(report.line_of(row, with_bar=not quick))
        if json_file is not None:  # now already: a run takes long, and may be interrupted
            text = json.dumps(report.as_json(rows, about, quick), indent=1, ensure_ascii=False)
            json_file.write_text(text + "\n")
