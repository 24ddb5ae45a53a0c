"""What the soak mixes: each case with its share, and how a trial of it is made."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from types import ModuleType
from typing import Any

import anyio
from tests.soak import python_programs, typescript_programs
from tests.soak.trials import MARKER, Action, Depth, Expected, Trial

from code_runtime import CodeRuntime
from code_runtime_python import PythonCodeRuntime
from code_runtime_worker_thread import WorkerThreadCodeRuntime

Make = Callable[[random.Random, "Language"], Trial]
# Long enough for a process to boot and to print, short beside the deadline of a run.
WALL_MS = 2_500


@dataclass(frozen=True, slots=True)
class Language:
    """The programs of one language, and the provider that runs them."""

    provider: type[CodeRuntime]
    is_python: bool
    programs: Mapping[str, str]
    messages: Mapping[str, str]
    config: Mapping[str, object]


def _language(provider: type[CodeRuntime], module: ModuleType) -> Language:
    return Language(
        provider,
        provider is PythonCodeRuntime,
        module.PROGRAMS,
        module.MESSAGES,
        module.CONFIG,
    )


LANGUAGES = {
    "python": _language(PythonCodeRuntime, python_programs),
    "worker-thread": _language(WorkerThreadCodeRuntime, typescript_programs),
}


def echo(value: object) -> object:
    """Give the argument back."""
    return value


def double(value: int) -> int:
    """Give twice the argument back."""
    return 2 * value


def fail(value: object) -> object:
    """Raise what the program sees as a failed call."""
    raise ValueError(f"no {value}")


async def slow(value: int) -> int:
    """Give the argument back after as many milliseconds."""
    await anyio.sleep(value / 1000)
    return value


async def never(_: object) -> None:
    """Give nothing back until cancelled."""
    await anyio.sleep_forever()


TOOLS: Mapping[str, Callable[..., Any]] = {
    "echo": echo,
    "double": double,
    "fail": fail,
    "slow": slow,
    "never": never,
}


def _fill(program: str, **words: object) -> str:
    for word, text in words.items():
        program = program.replace(f"@{word}@", str(text))
    return program


def _scripted(name: str, *expected: Expected, **fields: Any) -> Make:
    """Make the same trial each time; the message is that of the case, where it has one."""

    def make(_: random.Random, language: Language) -> Trial:
        message = language.messages.get(name)
        outcomes = expected if message is None else (replace(expected[0], message=message),)
        program = _fill(language.programs[name], marker=MARKER)
        return Trial(name=name, program=program, expected=outcomes, tools=TOOLS, **fields)

    return make


def _ended(case: str, program: str, expected: Expected, **fields: Any) -> Make:
    """Make a trial of a program that does not end by itself."""

    def make(_: random.Random, language: Language) -> Trial:
        outcomes = [expected]
        if expected.end == "timeout":
            # On a busy machine the limit may pass before the program prints.
            outcomes.append(replace(expected, logs=[]))
        if program == "call and wait":
            # The end may come between the log and the call; there is no call without the log.
            outcomes.insert(0, replace(expected, calls={"cancelled": 1}))
        text = language.programs[program]
        return Trial(name=case, program=text, expected=tuple(outcomes), tools=TOOLS, **fields)

    return make


def _counted(name: str, most: int, expect: Callable[[int], Expected]) -> Make:
    """Make a trial with a random count, up to `most`."""

    def make(rng: random.Random, language: Language) -> Trial:
        count = 1 + int(most ** rng.random())
        program = _fill(language.programs[name], count=count)
        return Trial(name=name, program=program, expected=(expect(count),), tools=TOOLS)

    return make


def _value(name: str) -> Make:
    """Make a trial whose value is a random one, of up to 200,000 bytes."""

    def make(rng: random.Random, language: Language) -> Trial:
        size = int(200_000 ** rng.random())
        value = rng.choice(
            [
                "é" * (size // 2),
                [rng.randrange(2**53) for _ in range(size // 18)],
                [{"id": n, "name": f"name {n}"} for n in range(size // 28)],
                {f"key {n}": [n / 7, "x", []] for n in range(size // 40)},
            ]
        )
        program = _fill(language.programs[name], literal=json.dumps(value))
        calls = {"ok": 1} if name == "echo" else {}
        expected = Expected(value=value, calls=calls)
        return Trial(name=name, program=program, expected=(expected,), tools=TOOLS)

    return make


def _flood(_: random.Random, language: Language) -> Trial:
    line = "x" * 60
    expected = Expected(end="output-limit", logs=None, truncated=True)
    if language.is_python:
        # A line costs its text, two quotes and a comma, the last one the brackets of the list.
        marker = "[code-runtime] logs truncated at 65536 bytes"
        kept = (65_536 - 1) // (len(line) + 3)
        expected = Expected(value="kept", truncated=True, logs=[*[line] * kept, marker])
    program = language.programs["log flood"]
    return Trial(name="log flood", program=program, expected=(expected,))


def _over_budget(_: random.Random, language: Language) -> Trial:
    # One budget for logs and value in workers, one for each in Python.
    expected = Expected(end="output-limit", logs=BEFORE, truncated=not language.is_python)
    program = language.programs["value over budget"]
    return Trial(name="value over budget", program=program, expected=(expected,))


def _race(action: Action) -> Make:
    """Make a trial whose end and another one come at about the same time."""

    def make(rng: random.Random, language: Language) -> Trial:
        ended = {"abort": "abort", "cancel": "cancelled"}[action]
        outcomes = [Expected(value=3, calls={"ok": 1})]
        outcomes += [Expected(end=ended, calls=calls) for calls in ({}, {"ok": 1})]
        return Trial(
            name=f"race with {action}",
            program=language.programs["race"],
            expected=tuple(outcomes),
            tools=TOOLS,
            action=action,
            after_ms=rng.uniform(0.1, 25),
        )

    return make


def _junk(rng: random.Random, language: Language) -> Trial:
    junk = rng.randbytes(rng.randrange(1, 400)).replace(b"\n", b"?").hex()
    program = _fill(language.programs["junk"], junk=junk)
    # Lines that are no frames are ignored; a stream whose lengths are wrong cannot be read on.
    honest = Expected(value="honest")
    expected = honest if language.is_python else Expected(end="worker-exit")
    return Trial(name="junk", program=program, expected=(expected,))


BEFORE = ["before"]
ABORTED = Expected(end="abort", message="stopped by the soak", logs=BEFORE)
CANCELLED = Expected(end="cancelled", logs=BEFORE)
WALL = f"wall-clock ceiling exceeded: {WALL_MS} ms"
TIMED_OUT = Expected(end="timeout", message=WALL, logs=BEFORE)

# The share of a case is its weight; what costs seconds of processor time is rare.
CASES: tuple[tuple[float, Make], ...] = (
    (4, _scripted("nothing", Expected(end="nothing"))),
    (12, _value("value")),
    (10, _value("echo")),
    (8, _counted("sequential", 40, lambda n: Expected(value=n * (n - 1), calls={"ok": n}))),
    (6, _counted("gather", 400, lambda n: Expected(value=n * (n - 1), calls={"ok": n}))),
    (4, _scripted("failing call", Expected(value=["no 1", "fail"], calls={"error": 1}))),
    (3, _scripted("failing call, uncaught", Expected(end="exception", logs=BEFORE, calls={"error": 1}))),
    (2, _scripted("unknown call", Expected(value="refused"))),
    (5, _counted("slow call", 80, lambda n: Expected(value=n, calls={"ok": 1}))),
    (4, _scripted("call without end", Expected(value=7, calls={"ok": 1, "cancelled": 1}))),
    (8, _counted("logs", 2_000, lambda n: Expected(value=n, logs=[f"line {i}" for i in range(n)]))),
    (2, _flood),
    (2, _scripted("listener raises", Expected(end="raised", value=5, logs=BEFORE), action="raise")),
    (2, _scripted("native output", Expected(value=1, logs=["one", "two", "three"]))),
    (4, _counted("exception", 99, lambda _: Expected(end="exception", logs=BEFORE))),
    (2, _scripted("syntax error", Expected(end="exception"))),
    (3, _scripted("invalid output", Expected(end="invalid-output", logs=BEFORE))),
    (2, _over_budget),
    (2, _counted("deep value", 50_000, lambda n: Expected(value=Depth(n), calls={"ok": 1}))),
    (1, _ended("timeout, waiting", "wait", TIMED_OUT, max_wall_ms=WALL_MS)),
    (1, _ended("timeout, blocking", "block", TIMED_OUT, max_wall_ms=WALL_MS)),
    (1, _ended("timeout, calling", "call and wait", TIMED_OUT, max_wall_ms=WALL_MS)),
    (0.2, _scripted("processor time", Expected(end="timeout", logs=BEFORE))),
    (0.7, _scripted("memory", Expected(end="worker-exit", logs=BEFORE))),
    (3, _scripted("exit", Expected(end="worker-exit", logs=BEFORE))),
    (2, _scripted("kill", Expected(end="worker-exit", logs=BEFORE))),
    (2, _ended("abort before", "wait", replace(ABORTED, logs=[]), action="abort", after_ms=0)),
    (2, _ended("abort, waiting", "wait", ABORTED, action="abort")),
    (2, _ended("abort, blocking", "block", ABORTED, action="abort")),
    (2, _ended("abort, calling", "call and wait", ABORTED, action="abort")),
    (4, _race("abort")),
    (2, _ended("cancel before", "wait", CANCELLED, action="cancel", after_ms=0)),
    (2, _ended("cancel, waiting", "wait", CANCELLED, action="cancel")),
    (2, _ended("cancel, blocking", "block", CANCELLED, action="cancel")),
    (4, _race("cancel")),
    (2, _junk),
    (1, _scripted("forged outcome", Expected(value="forged"))),
    (2, _scripted("left-overs", Expected(value="left"))),
    (2, _scripted("files", Expected(value=[]))),
    (3, _scripted("state", Expected(value=[False, False]))),
)  # fmt: skip
TYPESCRIPT_CASES: tuple[tuple[float, Make], ...] = (
    (0.3, _scripted("heap", Expected(end="worker-exit", logs=BEFORE))),
)


def make_trials(language: Language, seed: int) -> Iterator[Trial]:
    """Yield trials without end, the same ones for the same seed."""
    rng = random.Random(seed)
    cases = CASES if language.is_python else CASES + TYPESCRIPT_CASES
    weights = [weight for weight, _ in cases]
    makes = [make for _, make in cases]
    while True:
        yield rng.choices(makes, weights)[0](rng, language)
