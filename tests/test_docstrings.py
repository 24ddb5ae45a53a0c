"""Docstrings of the public names: all there, with arguments and errors, and their examples run."""

from __future__ import annotations

import ast
import doctest
import importlib
import inspect
import re
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest

from code_runtime import CodeRuntime
from code_runtime._execution._pooled import PooledCodeRuntime

ROOT = Path(__file__).parents[1]
MODULES = [
    importlib.import_module(name)
    for name in (
        "code_runtime",
        "code_runtime.provider_kit",
        "code_runtime.testing",
        "code_runtime_python",
        "code_runtime_worker_thread",
        "code_mode",
    )
]
API_PAGES = ROOT / "docs/reference/api"
# Their constructors are the library's own.
MADE_BY_THE_LIBRARY = {"BlockingCodeRuntime", "PluginHandle", "ToolView"}
# A docstring says what name and type leave open; one argument is often none of that.
CLEAR_ARGUMENTS = 1


def exported() -> Iterator[tuple[str, object]]:
    for module in MODULES:
        for name in module.__all__:
            yield f"{module.__name__}.{name}", getattr(module, name)


def members() -> Iterator[tuple[str, object]]:
    """Give the public classes and functions, and the public members of the classes."""
    for name, item in exported():
        if not (inspect.isclass(item) or inspect.isfunction(item)):
            continue  # an alias or constant, which the API pages show
        yield name, item
        for member, value in vars(item).items() if inspect.isclass(item) else ():
            plain = value.__func__ if isinstance(value, classmethod | staticmethod) else value
            is_member = inspect.isfunction(plain) or isinstance(plain, property)
            if is_member and not member.startswith("_") and not is_hook(item, member):
                yield f"{name}.{member}", plain


def is_hook(owner: object, member: str) -> bool:
    """Whether a member is a part of the machinery that the providers share, not of their face."""
    pooled = isinstance(owner, type) and issubclass(owner, PooledCodeRuntime)
    return pooled and hasattr(PooledCodeRuntime, member) and not hasattr(CodeRuntime, member)


ITEMS = [pytest.param(item, id=name) for name, item in members()]
FUNCTIONS = [
    pytest.param(item, id=name) for name, item in members() if not isinstance(item, property)
]


def section(item: object, title: str) -> str:
    """Return the text of one section of a docstring."""
    text = inspect.cleandoc(getattr(item, "__doc__", "") or "")
    found = re.search(rf"^{title}:\n((?:    .*\n|\n)*)", text + "\n", re.MULTILINE)
    return found[1] if found else ""


@pytest.mark.parametrize("item", ITEMS)
def test_public_name_has_a_docstring(item: object) -> None:
    text = getattr(item, "__doc__", None) or ""
    first = text.strip().split("\n")[0]
    assert first.endswith((".", ":", "…")), first
    assert not first.startswith(f"{getattr(item, '__name__', '')}("), "made by the interpreter"


def parameters(item: object) -> list[str]:
    if not callable(item):
        return []
    if isinstance(item, type) and (
        "__init__" not in vars(item) or item.__name__ in MADE_BY_THE_LIBRARY
    ):
        return []
    try:
        signature = inspect.signature(item)
    except ValueError:
        return []
    return [name for name in signature.parameters if name not in ("self", "cls") and name[0] != "_"]


@pytest.mark.parametrize("item", FUNCTIONS)
def test_arguments_are_documented(item: object) -> None:
    names = parameters(item)
    text = getattr(item, "__doc__", None) or ""
    if re.search(r"; see `\w", text):
        return  # another docstring has them
    documented = re.findall(r"^    \**(\w+)(?: \(.*\))?:", section(item, "Args"), re.MULTILINE)
    if documented or len(names) > CLEAR_ARGUMENTS:
        assert documented == names


def raised(item: object) -> set[str]:
    """Return the names of the errors that the function itself, or a class's check, builds."""
    target = getattr(item, "__post_init__", None) if inspect.isclass(item) else item
    if not inspect.isfunction(target) or (
        inspect.isclass(item) and issubclass(item, BaseException)
    ):
        return set()
    tree = ast.parse(textwrap.dedent(inspect.getsource(target)))
    return {
        node.exc.func.id
        for node in ast.walk(tree)
        if isinstance(node, ast.Raise)
        and isinstance(node.exc, ast.Call)
        and isinstance(node.exc.func, ast.Name)
        and node.exc.func.id[0].isupper()
    }


@pytest.mark.parametrize("item", [param for param in FUNCTIONS if raised(param.values[0])])
def test_errors_are_documented(item: object) -> None:
    documented = set(re.findall(r"^    (\w+):", section(item, "Raises"), re.MULTILINE))
    assert raised(item) - documented == set()


def examples() -> list[doctest.DocTest]:
    parser, found = doctest.DocTestParser(), []
    for name, item in members():
        text = getattr(item, "__doc__", None) or ""
        if ">>>" in text:
            found.append(parser.get_doctest(inspect.cleandoc(text), {}, name, None, 0))
    return found


@pytest.mark.parametrize("example", [pytest.param(test, id=test.name) for test in examples()])
def test_example_of_a_docstring_runs(example: doctest.DocTest) -> None:
    report: list[str] = []
    runner = doctest.DocTestRunner(verbose=False, optionflags=doctest.ELLIPSIS)
    result = runner.run(example, out=report.append)
    assert (result.failed, "".join(report)) == (0, "")


def test_main_names_have_an_example() -> None:
    names = {test.name.partition(".")[2] for test in examples()}
    main = {"AbortSignal", "CodeBindingNamespace", "CodeRunRequest", "Context", "open_runtime"}
    assert main - names == set()


def shown_by(module: ModuleType) -> list[str]:
    pages = "".join(page.read_text("utf-8") for page in sorted(API_PAGES.glob("*.md")))
    return re.findall(rf"^::: {re.escape(module.__name__)}\.(\w+)$", pages, re.MULTILINE)


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__name__)
def test_api_pages_show_each_public_name_once(module: ModuleType) -> None:
    names = sorted(shown_by(module))
    assert names == sorted(set(names))
    assert set(module.__all__) - set(names) == set()
    assert set(names) - set(module.__all__) <= {"pytest_suite"}


def test_check_of_arguments_sees_one_that_is_missing() -> None:
    def function(first: int, second: int) -> None:
        """Do nothing.

        Args:
            first: The first.
        """

    check: Callable[[object], None] = test_arguments_are_documented
    with pytest.raises(AssertionError):
        check(function)
