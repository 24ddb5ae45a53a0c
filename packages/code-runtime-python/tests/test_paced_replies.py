"""Replies are encoded and written one at a time, and nothing is encoded for a run that is over."""

from __future__ import annotations

import socket
from collections.abc import Callable

import anyio
import anyio.abc
import anyio.lowlevel
import pytest
from python_forgery import FORGE
from run_requests import Provider, Run, build_request

from code_runtime import CodeBindingNamespace
from code_runtime._execution._calls import CallDesk
from code_runtime._execution._journal import Journal
from code_runtime._execution._sender import PacedSender
from code_runtime_python._session import _encode_reply

pytestmark = pytest.mark.anyio

MIB = 1_048_576


class Wire:
    """A desk on a socket with small buffers, and what its sender held at each encoding."""

    def __init__(
        self, task_group: anyio.abc.TaskGroup, functions: dict[str, Callable[..., object]]
    ) -> None:
        self.ours, self.theirs = socket.socketpair()
        self.ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
        self.ours.setblocking(False)
        self.theirs.setblocking(False)
        self.sender = PacedSender(self.ours)
        self.backlogs: list[int] = []
        self.frames: list[int] = []
        self.desk = CallDesk(
            task_group,
            [CodeBindingNamespace("tools", functions)],
            self.sender,
            self._encode,
            Journal(record=False),
            _raise,
            first_id=0,
            allows_gaps=False,
        )

    def _encode(self, call_id: int, ok: bool, payload: bytes) -> bytes:
        self.backlogs.append(self.backlog)
        frame = _encode_reply(call_id, ok, payload)
        self.frames.append(len(frame))
        return frame

    @property
    def backlog(self) -> int:
        """What is encoded and not yet taken by the kernel."""
        return self.sender.backlog_bytes

    async def read(self, handle: Callable[[bytes], None]) -> None:
        """Read slowly: 64 KiB, then let everyone else have a turn."""
        while True:
            await anyio.wait_readable(self.theirs)
            data = self.theirs.recv(65_536)
            if not data:
                return
            handle(data)
            await anyio.lowlevel.checkpoint()

    def close(self) -> None:
        self.ours.close()
        self.theirs.close()


def _raise(error: BaseException) -> None:
    raise error


async def test_eight_large_replies_leave_no_backlog(anyio_backend: str) -> None:
    """PY-277: nothing waits encoded before a write, and one frame at most at any time."""
    peak = 0
    received = bytearray()
    count = 0
    async with anyio.create_task_group() as task_group:
        wire = Wire(task_group, {"big": lambda n: str(n) * (4 * MIB)})
        for call_id in range(8):
            wire.desk.accept(call_id, "tools", "big", call_id, 10)

        def take(data: bytes) -> None:
            nonlocal peak, count
            peak = max(peak, wire.backlog)
            received.extend(data)
            count += data.count(b"\n")
            if count == 8:
                task_group.cancel_scope.cancel()

        await wire.read(take)
    wire.close()
    assert wire.backlogs == [0] * 8
    assert 0 < peak <= max(wire.frames)
    lines = bytes(received).splitlines()
    assert sorted(len(line) for line in lines) == sorted(size - 1 for size in wire.frames)
    assert sorted({line[-3:-2] for line in lines}) == [b"%d" % number for number in range(8)]


async def test_eight_large_replies_arrive_whole(run: Run) -> None:
    """PY-195, PY-277: each to its own call, through a real child."""
    result = await run(
        "import asyncio\n"
        "texts = await asyncio.gather(*[tools.big(n) for n in range(8)])\n"
        "return [sum(map(len, texts)), all(set(t) == {str(n)} for n, t in enumerate(texts))]",
        {"big": lambda n: str(n) * (4 * MIB)},
    )
    assert (result.value, result.error) == ([33_554_432, True], None)


