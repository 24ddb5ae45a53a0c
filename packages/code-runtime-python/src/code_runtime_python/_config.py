"""The configuration of the Python provider, validated at load.

Source: docs/reference/configuration.md; the order of checks and the ranges follow PY-001 to PY-020.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final, Literal

from code_runtime._execution._fields import MAX_SAFE, MAX_TIMER_MS, FieldChecks

from ._child.wire import ENVELOPE_BYTES, MAX_FRAME_BYTES, MIN_LOG_BYTES

OWNER: Final = "PythonCodeRuntime"
_CHECKS: Final = FieldChecks(OWNER)
MEBIBYTE: Final = 1_048_576
# What a bare interpreter maps before any program, and what a budget's text may take as objects,
# copies and escapes at once: the address space must hold both.
BASELINE_BYTES: Final = 64 * MEBIBYTE
EXPANSION: Final = 12
# After the grace a killed process still has to be reaped.
REAP_MS: Final = 2_000
StartMethod = Literal["zygote", "spawn"]

_NUMBERS: Final = (
    "cpu_seconds",
    "max_wall_ms",
    "address_space_mb",
    "memory_mb",
    "max_log_bytes",
    "max_value_bytes",
    "grace_ms",
)
_OPTIONAL: Final = ("max_wall_ms",)


@dataclass(frozen=True, slots=True, kw_only=True)
class PythonConfig:
    """Budgets and pool sizes of one provider.

    Units: `_ms` milliseconds, `_seconds` seconds, `_mb` mebibytes, `_bytes` bytes.

    Args:
        cpu_seconds: Processor time of the program's process.
        max_wall_ms: Time from the assignment of the run to its end; never pauses; None for no
            limit.
        memory_mb: Anonymous and shared memory of the program and everything that it started.
        address_space_mb: Address space of the process, the backstop for a burst between two samples
            of `memory_mb`. Threads and numpy reserve far more than they use, so it is large.
        max_log_bytes: Logs, as a JSON list; further ones are dropped behind one marker.
        max_value_bytes: The value, as JSON text; a larger one fails the run.
        grace_ms: From the polite to the hard end of a process that does not leave by itself.
        binding_grace_ms: How long `run` waits for cancelled binding calls before it returns.
        max_concurrent_runs: Runs at once, None for no limit; further ones wait.
        spare_hosts: Idle processes that are kept ready.
        python_bin: CPython 3.10 or later; None is the host's own interpreter.
        start_method: `zygote` forks each process from an interpreter that has imported what the
            runtime needs; `spawn` starts an interpreter for each. None takes the zygote where there
            is one.
        preload: Modules that the zygote imports once for all programs.

    Raises:
        ConfigError: a field is of the wrong type or out of its range; the message names it.
    """

    cpu_seconds: int = 60
    max_wall_ms: float | None = 600_000
    memory_mb: float = 512
    address_space_mb: float = 4_096
    max_log_bytes: int = 8_388_608
    max_value_bytes: int = 8_388_608
    grace_ms: float = 3_000
    binding_grace_ms: float = 5_000
    max_concurrent_runs: int | None = 32
    spare_hosts: int = 1
    python_bin: str | None = None
    start_method: StartMethod | None = None
    preload: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name in _NUMBERS:
            _CHECKS.positive(name, getattr(self, name), optional=name in _OPTIONAL)
        _CHECKS.integer("cpu_seconds", self.cpu_seconds, 1, MAX_SAFE - 1)
        self._check_address_space()
        self._check_memory()
        _CHECKS.path("python_bin", self.python_bin)
        _CHECKS.timer("max_wall_ms", self.max_wall_ms)
        _CHECKS.timer("grace_ms", self.grace_ms, MAX_TIMER_MS - REAP_MS)
        self._check_budget("max_log_bytes", self.max_log_bytes, MIN_LOG_BYTES)
        self._check_budget("max_value_bytes", self.max_value_bytes, 1)
        self._check_rest()

    @classmethod
    def from_mapping(cls, config: object) -> PythonConfig:
        """Build the configuration from what `ctx.plugin` was given.

        Raises:
            ConfigError: not a mapping, an unknown field, or a bad value.
        """
        return _CHECKS.build(cls, config)

    @property
    def address_space_bytes(self) -> int:
        """`address_space_mb` in bytes."""
        return int(self.address_space_mb * MEBIBYTE)

    @property
    def memory_bytes(self) -> int:
        """`memory_mb` in bytes."""
        return int(self.memory_mb * MEBIBYTE)

    def _check_address_space(self) -> None:
        size_bytes = self.address_space_mb * MEBIBYTE
        if size_bytes > MAX_SAFE:
            raise _CHECKS.refuse(
                "address_space_mb", self.address_space_mb, f"at most {MAX_SAFE // MEBIBYTE} MiB"
            )
        if size_bytes <= BASELINE_BYTES:
            raise _CHECKS.refuse(
                "address_space_mb",
                self.address_space_mb,
                f"more than {BASELINE_BYTES // MEBIBYTE} MiB, what an interpreter needs for itself "
                f"({BASELINE_BYTES} bytes)",
            )

    def _check_memory(self) -> None:
        if not 1 <= self.memory_mb * MEBIBYTE <= MAX_SAFE:
            expected = f"at least one byte and at most {MAX_SAFE // MEBIBYTE} MiB"
            raise _CHECKS.refuse("memory_mb", self.memory_mb, expected)

    def _check_budget(self, name: str, value: object, least: int) -> None:
        size_bytes = _CHECKS.integer(name, value, least, MAX_FRAME_BYTES - ENVELOPE_BYTES)
        room_bytes = self.address_space_bytes - BASELINE_BYTES
        if size_bytes * EXPANSION >= room_bytes:
            largest = math.ceil(room_bytes / EXPANSION) - 1
            raise _CHECKS.refuse(
                name,
                value,
                f"at most {largest} bytes beside address_space_mb {self.address_space_mb:g}: "
                f"text of that size may take {EXPANSION} times as much in the process",
            )

    def _check_rest(self) -> None:
        _CHECKS.grace("binding_grace_ms", self.binding_grace_ms)
        if self.max_concurrent_runs is not None:
            _CHECKS.integer("max_concurrent_runs", self.max_concurrent_runs, 1)
        _CHECKS.integer("spare_hosts", self.spare_hosts, 1)
        if self.start_method not in ("zygote", "spawn", None):
            raise _CHECKS.refuse("start_method", self.start_method, "'zygote', 'spawn' or None")
        modules = self.preload
        if not isinstance(modules, (list, tuple)) or not all(
            type(name) is str and all(part.isidentifier() for part in name.split("."))
            for name in modules
        ):
            raise _CHECKS.refuse("preload", modules, "a list of module names")
        object.__setattr__(self, "preload", tuple(modules))
        if modules and self.start_method == "spawn":
            raise _CHECKS.refuse("preload", modules, "nothing with start_method 'spawn'")
