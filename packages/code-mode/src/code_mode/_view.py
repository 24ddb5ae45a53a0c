"""What one agent is shown of the registry, and what its calls do."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import nullcontext
from typing import TYPE_CHECKING, Final, final

from code_runtime import AbortSignal
from code_runtime.provider_kit import LosslessJsonError

from ._cancel import cancelled_by
from ._dispatch import Dispatch
from ._hooks import ToolCall, ToolReply
from ._render import render_value, shorten_middle
from ._results import ErrorCode, ToolCallRecord, ToolResult
from ._run_code import describe_run_code, run_code, run_code_schema
from ._sdk import render_sdk
from ._search import make_describe_tool, make_search_tool
from ._telemetry import call_span
from ._tools import RUN_CODE, Tool
from ._validation import run_sized

if TYPE_CHECKING:
    from ._registry import ToolRegistry
    from ._settings import Mode

CODE_ONLY_RULE: Final = (
    "`run_code` is the only tool that you can call directly; a direct call of any other name "
    "fails. The tools below are reached from inside its program."
)
ABORTED: Final = "the call was aborted"
NOT_STARTED: Final = "the call was aborted before it was started"


@final
class ToolView:
    """Some tools of a registry in one mode; made by `ToolRegistry.view`."""

    __slots__ = ("_allow", "_deny", "_mode", "_registry", "_run_code", "_sdk")

    def __init__(
        self,
        registry: ToolRegistry,
        mode: Mode,
        allow: frozenset[str] | None,
        deny: frozenset[str] | tuple[()],
    ) -> None:
        self._registry = registry
        self._mode: Mode = mode
        self._allow = allow
        self._deny = deny
        self._sdk: tuple[tuple[Tool, ...], str, bool] | None = None
        self._run_code = self._make_run_code()

    @property
    def mode(self) -> Mode:
        """How the model is shown the tools."""
        return self._mode

    @property
    def language(self) -> str:
        """The language of the programs."""
        return self._registry.language

    def tools(self) -> tuple[Tool, ...]:
        """Return the tools of this view, by name; `run_code` is none of them."""
        return tuple(
            tool
            for tool in self._registry.registered()
            if (self._allow is None or tool.name in self._allow) and tool.name not in self._deny
        )

    def wire_tools(self) -> tuple[Tool, ...]:
        """Return the tools that go to the model as such (CM-002 to CM-004).

        `code`: `run_code` alone; `native`: the tools of the view; `both`: these and `run_code`.
        """
        tools = () if self._mode == "code" else self.tools()
        return tools if self._mode == "native" else (*tools, self._run_code)

    def sdk_text(self) -> str:
        """Return the text that declares the tools to the model, for its system prompt.

        The same tools give the same bytes. It is empty in mode `native`. Above
        `names_only_above_bytes` it has names only, and programs get `tools.search_tools` and
        `tools.describe_tool`.
        """
        if self._mode == "native":
            return ""
        text = self._render()[1]
        return f"{CODE_ONLY_RULE}\n\n{text}" if self._mode == "code" else text

    async def call(
        self,
        name: str,
        arguments: object,
        *,
        signal: AbortSignal | None = None,
        on_log: Callable[[str], object] | None = None,
        call_id: str | None = None,
    ) -> ToolResult:
        """Do what the model asks for.

        Whatever goes wrong is a result with `is_error`, fit to be sent back. Cancelling the task
        ends the program and its calls, waits for them, and goes on with the cancellation.

        Args:
            name: The tool that the model named.
            arguments: The arguments, a JSON object.
            signal: Ends the call when it fires.
            on_log: Takes each line that a program prints, and live lines of tools, as they come.
            call_id: The id that the model's API gave to the call.

        Raises:
            Exception: Whatever `on_log` raised.
        """
        call_id = call_id or self._registry.next_call_id()
        if signal is not None and signal.aborted:
            return _failure(NOT_STARTED, "ABORTED")
        tool = {tool.name: tool for tool in self.wire_tools()}.get(name)
        if tool is None:
            return self._refuse(name)
        inner = AbortSignal()
        remove = signal.add_listener(lambda: inner.abort(signal.reason)) if signal else None
        try:
            call = ToolCall(name, _as_object(arguments), call_id, None, inner)
            result = _failure(ABORTED, "ABORTED")
            dispatch: list[Dispatch] = []
            # Not `inner`, which also fires when a program is over and its result is still to come.
            with nullcontext() if signal is None else cancelled_by(signal):
                result = await self._call(tool, arguments, call, on_log, dispatch)
        finally:
            if remove is not None:
                remove()
            # Whatever outlives the call learns that it is over (CM-058).
            inner.abort("the call is over")
        is_aborted = signal is not None and signal.aborted
        if not is_aborted:
            return result
        records = dispatch[0].records if dispatch else ()
        return _failure(ABORTED, "ABORTED", (), records)

    async def _call(
        self,
        tool: Tool,
        arguments: object,
        call: ToolCall,
        on_log: Callable[[str], object] | None,
        made: list[Dispatch],
    ) -> ToolResult:
        pipeline = self._registry.pipeline
        if not isinstance(arguments, Mapping):
            return _failure(f"Cannot call {tool.name}: expected an object", "INVALID_ARGUMENTS")
        if tool is self._run_code and (fault := _find_slip(arguments)):
            return _failure(f"Cannot call {tool.name}: {fault}", "INVALID_ARGUMENTS")
        ready = await pipeline.decide(call)
        if isinstance(ready, ToolReply):
            return await self._result(ready, "DENIED")
        check = await pipeline.find_check(tool, ready.arguments)
        if isinstance(check, str):
            return _failure(check, "INVALID_ARGUMENTS")
        if call.signal.aborted:  # by a hook, behind which nothing has awaited yet
            return _failure(NOT_STARTED, "ABORTED")
        log = _Lines(on_log)
        records: tuple[ToolCallRecord, ...] = ()
        code: ErrorCode = "TOOL_FAILED"
        if tool is self._run_code:
            code = "CODE_RUN_FAILED"
            reply, records = await self._run_program(ready, log, made)
        else:
            reply = await pipeline.execute(tool, check, ready, log)
        reply = await pipeline.conclude(ready, reply)
        log.raise_fault()
        return await self._result(reply, code, records)

    async def _run_program(
        self, call: ToolCall, log: Callable[[str], None], made: list[Dispatch]
    ) -> tuple[ToolReply, tuple[ToolCallRecord, ...]]:
        settings = self._registry.settings
        with call_span(call) as span:
            dispatch = Dispatch(
                call,
                self._bound_tools(),
                self._registry.pipeline,
                max_parallel_calls=settings.max_parallel_calls,
                max_calls=settings.max_calls,
                log=log,
            )
            made.append(dispatch)  # what is cancelled has no result that could tell of its calls
            reply, records = await run_code(self._registry.runtime, call, dispatch, log)
            span.end_with(reply.error)
        return reply, records

    def _bound_tools(self) -> dict[str, Tool]:
        """Return what a program may call, as it is at its start (CM-082)."""
        tools, _, is_names_only = self._render()
        bound = {tool.name: tool for tool in tools}
        if is_names_only:
            for helper in (
                make_search_tool(lambda: tools),
                make_describe_tool(lambda: tools, self.language),
            ):
                bound[helper.name] = helper
        return bound

    def _render(self) -> tuple[tuple[Tool, ...], str, bool]:
        """Return the tools of programs, their text, and whether that has names only."""
        tools = tuple(tool for tool in self.tools() if tool.from_programs)
        if self._sdk is None or self._sdk[0] != tools:
            text, is_names_only = render_sdk(self.language, tools), False
            if len(text.encode()) > self._registry.settings.names_only_above_bytes:
                text, is_names_only = render_sdk(self.language, tools, names_only=True), True
            self._sdk = (tools, text, is_names_only)
        return self._sdk

    def _refuse(self, name: str) -> ToolResult:
        if name == RUN_CODE or all(tool.name != name for tool in self.tools()):
            return _failure(f"Unknown tool: {name}", "UNKNOWN_TOOL")
        error = (
            f"Unknown tool: {name} cannot be called directly, only `run_code` can; call it inside "
            f"a program as a member of `tools`"
        )
        return _failure(error, "UNKNOWN_TOOL")

    async def _result(
        self, reply: ToolReply, code: ErrorCode, records: tuple[ToolCallRecord, ...] = ()
    ) -> ToolResult:
        limit = self._registry.settings.max_result_chars
        if reply.error is not None:
            text = shorten_middle(reply.error, limit)
            return _failure(text, code, tuple(reply.attachments), records)
        try:
            text = await _text_of(reply)
        except LosslessJsonError as error:
            return _failure(f"Cannot use the result: {error}, expected JSON", code, (), records)
        return ToolResult(
            shorten_middle(text, limit),
            value=reply.value,
            attachments=tuple(reply.attachments),
            calls=records,
        )

    def _make_run_code(self) -> Tool:
        async def call(arguments: Mapping[str, object]) -> object:
            return (await self.call(RUN_CODE, arguments)).value

        language = self.language
        schema = run_code_schema(language)
        return Tool(RUN_CODE, describe_run_code(language), schema, call=call, from_programs=False)


@final
class _Lines:
    """Hands live lines to a host; after a failure none, and the failure is raised at the end."""

    __slots__ = ("_fault", "_on_log")

    def __init__(self, on_log: Callable[[str], object] | None) -> None:
        self._on_log = on_log
        self._fault: Exception | None = None

    def __call__(self, line: str) -> None:
        if self._on_log is not None and self._fault is None:
            try:
                self._on_log(line)
            except Exception as error:
                self._fault = error

    def raise_fault(self) -> None:
        """Raise what the host's function has raised."""
        if self._fault is not None:
            raise self._fault


async def _text_of(reply: ToolReply) -> str:
    if reply.text is not None:
        return str(reply.text)
    return await run_sized(reply.value, lambda: render_value(reply.value))


def _as_object(arguments: object) -> dict[str, object]:
    return dict(arguments) if isinstance(arguments, Mapping) else {}


def _find_slip(arguments: Mapping[str, object]) -> str | None:
    """Return what models get wrong most often, in words that help (CM-018, CM-019)."""
    for name in ("code", "description"):
        if not isinstance(arguments.get(name), str):
            return f"`{name}` is missing or no string, expected both `code` and `description`"
    if not str(arguments["description"]).strip():
        return "`description` is blank, expected what the program does in 5 to 10 words"
    return None


def _failure(
    error: str,
    code: ErrorCode,
    attachments: tuple[Mapping[str, object], ...] = (),
    records: tuple[ToolCallRecord, ...] = (),
) -> ToolResult:
    return ToolResult(
        f"Error: {error}",
        is_error=True,
        attachments=attachments,
        error_code=code,
        calls=records,
    )
