"""Make the pictures of `docs/images/`: what commands show on a terminal, as SVG.

    python scripts/screenshots.py

Each command runs on a terminal of its own (a pty), so colours and the running timer are real.
`tests/test_screenshots.py` holds the text of the pictures to what the commands print.
"""

from __future__ import annotations

import fcntl
import html
import os
import pty
import re
import select
import shutil
import struct
import subprocess
import sys
import tempfile
import termios
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.terminal_theme import MONOKAI
from rich.text import Text

ROOT: Final = Path(__file__).resolve().parent.parent
IMAGES: Final = ROOT / "docs" / "images"
FONTS: Final = "ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace"
TIMEOUT_S: Final = 60
CHARACTER_WIDTH: Final = 12.2  # of rich's pictures
_TEXT: Final = re.compile(r'<text [^>]*x="([\d.]+)"[^>]*line-(\d+)\)">(.*?)</text>')


@dataclass(frozen=True)
class Shot:
    """A command and the moment at which its terminal is pictured.

    Args:
        name: The name of the file, without suffix.
        command: What a reader types.
        title: What the picture shows, for those who do not see it.
        files: What the folder of the command holds beside `examples/`.
        moment: A pattern that the screen shows at that moment; None for the end of the command.
        columns: The width of the terminal. Narrow ones can be read on a phone.
    """

    name: str
    command: str
    title: str
    files: tuple[tuple[str, str], ...] = ()
    moment: str | None = None
    columns: int = 64


def _tutorial(name: str) -> tuple[str, str]:
    page = (ROOT / "docs/tutorial.md").read_text("utf-8")
    found = re.search(rf'^```\w+ title="{re.escape(name)}"\n(.*?)^```$', page, re.M | re.S)
    assert found is not None
    return name, found[1]


FAILING: Final = """const prices: number[] = [3, 4];
console.log("prices", prices);
return prices.total();
"""
SHOTS: Final = (
    Shot(
        "live-logs",
        "code-runtime run count.ts",
        "A terminal: two lines that the program has printed, and below them a running timer",
        files=(_tutorial("count.ts"),),
        moment=r"counting 2\n.* running [\d.]+ s, 2 logs",
    ),
    Shot(
        "failure",
        "code-runtime run failing.ts",
        "A terminal: a printed line, then the failure in red, with the line of the program marked",
        files=(("failing.ts", FAILING),),
    ),
    Shot(
        "calls",
        "code-runtime run --calls \\\n    --bindings examples/weather.py examples/recovery.ts",
        "A terminal: printed lines, the value, and a table of calls with times and outcomes",
        columns=80,
    ),
)


def capture(shot: Shot) -> str:
    """Run the command of a picture and return its screen, with colours as escape sequences."""
    with tempfile.TemporaryDirectory(prefix="screenshot-") as folder:
        for name, text in shot.files:
            (Path(folder) / name).write_text(text, "utf-8")
        (Path(folder) / "examples").symlink_to(ROOT / "examples")
        ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, shot.columns, 0, 0))
        process = subprocess.Popen(
            ["bash", "-c", f"exec {shot.command}"],
            cwd=folder,
            env=_environment(),
            stdin=subprocess.DEVNULL,
            stdout=theirs,
            stderr=theirs,
        )
        os.close(theirs)
        try:
            return _screen_of(ours, shot)
        finally:
            os.close(ours)
            process.terminate()
            process.wait()


def _environment() -> dict[str, str]:
    dropped = ("NO_COLOR", "FORCE_COLOR", "COLUMNS", "LINES")
    kept = {name: value for name, value in os.environ.items() if name not in dropped}
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    return {**kept, "PATH": path, "TERM": "xterm-256color", "LC_ALL": "C.UTF-8"}


def _screen_of(terminal: int, shot: Shot) -> str:
    data, deadline_s = b"", time.monotonic() + TIMEOUT_S
    while time.monotonic() < deadline_s:
        if not select.select([terminal], [], [], 1.0)[0]:
            continue
        try:
            chunk = os.read(terminal, 65_536)
        except OSError:  # how a terminal says that nobody writes to it any more
            chunk = b""
        data += chunk
        screen = _settled(data.decode("utf-8", "replace"))
        if shot.moment and re.search(shot.moment, Text.from_ansi(screen).plain):
            return screen
        if not chunk:
            break
    if shot.moment or not data:
        raise TimeoutError(
            f"Cannot picture {shot.command!r}: its screen never shows {shot.moment!r}"
        )
    return screen


def _settled(text: str) -> str:
    """Return what a terminal shows when lines were cleared and written anew."""
    return "\n".join(
        line.removesuffix("\r").rsplit("\r\x1b[K", 1)[-1] for line in text.split("\n")
    ).rstrip("\n")


def render(shot: Shot, screen: str) -> str:
    """Return the SVG of a screen."""
    with open(os.devnull, "w", encoding="utf-8") as nowhere:
        console = Console(
            record=True,
            width=shot.columns,
            file=nowhere,
            force_terminal=True,
            color_system="truecolor",
        )
        console.print(Text(f"$ {shot.command}", style="bold"), highlight=False)
        console.print(Text.from_ansi(screen), highlight=False)
        svg = console.export_svg(title="", theme=MONOKAI, unique_id=shot.name)
    # Nothing is loaded from the network, and the picture says what it shows.
    svg = re.sub(r"<!--.*?-->", "", svg)
    svg = re.sub(r"@font-face \{.*?\}", "", svg, flags=re.DOTALL).replace("Fira Code", "monospace")
    svg = re.sub(r"font-family: [^;]*;", f"font-family: {FONTS};", svg)
    svg = re.sub(
        r"<svg ([^>]*)>",
        rf'<svg role="img" \1>\n<title>{html.escape(shot.title)}</title>',
        svg,
        count=1,
    )
    return "\n".join(line.rstrip() for line in svg.splitlines() if line.strip()) + "\n"


def text_of(svg: str) -> str:
    """Return the text that a picture shows, line by line."""
    lines: dict[int, str] = {}
    for x, line, text in _TEXT.findall(svg):
        before = lines.get(int(line), "").ljust(round(float(x) / CHARACTER_WIDTH))
        lines[int(line)] = before + html.unescape(text)
    shown = (lines.get(number, "") for number in range(max(lines, default=-1) + 1))
    return "\n".join(line.replace("\xa0", " ").rstrip() for line in shown)


def normalised(text: str) -> str:
    """Return a text without what differs from one run to the next: times, and the timer's sign."""
    text = re.sub(r"[⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏]", "~", text)
    return re.sub(r" *\d+\.\d+(?= s\b| │)", " N", text)


def main() -> int:
    """Write every picture."""
    shutil.rmtree(IMAGES, ignore_errors=True)
    IMAGES.mkdir(parents=True)
    for shot in SHOTS:
        path = IMAGES / f"{shot.name}.svg"
        path.write_text(render(shot, capture(shot)), "utf-8")
        print(path.relative_to(ROOT))
    return 0


if __name__ == "__main__":
    sys.exit(main())
