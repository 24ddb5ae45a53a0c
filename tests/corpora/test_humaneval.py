"""The 164 problems of HumanEval as programs for the Python provider.

Each program is a problem's prompt, a solution and the problem's own tests. With the reference solution
its value is the number of checked calls. A solution that was broken on purpose has to end in a typed
failure. What an interpreter without any runtime makes of the same text is the measure: value, error and
line must agree with it.

`CODE_RUNTIME_CORPORA=all` runs every way to break every problem, on both start methods.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import anyio
import pytest
from humaneval_programs import PROBLEMS, WAYS, build_program

from code_runtime import CodeRunRequest, CodeRunResult, Context
from code_runtime_python import PythonCodeRuntime

ALL: Final = os.environ.get("CODE_RUNTIME_CORPORA") == "all"
HERE: Final = Path(__file__).parent
ACCEPTED: Final[Mapping[str, Mapping[str, str]]] = json.loads(
    (HERE / "humaneval_accepted.json").read_text(encoding="utf-8")
)
CONCURRENT_RUNS: Final = 4
LOOP_WALL_MS: Final = 300
HANG_S: Final = 600

ENDS: Final = {
    "loop": f"timeout: wall-clock ceiling exceeded: {LOOP_WALL_MS} ms",
    "exit": "worker-exit: the Python process ended with code 7 before completing",
}


# How a program ends: `value`, or `error` with `line`.
Outcome = Mapping[str, object]


def plain_outcomes(programs: Mapping[str, str]) -> dict[str, Outcome]:
    """Run programs one after the other in an interpreter of their own."""
    command = [sys.executable, "-I", str(HERE / "plain_python.py")]
    done = subprocess.run(
        command, input=json.dumps(programs), capture_output=True, text=True, check=True
    )
    outcomes: dict[str, Outcome] = json.loads(done.stdout)
    return outcomes


async def run_all(
    programs: Mapping[str, str], start_method: str, wall_ms: int | None = None
) -> dict[str, CodeRunResult]:
    """Run programs on one runtime, several at once."""
    results: dict[str, CodeRunResult] = {}
    config = {"start_method": start_method, "max_concurrent_runs": CONCURRENT_RUNS}
    with anyio.fail_after(HANG_S):
        async with Context() as ctx:
            await ctx.plugin(PythonCodeRuntime, config)

            async def run_one(task: str, program: str) -> None:
                request = CodeRunRequest(f"{program}return checked_count\n", max_wall_ms=wall_ms)
                results[task] = await ctx.codeRuntime.run(request)

            async with anyio.create_task_group() as group:
                for task, program in programs.items():
                    group.start_soon(run_one, task, program)
    return results


def outcome_of(result: CodeRunResult) -> Outcome:
    """Put a result into the form of `plain_python.py`."""
    if result.error is None:
        return {"value": result.value}
    if result.error.kind != "exception":
        return {"error": f"{result.error.kind}: {result.error.message}"}
    lines = re.findall(r'^  File "program\.py", line (\d+)', result.error.message, re.MULTILINE)
    return {"error": result.error.message.splitlines()[-1], "line": int(lines[-1])}


def comparable(outcome: Outcome) -> Outcome:
    """Drop what depends on how much stack the interpreter had used before the program."""
    if str(outcome.get("error")).startswith("RecursionError"):
        return {"error": "RecursionError", "line": outcome["line"]}
    return outcome


def reference_programs() -> dict[str, str]:
    """Every problem with its reference solution."""
    return {task: program for task in PROBLEMS if (program := build_program(task))}


def broken_programs(way: str) -> dict[str, str]:
    """Every problem that can be broken in a way."""
    return {task: program for task in PROBLEMS if (program := build_program(task, way))}


START_METHODS: Final = ["zygote", "spawn"] if ALL else ["zygote"]


@pytest.mark.slow
@pytest.mark.timeout(2 * HANG_S)
@pytest.mark.anyio
@pytest.mark.parametrize("start_method", START_METHODS)
async def test_reference_solutions_pass_all_their_checks(start_method: str) -> None:
    programs = reference_programs()
    expected = plain_outcomes(programs)
    assert len(expected) == 164
    assert all(isinstance(end.get("value"), int) and end["value"] for end in expected.values())
    results = await run_all(programs, start_method)
    assert {task: outcome_of(result) for task, result in results.items()} == expected


async def assert_fails_as_python_says(broken: Mapping[str, str], start_method: str) -> None:
    """Break each problem in the given way, run all, compare."""
    programs = {task: build_program(task, way) or "" for task, way in broken.items()}
    looping = {task: text for task, text in programs.items() if broken[task] == "loop"}
    ending = {task: text for task, text in programs.items() if task not in looping}
    expected = plain_outcomes({t: text for t, text in ending.items() if broken[t] not in ENDS})
    accepted = {task for task, outcome in expected.items() if "error" not in outcome}
    assert accepted == {task for task, way in broken.items() if task in ACCEPTED.get(way, ())}
    expected |= {task: {"error": ENDS[way]} for task, way in broken.items() if way in ENDS}
    results = await run_all(looping, start_method, LOOP_WALL_MS)
    results |= await run_all(ending, start_method)
    seen = {task: comparable(outcome_of(result)) for task, result in results.items()}
    assert seen == {task: comparable(outcome) for task, outcome in expected.items()}


def two_ways() -> dict[str, list[str]]:
    """Two ways for each problem, the one for asyncio and the one for trio."""
    chosen: dict[str, list[str]] = {}
    for number, task in enumerate(PROBLEMS):
        ways = [way for way in WAYS if build_program(task, way)]
        chosen[task] = [ways[(number + shift) % len(ways)] for shift in (0, 3)]
    return chosen


@pytest.mark.slow
@pytest.mark.timeout(2 * HANG_S)
@pytest.mark.anyio
@pytest.mark.parametrize("start_method", START_METHODS)
@pytest.mark.parametrize("way", WAYS if ALL else ["two ways for each problem"])
async def test_broken_solutions_fail_where_python_says(
    way: str, start_method: str, anyio_backend_name: str
) -> None:
    if way in WAYS:
        broken = dict.fromkeys(broken_programs(way), way)
    else:
        loop = ["asyncio", "trio"].index(anyio_backend_name)
        broken = {task: ways[loop] for task, ways in two_ways().items()}
    await assert_fails_as_python_says(broken, start_method)
