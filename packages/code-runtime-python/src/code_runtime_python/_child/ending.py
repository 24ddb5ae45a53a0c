"""The end of a child after `done`: a short time for what a script's end would run.

Pending tasks are cancelled so that their `finally` blocks run, threads that are not daemons may
finish, atexit handlers are called; all together for 250 ms. What is printed then goes to the native
descriptors. The process ends in any case, by SIGALRM if something blocks.

Standard library only, CPython 3.10 or later.
"""

from __future__ import annotations

import asyncio
import atexit
import os
import signal
import threading
from asyncio import AbstractEventLoop, all_tasks
from collections.abc import Callable
from signal import ITIMER_REAL, SIG_DFL, SIG_UNBLOCK, SIGALRM, pthread_sigmask
from time import monotonic
from typing import NoReturn

from .channel import Channel

WINDOW_S = 0.25
"""How long a program may take to end by itself."""

_exit = os._exit
_run_exit_functions = atexit._run_exitfuncs
_set_handler = signal.signal
_set_timer = signal.setitimer


def leave(
    channel: Channel, loop: AbstractEventLoop, flush: Callable[[], object], exit_code: int
) -> NoReturn:
    """Run what is left of a program, for a short time, and end the process."""
    deadline_s = monotonic() + WINDOW_S
    try:
        channel.flush()
        _set_handler(SIGALRM, SIG_DFL)
        pthread_sigmask(SIG_UNBLOCK, {SIGALRM})
        _set_timer(ITIMER_REAL, WINDOW_S)
        if channel.fd >= 0:
            loop.remove_reader(channel.fd)
        _end_tasks(loop, deadline_s)
        _end_threads(deadline_s)
        _run_exit_functions()
        flush()
    except BaseException:
        pass
    channel.drain()
    _exit(exit_code)


def _end_tasks(loop: AbstractEventLoop, deadline_s: float) -> None:
    try:
        tasks = all_tasks(loop)
        for task in tasks:
            task.cancel()
        if tasks:
            wait = asyncio.wait(tasks, timeout=(deadline_s - monotonic()) / 2)
            loop.run_until_complete(wait)
        if getattr(loop, "_asyncgens", None):
            loop.run_until_complete(loop.shutdown_asyncgens())
    except BaseException:
        return


def _end_threads(deadline_s: float) -> None:
    """Let executors and other threads finish; one that does not is left behind."""
    main = threading.main_thread()
    if all(thread.daemon or thread is main for thread in threading.enumerate()):
        return
    helper = threading.Thread(target=_join, args=(main,), daemon=True)
    helper.start()
    helper.join(max(0.0, (deadline_s - monotonic()) * 0.8))


def _join(main: threading.Thread) -> None:
    # Executors register here what wakes their idle workers; joining these would wait for ever.
    for call in reversed(list(getattr(threading, "_threading_atexits", ()))):
        call()
    for thread in threading.enumerate():
        if not thread.daemon and thread is not main:
            thread.join()
