"""The page on writing a provider: its code runs, and prints what the page shows."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

PAGE = (Path(__file__).parents[2] / "docs/how-to/write-a-provider.md").read_text("utf-8")
PROVIDER, SCRIPT, SUITE = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)


def run(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-W", "error", *arguments],
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        cwd=cwd,
    )


def test_provider_of_the_page_keeps_the_rules(tmp_path: Path) -> None:
    done = run("-c", PROVIDER + SCRIPT, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert f"\n```\n{done.stdout}```\n" in PAGE, done.stdout


def test_broken_rule_says_what_the_page_shows(tmp_path: Path) -> None:
    forgetful = PROVIDER.replace("self.request.on_log(value)", "pass")
    one_rule = "[rule for rule in RULES if rule.name.startswith('logs_arrive_while')]"
    script = SCRIPT.replace("(subject())\n", f"(subject(), {one_rule})\n", 1)
    assert (forgetful != PROVIDER, script != SCRIPT) == (True, True)
    done = run("-c", forgetful + script, cwd=tmp_path)
    shown = re.findall(r"^AssertionError: (.*)$", PAGE, re.MULTILINE)
    assert shown == [line.split(" ", 1)[1] for line in done.stdout.splitlines() if " " in line]


def test_suite_of_the_page_runs_with_pytest(tmp_path: Path) -> None:
    script = SCRIPT.replace("anyio.run(main)", "")
    Path(tmp_path, "test_lines.py").write_text(PROVIDER + script + SUITE)
    some = "null_is_a_value or an_abort"
    done = run(
        "-m", "pytest", "-q", "-p", "no:cacheprovider", "-k", some, "test_lines.py", cwd=tmp_path
    )
    assert done.returncode == 0, done.stdout
    assert re.search(r"\d+ passed, \d+ skipped", done.stdout), done.stdout
