"""How a stream is read: in what order, in which turns, and how long the loop stays awake."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator

import anyio
import pytest

from code_runtime._execution._reading import TURN_S, Reading, State


@pytest.fixture
def ends() -> Iterator[tuple[socket.socket, socket.socket]]:
    """A connected pair; the first end is read."""
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    with ours, theirs:
        yield ours, theirs


def cut(chunk: bytes) -> Iterator[str]:
    yield from chunk.decode()


def take_turns(reading: Reading[str]) -> State:
    """Take turns until there is nothing to do; return why."""
    while (outcome := reading.take_turn()) is State.LATE:
        pass
    assert isinstance(outcome, State)
    return outcome


def test_turn_that_was_cut_short_is_followed_by_what_has_come_since(
    ends: tuple[socket.socket, socket.socket],
) -> None:
    """`DRY` is never said of what was seen in an earlier turn."""
    ours, theirs = ends
    seen: list[str] = []

    def handle(message: str) -> None:
        seen.append(message)
        ends_s = time.monotonic() + 2 * TURN_S
        while message == "a" and time.monotonic() < ends_s:
            pass

    reading = Reading(ours, cut, handle)
    theirs.send(b"ab")
    assert (reading.take_turn(), seen) == (State.LATE, ["a"])
    theirs.send(b"c")
    assert (take_turns(reading), seen) == (State.DRY, ["a", "b", "c"])


def test_what_was_written_elsewhere_before_is_handled_first(
    ends: tuple[socket.socket, socket.socket],
) -> None:
    ours, theirs = ends
    seen: list[str] = []
    answers = iter([False, False, True, True])

    def catch_up() -> bool:
        seen.append("?")
        return next(answers)

    reading = Reading(ours, cut, seen.append, catch_up=catch_up)
    theirs.send(b"ab")
    assert (reading.take_turn(), seen) == (State.LATE, ["?"])
    assert (take_turns(reading), seen) == (State.DRY, ["?", "?", "?", "a", "b"])
    theirs.send(b"c")
    assert (take_turns(reading), seen[5:]) == (State.DRY, ["?", "c"])
    theirs.close()
    assert (take_turns(reading), len(seen)) == (State.CLOSED, 7)


@pytest.mark.anyio
async def test_loop_falls_asleep_again_after_a_message(
    ends: tuple[socket.socket, socket.socket],
) -> None:
    """It turns for 150 µs; without an end to that, the second would cost a second."""
    ours, theirs = ends
    seen: list[str] = []
    reading = Reading(ours, cut, seen.append, stays_awake=True)
    async with anyio.create_task_group() as task_group:
        task_group.start_soon(reading.run)
        theirs.send(b"a")
        before_s = time.process_time()
        await anyio.sleep(1)
        used_s = time.process_time() - before_s
        theirs.send(b"b")
        theirs.close()
    assert seen == ["a", "b"]
    assert used_s < 0.5
