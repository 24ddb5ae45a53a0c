"""What a tool is: a name, a text, two schemas and a function."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Final, TypeAlias, final

from code_runtime import AbortSignal

from ._errors import ToolDefinitionError

JsonObject: TypeAlias = Mapping[str, object]
"""A JSON object: strings to JSON values."""

ToolFunction: TypeAlias = Callable[..., object]
"""A plain or async function of the arguments, or of the arguments and a `ToolContext`."""

ParallelRule: TypeAlias = "bool | Callable[[JsonObject], object]"

RUN_CODE: Final = "run_code"
SEARCH_TOOLS: Final = "search_tools"
DESCRIBE_TOOL: Final = "describe_tool"
RESERVED_NAMES: Final = (RUN_CODE, SEARCH_TOOLS, DESCRIBE_TOOL)
MAX_NAME_CHARS: Final = 256


@final
@dataclass(frozen=True, slots=True)
class ToolContext:
    """What a tool may know of the call that it serves.

    Args:
        tool_name: The name under which it was called.
        call_id: Names the call; of a call from a program `<outer id>:code:<number>` (CM-062).
        signal: Fires when the call is no longer wanted: the run is over (CM-058), the model's call
            was aborted, or the call has taken longer than it may.
        log: Adds a live line to the outer call, for instance progress; never part of the result.
    """

    tool_name: str
    call_id: str
    signal: AbortSignal
    log: Callable[[str], None]


@final
@dataclass(frozen=True, slots=True)
class ToolOutput:
    """A value with blocks beside it that are for the model and not for the program.

    Args:
        value: A JSON value, what a program gets.
        attachments: Content blocks in the form of MCP, such as
            `{"type": "image", "data": "<base64>", "mimeType": "image/png"}`.
    """

    value: object
    attachments: Sequence[JsonObject] = ()


@final
@dataclass(frozen=True, slots=True, repr=False, eq=False)
class Tool:
    """A function that a model may call, by itself or from a program.

    Args:
        name: Any non-empty string of at most 256 characters; `run_code`, `search_tools` and
            `describe_tool` are taken.
        description: What it does, for the model.
        input_schema: The JSON Schema of its arguments, an object.
        output_schema: The JSON Schema of its result; None when nothing is promised.
        call: The function, plain or async. It gets the arguments, a dict that is its own, and gives
            a JSON value or a `ToolOutput`; whatever it raises is the failure of the call. A plain
            function runs on the event loop, which stands still until it returns.
        parallel: Whether calls may overlap others of their kind; a function decides by the
            arguments, and only `True` allows it (CM-063).
        from_programs: Whether programs may call it.
        takes_context: Whether `call` wants a `ToolContext` as its second argument.
        timeout_ms: How long a call may take; None leaves the registry's limit.
        trusts_schema: Whether the schemas come from the host's own code, with patterns that
            Python's `re` understands. Of foreign ones `pattern`, `patternProperties`, `uniqueItems`
            and the `unevaluated…` keywords are left to the owner of the tool: they can keep a host
            busy for as long as they like, and the patterns are those of JavaScript.

    Raises:
        ToolDefinitionError: A field has the wrong type, or the name cannot be used.
    """

    name: str
    description: str
    input_schema: JsonObject
    output_schema: JsonObject | None = None
    _: KW_ONLY
    call: ToolFunction
    parallel: ParallelRule = False
    from_programs: bool = True
    takes_context: bool = False
    timeout_ms: float | None = None
    trusts_schema: bool = True

    def __post_init__(self) -> None:
        owner = f"tool {self.name!r}" if isinstance(self.name, str) else "tool"
        checks: tuple[tuple[str, object, bool, str], ...] = (
            ("name", self.name, _is_name(self.name), "a string of 1 to 256 characters"),
            ("description", self.description, isinstance(self.description, str), "a string"),
            ("input_schema", self.input_schema, _is_object_schema(self.input_schema), _OBJECT),
            (
                "output_schema",
                self.output_schema,
                self.output_schema is None or isinstance(self.output_schema, Mapping),
                "a JSON Schema, or None",
            ),
            ("call", self.call, callable(self.call), "a function"),
            (
                "parallel",
                self.parallel,
                isinstance(self.parallel, bool) or callable(self.parallel),
                "a bool, or a function of the arguments",
            ),
            ("from_programs", self.from_programs, type(self.from_programs) is bool, "a bool"),
            ("takes_context", self.takes_context, type(self.takes_context) is bool, "a bool"),
            ("trusts_schema", self.trusts_schema, type(self.trusts_schema) is bool, "a bool"),
            (
                "timeout_ms",
                self.timeout_ms,
                is_limit(self.timeout_ms),
                "a positive, finite number of milliseconds, or None",
            ),
        )
        for field, value, is_right, expected in checks:
            if not is_right:
                raise ToolDefinitionError(owner, field, seen(value), expected)

    def __repr__(self) -> str:
        return f"Tool({self.name!r})"


_OBJECT: Final = 'a JSON Schema of an object, such as {"type": "object", "properties": {}}'


def is_limit(value: object) -> bool:
    """Tell whether a value is None or a positive, finite number."""
    if value is None:
        return True
    return (
        isinstance(value, (int, float)) and not isinstance(value, bool) and 0 < value < float("inf")
    )


def seen(value: object) -> str:
    """Describe a refused value in a few words."""
    if value is None or isinstance(value, (bool, int, float)):
        return repr(value)[:80]
    if isinstance(value, str):
        return repr(value if len(value) <= 80 else value[:79] + "…")
    return f"an object of type {type(value).__name__}"


def _is_name(value: object) -> bool:
    return isinstance(value, str) and 0 < len(value) <= MAX_NAME_CHARS


def _is_object_schema(value: object) -> bool:
    return isinstance(value, Mapping) and value.get("type", "object") == "object"
