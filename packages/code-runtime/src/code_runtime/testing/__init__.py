"""The conformance suite of providers: every rule of the contract, checked on any provider.

With pytest, subclass `code_runtime.testing.pytest_suite.ProviderConformance`; without it, call
`check_provider`. `docs/how-to/write-a-provider.md` shows both.
"""

from __future__ import annotations

from ._checking import check_provider
from ._programs import PROGRAM_KEYS
from ._programs_python import PYTHON_PROGRAMS
from ._programs_typescript import TYPESCRIPT_PROGRAMS
from ._rule import Rule, check_rule
from ._rules import RULES
from ._subject import (
    ALL_LIMITS,
    Limits,
    ProviderFactory,
    Subject,
    SubjectError,
    plugin_provider,
    share_runtimes,
)

__all__ = [
    "ALL_LIMITS",
    "PROGRAM_KEYS",
    "PYTHON_PROGRAMS",
    "RULES",
    "TYPESCRIPT_PROGRAMS",
    "Limits",
    "ProviderFactory",
    "Rule",
    "Subject",
    "SubjectError",
    "check_provider",
    "check_rule",
    "plugin_provider",
    "share_runtimes",
]
