"""The TypeScript provider: each program in a fresh worker thread of a Node process of its own."""

from __future__ import annotations

import math
import os
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import Final, final

import anyio
import anyio.abc
import anyio.to_thread

from code_runtime import CodeRunRequest, CodeRunResult, CodeRuntime, Context
from code_runtime._abort import render_reason
from code_runtime._checks import ProviderCheck
from code_runtime._errors import (
    CodeRuntimeError,
    ConfigError,
    ForkedHostError,
    HostStartError,
    RequestTypeError,
    RuntimeDisposedError,
)
from code_runtime._execution._calls import INLINE_BYTES
from code_runtime._execution._settlement import Completed, Failed, Settlement
from code_runtime._execution._threads import on_loop
from code_runtime._execution._wardens import WardenKeeper
from code_runtime._execution._workspace import RunDirectories
from code_runtime._guarded import ExitStatus, GuardError
from code_runtime._ledger import settle_early
from code_runtime._lossless import encode
from code_runtime._names import check_namespaces
from code_runtime._text import describe
from code_runtime._vocabulary import CodeRunFailure

from ._config import OWNER, WorkerThreadConfig
from ._host import HostBootError, NodeHost
from ._node import find_node, list_candidates
from ._pool import HostPool
from ._session import RunSession

DISPOSED: Final = "runtime disposed"
# Below this a trial run at load tells whether a worker can live in the heap at all.
COMFORTABLE_HEAP_MB: Final = 64


