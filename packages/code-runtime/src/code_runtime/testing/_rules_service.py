"""Rules of the service itself: what it is, and what it refuses before anything starts."""

from __future__ import annotations

import re

from code_runtime._errors import RequestTypeError
from code_runtime._runtime import SERVICE_KEY, CodeRuntime
from code_runtime._vocabulary import CodeRunResult

from ._expect import expect, expect_same
from ._rule import rule
from ._subject import Subject

_LABEL = re.compile("[a-z][a-z0-9-]*")


@rule()
async def a_provider_is_a_code_runtime(subject: Subject) -> None:
    """A provider is a subclass of `CodeRuntime` and offers itself under its key.

    SC-001.
    """
    async with subject.open() as runtime:
        expect(isinstance(runtime, CodeRuntime), "the runtime", runtime, "a CodeRuntime")
        expect_same("service_key", type(runtime).service_key, SERVICE_KEY)


@rule("return_null")
async def the_language_is_the_declared_one(subject: Subject) -> None:
    """`language` is a lower-case label, read only, and the same before and after a run.

    SC-004.
    """
    async with subject.open() as runtime:
        expect_same("language", runtime.language, subject.language)
        await runtime.run(subject.request("return_null"))
        expect_same("language after a run", runtime.language, subject.language)
        expect(bool(_LABEL.fullmatch(runtime.language)), "language", runtime.language, "lower case")
        expect(_read_only(runtime, "language"), "language", "writable", "read only")


@rule()
async def the_isolation_is_a_label(subject: Subject) -> None:
    """`isolation` is a lower-case label, and read only.

    SC-005.
    """
    async with subject.open() as runtime:
        label = runtime.isolation
        expect(bool(_LABEL.fullmatch(label)), "isolation", label, "a lower-case label")
        expect(_read_only(runtime, "isolation"), "isolation", "writable", "read only")


@rule("return_null")
async def a_run_gives_a_result(subject: Subject) -> None:
    """`run` returns a `CodeRunResult` with lists of its own."""
    async with subject.open() as runtime:
        request = subject.request("return_null")
        first, second = await runtime.run(request), await runtime.run(request)
        expect(isinstance(first, CodeRunResult), "what run returned", first, "a CodeRunResult")
        own = first is not second and first.logs is not second.logs
        expect(own and first.calls is not second.calls, "the result", "shared", "one for each run")


@rule()
async def only_a_request_is_run(subject: Subject) -> None:
    """`run` refuses what is no `CodeRunRequest` with `RequestTypeError`.

    SC-036.
    """
    async with subject.open() as runtime:
        for wrong in ("return 1", None, {"program": ""}):
            try:
                result: object = await runtime.run(wrong)  # type: ignore[arg-type]
            except RequestTypeError:
                continue
            expect(False, f"the answer to {wrong!r}", result, "RequestTypeError")


def _read_only(runtime: CodeRuntime, name: str) -> bool:
    before = getattr(runtime, name)
    try:
        setattr(runtime, name, before)
    except AttributeError:
        return True
    return False
