"""Checks a provider without a test framework."""

from __future__ import annotations

from collections.abc import Iterable

from ._rule import Rule, check_rule
from ._rules import RULES
from ._subject import Subject, share_runtimes


async def check_provider(
    subject: Subject, rules: Iterable[Rule] = RULES
) -> list[tuple[Rule, Exception]]:
    """Check the rules one after the other and return those that the provider breaks.

    Rules that do not apply (see `Rule.why_not`) are left out.

    Args:
        subject: The provider and its programs.
        rules: What to check; all rules by default.

    Returns:
        Each broken rule with what was raised: an AssertionError that says what was seen and
        expected, or whatever else the provider raised. An empty list for a sound provider.
    """
    broken: list[tuple[Rule, Exception]] = []
    async with share_runtimes(subject) as shared:
        for rule in rules:
            if rule.why_not(subject) is None:
                try:
                    await check_rule(rule, shared)
                except Exception as error:
                    broken.append((rule, error))
    return broken
