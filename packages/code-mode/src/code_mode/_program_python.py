"""Turns Python programs that define what is to run into programs that run it."""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Iterator
from typing import Final

_LINE_END: Final = re.compile(rb"\r\n|\r|\n")
_ONLY: Final = re.compile(r"\s*,?\s*\)")
_NAME_IS_MAIN: Final = ("Name(id='__name__', ctx=Load())", "Constant(value='__main__')")
_FUNCTIONS: Final = (ast.FunctionDef, ast.AsyncFunctionDef)
_MAIN: Final = "main"
_TOOLS: Final = "tools"


def call_main(code: str) -> str:
    """Let a program return what its main function returns, if it only defines or starts that one.

    Args:
        code: A program.

    Returns:
        The program with `return await` in the place of a final `asyncio.run` or `anyio.run`, or
        with a call of its function on a new last line; otherwise the program as it is. A function
        that returns nothing is called without `return`: the run has no value then, not even None.
    """
    if "def " not in code and ".run(" not in code:
        return code
    tree = _parsed(code)
    if tree is None or not tree.body:
        return code
    changed = _started(code, tree.body) or _called(code, tree.body)
    return code if changed is None or _parsed(changed) is None else changed


def _parsed(code: str) -> ast.Module | None:
    with warnings.catch_warnings():
        # The program's own run warns of what is odd in it.
        warnings.simplefilter("ignore")
        try:
            return ast.parse(code)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return None


# asyncio.run(main()) and anyio.run(main)


def _started(code: str, body: list[ast.stmt]) -> str | None:
    last = body[-1]
    if isinstance(last, ast.If) and _is_main_guard(last.test) and not last.orelse:
        last = last.body[-1]
    if not isinstance(last, ast.Expr) or not isinstance(last.value, ast.Call):
        return None
    call = last.value
    function = call.func
    if not isinstance(function, ast.Attribute) or not isinstance(function.value, ast.Name):
        return None
    if function.attr != "run" or call.keywords or not call.args:
        return None
    if any(isinstance(argument, ast.Starred) for argument in call.args):
        return None
    text = _Text(code)
    first = call.args[0]
    word = "await" if _is_silent(first, body) else "return await"
    head = f"{text.upto(call)}{word} ("
    rest = text.between(first, call)
    if function.value.id == "asyncio" and _ONLY.fullmatch(rest):
        # A comma behind the only argument would make a tuple of it.
        rest = rest.replace(",", "", 1)
        return head + text.after_opening(call, first) + text.of(first) + rest + text.behind(call)
    if function.value.id == "anyio":
        arguments = rest.lstrip().removeprefix(",") if "," in rest else rest
        if "#" not in rest.partition(",")[0]:
            begin = text.after_opening(call, first) + text.of(first)
            return f"{head}{begin})({arguments}{text.behind(call)}"
    return None


def _is_silent(target: ast.expr, body: list[ast.stmt]) -> bool:
    """Tell whether an expression is, or calls, a function of the program that returns nothing."""
    name = target.func if isinstance(target, ast.Call) else target
    found = [
        statement
        for statement in body
        if isinstance(statement, _FUNCTIONS)
        and isinstance(name, ast.Name)
        and statement.name == name.id
    ]
    return len(found) == 1 and not any(map(_is_value, _own_nodes(found[0])))


def _is_main_guard(test: ast.expr) -> bool:
    if not isinstance(test, ast.Compare) or not isinstance(test.ops[0], ast.Eq):
        return False
    sides = tuple(ast.dump(side) for side in (test.left, *test.comparators))
    return sides in (_NAME_IS_MAIN, _NAME_IS_MAIN[::-1])


class _Text:
    """Cuts a program at the places of its nodes, which count bytes."""

    def __init__(self, code: str) -> None:
        self._bytes = code.encode()
        self._starts = [0, *(found.end() for found in _LINE_END.finditer(self._bytes))]

    def upto(self, node: ast.expr) -> str:
        return self._bytes[: self._start(node)].decode()

    def of(self, node: ast.expr) -> str:
        return self._bytes[self._start(node) : self._end(node)].decode()

    def behind(self, node: ast.expr) -> str:
        return self._bytes[self._end(node) :].decode()

    def between(self, inner: ast.expr, outer: ast.expr) -> str:
        """Give what stands behind one node and before the end of the node around it."""
        return self._bytes[self._end(inner) : self._end(outer)].decode()

    def after_opening(self, call: ast.Call, first: ast.expr) -> str:
        """Give what stands between the bracket of a call and its first argument."""
        between = self._bytes[self._end(call.func) : self._start(first)].decode()
        return between.partition("(")[2]

    def _start(self, node: ast.expr) -> int:
        return self._starts[node.lineno - 1] + node.col_offset

    def _end(self, node: ast.expr) -> int:
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        return self._starts[node.end_lineno - 1] + node.end_col_offset


# Definitions only


def _called(code: str, body: list[ast.stmt]) -> str | None:
    functions = [statement for statement in body if isinstance(statement, _FUNCTIONS)]
    mains = [function for function in functions if function.name == _MAIN]
    chosen = mains if mains else functions
    names = frozenset({function.name for function in functions} | {_TOOLS})
    if len(chosen) != 1 or not all(_is_definition(statement, names) for statement in body):
        return None
    main = chosen[0]
    arguments = _arguments(main.args)
    if arguments is None or main.decorator_list or any(map(_is_yield, _own_nodes(main))):
        return None
    words = [
        "return " if any(map(_is_value, _own_nodes(main))) else "",
        "await " if isinstance(main, ast.AsyncFunctionDef) else "",
    ]
    line_end = "" if code.endswith("\n") else "\n"
    return f"{code}{line_end}{''.join(words)}{main.name}({arguments})"


def _is_definition(statement: ast.stmt, names: frozenset[str]) -> bool:
    """Tell whether a statement does nothing but define: it calls no tool, and no such function."""
    if isinstance(statement, (*_FUNCTIONS, ast.Import, ast.ImportFrom, ast.Pass)):
        return True
    if isinstance(statement, ast.Expr):
        return isinstance(statement.value, ast.Constant)
    if not isinstance(statement, (ast.Assign, ast.AnnAssign, ast.ClassDef)):
        return False
    return not any(
        isinstance(node, ast.Await) or (isinstance(node, ast.Name) and node.id in names)
        for node in _own_nodes(statement)
    )


def _arguments(parameters: ast.arguments) -> str | None:
    """Give the arguments of a call; None if it needs more than the tools."""
    positional = [*parameters.posonlyargs, *parameters.args]
    required = positional[: len(positional) - len(parameters.defaults)]
    if any(default is None for default in parameters.kw_defaults):
        return None
    names = [parameter.arg for parameter in required]
    return {(): "", (_TOOLS,): _TOOLS}.get(tuple(names))


def _own_nodes(statement: ast.stmt) -> Iterator[ast.AST]:
    """Walk a statement, without the functions inside it."""
    pending: list[ast.AST] = list(ast.iter_child_nodes(statement))
    while pending:
        node = pending.pop()
        yield node
        if not isinstance(node, (*_FUNCTIONS, ast.Lambda)):
            pending.extend(ast.iter_child_nodes(node))


def _is_value(node: ast.AST) -> bool:
    return isinstance(node, ast.Return) and node.value is not None


def _is_yield(node: ast.AST) -> bool:
    return isinstance(node, (ast.Yield, ast.YieldFrom))
