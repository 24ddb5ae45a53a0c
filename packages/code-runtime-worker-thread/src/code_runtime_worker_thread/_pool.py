"""Keeps Node hosts ready: a run takes one that has a spare worker, and gives it back.

A host that is taken is replaced at once, so `spare_hosts` idle ones stay ready; more come up when
runs wait, up to one for each concurrent run, and go again after `SURPLUS_S` without use.
"""

from __future__ import annotations

import os
import time
from collections import deque
from typing import Final, final

import anyio
import anyio.abc

from code_runtime._execution._wardens import WardenKeeper

from ._config import WorkerThreadConfig
from ._host import HostBootError, NodeHost
from ._node import NodeBinary

SURPLUS_S: Final = 10.0


@final
class HostPool:
    """Owns every Node host of one provider; their tasks live in `task_group`.

    Args:
        task_group: Ends only after `aclose`.
        wardens: Start the processes.
        node: The binary.
        config: Sizes.
        cwd: Working directory of an idle host.
    """

    def __init__(
        self,
        task_group: anyio.abc.TaskGroup,
        wardens: WardenKeeper,
        node: NodeBinary,
        config: WorkerThreadConfig,
        cwd: str,
    ) -> None:
        self._task_group = task_group
        self._wardens = wardens
        self._node = node
        self._config = config
        self._cwd = cwd
        self._idle: deque[tuple[float, NodeHost]] = deque()
        self._hosts: set[NodeHost] = set()
        self._waiters: deque[_Waiter] = deque()
        self._booting_count = 0
        self._closed = False
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
        self._refill()

    async def take(self) -> NodeHost:
        """Return a host with a spare worker; the caller gives it back.

        Raises:
            HostBootError: none comes up.
        """
        host = self._pop_idle()
        if host is None:
            waiter = _Waiter()
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
        self._refill()
        return host

    def give_back(self, host: NodeHost) -> None:
        """Take a host after its run: boot its next worker, or let it go."""
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

    def _pop_idle(self) -> NodeHost | None:
        while self._idle:
            _, host = self._idle.pop()
            if host.retired is None:
                return host
            self._task_group.start_soon(host.shut_down)
        return None

    def _offer(self, host: NodeHost) -> None:
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
        limit = self._config.max_concurrent_runs
        missing = (
            self._config.spare_hosts + len(self._waiters) - len(self._idle) - self._booting_count
        )
        if limit is not None:
            missing = min(missing, limit + self._config.spare_hosts - len(self._hosts))
        for _ in range(missing):
            self._booting_count += 1
            self._task_group.start_soon(self._add_host)

    async def _add_host(self) -> None:
        try:
            host = await self._boot_host()
        except HostBootError as error:
            self._fail_waiter(error)
            return
        finally:
            self._booting_count -= 1
        self._offer(host)

    async def _renew(self, host: NodeHost) -> None:
        try:
            await host.boot_worker()
        except (HostBootError, OSError):
            host.retire("its worker did not boot")
        finally:
            self._booting_count -= 1
        self._offer(host)
        self._refill()

    async def _boot_host(self) -> NodeHost:
        host = NodeHost(self._wardens, self._node, self._config, self._cwd)
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
        host: NodeHost,
        *,
        task_status: anyio.abc.TaskStatus[None] = anyio.TASK_STATUS_IGNORED,
    ) -> None:
        try:
            await host.serve(task_status=task_status)
        finally:
            self._hosts.discard(host)
            self._refill()

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
            while (
                len(self._idle) > self._config.spare_hosts and self._idle[0][0] < oldest_allowed_s
            ):
                _, host = self._idle.popleft()
                await host.shut_down()


@final
class _Waiter:
    """A run that waits for a host."""

    __slots__ = ("error", "event", "host")

    def __init__(self) -> None:
        self.event = anyio.Event()
        self.host: NodeHost | None = None
        self.error: HostBootError | None = None
