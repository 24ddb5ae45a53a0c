"""Checks arguments and results of tools against their JSON Schemas."""

from __future__ import annotations

from collections.abc import Mapping
from contextvars import ContextVar
from functools import cache, partial
from itertools import islice
from typing import TYPE_CHECKING, Final, TypeVar, cast, final

import anyio.to_thread

from code_runtime.provider_kit import measure

from ._errors import ToolDefinitionError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from jsonschema.exceptions import ValidationError
    from jsonschema.protocols import Validator

    from ._tools import JsonObject, Tool

    FindErrors = Callable[[object], Iterable[ValidationError]]
    Check = Callable[
        [object, object, object, Mapping[str, object]], Iterable[ValidationError] | None
    ]

R = TypeVar("R")

# Values with more parts than this are checked in a thread: a check takes some microseconds a part.
INLINE_PARTS: Final = 500
INLINE_BYTES: Final = 100_000
MAX_TEXT_CHARS: Final = 500
MAX_ERRORS: Final = 50
# References that are followed in one check by a foreign schema: a few seconds at the most.
MAX_REFERENCES: Final = 20_000
_references_left: Final = ContextVar("code_mode_references_left", default=0)
# What a hostile schema can make slow without bound; the owner of the tool checks them anyway.
_UNSAFE: Final = (
    "pattern",
    "patternProperties",
    "uniqueItems",
    "unevaluatedItems",
    "unevaluatedProperties",
)
_REFERENCES: Final = ("$ref", "$dynamicRef", "$recursiveRef")


class _TooMuchError(Exception):
    """A check by a foreign schema has followed too many references."""


@final
class ToolValidator:
    """Checks what goes into one tool and what comes out of it.

    Raises:
        ToolDefinitionError: A schema of the tool is no JSON Schema.
    """

    __slots__ = ("_input", "_output")

    def __init__(self, tool: Tool) -> None:
        owner = f"tool {tool.name!r}"
        self._input = _validator(owner, "input_schema", tool.input_schema, tool.trusts_schema)
        self._output = (
            None
            if tool.output_schema is None
            else _validator(owner, "output_schema", tool.output_schema, tool.trusts_schema)
        )

    async def find_input_fault(self, arguments: object) -> str | None:
        """Return what is wrong with arguments, such as `$.count is 'ten', …`; None for nothing."""
        return await _find_fault(self._input, arguments)

    async def find_output_fault(self, value: object) -> str | None:
        """Return what is wrong with a result; None for nothing."""
        return None if self._output is None else await _find_fault(self._output, value)


def _validator(owner: str, field: str, schema: JsonObject, is_trusted: bool) -> FindErrors:
    # Importing jsonschema takes longer than everything else here, and a host may have no tool.
    import jsonschema
    import jsonschema.validators
    from referencing import Registry

    plain = dict(schema)
    try:
        kind = jsonschema.validators.validator_for(plain, jsonschema.Draft202012Validator)
        # The check of a large schema takes seconds; what a foreign one means is found out later.
        if is_trusted:
            kind.check_schema(plain)
        elif is_small(plain):
            # Without formats: a pattern of JavaScript, such as `\p{L}`, may be none of Python.
            check = cast("Callable[..., None]", kind.check_schema)
            check(plain, format_checker=jsonschema.FormatChecker(formats=()))
    except Exception as error:  # a schema may hold anything, such as a URI that is none
        reason = getattr(error, "message", None) or type(error).__name__
        seen = f"no JSON Schema ({_shorten(str(reason))})"
        raise ToolDefinitionError(owner, field, seen, "a JSON Schema") from None
    if not is_trusted:
        kind = _without_unsafe(kind)
        find_errors = cast("FindErrors", kind(plain, registry=Registry()).iter_errors)
        return partial(_find_bounded, find_errors)
    # With a registry of its own the library fetches nothing that a schema refers to.
    return cast("FindErrors", kind(plain, registry=Registry()).iter_errors)


