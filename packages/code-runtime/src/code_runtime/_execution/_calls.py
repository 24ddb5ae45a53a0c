"""Runs the binding calls of one run.

The peer that asks is hostile: a call counts only with an id that rises, a declared target and a
lossless argument. At most `MAX_CALLS_IN_FLIGHT` calls run at once, further ones wait; beyond
`MAX_HELD_BYTES` in running and waiting calls the provider stops reading, so a flood slows the
program down and not the host.
"""

from __future__ import annotations

import gc
import inspect
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final, Protocol, final

import anyio
import anyio.abc
import anyio.to_thread

from code_runtime._lossless import JsonValue, LosslessJsonError, decode, encode, measure
from code_runtime._vocabulary import BindingFunction, CallOutcome, CodeBindingNamespace

from ._journal import CallRecord, Journal
from ._sender import PacedSender

MAX_CALLS_IN_FLIGHT: Final = 1_024
MAX_HELD_BYTES: Final = 8 * 1_048_576
# What a call takes in memory beside its argument: a flood of empty ones is bounded too.
CALL_BYTES: Final = 256
# A message that no reader needs: longer ones are cut.
MAX_REJECTION_CHARS: Final = 1_048_576
# Values above this are encoded and decoded in a thread: 8 KiB of brackets keep the loop for 20 ms,
# ordinary ones for less than one.
INLINE_BYTES: Final = 8_192
# What fits into one frame of any provider with all that is around it.
MAX_RESULT_BYTES: Final = 268_435_456 - 65_536

LOSSY_ARGUMENT: Final = "Binding arguments must be lossless JSON"
LOSSY_RESULT: Final = "Binding resolution must be lossless JSON"
UNRENDERABLE_REJECTION: Final = "<unrenderable binding error>"


@dataclass(slots=True)
class _Call:
    """A call that is answered or waits: its argument as text, or else as a value."""

    id: int
    record: CallRecord
    size_bytes: int
    text: bytes | None = None
    value: JsonValue = None

    @property
    def held_bytes(self) -> int:
        """What the call takes in memory."""
        return self.size_bytes + CALL_BYTES


class ReplyEncoder(Protocol):
    """Makes the frame of one reply."""

    def __call__(self, call_id: int, ok: bool, payload: bytes, /) -> bytes:
        """Encode a reply; `payload` is the JSON of the value, or of the message when not `ok`."""
        ...


