"""The command line with Python programs in real CPython processes."""

from __future__ import annotations

import json
import os
import platform
import signal
import subprocess
import sys
from pathlib import Path

import pytest

COMMAND = Path(sys.executable).parent / "code-runtime"


def run_cli(*arguments: str | Path, stdin: str = "") -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if name != "FORCE_COLOR"}
    return subprocess.run(
        [COMMAND, *arguments],
        input=stdin,
        env=environment | {"COLUMNS": "200"},
        capture_output=True,
        encoding="utf-8",
        timeout=50,
        check=False,
    )


def run_python(program: str, *options: str) -> subprocess.CompletedProcess[str]:
    return run_cli("run", "-", "--language", "python", *options, stdin=program)


def test_run_of_a_file_picks_python_by_its_suffix(tmp_path: Path) -> None:
    path = tmp_path / "program.py"
    path.write_text("n = 20\nprint('half', n // 2)\nreturn {'n': n}\n")
    done = run_cli("run", path)
    assert (done.stdout, done.returncode) == ('half 10\n{"n": 20}\n', 0), done.stderr
    assert done.stderr.startswith("ok in ")


def test_run_of_stdin_is_python_when_it_says_so() -> None:
    done = run_python("return [1, None, 'é']")
    assert (done.stdout, done.returncode) == ('[1, null, "é"]\n', 0), done.stderr


def test_run_shows_where_a_program_failed() -> None:
    done = run_python("a = 1\ndef f():\n    return a.b\nf()\n")
    shown = done.stderr.splitlines()[:-1]
    assert [line for line in shown if set(line) - {" ", "^", "~"}] == [
        "Failed (exception): Traceback (most recent call last):",
        '  File "program.py", line 4, in <module>',
        "    f()",
        '  File "program.py", line 3, in f',
        "    return a.b",
        "AttributeError: 'int' object has no attribute 'b'",
    ]
    assert done.returncode == 1


def test_run_tells_none_from_nothing() -> None:
    assert run_python("return None").stdout == "null\n"
    nothing = run_python("None")
    assert nothing.stdout == ""
    assert nothing.stderr.endswith(" s, no value\n")


def test_run_with_a_cpu_limit_ends_a_hot_loop() -> None:
    done = run_python("print('spinning', flush=True)\nwhile True: pass", "--cpu-seconds", "1")
    assert done.stdout == "spinning\n"
    assert done.stderr.splitlines()[0] == (
        "Failed (timeout): CPU limit reached: at most 1 s of processor time (cpu_seconds)"
    )
    assert done.returncode == 1


def test_run_with_a_value_limit_refuses_a_larger_value() -> None:
    done = run_python("print('before')\nreturn 'x' * 1000", "--max-value-bytes", "100")
    assert done.stdout == "before\n"
    assert done.stderr.splitlines()[0] == (
        "Failed (output-limit): The value is larger than 100 bytes"
    )
    assert done.returncode == 1


def test_run_with_a_log_limit_drops_logs_and_keeps_the_value() -> None:
    program = "for n in range(1000): print('line', n)\nreturn 'kept'"
    done = run_python(program, "--max-log-bytes", "64")
    lines = done.stdout.splitlines()
    assert lines[0] == "line 0"
    assert lines[-2:] == ["[code-runtime] logs truncated at 64 bytes", '"kept"']
    assert done.stderr.endswith(" s, further logs were dropped\n")
    assert done.returncode == 0
    document = json.loads(run_python(program, "--max-log-bytes", "64", "--json").stdout)
    assert document["logs_truncated"] is True


@pytest.mark.parametrize(
    ("option", "value", "field"),
    [
        ("--cpu-seconds", "1.5", "cpu_seconds"),
        ("--max-log-bytes", "63", "max_log_bytes"),
        ("--max-value-bytes", "none", "max_value_bytes"),
        ("--memory-mb", "-1", "memory_mb"),
    ],
)
def test_run_with_a_limit_out_of_range_exits_2_and_names_it(
    option: str, value: str, field: str
) -> None:
    """PY-002, PY-003, PY-008."""
    done = run_python("return 1", option, value)
    assert done.stderr.startswith("code-runtime: Cannot configure PythonCodeRuntime: "), done.stderr
    assert f"{field} is {'None' if value == 'none' else value}" in done.stderr
    assert done.returncode == 2


def test_limit_of_the_other_language_exits_2_and_lists_what_there_is() -> None:
    done = run_python("return 1", "--compute-ms", "100")
    assert done.stderr.startswith(
        "code-runtime: Cannot configure PythonCodeRuntime: config is 'compute_ms' (str), "
        "expected one of the fields "
    )
    assert done.returncode == 2


def test_run_of_a_hot_loop_is_aborted_by_one_interrupt() -> None:
    """SC-010."""
    process = subprocess.Popen(
        [COMMAND, "run", "-", "--language", "python"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
    )
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write("print('spinning', flush=True)\nwhile True: pass\n")
    process.stdin.close()
    process.stdin = None
    assert process.stdout.readline() == "spinning\n"  # live: the program never ends by itself
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=20)
    assert errors.splitlines()[0] == "Failed (abort): interrupted by SIGINT"
    assert process.returncode == 1


def test_doctor_reports_the_interpreter_and_runs_a_program() -> None:
    done = run_cli("doctor")
    lines = done.stdout.splitlines()
    start = lines.index("Provider python")
    section = lines[start + 1 : start + 4]
    assert section[0] == "  ok       Package: code-runtime-python 0.1.0"
    assert section[1] == (
        f"  ok       Interpreter: CPython {platform.python_version()} ({sys.executable})"
    )
    assert section[2].startswith("  ok       Trial run: ")
    assert done.returncode == 0


def test_providers_lists_the_python_provider() -> None:
    done = run_cli("providers")
    rows = [[cell.strip() for cell in line.split("│")] for line in done.stdout.splitlines()]
    assert ["", "python", "python", "process"] in [row[:4] for row in rows]
    assert done.returncode == 0
