"""The command `code-mode`; the only part of the package that needs typer."""

from __future__ import annotations

__all__ = ["main"]


def main() -> None:
    """Run the command line and end the process with its exit code."""
    from .app import app  # typer is imported by nothing else

    app(prog_name="code-mode")
