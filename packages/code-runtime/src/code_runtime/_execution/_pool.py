"""Keeps processes ready: a run takes one that waits for it, and gives it back.

A host that is taken is replaced, so `spare_count` idle ones stay ready; more come up when runs
wait, up to one for each concurrent run, and go again after `SURPLUS_S` without use.
"""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Final, Generic, Protocol, TypeVar, final

import anyio
import anyio.abc

SURPLUS_S: Final = 10.0
BOOT_TRIES: Final = 3
# As long as another host is ready, a replacement leaves the processors to the run that begins, and
# to the rest of the one that ends.
REPLACE_DELAY_S: Final = 0.01


class HostBootError(Exception):
    """A process that serves runs did not come up; the text says why."""


class PooledHost(Protocol):
    """A process that serves one run at a time, as the pool sees it."""

    @property
    def retired(self) -> str | None:
        """Why it must serve no further run, or None."""
        ...

    def retire(self, reason: str) -> None:
        """Let it serve no further run; the first reason is kept."""
        ...

    async def serve(
        self, *, task_status: anyio.abc.TaskStatus[None] = anyio.TASK_STATUS_IGNORED
    ) -> None:
        """Start the process and read from it until it is gone."""
        ...

    async def boot(self) -> None:
        """Wait until it can serve its first run.

        Raises:
            HostBootError: it does not come up.
        """
        ...

    async def renew(self) -> None:
        """Make it ready for a further run.

        Raises:
            HostBootError: it does not come up again.
        """
        ...

    async def shut_down(self) -> None:
        """Kill it and wait until everything of it is released; idempotent."""
        ...


H = TypeVar("H", bound=PooledHost)


