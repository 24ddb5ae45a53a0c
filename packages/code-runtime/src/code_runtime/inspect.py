"""`python -m code_runtime.inspect PROGRAM`: run a program and see what it did.

It takes the arguments of `code-runtime run` and shows the program with the line that failed, a time
line of its logs and calls, and its value or failure.
"""

from __future__ import annotations

__all__ = ["main"]


def main() -> None:
    """Run the command line and end the process with its exit code."""
    from ._cli.app import inspect_app  # typer is imported by nothing else

    inspect_app(prog_name="python -m code_runtime.inspect")


if __name__ == "__main__":
    main()
