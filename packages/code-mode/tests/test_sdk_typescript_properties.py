"""Whatever a server sends: reading never raises, and the TypeScript text is bytes that compile."""

from __future__ import annotations

from random import Random
from typing import Final

from hypothesis import given, settings
from hypothesis import strategies as st
from typescript_compiler import type_errors

from code_mode import Tool
from code_mode._sdk.schema import read_schema
from code_mode._sdk.typescript import describe, render_sdk
from code_mode._sdk.typescript_text import JSON_VALUE
from code_mode._tools import RESERVED_NAMES

PIECES: Final = (
    *("a", "Node", "*/", "/*", "//", "`", "```", "~~~", "\\", '"', "'", "${", "}", "{{x}}", ";"),
    *("\n", "\r", "\t", "\0", "\x1b", "\x85", "\u2028", "\u2029", "\u202e", "\ufeff", "\ud800"),
    *("\udfff", "é", "😀", "__proto__", "constructor", "1", " ", "|", "&", "#/", "~1", "%"),
)
TYPES: Final = ("string", "number", "integer", "boolean", "null", "object", "array", "file")
DEFINITIONS: Final = ("A", "B", "C", "a b", "a/b", "é", "")
REFERENCES: Final = (
    *("#/$defs/A", "#/$defs/B", "#/$defs/C", "#/$defs/a%20b", "#/$defs/a~1b", "#/$defs/é"),
    *("#/$defs/", "#", "#/$defs", "#/properties/a", "#/$defs/A/properties/b", "#x", "x.json"),
)
SCHEMA_KEYWORDS: Final = ("items", "additionalProperties")
LIST_KEYWORDS: Final = ("anyOf", "oneOf", "allOf", "prefixItems", "items")
OBJECT_KEYWORDS: Final = ("properties", "patternProperties")
OTHER_KEYWORDS: Final = (
    *("enum", "const", "required", "nullable", "description", "format", "minimum", "maximum"),
    *("exclusiveMinimum", "minLength", "maxLength", "pattern", "minItems", "uniqueItems"),
    *("multipleOf", "default", "examples", "deprecated", "$id"),
)
KEYWORDS: Final = (
    *("type", "$ref", "$defs"),
    *(*SCHEMA_KEYWORDS, *LIST_KEYWORDS, *OBJECT_KEYWORDS, *OTHER_KEYWORDS),
)


