"""The life of one child: boot frame, limits, run frame, the program, one `done`, a short end.

    host -> boot       limits and namespaces
         <- boot-ack   they are in force
    host -> run        the program's text
         <- log, call  while it runs; replies come in between
         <- done       its value or failure; nothing after it counts

`serve` is the one entry. It runs in a fresh process, spawned or forked, and ends that process.

The program can rebind whatever it can reach. So all that decides the outcome was looked up when
these modules were imported, and the value is checked, spelled and sent in the very step in which
the program returns, without another turn of the event loop.

Standard library only, CPython 3.10 or later.
"""

from __future__ import annotations

import asyncio
import gc
import io
import os
import sys
from os import _exit
from socket import socketpair
from types import ModuleType
from typing import TYPE_CHECKING, NoReturn

from .bindings import Calls, Member, build_namespaces, unawaited_report
from .channel import Channel
from .ending import leave
from .inbound import FrameError, read_boot, read_run
from .ledger import LogLedger
from .limits import LimitError, apply_limits, check_cpu, set_traceable
from .loop import new_loop
from .lossless import LosslessJsonError, encode_within
from .program import LABEL, Program, compile_program, fresh_main
from .streams import Output, Stream
from .traceback import register_source, render
from .warm import warm_up
from .wire import Boot, DoneKind, encode_boot_ack, encode_done_error, fit_message

if TYPE_CHECKING:
    from .bindings import Waiting

_RECURSION_LIMIT = 1_000
_RESERVE_BYTES = 1_048_576  # of address space, freed so that a failure for want of it can be told
_NOTHING = b'{"type":"done"}\n'
_UNAWAITED = " without await"
_UNSHOWN = "The program failed, and so did showing its exception"
_STOPPED = RuntimeError("the event loop was stopped before the program ended")
_HINTS = {
    "asyncio.run() cannot be called from a running event loop": (
        "The program already runs in an event loop: write `await main()` at its top level"
    ),
}

_disable_collector = gc.disable
_enable_collector = gc.enable
_set_recursion_limit = sys.setrecursionlimit


def rehearse() -> None:
    """Do in a zygote what makes the first run of a process slow, and leave nothing of it."""
    ours, theirs = socketpair()
    with ours:
        channel = Channel(theirs.detach())
        loop = new_loop()
        try:
            Stream(Output(channel), 1).write("x\n")
            ours.send(b"\n")
            channel.take_logs_pipe()
            channel.read_line()
            warm_up(channel, loop)
        finally:
            loop.close()
            channel.close()


def serve(fd: int) -> NoReturn:
    """Serve one run on a socket, and end the process.

    Args:
        fd: The socket; it is moved to a private descriptor.
    """
    channel = Channel(fd)
    os.register_at_fork(after_in_child=channel.leave)
    waiting: Waiting = {}
    loop = new_loop(waiting)
    try:
        _Run(channel, loop, waiting).serve()
    except FrameError as error:
        os.write(2, f"{error}\n".encode("utf-8", "backslashreplace"))
        _exit(1)


def _line(channel: Channel) -> bytes:
    line = channel.read_line()
    if line is None:
        _exit(1)  # nobody wants this process any more
    return line


