"""One Python run on one process: what arrives, and the result that follows from it."""

from __future__ import annotations

import resource
import signal
from typing import Final, final

import anyio
import anyio.abc
import anyio.to_thread

from code_runtime._execution._calls import CallDesk
from code_runtime._execution._journal import Journal
from code_runtime._execution._logs import LogObserver
from code_runtime._execution._settlement import Completed, Failed, Lost, Settlement
from code_runtime._guarded import ExitStatus, GuardError
from code_runtime._lossless import measure
from code_runtime._text import shorten
from code_runtime._vocabulary import CodeRunFailure, CodeRunRequest, CodeRunResult, FailureKind

from ._child.wire import ENVELOPE_BYTES, Namespace, encode_boot
from ._config import PythonConfig
from ._frames import (
    AckMessage,
    CallMessage,
    ChildMessage,
    DoneMessage,
    FailMessage,
    LogMessage,
    cut_message,
)
from ._logs import LineLog
from ._process import LargeMessage, ProgramProcess

# A channel that is closed says that the process is about to end, or that the program has closed it.
CLOSED_TIMEOUT_S: Final = 1.0
# The kernel enforces the limit by ticks and reports exact times, which on a busy virtual machine
# are less. Who signals itself gains no more than another word for its failure.
XCPU_LEAST_SHARE: Final = 0.5
EXIT_CPU_S: Final = 0.25
KILL_TOLERANCE_S: Final = 0.5
# From the boot frame to its answer: milliseconds for a process that is up, a start for one that is
# not.
ANSWER_S: Final = 10.0
# What a process has sent before its end is read to the last frame, the largest one included.
READ_TIMEOUT_S: Final = 10.0
# An undeclared name is shown up to here.
MAX_NAME_CHARS: Final = 1_024
# Above this a value is measured in a thread.
INLINE_BYTES: Final = 8_192


