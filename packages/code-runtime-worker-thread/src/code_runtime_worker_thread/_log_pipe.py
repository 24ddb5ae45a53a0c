"""The pipe of a worker's LOG frames, which has a name until the worker has opened it."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable
from contextlib import suppress
from typing import final

from code_runtime._execution._log_pipe import LogPipe

from ._frames import FrameReader, Message, ProtocolError


@final
class NamedLogPipe(LogPipe[Message]):
    """A log pipe that a worker opens by its name.

    Args:
        folder: Where its name stands until `hide`; mode 0700.
        reader: Cuts what arrives into messages.
        handle: Called with each message.
        refuse: Told what is wrong with what arrives; then no more is read.

    Raises:
        OSError: the folder takes no named pipe, or no descriptor is free.
    """

    def __init__(
        self,
        folder: str,
        reader: FrameReader,
        handle: Callable[[Message], None],
        refuse: Callable[[str], None],
    ) -> None:
        self.path = os.path.join(folder, secrets.token_hex(6))
        self._has_name = True
        os.mkfifo(self.path, 0o600)
        try:
            fd = os.open(self.path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError:
            self.hide()
            raise
        super().__init__(fd, reader.feed, handle, refuse, ProtocolError)

    def hide(self) -> None:
        """Take the name away: the worker has opened the pipe, and no one else shall by its name.

        Once only: what has the name later is a program's, and so may be anything that has it now.
        """
        if self._has_name:
            self._has_name = False
            with suppress(OSError):
                os.unlink(self.path)

    def close(self) -> None:
        """Close the pipe; nothing may be reading from it."""
        self.hide()
        super().close()
