"""The life of a run on a pool of processes, the same for every provider that has one."""

from __future__ import annotations

import importlib
import math
import os
from abc import abstractmethod
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import replace
from typing import ClassVar, Final, Generic, Protocol, TypeVar

import anyio
import anyio.abc
import anyio.lowlevel
import anyio.to_thread

from code_runtime._abort import render_reason
from code_runtime._context import Context
from code_runtime._errors import (
    CodeRuntimeError,
    ForkedHostError,
    HostStartError,
    RequestTypeError,
    RuntimeDisposedError,
)
from code_runtime._guarded import GuardError
from code_runtime._lossless import encode
from code_runtime._names import check_namespaces
from code_runtime._runtime import CodeRuntime
from code_runtime._text import describe
from code_runtime._vocabulary import CodeRunRequest, CodeRunResult, FailureKind

from ._answers import INLINE_BYTES
from ._pool import HostBootError, HostPool, PooledHost
from ._settlement import Failed, Settlement
from ._threads import on_loop
from ._wardens import WardenKeeper
from ._workspace import RunDirectories

DISPOSED: Final = "runtime disposed"
# Processes that a run asks until one has taken its program.
PROCESS_TRIES: Final = 3
# Of the run by which a provider sees that it works: a machine may be busy when it starts.
TRIAL_MS: Final = 60_000

H = TypeVar("H", bound=PooledHost)


class Limits(Protocol):
    """The part of a provider's config that the life of a run depends on."""

    @property
    def max_wall_ms(self) -> float | None:
        """Longest time from the assignment of a process to the end of the run."""
        ...

    @property
    def max_concurrent_runs(self) -> int | None:
        """Runs at once."""
        ...

    @property
    def spare_hosts(self) -> int:
        """Idle processes that are kept ready."""
        ...


class Session(Protocol):
    """One run on one process, as the life of a run sees it."""

    @property
    def fault(self) -> BaseException | None:
        """What must be raised from `run` once the run is over, or None."""
        ...

    @property
    def has_run(self) -> bool:
        """Whether anything of the program may have run."""
        ...

    async def start(self) -> None:
        """Send the program to the process."""
        ...

    async def watch(self) -> None:
        """Keep the budgets that need a clock, until cancelled; may return at once."""
        ...

    async def end(self) -> None:
        """Bring the process to rest, answer no further call, wait for those in flight."""
        ...

    async def result(self) -> CodeRunResult:
        """Build the result."""
        ...


