"""The tool `run_code`: one program over all tools that it may call."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from code_runtime import (
    CodeBindingErrorClass,
    CodeBindingNamespace,
    CodeRunRequest,
    CodeRuntimeError,
)

from ._dispatch import Dispatch
from ._hooks import ToolReply
from ._program import normalize_program
from ._render import render_failure, render_success
from ._validation import run_sized

if TYPE_CHECKING:
    from code_runtime import CodeRunResult, CodeRuntime

    from ._hooks import ToolCall
    from ._results import ToolCallRecord
    from ._tools import JsonObject

NAMESPACE: Final = "tools"
ERROR_CLASS: Final = CodeBindingErrorClass("ToolCallError", "toolName")
_RULES: Final = {
    "typescript": (
        "The body of an async function in TypeScript, with erasable syntax only (no enum, no "
        "namespace). Call tools with `await tools.name({...})` as declared; use `console.log` "
        "and/or a top-level `return`."
    ),
    "python": (
        "The body of an async function in Python. Call tools with `await tools.name({...})` as "
        "declared; use `print` and/or a top-level `return`."
    ),
}
_NAMES: Final = {"typescript": "TypeScript", "python": "Python"}


def describe_run_code(language: str) -> str:
    """Return the description of the tool for the model (CM-020, CM-021)."""
    return (
        f"Run one {_NAMES[language]} program that calls the declared tools, as many as the task "
        "needs, in one go. Give it as `code`, and say in `description` what it does. `await` every "
        "call as declared. Only what the program prints or returns comes back to you; images of "
        "tools are attached after the run. The program starts fresh each time: nothing is kept "
        "from one run to the next."
    )


def run_code_schema(language: str) -> JsonObject:
    """Return the JSON Schema of its arguments (CM-018, CM-019)."""
    description = (
        "What the program does, in 5 to 10 words and active voice, for the person who watches: "
        "'Sums the open invoices of March', 'Renames all drafts to their titles'"
    )
    return {
        "type": "object",
        "properties": {
            "code": {"type": "string", "description": _RULES[language]},
            "description": {"type": "string", "description": description},
        },
        "required": ["code", "description"],
        "additionalProperties": False,
    }


async def run_code(
    runtime: CodeRuntime,
    call: ToolCall,
    dispatch: Dispatch,
    on_log: Callable[[str], object] | None,
) -> tuple[ToolReply, tuple[ToolCallRecord, ...]]:
    """Run the program of a call.

    Args:
        runtime: What runs it.
        call: The call; its signal ends the program.
        dispatch: Takes the calls of the program.
        on_log: Takes each line that it prints, while it runs.

    Returns:
        The reply, and the records of the calls that the program made.
    """
    program = normalize_program(str(call.arguments["code"]), runtime.language)
    namespace = CodeBindingNamespace(NAMESPACE, dispatch.functions, ERROR_CLASS)
    request = CodeRunRequest(program, [namespace], signal=call.signal, on_log=on_log, record=True)
    try:
        result = await runtime.run(request)
    except CodeRuntimeError as error:
        return ToolReply(error=str(error)), dispatch.records
    finally:
        dispatch.close()
    return await _reply(result, dispatch), dispatch.records


async def _reply(result: CodeRunResult, dispatch: Dispatch) -> ToolReply:
    attachments = dispatch.attachments
    if result.error is not None:
        previews = dispatch.previews(result.calls)
        text = render_failure(result.error, result.logs, dispatch.records, previews)
        return ToolReply(error=text, attachments=attachments)
    value: dict[str, object] = {"logs": result.logs}
    if result.has_value:
        value["result"] = result.value
    text = await run_sized(
        result.value, lambda: render_success(result.logs, result.has_value, result.value)
    )
    return ToolReply(value, attachments=attachments, text=text)