class _Run:
    """One program and its outcome."""

    def __init__(self, channel: Channel, loop: asyncio.AbstractEventLoop, waiting: Waiting) -> None:
        self._channel = channel
        self._loop = loop
        self._calls = Calls(channel, loop, waiting)
        self._source = ""
        self._members: list[Member] = []
        self._cpu_seconds = 0
        self._max_value_bytes = 0
        self._output = Output(channel)
        os.register_at_fork(after_in_child=self._output.begin_copy)
        self._streams = (Stream(self._output, 1), Stream(self._output, 2))
        self._native = (_native(1), _native(2))
        self._reserve: bytes | None = bytes(_RESERVE_BYTES)  # never touched, so no memory yet
        self._exit_code = 0

    def serve(self) -> NoReturn:
        """Go through the whole life of the child."""
        warm_up(self._channel, self._loop)
        # The collector would write to every object that was imported: it is told to leave these
        # alone, and stays off until the program has been compiled.
        gc.freeze()
        gc.disable()
        # Only now: the loop of the warm-up would take a boot frame that is there for a reply.
        self._connect()
        if sys.platform == "linux":
            set_traceable(False)
        self._channel.take_logs_pipe()
        boot = read_boot(_line(self._channel))
        if sys.platform == "linux":
            set_traceable(True)
        module = self._prepare(boot)
        self._channel.send(encode_boot_ack())
        self._source = read_run(_line(self._channel))["program"]
        self._execute(module)
        leave(self._channel, self._loop, self._flush_native, self._exit_code)

    def _prepare(self, boot: Boot) -> ModuleType:
        """Apply limits and build namespaces."""
        self._output.ledger = LogLedger(boot["maxLogBytes"])
        self._max_value_bytes = boot["maxValueBytes"]
        try:
            self._cpu_seconds = apply_limits(boot)
        except (LimitError, OSError, ValueError, OverflowError) as error:
            limited = isinstance(error, LimitError)
            text = str(error) if limited else f"Cannot set the limits of the program: {error}"
            self._send_failure("exception", text)
            _exit(1)
        scope, self._members = build_namespaces(self._calls, boot["namespaces"])
        self._replace_streams()
        return fresh_main(scope)

    def _connect(self) -> None:
        """Let the loop read replies, once it runs the program."""
        loop, channel, calls = self._loop, self._channel, self._calls
        fd = channel.fd
        loop.add_reader(fd, calls.receive)
        channel.on_input = lambda: loop.call_soon_threadsafe(calls.deliver)
        channel.on_leave = lambda: loop.remove_reader(fd)
        asyncio.set_event_loop(loop)

    def _replace_streams(self) -> None:
        sys.argv = [LABEL]
        sys.stdout, sys.stderr = self._streams
        sys.__stdout__, sys.__stderr__ = self._native  # type: ignore[misc]

    # The program

    def _execute(self, module: ModuleType) -> None:
        try:
            register_source(self._source)
            program = compile_program(self._source, module)
            _enable_collector()
        except BaseException as error:
            _enable_collector()
            self._fail(error)
            return
        task = self._loop.create_task(self._supervise(program))
        try:
            self._loop.run_until_complete(task)
        except BaseException as error:
            # A task or a signal handler has stopped the loop, by SystemExit or stop() for example.
            self._fail(_STOPPED if _is_stop(error) else error)
        if not self._channel.done:
            self._fail(_STOPPED)

    async def _supervise(self, program: Program) -> None:
        try:
            outcome = await program()
        except BaseException as error:
            self._fail(error)
        else:
            self._complete(outcome)

    # The outcome

    def _complete(self, outcome: tuple[object] | None) -> None:
        if self._channel.done:
            return
        limit = self._max_value_bytes
        text: bytes | None = b""
        try:
            self._settle()
            if outcome is not None:
                text = _encode_value(outcome[0], limit)
        except LosslessJsonError as error:
            if _UNAWAITED not in error.reason:
                self._report_unawaited()
            self._send_failure("invalid-output", f"The value must be lossless JSON: {error}")
            return
        except BaseException as error:
            self._fail(error)
            return
        self._report_unawaited()
        if text is None:
            self._send_failure("output-limit", f"The value is larger than {limit} bytes")
        elif text:
            self._channel.send(b'{"type":"done","value":', text, b"}\n", last=True)
        else:
            self._channel.send(_NOTHING, last=True)

    def _fail(self, error: BaseException) -> None:
        if self._channel.done:
            if self._channel.foreign:
                self._fail_copy(error)
            return
        try:
            self._settle()
            self._report_unawaited()
            text = render(error, self._source)
            for sign, hint in _HINTS.items():
                if sign in text:
                    text = f"{text}\n{hint}"
            self._send_failure("exception", text)
        except BaseException:
            if not self._channel.done:
                self._send_failure("exception", _UNSHOWN)

    def _fail_copy(self, error: BaseException) -> None:
        """Show why a forked copy of the program failed; the wire belongs to the original."""
        code = error.code if isinstance(error, SystemExit) else render(error, self._source)
        self._exit_code = 0 if code is None else 1
        if type(code) is int:
            self._exit_code = code & 0xFF
        elif code is not None:
            self._streams[1].write(f"{code}\n")

    def _send_failure(self, kind: DoneKind, message: str) -> None:
        limit = self._max_value_bytes
        # A code point costs a byte at least, so what is cut here would not fit anyway.
        message = message[: limit + 1].encode("utf-8", "replace").decode()
        self._channel.send(encode_done_error(kind, fit_message(message, limit)), last=True)

    def _settle(self) -> None:
        """Send what was called and printed, and enforce the CPU budget, before the outcome."""
        self._reserve = None
        _set_recursion_limit(_RECURSION_LIMIT)
        self._calls.flush()
        self._flush_wrapped()
        for stream in self._streams:
            stream.buffer.finish()
        self._output.settle()
        self._flush_native()
        check_cpu(self._cpu_seconds)

    def _report_unawaited(self) -> None:
        for report in unawaited_report(self._members):
            self._streams[1].write(f"{report}\n")

    def _flush_wrapped(self) -> None:
        """Flush what the program has put in the place of its streams, around them for example."""
        for stream in (sys.stdout, sys.stderr):
            try:
                if stream is not self._streams[0] and stream is not self._streams[1]:
                    stream.flush()
            except BaseException:
                continue

    def _flush_native(self) -> None:
        for stream in (*self._native, sys.__stdout__, sys.__stderr__):
            try:
                if stream is not None:
                    stream.flush()
            except BaseException:
                continue


def _encode_value(value: object, limit: int) -> bytes | None:
    # The collector would look at each part of a large value, which is kept alive anyway.
    _disable_collector()
    try:
        return encode_within(value, limit)
    finally:
        _enable_collector()  # the program has ended


def _native(fd: int) -> io.TextIOWrapper:
    """Open a native stream, unbuffered so that a kill loses nothing that was written there."""
    raw = io.FileIO(fd, "w", closefd=False)
    return io.TextIOWrapper(
        raw,
        encoding="utf-8",
        errors="backslashreplace",
        write_through=True,
    )


def _is_stop(error: BaseException) -> bool:
    return type(error) is RuntimeError and error.args == (
        "Event loop stopped before Future completed.",
    )
