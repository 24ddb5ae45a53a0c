"""Installs the peers in a folder that nothing else depends on: `python -m bench.peers.install`.

The two upstream packages ask for peers of versions that were never published, so npm is told not to
resolve those; `package.json` names each one instead.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import venv
from pathlib import Path

from ..subjects import ROOT, WORK, node_binary

HERE = Path(__file__).resolve().parent
INPUTS = ("package.json", "requirements.txt")


def digest() -> str:
    """Return what tells one set of peers from another."""
    text = b"".join((HERE / name).read_bytes() for name in INPUTS)
    return hashlib.sha256(text).hexdigest()


def install_node_packages() -> None:
    """Install what package.json pins; install scripts may not run, the packages bring binaries."""
    folder = WORK / "node"
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copy(HERE / "package.json", folder / "package.json")
    node = node_binary()
    npm = node.parent.parent / "lib/node_modules/npm/bin/npm-cli.js"
    # Without the prefix npm looks for a package.json above, and would find the workspace's.
    options = ["--prefix", str(folder), "--workspaces=false", "--legacy-peer-deps"]
    options += ["--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"]
    # npm needs what tells it the way to its registry; only the PATH is ours.
    environment = {**os.environ, "PATH": f"{node.parent}{os.pathsep}{os.environ['PATH']}"}
    command = [str(node), str(npm), "install", *options]
    subprocess.run(command, check=True, cwd=folder, env=environment)


def install_python_packages() -> None:
    """Install what requirements.txt pins into an environment of its own."""
    folder = WORK / "venv"
    venv.create(folder, clear=True, with_pip=True)
    pip = [str(folder / "bin/python"), "-m", "pip", "install", "--quiet"]
    options = ["--disable-pip-version-check", "-r", str(HERE / "requirements.txt")]
    subprocess.run([*pip, *options], check=True, cwd=ROOT)


def main() -> int:
    """Install everything, unless it is there."""
    stamp = WORK / "stamp"
    if stamp.exists() and stamp.read_text() == digest():
        return 0
    WORK.mkdir(parents=True, exist_ok=True)
    stamp.unlink(missing_ok=True)
    # Linters and git pass by, whatever the root ignores.
    (WORK / ".gitignore").write_text("*\n")
    install_node_packages()
    install_python_packages()
    stamp.write_text(digest())
    return 0


if __name__ == "__main__":
    sys.exit(main())
