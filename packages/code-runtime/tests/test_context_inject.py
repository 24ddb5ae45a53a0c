"""Consumers: they start with the services they need, and stop before these go."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import anyio
import pytest

from code_runtime import Context, ContextStateError, PluginHandle, Service

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

pytestmark = pytest.mark.anyio


class Journal(list[str]):
    """A list of events that a test can wait for."""

    def __init__(self) -> None:
        super().__init__()
        self._changed = anyio.Event()

    def append(self, entry: str) -> None:
        super().append(entry)
        self._changed.set()
        self._changed = anyio.Event()

    async def wait_for(self, entry: str) -> None:
        while entry not in self:
            await self._changed.wait()


class Base(Service):
    """Writes its start and stop; the config is a journal and a name."""

    def __init__(self, ctx: Context, config: object = None) -> None:
        super().__init__(ctx, config)
        assert isinstance(config, tuple)
        self.journal: Journal = config[0]
        self.name: str = config[1]

    @asynccontextmanager
    async def lifespan(self) -> AsyncIterator[None]:
        await anyio.lowlevel.checkpoint()
        self.journal.append(f"+{self.name}")
        try:
            yield
        finally:
            with anyio.CancelScope(shield=True):
                for key in type(self).inject:
                    user = self.ctx[key]  # a service outlives its users
                    assert isinstance(user, Base)
                    self.journal.append(f"{self.name} still has {user.name}")
                await anyio.lowlevel.checkpoint()
                self.journal.append(f"-{self.name}")


class Database(Base):
    service_key = "database"


class Cache(Base):
    service_key = "cache"
    inject = ("database",)


class App(Base):
    inject = ("database", "cache")


class Reader(Base):
    inject = ("database",)


async def test_consumer_waits_for_its_service() -> None:
    log = Journal()
    async with Context() as ctx:
        reader = await ctx.plugin(Reader, (log, "reader"))
        assert reader.state == "pending"
        await ctx.plugin(Database, (log, "db"))
        assert await reader.wait("active") == "active"
        assert log == ["+db", "+reader"]
    assert log == ["+db", "+reader", "reader still has db", "-reader", "-db"]
    assert await reader.wait() == "disposed"


async def test_consumer_starts_at_once_when_the_service_is_there() -> None:
    log = Journal()
    async with Context() as ctx:
        await ctx.plugin(Database, (log, "db"))
        assert (await ctx.plugin(Reader, (log, "reader"))).state == "active"


async def test_consumer_stops_before_the_service_and_starts_with_the_next() -> None:
    """SC-003, SC-045."""
    log = Journal()
    async with Context() as ctx:
        database = await ctx.plugin(Database, (log, "db1"))
        reader = await ctx.plugin(Reader, (log, "reader"))
        await database.dispose()
        assert reader.state == "pending"
        assert log == ["+db1", "+reader", "reader still has db1", "-reader", "-db1"]
        log.clear()
        await ctx.plugin(Database, (log, "db2"))
        assert await reader.wait("active") == "active"
        await reader.dispose()
        assert log == ["+db2", "+reader", "reader still has db2", "-reader"]


async def test_chain_of_consumers_stops_from_its_end() -> None:
    log = Journal()
    async with Context() as ctx:
        app = await ctx.plugin(App, (log, "app"))
        cache = await ctx.plugin(Cache, (log, "cache"))
        database = await ctx.plugin(Database, (log, "db"))
        await app.wait("active")
        assert [app.state, cache.state] == ["active", "active"]
        await database.dispose()
        assert [app.state, cache.state] == ["pending", "pending"]
    assert log == [
        "+db",
        "+cache",
        "+app",
        "app still has db",
        "app still has cache",
        "-app",
        "cache still has db",
        "-cache",
        "-db",
    ]


async def test_apply_function_may_inject() -> None:
    log = Journal()

    async def apply(ctx: Context, config: object) -> None:
        log.append("+apply")

        async def cleanup() -> None:
            log.append("-apply")

        ctx.on_dispose(cleanup)

    apply.inject = ["database"]  # type: ignore[attr-defined]
    async with Context() as ctx:
        handle = await ctx.plugin(apply)
        assert handle.state == "pending"
        database = await ctx.plugin(Database, (log, "db"))
        await handle.wait("active")
        await database.dispose()
        assert log == ["+db", "+apply", "-apply", "-db"]


async def test_child_consumer_uses_the_service_of_the_parent() -> None:
    log = Journal()
    async with Context() as ctx:
        database = await ctx.plugin(Database, (log, "db"))
        async with ctx.child() as inner:
            reader = await inner.plugin(Reader, (log, "reader"))
            await database.dispose()
            assert reader.state == "pending"
            assert log == ["+db", "+reader", "reader still has db", "-reader", "-db"]


async def test_nearer_service_replaces_a_farther_one() -> None:
    log = Journal()
    async with Context() as ctx:
        await ctx.plugin(Database, (log, "far"))
        async with ctx.child() as inner:
            reader = await inner.plugin(Reader, (log, "reader"))
            log.clear()
            near = await inner.plugin(Database, (log, "near"))
            await log.wait_for("+reader")
            await reader.wait("active")
            assert log == ["+near", "reader still has far", "-reader", "+reader"]
            log.clear()
            await near.dispose()
            await log.wait_for("+reader")
            assert log[:2] == ["reader still has near", "-reader"]
            assert sorted(log[2:]) == ["+reader", "-near"]


async def test_service_that_goes_cancels_the_start_of_its_consumer() -> None:
    log = Journal()
    starting = anyio.Event()

    class Slow(Reader):
        @asynccontextmanager
        async def lifespan(self) -> AsyncIterator[None]:
            self.journal.append("starting")
            starting.set()
            try:
                await anyio.sleep_forever()
                yield
            finally:
                self.journal.append("cancelled")

    async with Context() as ctx:
        slow = await ctx.plugin(Slow, (log, "slow"))
        database = await ctx.plugin(Database, (log, "db"))
        await starting.wait()
        await database.dispose()
        assert slow.state == "pending"
        assert log == ["+db", "starting", "cancelled", "-db"]


async def test_error_of_a_later_start_comes_out_at_the_end() -> None:
    class Failing(Reader):
        @asynccontextmanager
        async def lifespan(self) -> AsyncIterator[None]:
            if self.name == "failing":
                raise OSError("no")
            yield

    log = Journal()

    async def block() -> None:
        async with Context() as ctx:
            failing = await ctx.plugin(Failing, (log, "failing"))
            await ctx.plugin(Database, (log, "db"))
            assert await failing.wait("active") == "failed"
            assert isinstance(failing.error, OSError)

    with pytest.raises(OSError, match=r"^no$"):
        await block()
    assert log == ["+db", "-db"]


async def test_error_in_the_stop_of_a_consumer_does_not_hold_its_service() -> None:
    class Sour(Reader):
        @asynccontextmanager
        async def lifespan(self) -> AsyncIterator[None]:
            yield
            raise OSError("sour")

    log = Journal()
    async with Context() as ctx:
        database = await ctx.plugin(Database, (log, "db"))
        sour = await ctx.plugin(Sour, (log, "sour"))
        reader = await ctx.plugin(Reader, (log, "reader"))
        await database.dispose()
        assert database.state == "disposed"
        assert reader.state == "pending"
        assert sour.state == "failed"
        assert ctx.get("database") is None
        with pytest.raises(OSError, match=r"^sour$"):
            await sour.dispose()


async def test_failing_service_stops_its_consumers_first() -> None:
    trip = anyio.Event()

    class Crashing(Database):
        @asynccontextmanager
        async def lifespan(self) -> AsyncIterator[None]:
            async def crash() -> None:
                await trip.wait()
                raise OSError("crash")

            async with anyio.create_task_group() as group:
                group.start_soon(crash)
                yield

    log = Journal()
    async with Context() as ctx:
        database = await ctx.plugin(Crashing, (log, "db"))
        reader = await ctx.plugin(Reader, (log, "reader"))
        trip.set()
        assert await database.wait() == "failed"
        assert reader.state == "pending"
        assert log == ["+reader", "reader still has db", "-reader"]
        with pytest.raises(ExceptionGroup):
            await database.dispose()


async def test_consumer_may_dispose_the_provider_it_uses() -> None:
    """The provider waits for this consumer, so the call returns at once."""
    log = Journal()
    handles: list[PluginHandle] = []

    class Killer(Reader):
        @asynccontextmanager
        async def lifespan(self) -> AsyncIterator[None]:
            yield
            await handles[0].dispose()
            self.journal.append("-killer")

    async with Context() as ctx:
        handles.append(await ctx.plugin(Database, (log, "db")))
        killer = await ctx.plugin(Killer, (log, "killer"))
        await killer.dispose()
        await handles[0].dispose()
    assert log == ["+db", "-killer", "-db"]


async def test_two_plugins_that_dispose_each_other_come_to_an_end() -> None:
    log = Journal()
    handles: dict[str, PluginHandle] = {}

    class Left(Base):
        @asynccontextmanager
        async def lifespan(self) -> AsyncIterator[None]:
            yield
            other = "right" if self.name == "left" else "left"
            await handles[other].dispose()
            self.journal.append(f"-{self.name}")

    async with Context() as ctx:
        for name in ("left", "right"):
            handles[name] = await ctx.plugin(Left, (log, name))
        async with anyio.create_task_group() as group:
            group.start_soon(handles["left"].dispose)
            group.start_soon(handles["right"].dispose)
    assert sorted(log) == ["-left", "-right"]


async def test_plugin_cannot_load_the_service_that_it_injects() -> None:
    """It would stop for the new service, end it with that, and start again, for ever."""
    log = Journal()

    async def apply(ctx: Context, config: object) -> None:
        await ctx.plugin(Database, (log, "inner"))

    apply.inject = ("database",)  # type: ignore[attr-defined]
    async with Context() as ctx:
        await ctx.plugin(Database, (log, "outer"))
        async with ctx.child() as inner:
            with pytest.raises(ContextStateError) as caught:
                await inner.plugin(apply)
            assert str(caught.value) == (
                "Cannot load Database: plugin "
                "test_plugin_cannot_load_the_service_that_it_injects.<locals>.apply, "
                "which loads it, injects 'database' itself, expected a load through `ctx.child()`"
            )
    assert log == ["+outer", "-outer"]


async def test_consumer_does_not_restart_while_its_context_ends() -> None:
    log = Journal()
    async with Context() as ctx:
        await ctx.plugin(Database, (log, "far"))
        async with ctx.child() as inner:
            reader = await inner.plugin(Reader, (log, "reader"))
            await inner.plugin(Database, (log, "near"))
            await log.wait_for("reader still has far")
            await reader.wait("active")
            log.clear()
        assert log == ["reader still has near", "-reader", "-near"]
