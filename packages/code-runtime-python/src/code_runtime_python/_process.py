"""One program process: forked or started ahead, it serves one run and is gone.

Reader tasks live as long as the process: the fd-3 channel, the pipe of logs, both output pipes.
They hand what arrives to the session of the run, and stop at the end of the stream, which comes
when the process is gone.
"""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Awaitable
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, final

import anyio
import anyio.abc
import anyio.to_thread

from code_runtime._execution._answers import collector_off, has_exponents
from code_runtime._execution._channel import StreamChannel
from code_runtime._execution._journal import MAX_PREVIEW_BYTES
from code_runtime._execution._log_pipe import LogPipe
from code_runtime._execution._outlast import outlast
from code_runtime._execution._output import OutputPipe, open_output
from code_runtime._execution._pool import HostBootError
from code_runtime._execution._settings import Settings, read_settings
from code_runtime._execution._wardens import WardenKeeper
from code_runtime._execution._workspace import RunDirectories
from code_runtime._guarded import ExitStatus, GuardedProcess, GuardError, ProgramStartError, Warden
from code_runtime._lossless import encode_start, string_cost

from ._config import PythonConfig
from ._frames import (
    CallMessage,
    ChildMessage,
    DoneMessage,
    LineReader,
    LineTooLongError,
    LogError,
    LogMessage,
    LogReader,
    parse_child_frame,
)
from ._interpreter import CHILD_FOLDER

if TYPE_CHECKING:
    from ._session import PythonSession

# After `done` a program gets this long to leave by itself: the child bounds its own part.
EXIT_WINDOW_S: Final = 1.0
# A process without open descriptors, or without a session, gets this long to end by itself.
CLOSED_TIMEOUT_S: Final = 2.0
# 8 KiB keep the loop for 25 ms at worst, when they are nothing but brackets; what is longer is
# parsed in a thread.
PARSE_INLINE_BYTES: Final = 8_192


@dataclass(frozen=True, slots=True)
class LargeMessage:
    """A message of a large line, with what would take too long on the event loop.

    Args:
        message: The message.
        cost_bytes: What the text of a log costs as JSON; what a value costs at most, if that is
            known; else 0.
        preview: The start of the argument of a call as JSON, else empty.
    """

    message: ChildMessage
    cost_bytes: int
    preview: bytes


