"""What a schema says beside its type, in a few words: `1 to 100, default 10`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from .json_text import is_json, is_list, is_number, number_text, short_json

MAX_VALUE_CHARS: Final = 80
_MAX_EXAMPLES: Final = 3
_MAX_CONSTRAINTS: Final = 12
_MAX_EACH_CHARS: Final = 300

_COUNTS: Final = (
    ("minLength", "maxLength", "character", "characters"),
    ("minItems", "maxItems", "item", "items"),
    ("minProperties", "maxProperties", "key", "keys"),
)
_KEYWORDS: Final = frozenset(
    {
        *("format", "pattern", "default", "examples", "deprecated", "uniqueItems", "multipleOf"),
        *("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"),
        *(keyword for count in _COUNTS for keyword in count[:2]),
    }
)


def describe_constraints(schema: Mapping[str, object]) -> tuple[str, ...]:
    """Say the constraints of one schema, without those of its parts.

    Args:
        schema: A JSON Schema; keywords with a value that is not theirs are left out.

    Returns:
        Short texts such as `format date-time`, `1 to 100`, `default 10`.
    """
    return () if _KEYWORDS.isdisjoint(schema) else tuple(_constraints(schema))


def join_constraints(parts: Sequence[tuple[str, ...]]) -> tuple[str, ...]:
    """Put constraints together, each once, at most a dozen of them."""
    return tuple(dict.fromkeys(text for part in parts for text in part))[:_MAX_CONSTRAINTS]


def constraints_of_items(description: str, constraints: tuple[str, ...]) -> tuple[str, ...]:
    """Say of an array what its items are."""
    note = compose_note(description, constraints)
    if not note.strip():
        return ()
    text = f"each: {note}" if description.strip() else f"each {note}"
    return (short_text(text, _MAX_EACH_CHARS),)


def descriptions_of_branches(texts: Sequence[str]) -> str:
    """Say what the branches of a union are, when they are described and the union is not."""
    said = [" ".join(text.split()) for text in texts if text.strip()]
    if len(said) < 2:
        return "".join(said)
    return short_text("Either " + "; or ".join(said), _MAX_EACH_CHARS)


def compose_note(description: str, constraints: tuple[str, ...]) -> str:
    """Put a description and constraints together: `How many (1 to 100, default 10)`."""
    said = ", ".join(constraints)
    if not said:
        return description
    return f"{description.rstrip()} ({said})" if description.strip() else said


def short_text(text: str, max_chars: int = MAX_VALUE_CHARS) -> str:
    """Cut a text after a number of characters with `…`."""
    return text if len(text) <= max_chars else text[: max_chars - 1] + "…"


def _constraints(schema: Mapping[str, object]) -> Iterator[str]:
    shape = schema.get("format")
    if isinstance(shape, str) and shape:
        yield f"format {short_text(shape)}"
    yield from _range(schema)
    step = schema.get("multipleOf")
    if is_number(step):
        yield f"a multiple of {number_text(step)}"
    for low_key, high_key, one, many in _COUNTS:
        yield from _count(schema.get(low_key), schema.get(high_key), one, many)
    if schema.get("uniqueItems") is True:
        yield "no item twice"
    pattern = schema.get("pattern")
    if isinstance(pattern, str) and pattern:
        yield f"pattern {short_text(pattern)}"
    if "default" in schema and is_json(schema["default"]):
        yield f"default {short_json(schema['default'], MAX_VALUE_CHARS)}"
    examples = schema.get("examples")
    if is_list(examples):
        said = [
            short_json(example, MAX_VALUE_CHARS)
            for example in examples[:_MAX_EXAMPLES]
            if is_json(example)
        ]
        if said:
            yield "for example " + " or ".join(said)
    if schema.get("deprecated") is True:
        yield "deprecated"


def _range(schema: Mapping[str, object]) -> Iterator[str]:
    low, high = schema.get("minimum"), schema.get("maximum")
    above, below = schema.get("exclusiveMinimum"), schema.get("exclusiveMaximum")
    # Draft 4 had booleans here, which make the limit beside them exclusive.
    if above is True:
        low, above = None, low
    if below is True:
        high, below = None, high
    if is_number(low) and is_number(high):
        yield f"{number_text(low)} to {number_text(high)}" if low != high else number_text(low)
    elif is_number(low):
        yield f"at least {number_text(low)}"
    elif is_number(high):
        yield f"at most {number_text(high)}"
    if is_number(above):
        yield f"more than {number_text(above)}"
    if is_number(below):
        yield f"less than {number_text(below)}"


def _count(low: object, high: object, one: str, many: str) -> Iterator[str]:
    lowest = low if is_number(low) and low > 0 else None
    highest = high if is_number(high) else None
    if lowest is not None and highest is not None:
        text = number_text(highest)
        if lowest != highest:
            text = f"{number_text(lowest)} to {text}"
        yield f"{text} {one if text == '1' else many}"
    elif lowest is not None:
        yield f"at least {number_text(lowest)} {one if lowest == 1 else many}"
    elif highest is not None:
        yield f"at most {number_text(highest)} {one if highest == 1 else many}"
