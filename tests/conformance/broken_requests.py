"""Providers that read a request wrongly: names that they accept, fields that they ignore."""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Callable
from typing import Final

import anyio

from code_runtime import (
    AbortSignal,
    BindingNameError,
    CodeBindingErrorClass,
    CodeBindingNamespace,
    CodeRunFailure,
    CodeRunRequest,
    CodeRunResult,
    CodeRuntime,
)
from code_runtime.testing import Limits

from .breaking import (
    Breakage,
    Broken,
    BrokenRuntime,
    Run,
    chains,
    changes_fields,
    changes_kind,
    changes_message,
    changes_request,
    done,
    failed,
    replaces_failure,
)


def accepts(names: Callable[[BindingNameError], bool]) -> Broken:
    """Accept some names that the contract refuses."""

    def breakage(broken: BrokenRuntime) -> Run:
        async def run(request: CodeRunRequest) -> CodeRunResult:
            try:
                return await broken.inner.run(request)
            except BindingNameError as error:
                if names(error):
                    return done(None)
                raise

        return run

    return Broken("expected BindingNameError", breakage)


def refuses(name: str) -> Breakage:
    """Refuse a name that the contract accepts, by failing the run."""

    def breakage(broken: BrokenRuntime) -> Run:
        async def run(request: CodeRunRequest) -> CodeRunResult:
            for item in request.bindings:
                error_class = item.error_class
                used = [item.global_name, error_class and error_class.member_name_property]
                if name in used:
                    return failed("exception", f"bad name {name}")
            return await broken.inner.run(request)

        return run

    return breakage


def reports_classes_first(broken: BrokenRuntime) -> Run:
    async def run(request: CodeRunRequest) -> CodeRunResult:
        for index, item in enumerate(request.bindings):
            if item.error_class is not None and item.error_class.name == "class":
                raise BindingNameError(f"bindings[{index}].error_class.name", "class", "a name")
        return await broken.inner.run(request)

    return run


def runs_before_it_refuses(broken: BrokenRuntime) -> Run:
    async def run(request: CodeRunRequest) -> CodeRunResult:
        fine = dataclasses.replace(request, bindings=request.bindings[:1], signal=None)
        await broken.inner.run(fine)
        return await broken.inner.run(request)

    return run


def accepts_text(broken: BrokenRuntime) -> Run:
    async def run(request: object) -> CodeRunResult:
        if isinstance(request, CodeRunRequest):
            return await broken.inner.run(request)
        return await broken.inner.run(CodeRunRequest("return 1"))

    return run


def identity(broken: BrokenRuntime) -> Run:
    return broken.inner.run


def labelled(
    language: str | None = None, isolation: str | None = None
) -> Callable[..., CodeRuntime]:
    class Labelled(BrokenRuntime):
        @property
        def language(self) -> str:
            return language or self.inner.language

        @property
        def isolation(self) -> str:
            return isolation or self.inner.isolation

    return Labelled


class NoRuntime:
    """Runs programs, and is no `CodeRuntime`."""

    def __init__(self, inner: CodeRuntime, breakage: Breakage) -> None:
        self.run = inner.run


def change_functions_of_tools(request: CodeRunRequest) -> CodeRunRequest:
    first = request.bindings[0]
    bindings = [
        CodeBindingNamespace(item.global_name, first.functions, item.error_class)
        for item in request.bindings
    ]
    return dataclasses.replace(request, bindings=bindings)


def with_functions(**functions: Callable[[object], object]) -> Breakage:
    """Add functions to every namespace, or replace them."""

    def change(request: CodeRunRequest) -> CodeRunRequest:
        bindings = [
            CodeBindingNamespace(
                item.global_name, {**item.functions, **functions}, item.error_class
            )
            for item in request.bindings
        ]
        return dataclasses.replace(request, bindings=bindings)

    return changes_request(change)


def with_error_class(error_class: CodeBindingErrorClass | None) -> Breakage:
    def change(request: CodeRunRequest) -> CodeRunRequest:
        bindings = [
            CodeBindingNamespace(item.global_name, item.functions, error_class)
            for item in request.bindings
        ]
        return dataclasses.replace(request, bindings=bindings)

    return changes_request(change)


