"""Build every package as it is released, install each in a clean environment, and try it there.

Run through `make release-check`. Prints one line for each step, and the output of a step that
fails; the exit code is 1 then. It needs a network, for what the packages depend on. What is built
stays in `dist/`, which is what `docs/how-to/release.md` uploads.

    python scripts/release_check.py            the state of a checkout at any time
    python scripts/release_check.py --final    also asks for a dated entry in CHANGELOG.md
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

ROOT: Final = Path(__file__).resolve().parent.parent
STEP_TIMEOUT_S: Final = 600
# What an installer needs of the caller's environment; nothing of a checkout or another Python.
KEPT: Final = ("HOME", "TMPDIR", "LANG", "http_proxy", "https_proxy", "no_proxy")
KEPT_PREFIXES: Final = ("PIP_", "npm_config_", "SSL_", "REQUESTS_")
PROGRAMS: Final = {
    "code-runtime-worker-thread": (
        "program.ts",
        "enum E { A, B }\nconsole.log('hello');\nreturn E.B as number;\n",
    ),
    "code-runtime-python": ("program.py", "print('hello')\nreturn 1\n"),
}
NODE_HOST: Final = """
import { PythonCodeRuntime } from "code-runtime-python";
const runtime = await PythonCodeRuntime.create({ pythonBin: process.argv[2] });
const bindings = [{ globalName: "math", functions: { double: (n) => 2 * n } }];
console.log((await runtime.run({ program: "return await math.double(21)", bindings })).value);
await runtime.dispose();
"""


class ReleaseError(Exception):
    """Something is not fit for a release; the text says what."""


def python_packages(root: Path) -> dict[str, Path]:
    """Return the folders of the Python packages by distribution name."""
    return {
        str(_project(path)["name"]): path.parent
        for path in sorted(root.glob("packages/*/pyproject.toml"))
    }


def npm_packages(root: Path) -> dict[str, Path]:
    """Return the folders of the npm packages that are published, by name."""
    found = {}
    for path in sorted(root.glob("packages/*/package.json")):
        manifest = json.loads(path.read_text("utf-8"))
        if not manifest.get("private"):
            found[manifest["name"]] = path.parent
    return found


def declared_versions(root: Path) -> dict[str, str]:
    """Return every place that states the version of a release, and what it states."""
    found: dict[str, str] = {}
    for path in sorted(root.glob("packages/*/pyproject.toml")):
        found[str(path.relative_to(root))] = str(_project(path)["version"])
    for path in sorted(root.glob("packages/*/package.json")):
        found[str(path.relative_to(root))] = json.loads(path.read_text("utf-8"))["version"]
    for path in sorted(root.glob("packages/*/src/*/__init__.py")):
        stated = re.search(r'^__version__ = "([^"]+)"$', path.read_text("utf-8"), re.MULTILINE)
        if stated:
            found[str(path.relative_to(root))] = stated[1]
    return found


def agreed_version(versions: Mapping[str, str]) -> str:
    """Return the one version that all places state.

    Raises:
        ReleaseError: They state several.
    """
    if len(set(versions.values())) == 1:
        return next(iter(versions.values()))
    places = ", ".join(f"{place} {version}" for place, version in versions.items())
    raise ReleaseError(f"Cannot release: the versions are {places}, expected one for all")


def check_pins(root: Path, version: str) -> int:
    """Check that the packages ask for each other in a range that begins at this minor version.

    Returns:
        How many of these requirements there are.

    Raises:
        ReleaseError: One of them has another form.
    """
    major, minor = version.split(".")[:2]
    ours = python_packages(root)
    count = 0
    for name, folder in ours.items():
        dependencies = _project(folder / "pyproject.toml").get("dependencies", [])
        assert isinstance(dependencies, list)
        for requirement in map(str, dependencies):
            wanted = re.split(r"[<>=!~\[; ]", requirement)[0]
            if wanted not in ours:
                continue
            expected = f"{wanted}>={major}.{minor},<{major}.{int(minor) + 1}"
            if requirement.replace(" ", "") != expected:
                raise ReleaseError(
                    f"Cannot release {name}: it requires {requirement!r}, expected {expected!r}"
                )
            count += 1
    return count


def changelog_entry(text: str, version: str, *, final: bool) -> str:
    """Return the heading under which the changes of this version stand.

    Raises:
        ReleaseError: There is none, or nothing stands under it; `Unreleased` counts unless final.
    """
    sections = re.split(r"^## ", text, flags=re.MULTILINE)[1:]
    bodies = {title: body for title, _, body in (section.partition("\n") for section in sections)}
    dated = [
        title for title in bodies if re.fullmatch(rf"{re.escape(version)} - [-\d]{{10}}", title)
    ]
    for title in dated if final else [*dated, "Unreleased"]:
        if re.search(r"^- ", bodies.get(title, ""), re.MULTILINE):
            return title
    expected = f"a section '## {version} - <date>' with entries"
    raise ReleaseError(
        f"Cannot release {version}: CHANGELOG.md has {', '.join(bodies) or 'nothing'}, "
        f"expected {expected}{'' if final else ' or ## Unreleased'}"
    )


def titled_blocks(text: str) -> dict[str, str]:
    """Return the files that a page tells its reader to save."""
    return dict(re.findall(r'^```\w+ title="([^"]+)"\n(.*?)^```$', text, re.MULTILINE | re.DOTALL))


def build_python(source: Path, out: Path) -> None:
    """Build an sdist, and the wheel from it, out of a copy: nothing beside it can be reached."""
    with tempfile.TemporaryDirectory(prefix="release-") as folder:
        copy = Path(folder) / source.name
        shutil.copytree(
            source, copy, ignore=shutil.ignore_patterns("node_modules", "dist", "__pycache__", ".*")
        )
        run([sys.executable, "-m", "build", "--no-isolation", "--outdir", str(out), str(copy)])


def pack_npm(source: Path, out: Path) -> Path:
    """Pack an npm package as it is published; it has to be built."""
    text = run(["npm", "pack", "--json", "--pack-destination", str(out)], cwd=source)
    (packed,) = _values(json.loads(text))
    return out / str(packed["filename"])


def _values(packed: object) -> list[dict[str, object]]:
    # npm up to 11 prints a list; later ones an object by name.
    items = list(packed.values()) if isinstance(packed, dict) else packed
    assert isinstance(items, list)
    return items


def run(
    command: Sequence[str], *, cwd: Path | None = None, env: Mapping[str, str] | None = None
) -> str:
    """Run a command and return what it prints.

    Raises:
        ReleaseError: It fails; the text has its output.
    """
    done = subprocess.run(
        command,
        cwd=cwd,
        env=env,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        timeout=STEP_TIMEOUT_S,
        check=False,
    )
    if done.returncode != 0:
        said = (done.stdout + done.stderr).strip()
        raise ReleaseError(f"{' '.join(command[:6])} ended with {done.returncode}:\n{said}")
    return done.stdout


def _project(path: Path) -> dict[str, object]:
    project = tomllib.loads(path.read_text("utf-8"))["project"]
    assert isinstance(project, dict)
    return project


def _clean_environment(first_on_path: Path) -> dict[str, str]:
    """Return an environment without this checkout, whose own Node is still found by its folder."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if name in KEPT or name.startswith(KEPT_PREFIXES)
    }
    return {**kept, "PATH": os.pathsep.join([str(first_on_path), os.defpath])}


