from __future__ import annotations

import copy
import dataclasses
import pickle
import types
from typing import TYPE_CHECKING, get_args

import pytest

import code_runtime
from code_runtime import (
    AbortSignal,
    CallOutcome,
    CodeBindingErrorClass,
    CodeBindingNamespace,
    CodeCall,
    CodeRunFailure,
    CodeRunRequest,
    CodeRunResult,
    FailureKind,
    RequestError,
    RequestTypeError,
)

if TYPE_CHECKING:
    from collections.abc import Callable


class Text(str):
    def __str__(self) -> str:
        raise AssertionError

    __repr__ = __str__


def echo(argument: object) -> object:
    return argument


def test_request_has_the_fields_of_the_contract() -> None:
    """SC-007, SC-008."""
    names = [field.name for field in dataclasses.fields(CodeRunRequest)]
    assert names == ["program", "bindings", "signal", "on_log", "max_wall_ms", "record"]
    request = CodeRunRequest("return 1")
    assert [getattr(request, name) for name in names] == ["return 1", (), None, None, None, False]


def test_request_keeps_what_it_is_given() -> None:
    """SC-008."""
    signal = AbortSignal()
    space = CodeBindingNamespace("tools", {"echo": echo})
    request = CodeRunRequest(
        "return 1", [space], signal=signal, on_log=print, max_wall_ms=0.5, record=True
    )
    assert request.bindings == (space,)
    assert request.signal is signal
    assert request.on_log is print
    assert (request.max_wall_ms, request.record) == (0.5, True)


def test_request_takes_any_iterable_of_bindings_once() -> None:
    space = CodeBindingNamespace("tools", {})
    listed = [space]
    request = CodeRunRequest("", listed)
    listed.append(space)
    assert request.bindings == (space,)
    assert CodeRunRequest("", iter(listed)).bindings == (space, space)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "make",
    [
        pytest.param(lambda: CodeRunRequest(""), id="request"),
        pytest.param(lambda: CodeBindingNamespace("tools", {}), id="namespace"),
        pytest.param(lambda: CodeBindingErrorClass("E", "tool"), id="error-class"),
        pytest.param(lambda: CodeRunFailure("abort", "x"), id="failure"),
        pytest.param(lambda: CodeCall("tools", "a", 0.0, 1.0, "ok"), id="call"),
        pytest.param(lambda: CodeRunResult([]), id="result"),
    ],
)
def test_vocabulary_is_frozen_and_slotted(make: Callable[[], object]) -> None:
    item = make()
    assert not hasattr(item, "__dict__")
    name = dataclasses.fields(item)[0].name  # type: ignore[arg-type]
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(item, name, "other")


