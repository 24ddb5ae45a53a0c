"""The configuration of the worker-thread provider, validated at load.

Source: docs/reference/configuration.md; the ranges follow WT-001 to WT-008.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Final

from code_runtime._errors import ConfigError
from code_runtime._text import describe

OWNER: Final = "WorkerThreadCodeRuntime"
MAX_TIMER_MS: Final = 2_147_483_647
MAX_SIZE_MB: Final = 2**33 - 1  # its bytes are still an exact number
_TIMES = ("compute_ms", "max_wall_ms")


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerThreadConfig:
    """Budgets and pool sizes of one provider.

    Units: `_ms` milliseconds, `_mb` mebibytes, `_bytes` bytes. None switches `compute_ms`,
    `max_wall_ms` or the cap of `max_concurrent_runs` off.

    Args:
        compute_ms: Busy time of the worker's event loop, from the assignment of the run.
        max_wall_ms: Time from the assignment of the run to its end; never pauses.
        max_output_bytes: One budget for logs and value, or logs and failure message, as JSON text.
        max_old_generation_size_mb: Heap cap of the worker (V8's old generation).
        memory_mb: Anonymous and shared memory of the Node host and everything that it started.
        binding_grace_ms: How long `run` waits for cancelled binding calls before it returns.
        max_concurrent_runs: Runs at once; further ones wait.
        runs_per_host: Runs that one Node process serves before it is replaced; 1 is the strictest.
        spare_hosts: Idle Node processes that are kept ready.
        node_bin: Path of the Node binary; None looks for one.

    Raises:
        ConfigError: a field is of the wrong type or out of its range; the message names it.
    """

    compute_ms: float | None = 60_000
    max_wall_ms: float | None = 600_000
    max_output_bytes: int = 67_108_864
    max_old_generation_size_mb: float = 512
    memory_mb: float = 1_024
    binding_grace_ms: float = 5_000
    max_concurrent_runs: int | None = 32
    runs_per_host: int = 100
    spare_hosts: int = 2
    node_bin: str | None = None

    def __post_init__(self) -> None:
        for name in ("compute_ms", "max_wall_ms", "max_old_generation_size_mb", "memory_mb"):
            value = getattr(self, name)
            if not (value is None and name in _TIMES):
                _positive_number(name, value, optional=name in _TIMES)
        for name in ("max_old_generation_size_mb", "memory_mb"):
            if getattr(self, name) > MAX_SIZE_MB:
                raise _refuse(name, getattr(self, name), f"at most {MAX_SIZE_MB} MiB")
        _number_from_zero("binding_grace_ms", self.binding_grace_ms)
        for name in ("max_wall_ms", "binding_grace_ms"):
            value = getattr(self, name)
            if value is not None and value > MAX_TIMER_MS:
                raise _refuse(
                    name, value, f"at most {MAX_TIMER_MS} ms, the longest delay of a timer"
                )
        _integer("max_output_bytes", self.max_output_bytes, 4)
        if self.max_concurrent_runs is not None:
            _integer("max_concurrent_runs", self.max_concurrent_runs, 1)
        _integer("runs_per_host", self.runs_per_host, 1)
        _integer("spare_hosts", self.spare_hosts, 1)
        if self.node_bin is not None and (
            type(self.node_bin) is not str or not self.node_bin or "\0" in self.node_bin
        ):
            raise _refuse("node_bin", self.node_bin, "a path or None")

    @classmethod
    def from_mapping(cls, config: object) -> WorkerThreadConfig:
        """Build the configuration from what `ctx.plugin` was given.

        Raises:
            ConfigError: not a mapping, an unknown field, or a bad value.
        """
        if config is None:
            return cls()
        if isinstance(config, cls):
            return config
        if not isinstance(config, Mapping):
            raise _refuse("config", config, "a mapping of field names, WorkerThreadConfig or None")
        known = {field.name for field in fields(cls)}
        for name in config:
            if name not in known:
                raise _refuse("config", name, f"one of the fields {', '.join(sorted(known))}")
        return cls(**config)


def _refuse(name: str, value: object, expected: str) -> ConfigError:
    return ConfigError(OWNER, name, describe(value), expected)


def _is_number(value: object) -> bool:
    return type(value) in (int, float)


def _positive_number(name: str, value: object, *, optional: bool) -> None:
    if not _is_number(value) or not math.isfinite(value) or value <= 0:  # type: ignore[arg-type, operator]
        raise _refuse(name, value, "a positive number" + (" or None" if optional else ""))


def _number_from_zero(name: str, value: object) -> None:
    if not _is_number(value) or not math.isfinite(value) or value < 0:  # type: ignore[arg-type, operator]
        raise _refuse(name, value, "a number of at least 0")


def _integer(name: str, value: object, least: int) -> None:
    if type(value) is not int or not least <= value <= 2**53 - 1:
        raise _refuse(name, value, f"an integer from {least} to {2**53 - 1}")
