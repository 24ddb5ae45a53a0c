"""Which interpreter runs the programs: found once at load, probed, and then frozen."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import anyio
import pytest
from interpreters import VERSIONS, require_python
from run_requests import Tools, build_request

from code_runtime import (
    CodeRunFailure,
    CodeRunResult,
    CodeRuntime,
    ConfigError,
    Context,
    HostStartError,
    ServiceMissingError,
)
from code_runtime_python import PythonCodeRuntime
from code_runtime_python._interpreter import find_interpreter, resolve

pytestmark = pytest.mark.anyio

START_METHODS = ["zygote", "spawn"]


def write_script(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o700)
    return path


def write_wrapper(path: Path, before: str = "") -> Path:
    """An interpreter that does something first."""
    return write_script(path, f'{before}\nexec {shlex.quote(sys.executable)} "$@"')


async def refusal(python_bin: str) -> str:
    with pytest.raises((ConfigError, HostStartError)) as caught:
        await find_interpreter(python_bin)
    return str(caught.value)


def unfit(path: Path, seen: str) -> str:
    return f"Cannot start the interpreter '{path}': {seen}, expected CPython 3.10 or later"


# Where it is


async def test_bare_name_is_the_first_executable_file_on_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PY-021, PY-023: a folder of that name, and a file that is not executable, are skipped."""
    (tmp_path / "one" / "python-x").mkdir(parents=True)
    write_script(tmp_path / "two" / "python-x", "exit 1").chmod(0o600)
    expected = write_wrapper(tmp_path / "three" / "python-x")
    write_wrapper(tmp_path / "four" / "python-x")
    folders = [str(tmp_path / name) for name in ("none", "one", "two", "three", "four")]
    monkeypatch.setenv("PATH", os.pathsep.join(folders))
    assert await find_interpreter("python-x") == str(expected)


async def test_empty_and_relative_folders_of_path_are_skipped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PY-022, PY-024."""
    write_wrapper(tmp_path / "python-x")
    write_wrapper(tmp_path / "bin" / "python-x")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", os.pathsep.join(["", "bin", ".", ""]))
    assert await refusal("python-x") == (
        "Cannot configure PythonCodeRuntime: python_bin is 'python-x', "
        "expected a name that resolves on PATH, or a path"
    )


@pytest.mark.parametrize("kind", ["missing", "not executable", "a folder", "unencodable"])
async def test_path_must_be_an_executable_regular_file(tmp_path: Path, kind: str) -> None:
    """PY-025."""
    path = tmp_path / ("\ud800" if kind == "unencodable" else "python")
    if kind == "not executable":
        write_wrapper(path).chmod(0o600)
    if kind == "a folder":
        path.mkdir()
    assert await refusal(str(path)) == (
        f"Cannot configure PythonCodeRuntime: python_bin is {str(path)!r}, "
        "expected the path of an executable regular file"
    )


async def test_relative_path_is_taken_from_the_directory_of_the_load(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PY-026."""
    write_wrapper(tmp_path / "bin" / "python")
    monkeypatch.chdir(tmp_path)
    assert resolve("bin/python") == str(tmp_path / "bin" / "python")
    async with Context() as ctx:
        await ctx.plugin(PythonCodeRuntime, {"python_bin": "./bin/python"})
        monkeypatch.chdir("/")
        assert (await ctx.codeRuntime.run(build_request("return 1"))).value == 1


async def test_default_is_the_interpreter_of_the_host() -> None:
    assert await find_interpreter(None) == sys.executable


# What it is


