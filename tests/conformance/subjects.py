"""The providers of this repository as subjects of the conformance suite."""

from __future__ import annotations

from typing import Final

from code_runtime.testing import (
    PYTHON_PROGRAMS,
    TYPESCRIPT_PROGRAMS,
    Limits,
    Subject,
    plugin_provider,
)
from code_runtime_python import PythonCodeRuntime
from code_runtime_worker_thread import WorkerThreadCodeRuntime

# Below the limit of a test, for a machine that does much else.
PATIENCE_S: Final = 50.0


def given(config: dict[str, object]) -> dict[str, object]:
    return {name: value for name, value in config.items() if value is not None}


def configure_worker_thread(limits: Limits) -> dict[str, object]:
    """One budget for all output, so the smaller of the two."""
    output = [size for size in (limits.value_bytes, limits.log_bytes) if size is not None]
    return given(
        {
            "max_wall_ms": limits.wall_ms,
            "compute_ms": limits.busy_ms,
            "max_output_bytes": min(output, default=None),
            "max_concurrent_runs": limits.concurrent_runs,
            "binding_grace_ms": limits.binding_grace_ms,
        }
    )


def configure_python(limits: Limits, start_method: str | None = None) -> dict[str, object]:
    return given(
        {
            "max_wall_ms": limits.wall_ms,
            "cpu_seconds": None if limits.busy_ms is None else limits.busy_ms // 1_000,
            "max_value_bytes": limits.value_bytes,
            "max_log_bytes": limits.log_bytes,
            "max_concurrent_runs": limits.concurrent_runs,
            "binding_grace_ms": limits.binding_grace_ms,
            "start_method": start_method,
        }
    )


WORKER_THREAD: Final = Subject(
    provider=plugin_provider(WorkerThreadCodeRuntime, configure_worker_thread),
    language="typescript",
    programs=TYPESCRIPT_PROGRAMS,
    patience_s=PATIENCE_S,
)
PYTHON_ZYGOTE: Final = Subject(
    provider=plugin_provider(PythonCodeRuntime, lambda limits: configure_python(limits, "zygote")),
    language="python",
    programs=PYTHON_PROGRAMS,
    patience_s=PATIENCE_S,
)
PYTHON_SPAWN: Final = Subject(
    provider=plugin_provider(PythonCodeRuntime, lambda limits: configure_python(limits, "spawn")),
    language="python",
    programs=PYTHON_PROGRAMS,
    patience_s=PATIENCE_S,
)