def without_empty_names(request: CodeRunRequest) -> CodeRunRequest:
    bindings = [
        CodeBindingNamespace(
            item.global_name,
            {name: function for name, function in item.functions.items() if name},
            item.error_class,
        )
        for item in request.bindings
    ]
    return dataclasses.replace(request, bindings=bindings)


def shows_logs_at_the_end(broken: BrokenRuntime) -> Run:
    async def run(request: CodeRunRequest) -> CodeRunResult:
        result = await broken.inner.run(dataclasses.replace(request, on_log=None, max_wall_ms=600))
        for text in result.logs:
            assert request.on_log is not None
            request.on_log(text)
        return result

    return run


def changes_on_log(
    change: Callable[[Callable[[str], object]], Callable[[str], object]],
) -> Breakage:
    return changes_request(
        lambda request: (
            request
            if request.on_log is None
            else dataclasses.replace(request, on_log=change(request.on_log))
        )
    )


def twice(on_log: Callable[[str], object]) -> Callable[[str], object]:
    return lambda text: (on_log(text), on_log(text))


def in_a_thread(on_log: Callable[[str], object]) -> Callable[[str], object]:
    def show(text: str) -> None:
        thread = threading.Thread(target=on_log, args=(text,))
        thread.start()
        thread.join()

    return show


def quietly(on_log: Callable[[str], object]) -> Callable[[str], object]:
    def show(text: str) -> None:
        try:
            on_log(text)
        except LookupError:
            return

    return show


# Signals: a provider that ignores one would run for ever, so it has a short wall here.
ignores_signals: Final = changes_fields(signal=None, max_wall_ms=400)
ends_at_the_wall: Final = changes_fields(max_wall_ms=400)


def ignores_fired_signals(request: CodeRunRequest) -> CodeRunRequest:
    fired = request.signal is not None and request.signal.aborted
    return dataclasses.replace(request, signal=None) if fired else request


def shares_signals(broken: BrokenRuntime) -> Run:
    common = AbortSignal()

    async def run(request: CodeRunRequest) -> CodeRunResult:
        if request.signal is not None:
            request.signal.add_listener(lambda: common.abort("the signal of another run"))
        return await broken.inner.run(dataclasses.replace(request, signal=common))

    return run


def leaves_a_listener(request: CodeRunRequest) -> CodeRunRequest:
    assert request.signal is not None
    request.signal.add_listener(lambda: None)
    return request


def one_at_a_time(broken: BrokenRuntime) -> Run:
    lock = anyio.Lock()

    async def run(request: CodeRunRequest) -> CodeRunResult:
        async with lock:
            return await broken.inner.run(dataclasses.replace(request, max_wall_ms=400))

    return run


def wrong_budget(message: str) -> Breakage:
    failure = CodeRunFailure("timeout", message)
    return chains(ends_at_the_wall, replaces_failure("timeout", error=failure))


def no_limits(_: Limits) -> Limits:
    return Limits()


def is_field(suffix: str, name: str) -> Broken:
    return accepts(lambda error: error.field.endswith(suffix) and error.name == name)