@final
class PythonSession:
    """Takes the frames of one run and keeps its budgets.

    What is not async is called on the event loop and returns at once.
    """

    def __init__(
        self,
        request: CodeRunRequest,
        config: PythonConfig,
        settlement: Settlement,
        process: ProgramProcess,
        task_group: anyio.abc.TaskGroup,
        program: bytes,
    ) -> None:
        self._request = request
        self._config = config
        self._settlement = settlement
        self._process = process
        self._task_group = task_group
        self._program = program
        self._observer = LogObserver(request.on_log, record=request.record)
        self._logs = LineLog(config.max_log_bytes, self._observer)
        if not self._observer.is_needed:
            process.join_logs()
        self._journal = Journal(record=request.record)
        self._desk = CallDesk(
            task_group,
            request.bindings,
            process.channel.sender,
            _encode_reply,
            self._journal,
            self._on_binding_fault,
            first_id=0,
            allows_gaps=False,
        )
        self._targets = {
            (namespace.global_name, member)
            for namespace in request.bindings
            for member in namespace.functions
        }
        self._has_run = anyio.Event()
        self._done_bytes = 0
        self._value_bytes: int | None = None  # that the value has at most
        self._binding_fault: BaseException | None = None
        self._status: ExitStatus | None = None

    @property
    def has_run(self) -> bool:
        """Whether the child may have begun with the program."""
        return self._has_run.is_set()

    @property
    def fault(self) -> BaseException | None:
        """What a binding raised that is no `Exception`, or else what `on_log` raised."""
        return self._binding_fault or self._observer.fault

    @property
    def room_bytes(self) -> int:
        """How many bytes of logs still fit."""
        return self._logs.room_bytes

    @property
    def saturated(self) -> bool:
        """Whether no further frame may be read for now."""
        return self._desk.saturated

    async def wait_for_room(self) -> None:
        """Return when frames may be read again."""
        await self._desk.wait_for_room()

    def flush(self) -> None:
        """Send the answers to the calls that have been read."""
        self._desk.flush()

    async def start(self) -> None:
        """Send the limits, the names and the program; the child answers once it has applied them.

        In one write, since each wakes the child. It says that it begins before it looks at the
        program: a process that died or was stopped before has run nothing of it.
        """
        config = self._config
        boot = encode_boot(
            cpu_seconds=config.cpu_seconds,
            address_space_bytes=config.address_space_bytes,
            max_log_bytes=config.max_log_bytes,
            max_value_bytes=config.max_value_bytes,
            namespaces=_describe_bindings(self._request),
        )
        run = b'{"type":"run","program":%b}\n' % self._program
        try:
            await self._process.begin(self, boot + run)
        except OSError as error:
            if error.errno is not None:
                # The kernel says that it is gone; how it ended is on its way.
                with anyio.move_on_after(CLOSED_TIMEOUT_S):
                    await self._process.process.wait_exit()
            self.on_lost("it ended before the program started")

    async def watch(self) -> None:
        """Notice a process that does not begin, and one that has ended, whoever holds its channel.

        The kernel keeps the processor time, the guard the memory.
        """
        with anyio.move_on_after(ANSWER_S):
            await self._has_run.wait()
        if not self.has_run:
            self.on_lost("it does not answer")
            return
        await self._process.process.wait_exit()
        # Nobody hears a reply any more, and a reader that waits for room would never see the end.
        self._desk.close()
        with anyio.move_on_after(READ_TIMEOUT_S):
            await self._process.wait_read()
        self.on_lost("its channel stayed open")

    def refuses(self, line: bytes) -> bool:
        """Settle the run for a value that is over the budget by its length, without parsing it."""
        most = self._config.max_value_bytes
        if len(line) <= most + ENVELOPE_BYTES or not line.startswith(b'{"type":"done","value":'):
            return False
        self._settlement.decide(
            Failed("output-limit", f"The value is larger than {most} bytes", by_program=True)
        )
        return True

    def on_message(
        self, message: ChildMessage, size_bytes: int, large: LargeMessage | None = None
    ) -> None:
        """Act on one frame of the child; after the outcome only logs of a killed run count.

        Args:
            message: The message.
            size_bytes: The length of its line.
            large: What was worked out in a thread for a large one.
        """
        if isinstance(message, LogMessage):
            if self._takes_output():
                self._on_log(message, None if large is None else large.cost_bytes)
        elif isinstance(message, AckMessage):
            self._has_run.set()
        elif self._settlement.outcome is not None:
            return
        elif isinstance(message, CallMessage):
            if self.has_run:
                self._on_call(message, size_bytes, None if large is None else large.preview)
        elif isinstance(message, DoneMessage):
            self._done_bytes = size_bytes
            self._value_bytes = None if large is None else large.cost_bytes or None
            self._settlement.decide(Completed(message))
        else:
            self._settlement.decide(_failure_of(message, self._config.max_value_bytes))

    def on_plain_logs(self, texts: list[str]) -> None:
        """Whole entries that cost as many bytes as they have characters, and two quotes."""
        if self._takes_output() and not self._logs.add_plain_lines(texts):
            for text in texts:
                self._logs.add_part(text, is_open=False, cost_bytes=len(text) + 2)

    def on_output(self, line: str) -> None:
        """A line on the process's own stdout or stderr."""
        self._logs.add_line(line)

    def on_closed(self) -> None:
        """The child has closed its channel: it is about to end, or can send no result."""
        if self._settlement.outcome is None:
            self._task_group.start_soon(self._outlast_channel)

    def on_violation(self, reason: str) -> None:
        """The process has done what ends the run, however the process itself ends then."""
        self._settlement.decide(Failed("worker-exit", f"the Python process was killed: {reason}"))

    def on_lost(self, reason: str) -> None:
        """The process is gone, or sends nothing more."""
        self._settlement.decide(Lost(reason))

    async def end(self) -> None:
        """Let a process whose program has ended leave, kill any other; then wait for calls."""
        self._desk.close()
        outcome = self._settlement.outcome
        is_clean = isinstance(outcome, Completed) or (
            isinstance(outcome, Failed) and outcome.by_program
        )
        try:
            if is_clean:
                await self._process.leave()
            self._status = await self._process.kill()
        except GuardError:
            self._process.retire("its guard is gone")
        self._logs.finish()
        await self._desk.wait_closed(self._config.binding_grace_ms / 1000)
        self._process.detach()

    async def result(self) -> CodeRunResult:
        """Build the result; `end` is over."""
        outcome = self._settlement.outcome
        if isinstance(outcome, Failed) and not outcome.by_program:
            return self._failed(outcome.kind, outcome.message)
        exceeded = self._exceeded_limit()
        if exceeded is not None:
            return self._failed(*exceeded)
        if isinstance(outcome, Failed):
            return self._failed(outcome.kind, outcome.message)
        if isinstance(outcome, Completed):
            assert isinstance(outcome.content, DoneMessage)
            return await self._completed(outcome.content)
        assert isinstance(outcome, Lost)
        return self._failed("worker-exit", _describe_loss(outcome, self._status, self._process))

    async def _completed(self, done: DoneMessage) -> CodeRunResult:
        if not done.has_value:
            return self._build()
        most = self._config.max_value_bytes
        size_bytes: int | None
        if self._value_bytes is not None and self._value_bytes <= most:
            size_bytes = self._value_bytes
        elif self._done_bytes > INLINE_BYTES:
            size_bytes = await anyio.to_thread.run_sync(measure, done.value, most)
        else:
            size_bytes = measure(done.value, most)
        if size_bytes is None:
            return self._failed("output-limit", f"The value is larger than {most} bytes")
        if not done.is_exact:
            return self._failed(
                "invalid-output", "The completion must be lossless JSON: a number is not exact"
            )
        return self._build(has_value=True, value=done.value)

    def _exceeded_limit(self) -> tuple[FailureKind, str] | None:
        """Judge by what the kernel and the guard have measured, whatever the program says."""
        status, config = self._status, self._config
        if status is None:
            return None
        if status.reason == "memory":
            return "worker-exit", (
                "memory limit reached: the program and its processes used more than "
                f"{config.memory_mb:g} MiB (memory_mb)"
            )
        limit_s = _kernel_limit_s(config.cpu_seconds)
        least_s: float = limit_s
        if status.signal == signal.SIGXCPU:
            least_s = limit_s * XCPU_LEAST_SHARE
        elif status.signal == signal.SIGKILL:
            least_s = limit_s - KILL_TOLERANCE_S
        if isinstance(self._settlement.outcome, Completed):
            # The child has judged itself before it sent its value; what it does in its exit window
            # after that is not the program's time.
            least_s += EXIT_CPU_S
        if status.utime_s + status.stime_s >= least_s:
            source = "cpu_seconds" if limit_s == config.cpu_seconds else "inherited by the host"
            return "timeout", (
                f"CPU limit reached: at most {limit_s} s of processor time ({source})"
            )
        return None

    def _failed(self, kind: FailureKind, message: str) -> CodeRunResult:
        return self._build(error=CodeRunFailure(kind, message))

    def _build(
        self, *, has_value: bool = False, value: object = None, error: CodeRunFailure | None = None
    ) -> CodeRunResult:
        entries = self._logs.entries
        return CodeRunResult(
            entries,
            has_value=has_value,
            value=value,
            error=error,
            logs_truncated=self._logs.truncated,
            calls=self._journal.freeze(),
            calls_dropped=self._journal.dropped_count,
            log_times_ms=self._observer.times_ms(len(entries)),
        )

    def _takes_output(self) -> bool:
        # What a killed program printed before its kill is part of the result; what comes after its
        # own terminal frame is not.
        outcome = self._settlement.outcome
        return (
            outcome is None
            or isinstance(outcome, Lost)
            or (isinstance(outcome, Failed) and not outcome.by_program)
        )

    def _on_log(self, message: LogMessage, cost_bytes: int | None) -> None:
        if message.truncated:
            self._logs.truncate()
        else:
            self._logs.add_part(message.text, is_open=message.is_open, cost_bytes=cost_bytes)

    def _on_call(self, call: CallMessage, size_bytes: int, preview: bytes | None) -> None:
        target = call.global_name, call.name
        if target not in self._targets:
            # A forged name may have megabytes, and goes into the journal and the reply.
            target = shorten(target[0], MAX_NAME_CHARS), shorten(target[1], MAX_NAME_CHARS)
        self._desk.accept(call.id, *target, call.args, size_bytes, preview)

    async def _outlast_channel(self) -> None:
        with anyio.move_on_after(CLOSED_TIMEOUT_S):
            await self._process.process.wait_exit()
        self.on_lost("it closed its channel")

    def _on_binding_fault(self, error: BaseException) -> None:
        self._binding_fault = error
        self._settlement.decide(Failed("abort", "a binding raised what is no Exception"))


