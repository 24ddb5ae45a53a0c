"""Random interleavings of loading and disposing on both event loops, against the order rules."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Literal

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from code_runtime import Context, ContextStateError, PluginHandle, Service, ServiceExistsError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

Step = tuple[Literal["a", "b", "c"], int, int]


class World:
    """What is running now, and every rule that was broken."""

    def __init__(self) -> None:
        self.running: list[Node] = []
        self.broken: list[str] = []


class Node(Service):
    """A plugin of the chain a <- b <- c with a start and a stop of some checkpoints."""

    def __init__(self, ctx: Context, config: object = None) -> None:
        super().__init__(ctx, config)
        assert isinstance(config, tuple)
        self.world: World = config[0]
        self.pause: int = config[1]

    @asynccontextmanager
    async def lifespan(self) -> AsyncIterator[None]:
        for _ in range(self.pause):
            await anyio.lowlevel.checkpoint()
        self.world.running.append(self)
        try:
            yield
        finally:
            with anyio.CancelScope(shield=True):
                for _ in range(self.pause):
                    await anyio.lowlevel.checkpoint()
                self.world.broken += [
                    f"{type(self).__name__} stopped under {type(user).__name__}"
                    for user in self.world.running
                    if type(self).service_key in type(user).inject
                ]
                self.world.running.remove(self)


class A(Node):
    service_key = "a"


class B(Node):
    service_key = "b"
    inject = ("a",)


class C(Node):
    service_key = "c"
    inject = ("a", "b")


_KINDS = {"a": A, "b": B, "c": C}


async def _play(steps: list[Step], cancel_after: int | None) -> None:
    world = World()
    handles: list[PluginHandle] = []

    async def act(ctx: Context, step: Step, delay: int) -> None:
        kind, pause, victim = step
        for _ in range(delay):
            await anyio.lowlevel.checkpoint()
        try:
            handles.append(await ctx.plugin(_KINDS[kind], (world, pause)))
        except (ServiceExistsError, ContextStateError):
            if handles:
                await handles[victim % len(handles)].dispose()

    ctx = Context()
    with anyio.CancelScope() as scope:
        async with ctx, anyio.create_task_group() as group:
            for delay, step in enumerate(steps):
                group.start_soon(act, ctx, step, delay)
            if cancel_after is not None:
                for _ in range(cancel_after):
                    await anyio.lowlevel.checkpoint()
                scope.cancel()
    assert world.broken == []
    assert world.running == []
    assert {handle.state for handle in handles} <= {"disposed"}
    assert not ctx._owned
    assert not ctx._registry._handles
    assert not ctx._registry._entries
    assert not ctx._registry._claims


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
@settings(max_examples=100, deadline=None)
@given(
    steps=st.lists(
        st.tuples(st.sampled_from("abc"), st.integers(0, 3), st.integers(0, 9)), max_size=12
    ),
    cancel_after=st.none() | st.integers(0, 25),
)
def test_random_loads_and_disposals_keep_the_order(
    backend: str, steps: list[Step], cancel_after: int | None
) -> None:
    """SC-002, SC-003, SC-045."""

    async def play() -> None:
        with anyio.fail_after(10):
            await _play(steps, cancel_after)

    anyio.run(play, backend=backend)
