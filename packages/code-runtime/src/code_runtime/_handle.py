"""One loaded plugin: its supervising task, its state, and its end.

Each plugin has one task in the context's task group, and everything of the plugin starts and stops
in that task, so cancel scopes nest as anyio demands. Every other task only sets flags, pokes the
plugin, and waits for its state to change; all of it on one event loop, so no locks are needed.
"""

from __future__ import annotations

from contextvars import ContextVar
from typing import TYPE_CHECKING, Literal, TypeAlias, final

import anyio

from ._errors import ContextStateError

if TYPE_CHECKING:
    from collections.abc import Callable

    from ._context import Context
    from ._plugins import PluginDefinition
    from ._registry import Entry
    from ._service import Service

PluginState: TypeAlias = Literal["pending", "starting", "active", "stopping", "disposed", "failed"]

# The plugin whose code is running; tasks that the plugin starts inherit it.
_current: ContextVar[PluginHandle | None] = ContextVar("code_runtime_plugin", default=None)


@final
class PluginHandle:
    """A plugin that was loaded with `ctx.plugin`.

    `state` is one of: `pending`, it waits for an injected service; `starting`; `active`;
    `stopping`; `disposed`, nothing of it is left; `failed`, likewise, after an error in its start,
    life, or stop.
    """

    __slots__ = (
        "_awaited",
        "_changed",
        "_config",
        "_disposing",
        "_error",
        "_life",
        "_over",
        "_owner",
        "_plugin",
        "_scope",
        "_settled",
        "_state",
        "_unreported",
        "_using",
    )

    def __init__(self, owner: Context, plugin: PluginDefinition, config: object) -> None:
        self._owner = owner
        self._plugin = plugin
        self._config = config
        self._state: PluginState = "pending"
        self._changed = anyio.Event()
        self._life: anyio.CancelScope | None = None
        self._scope: Context | None = None  # of the life in progress
        self._using: dict[str, Entry] = {}  # the services of the life in progress
        self._awaited: list[PluginHandle] = []  # plugins whose end this one's code awaits
        self._disposing = False
        self._settled = False
        self._over = False
        self._error: BaseException | None = None
        self._unreported: list[BaseException] = []

    @property
    def name(self) -> str:
        """The qualified name of the class or function."""
        return self._plugin.name

    @property
    def state(self) -> PluginState:
        """Where the plugin is in its life."""
        return self._state

    @property
    def error(self) -> BaseException | None:
        """What made the plugin `failed`; the first error if there were several."""
        return self._error

    async def wait(self, *states: PluginState) -> PluginState:
        """Wait until the state is one of these, or one that is final: `disposed` or `failed`.

        Args:
            states: The states to wait for.

        Returns:
            The state that was reached. A state that the plugin leaves at once may be missed.
        """
        await self._until(lambda: self._state in states or self._over)
        return self._state

    async def dispose(self) -> None:
        """Stop the plugin and wait until nothing of it is left.

        First the plugins that use its service are stopped, then the service disappears, then the
        plugin itself stops. A start in progress is cancelled. A second call does no harm.

        Called by the plugin itself, or by one that would have to stop first, it only starts the
        disposal and returns: waiting would never end. Cancelling the caller ends the waiting, not
        the disposal.

        Raises:
            Exception: What the plugin raised in its life or stop, each error once: a single one as
                it is, several as one ExceptionGroup.
        """
        caller = _current.get()
        if caller is not None and caller in self._awaits():
            self._request_end()
            return
        if caller is not None:
            caller._awaited.append(self)
        try:
            errors = await self._end()
        finally:
            if caller is not None:
                caller._awaited.remove(self)
        raise_all(errors, f"errors in plugin {self.name}")

    def __repr__(self) -> str:
        return f"<PluginHandle {self.name} {self._state}>"

    # What follows is for this package only.

    async def _supervise(self) -> None:
        _current.set(self)
        try:
            with anyio.CancelScope(shield=True):
                while not (self._disposing or self._error):
                    if self._ready():
                        await self._live()
                    else:
                        self._enter("pending")
                        await self._changed.wait()
        finally:
            self._finish()

    async def _live(self) -> None:
        """Go through one start, life, and stop."""
        registry = self._owner._registry
        self._life = None
        self._using = registry.collect(self._plugin.inject)
        self._scope = self._owner._scope_of(self)
        self._enter("starting")
        try:
            with anyio.CancelScope(shield=True) as self._life:
                async with self._plugin.open(self._scope, self._config) as service:
                    await self._hold(service)
            if not self._stop_wanted():
                raise ContextStateError(
                    f"keep plugin {self.name}",
                    "it ended by itself",
                    "a lifespan that goes on until the plugin is disposed",
                )
        except Exception as error:
            self._fail(error)
        finally:
            self._life = None
            for leftover in await self._scope._close():
                self._fail(leftover)
            self._scope = None
            self._using = {}
            self._poke()

    async def _hold(self, service: Service | None) -> None:
        """Offer the service and stay active until the end is wanted."""
        if self._stop_wanted():
            return
        registry = self._owner._registry
        key = self._plugin.key
        entry = None if key is None or service is None else registry.add(key, service, self)
        self._enter("active")
        try:
            while not self._stop_wanted():
                await self._changed.wait()
        finally:
            # A task group of the plugin that fails cancels this task; its users stop first even so.
            with anyio.CancelScope(shield=True):
                self._enter("stopping")
                if entry is not None:
                    await registry.withdraw(entry)

    def _ready(self) -> bool:
        if self._owner._is_closing():
            return False
        return len(self._owner._registry.collect(self._plugin.inject)) == len(
            set(self._plugin.inject)
        )

    def _stop_wanted(self) -> bool:
        if self._disposing:
            return True
        current = self._owner._registry.collect(self._using)
        return any(current.get(key) is not entry for key, entry in self._using.items())

    def _enter(self, state: PluginState) -> None:
        self._state = state
        self._settled = self._settled or state in ("pending", "active")
        self._poke()

    def _poke(self) -> None:
        """Let everyone who waits for this plugin, itself included, look at its state again."""
        if self._state == "starting" and self._life is not None and self._stop_wanted():
            self._life.cancel()
        self._changed.set()
        self._changed = anyio.Event()

    def _fail(self, error: BaseException) -> None:
        self._error = self._error or error
        self._unreported.append(error)

    def _finish(self) -> None:
        self._owner._registry.forget(self)
        self._over = self._settled = True
        if not self._unreported:
            self._owner._owned.pop(self, None)
        self._enter("failed" if self._error else "disposed")

    def _request_end(self) -> None:
        self._disposing = True
        self._poke()

    async def _until(self, reached: Callable[[], bool]) -> None:
        while not reached():
            await self._changed.wait()

    async def _until_settled(self) -> None:
        """Wait for the end of the first start, or until that start has to wait for a service."""
        await self._until(lambda: self._settled)

    async def _until_unused(self, entry: Entry) -> None:
        """Wait until no life of this plugin uses a service."""
        await self._until(lambda: entry not in self._using.values())

    async def _end(self) -> list[BaseException]:
        """Dispose, wait for it, and hand out each error once."""
        self._request_end()
        await self._until(lambda: self._over)
        return self._report()

    def _report(self) -> list[BaseException]:
        self._owner._owned.pop(self, None)
        errors, self._unreported = self._unreported, []
        return errors

    def _awaits(self) -> set[PluginHandle]:
        """Collect every plugin whose end must come before the end of this one, itself included."""
        seen: set[PluginHandle] = set()
        pending: list[PluginHandle] = [self]
        while pending:
            handle = pending.pop()
            if handle in seen:
                continue
            seen.add(handle)
            pending.extend(handle._awaited)
            if handle._scope is not None:
                pending.extend(handle._scope._all_owned())
            pending.extend(self._owner._registry.users_of(handle))
        return seen


def raise_all(errors: list[BaseException], message: str) -> None:
    """Raise one error as it is, and several as a group; do nothing when there is none."""
    if len(errors) == 1:
        raise errors[0]
    if errors:
        raise BaseExceptionGroup(message, errors)
