"""What the fuzz tests share: runtimes of both languages, and the TypeScript side."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from fuzzing import PATIENCE_S, NodePeer, Runtimes, open_node_peer

from code_runtime import open_runtime
from code_runtime_python import PythonCodeRuntime
from code_runtime_worker_thread import WorkerThreadCodeRuntime

# Small enough that a program which was drawn cannot hold the tests up.
LIMITS = {"max_wall_ms": 10_000, "memory_mb": 512}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give the tests of this folder the time that they need on a busy machine."""
    for item in items:
        if item.path.is_relative_to(Path(__file__).parent):
            item.add_marker(pytest.mark.timeout(PATIENCE_S))


@pytest.fixture(scope="module")
def runtimes(module_leaves_nothing: None) -> Iterator[Runtimes]:
    """A runtime for each language, shared by the examples of a module."""
    with ExitStack() as stack:
        yield {
            "typescript": stack.enter_context(
                open_runtime(WorkerThreadCodeRuntime, {**LIMITS, "compute_ms": 5_000})
            ),
            "python": stack.enter_context(
                open_runtime(PythonCodeRuntime, {**LIMITS, "cpu_seconds": 5})
            ),
        }


@pytest.fixture(scope="module")
def peer(module_leaves_nothing: None) -> Iterator[NodePeer]:
    """The TypeScript sources in a Node process."""
    with open_node_peer() as opened:
        yield opened
