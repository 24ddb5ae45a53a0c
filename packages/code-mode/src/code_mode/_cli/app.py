"""Declares the commands and their options; what they do stands in modules that load on use."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

app = typer.Typer(
    help="Give a language model one run_code tool over all tools of your MCP servers.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)

Config = Annotated[
    str,
    typer.Option("--config", "-c", metavar="FILE", help="JSON with mcpServers, as clients have."),
]
Language = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="Of the programs: typescript (default) or python."),
]
Prefix = Annotated[
    str,
    typer.Option(
        metavar="RULE",
        help="Whether names of tools begin with that of their server: auto (when two servers have "
        "one of that name), always, never.",
    ),
]


def _version(wanted: bool) -> None:
    if wanted:
        from code_mode import __version__

        typer.echo(f"code-mode {__version__}")
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
def serve(
    config: Config,
    language: Language = None,
    http: Annotated[
        int | None,
        typer.Option(
            metavar="PORT", min=0, max=65_535, help="Serve over streamable HTTP; 0: a free port."
        ),
    ] = None,
    host: Annotated[
        str, typer.Option(metavar="ADDRESS", help="Where to listen with --http.")
    ] = "127.0.0.1",
    prefix: Prefix = "auto",
) -> None:
    """Be an MCP server that offers run_code and search_tools, over stdio unless --http is given.

    Exit code: 0 the client is gone or the command was interrupted, 2 it could not be carried out.
    """
    from .serve import serve_command

    sys.exit(serve_command(config, language, prefix, host=host, port=http))


@app.command()
def sdk(
    config: Config,
    language: Language = None,
    prefix: Prefix = "auto",
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the tools as an MCP client gets them.")
    ] = False,
) -> None:
    """Print what a model would see: the description of run_code and the declarations of the tools.

    Exit code: 0 it was printed, 2 it could not be.
    """
    from .sdk import sdk_command

    sys.exit(sdk_command(config, language, prefix, as_json=as_json))


@app.command()
def call(
    config: Config,
    program: Annotated[
        str, typer.Argument(metavar="PROGRAM_FILE", help="The program; - reads it from stdin.")
    ],
    language: Language = None,
    prefix: Prefix = "auto",
) -> None:
    """Run one program over the tools: live lines on standard error, the result on standard output.

    The language is that of the suffix unless it is given. Exit code: 0 the program ended by itself,
    1 it failed, 2 the command could not be carried out.
    """
    from .call import call_command

    sys.exit(call_command(config, program, language, prefix))
