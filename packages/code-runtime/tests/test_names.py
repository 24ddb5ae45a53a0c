"""Name rules of namespaces, error classes and member properties."""

from __future__ import annotations

import json
import keyword
import string
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from code_runtime._errors import BindingNameError, CodeRuntimeError
from code_runtime._names import (
    ERROR_OWNED,
    PROGRAM_OWNED,
    RESERVED_WORDS,
    RUNTIME_OWNED,
    check_namespaces,
)

VECTORS = json.loads(
    (Path(__file__).parents[3] / "tests/vectors/names/namespaces.json").read_text("utf-8")
)


@dataclass
class ErrorClass:
    name: str
    member_name_property: str


@dataclass
class Namespace:
    global_name: str
    functions: Mapping[str, object] = field(default_factory=dict)
    error_class: ErrorClass | None = None


def build(described: list[dict[str, Any]]) -> list[Namespace]:
    return [
        Namespace(
            item["globalName"],
            dict.fromkeys(item["members"], print),
            None
            if item["errorClass"] is None
            else ErrorClass(item["errorClass"]["name"], item["errorClass"]["memberNameProperty"]),
        )
        for item in described
    ]


@pytest.mark.parametrize(
    "case", [pytest.param(case, id=ascii(case["name"])[1:-1][:60]) for case in VECTORS["cases"]]
)
def test_names_vector(case: dict[str, Any]) -> None:
    """SC-012 to SC-026, GP-010; each case names its line."""
    namespaces = build(case["namespaces"])
    refused = case["refused"]
    if refused is None:
        check_namespaces(namespaces)
        return
    with pytest.raises(BindingNameError) as caught:
        check_namespaces(namespaces)
    assert caught.value.field == f"bindings[{refused['index']}].{refused['field']}"
    assert caught.value.name == refused["seen"]


def test_reserved_words_are_71() -> None:
    """SC-014, SC-015."""
    assert len(RESERVED_WORDS) == 71
    assert set(keyword.kwlist) | set(keyword.softkwlist) <= RESERVED_WORDS
    assert sorted(RESERVED_WORDS) == sorted(VECTORS["reservedWords"])


def test_owned_names_equal_the_vectors() -> None:
    """SC-016, SC-024, GP-010."""
    assert sorted(RUNTIME_OWNED) == sorted(VECTORS["runtimeOwned"])
    assert sorted(PROGRAM_OWNED) == sorted(VECTORS["programOwned"])


def test_owned_names_are_identifiers_and_not_reserved() -> None:
    for name in RUNTIME_OWNED | PROGRAM_OWNED:
        assert name.isidentifier()
        assert name not in RESERVED_WORDS
    assert not RUNTIME_OWNED & PROGRAM_OWNED


@pytest.mark.parametrize(
    ("namespaces", "message"),
    [
        pytest.param(
            [Namespace("$tools")],
            "Cannot declare bindings: bindings[0].global_name is '$tools', expected a letter A-Z, "
            "a-z or underscore, then letters, digits, underscores",
            id="identifier",
        ),
        pytest.param(
            [Namespace("lambda")],
            "Cannot declare bindings: bindings[0].global_name is 'lambda', expected a word that "
            "neither TypeScript nor Python reserves",
            id="reserved",
        ),
        pytest.param(
            [Namespace("ok"), Namespace("console")],
            "Cannot declare bindings: bindings[1].global_name is 'console', expected a name that "
            "no runtime uses itself",
            id="runtime-owned",
        ),
        pytest.param(
            [Namespace("Promise")],
            "Cannot declare bindings: bindings[0].global_name is 'Promise', expected a name that "
            "programs do not need for a built-in",
            id="program-owned",
        ),
        pytest.param(
            [Namespace("a"), Namespace("a")],
            "Cannot declare bindings: bindings[1].global_name is 'a', expected one namespace for "
            "each global name",
            id="duplicate global",
        ),
        pytest.param(
            [Namespace("a", error_class=ErrorClass("a", "m"))],
            "Cannot declare bindings: bindings[0].error_class.name is 'a', expected a name that no "
            "namespace and no other error class has",
            id="duplicate error class",
        ),
        pytest.param(
            [Namespace("a", error_class=ErrorClass("E", "stack"))],
            "Cannot declare bindings: bindings[0].error_class.member_name_property is 'stack', "
            "expected a name that is not empty, not of the form '__x__', and none of 'add_note', "
            "'args', 'message', 'name', 'stack', 'with_traceback'",
            id="member property",
        ),
    ],
)
def test_names_message_tells_field_name_and_rule(namespaces: list[Namespace], message: str) -> None:
    """SC-013 to SC-021."""
    with pytest.raises(BindingNameError) as caught:
        check_namespaces(namespaces)
    assert str(caught.value) == message
    assert isinstance(caught.value, CodeRuntimeError)
    assert isinstance(caught.value, ValueError)


def is_accepted(name: str) -> bool:
    try:
        check_namespaces([Namespace(name)])
    except BindingNameError:
        return False
    return True


@settings(deadline=None)  # a loaded machine is no fault
@given(
    st.text(st.sampled_from("aZ_09$ \n\té\u0661\uff41\ud800-"), max_size=4) | st.text(max_size=4)
)
def test_names_identifier_rule_equals_a_spelled_out_one(name: str) -> None:
    """SC-013, SC-017: whole string, ASCII only, everything else accepted."""
    letters = string.ascii_letters + "_"
    valid = name[:1] in set(letters) and all(c in letters + string.digits for c in name)
    refused = RESERVED_WORDS | RUNTIME_OWNED | PROGRAM_OWNED
    assert is_accepted(name) is (valid and name not in refused)


@settings(deadline=None)  # a loaded machine is no fault
@given(st.text(st.sampled_from("_a\n\u2028b"), max_size=7) | st.text(max_size=5))
def test_names_dunder_rule_equals_a_spelled_out_one(name: str) -> None:
    """SC-021 to SC-023."""
    one_line = not set(name) & set("\n\r\u2028\u2029")
    dunder = len(name) >= 5 and name.startswith("__") and name.endswith("__") and one_line
    valid = bool(name) and name not in ERROR_OWNED and not dunder
    try:
        check_namespaces([Namespace("tools", error_class=ErrorClass("E", name))])
    except BindingNameError:
        assert not valid
    else:
        assert valid
