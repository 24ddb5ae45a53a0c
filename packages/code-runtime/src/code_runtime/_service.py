"""What a plugin is: a `Service` subclass, or an async `apply(ctx, config)` function."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from contextlib import AbstractAsyncContextManager

    from ._context import Context


class Service:
    """Base of plugins that live between a start and a stop, and may offer themselves under a key.

    A subclass checks its config in `__init__`, which must not start anything, and starts and stops
    in `lifespan`. The context makes a new instance for each start.

    Args:
        ctx: The scope of this plugin. What is loaded through it ends with the plugin.
        config: Whatever was given to `ctx.plugin`; None when nothing was.
    """

    service_key: ClassVar[str | None] = None
    """The key under which the context offers the instance; None offers nothing."""

    inject: ClassVar[tuple[str, ...]] = ()
    """The keys of the services it needs: it starts when they are there and stops before they go."""

    def __init__(self, ctx: Context, config: object = None) -> None:
        self.ctx = ctx
        self.config = config

    def lifespan(self) -> AbstractAsyncContextManager[None]:
        """Start on entering, stop on leaving; by default there is nothing to do.

        Usually an async generator function with `@asynccontextmanager` and one bare `yield`. Both
        halves run in one task that the context owns, so a task group may stay open around the
        `yield`. An exception before it is raised from `ctx.plugin`, and nothing is registered. A
        task group that fails while the plugin is active ends the plugin as `failed`.

        The stop is out of reach of the caller's cancellation. A start is not: when the plugin is
        disposed, or the task that loads it is cancelled, before the start is over, every await in
        here raises the cancellation. So clean up in `finally`, under
        `anyio.CancelScope(shield=True)`.
        """
        return _nothing()


@asynccontextmanager
async def _nothing() -> AsyncIterator[None]:
    yield