@final
class WorkerThreadCodeRuntime(CodeRuntime):
    """Runs TypeScript programs, each in a fresh Node worker thread.

    Load it with `await ctx.plugin(WorkerThreadCodeRuntime, config)`; the fields of `config` are
    those of `WorkerThreadConfig`. Loading starts a guard and the first Node process, and fails
    there when that is not possible.

    Raises:
        ConfigError: a field of the config is wrong (at load).
        HostStartError: Node cannot be found or started (at load).
    """

    def __init__(self, ctx: Context, config: object = None) -> None:
        super().__init__(ctx, config)
        self._config = WorkerThreadConfig.from_mapping(config)
        self._owner_pid = os.getpid()
        self._settlements: set[Settlement] = set()
        self._idle = anyio.Event()
        self._disposed = True
        self._limiter: anyio.CapacityLimiter | None = None
        self._pool: HostPool | None = None
        self._directories: RunDirectories | None = None
        self._task_group: anyio.abc.TaskGroup | None = None

    @property
    def language(self) -> str:
        """`typescript` (WT-006)."""
        return "typescript"

    @property
    def isolation(self) -> str:
        """`worker-thread` (WT-006): a label, never a security claim."""
        return "worker-thread"

    @asynccontextmanager
    async def lifespan(self) -> AsyncIterator[None]:
        """Hold the guard, the Node hosts and the folder of the working directories."""
        node = await find_node(self._config.node_bin)
        # Raised after the task group is closed, so that it comes as it is and not in a group.
        failure: CodeRuntimeError | None = None
        async with AsyncExitStack() as stack:
            directories = self._directories = RunDirectories()
            stack.push_async_callback(directories.aclose)
            task_group = self._task_group = await stack.enter_async_context(
                anyio.create_task_group()
            )
            wardens = WardenKeeper(directories.path)
            pool = self._pool = HostPool(task_group, wardens, node, self._config, directories.path)
            stack.push_async_callback(self._close, pool, task_group)
            limit = self._config.max_concurrent_runs
            self._limiter = None if limit is None else anyio.CapacityLimiter(limit)
            try:
                await self._boot_first(pool, wardens)
            except CodeRuntimeError as error:
                failure = error
            else:
                self._disposed = False
                yield
        if failure is not None:
            raise failure

    @classmethod
    async def doctor(cls) -> list[ProviderCheck]:
        """Say which Node runs the programs and what else would be tried; see `ProviderCheck`."""
        tried = "; ".join(f"{item.origin}: {item.path or item.note}" for item in list_candidates())
        try:
            node = await find_node()
        except HostStartError as error:
            return [ProviderCheck("Node", False, error.seen, error.expected)]
        done = await anyio.run_process([node.path, "--version"], check=False)
        version = done.stdout.decode(errors="replace").strip()
        return [
            ProviderCheck("Node", True, f"{version} from {node.origin} ({node.path})"),
            ProviderCheck("Order", True, tried),
        ]

    async def _boot_first(self, pool: HostPool, wardens: WardenKeeper) -> None:
        assert self._task_group is not None
        try:
            await self._task_group.start(wardens.serve)
        except (GuardError, OSError) as error:
            raise HostStartError("the guard", str(error), "a Linux or macOS system") from error
        heap_mb = self._config.max_old_generation_size_mb
        try:
            await pool.start()
            if heap_mb >= COMFORTABLE_HEAP_MB:
                return
            # A small heap may hold a worker that waits and not one that runs (WT-008).
            probe = await self._run_assigned(CodeRunRequest("return null"), Settlement())
            reason = None if probe.error is None else probe.error.message
        except HostBootError as error:
            reason = str(error)
            if heap_mb >= COMFORTABLE_HEAP_MB:
                raise HostStartError(
                    "the Node host", reason, "a Node process that boots"
                ) from error
        if reason is not None:
            raise ConfigError(
                OWNER,
                "max_old_generation_size_mb",
                f"{describe(heap_mb)}: {reason}",
                "a heap in which a worker boots and runs an empty program (16 MiB do)",
            )

    async def run(self, request: CodeRunRequest) -> CodeRunResult:
        """Run one program; see `CodeRuntime.run`.

        Raises:
            RuntimeDisposedError: the runtime is disposed.
            BindingNameError: a name of the bindings is not allowed.
            ForkedHostError: this process is a fork of the one that started the runtime.
        """
        if os.getpid() != self._owner_pid:
            raise ForkedHostError(OWNER, self._owner_pid, os.getpid())
        if self._disposed:
            raise RuntimeDisposedError(OWNER)
        if not isinstance(request, CodeRunRequest):
            raise RequestTypeError(f"{OWNER}.run", "request", describe(request), "CodeRunRequest")
        check_namespaces(request.bindings)
        settlement = Settlement()
        remove_listener = _listen_to_signal(request, settlement)
        self._settlements.add(settlement)
        try:
            return await self._run_queued(request, settlement)
        finally:
            remove_listener()
            self._settlements.discard(settlement)
            if not self._settlements:
                self._idle.set()

    async def _run_queued(self, request: CodeRunRequest, settlement: Settlement) -> CodeRunResult:
        if settlement.outcome is not None or self._limiter is None:
            return await self._run_assigned(request, settlement)
        token = object()
        with settlement.interrupts():
            await self._limiter.acquire_on_behalf_of(token)
        try:
            return await self._run_assigned(request, settlement)
        finally:
            with suppress(RuntimeError):  # the signal fired while this run was queued
                self._limiter.release_on_behalf_of(token)

    async def _run_assigned(self, request: CodeRunRequest, settlement: Settlement) -> CodeRunResult:
        assert self._directories is not None
        limits = [ms for ms in (self._config.max_wall_ms, request.max_wall_ms) if ms is not None]
        wall_ms = min(limits, default=math.inf)
        deadline_s = anyio.current_time() + wall_ms / 1000
        program = await _encode_program(request.program)
        try:
            directory = self._directories.create()
        except OSError as error:
            settlement.decide(_not_started(f"no working directory: {error.strerror}"))
            return self._early_result(settlement)
        try:
            host = await self._take_host(settlement, deadline_s)
            if host is None:
                settlement.decide(_wall_timeout(wall_ms))
                return self._early_result(settlement)
            assert self._pool is not None
            assert self._task_group is not None
            session = RunSession(
                request, self._config, settlement, host, self._task_group, directory, program
            )
            try:
                return await self._run_on(host, session, settlement, deadline_s, wall_ms)
            finally:
                self._pool.give_back(host)
        finally:
            with anyio.CancelScope(shield=True):
                await self._directories.remove(directory)

    async def _take_host(self, settlement: Settlement, deadline_s: float) -> NodeHost | None:
        """Return a host; None when the run is settled, or its time is over, before one is there."""
        assert self._pool is not None
        if settlement.outcome is None:
            with anyio.CancelScope(deadline=deadline_s), settlement.interrupts():
                try:
                    return await self._pool.take()
                except HostBootError as error:
                    settlement.decide(_not_started(str(error)))
        return None

    async def _run_on(
        self,
        host: NodeHost,
        session: RunSession,
        settlement: Settlement,
        deadline_s: float,
        wall_ms: float,
    ) -> CodeRunResult:
        status: ExitStatus | None = None
        try:
            with anyio.CancelScope(deadline=deadline_s), settlement.interrupts():
                await session.start()
                await session.watch_silence()
                await anyio.sleep_forever()
            settlement.decide(_wall_timeout(wall_ms))
        finally:
            settlement.decide(Failed("abort", "cancelled"))
            with anyio.CancelScope(shield=True):
                session.close()
                status = await _end(host, settlement)
                await session.wait_calls()
                host.detach()
        result = await session.result(status)
        if session.fault is not None:
            raise session.fault
        if session.log_fault is not None:
            raise _with_result(session.log_fault, result)
        return result

    def _early_result(self, settlement: Settlement) -> CodeRunResult:
        outcome = settlement.outcome
        assert isinstance(outcome, Failed)
        logs, kind, message = settle_early(
            self._config.max_output_bytes, outcome.kind, outcome.message
        )
        return CodeRunResult(logs, error=CodeRunFailure(kind, message))

    async def _close(self, pool: HostPool, task_group: anyio.abc.TaskGroup) -> None:
        """End every run as aborted, wait for them, then let the hosts go."""
        self._disposed = True
        with anyio.CancelScope(shield=True):
            while self._settlements:
                self._idle = anyio.Event()
                for settlement in list(self._settlements):
                    settlement.decide(Failed("abort", DISPOSED))
                await self._idle.wait()
            await pool.aclose()
        task_group.cancel_scope.cancel()


async def _encode_program(program: str) -> bytes:
    if len(program) <= INLINE_BYTES:
        return encode(program)
    return await anyio.to_thread.run_sync(encode, program)


async def _end(host: NodeHost, settlement: Settlement) -> ExitStatus | None:
    """Bring the process to rest: finish a clean end, kill after any other."""
    outcome = settlement.outcome
    clean = isinstance(outcome, Completed) or (
        isinstance(outcome, Failed) and outcome.by_program and outcome.kind != "output-limit"
    )
    try:
        if not clean:
            return await host.kill()
        await host.finish()
    except GuardError:
        host.retire("its guard is gone")
    return None


def _listen_to_signal(request: CodeRunRequest, settlement: Settlement) -> Callable[[], None]:
    signal = request.signal
    if signal is None:
        return lambda: None

    def abort() -> None:
        settlement.decide(Failed("abort", render_reason(signal.reason)))

    return signal.add_listener(on_loop(abort))


def _wall_timeout(wall_ms: float) -> Failed:
    return Failed("timeout", f"wall-clock ceiling exceeded: {wall_ms:g} ms")


def _not_started(reason: str) -> Failed:
    return Failed("worker-exit", f"worker did not start: {reason}")


def _with_result(error: BaseException, result: CodeRunResult) -> BaseException:
    with suppress(Exception):
        error.result = result  # type: ignore[attr-defined]
    return error
