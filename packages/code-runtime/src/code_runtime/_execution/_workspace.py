"""Private working directories: one for each run, empty at its start, gone at its end."""

from __future__ import annotations

import os
import tempfile
from typing import final

import anyio
import anyio.to_thread

from code_runtime._guard_proc import remove_tree


@final
class RunDirectories:
    """Owns one folder in the system's temporary folder and a directory in it for each run.

    Mode 0700 throughout. `path` is the folder; a guard removes it when the host dies.
    """

    __slots__ = ("_next", "path")

    def __init__(self) -> None:
        self.path = tempfile.mkdtemp(prefix=f"code-runtime-{os.getpid()}-")
        self._next = 0

    def create(self) -> str:
        """Make the directory of a run.

        Raises:
            OSError: the temporary folder is full or gone.
        """
        self._next += 1
        directory = os.path.join(self.path, f"run-{self._next}")
        try:
            os.mkdir(directory, 0o700)
        except FileNotFoundError:
            # A program has deleted the folder, which it may, having the rights of the user.
            os.mkdir(self.path, 0o700)
            os.mkdir(directory, 0o700)
        return directory

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
            await anyio.to_thread.run_sync(remove_tree, self.path)
