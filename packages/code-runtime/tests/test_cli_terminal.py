"""What `code-runtime run` does on a terminal: a pseudo-terminal stands in for one."""

from __future__ import annotations

import os
import pty
import re
import signal
import subprocess
import sys
from pathlib import Path

SITE = Path(__file__).parent / "cli_site"
COMMAND = Path(sys.executable).parent / "code-runtime"


class Terminal:
    """A command whose output and error are one terminal."""

    def __init__(self, program: str) -> None:
        self.master, slave = pty.openpty()
        environment = os.environ | {"PYTHONPATH": str(SITE), "TERM": "xterm", "NO_COLOR": "1"}
        self.process = subprocess.Popen(
            [COMMAND, "run", "-", "--provider", "tiny"],
            stdin=subprocess.PIPE,
            stdout=slave,
            stderr=slave,
            env=environment,
        )
        os.close(slave)
        assert self.process.stdin is not None
        self.process.stdin.write(program.encode())
        self.process.stdin.close()
        self.seen = ""

    def read_until(self, pattern: str) -> None:
        while not re.search(pattern, self.seen):
            self.seen += os.read(self.master, 65_536).decode()

    def read_all(self) -> str:
        try:
            while chunk := os.read(self.master, 65_536):
                self.seen += chunk.decode()
        except OSError:  # how Linux says that the other side of a terminal is closed
            pass
        os.close(self.master)
        self.process.wait(20)
        return self.seen


def test_terminal_never_receives_control_sequences_of_a_program() -> None:
    program = 'log("\\x1b]0;owned\\x07 \\x9b31m \\r \\u202e")\nreturn "\\x7f\\x9b2J"\n'
    shown = Terminal(program).read_all()
    assert "\\x1b]0;owned\\x07 \\x9b31m \\x0d \\u202e\r\n" in shown
    assert '"\\x7f\\x9b2J"\r\n' in shown
    # What is left is ours: the erased line of the timer, and the style of the closing line.
    assert set(re.findall(r"\x1b[^a-zA-Z]*[a-zA-Z]?", shown)) == {"\x1b[K", "\x1b[2m", "\x1b[0m"}


def test_terminal_shows_a_timer_while_the_program_runs_and_erases_it() -> None:
    terminal = Terminal('import anyio\nlog("hello")\nawait anyio.sleep_forever()\n')
    terminal.read_until(r"running 0\.[1-9] s, 1 log\b")
    terminal.process.send_signal(signal.SIGINT)
    shown = terminal.read_all()
    assert "\r\x1b[Khello\r\n" in shown
    last = shown.rindex("running")
    assert "\r\x1b[K" in shown[last:]
    plain = re.sub(r"\x1b\[[0-9]m", "", shown[last:])
    assert "Failed (abort): interrupted by SIGINT\r\n" in plain
    assert terminal.process.returncode == 1
