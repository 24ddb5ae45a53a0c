"""Checks of config fields that the providers share; each refusal names the field."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import fields
from typing import Any, Final, TypeVar, cast, final

from code_runtime._errors import ConfigError
from code_runtime._text import describe

MAX_SAFE: Final = 2**53 - 1
# The longest delay that a timer can hold.
MAX_TIMER_MS: Final = 2_147_483_647

C = TypeVar("C")


@final
class FieldChecks:
    """The checks of one provider's config.

    Args:
        owner: The class that refuses, as the messages name it.
    """

    __slots__ = ("_owner",)

    def __init__(self, owner: str) -> None:
        self._owner = owner

    def refuse(self, name: str, value: object, expected: str) -> ConfigError:
        """Make the error for a field."""
        return ConfigError(self._owner, name, describe(value), expected)

    def build(self, config_type: type[C], config: object) -> C:
        """Build a config from what `ctx.plugin` was given: None, a config, or a mapping.

        Raises:
            ConfigError: not a mapping, an unknown field, or a bad value.
        """
        if config is None:
            return config_type()
        if isinstance(config, config_type):
            return config
        if not isinstance(config, Mapping):
            expected = f"a mapping of field names, {config_type.__name__} or None"
            raise self.refuse("config", config, expected)
        known = sorted(field.name for field in fields(cast("Any", config_type)))
        for name in config:
            if name not in known:
                raise self.refuse("config", name, f"one of the fields {', '.join(known)}")
        return config_type(**config)

    def positive(self, name: str, value: object, *, optional: bool = False) -> None:
        """Refuse what is no finite number above 0."""
        if optional and value is None:
            return
        if (
            not isinstance(value, (int, float))
            or isinstance(value, bool)
            or not 0 < value < math.inf
        ):
            raise self.refuse(name, value, "a positive number" + (" or None" if optional else ""))

    def integer(self, name: str, value: object, least: int, most: int = MAX_SAFE) -> int:
        """Refuse what is no integer in a range."""
        if type(value) is not int or not least <= value <= most:
            raise self.refuse(name, value, f"an integer from {least} to {most}")
        return value

    def grace(self, name: str, value: object) -> None:
        """Refuse what is no time that a timer can hold, 0 included."""
        if not isinstance(value, (int, float)) or isinstance(value, bool) or not value >= 0:
            raise self.refuse(name, value, "a number of at least 0")
        self.timer(name, value)

    def timer(self, name: str, value: float | None, most_ms: int = MAX_TIMER_MS) -> None:
        """Refuse a time in milliseconds that a timer cannot hold."""
        if value is not None and value > most_ms:
            raise self.refuse(name, value, f"at most {most_ms} ms, the longest delay of a timer")

    def path(self, name: str, value: object) -> None:
        """Refuse what is neither a path nor None."""
        if value is not None and (type(value) is not str or not value or "\0" in value):
            raise self.refuse(name, value, "a path or None")