async def test_nothing_is_encoded_once_the_run_is_over(anyio_backend: str) -> None:
    """PY-192, PY-198, PY-279: the reply in the middle of its write is given up too."""
    async with anyio.create_task_group() as task_group:
        wire = Wire(task_group, {"big": lambda _: "x" * MIB})
        for call_id in range(8):
            wire.desk.accept(call_id, "tools", "big", call_id, 10)
        while not wire.backlog:
            await anyio.lowlevel.checkpoint()
        wire.desk.close()
        await wire.desk.wait_closed(5)
        assert len(wire.frames) == 1
    wire.close()


@pytest.mark.parametrize("fails", [False, True], ids=["value", "error"])
async def test_what_a_call_leaves_after_the_end_is_not_encoded(
    anyio_backend: str, fails: bool
) -> None:
    """PY-192: the function has ignored its cancellation."""
    started, release = anyio.Event(), anyio.Event()

    async def late(_: object) -> object:
        started.set()
        with anyio.CancelScope(shield=True):
            await release.wait()
        if fails:
            raise ValueError("late")
        return "late"

    async with anyio.create_task_group() as task_group:
        wire = Wire(task_group, {"late": late})
        wire.desk.accept(0, "tools", "late", 1, 10)
        await started.wait()
        wire.desk.close()
        release.set()
        await wire.desk.wait_closed(5)
        assert wire.frames == []
    wire.close()


async def test_a_peer_that_is_gone_ends_the_wait(anyio_backend: str) -> None:
    """PY-278: no task waits for room that never comes."""
    async with anyio.create_task_group() as task_group:
        wire = Wire(task_group, {"big": lambda _: "x" * MIB})
        for call_id in range(8):
            wire.desk.accept(call_id, "tools", "big", call_id, 10)
        while not wire.backlog:
            await anyio.lowlevel.checkpoint()
        wire.theirs.close()
        with anyio.fail_after(5):
            while wire.desk.in_flight_count:
                await anyio.lowlevel.checkpoint()
        wire.desk.close()
    wire.close()


async def test_replies_through_a_full_pipe_keep_their_order(anyio_backend: str) -> None:
    """PY-280: 1,536 of them, each larger than the buffer; none is lost or sent twice."""
    received, complete = bytearray(), anyio.Event()
    async with anyio.create_task_group() as task_group:
        wire = Wire(task_group, {"echo": lambda _: "x" * 8192})

        def take(data: bytes) -> None:
            received.extend(data)
            if data.endswith(b"\n") and received.count(b"\n") == 1536:
                complete.set()

        task_group.start_soon(wire.read, take)
        for call_id in range(1536):
            wire.desk.accept(call_id, "tools", "echo", call_id, 10)
            if wire.desk.saturated:
                await wire.desk.wait_for_room()
        wire.desk.flush()
        with anyio.fail_after(20):
            await complete.wait()
        task_group.cancel_scope.cancel()
    wire.close()
    ids = [int(line.split(b",", 2)[1][5:]) for line in bytes(received).splitlines()]
    assert sorted(ids) == list(range(1536))


async def test_a_child_that_floods_and_never_reads_ends_at_the_wall(provider: Provider) -> None:
    """PY-281, PY-282: reading stops at 1,024 calls in flight; the host holds no more than these."""
    called = 0

    def big(_: object) -> str:
        nonlocal called
        called += 1
        return "x" * 10_000

    async with provider(max_wall_ms=700) as runtime:
        result = await runtime.run(
            build_request(
                f"{FORGE}\nfor number in range(100_000): call(number, 'big', 'y' * 1000)\nreturn 1",
                {"big": big},
            )
        )
    assert result.error is not None
    assert (result.error.kind, result.error.message) == (
        "timeout",
        "wall-clock ceiling exceeded: 700 ms",
    )
    assert called < 1_300


async def test_a_value_is_delivered_while_a_large_reply_is_on_its_way(run: Run) -> None:
    """PY-198."""
    result = await run(
        "import asyncio\n"
        "task = asyncio.ensure_future(tools.big(1))\nawait asyncio.sleep(0.01)\nreturn 'value'",
        {"big": lambda _: "x" * (16 * MIB)},
    )
    assert (result.value, result.error) == ("value", None)