@final
class CallDesk:
    """Takes calls as they are read and answers them.

    Args:
        task_group: Owns the tasks of the calls; it outlives the run, because a function may ignore
            its
            cancellation.
        sender: Writes the replies.
        encode_reply: Makes a reply frame.
        journal: Keeps the record of the calls.
        on_fault: Told when a function raises what is no `Exception`; the run must end and raise it.
        first_id: The id of the first call.
        allows_gaps: Whether an id may skip some; it must rise in any case.
    """

    __slots__ = (
        "_allows_gaps",
        "_changed",
        "_closed",
        "_encode_reply",
        "_functions",
        "_held_bytes",
        "_in_flight",
        "_journal",
        "_next_id",
        "_on_fault",
        "_sender",
        "_task_group",
        "_waiting",
    )

    def __init__(
        self,
        task_group: anyio.abc.TaskGroup,
        namespaces: Iterable[CodeBindingNamespace],
        sender: PacedSender,
        encode_reply: ReplyEncoder,
        journal: Journal,
        on_fault: Callable[[BaseException], None],
        *,
        first_id: int,
        allows_gaps: bool,
    ) -> None:
        self._task_group = task_group
        self._sender = sender
        self._encode_reply = encode_reply
        self._journal = journal
        self._on_fault = on_fault
        self._functions: dict[tuple[str, str], BindingFunction] = {
            (namespace.global_name, member): function
            for namespace in namespaces
            for member, function in namespace.functions.items()
        }
        self._in_flight: dict[anyio.CancelScope, CallRecord] = {}
        self._held_bytes = 0
        self._waiting: deque[_Call] = deque()
        self._next_id = first_id
        self._allows_gaps = allows_gaps
        self._closed = False
        self._changed = anyio.Event()

    @property
    def saturated(self) -> bool:
        """Whether the provider must stop reading until `wait_for_room` returns."""
        return not self._closed and self._held_bytes > MAX_HELD_BYTES

    async def wait_for_room(self) -> None:
        """Return when another call may be read, or when the run is over."""
        while self.saturated:
            await self._changed.wait()

    def accept_text(self, call_id: int, namespace: str, member: str, argument: bytes) -> None:
        """Start one call whose argument is still JSON text; see `accept`."""
        if self._claim(call_id):
            record = self._journal.begin(namespace, member, argument)
            self._enter(_Call(call_id, record, len(argument), text=argument))

    def accept(
        self,
        call_id: int,
        namespace: str,
        member: str,
        value: JsonValue,
        size_bytes: int,
        preview: bytes | None = None,
    ) -> None:
        """Start one call; one with an unexpected id, and anything after `close`, is ignored.

        Args:
            call_id: The id that the peer chose.
            namespace: The namespace that it named, declared or not.
            member: The member that it named, declared or not.
            value: The argument.
            size_bytes: What the argument took on the wire.
            preview: The start of the argument as JSON, if that is known already.
        """
        if self._claim(call_id):
            argument = b""
            if self._journal.keeps_previews:
                argument = encode(value) if preview is None else preview
            record = self._journal.begin(namespace, member, argument)
            self._enter(_Call(call_id, record, size_bytes, value=value))

    def close(self) -> None:
        """Accept nothing more and cancel what is in flight: the run is over."""
        self._closed = True
        for call in self._waiting:
            self._journal.end(call.record, "cancelled")
        self._waiting.clear()
        for scope in list(self._in_flight):
            scope.cancel()
        self._tell_change()

    async def wait_closed(self, grace_s: float) -> None:
        """Wait until the cancelled calls have ended, at most `grace_s` seconds.

        What still runs then is journalled as abandoned; its task stays in the task group.
        """
        with anyio.move_on_after(grace_s):
            while self._in_flight:
                await self._changed.wait()
        for record in self._in_flight.values():
            self._journal.end(record, "abandoned")

    def _claim(self, call_id: int) -> bool:
        is_next = call_id == self._next_id or (self._allows_gaps and call_id > self._next_id)
        if self._closed or not is_next:
            return False
        self._next_id = call_id + 1
        return True

    def _enter(self, call: _Call) -> None:
        if len(self._in_flight) < MAX_CALLS_IN_FLIGHT:
            self._start(call)
        else:
            self._waiting.append(call)
            self._held_bytes += call.held_bytes

    def _start(self, call: _Call) -> None:
        function = self._functions.get((call.record.namespace, call.record.member))
        if not callable(function):
            text = f"Unknown binding: {call.record.namespace}.{call.record.member}"
            self._answer(call, "refused", encode(text))
        elif call.text is None:
            self._call(call, function, call.value)
        elif len(call.text) > INLINE_BYTES:
            self._spawn(call, self._decode_and_call(call, function, call.text))
        else:
            try:
                value = decode(call.text)
            except LosslessJsonError:
                self._answer(call, "refused", encode(LOSSY_ARGUMENT))
            else:
                self._call(call, function, value)

    def _call(self, call: _Call, function: BindingFunction, value: JsonValue) -> None:
        try:
            result = function(value)
        except (Exception, anyio.get_cancelled_exc_class()) as error:
            # A plain function has no await of its own: a cancellation is one that it has made up.
            self._answer(call, "error", encode(render_rejection(error)))
        except BaseException as error:
            self._journal.end(call.record, "error")
            self._on_fault(error)
        else:
            if inspect.isawaitable(result):
                self._spawn(call, self._settle(call, result))
            elif is_small(result):
                self._answer(call, *encode_result(result))
            else:
                self._spawn(call, self._settle(call, _ready(result)))

    async def _decode_and_call(
        self, call: _Call, function: BindingFunction, argument: bytes
    ) -> None:
        try:
            value = await anyio.to_thread.run_sync(decode_large, argument)
        except LosslessJsonError:
            self._answer(call, "refused", encode(LOSSY_ARGUMENT))
        else:
            self._call(call, function, value)

    async def _settle(self, call: _Call, work: Awaitable[object]) -> None:
        cancelled = anyio.get_cancelled_exc_class()
        try:
            value = await work
        except cancelled as error:
            # Raised by the function itself unless the run is over: a task that it awaited may have
            # been cancelled.
            if self._closed:
                raise
            payload = encode(render_rejection(error))
        except Exception as error:
            if self._closed:
                return
            payload = encode(render_rejection(error))
        except BaseException as error:
            self._on_fault(error)
            return
        else:
            await self._sender.send(lambda: self._reply_in_turn(call, value))
            return
        await self._reply(call, "error", payload)

    async def _reply_in_turn(self, call: _Call, value: object) -> bytes:
        if is_small(value):
            outcome, payload = encode_result(value)
        else:
            outcome, payload = await anyio.to_thread.run_sync(encode_result, value)
        self._journal.end(call.record, outcome, payload)
        return self._encode_reply(call.id, outcome == "ok", payload)

    def _answer(self, call: _Call, outcome: CallOutcome, payload: bytes) -> None:
        try:
            taken = self._sender.send_nowait(self._encode_reply(call.id, outcome == "ok", payload))
        except OSError:
            return  # the peer is gone; its exit decides the run
        if not taken:
            self._spawn(call, self._reply(call, outcome, payload))
            return
        self._journal.end(call.record, outcome, payload)
        if self._sender.needs_flush:
            self._spawn(call, self._sender.flush())

    async def _reply(self, call: _Call, outcome: CallOutcome, payload: bytes) -> None:
        self._journal.end(call.record, outcome, payload)

        async def frame() -> bytes:
            return self._encode_reply(call.id, outcome == "ok", payload)

        await self._sender.send(frame)

    def _spawn(self, call: _Call, work: Awaitable[None]) -> None:
        scope = anyio.CancelScope()
        self._in_flight[scope] = call.record
        self._held_bytes += call.held_bytes
        self._task_group.start_soon(self._track, scope, call, work)

    async def _track(self, scope: anyio.CancelScope, call: _Call, work: Awaitable[None]) -> None:
        try:
            with scope:
                await work
        except OSError:
            pass  # the peer is gone; its exit decides the run
        except Exception as error:
            # A fault of our own ends this run, not the task group of all.
            self._on_fault(error)
        finally:
            if self._closed:
                self._journal.end(call.record, "cancelled")
            del self._in_flight[scope]
            self._held_bytes -= call.held_bytes
            self._start_waiting()
            self._tell_change()

    def _start_waiting(self) -> None:
        while self._waiting and len(self._in_flight) < MAX_CALLS_IN_FLIGHT and not self._closed:
            call = self._waiting.popleft()
            self._held_bytes -= call.held_bytes
            self._start(call)

    def _tell_change(self) -> None:
        changed, self._changed = self._changed, anyio.Event()
        changed.set()


