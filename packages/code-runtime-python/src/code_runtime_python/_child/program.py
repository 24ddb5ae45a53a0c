"""From a program's text to a coroutine function, and the module that it runs in.

The program is the body of an async function, so that `await` and `return` work at its top level,
but its top-level names are globals of a fresh `__main__`, as in a script: nested functions can use
`global`, classes can be pickled, `from m import *` works. The syntax tree is changed, never the
text: lines and columns stay.

- `return x` becomes `return (x,)`, so that `return None` differs from no return at all.
- `global` with every name that the top level binds is put in front, except for names that a nested
  function declares `nonlocal`.
- `from __future__` imports stay in front of the function.
- `from m import *` is executed as a module of its own, with the same globals.
- `locals()`, `vars()`, `dir()`, `exec(x)` and `eval(x)` at the top level mean the globals.

Standard library only, CPython 3.10 or later.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Callable, Coroutine, Iterator
from inspect import CO_ASYNC_GENERATOR
from types import CodeType, FunctionType, ModuleType
from typing import Any

LABEL = "program.py"
"""The file name of a program, in all diagnostics."""

WRAPPER = "<module>"
"""The name of the function around a program, as tracebacks name the top level of a script."""

_STAR = "from import *"  # a global that no program can spell, there only if there is a star import
_SCOPE_CALLS = re.compile(r"\b(?:locals|vars|dir|exec|eval)\b")
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_BODIES = ("body", "orelse", "finalbody")
_TYPE_ALIAS: type[ast.AST] | None = getattr(ast, "TypeAlias", None)
_Compile = Callable[..., Any]
_compile: _Compile = compile  # with dont_inherit: this file's future imports are not the program's

Program = Callable[[], Coroutine[Any, Any, "tuple[object] | None"]]


def fresh_main(scope: dict[str, object]) -> ModuleType:
    """Make the module that a program runs in, and put it in the place of `__main__`."""
    module = ModuleType("__main__")
    module.__dict__["__builtins__"] = sys.modules["builtins"]
    module.__dict__.update(scope)
    sys.modules["__main__"] = module
    return module


def compile_program(source: str, module: ModuleType) -> Program:
    """Compile a program into a coroutine function whose globals are those of `module`.

    The coroutine returns a tuple of the program's value, or None if it returned nothing.

    Raises:
        SyntaxError: and ValueError, RecursionError, MemoryError, as `compile` does.
    """
    try:
        tree = _compile(source, LABEL, "exec", ast.PyCF_ONLY_AST, dont_inherit=True)
        futures, stars = _Shape(source, tree).apply()
        code = _compile(tree, LABEL, "exec", dont_inherit=True)
    except SyntaxError as error:
        _show_line(error, source)
        raise
    body = next(
        item for item in code.co_consts if type(item) is CodeType and item.co_name == WRAPPER
    )
    if body.co_flags & CO_ASYNC_GENERATOR:
        raise _misplaced_yield(source)
    if futures:
        module.__dict__.update(futures)
    if stars:
        module.__dict__[_STAR] = _star_importer(stars, module.__dict__)
    return FunctionType(body, module.__dict__)


class _Shape:
    """Turns a module into one that holds the program as an async function."""

    def __init__(self, source: str, tree: ast.Module) -> None:
        self._tree = tree
        self._source = source
        self._names: dict[str, None] = {}
        self._stars: list[CodeType] = []
        self._local = self._nonlocal_names() if "nonlocal" in source else frozenset()

    def apply(self) -> tuple[dict[str, object], list[CodeType]]:
        """Change the tree.

        Returns:
            What future imports bind, and the code of each star import.
        """
        tree = self._tree
        if _SCOPE_CALLS.search(self._source):
            _use_globals(tree)
        if ":=" in self._source:
            self._bind_walruses()
        self._visit(tree.body)
        first = 0
        if tree.body and _is_docstring(tree.body[0]):
            first = 1
        futures = first
        while futures < len(tree.body) and _is_future(tree.body[futures]):
            futures += 1
        head, body = tree.body[first:futures], tree.body[:first] + tree.body[futures:]
        names = [name for name in self._names if name not in self._local]
        place: dict[str, Any] = {"lineno": 1, "col_offset": 0, "end_lineno": 1, "end_col_offset": 0}
        if names:
            body.insert(0, ast.Global(names=names, **place))
        if not body:
            body.append(ast.Pass(**place))
        arguments = ast.arguments(
            posonlyargs=[],
            args=[],
            vararg=None,
            kwonlyargs=[],
            kw_defaults=[],
            kwarg=None,
            defaults=[],
        )
        wrapper = ast.AsyncFunctionDef(
            name=WRAPPER, args=arguments, body=body, decorator_list=[], returns=None, **place
        )
        tree.body = [*head, wrapper]
        return _future_names(head), self._stars

    def _visit(self, body: list[ast.stmt]) -> None:
        """Go through the statements of the top level, not into functions and classes."""
        pending = [body]
        while pending:
            statements = pending.pop()
            for index, statement in enumerate(statements):
                kind = type(statement)
                if isinstance(statement, ast.ImportFrom):
                    if [alias.name for alias in statement.names] == ["*"]:
                        statements[index] = self._star(statement)
                        continue
                    self._bind(alias.asname or alias.name for alias in statement.names)
                elif isinstance(statement, ast.Import):
                    self._bind(
                        alias.asname or alias.name.partition(".")[0] for alias in statement.names
                    )
                elif isinstance(statement, ast.Return):
                    if statement.value is not None:
                        statement.value = _tuple(statement.value)
                elif isinstance(statement, (*_FUNCTIONS, ast.ClassDef)):
                    self._names[statement.name] = None
                elif isinstance(statement, ast.Assign):
                    self._bind_targets(statement.targets)
                elif isinstance(statement, ast.AnnAssign):
                    self._annotated(statements, index, statement)
                elif isinstance(statement, ast.AugAssign):
                    self._bind_targets([statement.target])
                elif isinstance(statement, ast.Delete):
                    self._bind_targets(statement.targets)
                elif kind is _TYPE_ALIAS:
                    self._bind_targets([statement.name])  # type: ignore[attr-defined]
                else:
                    self._compound(statement, pending)

    def _compound(self, statement: ast.stmt, pending: list[list[ast.stmt]]) -> None:
        if isinstance(statement, (ast.For, ast.AsyncFor)):
            self._bind_targets([statement.target])
        elif isinstance(statement, (ast.With, ast.AsyncWith)):
            self._bind_targets(
                [item.optional_vars for item in statement.items if item.optional_vars is not None]
            )
        elif isinstance(statement, ast.Match):
            for case in statement.cases:
                self._bind(_captures(case.pattern))
                pending.append(case.body)
            return
        for field in _BODIES:
            inner = getattr(statement, field, None)
            if inner:
                pending.append(inner)
        for handler in getattr(statement, "handlers", ()):
            if handler.name:
                self._names[handler.name] = None
            pending.append(handler.body)

    def _annotated(self, statements: list[ast.stmt], index: int, statement: ast.AnnAssign) -> None:
        """Let an annotated name be global, which Python allows only for a parenthesised one."""
        target = statement.target
        if not isinstance(target, ast.Name) or target.id in self._local:
            return
        statement.simple = 0
        if statement.value is None:
            statements[index] = ast.copy_location(ast.Pass(), statement)
        else:
            self._names[target.id] = None

    def _bind(self, names: Iterator[str]) -> None:
        self._names.update(dict.fromkeys(names))

    def _bind_targets(self, targets: list[Any]) -> None:
        pending = list(targets)
        while pending:
            target = pending.pop()
            if isinstance(target, ast.Name):
                self._names[target.id] = None
            elif isinstance(target, (ast.Tuple, ast.List)):
                pending.extend(target.elts)
            elif isinstance(target, ast.Starred):
                pending.append(target.value)

    def _bind_walruses(self) -> None:
        for node in _top_level(self._tree):
            if isinstance(node, ast.NamedExpr) and isinstance(node.target, ast.Name):
                self._names[node.target.id] = None

    def _nonlocal_names(self) -> frozenset[str]:
        nodes = (node for node in ast.walk(self._tree) if isinstance(node, ast.Nonlocal))
        return frozenset(name for node in nodes for name in node.names)

    def _star(self, statement: ast.ImportFrom) -> ast.stmt:
        module = ast.Module(body=[statement], type_ignores=[])
        # Under the name of this file, whose frames no diagnostic shows.
        code: CodeType = _compile(module, _star_importer.__code__.co_filename, "exec", 0, True)
        self._stars.append(code)
        number = ast.Constant(value=len(self._stars) - 1)
        call = ast.Call(func=ast.Name(id=_STAR, ctx=ast.Load()), args=[number], keywords=[])
        replacement = ast.copy_location(ast.Expr(value=call), statement)
        for node in (call, call.func, number):
            ast.copy_location(node, statement)
        return replacement


def _top_level(tree: ast.Module) -> Iterator[ast.AST]:
    """Walk everything that runs in the top level's own scope, comprehensions included."""
    pending: list[ast.AST] = [tree]
    while pending:
        node = pending.pop()
        yield node
        if isinstance(node, (*_FUNCTIONS, ast.ClassDef)):
            pending.extend(node.decorator_list)
            if isinstance(node, ast.ClassDef):
                pending.extend((*node.bases, *node.keywords))
            else:
                pending.append(node.args)
        elif isinstance(node, ast.Lambda):
            pending.append(node.args)
        else:
            pending.extend(ast.iter_child_nodes(node))


