"""The command `code-runtime run`, as a process, with a small provider that needs no Node."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Sequence

SITE = Path(__file__).parent / "cli_site"
COMMAND = Path(sys.executable).parent / "code-runtime"
TOOLS = """
from code_runtime import CodeBindingNamespace

async def double(value):
    return 2 * value

def fail(value):
    raise ValueError("no such thing")

bindings = CodeBindingNamespace("tools", {"double": double, "fail": fail})
many = [bindings, CodeBindingNamespace("more", {"double": double})]
"""


def command_env(**extra: str) -> dict[str, str]:
    dropped = {"FORCE_COLOR", "NO_COLOR", "COLUMNS", "TERM"}
    kept = {name: value for name, value in os.environ.items() if name not in dropped}
    return kept | {"PYTHONPATH": str(SITE), "COLUMNS": "100"} | extra


def run_cli(
    *arguments: str, stdin: str = "", cwd: Path | None = None, env: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [COMMAND, *arguments],
        input=stdin,
        cwd=cwd,
        env=command_env(**(env or {})),
        capture_output=True,
        encoding="utf-8",
        timeout=50,
        check=False,
    )


def run_tiny(program: str, *arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
    return run_cli("run", "-", "--provider", "tiny", *arguments, stdin=program, env=env)


@pytest.fixture
def tools(tmp_path: Path) -> Path:
    path = tmp_path / "tools.py"
    path.write_text(TOOLS)
    return path


def test_run_shows_logs_then_value() -> None:
    done = run_tiny('log("one")\nlog("two")\nreturn {"a": [1, 2], "b": None}')
    assert done.stdout == 'one\ntwo\n{"a": [1, 2], "b": null}\n'
    assert done.returncode == 0


def test_run_without_value_says_so() -> None:
    done = run_tiny("return nothing")
    assert done.stdout == ""
    assert done.stderr.startswith("ok in ")
    assert done.stderr.endswith(" s, no value\n")
    assert done.returncode == 0


def test_run_tells_null_from_no_value() -> None:
    """SC-037."""
    assert run_tiny("return None").stdout == "null\n"


def test_run_of_failing_program_shows_its_line_and_exits_1() -> None:
    done = run_tiny('log("before")\nx = 1\nraise KeyError("gone")\n')
    assert done.stdout == "before\n"
    failure, *frame, closing = done.stderr.splitlines()
    assert failure == "Failed (exception): KeyError: 'gone' (line 3)"
    assert frame == [
        '     1 | log("before")',
        "     2 | x = 1",
        '>    3 | raise KeyError("gone")',
    ]
    assert closing.startswith("failed in ")
    assert done.returncode == 1


def test_run_reads_a_file_and_its_language_option(tmp_path: Path) -> None:
    path = tmp_path / "program.txt"
    path.write_text("return 7")
    done = run_cli("run", str(path), "--language", "tiny")
    assert (done.stdout, done.returncode) == ("7\n", 0)


def test_run_takes_a_limit_as_provider_config() -> None:
    done = run_tiny("import anyio; await anyio.sleep(30)", "--max-wall-ms", "50")
    assert done.stderr.splitlines()[0] == "Failed (timeout): the wall-clock budget is spent"
    assert done.returncode == 1


def test_run_takes_none_as_no_limit() -> None:
    assert run_tiny("return 1", "--max-wall-ms", "none").stdout == "1\n"


def test_run_shows_markup_and_emoji_codes_of_a_program_as_they_are() -> None:
    done = run_tiny('log("[bold]x[/bold] :smile: [/]")\nreturn "[red]y"', FORCE_COLOR="1")
    assert done.stdout.splitlines()[0] == "[bold]x[/bold] :smile: [/]"
    assert "[red]y" in done.stdout


def test_run_spells_out_lone_surrogates() -> None:
    done = run_tiny('log("a\\ud800b")\nreturn "c\\udfff"')
    assert done.stdout == 'a\\ud800b\n"c\\udfff"\n'


def test_run_in_an_ascii_locale_ends_well() -> None:
    done = run_tiny('log("é")\nreturn "ü"', PYTHONIOENCODING="ascii", PYTHONUTF8="0")
    assert done.stdout == '\\xe9\n"\\xfc"\n'
    assert done.returncode == 0


def test_run_shows_a_value_deeper_than_python_can_recurse() -> None:
    program = "v = []\nfor _ in range(200_000):\n  v = [v]\nreturn v"
    done = run_tiny(program)
    assert done.returncode == 0
    assert "".join(done.stdout.split()) == "[" * 200_001 + "]" * 200_001


def test_run_json_is_one_document_and_nothing_else(tools: Path) -> None:
    program = 'log("x")\nawait tools.double(2)\nreturn await more.double("é\\ud800")'
    done = run_tiny(program, "--json", "--bindings", f"{tools}:many")
    document = json.loads(done.stdout)
    for call in document["calls"]:
        assert call.pop("started_ms") >= 0
        assert call.pop("duration_ms") >= 0
    assert document.pop("elapsed_ms") > 0
    assert document == {
        "ok": True,
        "logs": ["x"],
        "has_value": True,
        "value": "é\ud800é\ud800",
        "error": None,
        "logs_truncated": False,
        "calls": [
            {"namespace": "tools", "member": "double", "outcome": "ok"},
            {"namespace": "more", "member": "double", "outcome": "ok"},
        ],
        "calls_dropped": 0,
    }
    assert done.stdout.count("\n") == 1
    assert done.stderr == ""
    assert done.returncode == 0


def test_run_json_of_failing_program_exits_1() -> None:
    done = run_tiny("raise ValueError('no')", "--json")
    document = json.loads(done.stdout)
    assert document["ok"] is False
    assert document["error"] == {"kind": "exception", "message": "ValueError: no (line 1)"}
    assert done.returncode == 1


def test_run_json_keeps_prints_of_bindings_out_of_the_document(tmp_path: Path) -> None:
    noisy = tmp_path / "noisy.py"
    noisy.write_text(TOOLS + 'print("loaded")\nimport os\nos.system("echo from a child")\n')
    done = run_tiny("return 1", "--json", "--bindings", str(noisy))
    assert json.loads(done.stdout)["value"] == 1
    assert sorted(done.stderr.split("\n")) == ["", "from a child", "loaded"]


def test_run_calls_shows_the_journal(tools: Path) -> None:
    program = """