@final
class HostPool(Generic[H]):
    """Owns every process of one provider; their tasks live in `task_group`.

    Args:
        task_group: Ends only after `aclose`.
        make_host: Makes a host that is not started yet.
        spare_count: Idle hosts that are kept ready.
        max_count: Hosts at once, None for no limit.
    """

    def __init__(
        self,
        task_group: anyio.abc.TaskGroup,
        make_host: Callable[[], H],
        *,
        spare_count: int,
        max_count: int | None,
    ) -> None:
        self._task_group = task_group
        self._make_host = make_host
        self._spare_count = spare_count
        self._max_count = max_count
        self._idle: deque[tuple[float, H]] = deque()
        self._hosts: set[H] = set()
        self._waiters: deque[_Waiter[H]] = deque()
        self._booting_count = 0
        self._closed = False
        self._is_replacing = False
        # More boots at once than processors only make each of them later.
        self._boots = anyio.CapacityLimiter(max(2, os.cpu_count() or 1))

    async def start(self) -> None:
        """Boot the first host and wait for it; the others come up in the background.

        Raises:
            HostBootError: it does not come up.
        """
        host = await self._boot_host()
        self._offer(host)
        self._task_group.start_soon(self._trim)
        self._replace()  # not at once: the first run is often on its way

    async def take(self) -> H:
        """Return a host that waits for a run; the caller gives it back.

        Raises:
            HostBootError: none comes up.
        """
        host = self._pop_idle()
        if host is None:
            waiter: _Waiter[H] = _Waiter()
            self._waiters.append(waiter)
            self._refill()
            try:
                await waiter.event.wait()
            except BaseException:
                # A host that was handed over in the same moment must not get lost.
                self._waiters = deque(other for other in self._waiters if other is not waiter)
                if waiter.host is not None:
                    self._offer(waiter.host)
                raise
            host = waiter.host
            if host is None:
                raise waiter.error or HostBootError("the provider is disposed")
        self._replace()
        return host

    def give_back(self, host: H) -> None:
        """Take a host after its run: make it ready again, or let it go."""
        if host.retired is not None or self._closed:
            self._task_group.start_soon(host.shut_down)
            return
        self._booting_count += 1
        self._task_group.start_soon(self._renew, host)

    async def aclose(self) -> None:
        """Kill every host and wait until nothing of them is left."""
        self._closed = True
        while self._waiters:
            self._waiters.popleft().event.set()
        async with anyio.create_task_group() as task_group:
            for host in list(self._hosts):
                host.retire("the provider is disposed")
                task_group.start_soon(host.shut_down)

    def _pop_idle(self) -> H | None:
        while self._idle:
            _, host = self._idle.pop()
            if host.retired is None:
                return host
            self._task_group.start_soon(host.shut_down)
        return None

    def _offer(self, host: H) -> None:
        if host.retired is not None or self._closed:
            self._task_group.start_soon(host.shut_down)
        elif self._waiters:
            waiter = self._waiters.popleft()
            waiter.host = host
            waiter.event.set()
        else:
            self._idle.append((time.monotonic(), host))

    def _refill(self) -> None:
        if self._closed:
            return
        missing = self._spare_count + len(self._waiters) - len(self._idle) - self._booting_count
        if self._max_count is not None:
            missing = min(missing, self._max_count - len(self._hosts))
        for _ in range(missing):
            self._booting_count += 1
            self._task_group.start_soon(self._add_host)

    def _replace(self) -> None:
        """Refill, at once if no host is ready."""
        if self._closed or not self._idle or self._waiters:
            self._refill()
        elif not self._is_replacing:
            self._is_replacing = True
            self._task_group.start_soon(self._refill_later)

    async def _refill_later(self) -> None:
        await anyio.sleep(REPLACE_DELAY_S)
        self._is_replacing = False
        self._refill()

    async def _add_host(self) -> None:
        try:
            host = await self._boot_patiently()
        except HostBootError as error:
            self._fail_waiter(error)
            return
        finally:
            self._booting_count -= 1
        self._offer(host)

    async def _boot_patiently(self) -> H:
        # Something that runs beside may have spoiled one boot; a broken installation spoils all.
        for _ in range(BOOT_TRIES - 1):
            with suppress(HostBootError):
                return await self._boot_host()
        return await self._boot_host()

    async def _renew(self, host: H) -> None:
        try:
            await host.renew()
        except HostBootError as error:
            host.retire(str(error))
        finally:
            self._booting_count -= 1
        self._offer(host)
        self._refill()

    async def _boot_host(self) -> H:
        host = self._make_host()
        self._hosts.add(host)
        async with self._boots:
            try:
                await self._task_group.start(self._serve, host)
                await host.boot()
            except BaseException:
                with anyio.CancelScope(shield=True):
                    await host.shut_down()
                raise
        return host

    async def _serve(
        self,
        host: H,
        *,
        task_status: anyio.abc.TaskStatus[None] = anyio.TASK_STATUS_IGNORED,
    ) -> None:
        up = _Up(task_status)
        try:
            await host.serve(task_status=up)
        except Exception as error:
            # A fault of one process, or of our own in handling it, is not one of the provider.
            host.retire(f"{type(error).__name__}: {error}")
            if not up.is_up:
                # Who waits for the start gets this; a task that ends without it is a RuntimeError.
                raise HostBootError(str(error)) from error
        finally:
            self._hosts.discard(host)
            self._idle = deque(item for item in self._idle if item[1] is not host)
            self._replace()

    def _fail_waiter(self, error: HostBootError) -> None:
        # One failed boot fails one run; the next run tries again.
        if self._waiters:
            waiter = self._waiters.popleft()
            waiter.error = error
            waiter.event.set()

    async def _trim(self) -> None:
        while not self._closed:
            await anyio.sleep(SURPLUS_S)
            oldest_allowed_s = time.monotonic() - SURPLUS_S
            while len(self._idle) > self._spare_count and self._idle[0][0] < oldest_allowed_s:
                _, host = self._idle.popleft()
                await host.shut_down()


@final
class _Up:
    """Tells the starter of a task, and remembers it."""

    __slots__ = ("_status", "is_up")

    def __init__(self, status: anyio.abc.TaskStatus[None]) -> None:
        self._status = status
        self.is_up = False

    def started(self, value: None = None) -> None:
        """Say that the process is up."""
        self.is_up = True
        self._status.started(value)


@final
class _Waiter(Generic[H]):
    """A run that waits for a host."""

    __slots__ = ("error", "event", "host")

    def __init__(self) -> None:
        self.event = anyio.Event()
        self.host: H | None = None
        self.error: HostBootError | None = None
