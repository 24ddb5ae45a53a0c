"""The SDK text for a runtime that runs TypeScript (CM-029 to CM-042)."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from typing import Final, NamedTuple

from .._tools import DESCRIBE_TOOL, RUN_CODE, SEARCH_TOOLS, Tool
from . import typescript_text as fixed
from .schema import read_schema
from .shapes import AnyShape, ObjectShape, SchemaShape, Shape
from .typescript_source import TypeNames, comment_text, doc_lines, fenced, key_text, literal_text
from .typescript_types import indent_text, type_text

_MAX_LISTED_CHARS: Final = 80
# A chain of definitions of which only the last one differs takes a round for each; few are so long.
_MAX_ROUNDS: Final = 10
_ANYTHING: Final = SchemaShape(AnyShape(), {}, "")


class _Declaration(NamedTuple):
    """The parts of one tool's declaration, each as lines."""

    aliases: str
    args: str
    output: str
    args_note: str
    output_note: str


def render_sdk(tools: Sequence[Tool], *, names_only: bool = False) -> str:
    """Render what a model must know to write programs over some tools.

    Args:
        tools: The tools in any order; `run_code` is never declared.
        names_only: Whether to list the names only, with the tools that find and describe the rest.

    Returns:
        Markdown with one fenced block of TypeScript; the same tools give the same text.
    """
    ordered = _in_order(tools)
    if names_only:
        found = [tool for tool in ordered if tool.name not in (SEARCH_TOOLS, DESCRIBE_TOOL)]
        return f"{fixed.HEADING}\n{fixed.RULES}{fixed.FINDING}\n{fenced(_listed(found))}"
    return f"{fixed.HEADING}\n{fixed.RULES}\n{fenced(_declared(ordered))}"


def describe(tool: Tool) -> str:
    """Render the declaration of one tool alone, as TypeScript that builds on `JsonValue`.

    Args:
        tool: The tool.

    Returns:
        The aliases of its schemas, then `tools` with this one member.
    """
    declaration = _declare(tool, TypeNames(fixed.TAKEN_NAMES), 1)
    indent = indent_text(1)
    note = declaration.args_note
    if comment_text(declaration.output_note):
        note = f"{note} Gives: {declaration.output_note}"
    return (
        f"{declaration.aliases}declare const tools: {{\n{doc_lines(note, indent)}"
        f"{indent}{key_text(tool.name)}: (args: {declaration.args})"
        f" => Promise<{declaration.output}>;\n}};\n"
    )


def _in_order(tools: Sequence[Tool]) -> list[Tool]:
    """Sort by UTF-16 code units, as JavaScript does (CM-032)."""
    by_name = {tool.name: tool for tool in tools if tool.name != RUN_CODE}
    return sorted(
        by_name.values(), key=lambda tool: tool.name.encode("utf-16-be", errors="surrogatepass")
    )


def _declared(tools: Sequence[Tool]) -> str:
    names = TypeNames(fixed.TAKEN_NAMES)
    aliases: list[str] = []
    args: list[str] = []
    outputs: list[str] = []
    indent = indent_text(1)
    for tool in tools:
        declaration = _declare(tool, names, 1)
        key = indent + key_text(tool.name)
        aliases.append(declaration.aliases)
        args.append(f"{doc_lines(declaration.args_note, indent)}{key}: {declaration.args};\n")
        outputs.append(
            f"{doc_lines(declaration.output_note, indent)}{key}: {declaration.output};\n"
        )
    blocks = (
        fixed.JSON_VALUE,
        "".join(aliases).removesuffix("\n"),
        _interface("ToolArgsMap", args),
        _interface("ToolOutputMap", outputs),
        fixed.TOOL_NAME,
        fixed.TOOL_CALL_ERROR,
        fixed.TOOLS,
    )
    return "\n".join(block for block in blocks if block)


