"""Rules of the lossless-JSON boundary: what crosses, what is refused, and how."""

from __future__ import annotations

import datetime
import math
from collections.abc import Iterable
from typing import Final

from code_runtime._lossless import JsonValue
from code_runtime._vocabulary import CodeRunResult

from ._expect import expect, expect_failure, expect_same, expect_value
from ._rule import rule
from ._subject import Subject

_LOSSLESS: Final = "lossless JSON"


async def _expect_crossing(subject: Subject, value: object, arrives: object) -> None:
    """Send a value as a result, an argument and a completion; see the last two."""
    taken: list[object] = []
    result = await subject.run("relay", {"give": lambda _: value, "take": taken.append})
    expect_value(result, arrives)
    expect_same("the argument", taken, [arrives])


@rule("relay")
async def scalars_cross_exactly(subject: Subject) -> None:
    """None, booleans, numbers and strings cross in every direction with their types.

    SC-029, WT-096.
    """
    scalars = [None, True, False, 0, 1, -1, 1.5, "", "text"]
    await _expect_crossing(subject, scalars, scalars)
    for value in scalars:
        await _expect_crossing(subject, value, value)


@rule("relay")
async def numbers_cross_exactly(subject: Subject) -> None:
    """Every number that a double holds arrives as exactly that number.

    WT-096.
    """
    numbers = [
        *(2**53, -(2**53), 2**53 - 1, 2**60, 2**64, 10**21, int(1e23)),
        *(0.1, 1 / 3, 5e-324, 2.2250738585072014e-308, 1e-7, 123456.789),
        int(1.7976931348623157e308),
    ]
    await _expect_crossing(subject, numbers, numbers)


@rule("return_whole", "relay")
async def a_whole_number_arrives_as_int(subject: Subject) -> None:
    """A number without fraction arrives as `int`, however it was spelled."""
    expect_value(await subject.run("return_whole"), 1)
    await _expect_crossing(subject, [2.0, 1e21], [2, 10**21])


@rule("relay")
async def strings_cross_exactly(subject: Subject) -> None:
    """Every string crosses unchanged: NUL, lone surrogates and line separators included.

    WT-096.
    """
    strings = ["\0", "a\nb\r\t", '"\\/', "é€😀", "\ud83d", "\ude00\ud83d", "\u2028\u2029", "\x7f"]
    strings += ["\ufeff", "\ufffe", "e\u0301", "__proto__", "</script>", " "]
    await _expect_crossing(subject, strings, strings)


@rule("relay")
async def containers_cross_exactly(subject: Subject) -> None:
    """Lists and objects cross, empty and nested ones, whatever their keys are.

    WT-096, WT-108.
    """
    odd: JsonValue = {"": 1, "__proto__": {"a": 1}, "constructor": None, "a b": [], "\0": {}}
    await _expect_crossing(subject, [[], {}, [[]], [{}], odd], [[], {}, [[]], [{}], odd])


@rule("relay")
async def the_order_of_keys_is_kept(subject: Subject) -> None:
    """The members of an object keep their order.

    WT-109.
    """
    value = {"b": 1, "a": 2, "_": 3, "B": 4}
    await _expect_crossing(subject, value, value)


@rule("relay")
async def a_value_may_be_shared(subject: Subject) -> None:
    """A value that is reached twice without a cycle crosses as two equal values.

    WT-102.
    """
    part = {"n": [1]}
    await _expect_crossing(subject, [part, part], [{"n": [1]}, {"n": [1]}])


@rule("relay")
async def deep_values_cross(subject: Subject) -> None:
    """A value of 10,000 levels crosses in every direction.

    WT-111.
    """
    value = _nest(10_000)
    await _expect_crossing(subject, value, value)


@rule("return_deep")
async def very_deep_values_cross(subject: Subject) -> None:
    """A value of 100,000 levels is returned whole.

    WT-111.
    """
    levels = 100_000
    result = await subject.run("return_deep", {"count": lambda _: levels})
    value = result.value
    seen = 0
    while isinstance(value, list) and len(value) == 1:
        value, seen = value[0], seen + 1
    expect(result.error is None, "the outcome", result, "a value")
    expect_same("the innermost value", value, [])
    expect_same("the number of levels", seen, levels)


@rule("relay")
async def wide_values_cross(subject: Subject) -> None:
    """A list of 50,000 numbers and a text of 1 MiB cross in every direction.

    WT-090.
    """
    value = [list(range(50_000)), "x" * 1_048_576]
    await _expect_crossing(subject, value, value)