@pytest.mark.parametrize(
    ("make", "message"),
    [
        pytest.param(
            lambda: CodeRunRequest(5),  # type: ignore[arg-type]
            "Cannot build CodeRunRequest: program is 5 (int), expected str",
            id="program",
        ),
        pytest.param(
            lambda: CodeRunRequest(b"x"),  # type: ignore[arg-type]
            "Cannot build CodeRunRequest: program is bytes, expected str",
            id="program-bytes",
        ),
        pytest.param(
            lambda: CodeRunRequest("", CodeBindingNamespace("t", {})),  # type: ignore[arg-type]
            "Cannot build CodeRunRequest: bindings is CodeBindingNamespace, "
            "expected a list of CodeBindingNamespace",
            id="bindings-one",
        ),
        pytest.param(
            lambda: CodeRunRequest("", {"tools": {}}),  # type: ignore[arg-type]
            "Cannot build CodeRunRequest: bindings is dict, "
            "expected a list of CodeBindingNamespace",
            id="bindings-dict",
        ),
        pytest.param(
            lambda: CodeRunRequest("", "tools"),  # type: ignore[arg-type]
            "Cannot build CodeRunRequest: bindings is 'tools' (str), "
            "expected a list of CodeBindingNamespace",
            id="bindings-text",
        ),
        pytest.param(
            lambda: CodeRunRequest("", [CodeBindingNamespace("t", {}), None]),  # type: ignore[list-item]
            "Cannot build CodeRunRequest: bindings[1] is None, expected CodeBindingNamespace",
            id="bindings-item",
        ),
        pytest.param(
            lambda: CodeRunRequest("", signal=True),  # type: ignore[arg-type]
            "Cannot build CodeRunRequest: signal is True, expected AbortSignal or None",
            id="signal",
        ),
        pytest.param(
            lambda: CodeRunRequest("", on_log=[]),  # type: ignore[arg-type]
            "Cannot build CodeRunRequest: on_log is list, "
            "expected a plain function of one string, or None",
            id="on-log",
        ),
        pytest.param(
            lambda: CodeRunRequest("", max_wall_ms="5"),  # type: ignore[arg-type]
            "Cannot build CodeRunRequest: max_wall_ms is '5' (str), "
            "expected a positive, finite number of milliseconds, or None",
            id="wall",
        ),
        pytest.param(
            lambda: CodeRunRequest("", max_wall_ms=True),
            "Cannot build CodeRunRequest: max_wall_ms is True, "
            "expected a positive, finite number of milliseconds, or None",
            id="wall-bool",
        ),
        pytest.param(
            lambda: CodeRunRequest("", record=1),  # type: ignore[arg-type]
            "Cannot build CodeRunRequest: record is 1 (int), expected bool",
            id="record",
        ),
        pytest.param(
            lambda: CodeBindingNamespace(None, {}),  # type: ignore[arg-type]
            "Cannot build CodeBindingNamespace: global_name is None, expected str",
            id="global-name",
        ),
        pytest.param(
            lambda: CodeBindingNamespace("t", [echo]),  # type: ignore[arg-type]
            "Cannot build CodeBindingNamespace: functions is list, "
            "expected a mapping of names to functions",
            id="functions",
        ),
        pytest.param(
            lambda: CodeBindingNamespace("t", {1: echo}),  # type: ignore[dict-item]
            "Cannot build CodeBindingNamespace: a key of functions is 1 (int), expected str",
            id="function-name",
        ),
        pytest.param(
            lambda: CodeBindingNamespace("t", {}, "E"),  # type: ignore[arg-type]
            "Cannot build CodeBindingNamespace: error_class is 'E' (str), "
            "expected CodeBindingErrorClass or None",
            id="error-class",
        ),
        pytest.param(
            lambda: CodeBindingErrorClass("E", 5),  # type: ignore[arg-type]
            "Cannot build CodeBindingErrorClass: member_name_property is 5 (int), expected str",
            id="member-name-property",
        ),
        pytest.param(
            lambda: CodeRunFailure("abort", b""),  # type: ignore[arg-type]
            "Cannot build CodeRunFailure: message is bytes, expected str",
            id="message",
        ),
        pytest.param(
            lambda: CodeRunResult(()),  # type: ignore[arg-type]
            "Cannot build CodeRunResult: logs is tuple, expected list",
            id="logs",
        ),
        pytest.param(
            lambda: CodeRunResult([], error="abort"),  # type: ignore[arg-type]
            "Cannot build CodeRunResult: error is 'abort' (str), expected CodeRunFailure or None",
            id="error",
        ),
    ],
)
def test_wrong_type_is_refused_by_name(make: Callable[[], object], message: str) -> None:
    with pytest.raises(RequestTypeError) as caught:
        make()
    assert str(caught.value) == message
    assert isinstance(caught.value, TypeError)
    assert isinstance(caught.value, RequestError)


@pytest.mark.parametrize("value", [0, -1, float("nan"), float("inf"), -0.5])
def test_request_refuses_a_wall_limit_out_of_range(value: float) -> None:
    with pytest.raises(RequestError) as caught:
        CodeRunRequest("", max_wall_ms=value)
    assert str(caught.value) == (
        f"Cannot build CodeRunRequest: max_wall_ms is {value!r} ({type(value).__name__}), "
        "expected a positive, finite number of milliseconds, or None"
    )
    assert not isinstance(caught.value, TypeError)


def test_request_takes_a_wall_limit_of_any_size() -> None:
    assert CodeRunRequest("", max_wall_ms=10**400).max_wall_ms == 10**400


