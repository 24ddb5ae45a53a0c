"""The commands `code-runtime doctor`, `code-runtime providers` and the rest."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

SITE = Path(__file__).parent / "cli_site"
COMMAND = Path(sys.executable).parent / "code-runtime"


def run_cli(*arguments: str, site: Path | None = SITE) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if name != "FORCE_COLOR"}
    if site is not None:
        environment["PYTHONPATH"] = str(site)
    return subprocess.run(
        [COMMAND, *arguments],
        env=environment | {"COLUMNS": "200"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        timeout=50,
        check=False,
    )


def section(text: str, title: str) -> list[str]:
    lines = text.splitlines()
    start = lines.index(title) + 1
    rest = lines[start:]
    end = next((i for i, line in enumerate(rest) if not line.startswith("  ")), len(rest))
    return rest[:end]


def test_doctor_reports_each_problem_with_its_fix_and_exits_1() -> None:
    done = run_cli("doctor")
    assert section(done.stdout, "Provider tiny") == [
        "  ok       Package: tiny-provider 1.0",
        "  ok       Tiny engine: built in",
        "  PROBLEM  Tiny fuel: the tank is empty",
        "           fix: tiny-fuel --fill",
    ]
    assert section(done.stdout, "Provider broken") == [
        "  PROBLEM  Package: tiny-provider 1.0: ModuleNotFoundError: "
        "No module named 'tiny_provider_missing'",
        "           fix: pip install --force-reinstall tiny-provider",
    ]
    assert done.stdout.splitlines()[-1] == f"{done.stdout.count('  PROBLEM  ')} to fix"
    assert done.stderr == ""
    assert done.returncode == 1


def test_doctor_names_python_platform_and_packages() -> None:
    system = section(run_cli("doctor").stdout, "System")
    assert [line.split(":")[0].split()[-1] for line in system] == [
        "Python",
        "Platform",
        "code-runtime",
        "anyio",
        "typer",
        "rich",
    ]
    assert system[0].endswith(f"({sys.executable})")


def test_providers_lists_each_with_its_labels_and_state() -> None:
    done = run_cli("providers")
    rows = {
        cells[1]: cells[2:-1]
        for line in done.stdout.splitlines()
        if (cells := [cell.strip() for cell in line.split("│")]) and len(cells) > 2
    }
    assert rows["tiny"] == ["tiny", "none", "tiny-provider 1.0", "ok"]
    assert rows["broken"] == [
        "?",
        "?",
        "tiny-provider 1.0",
        "ModuleNotFoundError: No module named 'tiny_provider_missing'",
    ]
    assert done.returncode == 0


def test_version_is_shown() -> None:
    assert run_cli("--version").stdout == "code-runtime 0.1.0\n"


def test_code_runtime_imports_neither_typer_nor_rich() -> None:
    program = "import sys, code_runtime; print([m for m in ('typer', 'rich') if m in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, encoding="utf-8", check=True
    )
    assert done.stdout == "[]\n"