class Hostile:
    """Makes up schemas and tools that few authors would write.

    Args:
        random: Decides everything.
    """

    def __init__(self, random: Random) -> None:
        self._random = random

    def text(self) -> str:
        return "".join(self._random.choices(PIECES, k=self._random.randrange(5)))

    def junk(self, depth: int = 2) -> object:
        scalars = (
            *(None, True, False, 0, -1, 2**70, 10**400, 0.5, -0.0, 1e300, float("nan")),
            *(float("-inf"), self.text(), self._random.choice(TYPES)),
        )
        if depth == 0 or self._random.random() < 0.6:
            return self._random.choice(scalars)
        count = self._random.randrange(4)
        if self._random.random() < 0.5:
            return [self.junk(depth - 1) for _ in range(count)]
        return {self.text(): self.junk(depth - 1) for _ in range(count)}

    def schema(self, depth: int = 4) -> object:
        chance = self._random.random()
        if chance < 0.05:
            return self.junk()
        if chance < 0.1:
            return self._random.random() < 0.5
        if chance < 0.25:
            return {"$ref": self._random.choice(REFERENCES)}
        return self.keywords(depth)

    def keywords(self, depth: int) -> dict[str, object]:
        made: dict[str, object] = {}
        for _ in range(self._random.randrange(4)):
            keyword = self._random.choice(KEYWORDS)
            made[keyword] = self._value_of(keyword, depth)
        return made

    def document(self) -> dict[str, object]:
        definitions = {name: self.schema() for name in self._random.sample(DEFINITIONS, k=4)}
        properties = {self._name(): self.schema() for _ in range(3)}
        return {"properties": properties, **self.keywords(3), "$defs": definitions}

    def tools(self) -> list[Tool]:
        # Two names that are one in UTF-16 are one name of a program.
        made: dict[bytes, Tool] = {}
        for _ in range(self._random.randrange(4)):
            name = self.text() or "t"
            if name not in RESERVED_NAMES:
                made[name.encode("utf-16-be", "surrogatepass")] = Tool(
                    name,
                    self.text(),
                    {**self.document(), "type": "object"},
                    self.document() if self._random.random() < 0.7 else None,
                    call=print,
                )
        return list(made.values())

    def _name(self) -> str:
        return self._random.choice(("a", "b", "__proto__", self.text()))

    def _value_of(self, keyword: str, depth: int) -> object:
        if depth == 0 or self._random.random() < 0.1:
            return self.junk()
        count = self._random.randrange(4)
        if keyword == "type":
            types = self._random.choices(TYPES, k=count)
            return types if self._random.random() < 0.3 else self._random.choice(TYPES)
        if keyword == "$ref":
            return self._random.choice((*REFERENCES, self.text()))
        if keyword in LIST_KEYWORDS and (keyword != "items" or self._random.random() < 0.3):
            return [self.schema(depth - 1) for _ in range(count)]
        if keyword in OBJECT_KEYWORDS:
            return {self._name(): self.schema(depth - 1) for _ in range(count)}
        if keyword in SCHEMA_KEYWORDS:
            return self.schema(depth - 1)
        if keyword in ("enum", "examples"):
            return [self.junk() for _ in range(count)]
        if keyword == "required":
            return [self._name() for _ in range(count)]
        if keyword in ("description", "pattern", "format"):
            return self.text()
        return self.junk()


def source_of(text: str) -> str:
    """Take the fenced block from the end of a text, whose fence is nowhere else."""
    before, _, rest = text.partition("ts\n")
    fence = before.rpartition("\n")[2]
    assert fence.startswith("```")
    assert text.count(fence) == 2
    assert text.endswith(f"\n{fence}\n")
    return rest.removesuffix(f"{fence}\n")


@settings(max_examples=500, deadline=None)
@given(st.randoms(use_true_random=True))
def test_reading_never_raises(random: Random) -> None:
    """CM-040."""
    hostile = Hostile(random)
    for schema in (hostile.junk(), hostile.schema(), hostile.document()):
        whole = read_schema(schema)  # type: ignore[arg-type]
        assert whole.definitions.keys() == whole.definition_notes.keys()
        assert repr(read_schema(schema)) == repr(whole)  # type: ignore[arg-type]


def test_every_text_compiles() -> None:
    """CM-032, CM-035, CM-040: all texts of a search, with one run of the compiler."""
    sources: list[str] = []

    @settings(max_examples=300, deadline=None)
    @given(st.randoms(use_true_random=True))
    def collect(random: Random) -> None:
        tools = Hostile(random).tools()
        for names_only in (False, True):
            text = render_sdk(tools, names_only=names_only)
            assert text == render_sdk(tools[::-1], names_only=names_only)
            text.encode()
            sources.append(source_of(text))
        sources.extend(JSON_VALUE + describe(tool) for tool in tools)

    collect()
    messages = type_errors(sources)
    assert messages == [], explain(messages, sources)


def explain(messages: list[str], sources: list[str]) -> str:
    """Give the shortest source that does not compile, with what the compiler says of it."""
    numbers = {int(head) for each in messages if (head := each.partition(".ts(")[0]).isdigit()}
    shortest = min(numbers, key=lambda number: len(sources[number]), default=None)
    if shortest is None:
        return "\n".join(messages)
    said = [each for each in messages if each.startswith(f"{shortest}.ts(")]
    return "\n".join([*said, sources[shortest]])