def test_namespace_does_not_judge_names() -> None:
    """SC-036: a bad name is refused by `run`, not here."""
    space = CodeBindingNamespace("a$b", {}, CodeBindingErrorClass("class", "__x__"))
    assert CodeRunRequest("", [space, space]).bindings == (space, space)


def test_namespace_takes_any_string_as_function_name() -> None:
    """SC-026: whatever a name means to a language, it is an ordinary member here."""
    names = ["", "__proto__", "constructor", "toString", "a b", "\ud800", "__class__"]
    space = CodeBindingNamespace("tools", dict.fromkeys(names, echo))
    assert list(space.functions) == names


def test_namespace_copies_its_functions_once() -> None:
    """SC-027: what is declared is what was there at the start."""
    functions: dict[str, Callable[..., object]] = {"a": echo}
    space = CodeBindingNamespace("tools", functions)
    functions["b"] = echo
    assert dict(space.functions) == {"a": echo}
    assert isinstance(space.functions, types.MappingProxyType)


def test_namespace_keeps_a_member_that_is_no_function() -> None:
    """SC-028."""
    space = CodeBindingNamespace("tools", {"a": 5})  # type: ignore[dict-item]
    members: list[object] = list(space.functions.values())
    assert members == [5]


def test_strings_lose_their_subclass() -> None:
    """A subclass of str could change under the hands of a provider."""
    error = CodeBindingErrorClass(Text("E"), Text("tool"))
    space = CodeBindingNamespace(Text("tools"), {Text("a"): echo}, error)
    request = CodeRunRequest(Text("return 1"), [space])
    texts = [request.program, space.global_name, *space.functions, error.name]
    texts.append(error.member_name_property)
    texts.append(CodeRunFailure("abort", Text("why")).message)
    assert {type(text) for text in texts} == {str}
    assert texts == ["return 1", "tools", "a", "E", "tool", "why"]


def test_result_has_the_fields_of_the_contract() -> None:
    """SC-035, SC-041."""
    names = [field.name for field in dataclasses.fields(CodeRunResult)]
    assert names == [
        "logs",
        "has_value",
        "value",
        "error",
        "logs_truncated",
        "calls",
        "calls_dropped",
        "log_times_ms",
        "program",
        "language",
        "elapsed_ms",
    ]
    result = CodeRunResult(["a"])
    seen = [getattr(result, name) for name in names]
    assert seen == [["a"], False, None, None, False, [], 0, None, None, None, None]
    assert result.ok


def test_result_tells_no_value_from_null() -> None:
    """SC-037."""
    assert CodeRunResult([]).has_value is False
    null = CodeRunResult([], has_value=True, value=None)
    assert (null.has_value, null.value, null.ok) == (True, None, True)


def test_result_refuses_value_beside_error() -> None:
    """SC-038."""
    with pytest.raises(RequestError) as caught:
        CodeRunResult([], has_value=True, error=CodeRunFailure("abort", "x"))
    assert str(caught.value) == (
        "Cannot build CodeRunResult: error is CodeRunFailure, expected None beside a value"
    )


def test_result_refuses_value_without_has_value() -> None:
    """SC-038."""
    with pytest.raises(RequestError) as caught:
        CodeRunResult([], value=0)
    assert str(caught.value) == (
        "Cannot build CodeRunResult: value is 0 (int), expected None while has_value is False"
    )


def test_result_with_error_is_not_ok() -> None:
    """SC-036: a failure is a value."""
    failure = CodeRunFailure("timeout", "the wall limit of 5 ms is over")
    result = CodeRunResult(["a"], error=failure)
    assert (result.ok, result.error, result.has_value) == (False, failure, False)


def test_failure_kinds_are_those_of_the_contract() -> None:
    """SC-039."""
    kinds = ("exception", "timeout", "abort", "worker-exit", "invalid-output", "output-limit")
    assert get_args(FailureKind) == kinds
    assert [CodeRunFailure(kind, "m").kind for kind in get_args(FailureKind)] == list(kinds)


