"""Every fault meets both providers, and both ways in which the Python one starts processes."""

from __future__ import annotations

import pytest
from faults import BACKENDS, Backend


@pytest.fixture(scope="module", params=BACKENDS)
def backend(request: pytest.FixtureRequest) -> Backend:
    """A provider with one way to start processes."""
    name: str = request.param
    return BACKENDS[name]


@pytest.fixture(params=["asyncio", "trio"])
def loop(request: pytest.FixtureRequest) -> str:
    """The event loop of a host process."""
    name: str = request.param
    return name
