"""A rule of the contract: one sentence, and a function that checks it on a provider."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, replace
from typing import Final, TypeAlias, final

import anyio

from ._programs import PROGRAM_KEYS
from ._subject import ALL_LIMITS, Subject

Check: TypeAlias = Callable[[Subject], Awaitable[None]]

_THEMES: Final = (
    *("service", "programs", "names", "values", "calls", "logs", "output", "budgets"),
    *("abort", "endings", "isolation", "journal"),
)
_NUMBER: Final = re.compile(r"\b(?:SC|WT|PY|GP|BF)-\d{3}\b")


@final
@dataclass(frozen=True, slots=True)
class Rule:
    """One rule of the contract.

    Args:
        name: Its name, unique in the suite.
        theme: The group that it belongs to, such as `values`.
        statement: What must hold, in one sentence.
        numbers: The numbers of the behaviours that it pins.
        programs: The keys of the programs that it runs.
        limits: The fields of `Limits` that it needs.
        check: Raises AssertionError when a subject breaks the rule.
    """

    name: str
    theme: str
    statement: str
    numbers: tuple[str, ...]
    programs: frozenset[str]
    limits: frozenset[str]
    check: Check

    def why_not(self, subject: Subject) -> str | None:
        """Say why the rule does not apply to a subject; None when it does."""
        for key in sorted(self.programs):
            if subject.programs[key] is None:
                return f"{subject.language} has no program {key!r}"
        for name in sorted(self.limits - subject.limits):
            return f"the provider has no limit {name!r}"
        return None


_rules: list[Rule] = []


def rule(*programs: str, limits: Iterable[str] = ()) -> Callable[[Check], Check]:
    """Register a check as a rule; its name and docstring become those of the rule.

    Args:
        *programs: The keys of the programs that it runs.
        limits: The fields of `Limits` that it sets.
    """
    needed = frozenset(limits)
    assert PROGRAM_KEYS.keys() >= set(programs), programs
    assert needed <= ALL_LIMITS, needed

    def register(check: Check) -> Check:
        text = check.__doc__ or ""
        _rules.append(
            Rule(
                name=check.__name__,
                theme=check.__module__.rpartition("_rules_")[2],
                statement=text.partition("\n")[0],
                numbers=tuple(_NUMBER.findall(text)),
                programs=frozenset(programs),
                limits=needed,
                check=check,
            )
        )
        return check

    return register


def registered() -> tuple[Rule, ...]:
    """Return the rules by theme, and within one in the order of their registration."""
    return tuple(sorted(_rules, key=lambda item: _THEMES.index(item.theme)))


async def check_rule(rule: Rule, subject: Subject) -> None:
    """Check one rule that applies to the subject.

    Args:
        rule: The rule; `rule.why_not(subject)` is None.
        subject: The provider, and what the rule needs to exercise it.

    Raises:
        AssertionError: The subject breaks the rule; the text begins with the rule's name and says
            what was seen and what was expected.
        Exception: Whatever else the provider raised.
    """
    # A rule sees the programs that it has declared, so that what it declares is true.
    programs = {
        key: text if key in rule.programs else None for key, text in subject.programs.items()
    }
    try:
        with anyio.fail_after(subject.patience_s):
            await rule.check(replace(subject, programs=programs))
    except TimeoutError as error:
        raise AssertionError(
            f"{rule.name}: no end after {subject.patience_s:g} s, expected: {rule.statement}"
        ) from error
    except (AssertionError, BaseExceptionGroup) as error:
        cause = _first(error)
        if isinstance(cause, AssertionError):
            raise AssertionError(f"{rule.name}: {cause}") from cause
        raise cause from None


def _first(error: BaseException) -> BaseException:
    """Return the first error in a group: a task group wraps what one of its tasks raised."""
    while isinstance(error, BaseExceptionGroup):
        error = next(
            (item for item in error.exceptions if isinstance(item, AssertionError)),
            error.exceptions[0],
        )
    return error