def _use_globals(tree: ast.Module) -> None:
    """Give calls of the top level that mean the current scope the module's scope."""
    for node in _top_level(tree):
        if not isinstance(node, ast.Call) or node.keywords or not isinstance(node.func, ast.Name):
            continue
        name, function = node.func.id, node.func
        if name in ("locals", "vars") and not node.args:
            function.id = "globals"
        elif name in ("exec", "eval") and len(node.args) == 1:
            node.args.append(_call_of_globals(node))
        elif name == "dir" and not node.args:
            function.id = "sorted"
            node.args.append(_call_of_globals(node))


def _call_of_globals(place: ast.expr) -> ast.expr:
    function = ast.copy_location(ast.Name(id="globals", ctx=ast.Load()), place)
    return ast.copy_location(ast.Call(func=function, args=[], keywords=[]), place)


def _tuple(value: ast.expr) -> ast.expr:
    return ast.copy_location(ast.Tuple(elts=[value], ctx=ast.Load()), value)


def _captures(pattern: ast.AST) -> Iterator[str]:
    for node in ast.walk(pattern):
        name = getattr(node, "name", None) or getattr(node, "rest", None)
        if isinstance(name, str):
            yield name


def _is_docstring(statement: ast.stmt) -> bool:
    if not isinstance(statement, ast.Expr) or not isinstance(statement.value, ast.Constant):
        return False
    return isinstance(statement.value.value, str)


