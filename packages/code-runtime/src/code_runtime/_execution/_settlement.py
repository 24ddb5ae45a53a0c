"""The one outcome of a run: the first that is decided wins, later ones change nothing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import final

import anyio

from code_runtime._vocabulary import FailureKind


@dataclass(frozen=True, slots=True)
class Completed:
    """The program ended by itself.

    Args:
        content: What it returned, in the form of the provider; hostile until it is judged.
    """

    content: object


@dataclass(frozen=True, slots=True)
class Failed:
    """The run failed.

    Args:
        kind: One of the failure kinds.
        message: Text for a model.
        by_program: The program's own terminal message said so; its process is healthy.
    """

    kind: FailureKind
    message: str
    by_program: bool = False


@dataclass(frozen=True, slots=True)
class Lost:
    """The process ended or broke the protocol; what it means is known once it is gone.

    Args:
        reason: What was seen, None when the end of the process says it all.
        error: Text of an error that the process reported before it went, or None.
        exit_code: The code of a worker that ended by itself, or None.
    """

    reason: str | None = None
    error: str | None = None
    exit_code: int | None = None


Outcome = Completed | Failed | Lost


@final
class Settlement:
    """Decided once, by whoever comes first."""

    __slots__ = ("_decided", "_scopes")

    def __init__(self) -> None:
        # Its setdefault is one atomic step, so that any thread and a signal handler may decide.
        self._decided: dict[str, Outcome] = {}
        self._scopes: set[anyio.CancelScope] = set()

    @property
    def outcome(self) -> Outcome | None:
        """The outcome that won, None while the run goes on."""
        return self._decided.get("outcome")

    def decide(self, outcome: Outcome) -> bool:
        """Settle the run, on its event loop; return whether this outcome won."""
        won = self.claim(outcome)
        if won:
            self.wake()
        return won

    def claim(self, outcome: Outcome) -> bool:
        """Settle the run from any thread or signal handler; who wins sees that `wake` is called."""
        return self._decided.setdefault("outcome", outcome) is outcome

    def wake(self) -> None:
        """Interrupt who waits for something else than the outcome, once one is decided."""
        if self._decided:
            for scope in self._scopes:
                scope.cancel()

    @contextmanager
    def interrupts(self) -> Iterator[None]:
        """Cancel the body as soon as an outcome is decided; then go on after it."""
        with anyio.CancelScope() as scope:
            self._scopes.add(scope)
            try:
                if self._decided:
                    scope.cancel()
                yield
            finally:
                self._scopes.discard(scope)

    def reopen(self) -> bool:
        """Take back that the process was lost: nothing of the program had run.

        Returns:
            Whether the run can be tried again; the caller asks its other sources anew.
        """
        if not isinstance(self.outcome, Lost):
            return False
        self._decided.clear()
        return True