def test_failure_refuses_another_kind() -> None:
    """SC-039."""
    with pytest.raises(RequestError) as caught:
        CodeRunFailure("oops", "m")  # type: ignore[arg-type]
    assert str(caught.value) == (
        "Cannot build CodeRunFailure: kind is 'oops' (str), expected one of "
        "exception, timeout, abort, worker-exit, invalid-output, output-limit"
    )


def test_call_outcomes_are_those_of_the_contract() -> None:
    outcomes = ("ok", "error", "refused", "cancelled", "abandoned")
    assert get_args(CallOutcome) == outcomes
    with pytest.raises(RequestError) as caught:
        CodeCall("tools", "a", 0.0, 1.0, "lost")  # type: ignore[arg-type]
    assert str(caught.value) == (
        "Cannot build CodeCall: outcome is 'lost' (str), expected one of "
        "ok, error, refused, cancelled, abandoned"
    )


def test_results_are_equal_only_to_themselves() -> None:
    """Comparing two values that are 1,000,000 levels deep would recurse."""
    one, two = CodeRunResult(["a"]), CodeRunResult(["a"])
    assert one == one
    assert one != two
    assert len({one, two}) == 2


def test_small_data_is_compared_by_content() -> None:
    assert CodeRunFailure("abort", "x") == CodeRunFailure("abort", "x")
    assert CodeCall("t", "a", 0.0, 1.0, "ok") == CodeCall("t", "a", 0.0, 1.0, "ok")
    one, two = (CodeBindingNamespace("t", {"a": echo}) for _ in range(2))
    assert one == two
    assert hash(one) == hash(two)
    assert one != CodeBindingNamespace("t", {"b": echo})


@pytest.mark.parametrize(
    "clone", [copy.copy, copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))]
)
def test_vocabulary_can_be_copied(clone: Callable[[object], object]) -> None:
    error = CodeBindingErrorClass("E", "tool")
    request = CodeRunRequest(
        "return 1", [CodeBindingNamespace("t", {"a": echo}, error)], max_wall_ms=5
    )
    again = clone(request)
    assert isinstance(again, CodeRunRequest)
    assert again is not request
    fields = [field.name for field in dataclasses.fields(CodeRunRequest)]
    assert [getattr(again, name) for name in fields] == [getattr(request, name) for name in fields]
    call = CodeCall("t", "a", 0.0, 1.0, "ok", argument_preview="{}")
    result = CodeRunResult(["l"], has_value=True, value={"a": [1]}, calls=[call])
    other = clone(result)
    assert isinstance(other, CodeRunResult)
    assert (other.logs, other.value, other.calls) == (result.logs, result.value, result.calls)


def _errors() -> list[type[code_runtime.CodeRuntimeError]]:
    return [
        item
        for item in vars(code_runtime).values()
        if isinstance(item, type) and issubclass(item, code_runtime.CodeRuntimeError)
    ]


_ARGUMENTS: dict[str, tuple[object, ...]] = {
    "CodeRuntimeError": ("text",),
    "BindingNameError": ("bindings[0].global_name", "a$b", "letters"),
    "ForkedHostError": ("X", 1, 2),
    "PluginNotFoundError": ("worker-thread", ("b",)),
    "PluginTypeError": ("5 (int)", "a plugin"),
    "RuntimeDisposedError": ("X",),
    "ServiceExistsError": ("k", "A", "B"),
    "ServiceMissingError": ("k",),
    "HostStartError": ("the Node host", "nothing", "something"),
    "ContextStateError": ("do", "this", "that"),
}


@pytest.mark.parametrize("kind", _errors(), ids=lambda kind: kind.__name__)
def test_errors_can_be_pickled(kind: type[code_runtime.CodeRuntimeError]) -> None:
    error = kind(*_ARGUMENTS.get(kind.__name__, ("Owner", "field", "5 (int)", "str")))
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is kind
    assert str(again) == str(error)
    assert vars(again) == vars(error)


def test_binding_name_error_is_bounded() -> None:
    error = code_runtime.BindingNameError("bindings[0].global_name", "x" * 1_000, "a shorter name")
    assert str(error) == (
        f"Cannot declare bindings: bindings[0].global_name is '{'x' * 119}…', "
        "expected a shorter name"
    )
