"""The mutants of one source file: its text with one change in each.

The changes are those of mutmut, which makes them for function bodies alone. Here constants of the
module and bodies of properties are changed too, because the name rules and the frame table are
constants. Two changes come on top: a plain condition is negated, and a statement is left out.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from types import CodeType
from typing import Any, cast

import libcst as cst
from libcst.metadata import ByteSpanPositionProvider, MetadataWrapper
from mutmut.mutation import mutators

Identity = tuple[str, str, str, str]
"""Target, function, original line, mutated line."""

MODULE = "<module>"
_Operators = list[tuple[type[cst.CSTNode], Callable[[Any], Iterable[cst.CSTNode]]]]
_OPERATORS = cast("_Operators", mutators.mutation_operators)
# A call of these with another number of arguments, or with None, fails at once.
_TRIVIAL_CALLS = frozenset({"len", "isinstance", "type", "super"})


@dataclass(frozen=True, slots=True)
class Mutant:
    """One changed source text.

    Args:
        target: The name of the target that it belongs to.
        function: The qualified name of the function that is changed, or `<module>`.
        original: The lines that differ, white space collapsed.
        mutated: What stands in their place.
        source: The whole text.
        unit: The function whose code alone differs, None if the module must be executed anew.
    """

    target: str
    function: str
    original: str
    mutated: str
    source: str
    unit: str | None

    @property
    def identity(self) -> Identity:
        """What an explanation names; line numbers are not part of it."""
        return self.target, self.function, self.original, self.mutated


def mutants_of(target: str, source: str) -> list[Mutant]:
    """Return the mutants of a text that compile, in its order; `target` is the name they get."""
    module = cst.parse_module(source)
    wrapper = MetadataWrapper(module)
    visitor = _Visitor(wrapper.module)
    wrapper.visit(visitor)
    data = source.encode()
    original_codes = _codes(source)
    executed = _called_at_import(source)
    seen = {source}
    found: list[Mutant] = []
    for change in visitor.changes:
        text = (data[: change.start] + change.text.encode() + data[change.end :]).decode()
        if text in seen:
            continue
        seen.add(text)
        try:
            codes = _codes(text)
        except SyntaxError:
            continue  # such as `break` turned into `return` outside of a function
        unit = change.unit
        if unit is not None and (
            unit.partition(".")[0] in executed
            or codes[unit].co_freevars != original_codes[unit].co_freevars
        ):
            unit = None
        found.append(Mutant(target, change.function, *_lines(source, text), text, unit))
    return found


def code_of(source: str, unit: str) -> CodeType:
    """Return the code of a function of a source text."""
    return _codes(source)[unit]


@dataclass(frozen=True, slots=True)
class _Change:
    function: str
    unit: str | None
    start: int
    end: int
    text: str


class _Visitor(cst.CSTVisitor):
    METADATA_DEPENDENCIES = (ByteSpanPositionProvider,)

    def __init__(self, module: cst.Module) -> None:
        super().__init__()
        self.changes: list[_Change] = []
        self._module = module
        self._names: list[str] = []
        self._functions: list[str] = []
        self._parameters = 0
        self._skipped: set[cst.CSTNode] = set()

    def on_visit(self, node: cst.CSTNode) -> bool:
        if node in self._skipped or _is_for_types_only(node):
            return False
        if isinstance(node, cst.ClassDef | cst.FunctionDef):
            self._names.append(node.name.value)
            self._skipped.add(node.name)
        if isinstance(node, cst.FunctionDef):
            self._functions.append(".".join(self._names))
        if isinstance(node, cst.Parameters):
            self._parameters += 1
        is_call = isinstance(node, cst.Call) and isinstance(node.func, cst.Name)
        called = cast("Any", node).func.value if is_call else ""
        if called == "cast":
            self._skipped.add(cast("cst.Call", node).args[0])
        elif called not in _TRIVIAL_CALLS:
            for mutated in _mutations(node):
                self._add(node, mutated)
        return True

    def on_leave(self, original_node: cst.CSTNode) -> None:
        if original_node in self._skipped or _is_for_types_only(original_node):
            return
        if isinstance(original_node, cst.Parameters):
            self._parameters -= 1
        if isinstance(original_node, cst.FunctionDef):
            self._functions.pop()
        if isinstance(original_node, cst.ClassDef | cst.FunctionDef):
            self._names.pop()

    def _add(self, node: cst.CSTNode, mutated: cst.CSTNode) -> None:
        span = cast("Any", self.get_metadata(ByteSpanPositionProvider, node))
        lpar = getattr(node, "lpar", ())
        if lpar and len(getattr(mutated, "lpar", ())) == len(lpar):
            mutated = mutated.with_changes(lpar=[], rpar=[])  # they are not within the span
        self.changes.append(
            _Change(
                ".".join(self._names) or MODULE,
                self._functions[0] if self._functions and not self._parameters else None,
                span.start,
                span.start + span.length,
                self._module.code_for_node(mutated),
            )
        )


def _mutations(node: cst.CSTNode) -> Iterator[cst.CSTNode]:
    for kind, operator in _OPERATORS:
        if isinstance(node, kind):
            yield from operator(node)
    if isinstance(node, cst.If | cst.While) and isinstance(
        node.test, cst.Name | cst.Attribute | cst.Call | cst.NamedExpr
    ):
        inner = node.test.with_changes(lpar=[cst.LeftParen()], rpar=[cst.RightParen()])
        yield node.with_changes(test=cst.UnaryOperation(cst.Not(), inner))
    is_statement = isinstance(node, cst.Expr) and isinstance(node.value, cst.Call | cst.Yield)
    if is_statement or isinstance(node, cst.Raise):
        yield cst.Pass()


def _is_for_types_only(node: cst.CSTNode) -> bool:
    """Tell whether nothing below a node has an effect on what the program does."""
    if isinstance(node, cst.Annotation | cst.Decorator | cst.Import | cst.ImportFrom):
        return True
    if isinstance(node, cst.AnnAssign):
        return isinstance(kind := node.annotation.annotation, cst.Name) and (
            kind.value == "TypeAlias"
        )
    return (
        isinstance(node, cst.Subscript)
        and isinstance(node.value, cst.Name)
        and node.value.value == "Literal"
    )


def _codes(source: str) -> dict[str, CodeType]:
    """Compile a text and return the code of each function by its qualified name."""
    found: dict[str, CodeType] = {}
    pending = [compile(source, "<mutant>", "exec", dont_inherit=True)]
    while pending:
        code = pending.pop()
        found.setdefault(code.co_qualname, code)
        pending.extend(item for item in code.co_consts if isinstance(item, CodeType))
    return found


def _called_at_import(source: str) -> set[str]:
    """Return the names that are called while the module is executed."""
    found: set[str] = set()
    pending: list[ast.AST] = [ast.parse(source)]
    while pending:
        node = pending.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            found.add(node.func.id)
        pending.extend(ast.iter_child_nodes(node))
    return found


def _lines(source: str, mutated: str) -> tuple[str, str]:
    """Return the lines in which two texts differ, each side as one line."""
    before, after = source.splitlines(), mutated.splitlines()
    start = 0
    while before[start : start + 1] == after[start : start + 1]:
        start += 1
    end = 0
    longest = min(len(before), len(after)) - start
    while end < longest and before[-1 - end] == after[-1 - end]:
        end += 1
    sides = before[start : len(before) - end], after[start : len(after) - end]
    return " ".join(" ".join(sides[0]).split()), " ".join(" ".join(sides[1]).split())
