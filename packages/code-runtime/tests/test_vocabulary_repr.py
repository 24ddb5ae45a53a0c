from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from code_runtime import (
    AbortSignal,
    CodeBindingErrorClass,
    CodeBindingNamespace,
    CodeCall,
    CodeRunFailure,
    CodeRunRequest,
    CodeRunResult,
)
from code_runtime._text import bounded_repr, describe
from code_runtime._vocabulary import MAX_REPR_CHARS

_ERROR = CodeBindingErrorClass("ToolError", "tool")


@pytest.mark.parametrize(
    ("item", "text"),
    [
        pytest.param(CodeRunRequest("return 1"), "CodeRunRequest('return 1')", id="request"),
        pytest.param(
            CodeRunRequest(
                "return 1",
                [CodeBindingNamespace("tools", {"add": print, "sub": print}, _ERROR)],
                signal=AbortSignal(),
                on_log=print,
                max_wall_ms=500,
                record=True,
            ),
            "CodeRunRequest('return 1', bindings=[CodeBindingNamespace('tools', ['add', 'sub'], "
            "error_class=CodeBindingErrorClass('ToolError', 'tool'))], "
            "signal=AbortSignal(aborted=False), on_log=<function>, max_wall_ms=500, record=True)",
            id="request-full",
        ),
        pytest.param(CodeRunResult([]), "CodeRunResult(logs=[])", id="result-empty"),
        pytest.param(
            CodeRunResult(
                ["sum 3"],
                has_value=True,
                value={"n": 3, "list": [1, 2.5, None, True], "t": ("x",)},
                calls=[CodeCall("tools", "add", 0.0, 1.0, "ok")],
            ),
            "CodeRunResult(logs=['sum 3'], value={'n': 3, 'list': [1, 2.5, None, True], "
            "'t': ('x',)}, calls=<1 call>)",
            id="result-value",
        ),
        pytest.param(
            CodeRunResult(
                [],
                error=CodeRunFailure("abort", "stop"),
                logs_truncated=True,
                calls=[CodeCall("tools", "add", 0.0, 1.0, "ok")],
                calls_dropped=2,
            ),
            "CodeRunResult(logs=[], error=CodeRunFailure('abort', 'stop'), "
            "logs_truncated=True, calls=<3 calls>)",
            id="result-error",
        ),
        pytest.param(
            CodeCall("tools", "add", 1.26, 1000, "ok", argument_preview='{"a":1}'),
            "CodeCall('tools', 'add', started_ms=1.3, duration_ms=1000.0, 'ok', "
            "argument_preview='{\"a\":1}')",
            id="call",
        ),
    ],
)
def test_repr_is_readable(item: object, text: str) -> None:
    assert repr(item) == text


def _deep(kind: str, levels: int) -> object:
    value: object = 0
    for _ in range(levels):
        value = [value] if kind == "list" else {"k": value}
    return value


@pytest.mark.parametrize("kind", ["list", "dict"])
def test_repr_of_a_result_survives_a_million_levels(kind: str) -> None:
    result = CodeRunResult([], has_value=True, value=_deep(kind, 1_000_000))
    text = repr(result)
    start = "[" * 500 if kind == "list" else "{'k': " * 100
    assert text.startswith("CodeRunResult(logs=[], value=" + start)
    assert len(text) <= 760


_HUGE = "\x00" * 1_000_000


@pytest.mark.parametrize(
    "item",
    [
        pytest.param(CodeBindingErrorClass(_HUGE, _HUGE), id="error-class"),
        pytest.param(
            CodeRunRequest(
                _HUGE,
                [
                    CodeBindingNamespace(
                        _HUGE, {f"{i}{_HUGE}": print}, CodeBindingErrorClass(_HUGE, _HUGE)
                    )
                    for i in range(30)
                ],
                signal=AbortSignal(),
                on_log=print,
                max_wall_ms=10**5_000,
                record=True,
            ),
            id="request",
        ),
        pytest.param(
            CodeRunResult(
                [_HUGE] * 3,
                error=CodeRunFailure("exception", _HUGE),
                logs_truncated=True,
                calls_dropped=10**9,
            ),
            id="failed-result",
        ),
        pytest.param(
            CodeRunResult([_HUGE] * 3, has_value=True, value=[0] * 1_000_000), id="long-result"
        ),
        pytest.param(
            CodeCall(
                _HUGE,
                _HUGE,
                0.0,
                0.0,
                "abandoned",
                argument_preview=_HUGE,
                result_preview=_HUGE,
            ),
            id="call",
        ),
    ],
)
def test_repr_is_bounded(item: object) -> None:
    text = repr(item)
    assert len(text) <= MAX_REPR_CHARS
    assert text.endswith(")")


class _Bomb:
    def __repr__(self) -> str:
        raise AssertionError

    __str__ = __repr__


class _Dict(dict[str, int]):
    def items(self):  # type: ignore[no-untyped-def]
        raise AssertionError


def test_bounded_repr_runs_no_code_of_the_value() -> None:
    numbers: set[int] = {1}
    value: list[object] = [_Bomb(), _Dict(), numbers, b"x", 10**400]
    text = bounded_repr(value, limit=200)
    assert text == "[<_Bomb>, <_Dict>, <set>, b'x', <int of 1329 bits>]"


def test_describe_names_the_type() -> None:
    values: list[object] = [None, True, 5, "a", 0.5, [1], _Bomb(), "x" * 500]
    seen = [describe(value) for value in values]
    assert seen == [
        "None",
        "True",
        "5 (int)",
        "'a' (str)",
        "0.5 (float)",
        "list",
        "_Bomb",
        f"'{'x' * 118}… (str)",
    ]


_SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text()
_VALUES = st.recursive(
    _SCALARS,
    lambda inner: (
        st.lists(inner)
        | st.dictionaries(st.text(), inner)
        | st.lists(inner).map(lambda items: tuple(items))
    ),
    max_leaves=8,
)


@given(_VALUES)
def test_bounded_repr_equals_repr_when_it_fits(value: object) -> None:
    assert bounded_repr(value, limit=10_000) == repr(value)


@given(_VALUES, st.integers(min_value=2, max_value=30))
def test_bounded_repr_is_never_longer(value: object, limit: int) -> None:
    assert len(bounded_repr(value, limit=limit)) <= limit
