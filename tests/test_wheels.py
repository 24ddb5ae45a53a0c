"""What is built is what a user installs: wheels, sdists, and wheels from the sdists."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest
from checkout_scripts import release

ROOT = Path(__file__).parents[1]
PACKAGES = release.python_packages(ROOT)
pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build every package from a copy of its folder, so that nothing outside can be reached."""
    out = tmp_path_factory.mktemp("dist")
    for folder in PACKAGES.values():
        release.build_python(folder, out)
    return out


def run(*argv: str, cwd: Path | None = None, env: dict[str, str] | None = None) -> str:
    done = subprocess.run(
        argv, cwd=cwd, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def source_files(package: str, module: str) -> set[str]:
    src = ROOT / "packages" / package / "src"
    return {
        str(path.relative_to(src))
        for path in (src / module).rglob("*")
        if path.is_file() and path.suffix != ".pyc"
    }


@pytest.mark.parametrize("package", PACKAGES)
def test_wheel_holds_every_source_file_and_nothing_else(built: Path, package: str) -> None:
    module = package.replace("-", "_")
    (wheel,) = built.glob(f"{module}-0*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if ".dist-info/" not in name}
    assert names == source_files(package, module)
    assert f"{module}/py.typed" in names


def test_sdist_of_the_provider_holds_sources_and_built_javascript(built: Path) -> None:
    (sdist,) = built.glob("code_runtime_worker_thread-0*.tar.gz")
    with tarfile.open(sdist) as archive:
        names = {name.split("/", 1)[1] for name in archive.getnames() if "/" in name}
    assert {
        "src/code_runtime_worker_thread/_js/host.mjs",
        "src/code_runtime_worker_thread/_js/worker.mjs",
        "host/src/main.ts",
        "host/src/worker.ts",
        "scripts/build.mjs",
        "hatch_build.py",
        "LICENSE",
        "README.md",
    } <= names
    assert not [name for name in names if "node_modules" in name or name.startswith("tests/")]


def readme_blocks() -> list[tuple[str, str]]:
    """Return the programs of the README that show their output, with that output."""
    text = (ROOT / "README.md").read_text("utf-8")
    return re.findall(r"```python\n(.*?)```\n\n```\n(.*?)```", text, re.DOTALL)


def test_readme_blocks_run_from_the_wheels_in_a_new_environment(
    built: Path, tmp_path: Path
) -> None:
    """Without this checkout, without system Node, with nothing but the package index."""
    first, *others = readme_blocks()
    assert 10 <= len([line for line in first[0].splitlines() if line]) <= 15
    assert others, "there is one for Python programs too"
    environment = tmp_path / "env"
    run(sys.executable, "-m", "venv", str(environment))
    python = str(environment / "bin" / "python")
    wheels = [str(path) for path in built.glob("*.whl")]
    # The resolver's index settings come from the machine; the warnings of pip are its own.
    run(python, "-m", "pip", "install", "--quiet", *wheels)
    clean = {
        name: value for name, value in os.environ.items() if name in ("HOME", "TMPDIR", "LANG")
    }
    for program, output in (first, *others):
        assert run(python, "-c", program, cwd=tmp_path, env=clean) == output
    doctor = run(str(environment / "bin" / "code-runtime"), "providers", cwd=tmp_path, env=clean)
    assert "worker-thread" in doctor
    assert "python" in doctor
