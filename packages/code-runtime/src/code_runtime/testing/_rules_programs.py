"""Rules of what a program is and how it ends by itself."""

from __future__ import annotations

import os
import sys

from ._expect import expect, expect_failure, expect_logs, expect_same, expect_value
from ._rule import rule
from ._subject import Subject


@rule("relay")
async def a_program_awaits_and_returns_at_its_top(subject: Subject) -> None:
    """A program is the body of an async function: it awaits and returns at its top level.

    SC-009.
    """
    taken: list[object] = []
    result = await subject.run("relay", {"give": lambda _: "text", "take": taken.append})
    expect_value(result, "text")
    expect_same("the arguments of take", taken, ["text"])


@rule("nothing", "comment")
async def a_program_without_return_has_no_value(subject: Subject) -> None:
    """A program that returns nothing, an empty one too, completes without a value.

    SC-037, WT-023.
    """
    requests = [subject.request(key) for key in ("nothing", "comment")]
    async with subject.open() as runtime:
        for request in requests:
            result = await runtime.run(request)
            seen = (result.has_value, result.value, result.error)
            expect_same(f"the outcome of {request.program!r}", seen, (False, None, None))


@rule("return_null")
async def null_is_a_value(subject: Subject) -> None:
    """A program that returns null has a value, which is None.

    SC-035, SC-037.
    """
    expect_value(await subject.run("return_null"), None)


@rule("throw")
async def a_raised_error_is_an_exception(subject: Subject) -> None:
    """A program that raises fails as `exception`, with its text in the message.

    SC-036, SC-039.
    """
    message = expect_failure(await subject.run("throw"), "exception")
    expect("conformance failure" in message, "the message", message, "the text of the error")


@rule("throw")
async def a_failure_shows_the_line_that_failed(subject: Subject) -> None:
    """The message of an exception shows the program's own line and its number.

    SC-040.
    """
    message = expect_failure(await subject.run("throw"), "exception")
    program = subject.request("throw").program
    line = program.splitlines()[2].strip()
    expect(line in message, "the message", message, f"the source line {line!r}")
    expect("3" in message, "the message", message, "the number of the line, 3")


@rule("throw", "syntax_error")
async def a_failure_shows_no_path_of_the_host(subject: Subject) -> None:
    """No message holds a path of the host's files.

    SC-040.
    """
    async with subject.open() as runtime:
        module = sys.modules[type(runtime).__module__]
        folders = {os.getcwd(), os.path.dirname(getattr(module, "__file__", None) or "/")}
        for key in ("throw", "syntax_error"):
            message = expect_failure(await runtime.run(subject.request(key)), "exception")
            for folder in folders - {"/"}:
                expect(folder not in message, f"the message of {key}", message, "no such path")


@rule("syntax_error")
async def a_program_that_does_not_parse_is_an_exception(subject: Subject) -> None:
    """A program that does not parse fails as `exception` and shows the faulty line.

    SC-039.
    """
    result = await subject.run("syntax_error")
    message = expect_failure(result, "exception")
    expect_logs(result, [])
    expect("conformance_fault" in message, "the message", message, "the faulty line")


@rule("throw_unrenderable")
async def an_error_without_text_is_an_exception(subject: Subject) -> None:
    """An error that cannot be turned into text is an `exception` with some text all the same."""
    expect_failure(await subject.run("throw_unrenderable"), "exception")


@rule("exit")
async def a_process_that_ends_itself_is_worker_exit(subject: Subject) -> None:
    """A program that ends its own process fails as `worker-exit`, and the message has the code.

    SC-039.
    """
    message = expect_failure(await subject.run("exit"), "worker-exit")
    expect("7" in message, "the message", message, "the exit code 7")


@rule("nothing", "return_null", "throw", "syntax_error", "print_then_lossy", "exit")
async def a_run_has_one_outcome(subject: Subject) -> None:
    """Every run has exactly one outcome: a value, no value, or a failure without a value.

    SC-036, SC-038.
    """
    async with subject.open() as runtime:
        for key in ("nothing", "return_null", "throw", "syntax_error", "print_then_lossy", "exit"):
            result = await runtime.run(subject.request(key))
            outcomes = result.has_value + (result.error is not None)
            expect_same(f"the number of outcomes of {key}", outcomes, int(key != "nothing"))
            expect_same(f"ok of {key}", result.ok, result.error is None)


@rule("print_given", "print_many")
async def a_result_does_not_change_afterwards(subject: Subject) -> None:
    """What `run` has returned stays as it is while other programs run."""
    async with subject.open() as runtime:
        texts = {"texts": lambda _: ["a", "b"]}
        result = await runtime.run(subject.request("print_given", texts))
        before = (list(result.logs), list(result.calls), result.value, result.error)
        await runtime.run(subject.request("print_many", {"count": lambda _: 100}))
        after = (list(result.logs), list(result.calls), result.value, result.error)
        expect(before == after, "the result after another run", after, "unchanged")
