"""Finds the CPython versions that this machine has, for tests of children."""

from __future__ import annotations

import functools
import glob
import os
import shutil
import subprocess
from pathlib import Path

import pytest

VERSIONS = ("3.10", "3.11", "3.12", "3.13")
_PROBE = "import sys; print('%d.%d' % sys.version_info[:2])"


@functools.cache
def find_python(version: str) -> str | None:
    """Return the path of a CPython of a version such as `3.12`, None where there is none.

    Looks at the folders of pyenv and for `python3.12` on PATH.
    """
    root = os.environ.get("PYENV_ROOT") or str(Path.home() / ".pyenv")
    candidates = sorted(glob.glob(f"{root}/versions/{version}.*/bin/python"), reverse=True)
    on_path = shutil.which(f"python{version}")
    for path in [*candidates, *([] if on_path is None else [on_path])]:
        try:
            done = subprocess.run(
                [path, "-I", "-c", _PROBE], capture_output=True, timeout=10, check=False
            )
        except (OSError, subprocess.TimeoutExpired):
            continue
        # The shim of an inactive pyenv version is on PATH and only says so.
        if done.stdout.decode(errors="replace").strip() == version:
            return path
    return None


def require_python(version: str) -> str:
    """Return the path of a CPython of a version, or skip the test."""
    path = find_python(version)
    if path is None:
        pytest.skip(f"no CPython {version} in the folders of pyenv or on PATH")
    return path
