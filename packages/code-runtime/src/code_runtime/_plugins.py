"""Turn what `ctx.plugin` is given into a definition that a plugin handle can start."""

from __future__ import annotations

from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias, cast, final

from ._errors import PluginNotFoundError, PluginTypeError
from ._runtime import SERVICE_KEY, CodeRuntime
from ._service import Service
from ._text import describe, type_name

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable
    from contextlib import AbstractAsyncContextManager
    from importlib.metadata import EntryPoint

    from ._context import Context

    PluginLike: TypeAlias = str | type[Service] | Callable[..., Awaitable[object]]
    Opener: TypeAlias = Callable[[Context, object], AbstractAsyncContextManager[Service | None]]

ENTRY_POINT_GROUP: Final = "code_runtime.providers"
_EXPECTED: Final = (
    "a Service subclass, an async function of (ctx, config), or the name of an installed provider"
)


@final
@dataclass(frozen=True, slots=True)
class PluginDefinition:
    """A plugin that can be started any number of times.

    Args:
        name: How messages call it.
        key: The service key that it offers; None for none.
        inject: The service keys that it needs.
        open: Gives the context manager of one life; it yields the service to register.
    """

    name: str
    key: str | None
    inject: tuple[str, ...]
    open: Opener


def define(plugin: object) -> PluginDefinition:
    """Check a plugin and describe it.

    Raises:
        PluginTypeError: It is neither a plugin nor the name of one.
        PluginNotFoundError: No installed package offers a plugin of this name.
    """
    if isinstance(plugin, str):
        plugin = load_entry_point(plugin)
    if isinstance(plugin, type):
        return _define_service(plugin)
    if not callable(plugin):
        seen = f"an instance of {type_name(plugin)}" if isinstance(plugin, Service) else None
        raise PluginTypeError(seen or describe(plugin), _EXPECTED)
    name = getattr(plugin, "__qualname__", None) or type_name(plugin)
    apply = cast("Callable[..., object]", plugin)
    return PluginDefinition(name, None, _inject(name, plugin), lambda *args: _apply(apply, *args))


def load_entry_point(name: str) -> object:
    """Import the plugin that an installed package offers under a name.

    Raises:
        PluginNotFoundError: No installed package offers it.
        PluginTypeError: Several packages offer different ones.
    """
    found = list_entry_points()
    matches = {point.value: point for point in found if point.name == name}
    if not matches:
        raise PluginNotFoundError(name, tuple(sorted({point.name for point in found})))
    if len(matches) > 1:
        seen = f"{name!r} is offered more than once ({', '.join(sorted(matches))})"
        raise PluginTypeError(seen, "one installed package per name")
    (point,) = matches.values()
    try:
        return cast("object", point.load())
    except Exception as error:
        error.add_note(f"Raised while importing {point.value!r}, the plugin named {name!r}")
        raise


def list_entry_points() -> list[EntryPoint]:
    """List the plugins that installed packages offer; nothing is imported."""
    # Reading the metadata of all installed packages is slow; only a plugin given by name needs it.
    from importlib.metadata import entry_points

    return list(entry_points(group=ENTRY_POINT_GROUP))


def _define_service(plugin: type) -> PluginDefinition:
    name = plugin.__qualname__
    if not issubclass(plugin, Service):
        raise PluginTypeError(f"class {name}", _EXPECTED)
    missing = sorted(getattr(plugin, "__abstractmethods__", ()))
    if missing:
        raise PluginTypeError(f"class {name} lacks {', '.join(missing)}", "a complete class")
    key = plugin.service_key
    if key is not None and (not isinstance(key, str) or not key):
        raise PluginTypeError(
            f"service_key of {name} is {describe(key)}", "a non-empty str, or None"
        )
    if key == SERVICE_KEY and not issubclass(plugin, CodeRuntime):
        raise PluginTypeError(
            f"class {name} with service_key {key!r}", "a subclass of CodeRuntime for that key"
        )
    service = plugin
    return PluginDefinition(name, key, _inject(name, plugin), lambda *args: _serve(service, *args))


def _inject(name: str, plugin: object) -> tuple[str, ...]:
    keys: object = getattr(plugin, "inject", ())
    if isinstance(keys, (tuple, list)) and all(isinstance(key, str) for key in keys):
        return tuple(keys)
    # A bare string is the usual slip: ("codeRuntime") instead of ("codeRuntime",).
    raise PluginTypeError(f"inject of {name} is {describe(keys)}", "a tuple of service keys")


@asynccontextmanager
async def _serve(service: type[Service], ctx: Context, config: object) -> AsyncIterator[Service]:
    instance = service(ctx, config)
    async with instance.lifespan():
        yield instance


@asynccontextmanager
async def _apply(
    apply: Callable[..., object], ctx: Context, config: object
) -> AsyncIterator[Service | None]:
    started = apply(ctx, config)
    if not hasattr(started, "__await__"):
        raise PluginTypeError(
            f"a function that returned {describe(started)}", "an async function of (ctx, config)"
        )
    await cast("Awaitable[object]", started)
    yield None
