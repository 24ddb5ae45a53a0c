"""The tasks that binding calls run in.

A task for each call would cost more than most calls. Here one task runs call after call as long as
they end without waiting; behind a call that waits, another task goes on with the next one. Each
call still runs in one task from its first step to its last, as timeouts and task groups inside of
it need.
"""

from __future__ import annotations

import contextvars
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterator
from typing import Final, Generic, TypeVar, final

import anyio
import anyio.abc
import anyio.lowlevel

from ._reading import TURN_S

# Tasks without work that stay for the next call.
MAX_PARKED: Final = 16
# Tasks that are cancelled in one turn of the loop: a thousand take 30 ms.
CANCEL_COUNT: Final = 100


J = TypeVar("J")


@final
class JobRunners(Generic[J]):
    """Runs jobs in the order in which they were added, as many at once as there are.

    Args:
        task_group: Owns the tasks; it outlives `close`, because a job may ignore its cancellation.
        run: Does a job; returns whether the task may go on to another one.
        on_turn: Called at the begin of each turn of a task, before the last job that there is, and
            when there is none left.
        on_end: Told when a job has ended.
    """

    __slots__ = (
        "_closed",
        "_on_end",
        "_on_turn",
        "_parked",
        "_queue",
        "_run",
        "_running",
        "_scheduled_count",
        "_scopes",
        "_task_group",
    )

    def __init__(
        self,
        task_group: anyio.abc.TaskGroup,
        run: Callable[[J], Awaitable[bool]],
        on_turn: Callable[[], None],
        on_end: Callable[[J], None],
    ) -> None:
        self._task_group = task_group
        self._run = run
        self._on_turn = on_turn
        self._on_end = on_end
        self._queue: deque[J] = deque()
        self._running: dict[anyio.CancelScope, J] = {}
        self._parked: list[anyio.Event] = []
        self._scopes: set[anyio.CancelScope] = set()
        # Tasks that are about to take a job.
        self._scheduled_count = 0
        self._closed = False

    def __len__(self) -> int:
        return len(self._queue) + len(self._running)

    def __iter__(self) -> Iterator[J]:
        """Iterate over the jobs that run."""
        return iter(list(self._running.values()))

    def add(self, job: J) -> None:
        """Run a job soon."""
        self._queue.append(job)
        self._schedule()

    def close(self) -> list[J]:
        """Cancel what runs and let the tasks end; return the jobs that had not begun."""
        self._closed = True
        left = list(self._queue)
        self._queue.clear()
        scopes = list(self._scopes)
        for scope in scopes[:CANCEL_COUNT]:
            scope.cancel()
        if len(scopes) > CANCEL_COUNT:
            self._task_group.start_soon(self._cancel, scopes[CANCEL_COUNT:])
        return left

    async def _cancel(self, scopes: list[anyio.CancelScope]) -> None:
        with anyio.CancelScope(shield=True):
            for number, scope in enumerate(scopes):
                if number % CANCEL_COUNT == 0:
                    await anyio.lowlevel.checkpoint()
                scope.cancel()

    def _schedule(self) -> None:
        # One task, until the first job waits; then as many again as wait, so that a crowd of
        # waiting jobs begins in few turns of the loop.
        crowd_count = len(self._running) or 1
        if self._scheduled_count >= crowd_count:
            return  # most often
        wanted_count = min(len(self._queue), crowd_count)
        while self._scheduled_count < wanted_count:
            self._scheduled_count += 1
            if self._parked:
                self._parked.pop().set()
            else:
                self._task_group.start_soon(self._serve)

    async def _serve(self) -> None:
        scope = anyio.CancelScope()
        self._scopes.add(scope)
        try:
            with scope:
                context = contextvars.copy_context()
                while await self._take_turn(scope, context):
                    await self._park()
        except anyio.get_cancelled_exc_class():
            # A job has had its own task cancelled, and was over before it felt it. That is nothing
            # for the task group of all; a cancellation of the task group ends this task too.
            pass
        finally:
            self._scopes.discard(scope)
            if not self._closed:
                self._schedule()

    async def _park(self) -> None:
        wake = anyio.Event()
        self._parked.append(wake)
        try:
            await wake.wait()
        except BaseException:
            if wake.is_set():
                self._scheduled_count -= 1
            else:
                self._parked.remove(wake)
            raise

    async def _take_turn(self, scope: anyio.CancelScope, context: contextvars.Context) -> bool:
        """Run jobs until there is none; return whether this task is fit for more."""
        self._scheduled_count -= 1
        self._on_turn()
        turn_ends_s = time.monotonic() + TURN_S
        is_fit = True
        while self._queue and is_fit and not self._closed:
            job = self._running[scope] = self._queue.popleft()
            if self._queue:
                self._schedule()
            else:
                self._on_turn()
            try:
                is_fit = await self._run(job)
            finally:
                del self._running[scope]
                self._on_end(job)
            # What a job has set in its context is nothing for the next one.
            is_fit = is_fit and contextvars.copy_context() == context
            if time.monotonic() > turn_ends_s:
                self._on_turn()
                await anyio.lowlevel.checkpoint()
                turn_ends_s = time.monotonic() + TURN_S
        self._on_turn()
        return is_fit and not self._closed and len(self._parked) < MAX_PARKED
