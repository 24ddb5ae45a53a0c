"""The SDK text in Python, for whatever schemas and names servers send.

The schemas are made by `random` from a number that Hypothesis draws: large ones, drawn one by one,
take seconds each.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable

from hypothesis import given, settings
from hypothesis import strategies as st

from code_mode._sdk.python import describe, render_sdk
from code_mode._tools import RESERVED_NAMES, Tool

WORDS = [
    *("a", "b", "Node", "DoArgs", "do", "from", "class", "match", "type", "None", "str", "list"),
    *("dict", "int", "Any", "Literal", "NotRequired", "TypedDict", "Tools", "tools", "self"),
    *(
        "ToolCallError",
        "__a",
        "_a",
        "a-b",
        "__debug__",
        "__class__",
        "__slots__",
        "__annotations__",
    ),
]
ODD = "ab1_-. \"'\\\n\r\t\0\x1c\x7f\x85\u2028\ud800\udfff\u0301`#{}[]ﬁß½日😀"
KINDS = ["string", "number", "integer", "boolean", "null", "array", "object"]
REFERENCES = ["#", *(f"#/$defs/{name}" for name in ("Node", "a", "list", "a-b", "gone"))]
MAX_SCHEMAS = 60


class Maker:
    """Makes tools with hostile names, texts and schemas."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._schemas_left = MAX_SCHEMAS

    def tools(self) -> list[Tool]:
        made = {
            tool.name: tool for tool in (self.tool() for _ in range(self._random.randint(0, 4)))
        }
        return list(made.values())

    def tool(self) -> Tool:
        name = self.name()
        while not name or name in RESERVED_NAMES:
            name = self.name()
        self._schemas_left = MAX_SCHEMAS
        definitions = {word: self.schema() for word in ("Node", "a", "list", "a-b")}
        arguments = {"$defs": definitions, **self.keywords(), "type": "object"}
        output = self._random.choice([None, {"$defs": definitions, **self.keywords()}])
        return Tool(name, self.text(), arguments, output, call=len)

    def text(self) -> str:
        return "".join(self._random.choices(ODD, k=self._random.randint(0, 12)))

    def name(self) -> str:
        return self._random.choice(WORDS) if self._random.random() < 0.7 else self.text()

    def value(self, depth: int = 0) -> object:
        draw = self._random
        match draw.randint(0, 6 if depth < 2 else 4):
            case 0:
                return draw.choice([None, True, False])
            case 1:
                return draw.choice([0, -1, 1, 2**60, 10**400, -(10**5000)])
            case 2:
                return draw.choice([0.0, 1.0, -0.5, 1e21, 1e308, float("inf"), float("nan")])
            case 3 | 4:
                return self.name()
            case 5:
                return [self.value(depth + 1) for _ in range(draw.randint(0, 2))]
            case _:
                return {self.name(): self.value(depth + 1) for _ in range(draw.randint(0, 2))}

    def schema(self) -> object:
        self._schemas_left -= 1
        draw = self._random.random()
        if self._schemas_left < 0 or draw < 0.3:
            return {"type": self._random.choice(KINDS)}
        if draw < 0.4:
            return self.value()
        return {"$ref": self._random.choice(REFERENCES)} if draw < 0.6 else self.keywords()

    def keywords(self) -> dict[str, object]:
        """Some keywords; each is right, or now and then of any wrong type."""
        makers: dict[str, Callable[[], object]] = {
            "type": lambda: self._random.choice([self._random.choice(KINDS), KINDS[:2], ["array"]]),
            "description": self.text,
            "enum": lambda: [self.value() for _ in range(self._random.randint(0, 4))],
            "const": self.value,
            "properties": self._members,
            "required": lambda: [self.name() for _ in range(3)],
            "additionalProperties": lambda: self._random.choice([True, False, self.schema()]),
            "items": self.schema,
            "oneOf": self._branches,
            "anyOf": self._branches,
            "allOf": self._branches,
            "$ref": lambda: self._random.choice(REFERENCES),
            "default": self.value,
            "format": self.text,
            "minimum": self.value,
        }
        chosen = self._random.sample(list(makers), self._random.randint(0, 4))
        if self._random.random() < 0.4:
            chosen.append("properties")
        return {
            key: self.value() if self._random.random() < 0.1 else makers[key]() for key in chosen
        }

    def _members(self) -> dict[str, object]:
        return {self.name(): self.schema() for _ in range(self._random.randint(0, 4))}

    def _branches(self) -> list[object]:
        return [self.schema() for _ in range(self._random.randint(0, 4))]


seeds = st.integers(0, 2**32)


def run(block: str) -> dict[str, object]:
    """Execute declarations, which must be UTF-8 text."""
    assert block.encode().decode() == block
    scope: dict[str, object] = {"__name__": "declared"}
    exec(compile(block, "<sdk>", "exec", dont_inherit=True), scope)
    return scope


@settings(max_examples=400)
@given(seed=seeds, names_only=st.booleans())
def test_every_text_is_python_that_runs(*, seed: int, names_only: bool) -> None:
    text = render_sdk(Maker(seed).tools(), names_only=names_only)
    found = re.fullmatch(r".*?\n(`{3,})python\n(.*)\n\1\n", text, re.DOTALL)
    assert found
    assert found[1] not in found[2]
    assert {"ToolCallError", "Tools"} <= run(found[2]).keys()


@settings(max_examples=100)
@given(seeds)
def test_the_same_tools_give_the_same_bytes(seed: int) -> None:
    tools = Maker(seed).tools()
    shuffled = random.Random(seed).sample(tools, len(tools))
    assert render_sdk(shuffled) == render_sdk(tools)
    assert render_sdk(shuffled, names_only=True) == render_sdk(tools, names_only=True)


@settings(max_examples=200)
@given(seeds)
def test_every_description_is_python_that_runs(seed: int) -> None:
    assert "Tools" in run(describe(Maker(seed).tool()))
