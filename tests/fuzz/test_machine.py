"""Any interleaving of loads, runs, aborts, cancellations and disposals: one outcome for each run."""

from __future__ import annotations

from concurrent.futures import Future
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final

import anyio
import anyio.abc
import pytest
from anyio.from_thread import start_blocking_portal
from fuzzing import examples
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    multiple,
    rule,
    run_state_machine_as_test,
)
from leftovers import assert_no_leftovers, snapshot_resources

from code_runtime import (
    AbortSignal,
    CodeBindingNamespace,
    CodeRunRequest,
    CodeRunResult,
    Context,
    PluginHandle,
    RuntimeDisposedError,
    ServiceExistsError,
    ServiceMissingError,
)
from code_runtime_python import PythonCodeRuntime
from code_runtime_worker_thread import WorkerThreadCodeRuntime

CAP: Final = 2
COMMON: Final[dict[str, object]] = {
    "max_concurrent_runs": CAP,
    "spare_hosts": 1,
    "binding_grace_ms": 2_000,
}
PROVIDERS: Final[dict[str, tuple[Any, dict[str, object]]]] = {
    "python": (PythonCodeRuntime, {**COMMON, "grace_ms": 500}),
    "typescript": (WorkerThreadCodeRuntime, COMMON),
}
# What a run does, and the one outcome that it has when nobody meddles; None is to wait for ever.
OUTCOMES: Final[dict[str, str | None]] = {
    "returns": "value",
    "calls": "value",
    "raises": "exception",
    "spins": "timeout",
    "exits": "worker-exit",
    "waits": None,
    "sleeps": None,
}
PROGRAMS: Final = {
    "python": {
        "returns": "print('a')\nreturn 7",
        "calls": "import asyncio\nreturn sum(await asyncio.gather(*(tools.echo(n) for n in (3, 4))))",
        "raises": "print('a')\nraise ValueError('no')",
        "spins": "print('a')\nwhile True: pass",
        "exits": "import os\nos._exit(3)",
        "waits": "print('a')\nawait tools.never(1)",
        "sleeps": "import time\nprint('a')\ntime.sleep(600)",
    },
    "typescript": {
        "returns": "console.log('a'); return 7",
        "calls": "return (await Promise.all([3, 4].map(tools.echo))).reduce((a, b) => a + b)",
        "raises": "console.log('a'); throw new Error('no')",
        "spins": "console.log('a'); for (;;);",
        "exits": "process.reallyExit(3)",
        "waits": "console.log('a'); await tools.never(1)",
        "sleeps": "console.log('a'); Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0)",
    },
}
SPIN_MS: Final = 150
END_S: Final = 120


@dataclass(eq=False)
class Run:
    """One run, and what may come of it."""

    script: str
    signal: AbortSignal = field(default_factory=AbortSignal)
    scope: anyio.CancelScope | None = None
    runtime: object = None
    live: list[str] = field(default_factory=list)
    result: CodeRunResult | None = None
    allowed: set[str] = field(default_factory=set)
    future: Future[str] | None = None

    @property
    def ends(self) -> bool:
        """Whether it must end without a further deed."""
        return bool(self.allowed)

    def outcome(self) -> str:
        """Wait for the end."""
        assert self.future is not None
        return self.future.result(END_S)


