"""One Node host: a process that serves one run at a time and holds one worker at a time.

Life: boot → ready (a spare worker waits) → serving a run → ready again, or dead. Reader tasks live
as long as the process: control socket, the worker's socket, both output pipes. They hand what
arrives to the session of the run, and stop at the end of the stream, which comes when the process
is gone.

Nothing that the process sends is trusted: a frame out of place kills it.
"""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Awaitable, Callable, Mapping
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final, final

import anyio
import anyio.abc

from code_runtime._execution._channel import StreamChannel
from code_runtime._execution._outlast import outlast
from code_runtime._execution._output import OutputPipe, open_output
from code_runtime._execution._pool import HostBootError
from code_runtime._execution._sender import PacedSender
from code_runtime._execution._wardens import WardenKeeper
from code_runtime._execution._workspace import RunDirectories
from code_runtime._guarded import ExitStatus, GuardedProcess, GuardError, ProgramStartError

from . import _frames as frames
from ._config import WorkerThreadConfig
from ._fatal import FatalTextFilter
from ._frames import FrameReader, Message, ProtocolError, encode_frame
from ._log_pipe import NamedLogPipe
from ._node import NodeBinary
from ._worker import FrameChannel, Worker, listen

if TYPE_CHECKING:
    from ._session import RunSession

HOST_SCRIPT: Final = Path(__file__).parent / "_js" / "host.mjs"
# A worker boots in 25 ms of CPU; a minute is a machine that does not work.
BOOT_TIMEOUT_S: Final = 60
WORKER_TIMEOUT_S: Final = 10
# How often a process that is waited for is told to go on.
WAKE_S: Final = 1.0
# After a clean end the worker only has to be torn down; one that is stuck in native code is killed.
FINISH_TIMEOUT_S: Final = 0.5
# What is known of an end arrives on three ways (control socket, worker's socket, guard); a verdict
# waits this long for all of them.
LOSS_TIMEOUT_S: Final = 0.5
# Signals by which a process ends when V8 or the system gives up on it.
_CRASH_SIGNALS: Final = frozenset(
    {
        signal.SIGILL,
        signal.SIGTRAP,
        signal.SIGABRT,
        signal.SIGBUS,
        signal.SIGFPE,
        signal.SIGSEGV,
    }
)


