"""All rules of the suite, in the order in which they are checked."""

from __future__ import annotations

from typing import Final

from . import (  # noqa: F401  each registers its rules when it is imported
    _rules_abort,
    _rules_budgets,
    _rules_calls,
    _rules_endings,
    _rules_isolation,
    _rules_journal,
    _rules_logs,
    _rules_names,
    _rules_output,
    _rules_programs,
    _rules_service,
    _rules_values,
)
from ._rule import Rule, registered

RULES: Final[tuple[Rule, ...]] = registered()
"""Every rule of the contract, grouped by theme."""
