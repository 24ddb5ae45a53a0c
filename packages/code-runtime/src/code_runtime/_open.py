"""The blocking form of a runtime, for scripts and notebooks."""

from __future__ import annotations

from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Literal, final

import anyio

from ._context import Context
from ._errors import RuntimeDisposedError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from anyio.from_thread import BlockingPortal

    from ._runtime import CodeRuntime
    from ._vocabulary import CodeRunRequest, CodeRunResult


@final
class BlockingCodeRuntime:
    """A runtime whose `run` blocks; made by `open_runtime`."""

    def __init__(self, portal: BlockingPortal, runtime: CodeRuntime) -> None:
        self._portal: BlockingPortal | None = portal
        self._runtime = runtime

    @property
    def language(self) -> str:
        """The language of the programs, such as `typescript`."""
        return self._runtime.language

    @property
    def isolation(self) -> str:
        """What keeps programs apart, such as `worker-thread`."""
        return self._runtime.isolation

    def run(self, request: CodeRunRequest) -> CodeRunResult:
        """Run one program to its end; may be called from any number of threads at once.

        Bindings and `on_log` are called on the thread of the event loop behind this runtime, never
        on the calling one. Ctrl-C kills the program, waits until it is gone, and goes on as
        KeyboardInterrupt.

        Args:
            request: The program and all that it may use.

        Raises:
            RuntimeDisposedError: The `with` block of `open_runtime` is over.
            BindingNameError: A name in the request is not allowed.
        """
        portal = self._portal
        if portal is None:
            raise RuntimeDisposedError(type(self._runtime).__qualname__)
        run = _Run(self._runtime, request)
        try:
            future = portal.start_task_soon(run)
        except RuntimeError as error:
            if self._portal is None:  # another thread left the block meanwhile
                raise RuntimeDisposedError(type(self._runtime).__qualname__) from error
            raise
        try:
            return future.result()
        except BaseException:
            if not future.done():
                from concurrent.futures import wait

                portal.call(run.cancel)
                # Not future.cancel(): that one is over at once, while the program still dies.
                wait([future])
            raise

    def __repr__(self) -> str:
        state = "closed" if self._portal is None else "open"
        return f"<BlockingCodeRuntime {type(self._runtime).__qualname__} {state}>"

    def _close(self) -> None:
        self._portal = None


@final
class _Run:
    """One run that another thread can cancel."""

    def __init__(self, runtime: CodeRuntime, request: CodeRunRequest) -> None:
        self._runtime = runtime
        self._request = request
        self._scope: anyio.CancelScope | None = None
        self._cancelled = False

    async def __call__(self) -> CodeRunResult:
        with anyio.CancelScope() as self._scope:
            if self._cancelled:
                self._scope.cancel()
            return await self._runtime.run(self._request)
        # Only the caller that has been interrupted gets here, and it does not look at the result.
        raise RuntimeDisposedError(type(self._runtime).__qualname__)

    def cancel(self) -> None:
        self._cancelled = True
        if self._scope is not None:
            self._scope.cancel()


@contextmanager
def open_runtime(
    name_or_class: str | type[CodeRuntime],
    config: object = None,
    *,
    backend: Literal["asyncio", "trio"] = "asyncio",
) -> Iterator[BlockingCodeRuntime]:
    """Start a runtime for scripts and notebooks, which a `with` block then uses and ends.

    An event loop runs in a thread of its own until the block ends; then every run that is still
    going on is ended, and nothing is left.

    Args:
        name_or_class: The name of an installed provider, or a provider class.
        config: The config of the provider.
        backend: The event loop to use; `trio` must be installed by the caller.

    Yields:
        The runtime.

    Raises:
        PluginNotFoundError: No installed package offers a provider of this name.
        Exception: Whatever the provider raised while it started.
    """
    # The portal brings threading and queues along; an async host never needs them.
    from anyio.from_thread import start_blocking_portal

    with (
        start_blocking_portal(backend) as portal,
        portal.wrap_async_context_manager(_loaded(name_or_class, config)) as runtime,
    ):
        blocking = BlockingCodeRuntime(portal, runtime)
        try:
            yield blocking
        finally:
            blocking._close()


@asynccontextmanager
async def _loaded(
    name_or_class: str | type[CodeRuntime], config: object
) -> AsyncIterator[CodeRuntime]:
    async with Context() as ctx:
        await ctx.plugin(name_or_class, config)
        yield ctx.codeRuntime