@contextmanager
def collector_off() -> Iterator[None]:
    """Keep the collector of garbage from going over a large value while it is built."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def decode_large(text: bytes) -> JsonValue:
    """Decode a large text; for a thread."""
    with collector_off():
        return decode(text)


def render_rejection(error: BaseException) -> str:
    """Return the message of what a binding raised, a placeholder when it does not render."""
    try:
        text = str(error)
        text = text if type(text) is str else str.__str__(text)
    except KeyboardInterrupt:
        raise
    except BaseException:
        return UNRENDERABLE_REJECTION
    return text if len(text) <= MAX_REJECTION_CHARS else text[:MAX_REJECTION_CHARS] + "…"


def is_small(value: object) -> bool:
    """Return whether a value is cheap enough to encode on the event loop."""
    if value is None or type(value) in (bool, int, float):
        return True
    if type(value) is str:
        return len(value) <= INLINE_BYTES
    try:
        return measure(value, INLINE_BYTES) is not None
    except LosslessJsonError:
        return True  # refused at once by the encoder too


def encode_result(value: object) -> tuple[CallOutcome, bytes]:
    """Return the outcome of a call that returned `value`, and the payload of its reply."""
    try:
        text = encode(value)
    except LosslessJsonError as error:
        return "error", encode(f"{LOSSY_RESULT}: {error}")
    if len(text) > MAX_RESULT_BYTES:
        return "error", encode(f"Binding resolution is larger than {MAX_RESULT_BYTES} bytes")
    return "ok", text


async def _ready(value: object) -> object:
    return value
