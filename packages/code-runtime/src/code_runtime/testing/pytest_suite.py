"""The conformance suite as a class of pytest: `pip install code-runtime[testing]`."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from . import RULES, Rule, Subject, check_rule, share_runtimes


class ProviderConformance:
    """One test for each rule of the contract; subclass it and define `subject`.

    ```python
    class TestMyProvider(ProviderConformance):
        @classmethod
        def subject(cls) -> Subject:
            return Subject(provider=..., language="...", programs=...)
    ```

    The tests run on the event loops of the `anyio_backend` fixture, and share the runtimes that
    they open for the same limits. A rule that does not apply to the subject is skipped, with the
    reason that `Rule.why_not` gives.
    """

    @classmethod
    def subject(cls) -> Subject:
        """Return the subject to check."""
        raise NotImplementedError(
            f"Cannot check a provider: {cls.__qualname__} does not define subject(), "
            "expected a class method that returns a Subject"
        )

    @pytest.fixture(scope="class")
    @classmethod
    async def shared_subject(cls, anyio_backend: object) -> AsyncIterator[Subject]:
        """Share the runtimes of the subject between the tests of the class."""
        async with share_runtimes(cls.subject()) as shared:
            yield shared

    @pytest.mark.anyio
    @pytest.mark.parametrize("rule", RULES, ids=[rule.name for rule in RULES])
    async def test_rule(self, rule: Rule, shared_subject: Subject) -> None:
        """Check one rule."""
        reason = rule.why_not(shared_subject)
        if reason is not None:
            pytest.skip(reason)
        await check_rule(rule, shared_subject)
