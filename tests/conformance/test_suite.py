"""The suite itself: what a subject must have, what does not apply, how a rule fails."""

from __future__ import annotations

import dataclasses
import subprocess
import sys

import anyio
import anyio.lowlevel
import pytest

from code_runtime.testing import (
    PROGRAM_KEYS,
    PYTHON_PROGRAMS,
    RULES,
    TYPESCRIPT_PROGRAMS,
    Rule,
    Subject,
    SubjectError,
    check_provider,
    check_rule,
)
from code_runtime.testing.pytest_suite import ProviderConformance

from .breaking import Broken, changes_message
from .subjects import PYTHON_ZYGOTE

HOLDS = Rule(
    "holds",
    "service",
    "It holds.",
    (),
    frozenset(),
    frozenset(),
    lambda _: anyio.lowlevel.checkpoint(),
)


def with_check(check: object, **fields: object) -> Rule:
    return dataclasses.replace(HOLDS, check=check, **fields)  # type: ignore[arg-type]


@pytest.mark.parametrize("programs", [PYTHON_PROGRAMS, TYPESCRIPT_PROGRAMS])
def test_tables_have_every_program(programs: dict[str, str | None]) -> None:
    assert programs.keys() == PROGRAM_KEYS.keys()
    assert all(programs.values())


def test_every_rule_has_a_name_and_a_sentence() -> None:
    assert len({rule.name for rule in RULES}) == len(RULES)
    for rule in RULES:
        assert rule.statement.endswith("."), rule.name


def test_every_program_is_used_by_a_rule() -> None:
    assert {key for rule in RULES for key in rule.programs} == PROGRAM_KEYS.keys()


def test_subject_without_a_program_is_refused() -> None:
    programs = {key: text for key, text in PYTHON_PROGRAMS.items() if key != "relay"}
    with pytest.raises(SubjectError) as caught:
        Subject(PYTHON_ZYGOTE.provider, "python", programs)
    assert str(caught.value) == (
        "Cannot build Subject: programs: 'relay' is missing, expected a program: "
        + PROGRAM_KEYS["relay"]
    )


def test_subject_with_an_unknown_program_is_refused() -> None:
    with pytest.raises(SubjectError) as caught:
        Subject(PYTHON_ZYGOTE.provider, "python", {**PYTHON_PROGRAMS, "relai": ""})
    assert str(caught.value) == (
        "Cannot build Subject: programs: 'relai' is unknown, expected the keys of PROGRAM_KEYS"
    )


def test_subject_with_an_unknown_limit_is_refused() -> None:
    with pytest.raises(SubjectError, match="'memory' is unknown"):
        dataclasses.replace(PYTHON_ZYGOTE, limits=frozenset({"memory"}))


def test_rule_does_not_apply_without_its_program_or_limit() -> None:
    subject = dataclasses.replace(
        PYTHON_ZYGOTE, programs={**PYTHON_PROGRAMS, "hot": None}, limits=frozenset({"wall_ms"})
    )
    hot = dataclasses.replace(HOLDS, programs=frozenset({"hot"}))
    busy = dataclasses.replace(HOLDS, limits=frozenset({"busy_ms"}))
    assert HOLDS.why_not(subject) is None
    assert hot.why_not(subject) == "python has no program 'hot'"
    assert busy.why_not(subject) == "the provider has no limit 'busy_ms'"


@pytest.mark.anyio
async def test_rule_that_does_not_end_is_broken() -> None:
    async def never(_: Subject) -> None:
        await anyio.sleep_forever()

    subject = dataclasses.replace(PYTHON_ZYGOTE, patience_s=0.01)
    with pytest.raises(AssertionError) as caught:
        await check_rule(with_check(never), subject)
    assert str(caught.value) == "holds: no end after 0.01 s, expected: It holds."


@pytest.mark.anyio
async def test_failed_expectation_in_a_task_names_its_rule() -> None:
    async def nested(_: Subject) -> None:
        async with anyio.create_task_group():
            raise AssertionError("seen, expected")

    with pytest.raises(AssertionError) as caught:
        await check_rule(with_check(nested), PYTHON_ZYGOTE)
    assert str(caught.value) == "holds: seen, expected"


@pytest.mark.anyio
async def test_rule_reaches_only_the_programs_that_it_declares() -> None:
    async def undeclared(subject: Subject) -> None:
        subject.request("relay")

    with pytest.raises(AssertionError):
        await check_rule(with_check(undeclared), PYTHON_ZYGOTE)


@pytest.mark.anyio
async def test_check_provider_returns_what_is_broken() -> None:
    """Both ends: a healthy provider breaks nothing, a broken one the rules about its fault."""
    rules = [rule for rule in RULES if rule.name.startswith("a_failure_shows")]
    assert await check_provider(PYTHON_ZYGOTE, rules) == []
    broken = Broken("", changes_message(lambda _: "no")).subject(PYTHON_ZYGOTE)
    found = await check_provider(broken, rules)
    assert [rule.name for rule, _ in found] == ["a_failure_shows_the_line_that_failed"]
    assert isinstance(found[0][1], AssertionError)


def test_class_without_a_subject_says_so() -> None:
    with pytest.raises(NotImplementedError) as caught:
        ProviderConformance.subject()
    assert str(caught.value) == (
        "Cannot check a provider: ProviderConformance does not define subject(), "
        "expected a class method that returns a Subject"
    )


def test_suite_does_not_need_pytest() -> None:
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            "import sys, code_runtime.testing; assert 'pytest' not in sys.modules",
        ]
    )
    assert done.returncode == 0