def _failure_of(message: FailMessage, max_value_bytes: int) -> Failed:
    return Failed(message.kind, cut_message(message.message, max_value_bytes), by_program=True)


def _describe_loss(lost: Lost, status: ExitStatus | None, process: ProgramProcess) -> str:
    if status is None or status.reason == "guard-lost":
        return "the Python process was killed: its guard is gone"
    if not process.died_by_itself:
        return f"the Python process was killed: {lost.reason}"
    if status.signal is None:
        return f"the Python process ended with code {status.code} before completing"
    try:
        name = signal.Signals(status.signal).name
    except ValueError:
        name = f"signal {status.signal}"
    return f"the Python process was ended by {name} before completing"


def _kernel_limit_s(cpu_seconds: int) -> int:
    """Return the limit that the child sets: a stricter one that the host passes on stays.

    Source: PY-240, PY-241.
    """
    soft, hard = cpu_seconds, cpu_seconds + 1
    old_soft, old_hard = resource.getrlimit(resource.RLIMIT_CPU)
    if old_hard != resource.RLIM_INFINITY:
        hard = min(hard, old_hard)
    if old_soft != resource.RLIM_INFINITY:
        soft = min(soft, old_soft)
    # Where both are equal the child takes the soft one down, so that SIGXCPU comes first.
    return soft if soft < hard or soft == 1 else hard - 1


def _describe_bindings(request: CodeRunRequest) -> list[Namespace]:
    described: list[Namespace] = []
    for namespace in request.bindings:
        # A member that cannot be called is not advertised (PY-047).
        names = [name for name, function in namespace.functions.items() if callable(function)]
        item: Namespace = {"global": namespace.global_name, "names": names}
        if namespace.error_class is not None:
            item["errorClass"] = {
                "name": namespace.error_class.name,
                "memberNameProperty": namespace.error_class.member_name_property,
            }
        described.append(item)
    return described


def _encode_reply(call_id: int, ok: bool, payload: bytes) -> bytes:
    if ok:
        return b'{"type":"reply","id":%d,"ok":true,"value":%b}\n' % (call_id, payload)
    return b'{"type":"reply","id":%d,"ok":false,"message":%b}\n' % (call_id, payload)
