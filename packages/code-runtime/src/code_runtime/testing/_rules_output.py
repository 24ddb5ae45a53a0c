"""Rules of output budgets: what is over a budget is refused or marked, and never silently cut."""

from __future__ import annotations

from code_runtime._lossless import string_cost
from code_runtime._vocabulary import CodeRunResult

from ._expect import expect, expect_failure, expect_same, expect_value
from ._rule import rule
from ._subject import Limits, Subject

_VALUE = Limits(value_bytes=2_000)
_LOGS = Limits(log_bytes=2_000)
# A marker or a failure message may come on top of the logs themselves.
_MARKER_BYTES = 200


@rule("return_long", limits=["value_bytes"])
async def a_value_within_its_budget_is_whole(subject: Subject) -> None:
    """A value within its budget is returned whole.

    SC-042.
    """
    result = await subject.run("return_long", {"count": lambda _: 1_900}, limits=_VALUE)
    expect_value(result, "x" * 1_900)


@rule("return_long", limits=["value_bytes"])
async def a_value_over_its_budget_is_an_output_limit(subject: Subject) -> None:
    """A value over its budget fails the run as `output-limit`, and is never cut.

    SC-039, SC-042.
    """
    for count in (2_000, 100_000):
        tools = {"count": lambda _, count=count: count}
        result = await subject.run("return_long", tools, limits=_VALUE)
        message = expect_failure(result, "output-limit")
        expect("2000" in message, "the message", message, "the budget, 2000")


@rule("throw_long", limits=["value_bytes"])
async def a_long_failure_is_bounded(subject: Subject) -> None:
    """The message of a failure is within the budget too.

    WT-087.
    """
    result = await subject.run("throw_long", {"count": lambda _: 1_000_000}, limits=_VALUE)
    kind = None if result.error is None else result.error.kind
    expect(kind in ("exception", "output-limit"), "the outcome", result, "a failure")
    assert result.error is not None
    cost = len(result.error.message.encode("utf-8", "surrogatepass"))
    expect(cost <= 2_000, "the size of the message in bytes", cost, "at most 2000")


@rule("relay", limits=["value_bytes"])
async def arguments_and_results_are_not_charged(subject: Subject) -> None:
    """Arguments and results of calls are outside of every output budget.

    SC-029, WT-095.
    """
    taken: list[object] = []
    tools = {"give": lambda _: "x" * 100_000, "take": taken.append}
    result = await subject.run("relay", tools, limits=_VALUE)
    expect_failure(result, "output-limit")
    expect_same("the argument that arrived", taken, ["x" * 100_000])


@rule("print_many", limits=["log_bytes"])
async def logs_within_their_budget_are_whole(subject: Subject) -> None:
    """Logs within their budget are kept whole, without a mark."""
    result = await subject.run("print_many", {"count": lambda _: 100}, limits=_LOGS)
    expect_value(result, 100)
    expect_same("the logs", result.logs, [f"line {number}" for number in range(100)])
    expect_same("logs_truncated", result.logs_truncated, False)


@rule("print_many", limits=["log_bytes"])
async def logs_over_their_budget_are_never_silent(subject: Subject) -> None:
    """Logs over their budget either end the run as `output-limit` or set `logs_truncated`.

    SC-039.
    """
    result = await _flood(subject)
    ended = result.error is not None and result.error.kind == "output-limit"
    kept = result.error is None and result.logs_truncated
    expect(ended or kept, "the outcome", result, "an output-limit, or logs_truncated")


@rule("print_many", limits=["log_bytes"])
async def logs_over_their_budget_are_a_start(subject: Subject) -> None:
    """What is kept of logs over their budget is their start, in order."""
    result = await _flood(subject)
    expect(len(result.logs) > 10, "the number of logs that are kept", len(result.logs), "some")
    printed = [f"line {number}" for number in range(len(result.logs))]
    # The last entry may be a marker, or the part of an entry that was left.
    expect_same("the logs but the last", result.logs[:-1], printed[:-1])


@rule("print_many", limits=["log_bytes"])
async def logs_over_their_budget_are_bounded(subject: Subject) -> None:
    """What is kept of logs over their budget is within the budget, but for one marker."""
    result = await _flood(subject)
    cost = sum((string_cost(text) or 0) + 1 for text in result.logs)
    allowed = 2_000 + _MARKER_BYTES
    expect(cost <= allowed, "the size of the logs in bytes", cost, f"at most {allowed}")


@rule("print_given", limits=["log_bytes"])
async def one_long_entry_is_never_silent(subject: Subject) -> None:
    """A single entry over the budget ends the run or sets `logs_truncated`, like many."""
    tools = {"texts": lambda _: ["x" * 100_000]}
    result = await subject.run("print_given", tools, limits=_LOGS)
    marked = result.logs_truncated or (
        result.error is not None and result.error.kind == "output-limit"
    )
    expect(marked, "the outcome", result, "an output-limit, or logs_truncated")
    size = sum(map(len, result.logs))
    expect(size <= 2_000 + _MARKER_BYTES, "the size of the logs", size, "within the budget")


async def _flood(subject: Subject) -> CodeRunResult:
    return await subject.run("print_many", {"count": lambda _: 2_000}, limits=_LOGS)
