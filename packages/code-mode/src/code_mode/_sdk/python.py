"""The SDK text in Python: rules and declarations for a model that writes programs over tools."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from .._tools import DESCRIBE_TOOL, SEARCH_TOOLS, Tool
from .python_names import class_base, in_code_units, is_method_name
from .python_rules import rules
from .python_text import docstring, fence, plain, quoted_type, shortened, string_literal
from .python_types import ANY, Declarations, TypeText
from .schema import read_schema

_TYPING_NAMES: Final = ("Any", "Literal", "NotRequired", "Protocol", "TypedDict")
_ERROR_CLASS: Final = "class ToolCallError(Exception):\n    toolName: str"
_MAX_SUMMARY_CHARS: Final = 80
_WORD: Final = re.compile(r"[^\W\d]\w*")


class _Signature(NamedTuple):
    """What is declared of one tool."""

    name: str
    description: str
    input_schema: Mapping[str, object]
    output_schema: Mapping[str, object] | None


_FINDING: Final = (
    _Signature(
        DESCRIBE_TOOL,
        "Give the declaration of one tool: the types of its arguments and of its result.",
        {
            "type": "object",
            "properties": {"name": {"type": "string"}},
            "required": ["name"],
            "additionalProperties": False,
        },
        {"type": "string"},
    ),
    _Signature(
        SEARCH_TOOLS,
        "Find tools by words of their names and descriptions, the best match first.",
        {
            "type": "object",
            "properties": {"query": {"type": "string"}, "limit": {"type": "integer"}},
            "required": ["query"],
            "additionalProperties": False,
        },
        {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {"name": {"type": "string"}, "description": {"type": "string"}},
                "required": ["name", "description"],
                "additionalProperties": False,
            },
        },
    ),
)


def render_sdk(tools: Sequence[Tool], *, names_only: bool = False) -> str:
    """Give the text that tells a model how to write a Python program over some tools.

    The same tools give the same bytes, in whatever order they come. The declarations are Python
    that compiles and can be executed; the whole text can be encoded as UTF-8.

    Args:
        tools: The tools that a program may call; their names are unique.
        names_only: Whether to name the tools only, and to say how a program finds and reads the
            declarations.

    Source: CM-043 to CM-056.
    """
    if names_only:
        hidden = [tool for tool in tools if tool.name not in (SEARCH_TOOLS, DESCRIBE_TOOL)]
        block = _block(_FINDING, _names(hidden), is_whole=True)
    else:
        block = _block(map(_signature, tools), [], is_whole=True)
    ticks = fence(block)
    return f"{rules(names_only=names_only)}\n\n{ticks}python\n{block}\n{ticks}\n"


def describe(tool: Tool) -> str:
    """Give the declaration of one tool alone, as Python that compiles, without a fence."""
    return _block([_signature(tool)], [], is_whole=False) + "\n"


def _signature(tool: Tool) -> _Signature:
    return _Signature(tool.name, tool.description, tool.input_schema, tool.output_schema)


def _block(signatures: Iterable[_Signature], more: Sequence[str], *, is_whole: bool) -> str:
    """Put declarations into their order (CM-044).

    Args:
        signatures: The tools to declare.
        more: Lines that follow the methods.
        is_whole: Whether `ToolCallError` and `tools` are declared too.
    """
    ordered = sorted(signatures, key=lambda signature: in_code_units(signature.name))
    methods = frozenset(one.name for one in ordered if is_method_name(one.name))
    module = Declarations()
    members = [line for one in ordered for line in _member(one, module, methods)]
    body = [] if methods else ["    pass"]
    protocol = "\n".join(["class Tools(Protocol):", *body, *members, *more])
    uses = {*module.uses, "Protocol"}
    names = ", ".join(name for name in _TYPING_NAMES if name in uses)
    head = [f"from typing import {names}", *([_ERROR_CLASS] if is_whole else [])]
    tail = ["tools: Tools"] if is_whole else []
    return "\n\n".join([*head, *module.blocks, protocol, *tail])


def _member(one: _Signature, module: Declarations, methods: frozenset[str]) -> list[str]:
    """Declare one tool as a method, or as a comment where its name cannot be one."""
    arguments, about = module.declare(read_schema(one.input_schema), class_base(one.name, "Args"))
    result, returned = ANY, ""
    if one.output_schema is not None:
        schema = read_schema(one.output_schema)
        result, returned = module.declare(schema, class_base(one.name, "Output"))
    module.uses.update(arguments.uses | result.uses)
    description = plain(one.description)
    notes = [f"# Arguments: {about}"] if about else []
    notes += [f"# Returns: {returned}"] if returned else []
    if one.name not in methods:
        spelled = f"tools[{string_literal(one.name)}](args: {arguments.text}) -> {result.text}"
        below = [f"#     {description}"] if description else []
        return [
            f"    # {spelled}",
            *(f"    {line}" for line in below),
            *(f"    #     {line[2:]}" for line in notes),
        ]
    types = [_in_class(text, methods) for text in (arguments, result)]
    head = f"    async def {one.name}(self, args: {types[0]}) -> {types[1]}:"
    body = [docstring(description)] if description else []
    body += notes
    if not description:
        body.append("...")
    return [f"{head} ..."] if body == ["..."] else [head, *(f"        {line}" for line in body)]


def _in_class(text: TypeText, methods: frozenset[str]) -> str:
    """Spell a type inside the class; a tool that is called `list` must not hide the type."""
    return text.text if methods.isdisjoint(_WORD.findall(text.text)) else quoted_type(text.text)


def _names(tools: Iterable[Tool]) -> list[str]:
    """List tools by name, each with the beginning of its description."""
    lines = ["    # All other tools, called in the same way:"]
    for tool in sorted(tools, key=lambda tool: in_code_units(tool.name)):
        name = tool.name
        spelled = f"tools.{name}" if is_method_name(name) else f"tools[{string_literal(name)}]"
        summary = shortened(plain(tool.description), _MAX_SUMMARY_CHARS)
        lines.append(f"    # {spelled}" + (f": {summary}" if summary else ""))
    return lines if len(lines) > 1 else []
