"""The names that a request may give to namespaces, error classes and member properties.

One rule set for every provider: a list of namespaces that is valid on one is valid on all (SC-024).
So a name is refused if it is reserved in either language, and a provider that seeds another global
adds it here.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final, Protocol

from ._errors import BindingNameError

# Strict mode and module words included (SC-014).
_ECMASCRIPT_WORDS: Final = (
    "await break case catch class const continue debugger default delete do else enum export "
    "extends false finally for function if import in instanceof new null return super switch this "
    "throw true try typeof var void while with yield let static implements interface package "
    "private protected public arguments eval"
)
# With the soft keywords `match`, `case` (above), `type` and `_`, refused for safety (SC-015).
_PYTHON_WORDS: Final = (
    "False None True and as assert async def del elif except from global is lambda nonlocal not or "
    "pass raise match type _"
)

RESERVED_WORDS: Final = frozenset(f"{_ECMASCRIPT_WORDS} {_PYTHON_WORDS}".split())

RUNTIME_OWNED: Final = frozenset(
    {
        "console",  # the worker's own parameter beside the namespaces
        "__dsh_main__",  # the wrapper function of published hosts, which may run our requests
        "__builtins__",  # CPython puts it into the globals of each program
        "__name__",  # read by every class statement of a program
        "__debug__",  # a compile-time constant of CPython that cannot be assigned
    }
)

PROGRAM_OWNED: Final = frozenset(
    {
        # Constants in all but syntax: shadowing one changes what an honest program means (GP-010).
        *("undefined", "NaN", "Infinity", "globalThis"),
        # What nearly every TypeScript program uses to combine calls, convert and throw.
        *("Promise", "Object", "Array", "String", "Number", "Boolean", "Symbol", "Error"),
        *("JSON", "Math"),
        # What nearly every Python program uses to print, loop, convert and raise.
        *("print", "len", "range", "str", "int", "float", "bool", "list", "dict"),
        *("isinstance", "Exception"),
    }
)

ERROR_OWNED: Final = frozenset(
    {
        *("name", "message", "stack"),  # of a JavaScript Error
        *("args", "with_traceback", "add_note"),  # of a Python BaseException
    }
)

_IDENTIFIER = re.compile("[A-Za-z_][A-Za-z0-9_]*")
_DUNDER = re.compile("__[^\n\r\u2028\u2029]+__")  # on one line, as a dot matches in JavaScript

_EXPECTED_IDENTIFIER: Final = "a letter A-Z, a-z or underscore, then letters, digits, underscores"
_EXPECTED_PROPERTY: Final = (
    "a name that is not empty, not of the form '__x__', and none of "
    + ", ".join(sorted(map(repr, ERROR_OWNED)))
)


class _ErrorClass(Protocol):
    @property
    def name(self) -> str: ...
    @property
    def member_name_property(self) -> str: ...


class _Namespace(Protocol):
    @property
    def global_name(self) -> str: ...
    @property
    def error_class(self) -> _ErrorClass | None: ...


def check_namespaces(namespaces: Iterable[_Namespace]) -> None:
    """Refuse a list of namespaces with a name that some provider or program could not live with.

    The names of functions are not checked: any string is one (SC-026).

    Raises:
        BindingNameError: the first fault; all global names are looked at before any error class.

    Source: SC-013 to SC-026.
    """
    listed = list(namespaces)
    taken: set[str] = set()
    for index, namespace in enumerate(listed):
        field = f"bindings[{index}].global_name"
        _check_global(field, namespace.global_name, taken, "one namespace for each global name")
    for index, namespace in enumerate(listed):
        error_class = namespace.error_class
        if error_class is None:
            continue
        field = f"bindings[{index}].error_class"
        duplicate = "a name that no namespace and no other error class has"
        _check_global(f"{field}.name", error_class.name, taken, duplicate)
        name = error_class.member_name_property
        if not name or name in ERROR_OWNED or _DUNDER.fullmatch(name):
            raise BindingNameError(f"{field}.member_name_property", name, _EXPECTED_PROPERTY)


def _check_global(field: str, name: str, taken: set[str], unique: str) -> None:
    """Check a name that becomes a global of the program, and take it."""
    if not _IDENTIFIER.fullmatch(name):
        raise BindingNameError(field, name, _EXPECTED_IDENTIFIER)
    if name in RESERVED_WORDS:
        raise BindingNameError(field, name, "a word that neither TypeScript nor Python reserves")
    if name in RUNTIME_OWNED:
        raise BindingNameError(field, name, "a name that no runtime uses itself")
    if name in PROGRAM_OWNED:
        raise BindingNameError(field, name, "a name that programs do not need for a built-in")
    if name in taken:
        raise BindingNameError(field, name, unique)
    taken.add(name)
