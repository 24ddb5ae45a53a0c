"""What deliberately broken providers are made of: a healthy one, and one thing that it gets wrong.

A breakage is a function that gets the healthy runtime and returns a `run` of its own.
"""

from __future__ import annotations

import dataclasses
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

import anyio

from code_runtime import (
    BindingFunction,
    CodeBindingNamespace,
    CodeCall,
    CodeRunFailure,
    CodeRunRequest,
    CodeRunResult,
    CodeRuntime,
)
from code_runtime.testing import Limits, Subject

Run = Callable[[CodeRunRequest], Awaitable[CodeRunResult]]
Breakage = Callable[["BrokenRuntime"], Run]


class BrokenRuntime(CodeRuntime):
    """Runs programs on a healthy runtime, and gets one thing wrong."""

    def __init__(self, inner: CodeRuntime, breakage: Breakage) -> None:
        super().__init__(inner.ctx, inner.config)
        self.inner = inner
        self.closing = anyio.Event()
        self._run = breakage(self)

    @property
    def language(self) -> str:
        return self.inner.language

    @property
    def isolation(self) -> str:
        return self.inner.isolation

    async def run(self, request: CodeRunRequest) -> CodeRunResult:
        return await self._run(request)


@dataclass
class Broken:
    """How a provider breaks one rule.

    Args:
        says: A part of the message that the rule must give.
        breakage: What `run` gets wrong.
        runtime: Makes the runtime, if another one than `BrokenRuntime`.
        limits: Changes the limits that the rule asks for.
        is_disposed: Whether a runtime of its own is opened and disposed; a disposal of the shared
            one does nothing.
    """

    says: str
    breakage: Breakage
    runtime: Callable[[CodeRuntime, Breakage], CodeRuntime] = BrokenRuntime
    limits: Callable[[Limits], Limits] = lambda limits: limits
    is_disposed: bool = False

    def subject(self, healthy: Subject) -> Subject:
        """Make the subject of the broken provider; one state for all runtimes that it opens."""
        openings = healthy.open_own if self.is_disposed else healthy.open

        @asynccontextmanager
        async def provider(limits: Limits) -> AsyncIterator[CodeRuntime]:
            async with openings(self.limits(limits)) as inner:
                runtime = self.runtime(inner, self.breakage)
                yield runtime
                if isinstance(runtime, BrokenRuntime):
                    runtime.closing.set()

        return dataclasses.replace(healthy, provider=provider, _shared=None)


def changes_result(change: Callable[[CodeRunResult], CodeRunResult]) -> Breakage:
    """Change every result."""

    def breakage(broken: BrokenRuntime) -> Run:
        async def run(request: CodeRunRequest) -> CodeRunResult:
            return change(await broken.inner.run(request))

        return run

    return breakage


def changes_request(change: Callable[[CodeRunRequest], CodeRunRequest]) -> Breakage:
    """Change every request."""

    def breakage(broken: BrokenRuntime) -> Run:
        async def run(request: CodeRunRequest) -> CodeRunResult:
            return await broken.inner.run(change(request))

        return run

    return breakage


def changes_value(change: Callable[[object], object]) -> Breakage:
    """Change every value."""
    return changes_result(
        lambda result: (
            dataclasses.replace(result, value=change(result.value)) if result.has_value else result
        )
    )


def changes_logs(change: Callable[[list[str]], list[str]]) -> Breakage:
    """Change the logs of every result."""
    return changes_result(lambda result: dataclasses.replace(result, logs=change(result.logs)))


def changes_calls(change: Callable[[list[CodeCall]], list[CodeCall]]) -> Breakage:
    """Change the journal of every result."""
    return changes_result(lambda result: dataclasses.replace(result, calls=change(result.calls)))


def changes_call(**fields: object) -> Breakage:
    """Change fields of every call in the journal."""
    return changes_calls(
        lambda calls: [dataclasses.replace(call, **fields) for call in calls]  # type: ignore[arg-type]
    )


def changes_message(change: Callable[[str], str]) -> Breakage:
    """Change the message of every failure."""

    def change_result(result: CodeRunResult) -> CodeRunResult:
        if result.error is None:
            return result
        error = CodeRunFailure(result.error.kind, change(result.error.message))
        return dataclasses.replace(result, error=error)

    return changes_result(change_result)


def replaces_failure(kind: str, **fields: object) -> Breakage:
    """Give another result in place of a failure of one kind."""

    def change(result: CodeRunResult) -> CodeRunResult:
        if result.error is None or result.error.kind != kind:
            return result
        return dataclasses.replace(result, **fields)  # type: ignore[arg-type]

    return changes_result(change)


def changes_kind(before: str, after: str) -> Breakage:
    """Report a failure of one kind as another."""
    return replaces_failure(before, error=CodeRunFailure(after, "something failed"))  # type: ignore[arg-type]


def changes_functions(change: Callable[[str, BindingFunction], BindingFunction]) -> Breakage:
    """Put another function in the place of each; `change` gets its name and the function."""

    def change_request(request: CodeRunRequest) -> CodeRunRequest:
        bindings = [
            CodeBindingNamespace(
                namespace.global_name,
                {name: change(name, item) for name, item in namespace.functions.items()},
                namespace.error_class,
            )
            for namespace in request.bindings
        ]
        return dataclasses.replace(request, bindings=bindings)

    return changes_request(change_request)


def changes_fields(**fields: object) -> Breakage:
    """Change fields of every request."""
    return changes_request(lambda request: dataclasses.replace(request, **fields))  # type: ignore[arg-type]


def failed(kind: str, message: str = "broken") -> CodeRunResult:
    """Make a failure."""
    return CodeRunResult([], error=CodeRunFailure(kind, message))  # type: ignore[arg-type]


def done(value: object) -> CodeRunResult:
    """Make a result with a value."""
    return CodeRunResult([], has_value=True, value=value)


def chains(*breakages: Breakage) -> Breakage:
    """Apply several breakages, the first one nearest to the healthy runtime."""

    def breakage(broken: BrokenRuntime) -> Run:
        runtime: CodeRuntime = broken.inner
        for each in breakages:
            runtime = BrokenRuntime(runtime, each)
        return runtime.run

    return breakage
