"""Reads messages from a non-blocking stream with as few turns of the event loop as it takes."""

from __future__ import annotations

import asyncio
import contextvars
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator
from enum import Enum
from typing import Any, Final, Generic, Protocol, TypeVar, final

import anyio
import anyio.lowlevel

CHUNK_BYTES: Final = 65_536
# A flood of small frames never makes the socket run dry; other tasks of the host get the loop at
# least this often.
TURN_S: Final = 0.005
# What a peer that writes on and on gets to write, before it is read again. To be woken for each of
# its small messages would cost both sides more than the messages.
LULL_S: Final = 0.001

# So long the loop of the host stays awake after a message: a program that has got a reply often
# asks again at once, and to wake a process that sleeps takes as long as all else of a call.
AWAKE_S: Final = 0.000_15

M = TypeVar("M")


class Source(Protocol):
    """What is read: a non-blocking socket, or what reads like one."""

    def fileno(self) -> int:
        """Return the descriptor to wait for."""
        ...

    def recv(self, size_bytes: int, /) -> bytes:
        """Return what has arrived; raise BlockingIOError if nothing has."""
        ...


class State(Enum):
    """Why there is nothing to handle for now."""

    DRY = "all that has arrived is handled"
    CLOSED = "the peer has closed"
    LATE = "other tasks have to get the loop first"


@final
class Reading(Generic[M]):
    """One reader of a stream, until the peer closes it; see `StreamChannel.read`."""

    __slots__ = (
        "_catch_up",
        "_cut",
        "_handle",
        "_is_behind",
        "_is_dry",
        "_is_flooded",
        "_messages",
        "_pause",
        "_settle",
        "_source",
        "_stays_awake",
    )

    def __init__(
        self,
        source: Source,
        cut: Callable[[bytes], Iterable[M]],
        handle: Callable[[M], None],
        pause: Callable[[], Awaitable[None] | None] | None = None,
        settle: Callable[[], None] | None = None,
        *,
        stays_awake: bool = False,
        is_flooded: Callable[[], bool] | None = None,
        catch_up: Callable[[], bool] | None = None,
    ) -> None:
        self._source = source
        self._cut = cut
        self._handle = handle
        self._pause = pause
        self._settle = settle
        self._stays_awake = stays_awake
        self._is_flooded = is_flooded
        self._catch_up = catch_up
        self._is_behind = False
        self._messages: Iterator[M] = iter(())
        self._is_dry = False

    async def run(self) -> None:
        """Read to the end."""
        on_asyncio = _is_asyncio()
        while True:
            outcome = self.take_turn()
            if outcome is State.DRY:
                if on_asyncio:
                    outcome = await self._listen()
                else:
                    if self._is_flooded is not None and self._is_flooded():
                        await anyio.sleep(LULL_S)
                    await anyio.wait_readable(self._source)
                    continue
            if outcome is State.CLOSED:
                return
            if outcome is State.LATE:
                await anyio.lowlevel.checkpoint()
            elif not isinstance(outcome, State):
                await outcome

    def take_turn(self) -> State | Awaitable[None]:
        """Handle what has arrived; return what must be over before more may be handled."""
        turn_ends_s = time.monotonic() + TURN_S
        self._is_dry = False  # the last turn may have been cut short, and more have come since
        while True:
            if self._is_behind and self._catch_up is not None:
                if not self._catch_up():
                    return State.LATE
                self._is_behind = False
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
                return State.DRY
            if time.monotonic() > turn_ends_s:  # `cut` may have handled all that it was given
                return State.LATE
            try:
                chunk = self._source.recv(CHUNK_BYTES)
            except BlockingIOError:
                return State.DRY
            except OSError:
                return State.CLOSED
            if not chunk:
                return State.CLOSED
            # Less than there is room for: there was no more, and what comes now wakes the reader.
            self._is_dry = len(chunk) < CHUNK_BYTES
            self._messages = iter(self._cut(chunk))
            self._is_behind = True

    async def _listen(self) -> State | Awaitable[None]:
        """Handle what arrives in callbacks of the loop, as long as there is nothing to wait for.

        To wake a task for each message would take a turn of the loop more, and two system calls to
        register for the next one.
        """
        loop = asyncio.get_running_loop()
        over: asyncio.Future[State | Awaitable[None]] = loop.create_future()
        context = contextvars.copy_context()
        context.run(_name_library)
        vigil = _Vigil(loop, over)

        def listen() -> None:
            if not over.done():
                loop.add_reader(self._source, on_readable)  # in the context of this call

        def on_readable() -> None:
            if over.done():
                return  # the task has not had its turn yet
            try:
                outcome = self.take_turn()
            except BaseException as error:
                over.set_exception(error)
            else:
                if outcome is not State.DRY:
                    over.set_result(outcome)
                elif self._is_flooded is not None and self._is_flooded():
                    loop.remove_reader(self._source)
                    loop.call_later(LULL_S, listen, context=context)
                elif self._stays_awake:
                    vigil.prolong()

        context.run(listen)
        try:
            return await over
        except BaseException:
            if over.done() and not over.cancelled() and over.exception() is None:
                # Cancelled in the moment in which there was something to wait for.
                getattr(over.result(), "close", int)()
            raise
        finally:
            loop.remove_reader(self._source)


class _Vigil:
    """Keeps a loop of asyncio from falling asleep; each turn of it serves all that is ready."""

    __slots__ = ("_ends_s", "_is_awake", "_loop", "_over")

    def __init__(self, loop: asyncio.AbstractEventLoop, over: asyncio.Future[Any]) -> None:
        self._loop = loop
        self._over = over
        self._ends_s = 0.0
        self._is_awake = False

    def prolong(self) -> None:
        self._ends_s = time.monotonic() + AWAKE_S
        if not self._is_awake:
            self._is_awake = True
            self._loop.call_soon(self._stay)

    def _stay(self) -> None:
        self._is_awake = time.monotonic() < self._ends_s and not self._over.done()
        if self._is_awake:
            self._loop.call_soon(self._stay)


def _is_asyncio() -> bool:
    return issubclass(anyio.get_cancelled_exc_class(), asyncio.CancelledError)


def _name_library() -> None:
    """Let anyio know its event loop where there is no current task."""
    try:
        import sniffio
    except ImportError:
        return  # then anyio asks asyncio
    sniffio.current_async_library_cvar.set("asyncio")
