"""Starts the calls of one program in the order of their submission (CM-057 to CM-078).

A call is started when it is its turn: those that may overlap while others of their kind run, an
exclusive one alone. The first stage of a call (hooks, check of the arguments) is never under way
for two calls at once, and the last stage comes in the order of submission.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, final

import anyio
import anyio.lowlevel

from code_runtime.provider_kit import encode

from ._hooks import CallSettled, CallStarted, ToolCall, ToolReply
from ._results import CallOutcome, ToolCallRecord
from ._telemetry import current_span
from ._tools import Tool
from ._validation import run_sized

if TYPE_CHECKING:
    from code_runtime import CodeCall

    from ._pipeline import ToolPipeline

MAX_ATTACHMENT_CHARS: Final = 20_000_000
RUN_OVER: Final = "the run is over"
OVER: Final = f"Cannot call {{name}}: {RUN_OVER}, expected a call before its end"


@dataclass(slots=True, eq=False)
class _Entry:
    """One call of the program."""

    tool: Tool
    call: ToolCall
    arrival: int
    text: str = ""
    turn: anyio.Event = field(default_factory=anyio.Event)
    is_parallel: bool = False
    started_s: float | None = None
    ended_s: float | None = None
    outcome: CallOutcome = "abandoned"
    reply: ToolReply | None = None
    is_first: anyio.Event = field(default_factory=anyio.Event)


@final
class Dispatch:
    """All calls of one program.

    Args:
        outer: The call of `run_code`; its signal fires when the run is over.
        tools: What the program may call, by name.
        pipeline: Runs hooks, checks and the tool itself.
        max_parallel_calls: How many calls may overlap.
        max_calls: How many calls the program may make.
        log: Takes live lines of tools.
    """

    __slots__ = (
        "_arrival_count",
        "_entries",
        "_is_over",
        "_log",
        "_max_calls",
        "_max_parallel_calls",
        "_origin_s",
        "_outer",
        "_pipeline",
        "_running",
        "_span",
        "_starting",
        "_tools",
        "_uncommitted",
        "_waiting",
    )

    def __init__(
        self,
        outer: ToolCall,
        tools: Mapping[str, Tool],
        pipeline: ToolPipeline,
        *,
        max_parallel_calls: int,
        max_calls: int,
        log: Callable[[str], None],
    ) -> None:
        self._outer = outer
        self._tools = tools
        self._pipeline = pipeline
        self._max_parallel_calls = max_parallel_calls
        self._max_calls = max_calls
        self._log = log
        self._span = current_span()
        self._origin_s = time.monotonic()
        self._arrival_count = 0
        self._entries: list[_Entry] = []
        self._waiting: deque[_Entry] = deque()  # in the order of submission
        self._starting: _Entry | None = None  # in its first stage
        self._running: set[_Entry] = set()
        self._uncommitted: deque[_Entry] = deque()  # started, in the order of submission
        self._is_over = False

    @property
    def functions(self) -> dict[str, Callable[[object], Awaitable[object]]]:
        """The functions of the namespace, by name."""
        return {name: self._function(name) for name in self._tools}

    @property
    def records(self) -> tuple[ToolCallRecord, ...]:
        """What became of each call, in the order of submission."""
        return tuple(self._record(entry) for entry in self._entries)

    def previews(self, calls: Sequence[CodeCall]) -> dict[str, str]:
        """Return the start of the arguments of each call, by call id.

        Args:
            calls: The journal of the run, with previews.
        """
        # A call that the runtime refused never arrived here; all others did, in the same order.
        arrived = [call for call in calls if call.outcome != "refused"]
        return {
            entry.call.call_id: arrived[entry.arrival].argument_preview or ""
            for entry in self._entries
            if entry.arrival < len(arrived)
        }

    @property
    def attachments(self) -> list[Mapping[str, object]]:
        """The blocks of the calls that succeeded, in the order of submission (CM-078).

        Past `MAX_ATTACHMENT_CHARS` in all they are left out, and a last block says how many.
        """
        blocks = [
            block
            for entry in self._entries
            if entry.reply is not None and entry.reply.error is None
            for block in entry.reply.attachments
            if isinstance(block, Mapping)  # a hook may have put anything there
        ]
        room_chars = MAX_ATTACHMENT_CHARS
        for index, block in enumerate(blocks):
            room_chars -= sum(len(part) for part in block.values() if isinstance(part, str))
            if room_chars < 0:
                text = f"{len(blocks) - index} more attachments left out: too much in all"
                return [*blocks[:index], {"type": "text", "text": text}]
        return blocks

    def close(self) -> None:
        """Start nothing more: the run is over (CM-072, CM-073)."""
        self._is_over = True
        self._waiting.clear()
        self._outer.signal.abort(RUN_OVER)

    def _function(self, name: str) -> Callable[[object], Awaitable[object]]:
        tool = self._tools[name]

        def call(arguments: object) -> Awaitable[object]:
            # Not async itself: the number of a call is that of its arrival, whenever its task runs.
            return self._serve(self._enter(tool, arguments))

        return call

    def _enter(self, tool: Tool, arguments: object) -> _Entry:
        self._arrival_count += 1
        if self._is_over:
            raise RuntimeError(OVER.format(name=tool.name))
        if len(self._entries) >= self._max_calls:
            raise RuntimeError(
                f"Cannot call {tool.name}: the program has made {self._max_calls} calls, "
                "expected no more than max_calls"
            )
        if not isinstance(arguments, dict):
            raise TypeError(
                f"Cannot call {tool.name}: the argument is {_json_type(arguments)}, "
                'expected one object of named arguments, such as {"name": value}'
            )
        number = len(self._entries) + 1
        call_id = f"{self._outer.call_id}:code:{number}"
        call = ToolCall(tool.name, arguments, call_id, self._outer.call_id, self._outer.signal)
        entry = _Entry(tool, call, self._arrival_count - 1)
        self._entries.append(entry)
        self._waiting.append(entry)
        self._advance()
        return entry

    def _advance(self) -> None:
        """Give the turn to the next call if it may start now (CM-063 to CM-065)."""
        if not self._waiting or self._starting is not None or self._is_over:
            return
        entry = self._waiting[0]
        busy = [other for other in self._uncommitted if not other.is_parallel]
        entry.is_parallel = self._pipeline.may_overlap(entry.tool, entry.call.arguments)
        if entry.is_parallel:
            may_start = not busy and len(self._running) < self._max_parallel_calls
        else:
            may_start = not self._uncommitted
        if may_start:
            self._waiting.popleft()
            self._starting = entry
            self._running.add(entry)
            self._uncommitted.append(entry)
            if self._uncommitted[0] is entry:
                entry.is_first.set()
            entry.turn.set()

    async def _serve(self, entry: _Entry) -> object:
        """Run one call to its end; returns what the program gets.

        Raises:
            RuntimeError: The call failed, with the text for the program.
        """
        await entry.turn.wait()
        # The turn may have come from a call that was cancelled with this one: the run is over.
        await anyio.lowlevel.checkpoint_if_cancelled()
        entry.started_s = time.monotonic()
        entry.outcome = "cancelled"
        try:
            await self._tell_start(entry)
            reply, outcome = await self._run(entry)
        except BaseException:
            if await _is_cancelled():
                self.close()
            self._commit(entry, ToolReply(error=OVER.format(name=entry.tool.name)))
            raise
        entry.outcome = outcome
        self._commit(entry, reply)
        if reply.error is not None:
            raise RuntimeError(reply.error)
        return reply.value

    async def _run(self, entry: _Entry) -> tuple[ToolReply, CallOutcome]:
        pipeline = self._pipeline
        try:
            ready = await pipeline.decide(entry.call)
            if isinstance(ready, ToolReply):
                reply = await pipeline.check_value(entry.tool.name, ready)
                denied = ready.error is not None
                return reply, "denied" if denied else _outcome(reply)
            check = await pipeline.find_check(entry.tool, ready.arguments)
            if isinstance(check, str):
                return ToolReply(error=check), "error"
        finally:
            self._starting = None
            self._advance()
        try:
            reply = await pipeline.execute(entry.tool, check, ready, self._log, self._span)
        finally:
            self._running.discard(entry)
            self._advance()
        if pipeline.has_hooks:
            await entry.is_first.wait()
            reply = await pipeline.conclude(ready, reply)
        # Otherwise the runtime would refuse the value, and the record would say that it went well.
        reply = await pipeline.check_value(entry.tool.name, reply)
        return reply, _outcome(reply)

    def _commit(self, entry: _Entry, reply: ToolReply) -> None:
        """Keep a reply, and settle all that are first in line and have one (CM-067)."""
        entry.ended_s = time.monotonic()
        entry.reply = reply
        self._running.discard(entry)
        order = self._uncommitted
        while order and (final := order[0].reply) is not None:
            settled = order.popleft()
            self._tell_end(settled, final)
            # A program may make many calls with large values: only what is still needed is kept.
            settled.reply = ToolReply(error=final.error, attachments=final.attachments)
            settled.call = replace(settled.call, arguments={})
            settled.text = ""
            if order:
                order[0].is_first.set()
        self._advance()

    async def _tell_start(self, entry: _Entry) -> None:
        if not self._pipeline.tells_events:
            return
        parent_id, call = self._outer.call_id, entry.call
        # As text: hooks and tools may change the arguments (CM-060).
        entry.text = await run_sized(call.arguments, lambda: _to_text(call.arguments))
        event = CallStarted(call.call_id, parent_id, call.name, entry.text)
        self._pipeline.tell(event)

    def _tell_end(self, entry: _Entry, reply: ToolReply) -> None:
        parent_id, call = self._outer.call_id, entry.call
        event = CallSettled(call.call_id, parent_id, call.name, entry.text, entry.outcome, reply)
        self._pipeline.tell(event)

    def _record(self, entry: _Entry) -> ToolCallRecord:
        started_ms = duration_ms = None
        if entry.started_s is not None:
            ended_s = time.monotonic() if entry.ended_s is None else entry.ended_s
            started_ms = (entry.started_s - self._origin_s) * 1_000
            duration_ms = (ended_s - entry.started_s) * 1_000
        return ToolCallRecord(
            entry.call.call_id, entry.tool.name, entry.outcome, started_ms, duration_ms
        )


def _outcome(reply: ToolReply) -> CallOutcome:
    return "ok" if reply.error is None else "error"


async def _is_cancelled() -> bool:
    """Tell a cancellation of this call from one that a tool has raised by itself."""
    try:
        await anyio.lowlevel.checkpoint_if_cancelled()
    except anyio.get_cancelled_exc_class():
        return True
    return False


def _to_text(arguments: object) -> str:
    return encode(arguments).decode("utf-8", "surrogatepass")


def _json_type(value: object) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "a boolean"
    if isinstance(value, (int, float)):
        return "a number"
    return "a string" if isinstance(value, str) else "a list"
