"""Loading, reading, and ending plugins, with real ones."""

from __future__ import annotations

import contextlib
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, ClassVar

import anyio
import pytest

from code_runtime import (
    CodeRunRequest,
    CodeRunResult,
    CodeRuntime,
    CodeRuntimeError,
    ConfigError,
    Context,
    ContextStateError,
    PluginHandle,
    PluginTypeError,
    Service,
    ServiceExistsError,
    ServiceMissingError,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

pytestmark = pytest.mark.anyio


class Echo(CodeRuntime):
    """A provider that returns the program; its log of life is shared by all instances."""

    events: ClassVar[list[str]] = []

    def __init__(self, ctx: Context, config: object = None) -> None:
        if config is not None and not isinstance(config, str):
            raise ConfigError("Echo", "config", repr(config), "str or None")
        super().__init__(ctx, config)
        self.name = config or "echo"

    @property
    def language(self) -> str:
        return "echo"

    @property
    def isolation(self) -> str:
        return "none"

    @asynccontextmanager
    async def lifespan(self) -> AsyncIterator[None]:
        self.events.append(f"start {self.name}")
        async with anyio.create_task_group() as group:
            group.start_soon(anyio.sleep_forever)
            yield
            group.cancel_scope.cancel()
        with anyio.CancelScope(shield=True):
            await anyio.lowlevel.checkpoint()
        self.events.append(f"stop {self.name}")

    async def run(self, request: CodeRunRequest) -> CodeRunResult:
        return CodeRunResult([], has_value=True, value=request.program)


class Other(Echo):
    pass


@pytest.fixture(autouse=True)
def events() -> list[str]:
    Echo.events.clear()
    return Echo.events


async def _value(ctx: Context, program: str) -> object:
    result = await ctx.codeRuntime.run(CodeRunRequest(program))
    return result.value


async def test_provider_is_read_as_attribute_and_by_key(events: list[str]) -> None:
    """SC-001, SC-004, SC-005, SC-006."""
    async with Context() as ctx:
        handle = await ctx.plugin(Echo)
        assert handle.state == "active"
        assert handle.name == "Echo"
        assert repr(handle) == "<PluginHandle Echo active>"
        assert await _value(ctx, "x") == "x"
        assert ctx["codeRuntime"] is ctx.codeRuntime
        assert ctx.get("codeRuntime") is ctx.codeRuntime
        assert (ctx.codeRuntime.language, ctx.codeRuntime.isolation) == ("echo", "none")
    assert events == ["start echo", "stop echo"]
    assert await handle.wait() == "disposed"
    assert handle.error is None


async def test_descriptors_are_read_only() -> None:
    """SC-004, SC-005."""
    async with Context() as ctx:
        await ctx.plugin(Echo)
        for name in ("language", "isolation"):
            with pytest.raises(AttributeError):
                setattr(ctx.codeRuntime, name, "other")


async def test_missing_service_names_the_key_and_the_way_out() -> None:
    async with Context() as ctx:
        with pytest.raises(ServiceMissingError) as caught:
            _ = ctx.codeRuntime
        assert str(caught.value) == (
            "Cannot read service 'codeRuntime': no active plugin of this context provides it, "
            'expected `await ctx.plugin("worker-thread")` before'
        )
        assert isinstance(caught.value, AttributeError)
        assert not hasattr(ctx, "codeRuntime")
        with pytest.raises(LookupError) as missing:
            _ = ctx["other"]
        assert str(missing.value) == (
            "Cannot read service 'other': no active plugin of this context provides it, "
            "expected `await ctx.plugin(Provider)` before"
        )
        assert ctx.get("codeRuntime") is None
        assert ctx.get("other") is None


async def test_second_provider_is_refused() -> None:
    """SC-002."""
    async with Context() as ctx:
        await ctx.plugin(Echo, "first")
        with pytest.raises(ServiceExistsError) as caught:
            await ctx.plugin(Other, "second")
        assert str(caught.value) == (
            "Cannot load Other: service 'codeRuntime' is already registered by Echo, "
            "expected one provider per context "
            "(dispose the first, or load the second in `ctx.child()`)"
        )
        assert isinstance(ctx.codeRuntime, Echo)
        assert ctx.codeRuntime.name == "first"
        assert Echo.events == ["start first"]


async def test_second_provider_is_refused_while_the_first_starts() -> None:
    """SC-002."""
    async with Context() as ctx, anyio.create_task_group() as group:
        release, started = anyio.Event(), anyio.Event()

        class Slow(Echo):
            @asynccontextmanager
            async def lifespan(self) -> AsyncIterator[None]:
                started.set()
                await release.wait()
                yield

        group.start_soon(ctx.plugin, Slow)
        await started.wait()
        assert ctx.get("codeRuntime") is None
        with pytest.raises(ServiceExistsError):
            await ctx.plugin(Echo)
        release.set()


async def test_disposed_provider_disappears(events: list[str]) -> None:
    """SC-003."""
    async with Context() as ctx:
        handle = await ctx.plugin(Echo)
        await handle.dispose()
        assert handle.state == "disposed"
        assert ctx.get("codeRuntime") is None
        await handle.dispose()
        assert events == ["start echo", "stop echo"]
        await ctx.plugin(Echo, "next")
        assert await _value(ctx, "y") == "y"


async def test_service_is_gone_as_soon_as_its_stop_begins() -> None:
    """SC-003, SC-045."""
    seen: list[object] = []

    class Looking(Echo):
        @asynccontextmanager
        async def lifespan(self) -> AsyncIterator[None]:
            yield
            seen.append(self.ctx.get("codeRuntime"))

    async with Context() as ctx:
        handle = await ctx.plugin(Looking)
        await handle.dispose()
    assert seen == [None]


async def test_failing_constructor_leaves_nothing() -> None:
    """WT-007."""
    async with Context() as ctx:
        with pytest.raises(ConfigError) as caught:
            await ctx.plugin(Echo, 5)
        assert str(caught.value) == "Cannot configure Echo: config is 5, expected str or None"
        assert ctx.get("codeRuntime") is None
        assert repr(ctx) == "<Context open, 0 owned>"
        await ctx.plugin(Echo)
        assert await _value(ctx, "x") == "x"


async def test_failing_start_leaves_nothing() -> None:
    """WT-007."""
    cleaned: list[str] = []

    class Failing(Echo):
        @asynccontextmanager
        async def lifespan(self) -> AsyncIterator[None]:
            async def cleanup() -> None:
                cleaned.append("scope")

            self.ctx.on_dispose(cleanup)
            try:
                await anyio.lowlevel.checkpoint()
                raise OSError("no such file")
                yield  # type: ignore[unreachable]
            finally:
                cleaned.append("start")

    async with Context() as ctx:
        with pytest.raises(OSError, match=r"^no such file$"):
            await ctx.plugin(Failing)
        assert cleaned == ["start", "scope"]
        assert ctx.get("codeRuntime") is None
        await ctx.plugin(Echo)


async def test_apply_function_owns_what_it_loads(events: list[str]) -> None:
    async def apply(ctx: Context, config: object) -> None:
        events.append(f"apply {config}")
        await ctx.plugin(Echo, "inner")

        async def cleanup() -> None:
            events.append("cleanup")
            assert await _value(ctx, "still there") == "still there"

        ctx.on_dispose(cleanup)

    async with Context() as ctx:
        handle = await ctx.plugin(apply, 7)
        assert handle.name.endswith("apply")
        assert await _value(ctx, "x") == "x"
        await handle.dispose()
        assert ctx.get("codeRuntime") is None
    assert events == ["apply 7", "start inner", "cleanup", "stop inner"]


async def test_failing_apply_ends_what_it_loaded(events: list[str]) -> None:
    async def apply(ctx: Context, config: object) -> None:
        await ctx.plugin(Echo, "inner")
        raise ValueError("no")

    async with Context() as ctx:
        with pytest.raises(ValueError, match=r"^no$"):
            await ctx.plugin(apply)
        assert ctx.get("codeRuntime") is None
        assert repr(ctx) == "<Context open, 0 owned>"
    assert events == ["start inner", "stop inner"]


async def test_context_ends_in_reverse_order(events: list[str]) -> None:
    async def cleanup() -> None:
        events.append("cleanup")

    class Plain(Service):
        @asynccontextmanager
        async def lifespan(self) -> AsyncIterator[None]:
            events.append(f"start {self.config}")
            yield
            events.append(f"stop {self.config}")

    async with Context() as ctx:
        await ctx.plugin(Plain, 1)
        ctx.on_dispose(cleanup)
        await ctx.plugin(Plain, 2)
        await ctx.plugin(Echo, "3")
    assert events == ["start 1", "start 2", "start 3", "stop 3", "stop 2", "cleanup", "stop 1"]


async def test_cancelled_block_still_ends_everything(events: list[str]) -> None:
    """SC-045."""
    with anyio.CancelScope() as scope:
        async with Context() as ctx:
            await ctx.plugin(Echo)
            async with ctx.child() as inner:
                await inner.plugin(Echo, "inner")
                scope.cancel()
                await anyio.sleep_forever()
    assert scope.cancelled_caught
    assert events == ["start echo", "start inner", "stop inner", "stop echo"]


async def test_exception_of_the_block_comes_out_as_it_is(events: list[str]) -> None:
    fault = ValueError("block")

    async def block() -> None:
        async with Context() as ctx:
            await ctx.plugin(Echo)
            raise fault

    with pytest.raises(ValueError, match=r"^block$") as caught:
        await block()
    assert caught.value is fault
    assert events == ["start echo", "stop echo"]


class Sour(Service):
    """A plugin whose stop raises."""

    @asynccontextmanager
    async def lifespan(self) -> AsyncIterator[None]:
        yield
        raise RuntimeError(f"sour {self.config}")


async def test_single_stop_error_comes_out_as_it_is(events: list[str]) -> None:
    handles: list[PluginHandle] = []

    async def block() -> None:
        async with Context() as ctx:
            await ctx.plugin(Echo)
            handles.append(await ctx.plugin(Sour, 1))

    with pytest.raises(RuntimeError, match=r"^sour 1$"):
        await block()
    (handle,) = handles
    assert handle.state == "failed"
    assert str(handle.error) == "sour 1"
    assert events == ["start echo", "stop echo"]


async def test_all_stop_errors_come_out(events: list[str]) -> None:
    async def cleanup() -> None:
        raise KeyError("cleanup")

    async def block() -> None:
        async with Context() as ctx:
            await ctx.plugin(Sour, 1)
            await ctx.plugin(Echo)
            ctx.on_dispose(cleanup)
            inner = ctx.child()
            await inner.__aenter__()
            await inner.plugin(Sour, 3)

    with pytest.raises(ExceptionGroup) as caught:
        await block()
    group = caught.value
    assert [repr(error) for error in group.exceptions] == [
        "RuntimeError('sour 3')",
        "KeyError('cleanup')",
        "RuntimeError('sour 1')",
    ]
    assert group.message == "errors in the plugins of a context"
    assert events == ["start echo", "stop echo"]


async def test_stop_errors_and_the_block_error_come_out_together() -> None:
    async def block() -> None:
        async with Context() as ctx:
            await ctx.plugin(Sour, 1)
            raise ValueError("block")

    with pytest.raises(ExceptionGroup, match=r"^errors in a context and its plugins$") as caught:
        await block()
    assert [repr(error) for error in caught.value.exceptions] == [
        "ValueError('block')",
        "RuntimeError('sour 1')",
    ]


async def test_stop_errors_replace_a_cancellation() -> None:
    async def block() -> None:
        async with Context() as ctx:
            await ctx.plugin(Sour, 1)
            scope.cancel()
            await anyio.sleep_forever()

    with anyio.CancelScope() as scope, pytest.raises(RuntimeError, match=r"^sour 1$"):
        await block()


async def test_stop_error_is_raised_once() -> None:
    async with Context() as ctx:
        handle = await ctx.plugin(Sour, 1)
        with pytest.raises(RuntimeError, match=r"^sour 1$"):
            await handle.dispose()
        assert handle.state == "failed"
        await handle.dispose()


async def test_plugin_whose_task_fails_is_failed_and_unregistered() -> None:
    trip = anyio.Event()

    class Crashing(Echo):
        @asynccontextmanager
        async def lifespan(self) -> AsyncIterator[None]:
            async def crash() -> None:
                await trip.wait()
                raise OSError("pipe broke")

            async with anyio.create_task_group() as group:
                group.start_soon(crash)
                yield

    async with Context() as ctx:
        handle = await ctx.plugin(Crashing)
        trip.set()
        assert await handle.wait() == "failed"
        assert ctx.get("codeRuntime") is None
        await ctx.plugin(Echo)
        with pytest.raises(ExceptionGroup) as caught:
            await handle.dispose()
        assert [repr(error) for error in caught.value.exceptions] == ["OSError('pipe broke')"]


async def test_error_of_a_failed_plugin_comes_out_at_the_end_of_the_context() -> None:
    class Leaving(Service):
        @asynccontextmanager
        async def lifespan(self) -> AsyncIterator[None]:
            with anyio.CancelScope() as scope:
                scope.cancel()
                yield

    async def block() -> None:
        async with Context() as ctx:
            handle = await ctx.plugin(Leaving)
            assert await handle.wait() == "failed"

    with pytest.raises(ContextStateError) as caught:
        await block()
    assert str(caught.value).endswith(
        "Leaving: it ended by itself, expected a lifespan that goes on until the plugin is disposed"
    )


async def test_dispose_during_the_start_cancels_it() -> None:
    started = anyio.Event()
    steps: list[str] = []

    class Hanging(Echo):
        @asynccontextmanager
        async def lifespan(self) -> AsyncIterator[None]:
            async def cleanup() -> None:
                steps.append("scope")

            self.ctx.on_dispose(cleanup)
            started.set()
            try:
                await anyio.sleep_forever()
                yield
            finally:
                steps.append("start")

    async with Context() as ctx:
        errors: list[CodeRuntimeError] = []

        async def load() -> None:
            try:
                await ctx.plugin(Hanging)
            except ContextStateError as error:
                errors.append(error)

        async with anyio.create_task_group() as group:
            group.start_soon(load)
            await started.wait()
            (handle,) = ctx._owned
            assert isinstance(handle, PluginHandle)
            assert handle.state == "starting"
            await handle.dispose()
        assert steps == ["start", "scope"]
        assert [str(error).split(": ", 1)[1] for error in errors] == [
            "it was disposed while it started, expected a start that may end"
        ]
        await ctx.plugin(Echo)


async def test_cancelled_load_leaves_nothing() -> None:
    """WT-007."""
    started = anyio.Event()

    class Hanging(Echo):
        @asynccontextmanager
        async def lifespan(self) -> AsyncIterator[None]:
            self.events.append("start")
            started.set()
            try:
                await anyio.sleep_forever()
                yield
            finally:
                with anyio.CancelScope(shield=True):
                    await anyio.lowlevel.checkpoint()
                    self.events.append("stop")

    async with Context() as ctx:
        async with anyio.create_task_group() as group:
            group.start_soon(ctx.plugin, Hanging)
            await started.wait()
            group.cancel_scope.cancel()
        assert Echo.events == ["start", "stop"]
        assert repr(ctx) == "<Context open, 0 owned>"
        await ctx.plugin(Echo)


async def test_context_exit_ends_a_start_in_another_task() -> None:
    started = anyio.Event()

    class Hanging(Echo):
        @asynccontextmanager
        async def lifespan(self) -> AsyncIterator[None]:
            started.set()
            await anyio.sleep_forever()
            yield

    async with anyio.create_task_group() as group:

        async def load(ctx: Context) -> None:
            with pytest.raises(ContextStateError):
                await ctx.plugin(Hanging)
            with pytest.raises(ContextStateError):
                await ctx.plugin(Echo)

        async with Context() as ctx:
            group.start_soon(load, ctx)
            await started.wait()


async def test_concurrent_disposals_all_wait() -> None:
    """SC-045: no caller comes back before everything is gone."""
    gate, stopping = anyio.Event(), anyio.Event()
    events: list[str] = []

    class Slow(Service):
        @asynccontextmanager
        async def lifespan(self) -> AsyncIterator[None]:
            yield
            stopping.set()
            await gate.wait()
            events.append("gone")

    async with Context() as ctx:
        handle = await ctx.plugin(Slow)

        async def dispose() -> None:
            await handle.dispose()
            events.append("back")

        async with anyio.create_task_group() as group:
            for _ in range(3):
                group.start_soon(dispose)
            await stopping.wait()
            await anyio.wait_all_tasks_blocked()
            assert handle.state == "stopping"
            assert events == []
            gate.set()
        assert events == ["gone", "back", "back", "back"]


async def test_cancelled_disposal_goes_on() -> None:
    gate, stopping = anyio.Event(), anyio.Event()

    class Slow(Service):
        @asynccontextmanager
        async def lifespan(self) -> AsyncIterator[None]:
            yield
            stopping.set()
            await gate.wait()

    async with Context() as ctx:
        handle = await ctx.plugin(Slow)
        async with anyio.create_task_group() as group:
            group.start_soon(handle.dispose)
            await stopping.wait()
            group.cancel_scope.cancel()
        assert handle.state == "stopping"
        gate.set()
        await handle.dispose()
        assert await handle.wait() == "disposed"


async def test_plugin_may_dispose_itself() -> None:
    """It cannot wait for its own end: the disposal starts, and the call returns."""
    handles: list[PluginHandle] = []
    go = anyio.Event()
    back: list[str] = []

    class Suicidal(Echo):
        @asynccontextmanager
        async def lifespan(self) -> AsyncIterator[None]:
            async def end() -> None:
                await go.wait()
                await handles[0].dispose()
                back.append("back")

            async with anyio.create_task_group() as group:
                group.start_soon(end)
                yield

    async with Context() as ctx:
        handles.append(await ctx.plugin(Suicidal))
        go.set()
        await handles[0].dispose()
        assert back == ["back"]
        assert handles[0].state == "disposed"


async def test_cleanup_function_may_dispose_its_own_and_other_plugins(events: list[str]) -> None:
    handles: list[PluginHandle] = []

    async def apply(ctx: Context, config: object) -> None:
        async def cleanup() -> None:
            await handles[1].dispose()
            await handles[0].dispose()
            events.append("cleanup")

        ctx.on_dispose(cleanup)

    async with Context() as ctx:
        handles.append(await ctx.plugin(Echo))
        handles.append(await ctx.plugin(apply))
    assert events == ["start echo", "stop echo", "cleanup"]
    assert [handle.state for handle in handles] == ["disposed", "disposed"]


async def test_child_has_slots_of_its_own(events: list[str]) -> None:
    """SC-002: one provider per context, so a child can hold another."""
    async with Context() as ctx:
        await ctx.plugin(Echo, "outer")
        async with ctx.child() as inner:
            assert inner.codeRuntime is ctx.codeRuntime
            await inner.plugin(Other, "inner")
            assert isinstance(inner.codeRuntime, Other)
            assert not isinstance(ctx.codeRuntime, Other)
        assert not isinstance(ctx.codeRuntime, Other)
        assert events == ["start outer", "start inner", "stop inner"]


async def test_end_of_the_parent_ends_an_open_child_first(events: list[str]) -> None:
    loaded, ended = anyio.Event(), anyio.Event()

    async def hold(ctx: Context) -> None:
        async with ctx.child() as inner:
            await inner.plugin(Echo, "inner")
            loaded.set()
            await ended.wait()
            assert inner.get("codeRuntime") is None
            with pytest.raises(ContextStateError):
                await inner.plugin(Echo)

    async with anyio.create_task_group() as group:
        async with Context() as ctx:
            await ctx.plugin(Echo, "outer")
            group.start_soon(hold, ctx)
            await loaded.wait()
        assert events == ["start outer", "start inner", "stop inner", "stop outer"]
        ended.set()


async def test_context_is_entered_once() -> None:
    ctx = Context()
    assert repr(ctx) == "<Context new, 0 owned>"
    with pytest.raises(ContextStateError) as caught:
        await ctx.plugin(Echo)
    assert str(caught.value) == (
        "Cannot load a plugin: <Context new, 0 owned> is not open, "
        "expected a call inside `async with Context() as ctx`"
    )
    async with ctx:
        pass
    assert repr(ctx) == "<Context closed, 0 owned>"
    with pytest.raises(ContextStateError) as again:
        async with ctx:
            pass
    assert str(again.value) == (
        "Cannot enter a context: it was entered before, expected a new Context"
    )
    with pytest.raises(ContextStateError):
        ctx.on_dispose(anyio.lowlevel.checkpoint)
    with pytest.raises(ContextStateError):
        async with ctx.child():
            pass


class NoRuntime(Service):
    service_key = "codeRuntime"


class NoKey(Service):
    service_key = ""


class BareInject(Service):
    inject = "codeRuntime"  # type: ignore[assignment]


class Half(CodeRuntime):
    pass


def _sync(ctx: Context, config: object) -> int:
    return 5


_EXPECTED = (
    "a Service subclass, an async function of (ctx, config), or the name of an installed provider"
)


@pytest.mark.parametrize(
    ("plugin", "message"),
    [
        pytest.param(5, f"Cannot load plugin: 5 (int), expected {_EXPECTED}", id="int"),
        pytest.param(dict, f"Cannot load plugin: class dict, expected {_EXPECTED}", id="class"),
        pytest.param(
            NoRuntime,
            "Cannot load plugin: class NoRuntime with service_key 'codeRuntime', "
            "expected a subclass of CodeRuntime for that key",
            id="no-runtime",
        ),
        pytest.param(
            NoKey,
            "Cannot load plugin: service_key of NoKey is '' (str), "
            "expected a non-empty str, or None",
            id="empty-key",
        ),
        pytest.param(
            BareInject,
            "Cannot load plugin: inject of BareInject is 'codeRuntime' (str), "
            "expected a tuple of service keys",
            id="inject",
        ),
        pytest.param(
            Half,
            "Cannot load plugin: class Half lacks isolation, language, run, "
            "expected a complete class",
            id="abstract",
        ),
        pytest.param(
            _sync,
            "Cannot load plugin: a function that returned 5 (int), "
            "expected an async function of (ctx, config)",
            id="sync",
        ),
    ],
)
async def test_something_that_is_no_plugin_is_refused(plugin: object, message: str) -> None:
    async with Context() as ctx:
        with pytest.raises(PluginTypeError) as caught:
            await ctx.plugin(plugin)  # type: ignore[arg-type]
        assert str(caught.value) == message
        assert repr(ctx) == "<Context open, 0 owned>"


async def test_instance_instead_of_class_is_refused() -> None:
    async with Context() as ctx:
        with pytest.raises(PluginTypeError) as caught:
            await ctx.plugin(Service(ctx))  # type: ignore[arg-type]
        assert str(caught.value) == (
            f"Cannot load plugin: an instance of Service, expected {_EXPECTED}"
        )


async def test_long_life_keeps_nothing_of_disposed_plugins() -> None:
    async with Context() as ctx:
        for _ in range(50):
            handle = await ctx.plugin(Echo)
            await handle.dispose()
            async with ctx.child() as inner:
                await inner.plugin(Echo)
            with contextlib.suppress(ConfigError):
                await ctx.plugin(Echo, 5)
        assert repr(ctx) == "<Context open, 0 owned>"
        assert not ctx._registry._handles
        assert not ctx._registry._claims
