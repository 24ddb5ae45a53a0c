"""Recursion without Python's stack: a step is a generator that yields the steps it waits for."""

from __future__ import annotations

from collections.abc import Generator
from typing import TypeAlias, TypeVar, cast

T = TypeVar("T")

Steps: TypeAlias = "Generator[Steps[T], T, T]"
"""A recursive function as a generator: `result = yield step(child)` calls, `return` returns.

All steps of one run have one type of result, so that a type checker knows what a `yield` gives.
"""


def run_steps(first: Steps[T]) -> T:
    """Run a step and all that it waits for; the depth is bounded by memory only.

    Args:
        first: The outermost step.

    Returns:
        What it returned.
    """
    waiting: list[Steps[T]] = []
    step = first
    # A generator that has not started takes only None, whatever its type says.
    result = cast("T", None)
    while True:
        try:
            inner = step.send(result)
        except StopIteration as end:
            result = cast("T", end.value)
            if not waiting:
                return result
            step = waiting.pop()
        else:
            waiting.append(step)
            step = inner
            result = cast("T", None)
