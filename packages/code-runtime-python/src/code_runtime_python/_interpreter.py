"""Finds the interpreter of the programs, once, at load.

A bare name is looked up on PATH in absolute folders only; a path is taken from the working
directory of the load. What is found is frozen: a later change of PATH does not matter.

Source: PY-021 to PY-036.
"""

from __future__ import annotations

import os
import re
import signal
import stat
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Final

import anyio

from code_runtime._errors import ConfigError, HostStartError

from ._config import OWNER

# What it runs.
CHILD_FOLDER: Final = Path(__file__).parent / "_child"
PROBE_TIMEOUT_S: Final = 5
MAX_PROBE_BYTES: Final = 1_024
LEAST_VERSION: Final = (3, 10)
_PROBE: Final = (
    "import sys; print(sys.implementation.name, '.'.join(map(str, sys.version_info[:3])))"
)
_ANSWER: Final = re.compile(rb"([a-z]+) (\d{1,9})\.(\d{1,9})\.(\d{1,9})")


async def find_interpreter(python_bin: str | None) -> str:
    """Return the absolute path of a CPython 3.10 or later.

    Args:
        python_bin: A name or path; None is the interpreter of the host.

    Raises:
        ConfigError: nothing that can be executed is there.
        HostStartError: what is there is no CPython 3.10 or later.
    """
    if python_bin is None:
        if sys.implementation.name != "cpython":
            raise _unfit(sys.executable, f"it is {sys.implementation.name}")
        return sys.executable
    path = resolve(python_bin)
    await _probe(path)
    return path


def resolve(python_bin: str) -> str:
    """Return the absolute path that a name or path stands for.

    Raises:
        ConfigError: nothing that can be executed is there.
    """
    if os.sep in python_bin:
        path = os.path.abspath(python_bin)
        if not _is_executable(path):
            raise ConfigError(
                OWNER, "python_bin", repr(python_bin), "the path of an executable regular file"
            )
        return path
    for folder in os.environ.get("PATH", "").split(os.pathsep):
        # An empty or relative folder would make the choice depend on the working directory.
        path = os.path.join(folder, python_bin)
        if os.path.isabs(folder) and _is_executable(path):
            return path
    raise ConfigError(
        OWNER, "python_bin", repr(python_bin), "a name that resolves on PATH, or a path"
    )


def _is_executable(path: str) -> bool:
    try:
        return stat.S_ISREG(os.stat(path).st_mode) and os.access(path, os.X_OK)
    except (OSError, ValueError):
        return False


async def _probe(path: str) -> None:
    env = {name: os.environ[name] for name in ("TMPDIR",) if name in os.environ}
    answer = b""
    try:
        # In a session of its own, so that what a wrapper has started is killed with it.
        process = await anyio.open_process(
            [path, "-I", "-c", _PROBE],
            stdin=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=env,
            start_new_session=True,
        )
    except OSError as error:
        raise _unfit(path, f"the version probe failed: {error.strerror}") from error
    try:
        with anyio.fail_after(PROBE_TIMEOUT_S):
            assert process.stdout is not None
            async for chunk in process.stdout:
                answer += chunk
                if len(answer) > MAX_PROBE_BYTES:
                    raise _unfit(path, "the version probe failed: it printed too much")
            code = await process.wait()
    except TimeoutError:
        raise _unfit(path, f"the version probe failed: no end within {PROBE_TIMEOUT_S} s") from None
    finally:
        # By SIGKILL, which no wrapper ignores; not once it is reaped, when the number may be that
        # of another group.
        if process.returncode is None:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
        with anyio.CancelScope(shield=True):
            await process.aclose()
    if code != 0:
        raise _unfit(path, f"the version probe failed: it ended with {_ending(code)}")
    _judge(path, answer.strip())


def _ending(code: int) -> str:
    return f"code {code}" if code > 0 else f"signal {-code}"


def _judge(path: str, answer: bytes) -> None:
    match = _ANSWER.fullmatch(answer)
    if match is None:
        raise _unfit(path, "it reports no version")
    name = match[1].decode()
    version = tuple(int(part) for part in match.groups()[1:])
    if name != "cpython":
        raise _unfit(path, f"it is {name}")
    if version[:2] < LEAST_VERSION:
        raise _unfit(path, f"it is version {'.'.join(map(str, version))}")


def _unfit(path: str, seen: str) -> HostStartError:
    return HostStartError(
        f"the interpreter {path!r}", seen, f"CPython {'.'.join(map(str, LEAST_VERSION))} or later"
    )
