"""Runs a command with the system calls that a default container refuses.

    python tests/support/restricted.py COMMAND ARGUMENT…

The list is that of what container engines leave out by default. The filter needs no rights: it is
set together with `no_new_privs`. For x86-64 only.
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct
import sys
from typing import Final

PR_SET_NO_NEW_PRIVS: Final = 38
PR_SET_SECCOMP: Final = 22
MODE_FILTER: Final = 2
REFUSE: Final = 0x00050000
ALLOW: Final = 0x7FFF0000
LOAD, EQUALS, ANY_BIT, RETURN = 0x20, 0x15, 0x45, 0x06
CLONE: Final = 56
CLONE_NEW_ANYTHING: Final = 0x7E020000
# fmt: off
REFUSED: Final = {
    "ptrace": 101, "process_vm_readv": 310, "process_vm_writev": 311, "kcmp": 312,
    "pidfd_getfd": 438, "unshare": 272, "setns": 308, "mount": 165, "umount2": 166,
    "pivot_root": 155, "chroot": 161, "add_key": 248, "request_key": 249, "keyctl": 250,
    "bpf": 321, "perf_event_open": 298, "userfaultfd": 323, "io_uring_setup": 425,
    "io_uring_enter": 426, "io_uring_register": 427, "init_module": 175, "kexec_load": 246,
}
# fmt: on
CLONE3: Final = 435  # answered as unknown, so that the C library falls back to clone


class _Filter(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("program", ctypes.c_void_p))


def _step(code: int, value: int, then: int = 0, otherwise: int = 0) -> bytes:
    return struct.pack("HBBI", code, then, otherwise, value)


def restrict() -> None:
    """Refuse these calls from now on, for this process and what it starts."""
    steps = [_step(LOAD, 0)]
    for number in REFUSED.values():
        steps += [_step(EQUALS, number, 0, 1), _step(RETURN, REFUSE | errno.EPERM)]
    steps += [_step(EQUALS, CLONE3, 0, 1), _step(RETURN, REFUSE | errno.ENOSYS)]
    steps += [_step(EQUALS, CLONE, 0, 3), _step(LOAD, 16)]
    steps += [_step(ANY_BIT, CLONE_NEW_ANYTHING, 0, 1), _step(RETURN, REFUSE | errno.EPERM)]
    steps += [_step(RETURN, ALLOW)]
    code = ctypes.create_string_buffer(b"".join(steps))
    given = _Filter(len(steps), ctypes.addressof(code))
    library = ctypes.CDLL(None, use_errno=True)
    for arguments in (
        (PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0),
        (PR_SET_SECCOMP, MODE_FILTER, ctypes.byref(given)),
    ):
        if library.prctl(*arguments) != 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))


if __name__ == "__main__":
    restrict()
    os.execvp(sys.argv[1], sys.argv[1:])
