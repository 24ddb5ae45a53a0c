"""Providers that get binding calls wrong."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, Final

import anyio

from code_runtime import BindingFunction, CodeRunRequest, CodeRunResult

from .breaking import (
    Broken,
    BrokenRuntime,
    Run,
    chains,
    changes_fields,
    changes_functions,
    changes_value,
)


def wraps(
    member: str, wrap: Callable[[BindingFunction, object], object]
) -> Callable[[str, BindingFunction], BindingFunction]:
    """Put a function around the member of this name."""

    def change(name: str, function: BindingFunction) -> BindingFunction:
        return (lambda value: wrap(function, value)) if name == member else function

    return change


def ignores_coroutines(function: BindingFunction, value: object) -> object:
    result = function(value)
    if not inspect.iscoroutine(result):
        return result
    result.close()
    return "a coroutine"


def renames_errors(function: BindingFunction, value: object) -> object:
    try:
        return function(value)
    except Exception as error:
        raise RuntimeError(f"call failed: {error}") from error


def swallows_errors(function: BindingFunction, value: object) -> object:
    try:
        return function(value)
    except Exception:
        return None


def tames_faults(function: BindingFunction, value: object) -> object:
    try:
        return function(value)
    except BaseException as error:
        raise ValueError("a fault") from error


def refuses_large_results(function: BindingFunction, value: object) -> object:
    result = function(value)
    if isinstance(result, str) and len(result) > 2_000:
        raise ValueError("too large")
    return result


def rounds_results(function: BindingFunction, value: object) -> object:
    function(value)
    return 0


def passes_two_arguments(function: BindingFunction, value: object) -> object:
    return function(value, value)


def passes_the_object_on(function: BindingFunction, value: Any) -> object:
    result = function(value)
    value["n"] = 2
    return result


def calls_with_null(broken: BrokenRuntime) -> Run:
    """Call each function once more, with null, when the program is over."""

    async def run(request: CodeRunRequest) -> CodeRunResult:
        result = await broken.inner.run(request)
        for namespace in request.bindings:
            for function in namespace.functions.values():
                function(None)
        return result

    return run


def gives_the_object_itself(broken: BrokenRuntime) -> Run:
    """Let the program's change through to the object of the host."""

    async def run(request: CodeRunRequest) -> CodeRunResult:
        result = await broken.inner.run(request)
        given: Any = request.bindings[0].functions["give"](None)
        given["changed"] = True
        return result

    return run


def first_of_many(value: Any) -> object:
    return value[:1_024]


def one_by_one(name: str, function: BindingFunction) -> BindingFunction:
    """Let one call wait for the end of the one before it."""
    lock: list[anyio.Lock] = []

    async def call(value: object) -> object:
        if not lock:
            lock.append(anyio.Lock())
        async with lock[0]:
            result = function(value)
            return await result if inspect.isawaitable(result) else result

    return call


BROKEN_CALLS: Final[dict[str, Broken]] = {
    "a_program_gets_copies": Broken("the object of the host", gives_the_object_itself),
    "an_argument_is_copied_when_the_call_is_made": Broken(
        "the arguments is [{'n': 2}]", changes_functions(wraps("take", passes_the_object_on))
    ),
    "a_lossy_argument_fails_its_call_only": Broken(
        "the arguments that reached the function", calls_with_null
    ),
    "a_lossy_result_fails_its_call_only": Broken(
        "answer 0", changes_functions(wraps("attempt", rounds_results))
    ),
    "a_result_that_no_double_holds_is_refused": Broken(
        "answer 0", changes_functions(wraps("attempt", rounds_results))
    ),
    "a_function_gets_one_argument": Broken(
        "the arguments of the function", changes_functions(wraps("give", passes_two_arguments))
    ),
    "a_function_is_plain_or_async": Broken(
        "a coroutine", changes_functions(wraps("attempt", ignores_coroutines))
    ),
    "a_failed_call_can_be_caught": Broken(
        "call failed: no", changes_functions(wraps("attempt", renames_errors))
    ),
    "an_error_without_text_fails_its_call_only": Broken(
        "one failed call", changes_functions(wraps("attempt", swallows_errors))
    ),
    "a_fault_of_the_host_surfaces_from_run": Broken(
        "the fault of the function", changes_functions(wraps("hold", tames_faults))
    ),
    "calls_run_at_the_same_time": Broken(
        "expected a value", chains(changes_fields(max_wall_ms=400), changes_functions(one_by_one))
    ),
    "a_call_gets_its_own_result": Broken(
        "the value is [[19]",
        changes_value(lambda value: value[::-1]),  # type: ignore[index]
    ),
    "thousands_of_calls_may_be_in_flight": Broken("the value", changes_value(first_of_many)),
    "arguments_and_results_are_not_charged": Broken(
        "a failure 'output-limit'", changes_functions(wraps("give", refuses_large_results))
    ),
}
