"""Sockets that take a few kilobytes at a time: everything still arrives, whole and in order."""

from __future__ import annotations

import socket

import anyio
import pytest
from faults import Backend
from run_requests import build_request

pytestmark = pytest.mark.anyio

# The kernel raises it to its least, which is 4,608 bytes of bookkeeping and content for sending.
LEAST_BYTES = 1


def shrink(sock: socket.socket) -> socket.socket:
    for option in (socket.SO_SNDBUF, socket.SO_RCVBUF):
        sock.setsockopt(socket.SOL_SOCKET, option, LEAST_BYTES)
    return sock


@pytest.fixture
def small_buffers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shrink every pair of sockets, and each connection that is accepted."""
    make_pair, accept = socket.socketpair, socket.socket.accept

    def small_pair() -> tuple[socket.socket, socket.socket]:
        ours, theirs = make_pair()
        return shrink(ours), shrink(theirs)

    def small_accept(listener: socket.socket) -> tuple[socket.socket, object]:
        connection, address = accept(listener)
        return shrink(connection), address

    monkeypatch.setattr(socket, "socketpair", small_pair)
    monkeypatch.setattr(socket.socket, "accept", small_accept)


async def test_traffic_of_all_kinds_gets_through_small_buffers(
    backend: Backend, small_buffers: None
) -> None:
    """PY-283, WT-063: replies and a value of 300,000 characters, 1,500 calls, 5,000 logs."""
    live: list[str] = []
    async with backend.open() as runtime:
        request = build_request(backend.traffic, {"echo": lambda value: value}, on_log=live.append)
        with anyio.fail_after(50):
            result = await runtime.run(request)
        await backend.run_fine(runtime)
    lines = [str(number) for number in range(5000)]
    assert result.error is None
    assert result.value == [list(range(1500)), "x" * 300_000]
    assert (result.logs == lines, live == lines) == (True, True)
    assert [call.outcome for call in result.calls] == ["ok"] * 1501
