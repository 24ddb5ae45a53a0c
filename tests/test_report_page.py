"""The page `docs/how-to/look-at-a-run.md` shows what the command prints, but for times and bars."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from page_blocks import blocks_of

PAGE = Path(__file__).parents[1] / "docs" / "how-to" / "look-at-a-run.md"


def without_times(text: str) -> list[str]:
    """Take out what differs between two runs: times, bars, and where a row is cut."""
    text = re.sub(r"[\d.]+ m?s\b", "T", text)
    text = re.sub(r"[·█│]{5,}", "BAR", text)
    text = re.sub(r'(\{"item":"lamp","c).*…', r"\1…", text)
    return [re.sub(r"^ +T", "T", line) for line in text.splitlines()]


def test_page_shows_what_inspect_prints(tmp_path: Path) -> None:
    [block] = [block for block in blocks_of(PAGE) if "code_runtime.inspect" in block.text]
    command, _, shown = block.text.partition("\n")
    for name, text in block.files.items():
        (tmp_path / name).write_text(text, "utf-8")
    tools = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    done = subprocess.run(
        ["bash", "-c", command.removeprefix("$ ")],
        cwd=tmp_path,
        env={**os.environ, "PATH": tools, "NO_COLOR": "1", "TERM": "dumb"},
        capture_output=True,
        encoding="utf-8",
        timeout=50,
        check=False,
    )
    assert (done.stderr, done.returncode) == ("", 1)
    assert without_times(done.stdout) == without_times(shown)
