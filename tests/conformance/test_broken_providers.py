"""Every rule catches a provider that breaks it, and says what is wrong.

That a healthy provider keeps the same rules is what `test_providers.py` shows.
"""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from code_runtime.testing import RULES, Rule, Subject, check_rule, share_runtimes

from .broken_endings import end_tasks
from .broken_providers import BROKEN
from .subjects import PYTHON_ZYGOTE


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    """One event loop: what is broken here is broken on the other one, too."""
    return "asyncio"


@pytest.fixture(scope="module")
async def healthy(anyio_backend: str, module_leaves_nothing: None) -> AsyncIterator[Subject]:
    """The provider that the broken ones wrap, shared by all tests."""
    async with share_runtimes(PYTHON_ZYGOTE) as shared:
        yield shared


def test_every_rule_has_a_broken_provider() -> None:
    assert BROKEN.keys() == {rule.name for rule in RULES}


@pytest.mark.anyio
@pytest.mark.parametrize("rule", RULES, ids=[rule.name for rule in RULES])
async def test_broken_provider_is_caught_by_its_rule(rule: Rule, healthy: Subject) -> None:
    broken = BROKEN[rule.name]
    try:
        with pytest.raises(AssertionError) as caught:
            await check_rule(rule, broken.subject(healthy))
    finally:
        await end_tasks()
    message = str(caught.value)
    assert message.startswith(f"{rule.name}: ")
    assert broken.says in message