def _listed(tools: Sequence[Tool]) -> str:
    blocks = (
        fixed.JSON_VALUE,
        fixed.FINDING_ARGS,
        fixed.FINDING_OUTPUT,
        _names(tools),
        fixed.LISTED_NAME,
        fixed.TOOL_CALL_ERROR,
        fixed.LISTED_TOOLS,
    )
    return "\n".join(blocks)


def _names(tools: Sequence[Tool]) -> str:
    if not tools:
        return "type ListedToolName = never;\n"
    lines: list[str] = []
    for tool in tools:
        end = ";" if tool is tools[-1] else ""
        note = comment_text(_first_words(tool.description))
        lines.append(f"  | {literal_text(tool.name)}{end}{' // ' if note else ''}{note}\n")
    return "type ListedToolName =\n" + "".join(lines)


def _first_words(description: str) -> str:
    """Give the first sentences that fit on a line, or else the first words."""
    words = " ".join(description.split())
    if len(words) <= _MAX_LISTED_CHARS:
        return words
    head = words[:_MAX_LISTED_CHARS]
    sentences, stop, _ = head.rpartition(". ")
    if stop:
        return f"{sentences}."
    return (head[:-1].rpartition(" ")[0] or head[:-1]) + "…"


def _interface(name: str, members: Sequence[str]) -> str:
    return f"interface {name} {{\n{''.join(members)}}}\n" if members else f"interface {name} {{}}\n"


def _declare(tool: Tool, names: TypeNames, level: int) -> _Declaration:
    given = read_schema(tool.input_schema)
    result = _ANYTHING if tool.output_schema is None else read_schema(tool.output_schema)
    args_alias_of = {name: names.choose(tool.name, name) for name in given.definitions}
    shared = _shared_names(given, result)
    output_alias_of = {
        name: args_alias_of[name] if name in shared else names.choose(tool.name, "Output", name)
        for name in result.definitions
    }
    return _Declaration(
        _aliases(given, args_alias_of) + _aliases(result, output_alias_of, shared),
        type_text(_without_further_keys(given.root), args_alias_of, level),
        type_text(result.root, output_alias_of, level),
        _args_note(tool.description, given.note),
        result.note,
    )


def _without_further_keys(shape: Shape) -> Shape:
    """Leave unsaid that an object of arguments may have undeclared keys: nobody should use them."""
    if isinstance(shape, ObjectShape) and shape.fields and isinstance(shape.extra, AnyShape):
        return ObjectShape(shape.fields, None)
    return shape


def _shared_names(given: SchemaShape, result: SchemaShape) -> frozenset[str]:
    """Give the definitions of a result that the arguments have, word for word.

    A definition is the same only if those to which it refers are; each round takes out the ones
    that the round before has made different.
    """
    in_given = {name: f"={name}" for name in given.definitions}
    shared = frozenset(in_given).intersection(result.definitions)
    texts = {name: type_text(given.definitions[name], in_given) for name in shared}
    for _ in range(_MAX_ROUNDS):
        in_result = {name: ("=" if name in shared else "!") + name for name in result.definitions}
        same = frozenset(
            name
            for name in shared
            if texts[name] == type_text(result.definitions[name], in_result)
            and given.definition_notes.get(name) == result.definition_notes.get(name)
        )
        if same == shared:
            return shared
        shared = same
    return frozenset()


def _aliases(
    schema: SchemaShape, alias_of: Mapping[str, str], left_out: Container[str] = ()
) -> str:
    return "".join(
        f"{doc_lines(schema.definition_notes.get(name, ''), '')}"
        f"type {alias_of[name]} = {type_text(shape, alias_of)};\n\n"
        for name, shape in schema.definitions.items()
        if name not in left_out
    )


def _args_note(description: str, schema_note: str) -> str:
    """Put what the schema of the arguments says after what the tool says, unless it is the same."""
    said, more = comment_text(description), comment_text(schema_note)
    if not more or more in said:
        return description
    return f"{description} Arguments: {schema_note}" if said else schema_note
