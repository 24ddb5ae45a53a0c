"""A runtime for the tests of this package: shared by a module, or with a config of its own."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from run_requests import Provider, Run, Tools, build_request

from code_runtime import CodeRunResult, CodeRuntime, Context
from code_runtime_python import PythonCodeRuntime


@pytest.fixture(scope="module")
async def runtime(anyio_backend: str, module_leaves_nothing: None) -> AsyncIterator[CodeRuntime]:
    """A runtime with the default config, shared by the tests of a module."""
    async with Context() as ctx:
        await ctx.plugin(PythonCodeRuntime)
        yield ctx.codeRuntime


@pytest.fixture
def run(runtime: CodeRuntime) -> Run:
    """Run a program on the shared runtime."""

    async def run_program(
        program: str, tools: Tools | None = None, /, **request: object
    ) -> CodeRunResult:
        return await runtime.run(build_request(program, tools, **request))

    return run_program


@pytest.fixture
def provider() -> Provider:
    """Open a runtime with a config of its own: `async with provider(cpu_seconds=1) as runtime`."""

    @asynccontextmanager
    async def open_provider(**config: object) -> AsyncIterator[CodeRuntime]:
        async with Context() as ctx:
            await ctx.plugin(PythonCodeRuntime, config)
            yield ctx.codeRuntime

    return open_provider


@pytest.fixture(params=["zygote", "spawn"])
def start_method(request: pytest.FixtureRequest) -> str:
    """Both ways to start a process, for tests of what may differ between them."""
    method: str = request.param
    return method
