"""The configuration of the worker-thread provider, validated at load.

Source: docs/reference/configuration.md; the ranges follow WT-001 to WT-008.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from code_runtime._execution._fields import FieldChecks

OWNER: Final = "WorkerThreadCodeRuntime"
_CHECKS: Final = FieldChecks(OWNER)
MAX_SIZE_MB: Final = 2**33 - 1  # its bytes are still an exact number


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
        for name in ("compute_ms", "max_wall_ms"):
            _CHECKS.positive(name, getattr(self, name), optional=True)
        for name in ("max_old_generation_size_mb", "memory_mb"):
            _CHECKS.positive(name, getattr(self, name))
            if getattr(self, name) > MAX_SIZE_MB:
                raise _CHECKS.refuse(name, getattr(self, name), f"at most {MAX_SIZE_MB} MiB")
        _CHECKS.timer("max_wall_ms", self.max_wall_ms)
        _CHECKS.grace("binding_grace_ms", self.binding_grace_ms)
        _CHECKS.integer("max_output_bytes", self.max_output_bytes, 4)
        if self.max_concurrent_runs is not None:
            _CHECKS.integer("max_concurrent_runs", self.max_concurrent_runs, 1)
        _CHECKS.integer("runs_per_host", self.runs_per_host, 1)
        _CHECKS.integer("spare_hosts", self.spare_hosts, 1)
        _CHECKS.path("node_bin", self.node_bin)

    @classmethod
    def from_mapping(cls, config: object) -> WorkerThreadConfig:
        """Build the configuration from what `ctx.plugin` was given.

        Raises:
            ConfigError: not a mapping, an unknown field, or a bad value.
        """
        return _CHECKS.build(cls, config)
