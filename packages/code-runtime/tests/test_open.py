from __future__ import annotations

import signal
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, ClassVar, Literal

import anyio
import pytest

from code_runtime import (
    BindingNameError,
    CodeRunRequest,
    CodeRunResult,
    CodeRuntime,
    ConfigError,
    Context,
    ContextStateError,
    PluginNotFoundError,
    RuntimeDisposedError,
    Service,
    ServiceMissingError,
    open_runtime,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

Backend = Literal["asyncio", "trio"]


@pytest.fixture(params=["asyncio", "trio"])
def backend(request: pytest.FixtureRequest) -> Backend:
    name: Backend = request.param
    return name


class Echo(CodeRuntime):
    """Does what the program says: `echo`, `interrupt` (Ctrl-C in the main thread), `wait`, `bad`."""

    events: ClassVar[list[str]] = []

    def __init__(self, ctx: Context, config: object = None) -> None:
        if config == "bad":
            raise ConfigError("Echo", "config", "'bad'", "anything else")
        super().__init__(ctx, config)
        self.disposed = anyio.Event()
        self.running = 0
        self.idle = anyio.Event()

    @property
    def language(self) -> str:
        return "echo"

    @property
    def isolation(self) -> str:
        return "none"

    @asynccontextmanager
    async def lifespan(self) -> AsyncIterator[None]:
        self.events.append("start")
        yield
        self.disposed.set()
        if self.running:
            await self.idle.wait()
        self.events.append("stop")

    async def run(self, request: CodeRunRequest) -> CodeRunResult:
        self.running += 1
        try:
            if request.program == "bad":
                raise BindingNameError("bindings[0].global_name", "a$b", "letters")
            if request.program == "interrupt":
                main = threading.main_thread().ident
                assert main is not None
                signal.pthread_kill(main, signal.SIGINT)
                await anyio.sleep_forever()
            if request.program == "wait":
                self.events.append("waiting")
                await self.disposed.wait()
            return CodeRunResult([], has_value=True, value=threading.get_ident())
        except anyio.get_cancelled_exc_class():
            with anyio.CancelScope(shield=True):
                await anyio.sleep(0.05)  # the program takes its time to die
                self.events.append("killed")
            raise
        finally:
            self.running -= 1
            if not self.running and self.disposed.is_set():
                self.idle.set()


@pytest.fixture(autouse=True)
def events() -> list[str]:
    Echo.events.clear()
    return Echo.events


def test_open_runtime_runs_and_ends(backend: Backend, events: list[str]) -> None:
    before = threading.active_count()
    with open_runtime(Echo, backend=backend) as runtime:
        assert (runtime.language, runtime.isolation) == ("echo", "none")
        assert repr(runtime) == "<BlockingCodeRuntime Echo open>"
        first = runtime.run(CodeRunRequest("echo"))
        assert first.has_value
        assert first.value != threading.get_ident()
        assert events == ["start"]
    assert events == ["start", "stop"]
    assert repr(runtime) == "<BlockingCodeRuntime Echo closed>"
    assert threading.active_count() == before


def test_open_runtime_refuses_runs_after_the_block(backend: Backend) -> None:
    """SC-036, SC-045."""
    with open_runtime(Echo, backend=backend) as runtime:
        pass
    with pytest.raises(RuntimeDisposedError) as caught:
        runtime.run(CodeRunRequest("echo"))
    assert str(caught.value) == (
        "Cannot run a program: Echo is disposed, expected a call before the end of its disposal"
    )


def test_open_runtime_raises_misuse_from_run(backend: Backend, events: list[str]) -> None:
    """SC-036."""
    with open_runtime(Echo, backend=backend) as runtime:
        with pytest.raises(BindingNameError):
            runtime.run(CodeRunRequest("bad"))
        assert runtime.run(CodeRunRequest("echo")).ok


def test_open_runtime_raises_what_the_start_raises(backend: Backend, events: list[str]) -> None:
    with (
        pytest.raises(ConfigError, match=r"^Cannot configure Echo: config is 'bad', expected any"),
        open_runtime(Echo, "bad", backend=backend),
    ):
        raise AssertionError
    assert events == []


def test_open_runtime_takes_runs_from_many_threads(backend: Backend) -> None:
    """SC-046."""
    with open_runtime(Echo, backend=backend) as runtime, ThreadPoolExecutor(8) as pool:
        results = list(pool.map(runtime.run, [CodeRunRequest("echo")] * 40))
    assert len({result.value for result in results}) == 1


def test_ctrl_c_kills_the_program_and_waits_for_it(backend: Backend, events: list[str]) -> None:
    with open_runtime(Echo, backend=backend) as runtime:
        with pytest.raises(KeyboardInterrupt):
            runtime.run(CodeRunRequest("interrupt"))
        assert events == ["start", "killed"]
        assert runtime.run(CodeRunRequest("echo")).ok
    assert events == ["start", "killed", "stop"]


def test_ctrl_c_out_of_the_block_ends_everything(backend: Backend, events: list[str]) -> None:
    def script() -> None:
        with open_runtime(Echo, backend=backend) as runtime:
            runtime.run(CodeRunRequest("interrupt"))

    before = threading.active_count()
    with pytest.raises(KeyboardInterrupt):
        script()
    assert events == ["start", "killed", "stop"]
    assert threading.active_count() == before


def test_open_runtime_works_under_a_running_event_loop(backend: Backend) -> None:
    """A notebook: the calling thread runs an event loop of its own, and Ctrl-C raises at once."""

    async def cell() -> None:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        with open_runtime(Echo, backend=backend) as runtime:
            assert runtime.run(CodeRunRequest("echo")).ok
            with pytest.raises(KeyboardInterrupt):
                runtime.run(CodeRunRequest("interrupt"))
            assert runtime.run(CodeRunRequest("echo")).ok

    anyio.run(cell, backend="asyncio")
    if backend == "asyncio":
        anyio.run(cell, backend="trio")


def test_open_runtime_refuses_trio_inside_trio(events: list[str]) -> None:
    async def cell() -> None:
        with open_runtime(Echo, backend="trio"):
            raise AssertionError

    with pytest.raises(ContextStateError) as caught:
        anyio.run(cell, backend="trio")
    assert str(caught.value) == (
        "Cannot open a runtime for blocking use: this thread runs a trio event loop, "
        "expected `async with Context()` there, or backend='asyncio'"
    )
    assert events == []


def test_end_of_the_block_ends_a_run_of_another_thread(backend: Backend, events: list[str]) -> None:
    """SC-045."""
    with ThreadPoolExecutor(1) as pool:
        with open_runtime(Echo, backend=backend) as runtime:
            future = pool.submit(runtime.run, CodeRunRequest("wait"))
            while "waiting" not in events:
                runtime.run(CodeRunRequest("echo"))
        assert future.result(timeout=5).ok
    assert events == ["start", "waiting", "stop"]


def test_exception_of_the_block_comes_out_as_it_is(backend: Backend, events: list[str]) -> None:
    fault = ValueError("block")

    def script() -> None:
        with open_runtime(Echo, backend=backend):
            raise fault

    with pytest.raises(ValueError, match=r"^block$") as caught:
        script()
    assert caught.value is fault
    assert events == ["start", "stop"]


def test_open_runtime_refuses_a_plugin_that_is_no_runtime(backend: Backend) -> None:
    with (
        pytest.raises(ServiceMissingError),
        open_runtime(Service, backend=backend),  # type: ignore[arg-type]
    ):
        raise AssertionError


def test_open_runtime_by_unknown_name_lists_the_installed_ones() -> None:
    with pytest.raises(PluginNotFoundError) as caught, open_runtime("no-such-language"):
        raise AssertionError
    error = caught.value
    names = ", ".join(repr(name) for name in error.installed)
    assert str(error) == (
        "Cannot load plugin 'no-such-language': no installed package offers it "
        f"(installed: {names or 'none'}), expected an installed provider"
    )
    assert "worker-thread" in error.installed
    assert isinstance(error, LookupError)