@rule("mutate")
async def a_program_gets_copies(subject: Subject) -> None:
    """What a program changes in a value that it was given does not change the host's object.

    WT-110.
    """
    given: dict[str, object] = {"n": 1}
    result = await subject.run("mutate", {"give": lambda _: given})
    expect_value(result, {"n": 1, "changed": True})
    expect_same("the object of the host", given, {"n": 1})


@rule("mutate_after_call")
async def an_argument_is_copied_when_the_call_is_made(subject: Subject) -> None:
    """What a program changes in an argument after the call does not reach the function.

    WT-110.
    """
    taken: list[object] = []
    expect_value(await subject.run("mutate_after_call", {"take": taken.append}), None)
    expect_same("the arguments", taken, [{"n": 1}])


@rule("return_lossy")
async def a_lossy_completion_is_invalid_output(subject: Subject) -> None:
    """A program that returns what is not lossless JSON fails as `invalid-output`.

    SC-039, SC-042, WT-115.
    """
    for name in ("nan", "infinity", "negative_zero", "function", "cycle", "date"):
        message = expect_failure(await _return_lossy(subject, name), "invalid-output")
        expect(_LOSSLESS in message, f"the message for {name}", message, f"the words {_LOSSLESS!r}")


@rule("return_lossy")
async def an_integer_that_no_double_holds_is_refused(subject: Subject) -> None:
    """A program that returns an integer that no double holds fails, and loses no digit."""
    expect_failure(await _return_lossy(subject, "big_integer"), "invalid-output")


@rule("return_lossy")
async def a_refused_value_is_named_by_its_path(subject: Subject) -> None:
    """The message of a refused completion has the path of the part that is refused.

    SC-040.
    """
    message = expect_failure(await _return_lossy(subject, "nested"), "invalid-output")
    expect("$.items[1]" in message, "the message", message, "the path $.items[1]")


@rule("lossy_arguments")
async def a_lossy_argument_fails_its_call_only(subject: Subject) -> None:
    """A call with an argument that is not lossless JSON fails before any function is called.

    SC-030, WT-122.
    """
    taken: list[object] = []
    result = await subject.run("lossy_arguments", {"take": taken.append})
    expect_same("the arguments that reached the function", taken, [])
    _expect_messages(result, 5)


@rule("attempts")
async def a_lossy_result_fails_its_call_only(subject: Subject) -> None:
    """A call whose function gives what is not lossless JSON fails, and the run goes on.

    SC-030, WT-124.
    """
    cycle: list[object] = []
    cycle.append(cycle)
    lossy: list[object] = [math.nan, -math.inf, -0.0, object(), {1}, {1: 2}, b"", cycle]
    lossy += [datetime.datetime(2026, 11, 29), {"a": [math.nan]}]
    result = await _attempt(subject, lossy)
    _expect_messages(result, len(lossy))


@rule("attempts")
async def a_result_that_no_double_holds_is_refused(subject: Subject) -> None:
    """A call whose function gives an integer that no double holds fails.

    SC-029.
    """
    _expect_messages(await _attempt(subject, [2**53 + 1, -(10**400), [2**63 - 1]]), 3)


async def _return_lossy(subject: Subject, name: str) -> CodeRunResult:
    return await subject.run("return_lossy", {"which": lambda _: name})


async def _attempt(subject: Subject, results: list[object]) -> CodeRunResult:
    """Let a program call a function that gives one of these results after the other."""
    given = iter(results)
    tools = {"count": lambda _: len(results), "attempt": lambda _: next(given)}
    return await subject.run("attempts", tools)


def _expect_messages(result: CodeRunResult, count: int) -> None:
    """Expect a list of refusals, as messages or as [false, message]."""
    expect(isinstance(result.value, list), "the outcome", result, "a list of messages")
    assert isinstance(result.value, list)
    items: Iterable[object] = result.value
    messages = [item[1] if isinstance(item, list) and not item[0] else item for item in items]
    expect_same("the number of messages", len(messages), count)
    for number, message in enumerate(messages):
        refused = isinstance(message, str) and _LOSSLESS in message
        expect(refused, f"answer {number}", message, f"a message with {_LOSSLESS!r}")


def _nest(levels: int) -> object:
    value: object = 1
    for level in range(levels):
        value = {"a": value} if level % 2 else [value]
    return value