@final
class NodeHost:
    """Owns one guarded Node process, its control socket, its pipes and its worker's socket.

    `serve` runs for the life of the process in a task of the pool; everything else is called while
    it runs.
    """

    def __init__(
        self,
        wardens: WardenKeeper,
        node: NodeBinary,
        config: WorkerThreadConfig,
        directories: RunDirectories,
    ) -> None:
        self._wardens = wardens
        self._node = node
        self.config = config
        self._directories = directories
        self._directory: str | None = None
        self._process: GuardedProcess | None = None
        self._control: FrameChannel | None = None
        self._worker = Worker(config.max_output_bytes)
        self._session: RunSession | None = None
        self._stderr_filter = FatalTextFilter(self._admit)
        self._stdout: OutputPipe | None = None
        self._stderr: OutputPipe | None = None
        self._ready_frame = anyio.Event()
        self._readers_done = anyio.Event()
        self._served = anyio.Event()
        self._booting: anyio.CancelScope | None = None
        self._task_group: anyio.abc.TaskGroup | None = None
        self._retired: str | None = None
        self.died_by_itself = False
        self.fatal_text: str | None = None
        self.run_count = 0
        self._handled_count = 0

    @property
    def retired(self) -> str | None:
        """Why this host must serve no further run, or None."""
        return self._retired

    @property
    def process(self) -> GuardedProcess:
        """The guarded process; it exists once `boot` has begun."""
        assert self._process is not None
        return self._process

    @property
    def directory(self) -> str:
        """The working directory of the run that is next or runs."""
        assert self._directory is not None
        return self._directory

    @property
    def worker(self) -> Worker:
        """The worker that waits or runs."""
        return self._worker

    def retire(self, reason: str) -> None:
        """Let this host serve no further run; the first reason is kept."""
        if self._retired is None:
            self._retired = reason

    async def serve(
        self, *, task_status: anyio.abc.TaskStatus[None] = anyio.TASK_STATUS_IGNORED
    ) -> None:
        """Start the process and read from it until it is gone; cancelling this kills it.

        Raises:
            HostBootError: the process does not start.
        """
        try:
            await self._start_process()
            async with anyio.create_task_group() as task_group:
                self._task_group = task_group
                task_status.started()
                async with anyio.create_task_group() as readers:
                    readers.start_soon(self._read_control)
                    assert self._stdout is not None
                    assert self._stderr is not None
                    readers.start_soon(self._stdout.read)
                    readers.start_soon(self._stderr.read)
                self._readers_done.set()
        except Exception:
            # Of our own, or of the system: it ends this run, and the process with it.
            if self._session is not None:
                self._session.on_lost("its output could not be read")
            raise
        finally:
            self.retire("the host is closed")
            with anyio.CancelScope(shield=True):
                if self._process is not None:
                    await self._process.aclose()
            try:
                for closable in (self._control, self._worker, self._stdout, self._stderr):
                    if closable is not None:
                        closable.close()
            finally:
                self._control = self._stdout = self._stderr = None
                self._readers_done.set()
                self._served.set()

    async def boot(self) -> None:
        """Wait for the process's handshake and boot its first worker.

        Raises:
            HostBootError: the process or the worker does not come up.
        """
        if self._retired is not None:
            raise HostBootError(self._retired)  # it ended before anyone waited for it
        with anyio.move_on_after(BOOT_TIMEOUT_S) as deadline:
            with anyio.CancelScope() as self._booting:
                await self._wait_awake(self._ready_frame.wait)
            self._booting = None
            if self._ready_frame.is_set():
                await self.renew()
                return
        if deadline.cancelled_caught:
            raise HostBootError(f"no handshake within {BOOT_TIMEOUT_S} s")
        raise HostBootError(self._retired or "the Node process ended before its handshake")

    async def renew(self) -> None:
        """Boot a worker that waits for the next run, and make the directory of that run.

        Raises:
            HostBootError: it does not come up.
        """
        if self._served.is_set():
            raise HostBootError(self._retired or "the host is closed")
        self._worker = Worker(self.config.max_output_bytes)
        with anyio.move_on_after(WORKER_TIMEOUT_S):
            try:
                self._directory = self._directories.create()
                await self._boot_worker(self._worker)
            except OSError as error:
                raise HostBootError(self._retired or error.strerror or str(error)) from error
        if not self._worker.ready.is_set():
            raise HostBootError(self._boot_failure())

    async def _boot_worker(self, worker: Worker) -> None:
        listener, address = listen(self._directories.path)
        try:
            with anyio.CancelScope() as self._booting:
                await self._send_control(
                    frames.SPAWN,
                    address,
                    worker.open_logs(self._directories.path, self._on_log, self._fail),
                    worker.nonce,
                    int(self.config.max_old_generation_size_mb * 1_048_576),
                )
                pid = self.process.pid
                await self._wait_awake(lambda: worker.accept(listener, pid))
                assert self._task_group is not None
                self._task_group.start_soon(self._read_worker, worker)
                await self._wait_awake(worker.ready.wait)
        finally:
            self._booting = None
            listener.close()
            if not address.startswith(b"\0"):
                with suppress(OSError):
                    os.unlink(address)

    async def _wait_awake(self, wait: Callable[[], Awaitable[object]]) -> None:
        """Wait for something that the process does; `wait` may be cancelled and called again.

        Another program of the same user may have stopped the process.
        """
        while True:
            with anyio.move_on_after(WAKE_S):
                await wait()
                return
            self.process.send_signal(signal.SIGCONT)

    async def begin(self, session: RunSession, program: bytes) -> None:
        """Hand the program of a run to the process.

        Raises:
            OSError: the process is gone.
        """
        self._session = session
        self.run_count += 1
        await self._send_control(
            frames.PREPARE, self.run_count, os.fsencode(self.directory), program
        )
        # Only now, since it wakes the guard; the program does not start before PREPARED is read.
        self.process.watch(int(self.config.memory_mb * 1_048_576))

    async def finish(self) -> None:
        """End a run whose program has ended by itself, and take everything that it left.

        Afterwards the host is ready for another worker, or retired.
        """
        with anyio.move_on_after(FINISH_TIMEOUT_S):
            with suppress(OSError):
                await self._send_control(frames.TERMINATE, self.run_count)
            await self._worker.gone.wait()
            await self._worker.closed.wait()
        ended = self._worker.exit
        if ended is None or not self._worker.closed.is_set():
            self.retire("the worker did not end")
        elif ended.changed is not None:
            self.retire(ended.changed)
        elif await self.process.leftovers():
            self.retire("the program left processes behind")
        if self.run_count >= self.config.runs_per_host:
            self.retire("the host has served its runs")
        if self._retired is not None:
            await self.kill()
        else:
            self.process.watch(None)
            assert self._stdout is not None
            assert self._stderr is not None
            await self._stdout.drain()
            await self._stderr.drain()
            self._stderr_filter.finish(crashed=False)
            self._worker.close()
            await self._drop_directory()

    async def kill(self) -> ExitStatus:
        """Kill the process and everything that it started, and read what they wrote to the end.

        Returns:
            How the process ended; not by this kill when it was dead before.
        """
        self.retire("the host was killed")
        if self.process.exit_status is not None:
            self.died_by_itself = True
        await self.process.kill()
        await outlast(self._wait_read, lambda: self._handled_count)
        if self._task_group is not None:
            self._task_group.cancel_scope.cancel()
        status = await self.process.wait_exit()
        # The text that Node prints when it dies; of a process that did not crash it is output.
        fatal_text = self._stderr_filter.finish(crashed=status.signal in _CRASH_SIGNALS)
        self.fatal_text = self.fatal_text or fatal_text
        await self._drop_directory()
        return status

    async def _wait_read(self) -> None:
        await self._readers_done.wait()
        if self._worker.is_connected:
            await self._worker.closed.wait()

    async def shut_down(self) -> None:
        """Kill the process and wait until `serve` has released everything; idempotent."""
        if self._process is None:
            return  # `serve` has not started a process, and cleans up by itself
        await self.kill()
        await self._served.wait()

    def flush_later(self, sender: PacedSender) -> None:
        """Write the rest of a frame as soon as the worker takes it."""
        if self._task_group is not None:
            self._task_group.start_soon(_flush, sender)

    def detach(self) -> None:
        """Forget the session: what still arrives belongs to no run."""
        self._session = None

    async def _drop_directory(self) -> None:
        directory, self._directory = self._directory, None
        if directory is not None:
            await self._directories.remove(directory)

    def _boot_failure(self) -> str:
        ended = self._worker.exit
        if self._retired is not None:
            return self._retired
        if ended is None:
            return f"no worker within {WORKER_TIMEOUT_S} s"
        if self._worker.is_out_of_heap:
            return "its heap is full before it is up"
        return ended.error or f"the worker ended with code {ended.exit_code}"

    async def _start_process(self) -> None:
        with ExitStack() as theirs:
            try:
                control = self._open_descriptors(theirs)
                warden = await self._wardens.current()
                self._process = await warden.spawn(
                    [self._node.path, *self._node.flags, str(HOST_SCRIPT)],
                    env=_environment(),
                    cwd="/",
                    stdout_fd=control[1],
                    stderr_fd=control[2],
                    control_fd=control[0],
                )
            except ProgramStartError as error:
                # The text may reach a model, so no path is in it; `code-runtime doctor` shows that.
                reason = f"Node cannot be started: {os.strerror(error.errno)}"
                raise HostBootError(reason) from error
            except GuardError as error:
                # Likewise: what was asked for is named by its path.
                reason = f"Cannot start a process: {error.seen}, expected {error.expected}"
                raise HostBootError(reason) from error
            except OSError as error:
                raise HostBootError(error.strerror or str(error)) from error

    def _open_descriptors(self, theirs: ExitStack) -> tuple[int, int, int]:
        """Open our ends of the control socket and the pipes; return the ends for the process."""
        ours, control = socket.socketpair()
        theirs.callback(control.close)
        self._control = StreamChannel(ours, FrameReader().feed)
        self._stdout, out = open_output(theirs, self._admit, self._room_bytes)
        self._stderr, err = open_output(theirs, self._stderr_filter.feed, self._room_bytes)
        return control.fileno(), out, err

    async def _send_control(self, kind: int, *fields: int | bool | bytes) -> None:
        if self._control is None:
            raise BrokenPipeError("the Node host is closed")
        await self._control.send(encode_frame(kind, *fields))

    async def _read_control(self) -> None:
        assert self._control is not None
        try:
            await self._control.read(self._on_control)
            reason = "the Node process closed its control socket"
        except ProtocolError as error:
            self._fail(str(error))
            return
        if self._session is not None:
            # A result may still be on its way through the worker's socket.
            with anyio.move_on_after(LOSS_TIMEOUT_S):
                await self._worker.closed.wait()
                await self.process.wait_exit()
        self._fail(reason)

    async def _read_worker(self, worker: Worker) -> None:
        async with anyio.create_task_group() as task_group:
            catch_up = None
            if worker.logs is not None:
                task_group.start_soon(_read_logs, worker, worker.logs)
                catch_up = worker.logs.catch_up
            try:
                await worker.channel.read(
                    self._on_worker,
                    self._pause,
                    self._flush,
                    stays_awake=True,
                    catch_up=catch_up,
                )
            except ProtocolError as error:
                self._fail(str(error))
            if worker.logs is not None:
                await worker.logs.read_rest()
            task_group.cancel_scope.cancel()
        worker.closed.set()
        if self._session is None:
            self.retire("the spare worker closed its socket")
            return
        with anyio.move_on_after(LOSS_TIMEOUT_S):
            await worker.gone.wait()
        if self._session is not None:
            self._session.on_lost("the worker closed its socket")

    async def _outlast_worker(self, session: RunSession) -> None:
        """Settle the run of a worker that is gone, even if a child keeps its socket open."""
        with anyio.move_on_after(LOSS_TIMEOUT_S):
            await self._worker.closed.wait()
        session.on_lost("the worker ended")

    def _pause(self) -> Awaitable[None] | None:
        if self._session is not None and self._session.saturated:
            return self._session.wait_for_room()
        return None

    def _flush(self) -> None:
        if self._session is not None:
            self._session.flush()

    def _on_control(self, message: Message) -> None:
        kind, fields = message
        session = self._session
        if kind == frames.READY and not self._ready_frame.is_set():
            if fields[0] != frames.PROTOCOL_VERSION:
                self._fail(
                    f"the Node host speaks protocol {fields[0]}, "
                    f"expected {frames.PROTOCOL_VERSION}: reinstall code-runtime-worker-thread"
                )
                return
            self._ready_frame.set()
        elif kind == frames.GONE and not self._worker.gone.is_set():
            self._worker.tell_exit(fields[1])
            if self._booting is not None:
                self._booting.cancel()
            elif session is None:
                self._fail("the spare worker ended")
            elif self._task_group is not None:
                self._task_group.start_soon(self._outlast_worker, session)
        elif session is not None and fields and fields[0] == self.run_count:
            if kind == frames.BUSY:
                session.on_busy(fields[1])
            elif kind == frames.PREPARED:
                session.on_prepared(fields[1])
            elif kind == frames.REFUSED:
                session.on_refused(fields[1], bool(fields[2]))
            else:
                self._fail(f"frame {frames.FRAMES[kind].name} came out of place")
        elif kind != frames.BUSY:
            self._fail(f"frame {frames.FRAMES[kind].name} came out of place")

    def _on_worker(self, message: Message) -> None:
        self._handled_count += 1
        if not self._worker.ready.is_set():
            if not self._worker.greet(message):
                self._fail("the worker did not begin with its handshake")
        elif self._session is None or not self._session.running:
            self._fail("the worker sent a frame before a run was assigned")
        else:
            self._session.on_worker_frame(*message)

    def _on_log(self, message: Message) -> None:
        if message[0] in (frames.LOG, frames.LOGS):
            self._on_worker(message)
        else:
            name = frames.FRAMES[message[0]].name
            self._fail(f"the worker sent {name} through the pipe of its logs")

    def _fail(self, reason: str) -> None:
        """The process is not to be trusted any more: end its run, or make it unusable."""
        self.retire(reason)
        if self._session is not None:
            self._session.on_lost(reason)
        if self._booting is not None:
            self._booting.cancel()

    def _admit(self, line: str) -> None:
        self._handled_count += 1
        if self._session is not None:
            self._session.on_output(line)

    def _room_bytes(self) -> int:
        return 0 if self._session is None else self._session.room_bytes


async def _read_logs(worker: Worker, logs: NamedLogPipe) -> None:
    await worker.ready.wait()  # nobody has it open for writing before
    await logs.read()


async def _flush(sender: PacedSender) -> None:
    with suppress(OSError):  # the peer is gone; its exit decides the run
        await sender.flush()


def _environment() -> Mapping[str, str]:
    # TZ is the one variable that a program may see the effect of: its clock reads as the host's.
    return {name: os.environ[name] for name in ("TZ",) if name in os.environ}


def describe_exit(status: ExitStatus) -> str:
    """Say how a process ended."""
    if status.signal is not None:
        try:
            return f"was ended by {signal.Signals(status.signal).name}"
        except ValueError:
            return f"was ended by signal {status.signal}"
    return f"ended with code {status.code}"
