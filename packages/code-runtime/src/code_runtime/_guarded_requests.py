"""Word what the host asks of a warden and of a guard (see `_guard_warden`, `_guard_program`)."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

_MAX_REQUEST_BYTES = 0xFF_FFFF  # so that a request begins with a zero byte


@dataclass(frozen=True, slots=True)
class Zygote:
    """Say what a warden imports once, so that programs can be forked from it (`Warden.fork`).

    Args:
        folder: The folder of a package. It is imported under the first name of `entry`, without
            a place on `sys.path`, so the name can be one that no program uses.
        entry: `module:function`, with the package's name first, such as `_child.main:serve`. Each
            program calls the function with one argument, the number of the control descriptor, and
            ends like a script when it returns. `module:function()` calls the function once, before
            the modules to preload are imported: what it returns is the entry, and the modules of
            the package are taken out of `sys.modules`.
        preload: Modules to import before the first fork, installed packages included.
    """

    folder: str
    entry: str
    preload: tuple[str, ...] = ()

    def arguments(self) -> list[str]:
        """Word the arguments of the warden process.

        Raises:
            ValueError: a field has the wrong shape.
        """
        if not os.path.isabs(self.folder):
            raise ValueError(
                f"Cannot start a zygote: folder is {self.folder!r}, expected an absolute path"
            )
        module, _, function = self.entry.partition(":")
        if not (is_module(module) and function.removesuffix("()").isidentifier()):
            raise ValueError(
                f"Cannot start a zygote: entry is {self.entry!r}, expected 'module:function' or"
                " 'module:function()'"
            )
        for name in self.preload:
            if not is_module(name):
                raise ValueError(
                    f"Cannot start a zygote: preload holds {name!r}, expected names of modules"
                )
        return [self.folder, self.entry, *self.preload]


def is_module(name: str) -> bool:
    """Tell whether a text can be the dotted name of a module."""
    return all(part.isidentifier() for part in name.split("."))


def spawn_fields(
    argv: Sequence[str],
    env: Mapping[str, str],
    cwd: str,
    rlimits: Mapping[int, tuple[int, int]] | None,
) -> list[bytes]:
    """Word the request to execute a program.

    Raises:
        ValueError: it cannot be sent.
    """
    if not argv or not os.path.isabs(argv[0]):
        raise ValueError(
            f"Cannot start a program: argv is {list(argv)!r}, expected an absolute path first"
        )
    return _fields(b"spawn", argv, env, cwd, rlimits)


def fork_fields(
    env: Mapping[str, str], cwd: str, rlimits: Mapping[int, tuple[int, int]] | None
) -> list[bytes]:
    """Word the request to fork a program from the zygote.

    Raises:
        ValueError: it cannot be sent.
    """
    return _fields(b"fork", [], env, cwd, rlimits)


def _fields(
    kind: bytes,
    argv: Sequence[str],
    env: Mapping[str, str],
    cwd: str,
    rlimits: Mapping[int, tuple[int, int]] | None,
) -> list[bytes]:
    limits = " ".join(f"{key} {soft} {hard}" for key, (soft, hard) in (rlimits or {}).items())
    texts = [*argv, *(f"{key}={value}" for key, value in env.items())]
    if any("\0" in text for text in (cwd, *texts)):
        raise ValueError(
            "Cannot start a program: a NUL character in argv, env or cwd, expected none"
        )
    wrong = [key for key in env if not key or "=" in key]
    if wrong:
        raise ValueError(
            f"Cannot start a program: env holds the name {wrong[0]!r}, expected one that is not"
            " empty and without '='"
        )
    head = [kind, os.fsencode(cwd), limits.encode(), b"%d" % len(argv)]
    return [*head, *map(os.fsencode, texts)]


def pack(fields: Sequence[bytes]) -> bytes:
    """Join fields to a request: a length in 4 bytes, then the fields with NUL between them.

    Raises:
        ValueError: they are too long for what a system executes.
    """
    body = b"\0".join(fields)
    if len(body) > _MAX_REQUEST_BYTES:
        raise ValueError(
            f"Cannot start a program: argv and env have {len(body)} bytes,"
            f" expected at most {_MAX_REQUEST_BYTES}"
        )
    return len(body).to_bytes(4, "big") + body


def private_pipes(descriptors: Sequence[int]) -> frozenset[tuple[int, int]]:
    """Name the pipes that only the program writes to, by device and inode."""
    pipes = set()
    for fd in descriptors:
        info = os.fstat(fd)
        if stat.S_ISFIFO(info.st_mode):
            pipes.add((info.st_dev, info.st_ino))
    for fd in (0, 1, 2):
        # The host's own output may go to a pipe that its parents write to.
        try:
            info = os.fstat(fd)
        except OSError:
            continue
        pipes.discard((info.st_dev, info.st_ino))
    return frozenset(pipes)
