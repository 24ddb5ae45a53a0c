"""Fixtures that every package of the workspace shares."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from leftovers import assert_no_leftovers, snapshot_resources


@pytest.fixture(scope="module", params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    """Run each async test on both event loops."""
    backend: str = request.param
    return backend


@pytest.fixture(autouse=True)
def no_leftovers(request: pytest.FixtureRequest) -> Iterator[None]:
    """Fail a test that leaves a process, a descriptor or a temporary folder behind.

    A test that shares a runtime with others of its module is covered by the check of
    `module_leaves_nothing` instead: the pool starts and ends processes between tests.
    """
    if "runtime" in request.fixturenames:
        yield
        return
    before = snapshot_resources()
    yield
    assert_no_leftovers(before)


@pytest.fixture(scope="module")
def module_leaves_nothing() -> Iterator[None]:
    """Fail a module whose shared fixtures leave something behind."""
    before = snapshot_resources()
    yield
    assert_no_leftovers(before)