BROKEN_REQUESTS: Final[dict[str, Broken]] = {
    # The service
    "a_provider_is_a_code_runtime": Broken("a CodeRuntime", identity, runtime=NoRuntime),  # type: ignore[arg-type]
    "the_language_is_the_declared_one": Broken(
        "language is 'Python'", identity, runtime=labelled(language="Python")
    ),
    "the_isolation_is_a_label": Broken(
        "isolation is 'Fully Secure'", identity, runtime=labelled(isolation="Fully Secure")
    ),
    "only_a_request_is_run": Broken("expected RequestTypeError", accepts_text),
    # Names
    "a_global_name_is_an_identifier": is_field(".global_name", "tools\n"),
    "reserved_words_are_refused": is_field(".global_name", "match"),
    "names_of_runtimes_are_refused": is_field(".global_name", "__debug__"),
    "a_global_name_is_used_once": is_field("[1].global_name", "tools"),
    "an_error_class_follows_the_rules_of_globals": is_field("error_class.name", "class"),
    "an_error_class_has_a_name_of_its_own": is_field("[1].error_class.name", "Failure"),
    "a_member_property_is_free_in_errors": is_field("member_name_property", "__x__"),
    "allowed_names_are_accepted": Broken("bad name tool-name", refuses("tool-name")),
    "the_first_bad_name_is_reported": Broken("the refused field of", reports_classes_first),
    "a_refused_request_starts_nothing": Broken("what was called", runs_before_it_refuses),
    "any_text_names_a_function": Broken("expected a value", changes_request(without_empty_names)),
    "an_undeclared_member_cannot_be_called": Broken(
        "the value is 2", with_functions(missing=lambda value: value)
    ),
    "a_member_that_is_no_function_cannot_be_called": Broken(
        "the value is False", with_functions(data=lambda value: value)
    ),
    "namespaces_are_separate": Broken("the value", changes_request(change_functions_of_tools)),
    "a_namespace_may_be_named_like_an_error_class": Broken(
        "bad name ToolCallError", refuses("ToolCallError")
    ),
    # Errors of calls
    "a_failed_call_has_the_declared_class": Broken("expected a value", with_error_class(None)),
    "a_failed_call_without_class_has_its_message_only": Broken(
        "the value is [True",
        with_error_class(CodeBindingErrorClass("Failure", "toolName")),
    ),
    "a_failed_call_that_is_not_caught_is_an_exception": Broken(
        "the text of the error", changes_message(lambda _: "a call failed")
    ),
    "a_waiting_program_is_answered_while_others_run": Broken("expected a value", one_at_a_time),
    # Logs
    "logs_arrive_while_the_program_runs": Broken("the value is []", shows_logs_at_the_end),
    "logs_arrive_before_the_end": Broken("expected a value", shows_logs_at_the_end),
    "on_log_gets_what_the_result_has": Broken("what on_log got", changes_on_log(twice)),
    "on_log_is_called_on_the_event_loop": Broken(
        "the threads of on_log", changes_on_log(in_a_thread)
    ),
    "a_raising_on_log_does_not_change_the_run": Broken(
        "the error of on_log", changes_on_log(quietly)
    ),
    # Time
    "a_waiting_program_times_out": Broken("the budget, 300", changes_message(lambda _: "too long")),
    "a_computing_program_times_out": Broken(
        "a failure 'timeout'", changes_kind("timeout", "worker-exit")
    ),
    "a_blocked_program_times_out": Broken("a failure 'timeout'", changes_kind("timeout", "abort")),
    "a_request_cannot_raise_the_ceiling": Broken(
        "the ceiling of the provider",
        changes_request(
            lambda request: dataclasses.replace(
                request, max_wall_ms=min(request.max_wall_ms or 700, 700)
            )
        ),
        limits=no_limits,
    ),
    "a_computing_program_exhausts_its_busy_time": Broken(
        "not the wall", wrong_budget("wall-clock ceiling exceeded: 20000 ms")
    ),
    "waiting_costs_no_busy_time": Broken("expected a value", ends_at_the_wall),
    "runs_over_the_cap_wait_without_cost": Broken(
        "the outcome of the queued run", identity, limits=no_limits
    ),
    "a_queued_run_can_be_aborted": Broken(
        "a failure 'abort'", changes_fields(signal=None), limits=no_limits
    ),
    # Abort
    "a_fired_signal_starts_nothing": Broken(
        "a failure 'abort'", changes_request(ignores_fired_signals)
    ),
    "an_abort_ends_a_waiting_program": Broken("a failure 'abort'", ignores_signals),
    "an_abort_ends_a_computing_program": Broken("a failure 'abort'", ignores_signals),
    "an_abort_ends_a_blocked_program": Broken("a failure 'abort'", ignores_signals),
    "a_late_result_changes_nothing": Broken(
        "value='late'", replaces_failure("abort", error=None, has_value=True, value="late")
    ),
    "only_the_first_abort_counts": Broken(
        "the message is 'second'", changes_message(lambda _: "second")
    ),
    "an_abort_right_after_the_start_counts": Broken("a failure 'abort'", ignores_signals),
    "an_abort_may_come_from_a_thread": Broken("a failure 'abort'", ignores_signals),
    "a_reason_is_rendered": Broken(
        "the message is 'stop'", changes_message(lambda text: text.removeprefix("ValueError: "))
    ),
    "a_reason_without_text_is_safe": Broken("the message is ''", changes_message(lambda _: "")),
    "an_abort_after_the_end_changes_nothing": Broken(
        "the number of listeners", changes_request(leaves_a_listener)
    ),
    "an_abort_ends_its_own_runs_only": Broken("the outcome", shares_signals),
}
