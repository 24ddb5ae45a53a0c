"""The abstract service that every provider implements."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, ClassVar, Final

from ._service import Service

if TYPE_CHECKING:
    from ._vocabulary import CodeRunRequest, CodeRunResult

SERVICE_KEY: Final = "codeRuntime"


class CodeRuntime(Service, ABC):
    """Run programs in isolation; read as `ctx.codeRuntime` (SC-001).

    A provider has one operation and no knobs on it: every limit is config of the provider, checked
    when it is loaded, and everything a run acts on is in the request (SC-006, SC-007).
    """

    service_key: ClassVar[str | None] = SERVICE_KEY

    @property
    @abstractmethod
    def language(self) -> str:
        """The language of the programs, lower case, such as `typescript` or `python` (SC-004)."""

    @property
    @abstractmethod
    def isolation(self) -> str:
        """What keeps programs apart, such as `worker-thread` or `process` (SC-005).

        It is a label, never a security claim.
        """

    @abstractmethod
    async def run(self, request: CodeRunRequest) -> CodeRunResult:
        """Run one program to its end.

        Whatever the program does, its failure included, is a value in the result. Runs may overlap.
        Cancelling the awaiting task kills the program, waits until it is gone, and goes on with the
        cancellation.

        Args:
            request: The program and all that it may use.

        Raises:
            BindingNameError: A name in the request is not allowed.
            RuntimeDisposedError: The runtime is disposed, or about to be.
            ForkedHostError: This process is a fork of the one that started the runtime.
        """
