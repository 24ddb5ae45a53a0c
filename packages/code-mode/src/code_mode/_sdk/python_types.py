"""Python types for shapes: an expression for each, and classes and aliases above it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, TypeGuard, final

from ._steps import Steps, run_steps
from .python_names import ClassNames, camel_case, class_base, is_field_name, join_base
from .python_text import literal_parts, plain, quoted_type, string_literal
from .shapes import (
    AnyShape,
    ArrayShape,
    FieldShape,
    LiteralShape,
    NeverShape,
    ObjectShape,
    PrimitiveShape,
    ReferenceShape,
    SchemaShape,
    Shape,
    UnionShape,
)

# CPython reads at most 200 open brackets on a logical line; some stay for `Literal`, groups of
# branches, and the brackets of a field or a method (CM-054).
MAX_NESTING: Final = 180

# The compiler recurses once for each `|` of a chain, so long unions become groups of this size.
MAX_CHAIN: Final = 64

_PRIMITIVES: Final = {
    "string": "str",
    "number": "float",
    "integer": "int",
    "boolean": "bool",
    "null": "None",
}
_MORE_KEYS: Final = "# Further keys are allowed"


@final
@dataclass(frozen=True, slots=True)
class TypeText:
    """A type as an expression.

    Args:
        text: The expression, on one line.
        uses: The names of `typing` in it.
        missing: Classes and aliases that it names outside of any string and that are not defined
            yet, so that evaluating it now would fail.
    """

    text: str
    uses: frozenset[str] = frozenset()
    missing: frozenset[str] = frozenset()

    @property
    def safe(self) -> str:
        """The expression, as a string if it names what is not defined yet."""
        return quoted_type(self.text) if self.missing else self.text


ANY: Final = TypeText("Any", frozenset({"Any"}))
_DICT: Final = TypeText("dict[str, Any]", frozenset({"Any"}))


@final
class Declarations:
    """The classes and aliases of one text, in the order in which Python can execute them."""

    def __init__(self) -> None:
        self.names = ClassNames()
        self.blocks: list[str] = []
        self.uses: set[str] = set()
        self.defined: set[str] = set()

    def add(self, name: str, block: str, uses: Iterable[str]) -> None:
        """Add a block that defines a name."""
        self.blocks.append(block)
        self.uses.update(uses)
        self.defined.add(name)

    def declare(self, schema: SchemaShape, base: str) -> tuple[TypeText, str]:
        """Declare all that a schema needs.

        Args:
            schema: The schema.
            base: What the names of its own classes begin with.

        Returns:
            Its type, and its note on one line unless a class tells it.
        """
        return _SchemaTypes(self, schema).declare(base)


@final
class _SchemaTypes:
    def __init__(self, module: Declarations, schema: SchemaShape) -> None:
        self._module = module
        self._schema = schema
        self._name_of: dict[str, str] = {}
        self._deferred: dict[str, tuple[TypeText, str]] = {}

    def declare(self, base: str) -> tuple[TypeText, str]:
        root, note = self._schema.root, plain(self._schema.note)
        if _is_class(root):
            text = run_steps(self._class(root, base, note))
            note = ""
        else:
            text = run_steps(self._type(root, base, 0))
        while self._deferred:
            run_steps(self._settle(next(iter(self._deferred))))
        return TypeText(text.text, text.uses), note

    def _type(self, shape: Shape, base: str, nesting: int) -> Steps[TypeText]:
        match shape:
            case PrimitiveShape(kind=kind):
                return TypeText(_PRIMITIVES[kind])
            case LiteralShape(values=values):
                return _union(_literals(values))
            case ReferenceShape(name=name):
                return (yield self._reference(name))
            case UnionShape():
                return (yield self._branches(shape, base, nesting))
            case ArrayShape(item=item):
                return (yield self._container("list[{}]", item, base, nesting))
            case ObjectShape(extra=extra):
                if _is_class(shape) or extra is None:
                    return (yield self._class(shape, base, ""))
                if isinstance(extra, AnyShape):
                    return _DICT
                base = join_base(base, "Value")
                return (yield self._container("dict[str, {}]", extra, base, nesting))
            case AnyShape() | NeverShape():
                return ANY

    def _container(self, form: str, item: Shape, base: str, nesting: int) -> Steps[TypeText]:
        if nesting >= MAX_NESTING:
            return ANY
        inner = yield self._type(item, base, nesting + 1)
        return TypeText(form.format(inner.safe), inner.uses)

    def _branches(self, shape: UnionShape, base: str, nesting: int) -> Steps[TypeText]:
        """Spell a union and the unions right inside it as one."""
        branches: list[TypeText] = []
        values: list[object] = []
        first_literal = 0
        pending: list[tuple[Shape, str]] = [(shape, base)]
        while pending:
            branch, name = pending.pop()
            if isinstance(branch, UnionShape):
                inner = [
                    (part, join_base(name, str(number)))
                    for number, part in enumerate(branch.branches, 1)
                ]
                pending.extend(reversed(inner))
            elif isinstance(branch, LiteralShape):
                if not values:
                    first_literal = len(branches)
                values.extend(branch.values)
            elif not isinstance(branch, NeverShape):
                branches.append((yield self._type(branch, name, nesting)))
        branches[first_literal:first_literal] = _literals(values)
        return _union(branches)

    def _reference(self, name: str) -> Steps[TypeText]:
        if name not in self._name_of:
            shape = self._schema.definitions.get(name)
            if shape is None or isinstance(shape, (AnyShape, NeverShape)):
                return ANY
            self._name_of[name] = self._module.names.take(class_base(name))
            yield self._define(name, shape)
        known = self._name_of[name]
        return TypeText(known, missing=frozenset({known} - self._module.defined))

    def _define(self, name: str, shape: Shape) -> Steps[TypeText]:
        known, note = self._name_of[name], plain(self._schema.definition_notes.get(name, ""))
        if _is_class(shape):
            return (yield self._fields(shape, known, note))
        text = yield self._type(shape, known, 0)
        if text.missing:
            # It names a class around it, or another alias that waits; both are there later.
            self._deferred[known] = (text, note)
        else:
            self._add_alias(known, text, note)
        return text

    def _settle(self, name: str) -> Steps[TypeText]:
        text, note = self._deferred.pop(name)
        for missing in sorted(text.missing):
            if missing in self._deferred:
                yield self._settle(missing)
        self._add_alias(name, text if text.missing <= self._module.defined else ANY, note)
        return text

    def _add_alias(self, name: str, text: TypeText, note: str) -> None:
        lines = [*_comment(note, ""), f"{name} = {text.text}"]
        self._module.add(name, "\n".join(lines), text.uses)

    def _class(self, shape: ObjectShape, base: str, note: str) -> Steps[TypeText]:
        name = self._module.names.take(base)
        return (yield self._fields(shape, name, note))

    def _fields(self, shape: ObjectShape, name: str, note: str) -> Steps[TypeText]:
        """Declare a class: the usual form, or a call where a key is no name (CM-051)."""
        is_plain = all(is_field_name(field.name) for field in shape.fields)
        uses = {"TypedDict"}
        lines = _comment(note, "    ")
        for field in shape.fields:
            base = join_base(name, camel_case(field.name))
            text = yield self._type(field.shape, base, 1)
            uses |= text.uses if field.required else {*text.uses, "NotRequired"}
            lines += _field_lines(field, text.safe, is_plain=is_plain)
        if shape.extra is not None and not isinstance(shape.extra, NeverShape):
            text = yield self._type(shape.extra, join_base(name, "Value"), 1)
            is_any = isinstance(shape.extra, AnyShape)
            uses |= set() if is_any else text.uses
            lines.append(f"    {_MORE_KEYS}" + ("" if is_any else f": {text.text}"))
        if is_plain:
            body = lines if shape.fields else [*lines, "    pass"]
            block = [f"class {name}(TypedDict):", *body]
        else:
            block = [f"{name} = TypedDict({string_literal(name)}, {{", *lines, "})"]
        self._module.add(name, "\n".join(block), uses)
        return TypeText(name)


def _is_class(shape: Shape) -> TypeGuard[ObjectShape]:
    if not isinstance(shape, ObjectShape):
        return False
    return bool(shape.fields) or shape.extra is None or isinstance(shape.extra, NeverShape)


def _field_lines(field: FieldShape, text: str, *, is_plain: bool) -> list[str]:
    name = field.name if is_plain else string_literal(field.name)
    spelled = text if field.required else f"NotRequired[{text}]"
    end = "" if is_plain else ","
    return [*_comment(plain(field.note), "    "), f"    {name}: {spelled}{end}"]


def _comment(note: str, indent: str) -> list[str]:
    return [f"{indent}# {note}"] if note else []


def _literals(values: Iterable[object]) -> list[TypeText]:
    return [
        TypeText(part, frozenset({"Literal"} if part.startswith("Literal[") else {"Any"}))
        if part.endswith("]") or part == "Any"
        else TypeText(part)
        for part in literal_parts(values)
    ]


def _union(branches: Iterable[TypeText]) -> TypeText:
    """Put branches together, each once, None at the end."""
    texts = list(dict.fromkeys(branch.text for branch in branches))
    if "None" in texts:
        texts.remove("None")
        texts.append("None")
    while len(texts) > MAX_CHAIN:
        texts = [_group(texts[at : at + MAX_CHAIN]) for at in range(0, len(texts), MAX_CHAIN)]
    uses = frozenset().union(*(branch.uses for branch in branches))
    missing = frozenset().union(*(branch.missing for branch in branches))
    return TypeText(" | ".join(texts), uses, missing) if texts else ANY


def _group(texts: list[str]) -> str:
    return f"({' | '.join(texts)})" if len(texts) > 1 else texts[0]