async def test_probe_is_isolated_and_sees_no_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PY-029."""
    before = f'echo "$1" > {tmp_path}/argument; env > {tmp_path}/environment'
    monkeypatch.setenv("PYTHONVERBOSE", "1")
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    await find_interpreter(str(write_wrapper(tmp_path / "python", before)))
    assert (tmp_path / "argument").read_text() == "-I\n"
    lines = (tmp_path / "environment").read_text().splitlines()
    # The shell itself adds these three.
    names = {line.partition("=")[0] for line in lines} - {"PWD", "SHLVL", "_"}
    assert names == {"TMPDIR"}


async def test_probe_that_does_not_end_is_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PY-029, PY-030: a wrapper that ignores SIGTERM, and what it has started, are gone."""
    monkeypatch.setattr("code_runtime_python._interpreter.PROBE_TIMEOUT_S", 0.5)
    path = write_script(tmp_path / "python", "trap '' TERM; sleep 600; sleep 600")
    began_s = time.monotonic()
    assert await refusal(str(path)) == unfit(path, "the version probe failed: no end within 0.5 s")
    assert time.monotonic() - began_s < 5


@pytest.mark.parametrize(
    ("script", "seen"),
    [
        pytest.param("exit 3", "the version probe failed: it ended with code 3", id="code"),
        pytest.param("kill -9 $$", "the version probe failed: it ended with signal 9", id="signal"),
        pytest.param("yes", "the version probe failed: it printed too much", id="flood"),
        pytest.param("echo", "it reports no version", id="nothing"),
        pytest.param("echo cpython 3.12", "it reports no version", id="part of a version"),
        pytest.param("echo pypy 3.11.9", "it is pypy", id="PY-032"),
        pytest.param("echo cpython 2.99.0", "it is version 2.99.0", id="2.99"),
        pytest.param("echo cpython 3.9.6", "it is version 3.9.6", id="3.9.6"),
    ],
)
async def test_interpreter_that_does_not_do_is_refused(
    tmp_path: Path, script: str, seen: str
) -> None:
    """PY-030, PY-032, PY-033."""
    path = write_script(tmp_path / "python", script)
    assert await refusal(str(path)) == unfit(path, seen)


async def test_file_of_no_known_format_is_refused(tmp_path: Path) -> None:
    """PY-030."""
    path = tmp_path / "python"
    path.write_bytes(b"\x7fELF")
    path.chmod(0o700)
    assert await refusal(str(path)) == unfit(path, "the version probe failed: Exec format error")


async def test_something_else_is_refused() -> None:
    """PY-031."""
    path = Path("/bin/echo")
    assert await refusal(str(path)) == unfit(path, "it reports no version")


@pytest.mark.parametrize("version", ["3.10.0", "3.99.1", "4.0.0"])
async def test_version_from_3_10_on_is_accepted(tmp_path: Path, version: str) -> None:
    """PY-033."""
    path = write_script(tmp_path / "python", f"echo cpython {version}")
    assert await find_interpreter(str(path)) == str(path)


@pytest.mark.parametrize(
    ("version", "reason"),
    [
        pytest.param("3.9.0", "it is version 3.9.0", id="refused"),
        pytest.param("3.12.0", "Cannot start a zygote", id="starts nothing"),
    ],
)
async def test_failed_load_leaves_no_runtime(tmp_path: Path, version: str, reason: str) -> None:
    """PY-019: that nothing else is left behind is checked after every test."""
    path = write_script(tmp_path / "python", f"echo cpython {version}")
    async with Context() as ctx:
        with pytest.raises(HostStartError) as caught:
            await ctx.plugin(PythonCodeRuntime, {"python_bin": str(path), "start_method": "zygote"})
        assert caught.value.seen.startswith(reason)
        with pytest.raises(ServiceMissingError):
            ctx.codeRuntime  # noqa: B018


async def test_platform_without_processes_of_unix_is_refused() -> None:
    """PY-001: nothing but Linux and macOS has the sockets and process groups of the guard."""
    program = """
import anyio, os
import code_runtime._guarded as guarded
from code_runtime import Context, HostStartError
from code_runtime_python import PythonCodeRuntime

async def main():
    async with Context() as ctx:
        guarded._IS_LINUX = False
        del os.killpg
        guarded.sys.platform = "win32"
        try:
            await ctx.plugin(PythonCodeRuntime)
        except HostStartError as error:
            print(error)

anyio.run(main)
"""
    done = await _run_python(program)
    assert done == (
        "Cannot start the guard: Cannot start a warden: platform 'win32', "
        "expected Linux or macOS, expected a Linux or macOS system\n"
    )


