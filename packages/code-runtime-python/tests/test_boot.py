"""What a program finds around itself: process, environment, streams, descriptors, limits."""

from __future__ import annotations

import os
import sys

import pytest
from run_requests import Provider, build_request

pytestmark = pytest.mark.anyio


async def test_a_process_of_its_own(provider: Provider, start_method: str) -> None:
    """PY-059: isolated, leader of a session and a group; PY-224: which it cannot leave."""
    program = """
import os, sys
pid = os.getpid()
try:
    os.setsid()
    refused = False
except PermissionError:
    refused = True
return [os.getsid(0) == pid, os.getpgid(0) == pid, refused, sys.flags.isolated, sys.argv]
"""
    async with provider(start_method=start_method) as runtime:
        result = await runtime.run(build_request(program))
        line = await runtime.run(
            build_request(
                "with open('/proc/self/cmdline') as file: return file.read().split('\\0')"
            )
        )
    assert result.value == [True, True, True, 1, ["program.py"]], result
    assert isinstance(line.value, list)
    if start_method == "spawn":
        assert line.value[:3] == [sys.executable, "-u", "-I"]
    else:
        assert line.value[:2] == [sys.executable, "-I"]


async def test_the_environment_holds_the_temporary_folder_only(
    provider: Provider, start_method: str
) -> None:
    """PY-060, PY-061: CPython itself adds LC_CTYPE where it starts in the C locale."""
    program = """
import locale, os, sys
environment = dict(os.environ)
folder = environment.pop("TMPDIR")
return [environment, folder == os.getcwd(), sys.flags.utf8_mode, locale.getpreferredencoding()]
"""
    async with provider(start_method=start_method) as runtime:
        result = await runtime.run(build_request(program))
    added = {} if start_method == "zygote" else {"LC_CTYPE": "C.UTF-8"}
    assert isinstance(result.value, list), result
    environment, own_folder, utf8_mode, encoding = result.value
    assert environment in ({}, added)
    assert (own_folder, utf8_mode, str(encoding).lower()) == (True, 1, "utf-8")


async def test_standard_input_is_at_its_end(provider: Provider, start_method: str) -> None:
    """PY-062."""
    program = (
        "import sys\nseen = sys.stdin.read()\ntry:\n    input()\nexcept EOFError:\n    return seen"
    )
    async with provider(start_method=start_method) as runtime:
        result = await runtime.run(build_request(program))
    assert result.value == ""


async def test_no_descriptor_of_the_host_is_open(provider: Provider, start_method: str) -> None:
    """PY-220, PY-223: the channel is private, high, and closed in every new program."""
    program = """
import os, subprocess
def listed(folder):
    return sorted(int(name) for name in os.listdir(folder))
own = [number for number in listed("/proc/self/fd") if os.path.exists(f"/proc/self/fd/{number}")]
links = {str(number): os.readlink(f"/proc/self/fd/{number}").partition(":")[0] for number in own[:3]}
inherited = subprocess.run(["/bin/ls", "/proc/self/fd"], capture_output=True, text=True, close_fds=False)
return [links, 3 in own, [int(name) for name in inherited.stdout.split()]]
"""
    async with provider(start_method=start_method) as runtime:
        result = await runtime.run(build_request(program))
    assert isinstance(result.value, list), result
    links, _, inherited = result.value
    assert links == {"0": "/dev/null", "1": "pipe", "2": "pipe"}
    assert set(inherited) <= {0, 1, 2, 3}  # 3 is the folder that it lists


async def test_limits_are_in_force_before_the_program(
    provider: Provider, start_method: str
) -> None:
    """PY-070, PY-071, PY-072."""
    program = """
import resource
names = ("RLIMIT_CPU", "RLIMIT_AS", "RLIMIT_CORE")
return [resource.getrlimit(getattr(resource, name)) == pair for name, pair in zip(
    names, [(7, 8), (1_073_741_824, 1_073_741_824), (0, 0)])]
"""
    config = {"cpu_seconds": 7, "address_space_mb": 1024, "max_log_bytes": 1_000_000}
    async with provider(start_method=start_method, max_value_bytes=1_000_000, **config) as runtime:
        result = await runtime.run(build_request(program))
    assert result.value == [True, True, True]


async def test_modules_of_the_interpreter_are_importable_and_those_of_the_host_are_not(
    provider: Provider, start_method: str, monkeypatch: pytest.MonkeyPatch, tmp_path: object
) -> None:
    """PY-078: PYTHON* variables are ignored, the working directory is not on the path."""
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    program = f"""
import sys
with open("mine.py", "w") as file: file.write("x = 1")
try:
    import mine
    found = True
except ImportError:
    found = False
return [found, {str(tmp_path)!r} in sys.path, any("code_runtime" in name for name in sys.modules),
        any(path.endswith("_child") for path in sys.path), sys.dont_write_bytecode]
"""
    async with provider(start_method=start_method) as runtime:
        result = await runtime.run(build_request(program))
    assert result.value == [False, False, False, False, False]


async def test_the_machinery_takes_little_address_space(
    provider: Provider, start_method: str
) -> None:
    """PY-081: and a call adds no thread."""
    program = """
import threading
def mapped():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[0]) * 4096 / 1_048_576
before = mapped()
await tools.echo(1)
return [before, mapped() - before, threading.active_count()]
"""
    async with provider(start_method=start_method) as runtime:
        result = await runtime.run(build_request(program, {"echo": lambda value: value}))
    assert isinstance(result.value, list), result
    before_mb, added_mb, threads = result.value
    assert isinstance(before_mb, (int, float))
    assert isinstance(added_mb, (int, float))
    assert before_mb < 64  # 40 as a rule, of which 30 are the bare interpreter
    assert added_mb < 8
    assert threads == 1


async def test_the_user_is_that_of_the_host(provider: Provider) -> None:
    """PY-291: a program can do what that user can."""
    async with provider() as runtime:
        result = await runtime.run(
            build_request(f"import os\nos.kill({os.getpid()}, 0)\nreturn os.getuid()")
        )
    assert result.value == os.getuid()
