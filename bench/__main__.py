"""The command: `python -m bench`."""

from __future__ import annotations

import typer

from .cli import main

if __name__ == "__main__":
    typer.run(main)
