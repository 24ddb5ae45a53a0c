"""Makes a tool of a Python function: schemas from its signature, texts from its docstring."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final, cast, get_type_hints, overload

from ._errors import ToolDefinitionError, ToolError
from ._tools import ParallelRule, Tool, ToolContext, ToolFunction, ToolOutput, seen

if TYPE_CHECKING:
    from pydantic import BaseModel, TypeAdapter

_KINDS: Final = {
    inspect.Parameter.VAR_POSITIONAL: "*",
    inspect.Parameter.VAR_KEYWORD: "**",
}


@overload
def tool(function: ToolFunction, /) -> Tool: ...
@overload
def tool(
    *,
    name: str | None = None,
    description: str | None = None,
    parallel: ParallelRule = False,
    from_programs: bool = True,
    timeout_ms: float | None = None,
) -> Callable[[ToolFunction], Tool]: ...
def tool(
    function: ToolFunction | None = None,
    /,
    *,
    name: str | None = None,
    description: str | None = None,
    parallel: ParallelRule = False,
    from_programs: bool = True,
    timeout_ms: float | None = None,
) -> Tool | Callable[[ToolFunction], Tool]:
    """Make a tool of a function, as `@tool` or `@tool(parallel=True)`.

    Each parameter is a named argument: its annotation gives the schema (any type that pydantic
    knows), the docstring its description, in Google, NumPy or Sphinx style. A parameter annotated
    with `ToolContext` is filled in. The annotation of the result gives the output schema, and the
    result is turned into JSON by it.

    Args:
        function: The function, plain or async.
        name: The name; the function's own when None.
        description: What it does; the docstring's first part when None.
        parallel: As for `Tool`.
        from_programs: As for `Tool`.
        timeout_ms: As for `Tool`.

    Raises:
        ToolDefinitionError: It is no function, or a parameter cannot be named or has no schema.
    """

    def make(function: ToolFunction) -> Tool:
        reader = _Signature(function)
        return Tool(
            name or reader.name,
            reader.description if description is None else description,
            reader.input_schema,
            reader.output_schema,
            call=reader.make_call(),
            parallel=parallel,
            from_programs=from_programs,
            takes_context=True,
            timeout_ms=timeout_ms,
        )

    return make if function is None else make(function)


class _Signature:
    """What the signature and the docstring of a function say."""

    def __init__(self, function: ToolFunction) -> None:
        # Both libraries take longer to import than all of this package.
        import docstring_parser
        from pydantic import TypeAdapter
        from pydantic.errors import PydanticUserError

        if not callable(function):
            raise ToolDefinitionError("tool", "function", seen(function), "a function")
        self.name: str = getattr(function, "__name__", type(function).__name__)
        self._owner = f"tool {self.name!r}"
        self._function = function
        doc = docstring_parser.parse(inspect.getdoc(function) or "")
        parts = (doc.short_description, doc.long_description)
        self.description = "\n\n".join(part for part in parts if part)
        notes = {param.arg_name: param.description or "" for param in doc.params}
        try:
            hints = get_type_hints(function, include_extras=True)
        except Exception as error:
            raise self._fault("annotations", str(error), "names that can be resolved") from None
        self._context: str | None = None
        self._positional: list[str] = []
        try:
            self._model = self._make_model(hints, notes)
            self.input_schema = _clean(self._model.model_json_schema())
            self._result: TypeAdapter[object] | None = None
            self.output_schema: Mapping[str, object] | None = None
            returned = hints.get("return", object)
            if returned not in (object, ToolOutput):
                self._result = TypeAdapter(returned)
                self.output_schema = _clean(self._result.json_schema(mode="serialization"))
        except PydanticUserError as error:
            reason = str(error).partition("\n")[0]
            raise self._fault("annotations", reason, "types that have a JSON Schema") from None

    def make_call(self) -> ToolFunction:
        """Return the function of the tool, which takes the arguments as one object."""
        function = self._function

        async def call(arguments: Mapping[str, object], context: ToolContext) -> object:
            values = self._read(arguments)
            if self._context is not None:
                values[self._context] = context
            args = [values.pop(name) for name in self._positional if name in values]
            result = function(*args, **values)
            return self._write(await result if inspect.isawaitable(result) else result)

        return call

    def _make_model(self, hints: Mapping[str, object], notes: Mapping[str, str]) -> type[BaseModel]:
        from pydantic import ConfigDict, Field, create_model

        fields: dict[str, object] = {}
        for parameter in inspect.signature(self._function).parameters.values():
            if parameter.kind in _KINDS:
                name = f"{_KINDS[parameter.kind]}{parameter.name}"
                raise self._fault("parameters", f"{name!r} among others", "named parameters only")
            hint = hints.get(parameter.name, object)
            if hint is ToolContext:
                self._context = parameter.name
                continue
            if parameter.kind is inspect.Parameter.POSITIONAL_ONLY:
                self._positional.append(parameter.name)
            default = ... if parameter.default is inspect.Parameter.empty else parameter.default
            # By alias: a field of a model cannot begin with an underscore, a parameter can.
            info = Field(
                default, alias=parameter.name, description=notes.get(parameter.name) or None
            )
            fields[f"field_{parameter.name}"] = (hint, info)
        config = ConfigDict(extra="forbid", arbitrary_types_allowed=False)
        make = cast("Callable[..., type[BaseModel]]", create_model)
        return make(self.name, __config__=config, **fields)

    def _read(self, arguments: Mapping[str, object]) -> dict[str, object]:
        from pydantic import ValidationError

        try:
            model = self._model.model_validate(dict(arguments))
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            path = "".join(f"[{p}]" if isinstance(p, int) else f".{p}" for p in first["loc"])
            raise ToolError(f"Cannot call {self.name}: ${path}: {first['msg']}") from None
        # What was not given is left to the function's own defaults.
        return {
            name.removeprefix("field_"): getattr(model, name) for name in model.model_fields_set
        }

    def _write(self, result: object) -> object:
        from pydantic_core import to_jsonable_python

        if isinstance(result, ToolOutput):
            return ToolOutput(self._write(result.value), result.attachments)
        if self._result is not None:
            return self._result.dump_python(result, mode="json")
        return to_jsonable_python(result)

    def _fault(self, field: str, what: str, expected: str) -> ToolDefinitionError:
        return ToolDefinitionError(self._owner, field, what, expected)


def _clean(schema: Mapping[str, object]) -> dict[str, object]:
    """Return a schema without the titles that pydantic makes up from the names."""
    return cast("dict[str, object]", _without_titles(schema))


def _without_titles(node: object, *, is_names: bool = False) -> object:
    # Schemas of annotations are as deep as somebody has typed them: recursion is safe here.
    if isinstance(node, list):
        return [_without_titles(item) for item in node]
    if not isinstance(node, dict):
        return node
    return {
        key: _without_titles(value, is_names=not is_names and key in ("properties", "$defs"))
        for key, value in node.items()
        if is_names or key != "title" or not isinstance(value, str)
    }
