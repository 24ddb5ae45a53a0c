"""The blocking form of a runtime, for scripts and notebooks."""

from __future__ import annotations

from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Literal, final

import anyio

from ._context import Context
from ._errors import ContextStateError, RuntimeDisposedError

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
            return portal.start_task_soon(run).result()
        except BaseException as error:
            if isinstance(error, RuntimeError) and self._portal is None and not run.started:
                # Another thread left the block meanwhile, and the event loop is gone.
                raise RuntimeDisposedError(type(self._runtime).__qualname__) from error
            # Ctrl-C also comes while the run is being handed over: not even its future is at hand.
            if not run.over:
                portal.call(run.end)
            raise

    def __repr__(self) -> str:
        state = "closed" if self._portal is None else "open"
        return f"<BlockingCodeRuntime {type(self._runtime).__qualname__} {state}>"

    def _close(self) -> None:
        self._portal = None


@final
class _Run:
    """One run that another thread can end."""

    def __init__(self, runtime: CodeRuntime, request: CodeRunRequest) -> None:
        self._runtime = runtime
        self._request = request
        self._scope: anyio.CancelScope | None = None
        self._done: anyio.Event | None = None
        self._unwanted = False
        self.started = self.over = False

    async def __call__(self) -> CodeRunResult:
        self.started = True
        # Not in the constructor: that one may run in a notebook, on another kind of event loop.
        self._done = anyio.Event()
        try:
            with anyio.CancelScope() as self._scope:
                if not self._unwanted:
                    return await self._runtime.run(self._request)
        finally:
            self.over = True
            self._done.set()
        # Only a caller that was interrupted gets this far, and it does not look at the outcome.
        raise RuntimeDisposedError(type(self._runtime).__qualname__)

    async def end(self) -> None:
        """Cancel the run and wait until it is over; one that comes later does nothing."""
        self._unwanted = True
        if self._scope is not None and self._done is not None:
            self._scope.cancel()
            await self._done.wait()


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
        ContextStateError: The backend is trio, and the calling thread runs trio itself.
        Exception: Whatever the provider raised while it started.

    Examples:
        >>> from code_runtime import CodeRunRequest, open_runtime
        >>> with open_runtime("worker-thread", {"compute_ms": 5_000}) as runtime:
        ...     runtime.run(CodeRunRequest("console.log('up'); return 6 * 7"))
        CodeRunResult(logs=['up'], value=42)
    """
    if backend == "trio":
        _refuse_trio_in_trio()
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


def _refuse_trio_in_trio() -> None:
    """Refuse what trio itself refuses only halfway, with its other thread already running."""
    import trio

    try:
        trio.lowlevel.current_task()
    except RuntimeError:
        return
    raise ContextStateError(
        "open a runtime for blocking use",
        "this thread runs a trio event loop",
        "`async with Context()` there, or backend='asyncio'",
    )


@asynccontextmanager
async def _loaded(
    name_or_class: str | type[CodeRuntime], config: object
) -> AsyncIterator[CodeRuntime]:
    async with Context() as ctx:
        await ctx.plugin(name_or_class, config)
        yield ctx.codeRuntime
