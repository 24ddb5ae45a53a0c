"""`code-runtime run --report` and `python -m code_runtime.inspect`, as processes."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

SITE = Path(__file__).parent / "cli_site"
RUN = [str(Path(sys.executable).parent / "code-runtime"), "run", "-", "--provider", "tiny"]
INSPECT = [sys.executable, "-m", "code_runtime.inspect", "-", "--provider", "tiny"]
FAILING = 'log("before")\nx = 1\nraise KeyError("gone")\n'
TOOLS = """
from code_runtime import CodeBindingNamespace
bindings = CodeBindingNamespace("tools", {"double": lambda value: 2 * value})
"""


def run_cli(
    command: list[str], program: str, *options: str | Path, **env: str
) -> subprocess.CompletedProcess[str]:
    dropped = {"FORCE_COLOR", "NO_COLOR", "COLUMNS", "TERM"}
    kept = {name: value for name, value in os.environ.items() if name not in dropped}
    return subprocess.run(
        [*command, *options],
        input=program,
        env=kept | {"PYTHONPATH": str(SITE), "COLUMNS": "100"} | env,
        capture_output=True,
        encoding="utf-8",
        timeout=50,
        check=False,
    )


def test_report_is_written_beside_the_usual_output(tmp_path: Path) -> None:
    path = tmp_path / "out.html"
    done = run_cli(RUN, 'log("one")\nreturn 7', "--report", path)
    assert (done.stdout, done.returncode) == ("one\n7\n", 0)
    page = path.read_text(encoding="utf-8")
    assert page.startswith("<!doctype html>")
    assert "<code>return 7</code>" in page
    assert '<span class="what log">one</span>' in page
    assert "<h1>Run of a tiny program</h1>" in page


def test_report_of_a_failing_program_is_written_and_the_exit_code_stays_1(tmp_path: Path) -> None:
    path = tmp_path / "out.html"
    done = run_cli(RUN, FAILING, "--report", path)
    assert done.returncode == 1
    assert done.stderr.startswith("Failed (exception): KeyError: 'gone' (line 3)\n")
    assert '<li id="L3" class="fails"' in path.read_text(encoding="utf-8")


def test_report_replaces_what_the_file_held(tmp_path: Path) -> None:
    path = tmp_path / "out.html"
    path.write_text("x" * 100_000)
    assert run_cli(RUN, "return 1", "--report", path).returncode == 0
    page = path.read_text(encoding="utf-8")
    assert (page[:15], page[-8:]) == ("<!doctype html>", "</html>\n")
    assert os.listdir(tmp_path) == ["out.html"]


def test_report_goes_together_with_json(tmp_path: Path) -> None:
    path = tmp_path / "out.html"
    done = run_cli(RUN, 'log("\\ud800")\nreturn 1', "--json", "--report", path)
    assert json.loads(done.stdout)["value"] == 1
    assert "\\ud800</span>" in path.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("name", "reason"),
    [("missing/out.html", "No such file or directory"), (".", "Is a directory")],
)
def test_report_that_cannot_be_written_ends_the_command_before_the_run(
    tmp_path: Path, name: str, reason: str
) -> None:
    path = f"{tmp_path}/{name}"
    done = run_cli(RUN, 'log("ran")', "--report", path)
    assert done.stdout == ""
    assert done.stderr == (
        f"code-runtime: Cannot write report {path!r}: {reason}, "
        "expected a file that can be written\n"
    )
    assert done.returncode == 2


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="only Linux has a device that is full")
def test_report_that_does_not_fit_is_said_after_the_result() -> None:
    done = run_cli(RUN, "return 7", "--report", "/dev/full")
    assert done.stdout == "7\n"
    assert done.stderr.endswith(
        "code-runtime: Cannot write report '/dev/full': No space left on device, "
        "expected a file that can be written\n"
    )
    assert done.returncode == 2


def test_report_file_is_left_alone_when_nothing_has_run(tmp_path: Path) -> None:
    old, new = tmp_path / "old.html", tmp_path / "new.html"
    old.write_text("kept")
    for path in (old, new):
        done = run_cli(RUN, "return 1", "--compute-ms", "5", "--report", path)
        assert done.returncode == 2
    assert old.read_text() == "kept"
    assert not new.exists()


def test_inspect_shows_the_program_its_time_line_and_the_failure(tmp_path: Path) -> None:
    tools = tmp_path / "tools.py"
    tools.write_text(TOOLS)
    program = f"x = await tools.double(1)\n{FAILING}"
    done = run_cli(INSPECT, program, "--bindings", tools)
    lines = re.sub(r"[\d.]+ m?s\b", "T", done.stdout).splitlines()
    assert lines[:13] == [
        "Failed run of a tiny program: exception",
        "T, calls: 1, logs: 1",
        "",
        "Program  4 lines",
        "     1 | x = await tools.double(1)",
        '     2 | log("before")',
        "     3 | x = 1",
        '>    4 | raise KeyError("gone")',
        "       | ^ The program failed here",
        "",
        "Time line  0 to T",
        lines[11],
        lines[12],
    ]
    assert sorted(
        re.sub(" +[·█│]+ ", " ", line).split(maxsplit=1)[-1] for line in lines[11:13]
    ) == [
        "before",
        "ok tools.double T",
    ]
    assert lines[13:] == [
        "",
        "Failure  line 4 of the program",
        "KeyError: 'gone' (line 4)",
    ]
    assert (done.stderr, done.returncode) == ("", 1)


def test_inspect_ends_with_the_exit_code_of_run() -> None:
    assert run_cli(INSPECT, "return 1").returncode == 0
    missing = run_cli(INSPECT, "return 1", "--bindings", "missing.py")
    assert missing.stderr.startswith("code-runtime: Cannot load bindings from 'missing.py'")
    assert missing.returncode == 2


def test_inspect_takes_the_options_of_run() -> None:
    options = [
        sorted(set(re.findall(r"--[a-z-]+", run_cli([*command[:-2], "--help"], "").stdout)))
        for command in (RUN, INSPECT)
    ]
    assert options[0] == options[1]
    assert "--report" in options[0]


def test_inspect_writes_a_report_too(tmp_path: Path) -> None:
    path = tmp_path / "out.html"
    done = run_cli([*RUN, "--inspect"], "return 1", "--report", path)
    assert done.stdout.startswith("Run of a tiny program: completed\n")
    assert path.exists()


def test_inspect_shows_no_control_character_of_a_program_in_a_pipe() -> None:
    done = run_cli(INSPECT, 'log("\\x1b[2J\\x9b")\nreturn "\\x1b]0;x\\x07"')
    assert "\\x1b[2J\\x9b" in done.stdout
    assert "\x1b" not in done.stdout
    assert "\x9b" not in done.stdout
