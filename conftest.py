"""Fixtures that every package of the workspace shares."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest
from hypothesis import settings
from leftovers import assert_no_leftovers, snapshot_resources

# A runner in the background inherits SIGINT as ignored, and so would every command that a test
# interrupts.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# The machine decides how long an example takes, and says nothing about the code.
settings.register_profile("workspace", deadline=None)
settings.load_profile("workspace")


@pytest.fixture(scope="module", params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    """Run each async test on both event loops."""
    backend: str = request.param
    return backend


@pytest.fixture(autouse=True)
def no_leftovers(request: pytest.FixtureRequest) -> Iterator[None]:
    """Fail a test that leaves a process, a descriptor or a temporary folder behind.

    While the tests of a module share a runtime, whose pool starts and ends processes as it likes,
    the module as a whole is checked instead.
    """
    if "module_leaves_nothing" in request.fixturenames or _shared:
        yield
        return
    before = snapshot_resources()
    yield
    assert_no_leftovers(before)


_shared: list[None] = []


@pytest.fixture(scope="module")
def module_leaves_nothing() -> Iterator[None]:
    """Fail a module whose shared fixtures leave something behind."""
    before = snapshot_resources()
    _shared.append(None)
    yield
    _shared.pop()
    assert_no_leftovers(before)
