"""Runs programs in this interpreter, without a runtime, and tells how each one ended.

Reads a JSON object of key and program from standard input, writes one of key and outcome: the value
of `checked_count`, or the last line of the traceback with the last line number inside the program.
"""

from __future__ import annotations

import json
import sys
import traceback

LABEL = "program.py"


def outcome_of(program: str) -> dict[str, object]:
    """Run one program in a namespace of its own."""
    scope: dict[str, object] = {"__name__": "__main__"}
    try:
        exec(compile(program, LABEL, "exec"), scope)
    except Exception as error:
        lines = [
            line
            for frame, line in traceback.walk_tb(error.__traceback__)
            if frame.f_code.co_filename == LABEL
        ]
        line = error.lineno if isinstance(error, SyntaxError) else lines[-1]
        return {"error": traceback.format_exception_only(error)[-1].rstrip(), "line": line}
    return {"value": scope["checked_count"]}


if __name__ == "__main__":
    programs = json.load(sys.stdin)
    json.dump({key: outcome_of(program) for key, program in programs.items()}, sys.stdout)
