"""Python provider of code-runtime: each program in a fresh CPython process."""

from __future__ import annotations

from ._config import PythonConfig as PythonConfig
from ._provider import PythonCodeRuntime as PythonCodeRuntime

__all__ = ["PythonCodeRuntime", "PythonConfig"]