class PooledCodeRuntime(CodeRuntime, Generic[H]):
    """A runtime that takes a process from a pool for each run.

    A subclass says how a process and a session are made.

    Args:
        ctx: The scope of the plugin.
        config: What `ctx.plugin` was given.
        limits: The checked config.

    Attributes:
        late_modules: Modules that only a process or a run needs: imported while the warden starts.
    """

    late_modules: ClassVar[tuple[str, ...]] = ()

    def __init__(self, ctx: Context, config: object, limits: Limits) -> None:
        super().__init__(ctx, config)
        self._limits = limits
        self._owner_pid = os.getpid()
        self._settlements: set[Settlement] = set()
        self._idle = anyio.Event()
        self._disposed = True
        self._limiter: anyio.CapacityLimiter | None = None
        self._pool: HostPool[H] | None = None
        self._task_group: anyio.abc.TaskGroup | None = None

    @property
    def task_group(self) -> anyio.abc.TaskGroup:
        """Owns the tasks of the binding calls; open while the runtime is."""
        assert self._task_group is not None
        return self._task_group

    @abstractmethod
    def make_host(self, wardens: WardenKeeper, directories: RunDirectories) -> H:
        """Make a process that is not started yet."""

    @abstractmethod
    def make_session(
        self, request: CodeRunRequest, program: bytes, settlement: Settlement, host: H
    ) -> Session:
        """Make the session of a run; `program` is the program as JSON."""

    @abstractmethod
    def fail_early(self, kind: FailureKind, message: str) -> CodeRunResult:
        """Build the result of a run that has failed before it had a process."""

    @abstractmethod
    def make_wardens(self, folder: str) -> WardenKeeper:
        """Make the keeper of the warden that starts the processes."""

    def explain_wardens(self, error: Exception) -> HostStartError:
        """Say why no warden comes up."""
        return HostStartError("the guard", str(error), "a Linux or macOS system")

    @abstractmethod
    async def check_start(self, error: HostBootError | None) -> None:
        """Judge the boot of the first process.

        Args:
            error: Why it did not come up, None when it did.

        Raises:
            CodeRuntimeError: the provider cannot work with this config or installation.
        """

    @asynccontextmanager
    async def lifespan(self) -> AsyncIterator[None]:
        """Hold the warden, the processes and the folder of the working directories."""
        # Raised after the task group is closed, so that it comes as it is and not in a group.
        failure: CodeRuntimeError | None = None
        async with AsyncExitStack() as stack:
            directories = _open_directories()
            stack.push_async_callback(directories.aclose)
            task_group = self._task_group = await stack.enter_async_context(
                anyio.create_task_group()
            )
            wardens = self.make_wardens(directories.path)
            limit = self._limits.max_concurrent_runs
            pool = self._pool = HostPool(
                task_group,
                lambda: self.make_host(wardens, directories),
                spare_count=self._limits.spare_hosts,
                max_count=None if limit is None else limit + self._limits.spare_hosts,
            )
            self._limiter = None if limit is None else anyio.CapacityLimiter(limit)
            stack.push_async_callback(self._close, pool, task_group)
            try:
                await self._start(pool, wardens, task_group)
            except CodeRuntimeError as error:
                failure = error
            else:
                self._disposed = False
                yield
        if failure is not None:
            raise failure

    async def run(self, request: CodeRunRequest) -> CodeRunResult:
        """Run one program; see `CodeRuntime.run`.

        Raises:
            RuntimeDisposedError: the runtime is disposed.
            BindingNameError: a name of the bindings is not allowed.
            ForkedHostError: this process is a fork of the one that started the runtime.
            RequestTypeError: `request` is no CodeRunRequest.
        """
        owner = type(self).__qualname__
        if os.getpid() != self._owner_pid:
            raise ForkedHostError(owner, self._owner_pid, os.getpid())
        if self._disposed:
            raise RuntimeDisposedError(owner)
        if not isinstance(request, CodeRunRequest):
            raise RequestTypeError(f"{owner}.run", "request", describe(request), "CodeRunRequest")
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

    async def run_unchecked(self, request: CodeRunRequest) -> CodeRunResult:
        """Run a program of the provider's own while it starts, whatever time others get."""
        return await self._run_assigned(request, Settlement(), TRIAL_MS)

    async def _start(
        self, pool: HostPool[H], wardens: WardenKeeper, task_group: anyio.abc.TaskGroup
    ) -> None:
        task_group.start_soon(self._import_early)
        try:
            await task_group.start(wardens.serve)
            self._import_late()
        except (GuardError, OSError) as error:
            raise self.explain_wardens(error) from error
        failure: HostBootError | None = None
        try:
            await pool.start()
        except HostBootError as error:
            failure = error
        await self.check_start(failure)

    async def _import_early(self) -> None:
        await anyio.lowlevel.checkpoint()  # the warden's process is on its way then
        with suppress(OSError):  # no descriptor is free: `_start` tries again, and says so
            self._import_late()

    def _import_late(self) -> None:
        for name in self.late_modules:
            importlib.import_module(name)

    async def _run_queued(self, request: CodeRunRequest, settlement: Settlement) -> CodeRunResult:
        limits = [ms for ms in (self._limits.max_wall_ms, request.max_wall_ms) if ms is not None]
        wall_ms = min(limits, default=math.inf)
        if settlement.outcome is not None or self._limiter is None:
            return await self._run_assigned(request, settlement, wall_ms)
        token = object()
        with settlement.interrupts():
            await self._limiter.acquire_on_behalf_of(token)
        try:
            return await self._run_assigned(request, settlement, wall_ms)
        finally:
            with suppress(RuntimeError):  # the signal fired while this run was queued
                self._limiter.release_on_behalf_of(token)

    async def _run_assigned(
        self, request: CodeRunRequest, settlement: Settlement, wall_ms: float
    ) -> CodeRunResult:
        """Run on one process after another until one has taken the program."""
        begin_s = anyio.current_time()
        deadline_s = begin_s + wall_ms / 1000
        program = await _encode_program(request.program)
        assert self._pool is not None
        for tries_left in reversed(range(PROCESS_TRIES)):
            host = await self._take_host(settlement, deadline_s)
            if host is None:
                break
            try:
                begin_s = anyio.current_time()  # where the times of logs and calls begin, too
                session = self.make_session(request, program, settlement, host)
                await self._drive(session, settlement, deadline_s, wall_ms)
                # A process that died or was frozen while it waited has run nothing of this.
                if tries_left and not session.has_run and settlement.reopen():
                    self._ask_again(request, settlement)
                    continue
                result = self._recorded(request, begin_s, await session.result())
            finally:
                self._pool.give_back(host)
            if session.fault is not None:
                raise _with_result(session.fault, result)
            return result
        settlement.decide(_wall_timeout(wall_ms))
        outcome = settlement.outcome
        assert isinstance(outcome, Failed)
        return self._recorded(request, begin_s, self.fail_early(outcome.kind, outcome.message))

    def _recorded(
        self, request: CodeRunRequest, begin_s: float, result: CodeRunResult
    ) -> CodeRunResult:
        """Add to a result what a record of the run has beside it."""
        if not request.record:
            return result
        return replace(
            result,
            program=request.program,
            language=self.language,
            elapsed_ms=(anyio.current_time() - begin_s) * 1000,
        )

    def _ask_again(self, request: CodeRunRequest, settlement: Settlement) -> None:
        if request.signal is not None and request.signal.aborted:
            settlement.decide(Failed("abort", render_reason(request.signal.reason)))
        if self._disposed and self._settlements:
            settlement.decide(Failed("abort", DISPOSED))

    async def _take_host(self, settlement: Settlement, deadline_s: float) -> H | None:
        """Return a host; None when the run is settled, or its time is over, before one is there."""
        assert self._pool is not None
        if settlement.outcome is None:
            with anyio.CancelScope(deadline=deadline_s), settlement.interrupts():
                try:
                    return await self._pool.take()
                except HostBootError as error:
                    settlement.decide(Failed("worker-exit", f"worker did not start: {error}"))
        return None

    async def _drive(
        self, session: Session, settlement: Settlement, deadline_s: float, wall_ms: float
    ) -> None:
        """Run until an outcome is decided; whatever happens, bring the process to rest."""
        try:
            with anyio.CancelScope(deadline=deadline_s), settlement.interrupts():
                await session.start()
                await session.watch()
                await anyio.sleep_forever()
            settlement.decide(_wall_timeout(wall_ms))
        finally:
            settlement.decide(Failed("abort", "cancelled"))
            await self._complete(session)

    async def _complete(self, session: Session) -> None:
        """Wait for the end of a session, whatever happens to the caller meanwhile.

        A shield keeps a cancellation of anyio away, but not `task.cancel()` of asyncio: an end that
        is cut short would leave processes, and carry state to the next run.
        """
        over = anyio.Event()

        async def end() -> None:
            try:
                await session.end()
            finally:
                over.set()

        self.task_group.start_soon(end)
        cancellation: BaseException | None = None
        with anyio.CancelScope(shield=True):
            while not over.is_set():
                try:
                    await over.wait()
                except anyio.get_cancelled_exc_class() as error:
                    cancellation = error
        if cancellation is not None:
            raise cancellation

    async def _close(self, pool: HostPool[H], task_group: anyio.abc.TaskGroup) -> None:
        """End every run as aborted, wait for them, then let the processes go."""
        self._disposed = True
        with anyio.CancelScope(shield=True):
            while self._settlements:
                self._idle = anyio.Event()
                for settlement in list(self._settlements):
                    settlement.decide(Failed("abort", DISPOSED))
                await self._idle.wait()
            await pool.aclose()
        task_group.cancel_scope.cancel()


def _open_directories() -> RunDirectories:
    try:
        return RunDirectories()
    except OSError as error:
        reason = error.strerror or str(error)
        if isinstance(error, FileNotFoundError) and error.filename is None:
            reason = "tempfile finds none that it can use"  # and does not say why
        expected = "a temporary folder to write to"
        raise HostStartError("the working directories", reason, expected) from error


async def _encode_program(program: str) -> bytes:
    if len(program) <= INLINE_BYTES:
        return encode(program)
    return await anyio.to_thread.run_sync(encode, program)


def _listen_to_signal(request: CodeRunRequest, settlement: Settlement) -> Callable[[], None]:
    signal = request.signal
    if signal is None:
        return lambda: None

    wake = on_loop(settlement.wake)

    def abort() -> None:
        if settlement.claim(Failed("abort", render_reason(signal.reason))):
            wake()

    return signal.add_listener(abort)


def _wall_timeout(wall_ms: float) -> Failed:
    return Failed("timeout", f"wall-clock ceiling exceeded: {wall_ms:g} ms")


def _with_result(error: BaseException, result: CodeRunResult) -> BaseException:
    with suppress(Exception):
        error.result = result  # type: ignore[attr-defined]
    return error