class Machine(RuleBasedStateMachine):
    """Two contexts, the inner one of which sees what the outer one has."""

    backend: ClassVar[str]
    runs: Bundle[Run] = Bundle("runs")

    def __init__(self) -> None:
        super().__init__()
        self.before = snapshot_resources()
        self.stack = ExitStack()
        self.portal = self.stack.enter_context(start_blocking_portal(self.backend))
        outer = Context()
        self.stack.enter_context(self.portal.wrap_async_context_manager(outer))
        inner = outer.child()
        self.stack.enter_context(self.portal.wrap_async_context_manager(inner))
        self.contexts = (outer, inner)
        self.handles: list[PluginHandle | None] = [None, None]
        self.all: list[Run] = []
        self.calls_open = 0

    # Providers

    @rule(slot=st.integers(0, 1), language=st.sampled_from(sorted(PROVIDERS)))
    def load(self, slot: int, language: str) -> None:
        kind, config = PROVIDERS[language]
        if self.handles[slot] is None:
            self.handles[slot] = self.portal.call(self.contexts[slot].plugin, kind, config)
        else:
            with pytest.raises(ServiceExistsError):
                self.portal.call(self.contexts[slot].plugin, kind, config)

    @rule(slot=st.integers(0, 1))
    def dispose(self, slot: int) -> None:
        handle = self.handles[slot]
        if handle is not None:
            self._expect_aborts(self.contexts[slot].codeRuntime)
            self.portal.call(handle.dispose)
            assert handle.state == "disposed"
            self.handles[slot] = None

    @rule(slot=st.integers(0, 1), language=st.sampled_from(sorted(PROVIDERS)))
    def replace(self, slot: int, language: str) -> None:
        self.dispose(slot)
        self.load(slot, language)

    @rule(slot=st.integers(0, 1), script=st.sampled_from(sorted(OUTCOMES)))
    def run_into_a_disposal(self, slot: int, script: str) -> None:
        """Dispose, and start a run while that goes on."""
        handle = self.handles[slot]
        if handle is None:
            return
        self._expect_aborts(self.contexts[slot].codeRuntime)
        disposal = self.portal.start_task_soon(handle.dispose)
        run = self._start(slot, script)
        run.allowed |= {"abort", "disposed", "missing"}
        disposal.result(END_S)
        self.handles[slot] = None
        if run.runtime is not None and run.runtime is self.contexts[0].get("codeRuntime"):
            run.allowed -= {"abort", "disposed", "missing"}  # it went to the outer provider

    # Runs

    @rule(target=runs, slot=st.integers(0, 1), script=st.sampled_from(sorted(OUTCOMES)))
    def start(self, slot: int, script: str) -> Run:
        return self._start(slot, script)

    @rule(
        target=runs,
        slot=st.integers(0, 1),
        scripts=st.lists(st.sampled_from(sorted(OUTCOMES)), min_size=2, max_size=5),
    )
    def start_several(self, slot: int, scripts: list[str]) -> Any:
        return multiple(*(self._start(slot, script) for script in scripts))

    @rule(run=runs)
    def abort(self, run: Run) -> None:
        run.signal.abort("enough")
        run.allowed.add("abort")

    @rule(run=runs)
    def cancel(self, run: Run) -> None:
        assert run.scope is not None
        self.portal.call(run.scope.cancel)
        run.allowed.add("cancelled")

    @rule(run=consumes(runs))
    def finish(self, run: Run) -> None:
        if not run.ends:
            self.abort(run)
        holders = [
            other
            for other in self.all
            if other.runtime is run.runtime and other is not run and not other.ends
        ]
        # Those that wait for ever would keep it in the queue.
        for other in holders[CAP - 1 :]:
            self.abort(other)
        self._judge(run)

    @rule(turns=st.integers(1, 20))
    def let_the_loop_turn(self, turns: int) -> None:
        async def turn() -> None:
            for _ in range(turns):
                await anyio.lowlevel.checkpoint()

        self.portal.call(turn)

    def teardown(self) -> None:
        for context in self.contexts:
            runtime = context.get("codeRuntime")
            if runtime is not None:
                self._expect_aborts(runtime)
        self.stack.close()
        for run in self.all:
            self._judge(run)
        assert self.calls_open == 0
        assert_no_leftovers(self.before)

    # What follows is no rule.

    def _expect_aborts(self, runtime: object) -> None:
        for run in self.all:
            if run.runtime is runtime:
                run.allowed.add("abort")

    def _start(self, slot: int, script: str) -> Run:
        run = Run(script)
        self.all.append(run)
        run.future, language = self.portal.start_task(self._play, self.contexts[slot], run)
        expected = "missing" if language is None else OUTCOMES[script]
        if expected is not None:
            run.allowed.add(expected)
        return run

    async def _play(
        self, context: Context, run: Run, *, task_status: anyio.abc.TaskStatus[str | None]
    ) -> str:
        """Run one program as a caller would; return the one outcome that the caller sees."""
        with anyio.CancelScope() as run.scope:
            try:
                runtime = context.codeRuntime
            except ServiceMissingError:
                task_status.started(None)
                return "missing"
            run.runtime = runtime
            task_status.started(runtime.language)
            request = CodeRunRequest(
                PROGRAMS[runtime.language][run.script],
                [CodeBindingNamespace("tools", {"echo": self._echo, "never": self._never})],
                signal=run.signal,
                on_log=run.live.append,
                max_wall_ms=SPIN_MS if run.script == "spins" else None,
            )
            try:
                run.result = await runtime.run(request)
            except RuntimeDisposedError:
                return "disposed"
            return "value" if run.result.error is None else run.result.error.kind
        return "cancelled"

    async def _echo(self, value: object) -> object:
        self.calls_open += 1
        try:
            await anyio.lowlevel.checkpoint()
            return value
        finally:
            self.calls_open -= 1

    async def _never(self, _: object) -> None:
        self.calls_open += 1
        try:
            await anyio.sleep_forever()
        finally:
            self.calls_open -= 1

    def _judge(self, run: Run) -> None:
        outcome = run.outcome()
        assert outcome in run.allowed, (outcome, run)
        result = run.result
        if result is None:
            assert outcome in {"cancelled", "disposed", "missing"}
            return
        assert result.logs == run.live
        assert (result.value, result.has_value) == (
            (7, True) if outcome == "value" else (None, False)
        )
        if outcome in {"value", "exception"} and run.script in {"returns", "raises"}:
            assert result.logs == ["a"]
        if outcome == "abort":
            assert result.error is not None
            aborted, disposed = result.error.message == "enough", "dispos" in result.error.message
            assert aborted or disposed, result.error


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_any_interleaving_leaves_one_outcome_for_each_run(backend: str) -> None:
    """SC-002, SC-003, SC-036, SC-045: and nothing is left when the context has ended."""
    kind = type("Machine", (Machine,), {"backend": backend})
    run_state_machine_as_test(kind, settings=examples(4, processes=True, stateful_step_count=15))
