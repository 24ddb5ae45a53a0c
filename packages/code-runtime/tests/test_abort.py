from __future__ import annotations

import signal
import threading
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from code_runtime import AbortSignal
from code_runtime._abort import (
    DEFAULT_REASON,
    MAX_REASON_BYTES,
    UNRENDERABLE_REASON,
    render_reason,
)

if TYPE_CHECKING:
    from collections.abc import Callable


def test_signal_starts_quiet() -> None:
    quiet = AbortSignal()
    assert (quiet.aborted, quiet.reason) == (False, None)
    assert repr(quiet) == "AbortSignal(aborted=False)"


def test_signal_first_abort_wins() -> None:
    """SC-008: the first reason stays."""
    fired = AbortSignal()
    fired.abort("one")
    fired.abort("two")
    assert (fired.aborted, fired.reason) == (True, "one")


def test_signal_without_reason_is_aborted() -> None:
    fired = AbortSignal()
    fired.abort()
    fired.abort("late")
    assert (fired.aborted, fired.reason) == (True, None)


def test_listener_is_called_once_in_order() -> None:
    fired = AbortSignal()
    seen: list[str] = []
    fired.add_listener(lambda: seen.append("a"))
    fired.add_listener(lambda: seen.append("b"))
    fired.abort()
    fired.abort()
    assert seen == ["a", "b"]


def test_listener_of_fired_signal_is_called_at_once() -> None:
    """SC-011."""
    fired = AbortSignal()
    fired.abort()
    seen: list[str] = []
    remove = fired.add_listener(lambda: seen.append("a"))
    assert seen == ["a"]
    remove()


def test_removed_listener_is_not_called() -> None:
    """WT-163."""
    fired = AbortSignal()
    seen: list[str] = []
    remove = fired.add_listener(lambda: seen.append("a"))
    remove()
    remove()
    fired.abort()
    assert seen == []


def test_listener_added_by_a_listener_is_called() -> None:
    fired = AbortSignal()
    seen: list[str] = []
    fired.add_listener(lambda: fired.add_listener(lambda: seen.append("inner")))
    fired.abort()
    assert seen == ["inner"]


def test_raising_listener_stops_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """WT-014, GP-001: a listener's fault reaches neither `abort` nor the other listeners."""
    reported: list[BaseException] = []
    monkeypatch.setattr("sys.excepthook", lambda kind, error, trace: reported.append(error))
    fired = AbortSignal()
    seen: list[str] = []
    fault = ValueError("bad listener")

    def bad() -> None:
        raise fault

    fired.add_listener(bad)
    fired.add_listener(lambda: seen.append("b"))
    fired.abort()
    assert seen == ["b"]
    assert reported == [fault]


def test_interrupt_in_a_listener_comes_out_after_the_others() -> None:
    fired = AbortSignal()
    seen: list[str] = []

    def interrupt() -> None:
        raise KeyboardInterrupt

    fired.add_listener(interrupt)
    fired.add_listener(lambda: seen.append("b"))
    with pytest.raises(KeyboardInterrupt):
        fired.abort()
    assert seen == ["b"]


def test_abort_from_many_threads_calls_each_listener_once() -> None:
    for _ in range(50):
        fired = AbortSignal()
        calls: list[int] = []
        start = threading.Barrier(4)

        def abort(fired: AbortSignal = fired, start: threading.Barrier = start) -> None:
            start.wait()
            fired.abort(threading.get_ident())

        def listen(
            fired: AbortSignal = fired,
            start: threading.Barrier = start,
            calls: list[int] = calls,
        ) -> None:
            start.wait()
            for number in range(20):
                fired.add_listener(lambda number=number: calls.append(number))  # type: ignore[misc]

        threads = [threading.Thread(target=work) for work in (abort, abort, listen, listen)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(calls) == sorted([*range(20), *range(20)])


def test_abort_inside_a_signal_handler_works_while_abort_runs() -> None:
    fired = AbortSignal()
    seen: list[str] = []
    before = signal.signal(signal.SIGUSR1, lambda *_: fired.abort("handler"))
    try:
        fired.add_listener(lambda: signal.raise_signal(signal.SIGUSR1))
        fired.add_listener(lambda: seen.append("b"))
        fired.abort("main")
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert (fired.reason, seen) == ("main", ["b"])


class _Broken:
    def __str__(self) -> str:
        raise ValueError("no text")


class _Wrong:
    def __str__(self) -> str:
        return 5  # type: ignore[return-value]


class _Exit:
    def __str__(self) -> str:
        raise SystemExit(3)


class _BrokenError(Exception):
    def __str__(self) -> str:
        raise _BrokenError


class _Loud(str):
    def __str__(self) -> str:
        raise AssertionError

    __repr__ = __str__


class _Custom:
    def __str__(self) -> str:
        return _Loud("custom")


def _deep() -> list[object]:
    value: list[object] = []
    for _ in range(1_000_000):
        value = [value]
    return value


@pytest.mark.parametrize(
    ("reason", "text"),
    [
        pytest.param("stop", "stop", id="string"),
        pytest.param("", "", id="empty"),
        pytest.param("a\ud800b", "a\ud800b", id="surrogate"),
        pytest.param(None, DEFAULT_REASON, id="none"),
        pytest.param(ValueError("too slow"), "ValueError: too slow", id="error"),
        pytest.param(ValueError(), "ValueError", id="error-without-message"),
        pytest.param(KeyError("k"), "KeyError: 'k'", id="key-error"),
        pytest.param(KeyboardInterrupt(), "KeyboardInterrupt", id="base-error"),
        pytest.param(42, "42", id="int"),
        pytest.param(_Loud("plain"), "plain", id="str-subclass"),
        pytest.param(_Custom(), "custom", id="str-subclass-from-str"),
    ],
)
def test_reason_text(reason: object, text: str) -> None:
    """SC-010, WT-161."""
    rendered = render_reason(reason)
    assert rendered == text
    assert type(rendered) is str


@pytest.mark.parametrize(
    "make",
    [
        pytest.param(_Broken, id="raises"),
        pytest.param(_Wrong, id="not-a-string"),
        pytest.param(_Exit, id="exits"),
        pytest.param(_BrokenError, id="error"),
        pytest.param(_deep, id="deep"),
    ],
)
def test_reason_without_text_gives_the_placeholder(make: Callable[[], object]) -> None:
    """GP-001, WT-014."""
    assert render_reason(make()) == UNRENDERABLE_REASON == "<unrenderable abort reason>"


def test_reason_text_lets_an_interrupt_through() -> None:
    class Interrupted:
        def __str__(self) -> str:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        render_reason(Interrupted())


def test_reason_at_the_limit_stays() -> None:
    text = "é" * (MAX_REASON_BYTES // 2)
    assert render_reason(text) == text


@given(st.text(alphabet=st.characters(), min_size=1, max_size=8))
def test_reason_over_the_limit_is_cut_between_characters(piece: str) -> None:
    text = piece * (MAX_REASON_BYTES // len(piece) + 1)
    rendered = render_reason(text)
    size = len(rendered.encode("utf-8", "surrogatepass"))
    assert MAX_REASON_BYTES - 6 <= size <= MAX_REASON_BYTES
    assert rendered[-1] == "…"
    assert text.startswith(rendered[:-1])
