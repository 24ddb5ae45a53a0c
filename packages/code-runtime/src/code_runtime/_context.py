"""The context: loads plugins, offers their services, and ends them in reverse order."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypeAlias, final, overload

import anyio

from ._errors import ContextStateError, ServiceMissingError
from ._handle import PluginHandle, raise_all
from ._plugins import define
from ._registry import Registry
from ._runtime import SERVICE_KEY

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator
    from types import TracebackType

    from anyio.abc import TaskGroup

    from ._plugins import PluginLike
    from ._runtime import CodeRuntime
    from ._service import Service

    Owned: TypeAlias = "PluginHandle | Context | _Cleanup"


@final
class _Cleanup:
    """A function to be called at the end of a scope."""

    __slots__ = ("function",)

    def __init__(self, function: Callable[[], Awaitable[object]]) -> None:
        self.function = function


@final
class Context:
    """Own plugins and offer the services that they provide.

    Use it as `async with Context() as ctx`. Leaving the block ends everything in reverse order and
    waits until nothing is left, also when the block is cancelled. Errors of plugins that no other
    call has raised are raised there: a single one as it is, several as one ExceptionGroup; together
    with an exception of the block itself always as a group, except that they replace a
    cancellation.

    A context belongs to one event loop. Its methods may be called from any task of that loop.

    Examples:
        >>> import anyio
        >>> from code_runtime import CodeRunRequest, Context
        >>> async def main():
        ...     async with Context() as ctx:
        ...         await ctx.plugin("worker-thread")
        ...         return await ctx.codeRuntime.run(CodeRunRequest("return 6 * 7"))
        >>> anyio.run(main).value
        42
    """

    __slots__ = ("_closed", "_closing", "_group", "_holder", "_owned", "_parent", "_registry")

    def __init__(self) -> None:
        self._parent: Context | None = None
        self._holder: PluginHandle | None = None  # the plugin whose scope this is
        self._registry = Registry()
        self._group: TaskGroup | None = (
            None  # one for the whole tree; set while the context is open
        )
        self._owned: dict[Owned, None] = {}  # in the order of their arrival
        self._closing = False
        self._closed: anyio.Event | None = None

    @property
    def codeRuntime(self) -> CodeRuntime:
        """The service that runs programs.

        Raises:
            ServiceMissingError: No active plugin provides it.
        """
        return self[SERVICE_KEY]

    @overload
    def __getitem__(self, key: Literal["codeRuntime"]) -> CodeRuntime: ...
    @overload
    def __getitem__(self, key: str) -> Service: ...
    def __getitem__(self, key: str) -> Service:
        """Read a service by its key.

        Raises:
            ServiceMissingError: No active plugin provides it.
        """
        return self._read(key)

    if not TYPE_CHECKING:
        # Any other service reads the same way at run time. Type checkers do not see it: they would
        # take every slip of the pen for a service.
        def __getattr__(self, key: str) -> Service:
            if key.startswith("_"):
                raise AttributeError(f"Context has no attribute {key!r}")
            return self._read(key)

    @overload
    def get(self, key: Literal["codeRuntime"]) -> CodeRuntime | None: ...
    @overload
    def get(self, key: str) -> Service | None: ...
    def get(self, key: str) -> Service | None:
        """Read a service by its key; None when no active plugin provides it."""
        try:
            return self._read(key)
        except ServiceMissingError:
            return None

    async def plugin(self, plugin: PluginLike, config: object = None) -> PluginHandle:
        """Load a plugin and wait until it is active.

        One that injects a service which is missing is returned at once, `pending`; it starts when
        the service is there. An error of such a later start, or of a plugin that was active, is
        kept as `error` of the handle and raised by its `dispose`, or when the context ends.

        Args:
            plugin: A `Service` subclass, an async `apply(ctx, config)` function, or the name of a
                provider that an installed package offers, such as `worker-thread`.
            config: Handed to the plugin, which checks it.

        Raises:
            PluginTypeError: This is no plugin.
            PluginNotFoundError: No installed package offers a plugin of this name.
            ServiceExistsError: The context already has a provider for the key (SC-002).
            ContextStateError: The context is not open, or the plugin was disposed while it started.
            Exception: Whatever the plugin raised while it started; nothing of it is left.
        """
        group = self._require_open("load a plugin")
        handle = PluginHandle(self, define(plugin), config)
        self._registry.admit(handle)
        self._owned[handle] = None
        group.start_soon(handle._supervise, name=f"plugin {handle.name}")
        try:
            await handle._until_settled()
        except BaseException:
            with anyio.CancelScope(shield=True):
                handle._request_end()
                await handle._until(lambda: handle._over)
            raise
        if handle._over:
            raise_all(handle._report(), f"errors in plugin {handle.name}")
            raise ContextStateError(
                f"load {handle.name}", "it was disposed while it started", "a start that may end"
            )
        return handle

    def child(self) -> Context:
        """Make a context with slots of its own, to be used as `async with ctx.child() as inner`.

        It may have other providers for the same keys; a key that it lacks is looked up in here. It
        ends before its parent does.
        """
        child = Context()
        child._parent = self
        child._registry = Registry(self._registry)
        return child

    def on_dispose(self, function: Callable[[], Awaitable[object]]) -> None:
        """Call an async function when this context, or the plugin whose scope it is, ends.

        The calls take their place in the reverse order of everything that was loaded, and are out
        of reach of cancellation.

        Raises:
            ContextStateError: The context is not open.
        """
        self._require_open("register a cleanup function")
        self._owned[_Cleanup(function)] = None

    async def __aenter__(self) -> Context:
        if self._closed is not None:
            raise ContextStateError("enter a context", "it was entered before", "a new Context")
        if self._parent is None:
            group = anyio.create_task_group()
            await group.__aenter__()
        else:
            group = self._parent._require_open("enter a child context")
            self._parent._owned[self] = None
        self._group = group
        self._closed = anyio.Event()
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        group = self._group
        errors = await self._close()
        self._group = None
        try:
            if self._parent is None and group is not None:
                # Without the exception of the block: a task group would wrap it in a group.
                await group.__aexit__(None, None, None)
        finally:
            if errors and exc is not None and not isinstance(exc, _cancelled()):
                raise BaseExceptionGroup("errors in a context and its plugins", [exc, *errors])
            raise_all(errors, "errors in the plugins of a context")

    def __repr__(self) -> str:
        state = "new" if self._closed is None else "closed" if self._closing else "open"
        return f"<Context {state}, {len(self._owned)} owned>"

    # What follows is for this package only.

    def _read(self, key: str) -> Service:
        context: Context | None = self
        while context is not None:
            # A plugin keeps the services it has started with until it has stopped, even when a
            # nearer one comes up meanwhile.
            used = None if context._holder is None else context._holder._using.get(key)
            entry = used or context._registry.own(key)
            if entry is not None:
                return entry.service
            context = context._parent
        raise ServiceMissingError(key)

    def _scope_of(self, holder: PluginHandle) -> Context:
        """Make the scope of one plugin: the same services, but an end of its own."""
        scope = Context()
        scope._parent = self
        scope._holder = holder
        scope._registry = self._registry
        scope._group = self._group
        scope._closed = anyio.Event()
        return scope

    def _require_open(self, action: str) -> TaskGroup:
        if self._group is None or self._is_closing():
            raise ContextStateError(
                action, f"{self!r} is not open", "a call inside `async with Context() as ctx`"
            )
        return self._group

    def _is_closing(self) -> bool:
        return self._closing or (self._parent is not None and self._parent._is_closing())

    def _owners(self) -> Iterator[PluginHandle]:
        """Walk through the plugins in whose scope, with these very slots, this context is."""
        context: Context | None = self
        while context is not None and context._registry is self._registry:
            if context._holder is not None:
                yield context._holder
            context = context._parent

    def _all_owned(self) -> Iterator[PluginHandle]:
        for item in self._owned:
            if isinstance(item, PluginHandle):
                yield item
            elif isinstance(item, Context):
                yield from item._all_owned()

    async def _close(self) -> list[BaseException]:
        """End everything in reverse order and collect the errors; a second caller only waits."""
        errors: list[BaseException] = []
        closed = self._closed
        if closed is None:
            return errors
        with anyio.CancelScope(shield=True):
            if self._closing:
                await closed.wait()
                return errors
            self._closing = True
            try:
                while self._owned:
                    item = next(reversed(self._owned))
                    errors += await _end(item)
                    self._owned.pop(item, None)
            finally:
                closed.set()
        if self._parent is not None:
            self._parent._owned.pop(self, None)
        return errors


async def _end(item: Owned) -> list[BaseException]:
    if isinstance(item, PluginHandle):
        return await item._end()
    if isinstance(item, Context):
        return await item._close()
    try:
        await item.function()
    except Exception as error:
        return [error]
    return []


def _cancelled() -> type[BaseException]:
    return anyio.get_cancelled_exc_class()
