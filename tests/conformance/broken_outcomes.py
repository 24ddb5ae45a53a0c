"""Providers that report something else than what the program did: values, failures, logs, journal."""

from __future__ import annotations

import dataclasses
import os
import re
from typing import Any, Final

from code_runtime import CodeCall, CodeRunFailure, CodeRunRequest, CodeRunResult

from .breaking import (
    Breakage,
    Broken,
    BrokenRuntime,
    Run,
    changes_call,
    changes_calls,
    changes_kind,
    changes_logs,
    changes_message,
    changes_result,
    changes_value,
    done,
    replaces_failure,
)


def without_value(result: CodeRunResult) -> CodeRunResult:
    return dataclasses.replace(result, has_value=False, value=None)


def with_null(result: CodeRunResult) -> CodeRunResult:
    return dataclasses.replace(result, has_value=True)


def as_floats(value: Any) -> object:
    return [float(item) for item in value] if isinstance(value, list) else value


def through_utf8(value: Any) -> object:
    return [text.encode("utf-8", "replace").decode() for text in value]


def without_proto(value: Any) -> object:
    return [
        {key: item for key, item in part.items() if key != "__proto__"}
        if isinstance(part, dict)
        else part
        for part in value
    ]


def change_first(value: Any) -> object:
    return [value[0][:10_000], *value[1:]]


def refuse_equal_parts(result: CodeRunResult) -> CodeRunResult:
    return dataclasses.replace(
        without_value(result), error=CodeRunFailure("invalid-output", "a cycle")
    )


def two_outcomes(result: CodeRunResult) -> CodeRunResult:
    if result.error is not None:
        object.__setattr__(result, "has_value", True)
    return result


def appends_to_old_logs(broken: BrokenRuntime) -> Run:
    results: list[CodeRunResult] = []

    async def run(request: CodeRunRequest) -> CodeRunResult:
        result = await broken.inner.run(request)
        for old in results:
            old.logs.append("late")
        results.append(result)
        return result

    return run


def returns_one_result(broken: BrokenRuntime) -> Run:
    results: list[CodeRunResult] = []

    async def run(request: CodeRunRequest) -> CodeRunResult:
        if not results:
            results.append(await broken.inner.run(request))
        return results[0]

    return run


def loses_logs(kind: str) -> Breakage:
    return replaces_failure(kind, logs=[])


def truncated(*, says_so: bool) -> Breakage:
    return changes_result(lambda result: dataclasses.replace(result, logs_truncated=says_so))


def previews_of(size: int) -> Breakage:
    return changes_call(argument_preview='"' + "é" * size, result_preview='"' + "é" * size)


def adds_success(calls: list[CodeCall]) -> list[CodeCall]:
    return [*calls, CodeCall("tools", "take", 0, 0, "ok")]


def sorted_by_end(calls: list[CodeCall]) -> list[CodeCall]:
    return sorted(calls, key=lambda call: call.started_ms + call.duration_ms)


def outcomes_are_ok(before: str) -> Breakage:
    return changes_calls(
        lambda calls: [
            dataclasses.replace(call, outcome="ok") if call.outcome == before else call
            for call in calls
        ]
    )


def forgets_dropped(result: CodeRunResult) -> CodeRunResult:
    return dataclasses.replace(result, calls_dropped=0)


def forgets_journal_of_failures(result: CodeRunResult) -> CodeRunResult:
    return dataclasses.replace(result, calls=[]) if result.error else result


def forgets_times(result: CodeRunResult) -> CodeRunResult:
    return dataclasses.replace(result, log_times_ms=None)


