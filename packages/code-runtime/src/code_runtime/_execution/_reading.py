"""Reads messages from a non-blocking socket with as few turns of the event loop as it takes."""

from __future__ import annotations

import asyncio
import contextvars
import socket
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator
from enum import Enum
from typing import Final, Generic, TypeVar, final

import anyio
import anyio.lowlevel

CHUNK_BYTES: Final = 65_536
# A flood of small frames never makes the socket run dry; other tasks of the host get the loop at
# least this often.
TURN_S: Final = 0.005
# What a peer that writes on and on gets to write, before it is read again. To be woken for each of
# its small messages would cost both sides more than the messages.
LULL_S: Final = 0.001

M = TypeVar("M")


class State(Enum):
    """Why there is nothing to handle for now."""

    DRY = "all that has arrived is handled"
    CLOSED = "the peer has closed"
    LATE = "other tasks have to get the loop first"


@final
class Reading(Generic[M]):
    """One reader of a socket, until the peer closes it; see `StreamChannel.read`."""

    __slots__ = (
        "_cut",
        "_handle",
        "_is_dry",
        "_is_flooded",
        "_messages",
        "_pause",
        "_settle",
        "_socket",
    )

    def __init__(
        self,
        sock: socket.socket,
        cut: Callable[[bytes], Iterable[M]],
        handle: Callable[[M], None],
        pause: Callable[[], Awaitable[None] | None] | None,
        settle: Callable[[], None] | None,
        is_flooded: Callable[[], bool] | None,
    ) -> None:
        self._socket = sock
        self._cut = cut
        self._handle = handle
        self._pause = pause
        self._settle = settle
        self._is_flooded = is_flooded
        self._messages: Iterator[M] = iter(())
        self._is_dry = False

    async def run(self) -> None:
        """Read to the end."""
        on_asyncio = _is_asyncio()
        while True:
            outcome = self._take_turn()
            if outcome is State.DRY:
                if on_asyncio:
                    outcome = await self._listen()
                else:
                    if self._is_flooded is not None and self._is_flooded():
                        await anyio.sleep(LULL_S)
                    await anyio.wait_readable(self._socket)
                    continue
            if outcome is State.CLOSED:
                return
            if outcome is State.LATE:
                await anyio.lowlevel.checkpoint()
            elif not isinstance(outcome, State):
                await outcome

    def _take_turn(self) -> State | Awaitable[None]:
        """Handle what has arrived; return what must be over before more may be handled."""
        turn_ends_s = time.monotonic() + TURN_S
        while True:
            for message in self._messages:
                self._handle(message)
                wait = None if self._pause is None else self._pause()
                is_late = wait is None and time.monotonic() > turn_ends_s
                if is_late or wait is not None:
                    if self._settle is not None:
                        self._settle()
                    return State.LATE if wait is None else wait
            if self._settle is not None:
                self._settle()
            if self._is_dry:
                self._is_dry = False
                return State.DRY
            if time.monotonic() > turn_ends_s:  # `cut` may have handled all that it was given
                return State.LATE
            try:
                chunk = self._socket.recv(CHUNK_BYTES)
            except BlockingIOError:
                return State.DRY
            except OSError:
                return State.CLOSED
            if not chunk:
                return State.CLOSED
            # Less than there is room for: there was no more, and what comes now wakes the reader.
            self._is_dry = len(chunk) < CHUNK_BYTES
            self._messages = iter(self._cut(chunk))

    async def _listen(self) -> State | Awaitable[None]:
        """Handle what arrives in callbacks of the loop, as long as there is nothing to wait for.

        To wake a task for each message would take a turn of the loop more, and two system calls to
        register for the next one.
        """
        loop = asyncio.get_running_loop()
        over: asyncio.Future[State | Awaitable[None]] = loop.create_future()
        context = contextvars.copy_context()
        context.run(_name_library)

        def listen() -> None:
            if not over.done():
                loop.add_reader(self._socket, on_readable)  # in the context of this call

        def on_readable() -> None:
            if over.done():
                return  # the task has not had its turn yet
            try:
                outcome = self._take_turn()
            except BaseException as error:
                over.set_exception(error)
            else:
                if outcome is not State.DRY:
                    over.set_result(outcome)
                elif self._is_flooded is not None and self._is_flooded():
                    loop.remove_reader(self._socket)
                    loop.call_later(LULL_S, listen, context=context)

        context.run(listen)
        try:
            return await over
        except BaseException:
            if over.done() and not over.cancelled() and over.exception() is None:
                # Cancelled in the moment in which there was something to wait for.
                getattr(over.result(), "close", int)()
            raise
        finally:
            loop.remove_reader(self._socket)


def _is_asyncio() -> bool:
    return issubclass(anyio.get_cancelled_exc_class(), asyncio.CancelledError)


def _name_library() -> None:
    """Let anyio know its event loop where there is no current task."""
    try:
        import sniffio
    except ImportError:
        return  # then anyio asks asyncio
    sniffio.current_async_library_cvar.set("asyncio")
