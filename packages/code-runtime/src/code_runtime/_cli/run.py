"""Carries out `code-runtime run`."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import signal as signals
import sys
import time
import traceback
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import anyio

from code_runtime import AbortSignal, CodeRunRequest, CodeRuntimeError, Context

from .bindings import load_bindings
from .discovery import installed_names, language_of, provider_for
from .interrupts import watch_interrupts
from .problem import MISUSE, OK, PROGRAM_FAILED, Misuse
from .report import complain, document, open_report, show_result, show_run
from .screen import Screen, silence

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from code_runtime import CodeBindingNamespace, CodeRunResult


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """What the command line of `run` says."""

    file: str
    bindings: tuple[str, ...]
    language: str | None
    provider: str | None
    as_json: bool
    calls: bool
    report: str | None
    inspect: bool
    config: Mapping[str, float | None]


@dataclass(frozen=True, slots=True)
class Plan:
    """A run that is ready to start: the program and the provider that runs it."""

    program: str
    provider: str
    config: dict[str, float | None]


def run_file(options: RunOptions) -> int:
    """Run a program and return the exit code of the command."""
    for stream in (sys.stdout, sys.stderr):
        # A character that the locale's encoding lacks must not end the command.
        stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    try:
        with (
            _document_channel(options.as_json) as write_document,
            open_report(options.report) as write_report,
        ):
            plan = _plan(options)
            result, elapsed_s = anyio.run(_execute, plan, options)
            try:
                if write_document is not None:
                    write_document(document(result, elapsed_s=elapsed_s))
                elif options.inspect:
                    show_run(result)
                else:
                    show_result(
                        result, program=plan.program, elapsed_s=elapsed_s, with_calls=options.calls
                    )
                sys.stdout.flush()
            finally:
                write_report(result)
        return OK if result.ok else PROGRAM_FAILED
    except (Misuse, CodeRuntimeError) as error:
        complain(str(error))
        return MISUSE
    except BrokenPipeError:
        silence(sys.stdout)
        return PROGRAM_FAILED
    except KeyboardInterrupt:
        return 128 + signals.SIGINT
    except Exception:
        # The user's bindings file, or a fault of ours: either way the traceback is what helps.
        traceback.print_exc()
        return MISUSE


def _plan(options: RunOptions) -> Plan:
    if options.provider is not None and options.provider not in installed_names():
        installed = ", ".join(installed_names()) or "none"
        raise Misuse(
            f"Cannot use provider {options.provider!r}: it is not installed, "
            f"expected one of the installed ones ({installed})"
        )
    provider = options.provider or provider_for(options.language or language_of(options.file))
    return Plan(_read_program(options.file), provider, dict(options.config))


def _read_program(file: str) -> str:
    try:
        data = sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
        return data.decode("utf-8-sig")
    except OSError as error:
        reason = error.strerror or str(error)
    except UnicodeDecodeError as error:
        reason = f"byte {error.start} is not UTF-8"
    raise Misuse(f"Cannot read program {file!r}: {reason}, expected a file of UTF-8 text")


@contextlib.contextmanager
def _document_channel(wanted: bool) -> Iterator[Callable[[bytes], None] | None]:
    """Keep the standard output for the document; what bindings print goes to standard error."""
    if not wanted:
        yield None
        return
    sys.stdout.flush()
    kept = os.dup(1)
    os.dup2(2, 1)

    def write(data: bytes) -> None:
        with open(kept, "wb", closefd=False) as channel:
            channel.write(data)

    try:
        yield write
    finally:
        sys.stdout.flush()
        os.dup2(kept, 1)
        os.close(kept)


async def _execute(plan: Plan, options: RunOptions) -> tuple[CodeRunResult, float]:
    async with AsyncExitStack() as stack:
        bindings = await load_bindings(options.bindings, stack)
        return await _run(plan, bindings, options)


async def _run(
    plan: Plan, bindings: list[CodeBindingNamespace], options: RunOptions
) -> tuple[CodeRunResult, float]:
    """Run the program in a context of its own, with its logs on the screen and Ctrl-C as abort."""
    abort = AbortSignal()
    screen = None
    if not options.as_json:
        screen = Screen(on_broken=lambda: abort.abort("nobody reads the output"))
    # What is inspected shows its logs at the end, each beside its time.
    on_log = None if screen is None or options.inspect else screen.log
    record = options.inspect or options.report is not None
    request = CodeRunRequest(plan.program, bindings, signal=abort, on_log=on_log, record=record)
    outcome: tuple[CodeRunResult, float] | None = None
    problem: Exception | None = None

    def on_interrupt(number: signals.Signals) -> None:
        abort.abort(f"interrupted by {number.name}")
        if screen is not None:
            screen.note("stopping, Ctrl-C again to kill")

    async with anyio.create_task_group() as tasks:
        await tasks.start(watch_interrupts, on_interrupt)
        if screen is not None:
            tasks.start_soon(screen.drive)
        # Errors are carried out by hand: a task group would wrap them.
        try:
            async with Context() as context:
                try:
                    await context.plugin(plan.provider, plan.config)
                    begin = time.monotonic()
                    result = await context.codeRuntime.run(request)
                    elapsed_s = time.monotonic() - begin
                    language = context.codeRuntime.language
                    outcome = _complete(result, request, language, elapsed_s), elapsed_s
                except Exception as error:
                    problem = error
        finally:
            if screen is not None:
                screen.close()
                await screen.wait_shown()
            tasks.cancel_scope.cancel()
    if problem is not None:
        raise _single(problem)
    assert outcome is not None
    return outcome


def _complete(
    result: CodeRunResult, request: CodeRunRequest, language: str, elapsed_s: float
) -> CodeRunResult:
    """Add to a record what a provider of someone else may have left out."""
    if not request.record or result.program is not None:
        return result
    return dataclasses.replace(
        result, program=request.program, language=language, elapsed_ms=elapsed_s * 1_000
    )


def _single(error: Exception) -> Exception:
    """Return the only error inside groups: a provider's own task group may have wrapped it."""
    while isinstance(error, ExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    return error
