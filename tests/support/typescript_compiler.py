"""Compiles TypeScript texts with the compiler of the repository, many in one process."""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import anyio

from code_runtime_worker_thread._node import find_node

_ROOT: Final = Path(__file__).resolve().parents[2]
_COMPILER: Final = _ROOT / "node_modules" / "typescript" / "bin" / "tsc"
_OPTIONS: Final = {
    "strict": True,
    "noEmit": True,
    "target": "esnext",
    "module": "esnext",
    "lib": ["esnext"],
    "types": [],
    "pretty": False,
}


def type_errors(sources: Sequence[str]) -> list[str]:
    """Compile each source as a module of its own.

    Args:
        sources: Texts of TypeScript.

    Returns:
        The compiler's messages, each beginning with the number of its source, such as
        `3.ts(7,5): error TS2322: …`; a line of the source is one further down there.
    """
    with tempfile.TemporaryDirectory() as folder:
        files = [f"{number}.ts" for number in range(len(sources))]
        for file, source in zip(files, sources, strict=True):
            Path(folder, file).write_text(f"export {{}};\n{source}", encoding="utf-8")
        config = {"compilerOptions": _OPTIONS, "files": files}
        Path(folder, "tsconfig.json").write_text(json.dumps(config), encoding="utf-8")
        node = anyio.run(find_node).path
        done = subprocess.run(
            [node, _COMPILER, "-p", folder], capture_output=True, encoding="utf-8", cwd=folder
        )
        messages = (done.stdout + done.stderr).splitlines()
        if done.returncode != 0 and not messages:
            messages.append(f"tsc ended with status {done.returncode} and said nothing")
        return messages
