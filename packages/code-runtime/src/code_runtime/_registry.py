"""Which services a context has, who provides them, and who uses them."""

from __future__ import annotations

from typing import TYPE_CHECKING, final

from ._errors import ContextStateError, ServiceExistsError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ._handle import PluginHandle
    from ._service import Service


@final
class Entry:
    """One registration of a service, from its start to its stop."""

    __slots__ = ("handle", "key", "leaving", "service")

    def __init__(self, key: str, service: Service, handle: PluginHandle) -> None:
        self.key = key
        self.service = service
        self.handle = handle
        self.leaving = False


@final
class Registry:
    """The services of one context; what it lacks is looked up in its parent."""

    __slots__ = ("_claims", "_entries", "_handles", "_parent")

    def __init__(self, parent: Registry | None = None) -> None:
        self._parent = parent
        self._entries: dict[str, Entry] = {}
        self._claims: dict[str, PluginHandle] = {}
        # All plugins of the whole tree: any of them may use a service of any context above it.
        self._handles: dict[PluginHandle, None] = {} if parent is None else parent._handles

    def admit(self, handle: PluginHandle) -> None:
        """Take a plugin in and keep its key free for it from now on.

        Raises:
            ServiceExistsError: Another plugin has the key (SC-002).
            ContextStateError: The plugin would replace a service that its own owner uses.
        """
        key = handle._plugin.key
        if key is not None:
            claimant = self._claims.get(key)
            if claimant is not None:
                raise ServiceExistsError(key, claimant.name, handle.name)
            for owner in handle._owner._owners():
                # Its owner would stop for the new service, end this plugin, and start again, for
                # ever.
                if key in owner._plugin.inject:
                    raise ContextStateError(
                        f"load {handle.name}",
                        f"plugin {owner.name}, which loads it, injects {key!r} itself",
                        "a load through `ctx.child()`",
                    )
            self._claims[key] = handle
        self._handles[handle] = None

    def forget(self, handle: PluginHandle) -> None:
        """Drop a plugin that is over."""
        self._handles.pop(handle, None)
        key = handle._plugin.key
        if key is not None and self._claims.get(key) is handle:
            del self._claims[key]

    def add(self, key: str, service: Service, handle: PluginHandle) -> Entry:
        """Offer a service that has started."""
        entry = self._entries[key] = Entry(key, service, handle)
        self._notify(key)
        return entry

    async def withdraw(self, entry: Entry) -> None:
        """Stop all users of a service, then take it away (SC-003)."""
        entry.leaving = True
        self._notify(entry.key)
        try:
            for handle in tuple(self._handles):
                await handle._until_unused(entry)
        finally:
            del self._entries[entry.key]

    def own(self, key: str) -> Entry | None:
        """Find a service of this very context; one whose users are being stopped is still there."""
        return self._entries.get(key)

    def collect(self, keys: Iterable[str]) -> dict[str, Entry]:
        """Find the services that a plugin may start to use; those that are missing are left out."""
        found = {}
        for key in keys:
            registry: Registry | None = self
            while registry is not None:
                entry = registry._entries.get(key)
                if entry is not None and not entry.leaving:
                    found[key] = entry
                    break
                registry = registry._parent
        return found

    def users_of(self, provider: PluginHandle) -> list[PluginHandle]:
        """List the plugins that use the service of a plugin."""
        return [
            handle
            for handle in self._handles
            if any(entry.handle is provider for entry in handle._using.values())
        ]

    def _notify(self, key: str) -> None:
        for handle in tuple(self._handles):
            if key in handle._plugin.inject:
                handle._poke()