async def _run_python(program: str) -> str:
    done = await anyio.run_process([sys.executable, "-c", program], check=False)
    return done.stdout.decode() + done.stderr.decode()


# What is kept


@pytest.mark.parametrize("start_method", START_METHODS)
async def test_interpreter_is_probed_once_and_stays_whatever_path_becomes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, start_method: str
) -> None:
    """PY-028, PY-035."""
    log = tmp_path / "log"
    write_wrapper(tmp_path / "one" / "python-x", f'echo "$2" >> {log}')
    write_script(tmp_path / "two" / "python-x", "exit 1")
    monkeypatch.setenv("PATH", str(tmp_path / "one"))
    config = {"python_bin": "python-x", "start_method": start_method}
    async with Context() as ctx:
        await ctx.plugin(PythonCodeRuntime, config)
        monkeypatch.setenv("PATH", str(tmp_path / "two"))
        for number in range(3):
            result = await ctx.codeRuntime.run(build_request(f"return {number}"))
            assert result.value == number
    assert log.read_text().splitlines().count("-c") == 1


async def test_interpreter_that_was_deleted_fails_runs_and_not_the_host(tmp_path: Path) -> None:
    """PY-034, PY-065: the spare process serves a run yet, then none starts."""
    path = write_wrapper(tmp_path / "python")
    async with Context() as ctx:
        await ctx.plugin(PythonCodeRuntime, {"python_bin": str(path), "start_method": "spawn"})
        path.unlink()
        failed = await _run_until(ctx.codeRuntime, ok=False)
        assert failed.error == CodeRunFailure(
            "worker-exit",
            "worker did not start: Python cannot be started: No such file or directory",
        )
        write_wrapper(path)
        assert (await _run_until(ctx.codeRuntime, ok=True)).value == 1


async def _run_until(runtime: CodeRuntime, *, ok: bool) -> CodeRunResult:
    """Run until the change of the file has reached the processes that start ahead of their runs."""
    for _ in range(10):
        result = await runtime.run(build_request("return 1"))
        if result.ok is ok:
            return result
    raise AssertionError(f"no run with ok {ok}")


async def test_zygote_serves_runs_when_the_interpreter_was_deleted(tmp_path: Path) -> None:
    """PY-034: forks need no file."""
    path = write_wrapper(tmp_path / "python")
    async with Context() as ctx:
        await ctx.plugin(PythonCodeRuntime, {"python_bin": str(path), "start_method": "zygote"})
        path.unlink()
        for number in range(3):
            assert (await ctx.codeRuntime.run(build_request(f"return {number}"))).value == number


@pytest.mark.parametrize(
    ("start_method", "seen"), [("spawn", ["1", "of the shim"]), ("zygote", [None, None])]
)
async def test_exports_of_a_shim_reach_the_program_only_when_it_is_spawned(
    tmp_path: Path, start_method: str, seen: list[str | None]
) -> None:
    """PY-036: a fork gets its environment from the host, whatever the shim has set."""
    path = write_wrapper(tmp_path / "python", "export SHIM=1; export PATH='of the shim'")
    async with Context() as ctx:
        await ctx.plugin(PythonCodeRuntime, {"python_bin": str(path), "start_method": start_method})
        program = "import os; return [os.environ.get('SHIM'), os.environ.get('PATH')]"
        assert (await ctx.codeRuntime.run(build_request(program))).value == seen


# The versions and their packages

