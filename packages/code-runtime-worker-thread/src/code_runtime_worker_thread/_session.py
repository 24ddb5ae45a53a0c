"""One run on one Node host: what arrives from the host, and the result that follows from it."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any, Final, final

import anyio
import anyio.abc
import anyio.lowlevel
import anyio.to_thread

from code_runtime._execution._answers import INLINE_BYTES, collector_off, has_exponents
from code_runtime._execution._calls import CallDesk
from code_runtime._execution._cputime import cpu_time_s
from code_runtime._execution._journal import Journal
from code_runtime._execution._logs import LogBook, LogObserver, plain_text
from code_runtime._execution._settlement import Completed, Failed, Lost, Settlement
from code_runtime._guarded import ExitStatus, GuardError
from code_runtime._ledger import OutputLedger
from code_runtime._lossless import LosslessJsonError, decode, encode, measure
from code_runtime._text import shorten
from code_runtime._vocabulary import CodeRunFailure, CodeRunRequest, CodeRunResult, FailureKind

from . import _frames as frames
from ._config import WorkerThreadConfig
from ._frames import ProtocolError, encode_frame
from ._host import NodeHost, describe_exit

if TYPE_CHECKING:
    from code_runtime._lossless import JsonValue

# Kinds that a program's own terminal message may claim (WT-177).
_CLAIMABLE: Final[dict[bytes, FailureKind]] = {
    b"exception": "exception",
    b"invalid-output": "invalid-output",
    b"output-limit": "output-limit",
}
# The main thread reports busy time every 25 ms; one that is silent for longer than this (stopped,
# starved, or tampered with) leaves the worker busy for all that Python knows.
NO_VALUE: Final = b""
SILENCE_S: Final = 1.0
# How long a process may take to answer that it has prepared a program, and more for each MiB of it.
ANSWER_S: Final = 2.0
# Garbage collection and compilation run on threads beside the worker's; honest programs stay below.
CPU_FACTOR: Final = 4
CPU_SLACK_S: Final = 1.0
MAX_NAME_CHARS: Final = 1_024


@final
class RunSession:
    """Takes the frames of one run and keeps its budgets.

    The provider decides when the run starts and ends its process; this class decides what the
    frames mean. Every method but `wait_for_room`, `watch_silence` and `close` is called on the
    event loop and returns at once.
    """

    def __init__(
        self,
        request: CodeRunRequest,
        config: WorkerThreadConfig,
        settlement: Settlement,
        host: NodeHost,
        task_group: anyio.abc.TaskGroup,
        program: bytes,
    ) -> None:
        self.request = request
        self._config = config
        self._settlement = settlement
        self._host = host
        self._program = program
        self._ledger = OutputLedger(config.max_output_bytes)
        self._observer = LogObserver(request.on_log, record=request.record)
        self._logs = LogBook(self._ledger, self._observer)
        if not self._observer.is_needed:
            host.worker.join_logs()
        self._journal = Journal(record=request.record)
        self._desk = CallDesk(
            task_group,
            request.bindings,
            host.worker.channel.sender,
            _encode_reply,
            self._journal,
            self._on_binding_fault,
            first_id=1,
            allows_gaps=True,
        )
        # Honest targets are found without parsing them again at each call.
        self._targets = {
            encode([namespace.global_name, member]): (namespace.global_name, member)
            for namespace in request.bindings
            for member in namespace.functions
        }
        self._busy_s = 0.0
        self._busy_seen_s = time.monotonic()
        self._cpu_at_start_s = cpu_time_s(host.process.pid)
        self.running = False
        self._binding_fault: BaseException | None = None
        self._status: ExitStatus | None = None

    @property
    def fault(self) -> BaseException | None:
        """What a binding raised that is no `Exception`, or else what `on_log` raised."""
        return self._binding_fault or self._observer.fault

    @property
    def has_run(self) -> bool:
        """Whether anything of the program may have run, or has been refused."""
        return self.running

    @property
    def room_bytes(self) -> int:
        """How much output still fits."""
        return self._ledger.remaining_bytes

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
        """Send the program to the host."""
        try:
            await self._host.begin(self, self._program)
        except OSError:
            self.on_lost("the Node process ended before the program started")
        except ProtocolError as error:
            self._settlement.decide(Failed("exception", str(error)))

    async def watch(self) -> None:
        """Count a main thread that says nothing as busy, until the run is settled."""
        compute_ms = self._config.compute_ms
        answer_s = ANSWER_S + len(self._program) / 1_048_576
        while True:
            await anyio.sleep(SILENCE_S)
            # A loop that stood still has reports to read, and its clock has gone on: readers first.
            await anyio.lowlevel.checkpoint()
            silent_s = time.monotonic() - self._busy_seen_s
            if not self.has_run:
                if silent_s > answer_s:
                    self.on_lost("the Node process does not answer")
            elif compute_ms is not None:
                if silent_s > SILENCE_S:
                    self._check_busy(self._busy_s + silent_s, compute_ms)
                self._check_cpu(compute_ms)

    def on_prepared(self, prepared: bytes) -> None:
        """The program is stripped: start it in the worker."""
        if self.running or self._settlement.outcome is not None:
            return
        if not (prepared.startswith(b"{") and prepared.endswith(b"}") and len(prepared) > 2):
            self.on_lost("the Node process prepared no program")
            return
        self.running = True
        rest = encode(
            {
                "directory": self._host.directory,
                "maxOutputBytes": self._config.max_output_bytes,
                "namespaces": _describe_bindings(self.request),
            }
        )
        text = b"".join((prepared[:-1], b',"program":', self._program, b",", rest[1:]))
        try:
            self._send_run(encode_frame(frames.RUN, text))
        except (OSError, ProtocolError) as error:
            self.on_lost(str(error))

    def on_refused(self, message: bytes, retire: bool) -> None:
        """The program does not parse: it failed without having run."""
        text = _decode_string(message)
        if text is None:
            self.on_lost("the Node process refused the program without a reason")
            return
        if retire:
            self._host.retire("the type stripper is broken")
        self._settlement.decide(Failed("exception", text, by_program=True))

    def on_busy(self, busy_us: int) -> None:
        """The worker's event loop has been active for so long since the assignment."""
        self._busy_seen_s = time.monotonic()
        self._busy_s = max(self._busy_s, busy_us / 1e6)
        if self._config.compute_ms is not None:
            self._check_busy(self._busy_s, self._config.compute_ms)

    def on_worker_frame(self, kind: int, fields: tuple[Any, ...]) -> None:
        """Act on one frame of the worker; after the outcome only logs of a killed run count."""
        if kind == frames.LOG:
            if self._takes_output():
                self._on_log_frame(fields[0])
        elif kind == frames.LOGS:
            if self._takes_output() and not self._logs.admit_plain(fields[0], fields[1]):
                self._end_for_limit()
        elif self._settlement.outcome is not None:
            return
        elif kind == frames.CALL:
            namespace, member = self._targets.get(fields[1]) or _target_names(fields[1])
            self._desk.accept_text(fields[0], namespace, member, fields[2])
        elif kind == frames.DONE:
            self._settlement.decide(Completed(fields[0]))
        elif kind == frames.FAIL:
            claimed, message = _CLAIMABLE.get(fields[0]), _decode_string(fields[1])
            if claimed is not None and message is not None:
                # An honest worker that claims the limit has sent its limit frame before.
                self._settlement.decide(Failed(claimed, message, by_program=True))
        elif kind == frames.LIMIT:
            self._end_for_limit()
        else:
            self._host.retire("the worker sent a frame out of place")
            self.on_lost(f"the worker sent {frames.FRAMES[kind].name} out of place")

    def on_output(self, line: str) -> None:
        """A line on the process's own stdout or stderr."""
        if not self._logs.admit(line):
            self._end_for_limit()

    def on_lost(self, reason: str) -> None:
        """The process, or its worker, is gone or cannot be trusted."""
        gone = self._host.worker.exit
        if gone is None:
            self._settlement.decide(Lost(reason))
        else:
            self._settlement.decide(Lost(None, gone.error, gone.exit_code))

    async def end(self) -> None:
        """Finish a host whose program has ended by itself, kill any other; then wait for calls."""
        self._desk.close()
        outcome = self._settlement.outcome
        is_clean = isinstance(outcome, Completed) or (
            isinstance(outcome, Failed) and outcome.by_program and outcome.kind != "output-limit"
        )
        try:
            if is_clean:
                await self._host.finish()
            else:
                self._status = await self._host.kill()
        except GuardError:
            self._host.retire("its guard is gone")
        await self._desk.wait_closed(self._config.binding_grace_ms / 1000)
        self._host.detach()

    async def result(self) -> CodeRunResult:
        """Build the result; `end` is over."""
        outcome = self._settlement.outcome
        if isinstance(outcome, Completed):
            assert isinstance(outcome.content, bytes)
            return await self._completed(outcome.content)
        if isinstance(outcome, Failed):
            return self._failed(outcome.kind, outcome.message)
        assert isinstance(outcome, Lost)
        return self._failed(*_explain(outcome, self._status, self._host))

    async def _completed(self, text: bytes) -> CodeRunResult:
        if text == NO_VALUE:
            return self._limited() if self._ledger.exceeded else self._build()
        try:
            if len(text) <= INLINE_BYTES:
                value, fits = _read_value(text, self._ledger.remaining_bytes)
            else:
                value, fits = await anyio.to_thread.run_sync(
                    _read_value, text, self._ledger.remaining_bytes
                )
        except LosslessJsonError as error:
            return self._failed("invalid-output", f"The completion must be lossless JSON: {error}")
        if self._ledger.exceeded or not fits:
            return self._limited()
        return self._build(has_value=True, value=value)

    def _failed(self, kind: FailureKind, message: str) -> CodeRunResult:
        if self._ledger.exceeded or not self._ledger.fits_message(message):
            return self._limited()
        return self._build(error=CodeRunFailure(kind, message))

    def _limited(self) -> CodeRunResult:
        logs, diagnostic = self._ledger.limit_result()
        return self._build(logs=logs, error=CodeRunFailure("output-limit", diagnostic))

    def _build(
        self,
        *,
        logs: list[str] | None = None,
        has_value: bool = False,
        value: object = None,
        error: CodeRunFailure | None = None,
    ) -> CodeRunResult:
        kept = self._ledger.logs if logs is None else logs
        return CodeRunResult(
            kept,
            has_value=has_value,
            value=value,
            error=error,
            logs_truncated=self._ledger.exceeded or kept != self._ledger.logs,
            calls=self._journal.freeze(),
            calls_dropped=self._journal.dropped_count,
            log_times_ms=self._observer.times_ms(len(kept)),
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

    def _on_log_frame(self, text: bytes) -> None:
        plain = plain_text(text) if len(text) <= INLINE_BYTES else None
        if plain is not None:
            if not self._logs.admit(plain, len(text)):
                self._end_for_limit()
            return
        # The worker cuts its own entries: what is far above the room is forged, read a part only.
        most = 6 * self._ledger.remaining_bytes + 64
        entry = _decode_string(text) if len(text) <= most else _decode_start(text[:most])
        if entry is not None and not self._logs.admit(entry):
            self._end_for_limit()

    def _end_for_limit(self) -> None:
        self._ledger.exhaust()
        self._settlement.decide(Failed("output-limit", ""))

    def _check_busy(self, busy_s: float, compute_ms: float) -> None:
        if busy_s * 1000 > compute_ms:
            self._settlement.decide(
                Failed("timeout", f"compute budget exceeded: {compute_ms:g} ms of busy time")
            )

    def _check_cpu(self, compute_ms: float) -> None:
        """Bound what the event loop does not meter, or a program hides: by the kernel's clock."""
        used_s = cpu_time_s(self._host.process.pid) - self._cpu_at_start_s
        if used_s > CPU_FACTOR * compute_ms / 1000 + CPU_SLACK_S:
            self._settlement.decide(
                Failed(
                    "timeout",
                    f"compute budget exceeded: {compute_ms:g} ms of busy time "
                    f"({used_s:.1f} s of processor time in all threads)",
                )
            )

    def _on_binding_fault(self, error: BaseException) -> None:
        self._binding_fault = error
        self._settlement.decide(Failed("abort", "a binding raised what is no Exception"))

    def _send_run(self, frame: bytes) -> None:
        sender = self._host.worker.channel.sender
        taken = sender.send_nowait(frame)
        assert taken, "nothing is sent before the run frame"
        if sender.needs_flush:
            self._host.flush_later(sender)


def _explain(lost: Lost, status: ExitStatus | None, host: NodeHost) -> tuple[FailureKind, str]:
    config = host.config
    fatal = host.fatal_text
    if status is not None and status.reason == "memory":
        return "worker-exit", (
            f"memory limit reached: the program and its processes used more than "
            f"{config.memory_mb:g} MiB (memory_mb)"
        )
    if host.worker.is_out_of_heap or (fatal is not None and "out of memory" in fatal.lower()):
        return "worker-exit", (
            "memory limit reached: the JavaScript heap is limited to "
            f"{config.max_old_generation_size_mb:g} MiB (max_old_generation_size_mb)"
        )
    if lost.error is not None:
        return "exception", lost.error
    if lost.exit_code is not None:
        return "worker-exit", f"worker exited with code {lost.exit_code} before completing"
    if status is None or status.reason == "guard-lost":
        return "worker-exit", "the Node process was killed: its guard is gone"
    if host.died_by_itself:
        return "worker-exit", f"the Node process {describe_exit(status)} before completing"
    return "worker-exit", f"the Node process was killed: {lost.reason}"


def _read_value(text: bytes, room_bytes: int) -> tuple[JsonValue, bool]:
    """Decode a completion; return it and whether its canonical text fits."""
    with collector_off():
        value = decode(text)
        if len(text) <= room_bytes and not has_exponents(text):
            return value, True
        return value, measure(value, room_bytes) is not None


def _describe_bindings(request: CodeRunRequest) -> list[JsonValue]:
    described: list[JsonValue] = []
    for namespace in request.bindings:
        error_class = namespace.error_class
        described.append(
            {
                "global": namespace.global_name,
                "names": list(namespace.functions),
                "errorClass": None
                if error_class is None
                else {
                    "name": error_class.name,
                    "memberNameProperty": error_class.member_name_property,
                },
            }
        )
    return described


def _encode_reply(call_id: int, ok: bool, payload: bytes) -> bytes:
    return encode_frame(frames.REPLY, call_id, ok, payload)


def _target_names(target: bytes) -> tuple[str, str]:
    """Return the names in an undeclared target, cut to a length that a message may have."""
    try:
        names = decode(target[: 4 * MAX_NAME_CHARS])
    except LosslessJsonError:
        names = None
    if isinstance(names, list) and len(names) == 2:
        namespace, member = names
        if isinstance(namespace, str) and isinstance(member, str):
            return shorten(namespace, MAX_NAME_CHARS), shorten(member, MAX_NAME_CHARS)
    return "?", "?"


def _decode_start(text: bytes) -> str | None:
    """Return the string that the start of a JSON string holds, without what was cut."""
    start = text.decode("utf-8", "ignore")
    for cut in range(6):  # the longest escape has six characters
        entry = _decode_string((start[: len(start) - cut] + '"').encode("utf-8", "replace"))
        if entry is not None:
            return entry
    return None


def _decode_string(text: bytes) -> str | None:
    """Return the string that a JSON text holds, None when it is anything else."""
    try:
        value = json.loads(text.decode("utf-8"))
    except (ValueError, RecursionError):
        return None
    return value if type(value) is str else None