@cache
def _without_unsafe(kind: type[Validator]) -> type[Validator]:
    import jsonschema.validators

    checks = cast("Mapping[str, Check]", kind.VALIDATORS)
    changed: dict[str, Check] = dict.fromkeys(_UNSAFE, _accept)
    for keyword in _REFERENCES:
        if keyword in checks:
            changed[keyword] = _counted(checks[keyword])
    if "additionalProperties" in checks:
        changed["additionalProperties"] = _without_patterns(checks["additionalProperties"])
    extend = cast("Callable[..., type[Validator]]", jsonschema.validators.extend)
    return extend(kind, changed)


def _counted(follow: Check) -> Check:
    def check(
        validator: object, value: object, instance: object, schema: Mapping[str, object]
    ) -> Iterator[ValidationError]:
        left = _references_left.get()
        if left <= 0:
            raise _TooMuchError
        _references_left.set(left - 1)
        yield from follow(validator, value, instance, schema) or ()

    return check


def _without_patterns(find: Check) -> Check:
    """Make a check that does nothing where patterns say which properties are additional."""

    def check(
        validator: object, value: object, instance: object, schema: Mapping[str, object]
    ) -> Iterable[ValidationError] | None:
        if schema.get("patternProperties"):
            return None
        return find(validator, value, instance, schema)

    return check


def _find_bounded(find_errors: FindErrors, value: object) -> Iterator[ValidationError]:
    """Find errors by a foreign schema, whose references may make the work grow without bound.

    When that is too much, the rest is left to the owner of the tool.
    """
    token = _references_left.set(MAX_REFERENCES)
    try:
        yield from list(islice(find_errors(value), MAX_ERRORS))
    except _TooMuchError:
        return
    finally:
        _references_left.reset(token)


def _accept(
    validator: object, value: object, instance: object, schema: Mapping[str, object]
) -> None:
    """Check nothing."""


async def _find_fault(find_errors: FindErrors, value: object) -> str | None:
    return await run_sized(value, lambda: _fault(find_errors, value))


async def check_json(value: object) -> None:
    """Check that a value can go to a program.

    Raises:
        LosslessJsonError: It cannot.
    """
    if value is None or type(value) is str or type(value) is bool:
        return
    if is_small(value) and measure(value, INLINE_BYTES) is not None:
        return
    await anyio.to_thread.run_sync(measure, value)


async def run_sized(value: object, work: Callable[[], R]) -> R:
    """Do what takes time for each part of a value: here if it has few, else in a thread."""
    return work() if is_small(value) else await anyio.to_thread.run_sync(work)


def is_small(value: object) -> bool:
    """Tell whether a value has few parts; at most that many are looked at."""
    count = 1
    waiting = [value]
    while waiting:
        item = waiting.pop()
        if isinstance(item, (Mapping, list, tuple)):
            count += len(item)
            if count > INLINE_PARTS:
                return False
            waiting.extend(item.values() if isinstance(item, Mapping) else item)
    return True


def _fault(find_errors: FindErrors, value: object) -> str | None:
    from jsonschema.exceptions import best_match
    from referencing.exceptions import Unresolvable

    try:
        # A list of a million wrong items has a million errors; a few are enough to choose from.
        error = best_match(islice(find_errors(value), MAX_ERRORS))
    except RecursionError:
        return "$ is nested too deep to be checked"
    except Unresolvable as missing:
        return f"the schema refers to {_shorten(missing.ref)}, which is not part of it"
    except Exception as fault:  # of a schema that nobody has checked
        return f"the schema cannot be used ({_shorten(type(fault).__name__)})"
    return None if error is None else f"{_shorten(error.json_path)}: {_message(error)}"


def _message(error: ValidationError) -> str:
    text: object = error.instance
    if error.validator == "maxLength" and isinstance(text, str):
        # The library puts the whole text first.
        return f"{len(text):,} characters are more than {error.validator_value:,}"
    return _shorten(error.message)


def _shorten(text: str) -> str:
    return text if len(text) <= MAX_TEXT_CHARS else text[: MAX_TEXT_CHARS - 1] + "…"
