"""The text that Node prints when it dies: part of the failure, not of the logs."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final, final

MAX_DUMP_CHARS: Final = 262_144

# How V8 and Node begin the text of a fatal error; it belongs to the failure, not to the logs.
_DUMP_START: Final = re.compile(
    r"<--- Last few GCs --->|FATAL ERROR: |#$|# Fatal error in |  #  |----- Native stack trace"
    r"|\S*node\S*: \S+: .*Assertion `.*' failed"
)


@final
class FatalTextFilter:
    """Keeps the text that Node prints when it dies out of the logs.

    The text is told from the program's own output only when the process is gone: lines from the
    first that looks like it are held until `finish`.
    """

    __slots__ = ("_admit", "_held", "_held_chars")

    def __init__(self, admit: Callable[[str], None]) -> None:
        self._admit = admit
        self._held: list[str] = []
        self._held_chars = 0

    def feed(self, line: str) -> None:
        """Take one line of stderr."""
        if not self._held:
            # The dump begins with an empty line, so an empty one waits for what follows.
            if line and not _DUMP_START.match(line):
                self._admit(line)
                return
        elif self._held == [""] and not _DUMP_START.match(line):
            self._held.clear()
            self._held_chars = 0
            self._admit("")
            self.feed(line)
            return
        if self._held_chars + len(line) <= MAX_DUMP_CHARS:
            self._held.append(line)
            self._held_chars += len(line) + 1
        else:
            self.finish(crashed=False)
            self._admit(line)

    def finish(self, *, crashed: bool) -> str | None:
        """Return the fatal text of a crashed process; otherwise the held lines were output."""
        held, self._held, self._held_chars = self._held, [], 0
        if crashed and held and held != [""]:
            return "\n".join(held)
        for line in held:
            self._admit(line)
        return None
