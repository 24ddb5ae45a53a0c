"""What a suite is run on: a provider, the limits that it has, and programs in its language."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field, fields, replace
from types import MappingProxyType
from typing import Final, TypeAlias, final

import anyio
import anyio.abc

from code_runtime._context import Context
from code_runtime._errors import CodeRuntimeError
from code_runtime._runtime import CodeRuntime
from code_runtime._vocabulary import (
    BindingFunction,
    CodeBindingErrorClass,
    CodeBindingNamespace,
    CodeRunRequest,
    CodeRunResult,
)

from ._programs import PROGRAM_KEYS

Tools: TypeAlias = Mapping[str, BindingFunction]


@final
@dataclass(frozen=True, slots=True)
class Limits:
    """Limits that a rule asks a provider for; None leaves what the provider has by default.

    Args:
        wall_ms: Longest time of a run, in milliseconds.
        busy_ms: Longest time for which a program may compute, in milliseconds; whole seconds.
        value_bytes: Largest value, in bytes of JSON text. A provider with one budget for all output
            uses that.
        log_bytes: Largest logs, in bytes of JSON text; at least 64. A provider with one budget for
            all output uses that.
        concurrent_runs: Runs at once; more of them wait.
        binding_grace_ms: How long `run` waits for cancelled calls, in milliseconds.
    """

    wall_ms: float | None = None
    busy_ms: int | None = None
    value_bytes: int | None = None
    log_bytes: int | None = None
    concurrent_runs: int | None = None
    binding_grace_ms: int | None = None


NO_LIMITS: Final = Limits()
ALL_LIMITS: Final = frozenset(item.name for item in fields(Limits))

ProviderFactory: TypeAlias = Callable[[Limits], AbstractAsyncContextManager[CodeRuntime]]
"""Opens a runtime with limits; leaving the block disposes it and waits until nothing is left."""


@final
class SubjectError(CodeRuntimeError, ValueError):
    """A subject cannot be checked: its programs or limits are not those of the suite.

    Args:
        field: The field of the subject, such as `programs`.
        seen: What is wrong, in words, with the name that is missing or unknown.
        expected: What the field may hold, in words.
    """

    def __init__(self, field: str, seen: str, expected: str) -> None:
        super().__init__(field, seen, expected)
        self.field = field
        self.seen = seen
        self.expected = expected

    def __str__(self) -> str:
        return f"Cannot build Subject: {self.field}: {self.seen}, expected {self.expected}"


@final
@dataclass(frozen=True)
class Subject:
    """A provider and all that the rules need to exercise it.

    Args:
        provider: Opens a runtime; see `ProviderFactory` and `plugin_provider`.
        language: What `runtime.language` must be.
        programs: The text of a program for each key of `PROGRAM_KEYS`. None for a program that the
            language cannot express: the rules that need it do not apply.
        limits: The names of the fields of `Limits` that the provider has; the rules that need
            another one do not apply.
        patience_s: After this time a rule that has not ended is broken, in seconds. A bound for
            what hangs; nothing is measured against it.

    Raises:
        SubjectError: A key of `programs` is missing or unknown, or a limit is unknown.
    """

    provider: ProviderFactory
    language: str
    programs: Mapping[str, str | None]
    limits: frozenset[str] = ALL_LIMITS
    patience_s: float = 30.0
    _shared: ProviderFactory | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        for key in sorted(PROGRAM_KEYS.keys() - self.programs.keys()):
            raise SubjectError("programs", f"{key!r} is missing", f"a program: {PROGRAM_KEYS[key]}")
        for key in sorted(self.programs.keys() - PROGRAM_KEYS.keys()):
            raise SubjectError("programs", f"{key!r} is unknown", "the keys of PROGRAM_KEYS")
        for name in sorted(self.limits - ALL_LIMITS):
            raise SubjectError("limits", f"{name!r} is unknown", f"some of {sorted(ALL_LIMITS)}")
        object.__setattr__(self, "programs", MappingProxyType(dict(self.programs)))

    def open(self, limits: Limits = NO_LIMITS) -> AbstractAsyncContextManager[CodeRuntime]:
        """Open a runtime, perhaps one that other rules use as well and that stays open."""
        return (self._shared or self.provider)(limits)

    def open_own(self, limits: Limits = NO_LIMITS) -> AbstractAsyncContextManager[CodeRuntime]:
        """Open a runtime that nobody else uses; leaving the block disposes it."""
        return self.provider(limits)

    def request(self, key: str, tools: Tools | None = None, /, **fields: object) -> CodeRunRequest:
        """Make a request for the program of a key.

        Args:
            key: A key of `PROGRAM_KEYS`.
            tools: Functions of the namespace `tools`, whose failures are `ToolCallError` with the
                name of the function as `toolName`; None for no namespace.
            **fields: Fields of the request.
        """
        program = self.programs[key]
        assert program is not None  # a rule is not applied without its programs
        if tools is not None:
            fields["bindings"] = [tools_namespace(tools)]
        return CodeRunRequest(program, **fields)  # type: ignore[arg-type]

    async def run(
        self,
        key: str,
        tools: Tools | None = None,
        /,
        *,
        limits: Limits = NO_LIMITS,
        **fields: object,
    ) -> CodeRunResult:
        """Run the program of a key on a shared runtime.

        Args:
            key: A key of `PROGRAM_KEYS`.
            tools: Functions of the namespace `tools`, see `request`; None for no namespace.
            limits: The limits of the runtime.
            **fields: Further fields of the request.
        """
        async with self.open(limits) as runtime:
            return await runtime.run(self.request(key, tools, **fields))


def tools_namespace(tools: Tools) -> CodeBindingNamespace:
    """Return the namespace `tools` that the programs of the suite expect."""
    return CodeBindingNamespace("tools", tools, CodeBindingErrorClass("ToolCallError", "toolName"))


def plugin_provider(
    plugin: str | type[CodeRuntime], configure: Callable[[Limits], object]
) -> ProviderFactory:
    """Make the factory of a provider that is loaded as a plugin.

    Args:
        plugin: The class of the provider, or the name of its entry point.
        configure: Turns limits into the config of the provider.
    """

    @asynccontextmanager
    async def open_provider(limits: Limits) -> AsyncIterator[CodeRuntime]:
        async with Context() as ctx:
            await ctx.plugin(plugin, configure(limits))
            yield ctx.codeRuntime

    return open_provider


@asynccontextmanager
async def share_runtimes(subject: Subject) -> AsyncIterator[Subject]:
    """Keep the runtimes of `subject.open` open for several rules, one for each set of limits.

    Yields:
        The subject to check. Its shared runtimes are disposed when the block is left.
    """
    async with anyio.create_task_group() as task_group:
        shared = _SharedRuntimes(subject.provider, task_group)
        try:
            yield replace(subject, _shared=shared.borrow)
        finally:
            shared.closing.set()


@final
class _SharedRuntimes:
    """Runtimes by their limits, each held by a task, so that no scope of a rule lies around it."""

    def __init__(self, provider: ProviderFactory, task_group: anyio.abc.TaskGroup) -> None:
        self._provider = provider
        self._task_group = task_group
        self._runtimes: dict[Limits, CodeRuntime] = {}
        self._opening = anyio.Lock()
        self.closing = anyio.Event()

    @asynccontextmanager
    async def borrow(self, limits: Limits) -> AsyncIterator[CodeRuntime]:
        async with self._opening:
            if limits not in self._runtimes:
                self._runtimes[limits] = await self._task_group.start(self._hold, limits)
        yield self._runtimes[limits]

    async def _hold(
        self, limits: Limits, *, task_status: anyio.abc.TaskStatus[CodeRuntime]
    ) -> None:
        async with self._provider(limits) as runtime:
            task_status.started(runtime)
            await self.closing.wait()
