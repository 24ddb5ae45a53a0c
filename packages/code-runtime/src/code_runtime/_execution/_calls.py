"""Runs the binding calls of one run.

The peer that asks is hostile: a call counts only with an id that rises, a declared target and a
lossless argument. At most `MAX_CALLS_IN_FLIGHT` calls run at once, further ones wait; beyond
`MAX_HELD_BYTES` in running and waiting calls the provider stops reading, so a flood slows the
program down and not the host.
"""

from __future__ import annotations

import inspect
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, Protocol, final

import anyio
import anyio.abc
import anyio.to_thread

from code_runtime._lossless import JsonValue, LosslessJsonError, decode, encode
from code_runtime._vocabulary import BindingFunction, CallOutcome, CodeBindingNamespace

from ._answers import (
    INLINE_BYTES,
    LOSSY_ARGUMENT,
    decode_large,
    encode_result,
    encode_small_result,
    render_rejection,
)
from ._journal import CallRecord, Journal
from ._runners import JobRunners
from ._sender import PacedSender

MAX_CALLS_IN_FLIGHT: Final = 1_024
MAX_HELD_BYTES: Final = 8 * 1_048_576
# What a call takes in memory beside its argument: a flood of empty ones is bounded too.
CALL_BYTES: Final = 256


@dataclass(slots=True, eq=False)
class _Call:
    """A call that is answered or waits: its argument as text, or else as a value."""

    id: int
    record: CallRecord
    held_bytes: int  # what the call takes in memory
    text: bytes | None = None
    value: JsonValue = None
    # What a task has to wait for: what the function has returned, else work of the desk's own.
    result: Awaitable[object] | None = None
    work: Coroutine[object, object, None] | None = None


class ReplyEncoder(Protocol):
    """Makes the frame of one reply."""

    def __call__(self, call_id: int, ok: bool, payload: bytes, /) -> bytes:
        """Encode a reply; `payload` is the JSON of the value, or of the message when not `ok`."""
        ...