EVERY_PART = """
import asyncio, sys
def fail():
    return 1 / 0
sums = await asyncio.gather(*(tools.add([n, n]) for n in range(5)))
print("sums", sums)
print("to stderr", file=sys.stderr)
try:
    await tools.refuse("x")
except ToolCallError as error:
    print(type(error).__name__, error, error.toolName)
try:
    fail()
except ZeroDivisionError as error:
    print(error)
class Point: pass
deep = None
for _ in range(100_000):
    deep = [deep]
await tools.count(deep)
return {"version": list(sys.version_info[:2]), "sums": sums, "class": Point.__qualname__}
"""


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("start_method", START_METHODS)
async def test_children_of_every_version_do_the_same(version: str, start_method: str) -> None:
    """PY-033, PY-103."""

    def refuse(value: object) -> object:
        raise LookupError("not here")

    tools: Tools = {"add": sum, "refuse": refuse, "count": lambda value: None}
    config = {"python_bin": require_python(version), "start_method": start_method}
    async with Context() as ctx:
        await ctx.plugin(PythonCodeRuntime, config)
        result = await ctx.codeRuntime.run(build_request(EVERY_PART, tools))
        assert result.error is None
        assert result.value == {
            "version": [int(part) for part in version.split(".")],
            "sums": [0, 2, 4, 6, 8],
            "class": "Point",
        }
        assert result.logs == [
            "sums [0, 2, 4, 6, 8]",
            "to stderr",
            "ToolCallError not here refuse",
            "division by zero",
        ]
        failed = await ctx.codeRuntime.run(build_request("x = 1\nreturn x.y\n"))
        assert failed.error is not None
        assert failed.error.kind == "exception"
        assert failed.error.message.startswith("Traceback (most recent call last):\n")
        assert "line 2, in <module>\n    return x.y\n" in failed.error.message
        assert failed.error.message.endswith("AttributeError: 'int' object has no attribute 'y'")


@pytest.fixture(scope="session")
def python_with_numpy() -> Iterator[str]:
    """An environment with the real numpy and pandas, made once: it takes ten seconds."""
    folder = tempfile.mkdtemp(prefix="numpy-")
    try:
        subprocess.run([sys.executable, "-m", "venv", folder], check=True, capture_output=True)
        python = f"{folder}/bin/python"
        command = [python, "-m", "pip", "install", "--quiet", "numpy", "pandas"]
        done = subprocess.run(command, capture_output=True, encoding="utf-8", check=False)
        if done.returncode != 0:
            pytest.skip(f"pip cannot install numpy and pandas: {done.stderr.strip()[-300:]}")
        yield python
    finally:
        shutil.rmtree(folder, ignore_errors=True)


WITH_NUMPY = """
import numpy as np
import pandas as pd
matrix = np.arange(250_000, dtype=float).reshape(500, 500)
product = matrix @ matrix
frame = pd.DataFrame({"month": [1, 1, 2, 2], "rain": [3.5, 1.5, 0.0, 2.0]})
print(frame.groupby("month").rain.sum().to_string())
return {
    "trace": float(np.trace(product)),
    "random": np.random.random() < 1,
    "groups": {str(k): float(v) for k, v in frame.groupby("month").rain.mean().items()},
}
"""


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("start_method", "preload"),
    [("zygote", ()), ("zygote", ("numpy",)), ("zygote", ("numpy", "pandas")), ("spawn", ())],
)
async def test_numpy_and_pandas_work_under_the_default_limits(
    python_with_numpy: str, start_method: str, preload: tuple[str, ...]
) -> None:
    trace = sum((500 * i + j) * (500 * j + i) for i in range(500) for j in range(500))
    config = {
        "python_bin": python_with_numpy,
        "start_method": start_method,
        "preload": preload,
    }
    async with Context() as ctx:
        await ctx.plugin(PythonCodeRuntime, config)
        for _ in range(2):
            result = await ctx.codeRuntime.run(build_request(WITH_NUMPY))
            assert result.error is None
            assert result.logs == ["month", "1    5.0", "2    2.0"]
            assert result.value == {
                "trace": trace,
                "random": True,
                "groups": {"1": 2.5, "2": 1.0},
            }
        program = "import numpy\nreturn numpy.float64(1.5)"
        failed = await ctx.codeRuntime.run(build_request(program))
        assert failed.error == CodeRunFailure(
            "invalid-output", "The value must be lossless JSON: $: float64 is not JSON"
        )
