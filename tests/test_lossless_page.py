"""The page on lossless JSON: each row of its tables is what the runtimes do."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from code_runtime import BlockingCodeRuntime, CodeBindingNamespace, CodeRunRequest, open_runtime

PAGE = Path(__file__).parents[1] / "docs/reference/lossless-json.md"
MODULES = "import array, collections, datetime, decimal, enum, fractions, pathlib, uuid\n"
TYPESCRIPT, PYTHON = "From a TypeScript program", "From a Python program"
PROVIDERS = {TYPESCRIPT: "worker-thread", PYTHON: "python"}
RETURN = {TYPESCRIPT: "return ({})", PYTHON: MODULES + "return ({})"}
PASS_ON = {
    TYPESCRIPT: "try {{ return await tools.echo({}) }} catch (error) {{ return error.message }}",
    PYTHON: MODULES
    + "try:\n    return await tools.echo({})\nexcept Exception as error:\n    return str(error)",
}
ASK = {
    TYPESCRIPT: "try { return await tools.give({}) } catch (error) { return error.message }",
    PYTHON: "try:\n    return await tools.give({})\nexcept Exception as error:\n    return str(error)",
}


def rows(language: str, *, refused: bool) -> list[tuple[str, str]]:
    section = re.split(r"^## ", PAGE.read_text("utf-8"), flags=re.MULTILINE)
    (text,) = [part for part in section if part.startswith(language)]
    (table,) = [
        part
        for part in re.findall(r"(?:^\|.*\n)+", text, re.MULTILINE)
        if ("refused with" in part) is refused
    ]
    return re.findall(r"^\| `(.+?)` \| `(.+?)` \|$", table.replace("\\|", "|"), re.MULTILINE)


CROSSING = [(name, *row) for name in PROVIDERS for row in rows(name, refused=False)]
REFUSED = [(name, *row) for name in PROVIDERS for row in rows(name, refused=True)]


@pytest.fixture(scope="module")
def runtimes(module_leaves_nothing: None) -> Iterator[dict[str, BlockingCodeRuntime]]:
    with open_runtime("worker-thread") as typescript, open_runtime("python") as python:
        yield {TYPESCRIPT: typescript, PYTHON: python}


def bindings(value: object = None) -> list[CodeBindingNamespace]:
    return [CodeBindingNamespace("tools", {"echo": lambda seen: seen, "give": lambda _: value})]


def in_host(expression: str) -> object:
    names: dict[str, object] = {}
    exec(MODULES, names)
    value: object = eval(expression, names)
    return value


def test_tables_are_not_empty() -> None:
    assert len(CROSSING) > 15
    assert len(REFUSED) > 40


@pytest.mark.parametrize(("language", "value", "shown"), CROSSING)
def test_value_crosses_as_the_page_shows(
    runtimes: dict[str, BlockingCodeRuntime], language: str, value: str, shown: str
) -> None:
    for form in (RETURN, PASS_ON):
        request = CodeRunRequest(form[language].format(value), bindings())
        result = runtimes[language].run(request)
        assert (result.error, repr(result.value)) == (None, shown)


@pytest.mark.parametrize(("language", "value", "reason"), REFUSED)
def test_value_is_refused_as_the_page_shows(
    runtimes: dict[str, BlockingCodeRuntime], language: str, value: str, reason: str
) -> None:
    runtime = runtimes[language]
    returned = runtime.run(CodeRunRequest(RETURN[language].format(value), bindings())).error
    noun = "completion" if language == TYPESCRIPT else "value"
    assert returned is not None
    assert (returned.kind, returned.message) == (
        "invalid-output",
        f"The {noun} must be lossless JSON: {reason}",
    )
    passed = runtime.run(CodeRunRequest(PASS_ON[language].format(value), bindings())).value
    assert passed == f"Cannot call tools.echo: the argument must be lossless JSON: {reason}"


@pytest.mark.parametrize("language", PROVIDERS)
@pytest.mark.parametrize(("value", "shown"), rows(PYTHON, refused=False))
def test_result_of_a_function_crosses_as_the_page_shows(
    runtimes: dict[str, BlockingCodeRuntime], language: str, value: str, shown: str
) -> None:
    result = runtimes[language].run(CodeRunRequest(ASK[language], bindings(in_host(value))))
    assert (result.error, result.value) == (None, ast.literal_eval(shown))


@pytest.mark.parametrize("language", PROVIDERS)
@pytest.mark.parametrize(("value", "reason"), rows(PYTHON, refused=True))
def test_result_of_a_function_is_refused_as_the_page_shows(
    runtimes: dict[str, BlockingCodeRuntime], language: str, value: str, reason: str
) -> None:
    result = runtimes[language].run(CodeRunRequest(ASK[language], bindings(in_host(value))))
    assert result.value == f"Binding resolution must be lossless JSON: {reason}"
