"""Build the documentation into site/, or serve it while it is written.

    python scripts/docs.py            a strict build: a warning is an error
    python scripts/docs.py --serve    on http://127.0.0.1:8000, built anew after each change
    python scripts/docs.py --site-dir FOLDER

Run through `make docs`, which has set the checkout up. The site asks no other machine for anything.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def main() -> int:
    """Call mkdocs."""
    parser = argparse.ArgumentParser(description="Build the documentation.")
    parser.add_argument("--serve", action="store_true", help="serve it and watch for changes")
    parser.add_argument("--site-dir", default="site", help="the folder of the site")
    options = parser.parse_args()
    arguments = (
        ["serve", "--dev-addr", "127.0.0.1:8000", "--watch", "packages", "--watch", "README.md"]
        if options.serve
        else ["build", "--strict", "--clean", "--site-dir", options.site_dir]
    )
    command = [sys.executable, "-m", "mkdocs", *arguments]
    # The theme tells of another generator on each build: news for a maintainer, no warning.
    env = os.environ | {"NO_MKDOCS_2_WARNING": "1"}
    return subprocess.run(command, cwd=ROOT, env=env, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