BROKEN_OUTCOMES: Final[dict[str, Broken]] = {
    # The service
    "a_run_gives_a_result": Broken("one for each run", returns_one_result),
    # How programs end
    "a_program_awaits_and_returns_at_its_top": Broken(
        "expected a value", changes_result(without_value)
    ),
    "a_program_without_return_has_no_value": Broken("the outcome of", changes_result(with_null)),
    "null_is_a_value": Broken("expected a value", changes_result(without_value)),
    "a_raised_error_is_an_exception": Broken(
        "a failure 'exception'", changes_kind("exception", "worker-exit")
    ),
    "a_failure_shows_the_line_that_failed": Broken(
        "the source line", changes_message(lambda text: text.splitlines()[-1])
    ),
    "a_failure_shows_no_path_of_the_host": Broken(
        "no such path", changes_message(lambda text: f"{os.getcwd()}/program.py: {text}")
    ),
    "a_program_that_does_not_parse_is_an_exception": Broken(
        "the faulty line", changes_message(lambda _: "a syntax error")
    ),
    "an_error_without_text_is_an_exception": Broken(
        "the message is ''", changes_message(lambda _: "")
    ),
    "a_process_that_ends_itself_is_worker_exit": Broken(
        "a failure 'worker-exit'", changes_kind("worker-exit", "exception")
    ),
    "a_run_has_one_outcome": Broken("the number of outcomes", changes_result(two_outcomes)),
    "a_result_does_not_change_afterwards": Broken("unchanged", appends_to_old_logs),
    # Values
    "scalars_cross_exactly": Broken(
        "the value",
        changes_value(lambda value: 1 if value is True else value and [*value, 0]),  # type: ignore[misc]
    ),
    "numbers_cross_exactly": Broken("the value", changes_value(as_floats)),
    "a_whole_number_arrives_as_int": Broken("the value is 1.0", changes_value(lambda _: 1.0)),
    "strings_cross_exactly": Broken("the value", changes_value(through_utf8)),
    "containers_cross_exactly": Broken("the value", changes_value(without_proto)),
    "the_order_of_keys_is_kept": Broken(
        "the value",
        changes_value(lambda value: dict(sorted(value.items()))),  # type: ignore[attr-defined]
    ),
    "a_value_may_be_shared": Broken("a cycle", changes_result(refuse_equal_parts)),
    "deep_values_cross": Broken("the value is []", changes_value(lambda _: [])),
    "very_deep_values_cross": Broken(
        "the number of levels is 99999",
        changes_value(lambda value: value[0]),  # type: ignore[index]
    ),
    "wide_values_cross": Broken("the value", changes_value(change_first)),
    "a_lossy_completion_is_invalid_output": Broken(
        "a failure 'invalid-output'", replaces_failure("invalid-output", error=None, has_value=True)
    ),
    "an_integer_that_no_double_holds_is_refused": Broken(
        "value=9007199254740992",
        replaces_failure("invalid-output", error=None, has_value=True, value=2**53),
    ),
    "a_refused_value_is_named_by_its_path": Broken(
        "the path $.items[1]", changes_message(lambda text: re.sub(r"\$\S*", "it", text))
    ),
    # Logs
    "logs_are_in_order_and_complete": Broken("the list of logs", changes_logs(lambda t: t[:-1])),
    "log_text_is_unchanged": Broken(
        "the list of logs", changes_logs(lambda logs: [text.strip() for text in logs])
    ),
    "a_silent_program_has_no_logs": Broken("the list of logs", changes_logs(lambda _: [""])),
    "logs_before_an_exception_are_kept": Broken("the list of logs is []", loses_logs("exception")),
    "logs_before_an_exit_are_kept": Broken("the list of logs is []", loses_logs("worker-exit")),
    "logs_before_an_invalid_output_are_kept": Broken(
        "the list of logs is []", loses_logs("invalid-output")
    ),
    "logs_before_an_abort_are_kept": Broken("the list of logs is []", loses_logs("abort")),
    "logs_before_a_timeout_are_kept": Broken("the list of logs is []", loses_logs("timeout")),
    "logs_before_a_disposal_are_kept": Broken(
        "the list of logs is []", loses_logs("abort"), is_disposed=True
    ),
    "times_of_logs_are_recorded_on_request": Broken("three times", changes_result(forgets_times)),
    # Output budgets
    "a_value_within_its_budget_is_whole": Broken(
        "the value",
        changes_value(lambda value: value[:1_000]),  # type: ignore[index]
    ),
    "a_value_over_its_budget_is_an_output_limit": Broken(
        "a failure 'output-limit'",
        replaces_failure("output-limit", error=None, has_value=True, value="x" * 1_900),
    ),
    "a_long_failure_is_bounded": Broken(
        "at most 2000", changes_message(lambda text: text + "x" * 10_000)
    ),
    "logs_within_their_budget_are_whole": Broken("logs_truncated", truncated(says_so=True)),
    "logs_over_their_budget_are_never_silent": Broken(
        "or logs_truncated", truncated(says_so=False)
    ),
    "logs_over_their_budget_are_a_start": Broken(
        "the logs but the last", changes_logs(lambda logs: logs[::-1])
    ),
    "logs_over_their_budget_are_bounded": Broken(
        "the size of the logs", changes_logs(lambda logs: logs * 2)
    ),
    "one_long_entry_is_never_silent": Broken("or logs_truncated", truncated(says_so=False)),
    # The journal
    "calls_are_journalled_in_order": Broken("the journal", changes_calls(lambda c: c[::-1])),
    "the_journal_is_in_order_of_arrival": Broken(
        "the arguments in the journal", changes_calls(sorted_by_end)
    ),
    "a_failed_call_is_journalled_as_error": Broken("the outcomes", outcomes_are_ok("error")),
    "an_unfinished_call_is_journalled_as_cancelled": Broken(
        "the journal", outcomes_are_ok("cancelled")
    ),
    "the_journal_survives_failures": Broken(
        "the journal of an abort is []", changes_result(forgets_journal_of_failures)
    ),
    "a_call_that_never_was_has_no_success": Broken("the outcomes", changes_calls(adds_success)),
    "times_of_calls_are_sound": Broken("duration_ms", changes_call(duration_ms=0.0)),
    "previews_are_recorded_on_request": Broken("the previews", changes_call(argument_preview=None)),
    "previews_are_bounded": Broken("at most 2048", previews_of(2_000)),
    "the_journal_is_bounded": Broken("calls_dropped is 0", changes_result(forgets_dropped)),
    # Isolation
    "the_environment_of_the_host_is_hidden": Broken(
        "the value is 'secret'",
        changes_value(lambda _: os.environ["CODE_RUNTIME_CONFORMANCE"]),
    ),
    "a_working_directory_is_private": Broken(
        "the directory afterwards", changes_result(lambda _: done(["/tmp", [], "/tmp"]))
    ),
}
