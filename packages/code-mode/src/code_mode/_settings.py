"""The configuration of the registry, checked when it is loaded."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Final, Literal, TypeAlias, cast, final, get_args

from ._errors import ToolDefinitionError
from ._hooks import CallEvent, ToolHooks
from ._tools import is_limit, seen

Mode: TypeAlias = Literal["code", "native", "both"]
MODES: Final[tuple[Mode, ...]] = get_args(Mode)
OWNER: Final = "ToolRegistry"
_COUNTS: Final = ("max_parallel_calls", "max_calls", "max_result_chars", "names_only_above_bytes")


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class RegistrySettings:
    """What a host may choose.

    Units: `_ms` milliseconds, `_chars` characters, `_bytes` bytes of UTF-8; the others are counts.

    Args:
        tools: Tools and functions to begin with.
        mode: What the model is offered: `code`: `run_code` alone; `native`: the tools; `both`.
        max_parallel_calls: How many calls of one program overlap, if their tools allow it.
        max_calls: How many calls one program may make; further ones fail.
        call_timeout_ms: How long one call may take, unless its tool says so; None for no limit.
        max_result_chars: How long the text of one result may be; a longer one loses its middle.
        names_only_above_bytes: Above this size the SDK text has names only, and programs look the
            declarations up.
        hooks: What sees each call before and after it, in this order before and the other way
            round after.
        on_event: A plain function that is told of the start and the end of each call of a program.

    Raises:
        ToolDefinitionError: A field has the wrong type or is out of its range.
    """

    tools: Sequence[object] = ()
    mode: Mode = "code"
    max_parallel_calls: int = 10
    max_calls: int = 1_000
    call_timeout_ms: float | None = None
    max_result_chars: int = 100_000
    names_only_above_bytes: int = 40_000
    hooks: Sequence[ToolHooks] = ()
    on_event: Callable[[CallEvent], object] | None = None

    def __post_init__(self) -> None:
        for name in ("tools", "hooks"):
            value = getattr(self, name)
            _check(name, value, _is_list(value), "a list")
        for index, hooks in enumerate(self.hooks):
            _check(f"hooks[{index}]", hooks, isinstance(hooks, ToolHooks), "a ToolHooks")
        _check("mode", self.mode, self.mode in MODES, f"one of {', '.join(MODES)}")
        for name in _COUNTS:
            value = getattr(self, name)
            is_right = type(value) is int and value >= 1
            _check(name, value, is_right, "a whole number of 1 or more")
        expected = "a positive, finite number of milliseconds, or None"
        _check("call_timeout_ms", self.call_timeout_ms, is_limit(self.call_timeout_ms), expected)
        is_right = self.on_event is None or callable(self.on_event)
        _check("on_event", self.on_event, is_right, "a function, or None")


def read_settings(config: object) -> RegistrySettings:
    """Read what `ctx.plugin` was given.

    Raises:
        ToolDefinitionError: It is no mapping of the known fields to values that they allow.
    """
    if isinstance(config, RegistrySettings):
        return config
    if config is None:
        return RegistrySettings()
    _check("config", config, isinstance(config, Mapping), "a mapping of fields")
    mapping = cast("Mapping[object, object]", config)
    known = [field.name for field in fields(RegistrySettings)]
    for key in mapping:
        _check("config", key, key in known, f"the fields {', '.join(known)}")
    make = cast("Callable[..., RegistrySettings]", RegistrySettings)
    return make(**{str(key): value for key, value in mapping.items()})


def _is_list(value: object) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, (str, bytes))


def _check(field: str, value: object, is_right: bool, expected: str) -> None:
    if not is_right:
        raise ToolDefinitionError(OWNER, field, seen(value), expected)