class Environment:
    """A virtual environment outside of the checkout that holds some of the built packages."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.bin = folder / "env" / "bin"

    def install(self, dist: Path, version: str, *names: str) -> None:
        """Make it, and install packages by name: ours from `dist`, all others from the index."""
        self.folder.mkdir()
        run([sys.executable, "-m", "venv", str(self.folder / "env")])
        wanted = [f"{name}=={version}" for name in names]
        self.run("python", "-m", "pip", "install", "--quiet", "--find-links", str(dist), *wanted)

    def run(self, command: str, *arguments: str) -> str:
        """Run a command of the environment, in its folder."""
        return run(
            [str(self.bin / command), *arguments],
            cwd=self.folder,
            env=_clean_environment(self.bin),
        )

    def run_program(self, program: tuple[str, str]) -> None:
        """Run a program that prints hello and returns 1."""
        name, text = program
        (self.folder / name).write_text(text, "utf-8")
        expect("hello\n1\n", self.run("code-runtime", "run", name))


def expect(wanted: str, seen: str) -> None:
    """Compare what was printed with what should be.

    Raises:
        ReleaseError: They differ.
    """
    if seen != wanted:
        raise ReleaseError(f"Cannot release: printed was\n{seen}\nexpected\n{wanted}")


class Check:
    """Carries out the steps, one line each."""

    def __init__(self, work: Path, *, final: bool) -> None:
        self.work = work
        self.final = final
        self.dist = ROOT / "dist"
        self.version = ""
        self.failed = 0

    def step(self, name: str, function: Callable[[], str]) -> bool:
        """Carry one out and print its line; return whether it went well."""
        begin_s = time.monotonic()
        try:
            detail, verdict = function(), "ok    "
        except (ReleaseError, subprocess.TimeoutExpired) as error:
            detail, verdict = str(error), "FAILED"
            self.failed += 1
        seconds = time.monotonic() - begin_s
        print(f"{verdict} {name}: {detail} ({seconds:.1f} s)", flush=True)
        return verdict != "FAILED"

    def versions(self) -> str:
        """All packages have one version, and ask for each other by it."""
        versions = declared_versions(ROOT)
        self.version = agreed_version(versions)
        pins = check_pins(ROOT, self.version)
        return f"{self.version} in {len(versions)} places, {pins} requirements of each other"

    def changelog(self) -> str:
        """The changes are written down."""
        text = (ROOT / "CHANGELOG.md").read_text("utf-8")
        return f"## {changelog_entry(text, self.version, final=self.final)}"

    def build(self) -> str:
        """Make `dist/` anew."""
        shutil.rmtree(self.dist, ignore_errors=True)
        self.dist.mkdir()
        for folder in python_packages(ROOT).values():
            build_python(folder, self.dist)
        for folder in npm_packages(ROOT).values():
            pack_npm(folder, self.dist)
        return ", ".join(sorted(path.name for path in self.dist.iterdir()))

    def provider(self, name: str, program: tuple[str, str]) -> str:
        """Install a provider alone, and run a program and the doctor."""
        environment = Environment(self.work / name)
        environment.install(self.dist, self.version, name)
        environment.run_program(program)
        if not environment.run("code-runtime", "doctor").endswith("\nno problems\n"):
            raise ReleaseError("Cannot release: code-runtime doctor found problems")
        return "a program and code-runtime doctor"

    def tutorial(self) -> str:
        """Install everything, and run the files of the tutorial."""
        environment = Environment(self.work / "tutorial")
        environment.install(self.dist, self.version, *python_packages(ROOT))
        files = titled_blocks((ROOT / "docs/tutorial.md").read_text("utf-8"))
        scripts = [name for name in files if name.endswith(".py")]
        for name in scripts:
            (environment.folder / name).write_text(files[name], "utf-8")
        for name in scripts:
            if name == "agent.py":
                environment.run("python", "-W", "error", name, "worker-thread")
                environment.run("python", "-W", "error", name, "python")
            else:
                environment.run("python", "-W", "error", name)
        environment.run("code-mode", "--help")
        return ", ".join(scripts)

    def node_host(self, name: str) -> str:
        """Install an npm package in an empty folder, and run a Node host there."""
        folder = self.work / "node"
        folder.mkdir()
        (archive,) = self.dist.glob(f"{name}-*.tgz")
        (folder / "package.json").write_text('{"private": true, "type": "module"}', "utf-8")
        (folder / "host.mjs").write_text(NODE_HOST, "utf-8")
        node = shutil.which("node")
        if node is None:
            raise ReleaseError(
                "Cannot try the Node host: no node on PATH, expected Node 22 or later"
            )
        environment = _clean_environment(Path(node).parent)
        run(["npm", "install", "--silent", str(archive)], cwd=folder, env=environment)
        expect("42\n", run([node, "host.mjs", sys.executable], cwd=folder, env=environment))
        return "a Python program"

    def all(self) -> bool:
        """Carry out every step; those that need what a failed one gives are left out."""
        ready = self.step("versions", self.versions)
        self.step("changelog", self.changelog)
        if not (self.step("build", self.build) and ready):
            return False
        for name, program in PROGRAMS.items():
            self.step(f"pip install {name}", partial(self.provider, name, program))
        self.step("tutorial", self.tutorial)
        for name in npm_packages(ROOT):
            self.step(f"npm install {name}", partial(self.node_host, name))
        return self.failed == 0


def main() -> int:
    """Carry out the steps and return the exit code."""
    parser = argparse.ArgumentParser(description="Build, install and try every package.")
    parser.add_argument(
        "--final", action="store_true", help="ask for a dated entry in CHANGELOG.md"
    )
    final = parser.parse_args().final
    with tempfile.TemporaryDirectory(prefix="release-") as work:
        good = Check(Path(work), final=final).all()
    print("ready" if good else "not ready")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
