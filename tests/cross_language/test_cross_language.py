"""The scenarios on every pair that Python hosts: the same value, logs and kind of failure.

README.md beside this file describes the format; a Node host runs the same files elsewhere.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import anyio
import pytest

from code_runtime import (
    AbortSignal,
    CodeBindingErrorClass,
    CodeBindingNamespace,
    CodeRunRequest,
    CodeRunResult,
    CodeRuntime,
    Context,
)
from code_runtime._lossless import encode
from code_runtime_python import PythonCodeRuntime
from code_runtime_worker_thread import WorkerThreadCodeRuntime

FOLDER: Final = Path(__file__).parent / "scenarios"
LANGUAGES: Final = ("typescript", "python")
PAIRS: Final = {
    "typescript": "Python host, worker thread (TypeScript)",
    "python": "Python host, CPython child",
}
# What a limit of a scenario is called in the config of each provider.
LIMITS: Final[Mapping[str, Mapping[str, str]]] = {
    "typescript": {
        "wall_ms": "max_wall_ms",
        "output_bytes": "max_output_bytes",
        "value_bytes": "max_output_bytes",
    },
    "python": {
        "wall_ms": "max_wall_ms",
        "log_bytes": "max_log_bytes",
        "value_bytes": "max_value_bytes",
    },
}


@dataclass(frozen=True, slots=True)
class Scenario:
    """One file."""

    name: str
    document: dict[str, Any]

    def program(self, language: str) -> str:
        """Return the program in a language."""
        return "\n".join(self.document[language])

    def config(self, language: str) -> dict[str, int]:
        """Return the provider's config."""
        limits = self.document.get("limits", {})
        return {LIMITS[language][name]: value for name, value in limits.items()}


SCENARIOS: Final = [
    Scenario(path.stem, json.loads(path.read_text(encoding="utf-8")))
    for path in sorted(FOLDER.glob("*.json"))
]


# The table of functions


async def wait(ms: int) -> None:
    await anyio.sleep(ms / 1000)


async def never(_: object) -> None:
    await anyio.sleep_forever()


def fail(message: str) -> None:
    raise ValueError(message)


def make_namespaces(signal: AbortSignal) -> dict[str, CodeBindingNamespace]:
    """Make the namespaces of README.md for one run."""

    async def abort_later(reason: str) -> None:
        # Where the test waits for nothing: the reply must be out before the run is over.
        timers.append(reason)

    timers: list[str] = []
    odd_names = ("odd name", "__proto__", "constructor", "__class__")
    tools: dict[str, Any] = {
        "add": lambda args: args["a"] + args["b"],
        "echo": lambda value: value,
        "fail": fail,
        "lossy": lambda _: float("nan"),
        "menu": lambda _: ["tea", "cake"],
        "wait": wait,
        "never": never,
        **{name: (lambda value, name=name: f"{name} got {value}") for name in odd_names},
    }
    shop = {"price": {"apples": 1.2}.__getitem__, "refuse": fail}
    control = {"abort": signal.abort, "abort_later": abort_later}
    return {
        "tools": CodeBindingNamespace("tools", tools),
        "shop": CodeBindingNamespace("shop", shop, CodeBindingErrorClass("ShopError", "item")),
        "control": CodeBindingNamespace("control", control),
    }
