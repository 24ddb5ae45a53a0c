"""Carries out `code-runtime providers`."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table
from rich.text import Text

from .discovery import installed_providers
from .problem import OK
from .text import printable


def show_providers() -> int:
    """Print a table of the installed providers, with the import error of a broken one."""
    console = Console(highlight=False, markup=False, emoji=False)
    found = installed_providers()
    if not found:
        console.print(
            "no providers; `pip install code-runtime-worker-thread` adds one, and "
            "`pip install code-runtime-python` another"
        )
        return OK
    table = Table()
    for header in ("name", "language", "isolation", "package", "state"):
        table.add_column(header, overflow="fold")
    for provider in found:
        state = provider.error or "ok"
        row = (
            provider.name,
            provider.language or "?",
            provider.isolation or "?",
            f"{provider.package} {provider.version}",
            state,
        )
        table.add_row(*(Text(printable(cell, terminal=True)) for cell in row))
    console.print(table)
    return OK
