"""The command line with TypeScript programs in real Node worker threads."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

COMMAND = Path(sys.executable).parent / "code-runtime"


def run_cli(
    *arguments: str | Path, stdin: str = "", cwd: Path | None = None
) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if name != "FORCE_COLOR"}
    return subprocess.run(
        [COMMAND, *arguments],
        input=stdin,
        cwd=cwd,
        env=environment | {"COLUMNS": "200"},
        capture_output=True,
        encoding="utf-8",
        timeout=50,
        check=False,
    )


def test_run_of_a_file_picks_typescript_by_its_suffix(tmp_path: Path) -> None:
    path = tmp_path / "program.ts"
    path.write_text("const n: number = 20;\nconsole.log('half', n / 2);\nreturn { n };\n")
    done = run_cli("run", path)
    assert (done.stdout, done.returncode) == ('half 10\n{"n": 20}\n', 0), done.stderr
    assert done.stderr.startswith("ok in ")


def test_run_of_stdin_is_typescript() -> None:
    done = run_cli("run", "-", stdin="return [1, null, 'é'] as unknown[]")
    assert (done.stdout, done.returncode) == ('[1, null, "é"]\n', 0), done.stderr


def test_run_shows_where_a_program_failed() -> None:
    program = "const a = 1;\nconst b = null as any;\nreturn b.missing;\n"
    done = run_cli("run", "-", stdin=program)
    first = done.stderr.splitlines()[0]
    assert first.startswith("Failed (exception): TypeError: Cannot read properties of null")
    assert "program.ts:3:10" in done.stderr
    assert "return b.missing;" in done.stderr
    assert done.returncode == 1


def test_run_passes_values_and_errors_of_bindings(tmp_path: Path) -> None:
    """SC-029, SC-032."""
    (tmp_path / "given.py").write_text(
        "from code_runtime import CodeBindingErrorClass, CodeBindingNamespace\n"
        "def fail(value):\n"
        "    raise LookupError('not here')\n"
        "bindings = CodeBindingNamespace(\n"
        "    'tools', {'same': lambda value: value, 'fail': fail},\n"
        "    CodeBindingErrorClass('ToolCallError', 'toolName'),\n"
        ")\n"
    )
    program = """
const same = await tools.same({ deep: [1.5, null, "x"] });
try {
  await tools.fail(null);
} catch (error) {
  return { same, name: error.toolName, known: error instanceof ToolCallError, text: error.message };
}
"""
    done = run_cli("run", "-", "--json", "-b", "given.py", stdin=program, cwd=tmp_path)
    document = json.loads(done.stdout)
    assert document["value"] == {
        "same": {"deep": [1.5, None, "x"]},
        "name": "fail",
        "known": True,
        "text": "not here",
    }
    assert [(call["member"], call["outcome"]) for call in document["calls"]] == [
        ("same", "ok"),
        ("fail", "error"),
    ]


def test_run_with_a_compute_limit_ends_a_hot_loop() -> None:
    program = "console.log('spinning'); for (;;) {}"
    done = run_cli("run", "-", "--compute-ms", "200", stdin=program)
    assert done.stdout == "spinning\n"
    assert done.stderr.startswith("Failed (timeout): ")
    assert done.returncode == 1


def test_run_with_an_output_limit_ends_a_flood() -> None:
    program = "for (;;) console.log('x'.repeat(100));"
    done = run_cli("run", "-", "--max-output-bytes", "2000", stdin=program)
    assert 0 < len(done.stdout) <= 2_000
    assert done.stderr.startswith("Failed (output-limit): ")
    assert done.returncode == 1


@pytest.mark.parametrize(
    ("option", "value", "field"),
    [
        ("--max-old-generation-size-mb", "1", "max_old_generation_size_mb"),
        ("--compute-ms", "-5", "compute_ms"),
        ("--max-output-bytes", "3", "max_output_bytes"),
    ],
)
def test_run_with_a_limit_out_of_range_exits_2_and_names_it(
    option: str, value: str, field: str
) -> None:
    """WT-002, WT-003, WT-008."""
    done = run_cli("run", "-", option, value, stdin="return 1")
    assert done.stderr.startswith("code-runtime: Cannot "), done.stderr
    assert f"{field} is {value}" in done.stderr
    assert done.returncode == 2


def test_run_of_a_hot_loop_is_aborted_by_one_interrupt() -> None:
    """SC-010."""
    process = subprocess.Popen(
        [COMMAND, "run", "-"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
    )
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write("console.log('spinning'); for (;;) {}")
    process.stdin.close()
    process.stdin = None
    assert process.stdout.readline() == "spinning\n"  # live: the program never ends by itself
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=20)
    assert errors.splitlines()[0] == "Failed (abort): interrupted by SIGINT"
    assert process.returncode == 1


def test_doctor_finds_node_and_runs_a_program() -> None:
    done = run_cli("doctor")
    lines = done.stdout.splitlines()
    start = lines.index("Provider worker-thread")
    section = [line.split(":")[0] for line in lines[start + 1 :] if line.startswith("  ")]
    assert section[0] == "  ok       Package"
    assert "  ok       Node" in section
    assert "  ok       Trial run" in section
    assert done.returncode == 0


def test_providers_lists_the_worker_thread_provider() -> None:
    done = run_cli("providers")
    rows = [[cell.strip() for cell in line.split("│")] for line in done.stdout.splitlines()]
    assert ["", "worker-thread", "typescript", "worker-thread"] in [row[:4] for row in rows]
    assert done.returncode == 0