@final
class ProgramProcess:
    """Owns one guarded process, its channel, its pipes and its directory.

    `serve` runs for the life of the process in a task of the pool; everything else is called while
    it runs.
    """

    def __init__(
        self,
        wardens: WardenKeeper,
        python: str,
        config: PythonConfig,
        directories: RunDirectories,
        *,
        forks: bool,
    ) -> None:
        self._wardens = wardens
        self._python = python
        self._config = config
        self._directories = directories
        self._forks = forks
        self._directory: str | None = None
        self._process: GuardedProcess | None = None
        self._channel: StreamChannel[bytes] | None = None
        self._lines = LineReader()
        self._logs: LogPipe[LogMessage | list[str]] | None = None
        self._logs_end = -1  # for the process, until that has its boot frame
        self._log_reader = LogReader()
        self._large_line = b""
        self._handled_count = 0
        self._settings: Settings = None
        self._warden: Warden | None = None
        self._stdout: OutputPipe | None = None
        self._stderr: OutputPipe | None = None
        self._session: PythonSession | None = None
        self._task_group: anyio.abc.TaskGroup | None = None
        self._boot_error: HostBootError | None = None
        self._channel_done = anyio.Event()
        self._readers_done = anyio.Event()
        self._served = anyio.Event()
        self._retired: str | None = None
        self._has_failed = False  # for a fault of our own, and kills the process
        self.died_by_itself = False

    @property
    def retired(self) -> str | None:
        """Why this process must serve no run, or None."""
        return self._retired

    @property
    def process(self) -> GuardedProcess:
        """The guarded process; it exists once `serve` has started."""
        assert self._process is not None
        return self._process

    @property
    def channel(self) -> StreamChannel[bytes]:
        """The fd-3 channel."""
        assert self._channel is not None
        return self._channel

    def retire(self, reason: str) -> None:
        """Let this process serve no run; the first reason is kept."""
        if self._retired is None:
            self._retired = reason

    async def serve(
        self, *, task_status: anyio.abc.TaskStatus[None] = anyio.TASK_STATUS_IGNORED
    ) -> None:
        """Start the process and read from it until it is gone; cancelling this kills it.

        What keeps it from starting is raised by `boot`.
        """
        try:
            try:
                await self._start_process()
            except HostBootError as error:
                self._boot_error = error
                task_status.started()
                return
            assert self._process is not None
            async with anyio.create_task_group() as task_group:
                self._task_group = task_group
                task_status.started()
                assert self._stdout is not None
                assert self._stderr is not None
                assert self._logs is not None
                task_group.start_soon(self._read_channel, self._logs)
                task_group.start_soon(self._logs.read)
                task_group.start_soon(self._stdout.read)
                task_group.start_soon(self._stderr.read)
            self._readers_done.set()
            # A program may have closed all three: its run says what that means, and has it killed.
            with anyio.move_on_after(CLOSED_TIMEOUT_S):
                await self._process.wait_exit()
        except Exception:
            self._has_failed = True
            if self._session is not None:
                self._session.on_lost("its output could not be read")
            raise
        finally:
            self.retire("the process is closed")
            self._channel_done.set()
            self._readers_done.set()
            with anyio.CancelScope(shield=True):
                if self._process is not None:
                    await self._process.aclose()
                if self._directory is not None:
                    await self._directories.remove(self._directory)
            self._close_logs_end()
            for closable in (self._channel, self._logs, self._stdout, self._stderr):
                if closable is not None:
                    closable.close()
            self._served.set()

    async def boot(self) -> None:
        """Return at once: the process reads its boot frame when it is up.

        Raises:
            HostBootError: it has not started.
        """
        if self._boot_error is not None:
            # The pool would take an earlier end of `serve` for one that calls for another boot.
            await self._served.wait()
            raise self._boot_error

    async def renew(self) -> None:
        """A process serves one run.

        Raises:
            HostBootError: always.
        """
        raise HostBootError("a process serves one run")

    async def begin(self, session: PythonSession, frames: bytes) -> None:
        """Hand the boot and run frames of a run to the process.

        Raises:
            OSError: the process is gone.
        """
        self._session = session
        self.retire("the process has served its run")
        if self._warden is not None and not self._warden.alive:
            raise BrokenPipeError("the process ends with its zygote")
        if self._forks and read_settings(self.process.pid) != self._settings:
            # Another program of the same user has changed it while it waited.
            raise BrokenPipeError("the process is not as it was forked")
        # Another program of the same user may have stopped it while it waited.
        self.process.send_signal(signal.SIGCONT)
        await self.channel.send(frames, self._logs_end)
        self._close_logs_end()
        # Only now, since it wakes the guard: the program has its first microseconds unwatched.
        self.process.watch(self._config.memory_bytes)

    def join_logs(self) -> None:
        """Let entries come many in one message: nobody looks at them one by one."""
        self._log_reader.joins_logs = True

    async def wait_read(self) -> None:
        """Wait until the channel is read to its end."""
        await self._channel_done.wait()

    async def leave(self) -> None:
        """Let a process whose program has ended leave: by itself, else by SIGTERM.

        What is still there after the grace is for `kill`.
        """
        with anyio.move_on_after(EXIT_WINDOW_S):
            await self.process.wait_exit()
            return
        self.process.send_signal(signal.SIGTERM)
        with anyio.move_on_after(self._config.grace_ms / 1000):
            await self.process.wait_exit()

    async def kill(self) -> ExitStatus:
        """Kill the process and all that it started, read what they wrote to the end, clean up.

        Returns:
            How the process ended; not by this kill when it was dead before.
        """
        self.retire("the process was killed")
        if self.process.exit_status is not None and not self._has_failed:
            self.died_by_itself = True
        await self.process.kill()
        await outlast(self._readers_done.wait, lambda: self._handled_count)
        for pipe in (self._stdout, self._stderr):
            if pipe is not None:
                pipe.flush()  # only if a process that is not of this run holds the other end
        if self._task_group is not None:
            self._task_group.cancel_scope.cancel()
        await self._served.wait()
        await self._wardens.drop_if_changed()
        return await self.process.wait_exit()

    async def shut_down(self) -> None:
        """Kill the process and wait until `serve` has released everything; idempotent."""
        if self._process is not None:  # else `serve` has not started one, and cleans up by itself
            await self.kill()

    def detach(self) -> None:
        """Forget the session: what still arrives belongs to no run."""
        self._session = None

    async def _start_process(self) -> None:
        with ExitStack() as theirs:
            try:
                self._directory = self._directories.create()
                control, stdout, stderr = self._open_descriptors(theirs)
                warden = self._warden = await self._wardens.current()
                env = {"TMPDIR": self._directory}
                if self._forks:
                    self._settings = self._wardens.settings
                    self._process = await warden.fork(
                        env=env,
                        cwd=self._directory,
                        stdout_fd=stdout,
                        stderr_fd=stderr,
                        control_fd=control,
                        is_fit=lambda pid: read_settings(pid) == self._settings,
                    )
                else:
                    self._process = await warden.spawn(
                        [self._python, "-u", "-I", str(CHILD_FOLDER / "__main__.py")],
                        env=env,
                        cwd=self._directory,
                        stdout_fd=stdout,
                        stderr_fd=stderr,
                        control_fd=control,
                    )
            except ProgramStartError as error:
                # The text may reach a model, so no path is in it; `code-runtime doctor` shows that.
                reason = f"Python cannot be started: {os.strerror(error.errno)}"
                raise HostBootError(reason) from error
            except GuardError as error:
                # Likewise: what was asked for is named by its path.
                reason = f"Cannot start a process: {error.seen}, expected {error.expected}"
                raise HostBootError(reason) from error
            except OSError as error:
                raise HostBootError(error.strerror or str(error)) from error

    def _open_descriptors(self, theirs: ExitStack) -> tuple[int, int, int]:
        """Open our ends of the channel and the pipes; return the ends for the process."""
        ours, control = socket.socketpair()
        theirs.callback(control.close)
        self._channel = StreamChannel(ours, self._lines.push)
        logs, self._logs_end = os.pipe()
        self._logs = LogPipe(logs, self._log_reader.push, self._on_log, self._fail, LogError)
        self._stdout, out = open_output(theirs, self._admit, self._room_bytes)
        self._stderr, err = open_output(theirs, self._admit, self._room_bytes)
        return control.fileno(), out, err

    async def _read_channel(self, logs: LogPipe[LogMessage | list[str]]) -> None:
        try:
            await self.channel.read(
                self._on_line,
                self._pause,
                self._flush,
                stays_awake=True,
                catch_up=logs.catch_up,
            )
        except LineTooLongError as error:
            self._fail(str(error))
            return
        finally:
            self._close_logs_end()  # a process that has ended before its run never had it
        await logs.read_rest()
        self.retire("the process closed its channel")
        self._channel_done.set()
        if self._session is not None:
            self._session.on_closed()

    def _close_logs_end(self) -> None:
        if self._logs_end >= 0:
            os.close(self._logs_end)
            self._logs_end = -1

    def _fail(self, reason: str) -> None:
        self.retire(reason)
        if self._session is not None:
            self._session.on_violation(reason)

    def _on_log(self, log: LogMessage | list[str]) -> None:
        if isinstance(log, list):
            self._handled_count += len(log)
            if self._session is not None:
                self._session.on_plain_logs(log)
            return
        self._handled_count += 1
        if self._session is not None:
            self._session.on_message(log, 0)

    def _on_line(self, line: bytes) -> None:
        self._handled_count += 1
        if self._session is not None and self._session.refuses(line):
            return
        if len(line) > PARSE_INLINE_BYTES:
            self._large_line = line
        else:
            self._hand_over(parse_child_frame(line), len(line))

    def _pause(self) -> Awaitable[None] | None:
        if self._large_line:
            line, self._large_line = self._large_line, b""
            return self._handle_large(line)
        return self._wait_for_room()

    async def _handle_large(self, line: bytes) -> None:
        # Hostile brackets or numbers may take it seconds: nobody waits for a run that is over.
        large = await anyio.to_thread.run_sync(_parse_large, line, abandon_on_cancel=True)
        if large is not None and self._session is not None:
            self._session.on_message(large.message, len(line), large)
        room = self._wait_for_room()
        if room is not None:
            self._flush()
            await room

    def _wait_for_room(self) -> Awaitable[None] | None:
        if self._session is not None and self._session.saturated:
            return self._session.wait_for_room()
        return None

    def _flush(self) -> None:
        if self._session is not None:
            self._session.flush()

    def _hand_over(self, message: ChildMessage | None, size_bytes: int) -> None:
        if message is not None and self._session is not None:
            self._session.on_message(message, size_bytes)

    def _admit(self, line: str) -> None:
        self._handled_count += 1
        if self._session is not None:
            self._session.on_output(line)

    def _room_bytes(self) -> int:
        return 0 if self._session is None else self._session.room_bytes


def _parse_large(line: bytes) -> LargeMessage | None:
    # The collector would look at each of a million new containers again and again.
    with collector_off():
        message = parse_child_frame(line)
    if message is None:
        return None
    cost_bytes, preview = 0, b""
    if isinstance(message, LogMessage):
        cost_bytes = string_cost(message.text) or 0
    elif isinstance(message, CallMessage):
        preview = encode_start(message.args, 2 * MAX_PREVIEW_BYTES)[: 2 * MAX_PREVIEW_BYTES]
    elif isinstance(message, DoneMessage) and not has_exponents(line):
        cost_bytes = len(line)
    return LargeMessage(message, cost_bytes, preview)
