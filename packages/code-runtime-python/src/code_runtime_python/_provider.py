"""The Python provider: each program in a fresh CPython process."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, ClassVar, final

from code_runtime import CodeRunRequest, CodeRunResult, Context
from code_runtime._checks import ProviderCheck
from code_runtime._errors import CodeRuntimeError, ConfigError, HostStartError
from code_runtime._execution._pool import HostBootError
from code_runtime._execution._pooled import PooledCodeRuntime
from code_runtime._execution._settlement import Settlement
from code_runtime._execution._wardens import WardenKeeper
from code_runtime._execution._workspace import RunDirectories
from code_runtime._guarded import Zygote
from code_runtime._vocabulary import CodeRunFailure, FailureKind

from ._config import OWNER, PythonConfig
from ._interpreter import CHILD_FOLDER, find_interpreter

if TYPE_CHECKING:
    from ._process import ProgramProcess
    from ._session import PythonSession


@final
class PythonCodeRuntime(PooledCodeRuntime["ProgramProcess"]):
    """Runs Python programs, each in a fresh CPython process.

    Load it with `await ctx.plugin(PythonCodeRuntime, config)`; `config` has the fields of
    `PythonConfig`. Loading starts the zygote and the first process, and fails there when that is
    not possible.

    Args:
        ctx: The context that loads it.
        config: A mapping with fields of `PythonConfig`, such a config, or None for the defaults.

    Raises:
        ConfigError: a field of the config is wrong (at load).
        HostStartError: the interpreter does not do, or does not start (at load).
    """

    late_modules: ClassVar[tuple[str, ...]] = (f"{__package__}._process", f"{__package__}._session")

    def __init__(self, ctx: Context, config: object = None) -> None:
        self._config = PythonConfig.from_mapping(config)
        super().__init__(ctx, config, self._config)
        self._python = sys.executable
        if self._config.preload and self._start_method != "zygote":
            raise ConfigError(OWNER, "preload", "given", "nothing without start_method 'zygote'")

    @property
    def language(self) -> str:
        """`python`."""
        return "python"

    @property
    def isolation(self) -> str:
        """`process`: a label, never a security claim."""
        return "process"

    @asynccontextmanager
    async def lifespan(self) -> AsyncIterator[None]:
        """Find the interpreter, then hold the zygote and the processes."""
        self._python = await find_interpreter(self._config.python_bin)
        async with super().lifespan():
            yield

    def make_host(self, wardens: WardenKeeper, directories: RunDirectories) -> ProgramProcess:
        """Make a process that is not started yet."""
        from ._process import ProgramProcess

        return ProgramProcess(
            wardens, self._python, self._config, directories, forks=self._start_method == "zygote"
        )

    def make_session(
        self, request: CodeRunRequest, program: bytes, settlement: Settlement, host: ProgramProcess
    ) -> PythonSession:
        """Make the session of a run."""
        from ._session import PythonSession

        return PythonSession(request, self._config, settlement, host, self.task_group, program)

    def make_wardens(self, folder: str) -> WardenKeeper:
        """Make the keeper of the zygote, or of the warden that starts interpreters."""
        if self._start_method == "spawn":
            return WardenKeeper(folder)
        zygote = Zygote(str(CHILD_FOLDER), "_child.__main__:rehearse()", self._config.preload)
        return WardenKeeper(folder, python=self._python, zygote=zygote)

    def fail_early(self, kind: FailureKind, message: str) -> CodeRunResult:
        """Build the result of a run that has failed before it had a process."""
        return CodeRunResult([], error=CodeRunFailure(kind, message))

    async def check_start(self, error: HostBootError | None) -> None:
        """Refuse an installation on which no process comes up."""
        reason = None if error is None else str(error)
        if reason is None and self._start_method == "spawn":
            # Nothing is heard of a started interpreter before its first run.
            trial = await self.run_unchecked(CodeRunRequest("return 1"))
            reason = None if trial.error is None else trial.error.message
        if reason is not None:
            raise HostStartError(f"the interpreter {self._python!r}", reason, "CPython that runs")

    def explain_wardens(self, error: Exception) -> HostStartError:
        """Say why the zygote does not come up: the interpreter, or a module of `preload`."""
        if sys.platform not in ("linux", "darwin"):
            return super().explain_wardens(error)
        return HostStartError(
            f"the interpreter {self._python!r}", str(error), "CPython that imports what it needs"
        )

    @classmethod
    async def doctor(cls) -> list[ProviderCheck]:
        """Say which interpreter runs the programs; see `ProviderCheck`."""
        try:
            python = await find_interpreter(None)
        except CodeRuntimeError as error:
            return [ProviderCheck("Interpreter", False, str(error), "set python_bin")]
        version = ".".join(map(str, sys.version_info[:3]))
        return [ProviderCheck("Interpreter", True, f"CPython {version} ({python})")]

    @property
    def _start_method(self) -> str:
        default = "zygote" if sys.platform == "linux" else "spawn"
        return self._config.start_method or default
