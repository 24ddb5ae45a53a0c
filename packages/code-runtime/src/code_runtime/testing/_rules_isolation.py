"""Rules of isolation: no state of a run reaches another one, at the same time or later."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import anyio

from code_runtime._vocabulary import CodeBindingNamespace, CodeRunResult

from ._expect import expect, expect_failure, expect_logs, expect_same, expect_value, running
from ._rule import rule
from ._subject import Subject, tools_namespace

_RUNS: Final = 4  # more than a provider has spare processes


@rule("mark_global")
async def no_state_crosses_between_runs(subject: Subject) -> None:
    """What a program leaves in globals and built-in objects is not there for a later one.

    SC-043.
    """
    async with subject.open() as runtime:
        for _ in range(_RUNS):
            result = await runtime.run(subject.request("mark_global"))
            expect_value(result, False)


@rule("break_builtins", "relay")
async def broken_builtins_do_not_cross(subject: Subject) -> None:
    """A program that breaks the built-ins of its language has its outcome; later ones are fine.

    SC-043, SC-044.
    """
    async with subject.open() as runtime:
        for _ in range(_RUNS):
            expect_value(await runtime.run(subject.request("break_builtins")), 1)
            tools = {"give": lambda _: ["fine"], "take": lambda _: None}
            expect_value(await runtime.run(subject.request("relay", tools)), ["fine"])


@rule("exit", "throw", "hot", "relay")
async def a_failed_run_harms_no_later_one(subject: Subject) -> None:
    """After every kind of failure the next program runs.

    SC-044.
    """
    tools = {"give": lambda _: 1, "take": lambda _: None}
    async with subject.open() as runtime:
        for key, max_wall_ms in (("exit", None), ("throw", None), ("hot", 500)):
            result = await runtime.run(subject.request(key, max_wall_ms=max_wall_ms))
            expect(result.error is not None, f"the outcome of {key}", result, "a failure")
            expect_value(await runtime.run(subject.request("relay", tools)), 1)


@rule("working_directory")
async def a_working_directory_is_private(subject: Subject) -> None:
    """Each run has an empty directory of its own, for temporary files too, which is deleted."""
    folders: list[object] = []
    async with subject.open() as runtime:
        for _ in range(2):
            result = await runtime.run(subject.request("working_directory"))
            seen = result.value
            shaped = isinstance(seen, list) and len(seen) == 3 and isinstance(seen[0], str)
            expect(shaped, "the outcome", result, "a list of three")
            assert isinstance(seen, list)
            folder, names, temporary = seen
            expect_same("the names in the directory", names, [])
            expect_same("the folder for temporary files", temporary, folder)
            gone = not await anyio.Path(str(folder)).exists()
            expect(gone, "the directory afterwards", folder, "deleted")
            folders.append(folder)
    expect(folders[0] != folders[1], "the two directories", folders, "different ones")


@rule("environment")
async def the_environment_of_the_host_is_hidden(subject: Subject) -> None:
    """A program does not see the environment variables of the host.

    WT-034.
    """
    with _variable("CODE_RUNTIME_CONFORMANCE", "secret"):
        async with subject.open_own() as runtime:
            expect_value(await runtime.run(subject.request("environment")), None)


@rule("hold", "print_given")
async def overlapping_runs_are_apart(subject: Subject) -> None:
    """Programs that run at the same time get their own values, logs and calls.

    SC-046.
    """
    count = 6
    arrived: list[int] = []
    everyone = anyio.Event()

    def tools(number: int) -> CodeBindingNamespace:
        async def texts(_: object) -> list[str]:
            arrived.append(number)
            if len(arrived) == count:
                everyone.set()
            await everyone.wait()
            return [f"{number} of {count}"] * (number + 1)

        return tools_namespace({"texts": texts})

    logs: list[list[str]] = [[] for _ in range(count)]
    async with subject.open() as runtime:
        requests = [
            subject.request("print_given", bindings=[tools(number)], on_log=logs[number].append)
            for number in range(count)
        ]
        async with running(runtime, *requests) as results:
            pass
    for number, result in enumerate(results):
        assert result is not None
        expect_value(result, number + 1)
        expect_logs(result, [f"{number} of {count}"] * (number + 1))
        expect_same("what on_log got", logs[number], result.logs)
        expect_same("the number of calls in the journal", len(result.calls), 1)


@rule("hold", "exit")
async def a_failure_beside_a_run_does_not_end_it(subject: Subject) -> None:
    """A program whose process ends does not disturb one that runs beside it.

    SC-044, SC-046.
    """
    up = anyio.Event()
    release = anyio.Event()

    async def hold(_: object) -> str:
        up.set()
        await release.wait()
        return "undisturbed"

    request = subject.request("hold", {"hold": hold})
    async with subject.open() as runtime, running(runtime, request) as results:
        await up.wait()
        failed: CodeRunResult = await runtime.run(subject.request("exit"))
        release.set()
    expect_failure(failed, "worker-exit")
    assert results[0] is not None
    expect_value(results[0], "undisturbed")


@rule("print_given")
async def a_request_may_be_used_again(subject: Subject) -> None:
    """One request gives independent runs, one after the other and at the same time."""
    request = subject.request("print_given", {"texts": lambda _: ["a"]})
    async with subject.open() as runtime:
        first = await runtime.run(request)
        async with running(runtime, request, request) as results:
            pass
    for result in (first, *results):
        assert result is not None
        expect_value(result, 1)
        expect_logs(result, ["a"])


@contextmanager
def _variable(name: str, value: str) -> Iterator[None]:
    before = os.environ.get(name)
    os.environ[name] = value
    try:
        yield
    finally:
        del os.environ[name]
        if before is not None:
            os.environ[name] = before
