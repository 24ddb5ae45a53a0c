"""TypeScript provider of code-runtime: each program in a fresh Node worker thread."""

from __future__ import annotations

from ._config import WorkerThreadConfig as WorkerThreadConfig
from ._provider import WorkerThreadCodeRuntime as WorkerThreadCodeRuntime

__all__ = ["WorkerThreadCodeRuntime", "WorkerThreadConfig"]
