"""Makes sure that a wheel or an sdist carries the two built JavaScript files.

An editable install needs nothing here. A checkout builds them with `npm run build`
(`make setup` does); an sdist always carries them, so a wheel built from it needs no Node.
"""

from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

BUILT = ("host.mjs", "worker.mjs")


class BuiltJavaScriptHook(BuildHookInterface):
    """Fail the build early, with the way out, when a built file is missing."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Check the files; an editable install goes without."""
        if version == "editable":
            return
        folder = Path(self.root) / "src" / "code_runtime_worker_thread" / "_js"
        missing = [name for name in BUILT if not (folder / name).is_file()]
        if missing:
            raise FileNotFoundError(
                f"Cannot build code-runtime-worker-thread: {', '.join(missing)} not in {folder}, "
                "expected the output of `npm run build` (run `make setup` at the workspace root)"
            )