def _is_future(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.ImportFrom) and statement.module == "__future__"


def _future_names(statements: list[ast.stmt]) -> dict[str, object]:
    """Bind what future imports bind; the compiler has checked that the features exist."""
    import __future__

    found: dict[str, object] = {}
    for statement in statements:
        assert isinstance(statement, ast.ImportFrom)
        for alias in statement.names:
            found[alias.asname or alias.name] = getattr(__future__, alias.name, None)
    return found


def _star_importer(codes: list[CodeType], scope: dict[str, object]) -> Callable[[int], None]:
    run = exec

    def star(number: int) -> None:
        run(codes[number], scope)

    return star


def _misplaced_yield(source: str) -> SyntaxError:
    tree = _compile(source, LABEL, "exec", ast.PyCF_ONLY_AST, dont_inherit=True)
    node = next(node for node in _top_level(tree) if isinstance(node, (ast.Yield, ast.YieldFrom)))
    end = None if node.end_col_offset is None else node.end_col_offset + 1
    place = (LABEL, node.lineno, node.col_offset + 1, None, node.end_lineno, end)
    error = SyntaxError("'yield' outside function", place)
    _show_line(error, source)
    return error


def _show_line(error: SyntaxError, source: str) -> None:
    """Put in the source line, which the compiler has only for errors of the parser."""
    number = error.lineno
    if error.text is None and error.filename == LABEL and number is not None:
        lines = source.splitlines()
        if 0 < number <= len(lines):
            error.text = lines[number - 1]
