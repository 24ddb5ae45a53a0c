"""The scenarios on every pair that Python hosts: the same value, logs, calls and failure.

README.md beside this file describes the format; a Node host runs the same files elsewhere.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack
from typing import Any, Final

import anyio
import pytest
from scenario_files import (
    FOLDER,
    LANGUAGES,
    MAX_LINES,
    Scenario,
    parse_scenario,
    read_scenarios,
)
from scenario_functions import make_namespaces

from code_runtime import AbortSignal, CodeRunRequest, CodeRunResult, CodeRuntime, Context
from code_runtime._lossless import encode
from code_runtime_python import PythonCodeRuntime
from code_runtime_worker_thread import WorkerThreadCodeRuntime

PAIRS: Final = {
    "typescript": "Python host, worker thread",
    "python": "Python host, CPython child",
}
# What an empty list of logs costs where logs and value have one budget.
NO_LOGS_BYTES: Final = 2
# How a limit of a scenario stands in the config of each provider; `wall_ms` is a field of the request.
LIMITS: Final[Mapping[str, Mapping[str, Callable[[int], tuple[str, int]]]]] = {
    "typescript": {
        "compute_s": lambda number: ("compute_ms", number * 1000),
        "memory_mb": lambda number: ("memory_mb", number),
        "output_bytes": lambda number: ("max_output_bytes", number),
        "value_bytes": lambda number: ("max_output_bytes", number + NO_LOGS_BYTES),
    },
    "python": {
        "compute_s": lambda number: ("cpu_seconds", number),
        "memory_mb": lambda number: ("memory_mb", number),
        "log_bytes": lambda number: ("max_log_bytes", number),
        "value_bytes": lambda number: ("max_value_bytes", number),
    },
}
SCENARIOS: Final = list(read_scenarios())


# The runs


class Runtimes:
    """A runtime for each language and config, opened once for the module."""

    def __init__(self, stack: AsyncExitStack) -> None:
        self._stack = stack
        self._opened: dict[str, CodeRuntime] = {}

    async def get(self, scenario: Scenario, language: str) -> CodeRuntime:
        """Return the runtime that has a scenario's limits."""
        names = LIMITS[language]
        config = dict(
            names[limit](number) for limit, number in scenario.limits.items() if limit != "wall_ms"
        )
        key = f"{language} {config}"
        if key not in self._opened:
            context = await self._stack.enter_async_context(Context())
            if language == "typescript":
                await context.plugin(WorkerThreadCodeRuntime, config)
            else:
                await context.plugin(PythonCodeRuntime, config)
            self._opened[key] = context.codeRuntime
        return self._opened[key]


@pytest.fixture(scope="module")
async def runtimes(anyio_backend: str, module_leaves_nothing: None) -> AsyncIterator[Runtimes]:
    async with AsyncExitStack() as stack:
        yield Runtimes(stack)


async def run_scenario(scenario: Scenario, language: str, runtime: CodeRuntime) -> CodeRunResult:
    """Run the program of a scenario once; what was logged live must be what the result holds."""
    signal = AbortSignal()
    live: list[str] = []
    results: list[CodeRunResult] = []
    async with anyio.create_task_group() as tasks:
        request = CodeRunRequest(
            scenario.programs[language],
            make_namespaces(signal, tasks),
            signal=signal,
            on_log=live.append,
            max_wall_ms=scenario.limits.get("wall_ms"),
        )
        results.append(await runtime.run(request))
        tasks.cancel_scope.cancel()
    (result,) = results
    # Over the budget of its output a run keeps what fits beside the message.
    if result.error is None or result.error.kind != "output-limit":
        assert live == result.logs
    return result


def check(result: CodeRunResult, expected: Mapping[str, Any], language: str) -> None:
    """Compare a result with what a scenario expects."""
    check_failure(result, expected.get("failure"), language)
    if "logs" in expected:
        assert result.logs == expected["logs"]
    assert len(result.logs) == expected.get("log_count", len(result.logs))
    if "logs_truncated" in expected or result.ok:
        assert result.logs_truncated == expected.get("logs_truncated", False)
    assert result.has_value == ("value" in expected)
    # As text: for Python, True equals 1 and 1 equals 1.0.
    assert encode(result.value) == encode(expected.get("value"))
    if "calls" in expected:
        calls = [[call.namespace, call.member, call.outcome] for call in result.calls]
        assert calls == expected["calls"]