await tools.double(1)
try:
  await tools.fail(1)
except ValueError:
  return nothing
"""
    done = run_tiny(program, "--calls", "--bindings", str(tools))
    rows = [line.split("│") for line in done.stdout.splitlines() if "tools." in line]
    assert [(row[2].strip(), row[5].strip()) for row in rows] == [
        ("tools.double", "ok"),
        ("tools.fail", "error"),
    ]
    assert done.stderr.rstrip().endswith("2 calls, no value")


MISUSE = [
    pytest.param(
        ["run", "missing.ts", "--provider", "tiny"],
        "Cannot read program 'missing.ts': No such file or directory, "
        "expected a file of UTF-8 text",
        id="no-file",
    ),
    pytest.param(
        ["run", "program.txt"],
        "Cannot tell the language of 'program.txt': its suffix is '.txt', "
        "expected one of .ts, .mts, .js, .mjs, .py, or --language",
        id="suffix",
    ),
    pytest.param(
        ["run", "-", "--provider", "tiny", "--compute-ms", "5"],
        "Cannot configure TinyCodeRuntime: compute_ms is given, "
        "expected the field max_wall_ms only",
        id="config",
    ),
    pytest.param(
        ["run", "-", "--provider", "tiny", "--bindings", "nowhere.py"],
        "Cannot load bindings from 'nowhere.py': no such file, expected a Python file",
        id="no-bindings-file",
    ),
    pytest.param(
        ["run", "-", "--provider", "tiny", "--bindings", "no_such_module"],
        "Cannot load bindings from 'no_such_module': there is no module 'no_such_module', "
        "expected an importable module or the path of a .py file",
        id="no-bindings-module",
    ),
    pytest.param(
        ["run", "-", "--provider", "tiny", "--bindings", "tools.py:x-y"],
        "Cannot load bindings from 'tools.py:x-y': 'x-y' after the colon is not a Python name, "
        "expected FILE_OR_MODULE or FILE_OR_MODULE:NAME",
        id="bindings-name",
    ),
    pytest.param(
        ["run", "-", "--provider", "tiny", "--bindings", "tools.py:other"],
        "Cannot load bindings from 'tools.py': it has no name 'other', "
        "expected a CodeBindingNamespace, a list of them, or a factory or context manager of those "
        "under that name or under one given as tools.py:NAME (there: bindings, many)",
        id="no-bindings-name",
    ),
    pytest.param(
        ["run", "-", "--provider", "tiny", "--bindings", "tools.py:TEXT"],
        "Cannot load bindings from 'tools.py:TEXT': it gives 'text' (str), expected "
        "a CodeBindingNamespace, a list of them, or a factory or context manager of those",
        id="bindings-type",
    ),
]


@pytest.mark.parametrize(("arguments", "message"), MISUSE)
def test_run_misuse_exits_2_and_says_what_to_do(
    tmp_path: Path, arguments: list[str], message: str
) -> None:
    (tmp_path / "tools.py").write_text(TOOLS + 'TEXT = "text"\n')
    done = run_cli(*arguments, cwd=tmp_path)
    assert done.stderr == f"code-runtime: {message}\n"
    assert done.stdout == ""
    assert done.returncode == 2


def test_run_without_a_provider_for_the_language_names_the_installed_ones() -> None:
    done = run_cli("run", "-", "--language", "cobol")
    start = "code-runtime: Cannot run a program in 'cobol': no installed provider runs it"
    assert done.stderr.startswith(start + " (installed: broken, ")
    assert done.stderr.endswith("), expected a provider for it\n")
    assert done.returncode == 2


def test_run_with_an_unknown_provider_lists_the_installed_ones() -> None:
    done = run_cli("run", "-", "--provider", "nothing")
    start = "code-runtime: Cannot use provider 'nothing': it is not installed, expected one of "
    assert done.stderr.startswith(start)
    assert "tiny" in done.stderr
    assert done.returncode == 2


def test_run_with_a_limit_that_is_no_number_exits_2() -> None:
    done = run_cli("run", "-", "--max-wall-ms", "soon")
    assert "'soon' is not a number or none" in done.stderr
    assert done.returncode == 2


def test_run_with_a_broken_bindings_file_shows_its_traceback(tmp_path: Path) -> None:
    broken = tmp_path / "broken.py"
    broken.write_text("import no_such_module_at_all\n")
    done = run_tiny("return 1", "--bindings", str(broken))
    assert f'File "{broken}", line 1' in done.stderr
    assert done.stderr.splitlines()[-1].strip("| ").startswith("ModuleNotFoundError: ")
    assert done.returncode == 2


def test_run_with_a_bad_namespace_exits_2(tools: Path) -> None:
    done = run_tiny("return 1", "--bindings", str(tools), "--bindings", f"{tools}:nothing_there")
    assert done.returncode == 2


FORMS = [
    pytest.param("bindings = [NS]", id="list"),
    pytest.param("def bindings(): return NS", id="factory"),
    pytest.param("async def bindings(): return (NS,)", id="async-factory"),
    pytest.param(
        "@contextlib.contextmanager\ndef bindings():\n  yield [NS]\n  print('closed')",
        id="context-manager",
    ),
    pytest.param(
        "@contextlib.asynccontextmanager\nasync def bindings():\n  yield NS\n  print('closed')",
        id="async-context-manager",
    ),
]


@pytest.mark.parametrize("form", FORMS)
def test_run_takes_bindings_in_every_form(tmp_path: Path, form: str) -> None:
    head = "import contextlib\nfrom code_runtime import CodeBindingNamespace\n"
    source = head + 'NS = CodeBindingNamespace("tools", {"get": lambda value: value})\n' + form
    (tmp_path / "given.py").write_text(source)
    done = run_cli(
        *("run", "-", "--provider", "tiny", "--bindings", "given"),
        stdin="return await tools.get(5)",
        cwd=tmp_path,
    )
    expected = "closed\n5\n" if "closed" in form else "5\n"
    assert (done.stdout, done.returncode) == (expected, 0), done.stderr


def test_run_names_the_decorator_that_a_generator_lacks(tmp_path: Path) -> None:
    (tmp_path / "given.py").write_text("async def bindings():\n  yield []\n")
    done = run_cli("run", "-", "--provider", "tiny", "-b", "given.py", cwd=tmp_path)
    assert done.stderr == (
        "code-runtime: Cannot load bindings from 'given.py:bindings': it gives an async generator "
        "(decorate its function with contextlib.asynccontextmanager), expected "
        "a CodeBindingNamespace, a list of them, or a factory or context manager of those\n"
    )


def start_tiny(
    program: str, *arguments: str, command: Sequence[str | Path] = (COMMAND,)
) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [*command, "run", "-", "--provider", "tiny", *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=command_env(),
        encoding="utf-8",
    )
    assert process.stdin is not None
    process.stdin.write(program)
    process.stdin.close()
    process.stdin = None
    return process


WAITING = 'import anyio\nlog("ready")\nawait anyio.sleep_forever()\n'


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["int", "term"])
def test_run_is_aborted_by_a_signal_after_a_live_log(number: signal.Signals) -> None:
    process = start_tiny(WAITING)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"  # live: the program is still running
    process.send_signal(number)
    _, errors = process.communicate(timeout=20)
    assert errors.splitlines()[0] == f"Failed (abort): interrupted by {number.name}"
    assert process.returncode == 1


def test_run_is_left_at_once_on_the_second_signal() -> None:
    stubborn = (
        "import anyio\nwith anyio.CancelScope(shield=True):\n"
        '  log("ready")\n  while True:\n    await anyio.sleep(0.01)\n    log("still here")\n'
    )
    process = start_tiny(stubborn)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    while process.poll() is None:  # one press, the second, and what comes after
        process.send_signal(signal.SIGINT)
        process.stdout.readline()
    process.communicate(timeout=20)
    assert process.returncode == 130


def test_signal_that_comes_twice_for_one_press_aborts_the_run_in_order() -> None:
    """`timeout` signals the command, and then its process group, the command once more.

    Here while the program ends, and while the result is shown.
    """
    patient = (
        'import anyio\nlog("ready")\ntry:\n  await anyio.sleep_forever()\nfinally:\n'
        '  with anyio.CancelScope(shield=True):\n    log("once")\n    await anyio.sleep(1)\n'
        '    log("end")\n'
    )
    one_press = (
        "import os, signal\nfrom code_runtime._cli import interrupts, main, run\n"
        "def show(*shown, show=run.show_result, **options):\n"
        "  os.kill(os.getpid(), signal.SIGINT)\n  show(*shown, **options)\n"
        "run.show_result = show\ninterrupts.SAME_PRESS_S = 60\nmain()\n"
    )
    process = start_tiny(patient, command=(sys.executable, "-c", one_press))
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    process.send_signal(signal.SIGINT)
    assert process.stdout.readline() == "once\n"
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=20)
    assert errors.splitlines()[0] == "Failed (abort): interrupted by SIGINT"
    assert process.returncode == 1


def test_run_whose_reader_has_gone_aborts_the_program() -> None:
    process = start_tiny('import anyio\nwhile True:\n  log("x" * 1_000)\n  await anyio.sleep(0)\n')
    assert process.stdout is not None
    process.stdout.readline()
    process.stdout.close()
    process.stdout = None
    _, errors = process.communicate(timeout=20)
    assert errors.splitlines()[0] == "Failed (abort): nobody reads the output"
    assert process.returncode == 1
