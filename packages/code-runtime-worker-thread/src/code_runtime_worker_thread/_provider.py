"""The TypeScript provider: each program in a fresh worker thread of a Node process of its own."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, ClassVar, Final, final

import anyio

from code_runtime import CodeRunRequest, CodeRunResult, Context
from code_runtime._checks import ProviderCheck
from code_runtime._errors import ConfigError, HostStartError
from code_runtime._execution._pool import HostBootError
from code_runtime._execution._pooled import PooledCodeRuntime
from code_runtime._execution._settlement import Settlement
from code_runtime._execution._wardens import WardenKeeper
from code_runtime._execution._workspace import RunDirectories
from code_runtime._ledger import settle_early
from code_runtime._text import describe
from code_runtime._vocabulary import CodeRunFailure, FailureKind

from ._config import OWNER, WorkerThreadConfig
from ._node import NodeBinary, find_node, list_candidates

if TYPE_CHECKING:
    from ._host import NodeHost
    from ._session import RunSession

# Below this a trial run at load tells whether a worker can live in the heap at all.
COMFORTABLE_HEAP_MB: Final = 64


@final
class WorkerThreadCodeRuntime(PooledCodeRuntime["NodeHost"]):
    """Runs TypeScript programs, each in a fresh Node worker thread.

    Load it with `await ctx.plugin(WorkerThreadCodeRuntime, config)`; `config` has the fields of
    `WorkerThreadConfig`. Loading starts a guard and the first Node process, and fails there when
    that is not possible.

    Args:
        ctx: The context that loads it.
        config: A mapping with fields of `WorkerThreadConfig`, such a config, or None for the
            defaults.

    Raises:
        ConfigError: a field of the config is wrong (at load).
        HostStartError: Node cannot be found or started (at load).
    """

    late_modules: ClassVar[tuple[str, ...]] = (f"{__package__}._host", f"{__package__}._session")

    def __init__(self, ctx: Context, config: object = None) -> None:
        self._config = WorkerThreadConfig.from_mapping(config)
        super().__init__(ctx, config, self._config)
        self._node: NodeBinary | None = None

    @property
    def language(self) -> str:
        """`typescript` (WT-006)."""
        return "typescript"

    @property
    def isolation(self) -> str:
        """`worker-thread` (WT-006): a label, never a security claim."""
        return "worker-thread"

    @asynccontextmanager
    async def lifespan(self) -> AsyncIterator[None]:
        """Find Node, then hold the warden and the Node hosts."""
        self._node = await find_node(self._config.node_bin)
        async with super().lifespan():
            yield

    def make_host(self, wardens: WardenKeeper, directories: RunDirectories) -> NodeHost:
        """Make a Node host that is not started yet."""
        from ._host import NodeHost

        assert self._node is not None
        return NodeHost(wardens, self._node, self._config, directories)

    def make_session(
        self, request: CodeRunRequest, program: bytes, settlement: Settlement, host: NodeHost
    ) -> RunSession:
        """Make the session of a run."""
        from ._session import RunSession

        return RunSession(request, self._config, settlement, host, self.task_group, program)

    def make_wardens(self, folder: str) -> WardenKeeper:
        """Make the keeper of the warden above the Node hosts."""
        return WardenKeeper(folder)

    def fail_early(self, kind: FailureKind, message: str) -> CodeRunResult:
        """Put a failure that came before any program ran through a ledger (WT-013)."""
        logs, kind, message = settle_early(self._config.max_output_bytes, kind, message)
        return CodeRunResult(logs, error=CodeRunFailure(kind, message))

    async def check_start(self, error: HostBootError | None) -> None:
        """Refuse a heap in which no worker can live (WT-008)."""
        heap_mb = self._config.max_old_generation_size_mb
        reason = None if error is None else str(error)
        if heap_mb >= COMFORTABLE_HEAP_MB:
            if reason is not None:
                raise HostStartError("the Node host", reason, "a Node process that boots")
            return
        if reason is None:
            # A small heap may hold a worker that waits and not one that runs.
            probe = await self.run_unchecked(CodeRunRequest("return null"))
            reason = None if probe.error is None else probe.error.message
        if reason is not None:
            raise ConfigError(
                OWNER,
                "max_old_generation_size_mb",
                f"{describe(heap_mb)}: {reason}",
                "a heap in which a worker boots and runs an empty program (16 MiB do)",
            )

    @classmethod
    async def doctor(cls) -> list[ProviderCheck]:
        """Say which Node runs the programs and what else would be tried; see `ProviderCheck`."""
        tried = "; ".join(f"{item.origin}: {item.path or item.note}" for item in list_candidates())
        try:
            node = await find_node()
        except HostStartError as error:
            return [ProviderCheck("Node", False, error.seen, error.expected)]
        done = await anyio.run_process([node.path, "--version"], check=False)
        version = done.stdout.decode(errors="replace").strip()
        return [
            ProviderCheck("Node", True, f"{version} from {node.origin} ({node.path})"),
            ProviderCheck("Order", True, tried),
        ]
