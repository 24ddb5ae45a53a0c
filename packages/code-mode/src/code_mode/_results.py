"""What a call of a tool gives back to the model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias, final

from ._tools import JsonObject

ErrorCode: TypeAlias = Literal[
    "CODE_RUN_FAILED", "UNKNOWN_TOOL", "INVALID_ARGUMENTS", "TOOL_FAILED", "ABORTED", "DENIED"
]
CallOutcome: TypeAlias = Literal["ok", "error", "denied", "cancelled", "abandoned"]


@final
@dataclass(frozen=True, slots=True)
class ToolCallRecord:
    """One call of a tool by a program.

    Units: milliseconds; `started_ms` counts from the start of `run_code`.

    Args:
        call_id: `<outer id>:code:<number>`, numbers from 1 in the order of submission (CM-062).
        tool_name: The tool.
        outcome: `ok`; `error`: it failed; `denied`: a hook refused it; `cancelled`: the run was
            over first; `abandoned`: it was never started.
        started_ms: When it was started; None when it was not.
        duration_ms: How long it took; None when it was not started.
    """

    call_id: str
    tool_name: str
    outcome: CallOutcome
    started_ms: float | None = None
    duration_ms: float | None = None


@final
@dataclass(frozen=True, slots=True)
class ToolResult:
    """What the model gets for one call of a tool.

    Args:
        text: The text for the model; of a failure it begins with `Error: `.
        is_error: Whether the call failed.
        value: The JSON value of a call that succeeded; of `run_code` `{"logs": [...], "result":
            ...}`, where `result` is absent when the program returned nothing (CM-022).
        attachments: Content blocks in the form of MCP, such as images.
        error_code: Why it failed; None when it did not.
        calls: Of `run_code`: the calls of the program in the order of their submission, also when
            it has failed or was aborted.
    """

    text: str
    is_error: bool = False
    value: object = None
    attachments: Sequence[JsonObject] = ()
    error_code: ErrorCode | None = None
    calls: Sequence[ToolCallRecord] = ()
