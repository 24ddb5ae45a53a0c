"""A small provider for tests of the command line: runs Python programs inside the host.

A program is the body of an async function. It sees its namespaces, `log`, and `nothing`, which it
returns to give no value. The config field `max_wall_ms` is a time limit.
"""

from __future__ import annotations

import inspect
import textwrap
import time
from collections.abc import Mapping
from types import SimpleNamespace
from typing import TYPE_CHECKING, Literal

import anyio

from code_runtime import (
    CodeBindingNamespace,
    CodeCall,
    CodeRunFailure,
    CodeRunRequest,
    CodeRunResult,
    CodeRuntime,
    ConfigError,
    Context,
)
from code_runtime._checks import ProviderCheck

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable


class TinyCodeRuntime(CodeRuntime):
    """Run a program in the host itself."""

    def __init__(self, ctx: Context, config: object = None) -> None:
        super().__init__(ctx, config)
        fields: Mapping[str, object] = config if isinstance(config, Mapping) else {}
        for name in fields:
            if name != "max_wall_ms":
                raise ConfigError("TinyCodeRuntime", name, "given", "the field max_wall_ms only")
        limit = fields.get("max_wall_ms")
        self._wall_s = limit / 1_000 if isinstance(limit, (int, float)) else None

    @property
    def language(self) -> str:
        """The language of its programs."""
        return "tiny"

    @property
    def isolation(self) -> str:
        """There is none."""
        return "none"

    @classmethod
    async def doctor(cls) -> list[ProviderCheck]:
        """Offer one check that holds and one that does not."""
        return [
            ProviderCheck("Tiny engine", True, "built in"),
            ProviderCheck("Tiny fuel", False, "the tank is empty", "tiny-fuel --fill"),
        ]

    async def run(self, request: CodeRunRequest) -> CodeRunResult:
        """Run one program to its end."""
        run = _Run(request)
        signal = request.signal
        aborted, wall = anyio.CancelScope(), anyio.move_on_after(self._wall_s)
        remove = signal.add_listener(aborted.cancel) if signal else lambda: None
        with aborted, wall:
            await run.execute()
        remove()
        if signal is not None and aborted.cancelled_caught:
            run.fail("abort", str(signal.reason))
        elif wall.cancelled_caught:
            run.fail("timeout", "the wall-clock budget is spent")
        return run.result()


class _Run:
    def __init__(self, request: CodeRunRequest) -> None:
        self._request = request
        self._logs: list[str] = []
        self._calls: list[CodeCall] = []
        self._begin = time.monotonic()
        self._value: object = None
        self._has_value = False
        self._error: CodeRunFailure | None = None

    async def execute(self) -> None:
        source = "async def program():\n" + textwrap.indent(self._request.program, "  ") + "\n  ..."
        nothing = object()
        scope: dict[str, object] = {"log": self._log, "nothing": nothing}
        for namespace in self._request.bindings:
            functions = {name: self._caller(namespace, name) for name in namespace.functions}
            scope[namespace.global_name] = SimpleNamespace(**functions)
        try:
            exec(source, scope)
            program: Callable[[], Awaitable[object]] = scope["program"]  # type: ignore[assignment]
            value = await program()
        except Exception as error:
            self.fail("exception", f"{type(error).__name__}: {error} (line {_line(error)})")
        else:
            self._has_value = value is not nothing
            self._value = value if self._has_value else None

    def fail(self, kind: Literal["exception", "abort", "timeout"], message: str) -> None:
        self._error = CodeRunFailure(kind, message)

    def result(self) -> CodeRunResult:
        return CodeRunResult(
            self._logs,
            has_value=self._has_value,
            value=self._value,
            error=self._error,
            calls=self._calls,
        )

    def _log(self, text: str) -> None:
        self._logs.append(text)
        if self._request.on_log is not None:
            self._request.on_log(text)

    def _caller(
        self, namespace: CodeBindingNamespace, name: str
    ) -> Callable[[object], Awaitable[object]]:
        async def call(argument: object) -> object:
            started = time.monotonic()
            outcome: Literal["ok", "error"] = "error"
            try:
                answer = namespace.functions[name](argument)
                value = await answer if inspect.isawaitable(answer) else answer
                outcome = "ok"
                return value
            finally:
                now = time.monotonic()
                begin, took = (started - self._begin) * 1_000, (now - started) * 1_000
                self._calls.append(CodeCall(namespace.global_name, name, begin, took, outcome))

        return call


def _line(error: Exception) -> int:
    line = error.lineno if isinstance(error, SyntaxError) else None
    traceback = error.__traceback__
    while traceback is not None:
        if traceback.tb_frame.f_code.co_name == "program":
            line = traceback.tb_lineno
        traceback = traceback.tb_next
    return (line or 1) - 1
