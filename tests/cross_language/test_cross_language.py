"""The scenarios on every pair that Python hosts: the same value, logs and kind of failure.

README.md beside this file describes the format; a Node host runs the same files elsewhere.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import anyio
import anyio.abc
import pytest

from code_runtime import (
    AbortSignal,
    CodeBindingErrorClass,
    CodeBindingNamespace,
    CodeRunRequest,
    CodeRunResult,
    CodeRuntime,
    Context,
)
from code_runtime._lossless import encode
from code_runtime_python import PythonCodeRuntime
from code_runtime_worker_thread import WorkerThreadCodeRuntime

FOLDER: Final = Path(__file__).parent / "scenarios"
LANGUAGES: Final = ("typescript", "python")
PAIRS: Final = {
    "typescript": "Python host, worker thread (TypeScript)",
    "python": "Python host, CPython child",
}
ABORT_S: Final = 0.1
# What a limit of a scenario is called in the config of each provider.
LIMITS: Final[Mapping[str, Mapping[str, str]]] = {
    "typescript": {
        "wall_ms": "max_wall_ms",
        "output_bytes": "max_output_bytes",
        "value_bytes": "max_output_bytes",
    },
    "python": {
        "wall_ms": "max_wall_ms",
        "log_bytes": "max_log_bytes",
        "value_bytes": "max_value_bytes",
    },
}


@dataclass(frozen=True, slots=True)
class Scenario:
    """One file."""

    name: str
    document: dict[str, Any]

    def program(self, language: str) -> str:
        """Return the program in a language."""
        return "\n".join(self.document[language])

    def config(self, language: str) -> dict[str, int]:
        """Return the provider's config."""
        limits = self.document.get("limits", {})
        return {LIMITS[language][name]: value for name, value in limits.items()}


SCENARIOS: Final = [
    Scenario(path.stem, json.loads(path.read_text(encoding="utf-8")))
    for path in sorted(FOLDER.glob("*.json"))
]


# The table of functions


async def wait(ms: int) -> None:
    await anyio.sleep(ms / 1000)


async def never(_: object) -> None:
    await anyio.sleep_forever()


def fail(message: str) -> None:
    raise ValueError(message)


def make_namespaces(
    signal: AbortSignal, tasks: anyio.abc.TaskGroup
) -> dict[str, CodeBindingNamespace]:
    """Make the namespaces of README.md for one run."""

    async def abort_soon(reason: str) -> None:
        await anyio.sleep(ABORT_S)
        signal.abort(reason)

    menu = ["tea", "cake"]
    odd_names = ("odd name", "__proto__", "constructor", "__class__")
    tools: dict[str, Any] = {
        "add": lambda args: args["a"] + args["b"],
        "echo": lambda value: value,
        "fail": fail,
        "lossy": lambda _: float("nan"),
        "menu": lambda _: menu,
        "wait": wait,
        "never": never,
        **{name: (lambda value, name=name: f"{name} got {value}") for name in odd_names},
    }
    shop: dict[str, Any] = {"price": {"apples": 1.2}.__getitem__, "refuse": fail}
    control: dict[str, Any] = {
        "abort": signal.abort,
        "abort_later": lambda reason: tasks.start_soon(abort_soon, reason),
    }
    return {
        "tools": CodeBindingNamespace("tools", tools),
        "shop": CodeBindingNamespace("shop", shop, CodeBindingErrorClass("ShopError", "item")),
        "control": CodeBindingNamespace("control", control),
    }


# The runs


@pytest.fixture(scope="module")
async def runtimes(
    anyio_backend: str, module_leaves_nothing: None
) -> AsyncIterator[dict[str, CodeRuntime]]:
    """A runtime of each language with its default config."""
    async with open_runtime("typescript", {}) as workers, open_runtime("python", {}) as processes:
        yield {"typescript": workers, "python": processes}


@asynccontextmanager
async def open_runtime(language: str, config: Mapping[str, int]) -> AsyncIterator[CodeRuntime]:
    """Load the provider of a language."""
    async with Context() as ctx:
        if language == "typescript":
            await ctx.plugin(WorkerThreadCodeRuntime, config)
        else:
            await ctx.plugin(PythonCodeRuntime, config)
        yield ctx.codeRuntime


async def run_scenario(scenario: Scenario, language: str, runtime: CodeRuntime) -> CodeRunResult:
    """Run the program of a scenario once."""
    signal = AbortSignal()
    results: list[CodeRunResult] = []
    async with anyio.create_task_group() as tasks:
        namespaces = make_namespaces(signal, tasks)
        wanted = [namespaces[name] for name in scenario.document.get("bindings", [])]
        request = CodeRunRequest(scenario.program(language), wanted, signal=signal)
        results.append(await runtime.run(request))
        tasks.cancel_scope.cancel()
    return results[0]


def check(result: CodeRunResult, expected: Mapping[str, Any]) -> None:
    """Compare a result with what a scenario expects."""
    failure = expected.get("failure")
    if failure is None:
        assert result.error is None
    else:
        assert result.error is not None, result
        assert result.error.kind == failure["kind"], result
        for text in failure["mentions"]:
            assert text in result.error.message
    if "logs" in expected:
        assert result.logs == expected["logs"]
    assert result.has_value == ("value" in expected)
    # As text: for Python, True equals 1 and 1 equals 1.0.
    assert encode(result.value) == encode(expected.get("value"))
    if "calls" in expected:
        calls = [[call.namespace, call.member, call.outcome] for call in result.calls]
        assert calls == expected["calls"]


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("language", "scenario"),
    [
        pytest.param(language, scenario, id=f"{scenario.name}-{language}")
        for scenario in SCENARIOS
        for language in LANGUAGES
        if language in scenario.document
    ],
)
async def test_scenario(
    language: str,
    scenario: Scenario,
    runtimes: dict[str, CodeRuntime],
    pairs_run: Counter[str],
) -> None:
    config = scenario.config(language)
    async with AsyncExitStack() as stack:
        runtime = runtimes[language]
        if config:
            runtime = await stack.enter_async_context(open_runtime(language, config))
        for _ in range(scenario.document.get("runs", 1)):
            result = await run_scenario(scenario, language, runtime)
            check(result, scenario.document["expect"])
    pairs_run[PAIRS[language]] += 1


# The files


def test_there_are_enough_neutral_scenarios() -> None:
    neutral = [item for item in SCENARIOS if set(LANGUAGES) <= set(item.document)]
    assert len(neutral) >= 40


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
def test_file_holds_what_the_format_names(scenario: Scenario) -> None:
    """A misspelled field would be an expectation that nobody checks."""
    document = scenario.document
    assert set(document) <= {
        *("about", "bindings", "limits", "runs", "expect"),
        *LANGUAGES,
    }
    assert {"about", "expect"} <= set(document)
    assert set(LANGUAGES) & set(document)
    expect = document["expect"]
    assert set(expect) <= {"value", "failure", "logs", "calls"}
    assert not {"value", "failure"} <= set(expect)
    if "failure" in expect:
        assert set(expect["failure"]) == {"kind", "mentions"}
    for language in set(LANGUAGES) & set(document):
        scenario.config(language)
        assert all(type(line) is str and "\n" not in line for line in document[language])
    # What runs in one language only says so in its name.
    if len(set(LANGUAGES) & set(document)) == 1:
        assert scenario.name.startswith(tuple(f"{name}_" for name in LANGUAGES if name in document))
