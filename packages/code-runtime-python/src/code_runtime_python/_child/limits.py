"""Kernel limits of a child: set before the program's text is read, checked again at its end.

Standard library only, CPython 3.10 or later.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import lru_cache
from os import _exit, getpid, kill
from resource import (
    RLIM_INFINITY,
    RLIMIT_AS,
    RLIMIT_CORE,
    RLIMIT_CPU,
    RUSAGE_CHILDREN,
    RUSAGE_SELF,
    getrlimit,
    getrusage,
    setrlimit,
)
from signal import SIG_DFL, SIG_UNBLOCK, SIGXCPU, pthread_sigmask
from time import sleep

from .wire import Boot

_OUTPUT_MULTIPLE = 12  # what a byte of budget may cost in address space while it is encoded
_INTERPRETER_BYTES = 64 * 1024 * 1024
_PR_SET_DUMPABLE = 4

_set_handler = signal.signal


def set_traceable(allowed: bool) -> None:
    """Let processes of the same user look into this one, or not.

    A spare waits while another program runs, which could otherwise rewrite it through ptrace or
    `/proc`. Once its own program runs it is as open as any process.
    """
    with suppress(ImportError, OSError, AttributeError):
        _prctl()(_PR_SET_DUMPABLE, int(allowed), 0, 0, 0)


@lru_cache(maxsize=1)
def _prctl() -> Callable[..., int]:
    """Find the function of the C library; that takes longer than its call."""
    import ctypes

    found: Callable[..., int] = ctypes.CDLL(None).prctl
    return found


class LimitError(Exception):
    """The limits that this process inherited leave no room for the configured ones."""


def apply_limits(boot: Boot) -> int:
    """Set the limits of a run; a stricter limit that was inherited stays.

    Returns:
        The effective soft limit of CPU time, in seconds.

    Raises:
        LimitError: a budget does not fit into the inherited address space.
        OSError: and ValueError, OverflowError, the kernel refuses a limit.
    """
    _set_handler(SIGXCPU, SIG_DFL)
    pthread_sigmask(SIG_UNBLOCK, {SIGXCPU})
    setrlimit(RLIMIT_CORE, (0, 0))
    seconds = boot["cpuSeconds"]
    soft, hard = _stricter(RLIMIT_CPU, seconds, seconds + 1)
    if soft == hard and soft > 1:
        soft -= 1  # SIGXCPU comes at the soft limit; at an equal hard one it would be SIGKILL
    setrlimit(RLIMIT_CPU, (soft, hard))
    if sys.platform != "darwin":
        space = boot["addressSpaceBytes"]
        soft_space, hard_space = _stricter(RLIMIT_AS, space, space)
        _check_budgets(boot, soft_space)
        setrlimit(RLIMIT_AS, (soft_space, hard_space))
    return soft


def _stricter(resource: int, soft: int, hard: int) -> tuple[int, int]:
    old_soft, old_hard = getrlimit(resource)
    if old_hard != RLIM_INFINITY:
        hard = min(hard, old_hard)
    if old_soft != RLIM_INFINITY:
        soft = min(soft, old_soft)
    return min(soft, hard), hard


def _check_budgets(boot: Boot, space: int) -> None:
    if space >= boot["addressSpaceBytes"]:
        return  # the host has checked the configured limit
    room = space - _INTERPRETER_BYTES
    budgets = {"maxLogBytes": boot["maxLogBytes"], "maxValueBytes": boot["maxValueBytes"]}
    for name, budget in budgets.items():
        if budget * _OUTPUT_MULTIPLE >= room:
            raise LimitError(
                f"Cannot start the program: {name} of {budget} bytes is too large for the "
                f"inherited address-space limit of {space} bytes"
            )


def check_cpu(soft_seconds: int) -> None:
    """End this process as the kernel would, if it has spent its CPU time after all.

    A program can ignore, trap or mask SIGXCPU and then return before the hard limit. Descendants
    that were waited for count too.
    """
    own, descendants = getrusage(RUSAGE_SELF), getrusage(RUSAGE_CHILDREN)
    spent = own.ru_utime + own.ru_stime + descendants.ru_utime + descendants.ru_stime
    if spent < soft_seconds:
        return
    _set_handler(SIGXCPU, SIG_DFL)
    pthread_sigmask(SIG_UNBLOCK, {SIGXCPU})
    kill(getpid(), SIGXCPU)
    sleep(1)
    _exit(1)
