"""Carries out `code-runtime doctor`: what is there, what is missing, and how to get it."""

from __future__ import annotations

import inspect
import platform
import sys
import time
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Final, cast

import anyio
from rich.console import Console
from rich.text import Text

from code_runtime import CodeRunRequest, Context
from code_runtime._checks import ProviderCheck

from .discovery import installed_providers
from .problem import OK, PROGRAM_FAILED
from .text import printable

if TYPE_CHECKING:
    from collections.abc import Callable

    from .discovery import Provider

OLDEST_PYTHON: Final = (3, 11)
PACKAGES: Final = ("code-runtime", "anyio", "typer", "rich")
TRIAL: Final = "return 1 + 1"
TRIAL_LANGUAGES: Final = ("typescript", "python")
TRIAL_TIMEOUT_S: Final = 30


def examine() -> int:
    """Print every check and return 1 when one of them fails."""
    console = Console(highlight=False, markup=False, emoji=False, soft_wrap=True)
    checks = check_system()
    _show(console, "System", checks)
    providers = installed_providers()
    if not providers:
        checks.append(_no_provider())
        _show(console, "Providers", checks[-1:])
    for provider in providers:
        found = anyio.run(check_provider, provider)
        _show(console, f"Provider {provider.name}", found)
        checks += found
    problems = sum(not check.ok for check in checks)
    console.print()
    console.print("no problems" if not problems else f"{problems} to fix")
    return PROGRAM_FAILED if problems else OK


def check_system() -> list[ProviderCheck]:
    """Check the interpreter, the platform and the packages that every provider needs."""
    return [_python(), _platform(), *map(_package, PACKAGES)]


def _python() -> ProviderCheck:
    detail = f"{platform.python_implementation()} {platform.python_version()} ({sys.executable})"
    ok = sys.version_info[:2] >= OLDEST_PYTHON and platform.python_implementation() == "CPython"
    return ProviderCheck("Python", ok, detail, "" if ok else "use CPython 3.11 or newer")


def _platform() -> ProviderCheck:
    detail = f"{platform.system()} {platform.release()} on {platform.machine()}"
    system = platform.system()
    if system == "Linux":
        return ProviderCheck("Platform", True, detail)
    if system == "Darwin":
        return ProviderCheck("Platform", True, detail + ": best effort, untested")
    return ProviderCheck("Platform", False, detail, "use Linux, or WSL 2 on Windows")


def _package(name: str) -> ProviderCheck:
    try:
        return ProviderCheck(name, True, version(name))
    except PackageNotFoundError:
        return ProviderCheck(name, False, "not installed", f"pip install {name}")


def _no_provider() -> ProviderCheck:
    fix = (
        "pip install code-runtime-worker-thread (TypeScript programs), or "
        "pip install code-runtime-python (Python programs)"
    )
    return ProviderCheck("Installed", False, "none, so no program can run", fix)


async def check_provider(provider: Provider) -> list[ProviderCheck]:
    """Check one provider: it imports, its own prerequisites hold, and a program runs."""
    package = f"{provider.package} {provider.version}"
    if provider.error:
        fix = f"pip install --force-reinstall {provider.package}"
        return [ProviderCheck("Package", False, f"{package}: {provider.error}", fix)]
    checks = [ProviderCheck("Package", True, package)]
    checks += await _own_checks(provider)
    if all(check.ok for check in checks) and provider.language in TRIAL_LANGUAGES:
        checks.append(await _trial(provider))
    return checks


async def _own_checks(provider: Provider) -> list[ProviderCheck]:
    hook = cast("Callable[[], object] | None", getattr(provider.loaded, "doctor", None))
    if hook is None:
        return []
    try:
        given = hook()
        if inspect.isawaitable(given):
            given = await given
    except Exception as error:
        detail = f"its doctor failed with {type(error).__name__}: {error}"
        return [ProviderCheck("Prerequisites", False, detail, f"report it to {provider.package}")]
    if not isinstance(given, list):
        return []
    return [check for check in given if isinstance(check, ProviderCheck)]


async def _trial(provider: Provider) -> ProviderCheck:
    """Start the provider and run one small program, as the user would."""
    begin = time.monotonic()
    try:
        with anyio.fail_after(TRIAL_TIMEOUT_S):
            async with Context() as context:
                await context.plugin(provider.name)
                result = await context.codeRuntime.run(CodeRunRequest(TRIAL))
    except TimeoutError:
        seen = f"no result within {TRIAL_TIMEOUT_S} s"
    except Exception as error:
        seen = f"{type(error).__name__}: {error}"
    else:
        if result.ok and result.value == 2:
            return ProviderCheck("Trial run", True, f"{time.monotonic() - begin:.2f} s")
        seen = repr(result)
    return ProviderCheck("Trial run", False, seen, "see the checks above")


def _show(console: Console, title: str, checks: list[ProviderCheck]) -> None:
    console.print(Text(title, style="bold"))
    for check in checks:
        mark = Text("ok     ", style="green") if check.ok else Text("PROBLEM", style="bold red")
        detail = printable(check.detail, terminal=True)
        console.print(Text("  ").append(mark).append(f"  {check.name}: {detail}"))
        if not check.ok and check.fix:
            console.print(Text(f"           fix: {printable(check.fix, terminal=True)}"))
