"""The error of a command line that cannot be carried out, and the exit codes."""

from __future__ import annotations

OK = 0
PROGRAM_FAILED = 1
MISUSE = 2


class Misuse(Exception):
    """The command cannot run as it was given: exit code 2, the text for the user."""
