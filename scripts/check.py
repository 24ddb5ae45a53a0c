"""Run every linter and type checker, one line each, and show the output of those that fail.

Run through `make check`, which has set the checkout up and put its commands on PATH.
"""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
# One run each: test modules of different packages have the same names.
PACKAGES = tuple(f"packages/{path.name}" for path in sorted((ROOT / "packages").iterdir()))

CHECKS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("ruff format", ("ruff", "format", "--check")),
    ("ruff check", ("ruff", "check")),
    ("codespell", ("codespell",)),
    *((f"mypy {target}", ("mypy", target)) for target in PACKAGES),
    ("mypy bench tests scripts examples", ("mypy", "bench", "tests", "scripts", "examples")),
    ("pyright", ("pyright",)),
    ("biome", ("npm", "run", "--silent", "lint")),
    ("tsc", ("npm", "run", "--silent", "types")),
)


def run_check(name: str, command: tuple[str, ...]) -> bool:
    """Run one tool and tell whether it found nothing."""
    begin = time.monotonic()
    done = subprocess.run(
        command,
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=False,
    )
    verdict = "ok" if done.returncode == 0 else f"FAILED (exit code {done.returncode})"
    print(f"check: {name}: {verdict} ({time.monotonic() - begin:.1f} s)", flush=True)
    if done.returncode:
        print(done.stdout.decode(errors="replace"), flush=True)
    return done.returncode == 0


def main() -> int:
    """Run all of them, the later ones also when an earlier one failed."""
    failed = [name for name, command in CHECKS if not run_check(name, command)]
    if failed:
        print(f"check: failed: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
