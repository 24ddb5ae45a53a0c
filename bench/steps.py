"""What a rested run waits for, step by step: `python -m bench.steps`.

Methods of the product are wrapped so that they note when they are entered or left. A step is the
time between two notes; the medians of all runs are shown. The notes cost a few µs each.
"""

from __future__ import annotations

import inspect
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from importlib import import_module
from typing import Annotated, Any

import anyio
import typer

from code_runtime import CodeRunRequest, Context

from . import programs
from .cli import Provider
from .subjects import PROVIDERS

_HOST = "code_runtime_worker_thread._host:NodeHost"
_WORKER = "code_runtime_worker_thread._worker:Worker"
_WORKER_SESSION = "code_runtime_worker_thread._session:RunSession"
_PROCESS = "code_runtime_python._process:ProgramProcess"
_PYTHON_SESSION = "code_runtime_python._session:PythonSession"
_GUARDED = "code_runtime._guarded_process:GuardedProcess"

# Class, method, whether its end is meant, and what is over then.
STEPS: dict[Provider, tuple[tuple[str, str, bool, str], ...]] = {
    Provider.WORKER_THREAD: (
        (_HOST, "begin", False, "the request is checked, a host taken, a session made"),
        (_HOST, "begin", True, "the program is sent to Node's main thread"),
        (_WORKER_SESSION, "on_prepared", False, "types are stripped there"),
        (_WORKER_SESSION, "on_prepared", True, "the run is sent to the worker"),
        (_WORKER_SESSION, "on_worker_frame", False, "the worker compiles and runs it"),
        (_HOST, "finish", False, "the outcome is decided"),
        (_WORKER, "tell_exit", False, "the worker is ended and gone, the process compared"),
        (_GUARDED, "leftovers", False, "the worker's socket is read to its end"),
        (_GUARDED, "leftovers", True, "the guard has looked for processes that are left"),
        (_HOST, "finish", True, "pipes are drained, the directory removed"),
    ),
    Provider.PYTHON: (
        (_PROCESS, "begin", False, "the request is checked, a process taken, a session made"),
        (_PROCESS, "begin", True, "its settings are compared, limits and program are sent"),
        (_PYTHON_SESSION, "end", False, "the child applies limits and runs the program"),
        (_GUARDED, "_settle", False, "the child ends, the guard has waited for it"),
        (_PROCESS, "kill", True, "streams are read to their ends, the directory is removed"),
    ),
}


class Notes:
    """When each step of the current run was over, and how long it took in all runs."""

    def __init__(self) -> None:
        self._at_s = 0.0
        self.times_us: dict[str, list[float]] = {}

    def begin(self) -> None:
        """Begin a run."""
        self._at_s = time.perf_counter()

    def note(self, label: str) -> None:
        """Note the end of a step."""
        now_s = time.perf_counter()
        self.times_us.setdefault(label, []).append((now_s - self._at_s) * 1e6)
        self._at_s = now_s

    def wrap(self, owner: str, name: str, at_end: bool, label: str) -> None:
        """Have a method note a step."""
        module, _, class_name = owner.partition(":")
        holder = getattr(import_module(module), class_name)
        setattr(holder, name, self._wrapped(getattr(holder, name), at_end, label))

    def _wrapped(self, method: Callable[..., Any], at_end: bool, label: str) -> Callable[..., Any]:
        @contextmanager
        def noted() -> Iterator[None]:
            if not at_end:
                self.note(label)
            yield
            if at_end:
                self.note(label)

        @wraps(method)
        async def awaited(*args: Any, **keywords: Any) -> Any:
            with noted():
                return await method(*args, **keywords)

        @wraps(method)
        def called(*args: Any, **keywords: Any) -> Any:
            with noted():
                return method(*args, **keywords)

        return awaited if inspect.iscoroutinefunction(method) else called


async def measure(provider: Provider, count: int) -> Notes:
    """Run a trivial program `count` times, each after 60 ms of rest."""
    notes = Notes()
    for step in STEPS[provider]:
        notes.wrap(*step)
    package = "code_runtime_" + provider.value.replace("-", "_")
    names = {"worker-thread": "WorkerThreadCodeRuntime", "python": "PythonCodeRuntime"}
    async with Context() as ctx:
        await ctx.plugin(getattr(import_module(package), names[provider.value]))
        for number in range(count + 5):
            await anyio.sleep(0.06)
            if number == 5:
                notes.times_us.clear()
            notes.begin()
            program = programs.TRIVIAL[PROVIDERS[provider.value]]
            result = await ctx.codeRuntime.run(CodeRunRequest(program))
            notes.note("the result is built and returned")
            if result.value != 2:
                raise RuntimeError(f"Cannot measure the run: {result!r}, expected the value 2")
    return notes


def main(
    provider: Annotated[Provider | None, typer.Option(help="Only this provider.")] = None,
    count: Annotated[int, typer.Option(min=1, help="Runs of each provider.")] = 100,
) -> None:
    """Show what a rested run waits for."""
    for each in Provider if provider is None else [provider]:
        notes = anyio.run(measure, each, count)
        typer.echo(f"# {each.value}: medians of {count} runs, 60 ms apart")
        for label, times_us in notes.times_us.items():
            typer.echo(f"{statistics.median(times_us):8.0f} µs  {label}")


if __name__ == "__main__":
    typer.run(main)