def check_failure(result: CodeRunResult, expected: Mapping[str, Any] | None, language: str) -> None:
    """Compare how a run failed, or that it did not."""
    if expected is None:
        assert result.error is None
        return
    assert result.error is not None, result
    assert result.error.kind == expected["kind"], result
    assert result.error.message == expected.get("message", result.error.message)
    for text in (*expected.get("mentions", ()), *expected.get(language, ())):
        assert text in result.error.message


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("scenario", "language"),
    [
        pytest.param(scenario, language, id=f"{scenario.name}-{language}")
        for scenario in SCENARIOS
        for language in LANGUAGES
        if language in scenario.programs
    ],
)
async def test_scenario(
    scenario: Scenario,
    language: str,
    anyio_backend: str,
    runtimes: Runtimes,
    record_property: Callable[[str, object], None],
) -> None:
    # The report goes to the process that prints the closing section, whoever runs the test.
    record_property("scenario", [scenario.name, f"{PAIRS[language]}, {anyio_backend}"])
    runtime = await runtimes.get(scenario, language)
    for _ in range(scenario.runs):
        result = await run_scenario(scenario, language, runtime)
        check(result, scenario.expect, language)


# The files


def test_there_are_enough_scenarios() -> None:
    neutral = [scenario for scenario in SCENARIOS if len(scenario.programs) == len(LANGUAGES)]
    assert len(SCENARIOS) >= 300
    assert len(neutral) >= 220


def test_no_file_is_left_out() -> None:
    """A file that no runner reads would be a promise that nobody keeps."""
    files = {path for path in FOLDER.glob("*/**/*") if path.is_file()}
    read = {FOLDER / f"{scenario.name}.md" for scenario in SCENARIOS}
    left = {path for path in files - read if path.parent.name not in ("data", "__pycache__")}
    assert left == set()


def test_every_theme_is_in_the_readme() -> None:
    page = (FOLDER / "README.md").read_text(encoding="utf-8")
    themes = {scenario.name.split("/")[0] for scenario in SCENARIOS}
    assert {theme for theme in themes if f"| `{theme}/` |" not in page} == set()


def test_every_scenario_says_something_of_its_own() -> None:
    sentences = [scenario.about for scenario in SCENARIOS]
    assert sorted(sentences) == sorted(set(sentences))


GOOD: Final = """# A sum.

```json given
{"runs": 2}
```

```python
return 1
```

```json expect
{"value": 1, "logs": []}
```
"""


def test_format_reads_every_part() -> None:
    scenario = parse_scenario("values/python_sum", GOOD)
    assert scenario == Scenario(
        "values/python_sum", "A sum.", {"python": "return 1"}, {}, 2, {"value": 1, "logs": []}
    )


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        pytest.param("# A sum.", "A sum.", "Cannot read the heading", id="no heading"),
        pytest.param("```python", "```ruby", "Cannot read a line: '```ruby'", id="language"),
        pytest.param("return 1\n```", "return 1\n", "a block: 'python'", id="open block"),
        pytest.param("[]}\n```", "[]}", "a block: 'json expect'", id="open last block"),
        pytest.param("json expect", "json expects", "Cannot read a line", id="block"),
        pytest.param('"runs"', '"run"', r"Cannot read given: \['run'\]", id="given"),
        pytest.param('{"runs": 2}', '{"limits": {"wall": 2}}', "given.limits", id="limit"),
        pytest.param('"logs"', '"log"', r"Cannot read expect: \['log', 'value'\]", id="expect"),
        pytest.param('"logs": []', '"failure": {"kind": "abort"}', "a value or a", id="two ends"),
        pytest.param('"value": 1', '"failure": {"kind": "abort"}', "what the message", id="mute"),
        pytest.param('"value": 1', '"failure": {"mention": []}', "failure: ", id="failure"),
        pytest.param("return 1", "pass\n" * MAX_LINES, "at most 22 lines", id="long"),
        pytest.param("```python\nreturn 1\n```", "", "Cannot read the programs", id="no program"),
    ],
)
def test_format_refuses(old: str, new: str, message: str) -> None:
    """A misspelled field would be an expectation that nobody checks."""
    with pytest.raises(ValueError, match=message):
        parse_scenario("values/python_sum", GOOD.replace(old, new, 1))


def test_format_wants_the_language_in_the_name_of_a_file_that_has_one() -> None:
    with pytest.raises(ValueError, match="a name that begins with python_"):
        parse_scenario("values/sum", GOOD)
