"""Names: both rule sets give the same verdict, and what they accept works in both languages."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from fuzzing import NodePeer, Runtimes, examples, keys, texts
from hypothesis import assume, given
from hypothesis import strategies as st

from code_runtime import (
    BindingNameError,
    CodeBindingErrorClass,
    CodeBindingNamespace,
    CodeRunRequest,
)
from code_runtime._names import (
    ERROR_OWNED,
    PROGRAM_OWNED,
    RESERVED_WORDS,
    RUNTIME_OWNED,
    check_namespaces,
)

KNOWN = sorted(RESERVED_WORDS | RUNTIME_OWNED | PROGRAM_OWNED | ERROR_OWNED)
# Names that a runtime, its wrapper or a program may hold for its own.
TEMPTING = [
    "require",
    "process",
    "module",
    "exports",
    "global",
    "window",
    "self",
    "Buffer",
    "fetch",
    "setTimeout",
    "Function",
    "Reflect",
    "Proxy",
    "Uint8Array",
    "async",
    "of",
    "get",
    "set",
    "program",
    "main",
    "__main__",
    "__file__",
    "__import__",
    "__doc__",
    "input",
    "open",
    "exec",
    "id",
    "type_",
    "asyncio",
    "sys",
    "os",
    "json",
    "RuntimeError",
    "BaseException",
    "toString",
    "constructor",
    "prototype",
    "then",
    "value",
    "result",
    "error",
    "namespaces",
    "__proto__",
    "caller",
    "callee",
    "hasOwnProperty",
    "a",
    "A",
    "_a",
    "__",
    "___",
    "__x__",
    "x1",
]
plausible = st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,5}", fullmatch=True) | st.sampled_from(TEMPTING)
global_names = plausible | st.sampled_from(KNOWN) | texts | plausible.map(lambda name: name + "\n")
properties = global_names | keys | st.from_regex(r"__[a\n\r\u2028\u0085]{0,2}__", fullmatch=True)
error_classes = st.none() | st.builds(CodeBindingErrorClass, global_names, properties)


def namespace(global_name: str, error: CodeBindingErrorClass | None) -> CodeBindingNamespace:
    return CodeBindingNamespace(global_name, {}, error)


drawn_namespaces = st.lists(
    st.builds(namespace, global_names, error_classes), max_size=3
) | st.builds(lambda name: [namespace("tools", CodeBindingErrorClass("E", name))], properties)


def described(namespaces: list[CodeBindingNamespace]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for item in namespaces:
        found.append({"globalName": item.global_name})
        if item.error_class is not None:
            found[-1]["errorClass"] = {
                "name": item.error_class.name,
                "memberNameProperty": item.error_class.member_name_property,
            }
    return found


def verdict(namespaces: list[CodeBindingNamespace]) -> list[str] | None:
    """Return the field, as TypeScript spells it, and the name that are refused."""
    try:
        check_namespaces(namespaces)
    except BindingNameError as error:
        field = re.sub("_([a-z])", lambda match: match[1].upper(), error.field)
        return [field, error.name]
    return None


@examples(60)
@given(st.lists(drawn_namespaces, max_size=10))
def test_names_have_the_same_verdict_in_both_languages(
    peer: NodePeer, drawn: list[list[CodeBindingNamespace]]
) -> None:
    """SC-012 to SC-026."""
    answers = peer.ask("names", [described(namespaces) for namespaces in drawn])
    for namespaces, answer in zip(drawn, answers, strict=True):
        assert (described(namespaces), verdict(namespaces)) == (described(namespaces), answer)


PROGRAMS = {
    "typescript": """
        const [spaces, error, prop, member] = DESCRIPTION;
        const found = [];
        for (const space of SPACES) found.push(await space[member](1));
        try {
            await FIRST.fail_(2);
        } catch (caught) {
            found.push([caught instanceof ERROR, caught[prop], caught.message]);
        }
        return found;
    """,
    "python": """
spaces, error, prop, member = DESCRIPTION
found = []
for space in SPACES:
    found.append(await space[member](1))
try:
    await FIRST.fail_(2)
except ERROR as caught:
    found.append([True, getattr(caught, prop), str(caught)])
return found
""",
}
# Names that the test programs themselves hold.
OURS = {"spaces", "error", "prop", "member", "found", "space", "caught", "getattr"}


def fail(_: object) -> None:
    raise ValueError("no")


@pytest.mark.parametrize("language", PROGRAMS)
@examples(20, processes=True)
@given(
    st.lists(plausible, min_size=1, max_size=3, unique=True), plausible, properties, texts | keys
)
def test_names_that_are_accepted_work_in_a_program(
    runtimes: Runtimes, language: str, spaces: list[str], error: str, prop: str, member: str
) -> None:
    """SC-024, SC-026: whatever passes the rules is a global, a class, a property, a member."""
    assume(not OURS & {*spaces, error} and member != "fail_")
    functions = {member: lambda value: [value], "fail_": fail}
    namespaces = [CodeBindingNamespace(space, functions) for space in spaces]
    namespaces[0] = CodeBindingNamespace(spaces[0], functions, CodeBindingErrorClass(error, prop))
    try:
        check_namespaces(namespaces)
    except BindingNameError:
        assume(False)
    spell = json.dumps if language == "typescript" else ascii
    program = (
        PROGRAMS[language]
        .replace("DESCRIPTION", spell([spaces, error, prop, member]))
        .replace("SPACES", f"[{', '.join(spaces)}]")
        .replace("FIRST", spaces[0])
        .replace("ERROR", error)
    )
    result = runtimes[language].run(CodeRunRequest(program, namespaces))
    assert result.error is None, result.error
    assert result.value == [*([1] for _ in spaces), [True, "fail_", "no"]]
