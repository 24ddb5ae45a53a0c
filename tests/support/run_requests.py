"""Short forms of requests for tests."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Protocol

from code_runtime import (
    CodeBindingErrorClass,
    CodeBindingNamespace,
    CodeRunRequest,
    CodeRunResult,
    CodeRuntime,
)

Tools = Mapping[str, Callable[..., object]]


class Run(Protocol):
    """Runs a program on the module's runtime, with `tools` as its one namespace."""

    def __call__(
        self, program: str, tools: Tools | None = None, /, **request: object
    ) -> Awaitable[CodeRunResult]: ...


Provider = Callable[..., AbstractAsyncContextManager[CodeRuntime]]


def build_request(program: str, tools: Tools | None = None, **request: object) -> CodeRunRequest:
    """Make a request; with `tools`, a namespace whose failures are ToolCallError."""
    bindings = request.pop("bindings", ())
    if tools is not None:
        bindings = [
            CodeBindingNamespace("tools", tools, CodeBindingErrorClass("ToolCallError", "toolName"))
        ]
    return CodeRunRequest(program, bindings, **request)  # type: ignore[arg-type]


def slowly(show: Callable[[str], object]) -> Callable[[str], object]:
    """Make an observer of logs that takes 50 µs for each line, and holds the loop meanwhile."""

    def observe(line: str) -> None:
        show(line)
        ends_s = time.monotonic() + 0.000_05
        while time.monotonic() < ends_s:
            pass

    return observe