@final
class CallDesk:
    """Takes calls as they are read and answers them; `flush` sends the answers.

    Args:
        task_group: Owns the tasks of the calls; it outlives the run, because a function may ignore
            its cancellation.
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
        "_flush_scope",
        "_functions",
        "_held_bytes",
        "_journal",
        "_last_turn",
        "_next_id",
        "_on_fault",
        "_runners",
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
        self._runners: JobRunners[_Call] = JobRunners(
            task_group, self._run_call, self.flush, self._on_call_end
        )
        self._flush_scope: anyio.CancelScope | None = None
        self._held_bytes = 0
        self._waiting: deque[_Call] = deque()
        self._next_id = first_id
        self._allows_gaps = allows_gaps
        self._closed = False
        self._changed: anyio.Event | None = None
        # Of the call that arrived last, while it and others wait for a large argument.
        self._last_turn: anyio.Event | None = None

    @property
    def in_flight_count(self) -> int:
        """Calls that have begun and are not answered."""
        return len(self._runners)

    @property
    def saturated(self) -> bool:
        """Whether the provider must stop reading until `wait_for_room` returns."""
        return not self._closed and self._held_bytes > MAX_HELD_BYTES

    async def wait_for_room(self) -> None:
        """Return when another call may be read, or when the run is over."""
        while self.saturated:
            await self._wait_for_change()

    def accept_text(self, call_id: int, namespace: str, member: str, argument: bytes) -> None:
        """Start one call whose argument is still JSON text; see `accept`."""
        if self._claim(call_id):
            record = self._journal.begin(namespace, member, argument)
            self._enter(_Call(call_id, record, len(argument) + CALL_BYTES, text=argument))

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
            self._enter(_Call(call_id, record, size_bytes + CALL_BYTES, value=value))

    def flush(self) -> None:
        """Send the answers that are ready: all that was read at a time has been accepted."""
        try:
            self._sender.push()
        except OSError:
            return  # the peer is gone; its exit decides the run
        if self._sender.needs_flush and self._flush_scope is None and not self._closed:
            self._flush_scope = anyio.CancelScope()
            self._task_group.start_soon(self._flush_slowly, self._flush_scope)

    def close(self) -> None:
        """Accept nothing more and cancel what is in flight: the run is over."""
        self._closed = True
        for call in self._waiting:
            self._journal.end(call.record, "cancelled")
        self._waiting.clear()
        for call in self._runners.close():
            self._journal.end(call.record, "cancelled")
            _discard(call)
        if self._flush_scope is not None:
            self._flush_scope.cancel()
        self._tell_change()

    async def wait_closed(self, grace_s: float) -> None:
        """Wait until the cancelled calls have ended, at most `grace_s` seconds.

        What still runs then is journalled as abandoned; its task stays in the task group.
        """
        with anyio.move_on_after(grace_s):
            while self._runners:
                await self._wait_for_change()
        for call in self._runners:
            self._journal.end(call.record, "abandoned")

    def _claim(self, call_id: int) -> bool:
        is_next = call_id == self._next_id or (self._allows_gaps and call_id > self._next_id)
        if self._closed or not is_next:
            return False
        self._next_id = call_id + 1
        return True

    def _enter(self, call: _Call) -> None:
        if len(self._runners) < MAX_CALLS_IN_FLIGHT:
            self._start(call)
        else:
            self._waiting.append(call)
            self._held_bytes += call.held_bytes

    def _start(self, call: _Call) -> None:
        function = self._functions.get((call.record.namespace, call.record.member))
        if not callable(function):
            text = f"Unknown binding: {call.record.namespace}.{call.record.member}"
            self._answer(call, "refused", encode(text))
        elif self._last_turn is not None or len(call.text or b"") > INLINE_BYTES:
            before, self._last_turn = self._last_turn, anyio.Event()
            self._work(call, self._call_in_turn(call, function, before, self._last_turn))
        elif call.text is None:
            self._call(call, function, call.value)
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
                call.result = result
                self._hand_over(call)
            elif (answer := encode_small_result(result)) is not None:
                self._answer(call, *answer)
            else:
                self._work(call, self._send_value(call, result))

    def _answer(self, call: _Call, outcome: CallOutcome, payload: bytes) -> None:
        if not self._sender.is_free:
            self._work(call, self._send(call, outcome, payload))
            return
        with suppress(OSError):  # the peer is gone; its exit decides the run
            self._post(call, outcome, payload)

    def _work(self, call: _Call, work: Coroutine[object, object, None]) -> None:
        call.work = work
        self._hand_over(call)

    def _hand_over(self, call: _Call) -> None:
        self._held_bytes += call.held_bytes
        self._runners.add(call)

    # What runs in the tasks

    async def _run_call(self, call: _Call) -> bool:
        try:
            if call.result is not None:
                return await self._settle(call, call.result)
            assert call.work is not None
            await call.work
        except OSError:
            pass  # the peer is gone; its exit decides the run
        except Exception as error:
            # A fault of our own ends this run, not the task group of all.
            self._on_fault(error)
        return True

    async def _settle(self, call: _Call, result: Awaitable[object]) -> bool:
        """Wait for what a function has returned; return whether the task is as it was before."""
        is_fit = True
        try:
            value = await result
        except anyio.get_cancelled_exc_class() as error:
            # Raised by the function itself unless the run is over: a task that it awaited may have
            # been cancelled.
            if self._closed:
                raise
            is_fit, payload = False, encode(render_rejection(error))
        except Exception as error:
            if self._closed:
                return False
            payload = encode(render_rejection(error))
        except BaseException as error:
            self._on_fault(error)
            return False
        else:
            if self._closed:
                return False
            answer = encode_small_result(value) if self._sender.is_free else None
            if answer is None:
                await self._send_value(call, value)
            else:
                self._post(call, *answer)
            return True
        if self._sender.is_free:
            self._post(call, "error", payload)
        else:
            await self._send(call, "error", payload)
        return is_fit

    def _post(self, call: _Call, outcome: CallOutcome, payload: bytes) -> None:
        self._sender.post(self._encode_reply(call.id, outcome == "ok", payload))
        self._journal.end(call.record, outcome, payload)

    async def _send_value(self, call: _Call, value: object) -> None:
        """Encode a value when it is its turn, and send it."""

        async def frame() -> bytes:
            answer = encode_small_result(value)
            if answer is None:
                answer = await anyio.to_thread.run_sync(encode_result, value)
            outcome, payload = answer
            self._journal.end(call.record, outcome, payload)
            return self._encode_reply(call.id, outcome == "ok", payload)

        await self._sender.send(frame)

    async def _send(self, call: _Call, outcome: CallOutcome, payload: bytes) -> None:
        self._journal.end(call.record, outcome, payload)

        async def frame() -> bytes:
            return self._encode_reply(call.id, outcome == "ok", payload)

        await self._sender.send(frame)

    async def _call_in_turn(
        self,
        call: _Call,
        function: BindingFunction,
        before: anyio.Event | None,
        mine: anyio.Event,
    ) -> None:
        """Decode a large argument in a thread; no call behind it overtakes it meanwhile."""
        try:
            value, is_exact = call.value, True
            if call.text is not None:
                try:
                    value = await _decode_anywhere(call.text)
                except LosslessJsonError:
                    is_exact = False
            if before is not None:
                await before.wait()
            if not is_exact:
                self._answer(call, "refused", encode(LOSSY_ARGUMENT))
            elif not self._closed:
                self._call(call, function, value)
        finally:
            mine.set()
            if self._last_turn is mine:
                self._last_turn = None

    async def _flush_slowly(self, scope: anyio.CancelScope) -> None:
        with scope, suppress(OSError):  # the peer is gone; its exit decides the run
            await self._sender.flush()
        self._flush_scope = None

    def _on_call_end(self, call: _Call) -> None:
        if self._closed:
            self._journal.end(call.record, "cancelled")
        self._held_bytes -= call.held_bytes
        while self._waiting and len(self._runners) < MAX_CALLS_IN_FLIGHT and not self._closed:
            waiting = self._waiting.popleft()
            self._held_bytes -= waiting.held_bytes
            self._start(waiting)
        self._tell_change()

    async def _wait_for_change(self) -> None:
        if self._changed is None:
            self._changed = anyio.Event()
        await self._changed.wait()

    def _tell_change(self) -> None:
        if self._changed is not None:
            self._changed.set()
            self._changed = None


async def _decode_anywhere(text: bytes) -> JsonValue:
    if len(text) > INLINE_BYTES:
        return await anyio.to_thread.run_sync(decode_large, text)
    return decode(text)


def _discard(call: _Call) -> None:
    """Give up what nobody has begun to wait for."""
    if call.work is not None:
        call.work.close()
    if inspect.iscoroutine(call.result):
        call.result.close()
    elif call.result is not None:
        cancel = getattr(call.result, "cancel", None)  # a future, or a task of the function's own
        if callable(cancel):
            with suppress(Exception):
                cancel()
