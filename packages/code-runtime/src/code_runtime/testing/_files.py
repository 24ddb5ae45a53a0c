"""A file that a program lets grow, so that a rule sees whether the program still goes on."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import final

import anyio

from ._expect import expect, expect_same

# A program that goes on appends many times in this time, on a busy machine too.
_WATCH_S = 0.15


@final
class GrowingFile:
    """The file; a program appends to it for ever."""

    def __init__(self, path: str) -> None:
        self.path = path

    async def expect_rest(self, when: str) -> None:
        """Raise unless the file was written and grows no more."""
        size = self.size_bytes
        expect(size > 0, f"the size of the file {when}", size, "more than 0: the program ran")
        await anyio.sleep(_WATCH_S)
        expect_same(f"the growth of the file {when}", self.size_bytes - size, 0)

    @property
    def size_bytes(self) -> int:
        """The size of the file, 0 when it is not there."""
        try:
            return os.stat(self.path).st_size
        except FileNotFoundError:
            return 0


@contextmanager
def growing_file() -> Iterator[GrowingFile]:
    """Make a path for a file, and delete it afterwards."""
    folder = tempfile.mkdtemp(prefix="conformance-")
    try:
        yield GrowingFile(os.path.join(folder, "file"))
    finally:
        shutil.rmtree(folder, ignore_errors=True)
