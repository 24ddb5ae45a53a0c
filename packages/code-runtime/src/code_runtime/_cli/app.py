"""Declares the commands and their options; what they do stands in modules that load on use."""

from __future__ import annotations

import functools
import sys
from typing import Annotated, Final

import typer

_SETTINGS: Final = {"help_option_names": ["-h", "--help"]}

app = typer.Typer(
    help="Run programs that a language model wrote, against functions of your own.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
    rich_markup_mode=None,
    context_settings=_SETTINGS,
)


def _version(wanted: bool) -> None:
    if wanted:
        from code_runtime import __version__

        typer.echo(f"code-runtime {__version__}")
        raise typer.Exit


@app.callback()
def _main(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_version, is_eager=True, help="Show the version."),
    ] = False,
) -> None:
    pass


@app.command()
def run(
    file: Annotated[
        str, typer.Argument(metavar="FILE", help="The program; - reads it from stdin.")
    ],
    bindings: Annotated[
        list[str] | None,
        typer.Option(
            "--bindings",
            "-b",
            metavar="FILE_OR_MODULE[:NAME]",
            help="Functions for the program: a Python file or module and a name in it (default: "
            "bindings) that is a CodeBindingNamespace, a list of them, or a factory or context "
            "manager of those. May be given several times.",
        ),
    ] = None,
    language: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="typescript, python, … (default: by the suffix of FILE)."
        ),
    ] = None,
    provider: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="A provider by its name, see `code-runtime providers`."),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON document and nothing else.")
    ] = False,
    calls: Annotated[bool, typer.Option("--calls", help="Show the journal of calls.")] = False,
    report: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="Also write a page that shows the run in a browser."),
    ] = None,
    inspect: Annotated[
        bool,
        typer.Option(
            "--inspect", help="Show the program and a time line of logs and calls, at the end."
        ),
    ] = False,
    max_wall_ms: Annotated[str | None, typer.Option(metavar="MS", help="Real time.")] = None,
    compute_ms: Annotated[
        str | None, typer.Option(metavar="MS", help="Busy time of a TypeScript program.")
    ] = None,
    max_output_bytes: Annotated[
        str | None,
        typer.Option(metavar="BYTES", help="Logs and value of a TypeScript program together."),
    ] = None,
    memory_mb: Annotated[
        str | None, typer.Option(metavar="MB", help="Memory of the program's processes.")
    ] = None,
    cpu_seconds: Annotated[
        str | None, typer.Option(metavar="S", help="Processor time of a Python program.")
    ] = None,
    max_log_bytes: Annotated[
        str | None, typer.Option(metavar="BYTES", help="Logs of a Python program.")
    ] = None,
    max_value_bytes: Annotated[
        str | None, typer.Option(metavar="BYTES", help="Value of a Python program.")
    ] = None,
    max_old_generation_size_mb: Annotated[
        str | None, typer.Option(metavar="MB", help="Heap of a TypeScript program.")
    ] = None,
) -> None:
    """Run a program: its logs as they come, then its value or why it failed.

    A limit is a number, or `none` to switch it off where the provider allows that. Exit code: 0
    the program ended by itself, 1 it failed, 2 the command could not be carried out.
    """
    from .run import RunOptions, run_file

    limits = {
        "max_wall_ms": max_wall_ms,
        "compute_ms": compute_ms,
        "max_output_bytes": max_output_bytes,
        "memory_mb": memory_mb,
        "cpu_seconds": cpu_seconds,
        "max_log_bytes": max_log_bytes,
        "max_value_bytes": max_value_bytes,
        "max_old_generation_size_mb": max_old_generation_size_mb,
    }
    given = {name: _number(name, text) for name, text in limits.items() if text is not None}
    options = RunOptions(
        file=file,
        bindings=tuple(bindings or ()),
        language=language,
        provider=provider,
        as_json=as_json,
        calls=calls,
        report=report,
        inspect=inspect,
        config=given,
    )
    sys.exit(run_file(options))


@functools.wraps(run)  # its options, and nothing to keep in step with them
def _inspect(**options: object) -> None:
    run(**options | {"inspect": True})  # type: ignore[arg-type]  # typer has read them


inspect_app = typer.Typer(
    pretty_exceptions_enable=False,
    add_completion=False,
    rich_markup_mode=None,
    context_settings=_SETTINGS,
)
inspect_app.command(
    help="Run a program, then show it with a time line of its logs and calls, and its value or why "
    "it failed. The options are those of `code-runtime run`, the exit code too."
)(_inspect)


def _number(name: str, text: str) -> float | None:
    """Read a limit; whether the provider accepts it is the provider's business."""
    if text.lower() == "none":
        return None
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    option = "--" + name.replace("_", "-")
    raise typer.BadParameter(f"{text!r} is not a number or none", param_hint=option)


@app.command()
def doctor() -> None:
    """Check what is installed and what is missing, with a fix for each problem.

    Exit code: 0 all is well, 1 there is a problem.
    """
    from .doctor import examine

    sys.exit(examine())


@app.command()
def providers() -> None:
    """List the installed providers."""
    from .providers import show_providers

    sys.exit(show_providers())
