"""Private working directories: one for each run, empty at its start, gone at its end."""

from __future__ import annotations

import os
import stat
import tempfile
from contextlib import suppress
from typing import final

import anyio
import anyio.to_thread

from code_runtime._guard_proc import remove_tree


@final
class RunDirectories:
    """Owns one folder in the system's temporary folder and a directory in it for each run.

    Mode 0700 throughout. `path` is the folder; a guard removes it when the host dies.
    """

    __slots__ = ("_identity", "_next", "_paths", "path")

    def __init__(self) -> None:
        self._paths: list[str] = []
        self._next = 0
        self._open_folder()

    def create(self) -> str:
        """Make the directory of a run.

        Raises:
            OSError: the temporary folder is full or gone.
        """
        self._next += 1
        if _identity_of(self.path) != self._identity:
            # A program has removed or replaced the folder, which it may, having the rights of the
            # user. What is there now is not to be trusted.
            self._open_folder()
        directory = os.path.join(self.path, f"run-{self._next}")
        os.mkdir(directory, 0o700)
        return directory

    def _open_folder(self) -> None:
        self.path = tempfile.mkdtemp(prefix=f"code-runtime-{os.getpid()}-")
        self._identity = _identity_of(self.path)
        self._paths.append(self.path)

    async def remove(self, directory: str) -> None:
        """Remove the directory of a run with all that the program left in it.

        What cannot be removed is left to `aclose`; a run never fails for it.
        """
        try:
            os.rmdir(directory)
        except FileNotFoundError:
            return
        except OSError:
            # A program may have left a million files: never on the event loop.
            await anyio.to_thread.run_sync(remove_tree, directory)

    async def aclose(self) -> None:
        """Remove the folder."""
        with anyio.CancelScope(shield=True):
            for path in self._paths:
                await anyio.to_thread.run_sync(_remove, path)


def _identity_of(path: str) -> tuple[int, int, int] | None:
    try:
        status = os.lstat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino, stat.S_IFMT(status.st_mode)


def _remove(path: str) -> None:
    if os.path.isdir(path) and not os.path.islink(path):
        remove_tree(path)
    else:
        with suppress(OSError):
            os.unlink(path)
