"""One run of the soak with its scripted outcome, and the comparison of the two."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal, final

import anyio

from code_runtime import (
    AbortSignal,
    CodeBindingErrorClass,
    CodeBindingNamespace,
    CodeRunRequest,
    CodeRunResult,
    CodeRuntime,
)

# Programs name the processes that they leave behind with this word.
MARKER = f"soak-{os.getpid()}"
Action = Literal["abort", "cancel", "raise"]


class LogRefused(Exception):
    """What a listener of logs raises when its trial says so."""


@final
class Depth:
    """Equal to lists nested this deep: such a value is too deep for Python to compare."""

    def __init__(self, levels: int) -> None:
        self.levels = levels

    def __eq__(self, other: object) -> bool:
        levels = 0
        while isinstance(other, list):
            levels, other = levels + 1, other[0] if other else None
        return levels == self.levels

    def __hash__(self) -> int:
        return hash(self.levels)

    def __repr__(self) -> str:
        return f"<{self.levels} nested lists>"


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """One scripted outcome; `logs` or `message` of None stands for any.

    `end` is `value`, `nothing`, a failure kind, `cancelled` or `raised`; `calls` counts the calls
    by outcome.
    """

    end: str = "value"
    value: object = None
    message: str | None = None
    logs: list[str] | None = field(default_factory=list)
    truncated: bool = False
    calls: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """A program, what happens to its run, and the outcomes that are right.

    `action` happens at the first log, or `after_ms` milliseconds after the start when that is
    given, or before the start when that is 0.
    """

    name: str
    program: str
    expected: tuple[Expected, ...]
    tools: Mapping[str, Callable[..., object]] = field(default_factory=dict)
    max_wall_ms: float | None = None
    action: Action | None = None
    after_ms: float | None = None


async def run_trial(runtime: CodeRuntime, trial: Trial) -> str | None:
    """Run a trial and say what was not as scripted; None when everything was."""
    signal, scope = AbortSignal(), anyio.CancelScope()

    def act() -> None:
        if trial.action == "abort":
            signal.abort("stopped by the soak")
        elif trial.action == "cancel":
            scope.cancel()

    def on_log(_: str) -> None:
        if trial.after_ms is None:
            act()
            if trial.action == "raise":
                raise LogRefused

    async def act_later(after_ms: float) -> None:
        await anyio.sleep(after_ms / 1000)
        act()

    result: CodeRunResult | None = None
    if trial.after_ms == 0:
        act()
    request = CodeRunRequest(
        trial.program,
        [CodeBindingNamespace("tools", trial.tools, CodeBindingErrorClass("ToolError", "member"))],
        signal=signal,
        on_log=on_log,
        max_wall_ms=trial.max_wall_ms,
    )
    raised = False
    async with anyio.create_task_group() as task_group:
        if trial.after_ms:
            task_group.start_soon(act_later, trial.after_ms)
        with scope:
            try:
                result = await runtime.run(request)
            except LogRefused as error:
                raised, result = True, getattr(error, "result", None)
        task_group.cancel_scope.cancel()
    seen = "raised" if raised else _end_of(result)
    if any(_is(expected, seen, result) for expected in trial.expected):
        return None
    return f"{trial.name}: {seen}, {_describe(result)}, expected {trial.expected[0]!r:.600}"


def _end_of(result: CodeRunResult | None) -> str:
    if result is None:
        return "cancelled"
    if result.error is not None:
        return result.error.kind
    return "value" if result.has_value else "nothing"


def _is(expected: Expected, end: str, result: CodeRunResult | None) -> bool:
    if expected.end != end:
        return False
    if result is None:
        return True
    message = None if result.error is None else result.error.message
    return (
        expected.value == result.value
        and expected.message in (None, message)
        and expected.logs in (None, result.logs)
        and expected.truncated == result.logs_truncated
        and dict(expected.calls) == dict(Counter(call.outcome for call in result.calls))
    )


def _describe(result: CodeRunResult | None) -> str:
    if result is None:
        return "no result"
    calls = dict(Counter(call.outcome for call in result.calls))
    return f"{result!r:.800} ({len(result.logs)} logs, calls {calls})"
