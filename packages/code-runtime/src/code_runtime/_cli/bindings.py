"""Loads the functions that a program may call from Python files and modules.

The code that is loaded is the user's own and trusted: it runs with the authority of the command.
"""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import os
import sys
from collections.abc import AsyncGenerator, Generator
from contextlib import AbstractAsyncContextManager, AbstractContextManager, AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from code_runtime._text import describe
from code_runtime._vocabulary import CodeBindingNamespace

from .problem import Misuse

if TYPE_CHECKING:
    from collections.abc import Iterable
    from types import ModuleType

DEFAULT_NAME: Final = "bindings"
EXPECTED: Final = "a CodeBindingNamespace, a list of them, or a factory or context manager of those"


@dataclass(frozen=True, slots=True)
class Reference:
    """Where bindings come from: a file or module, and a name in it."""

    source: str
    name: str

    @property
    def is_file(self) -> bool:
        """Whether the source is a path."""
        return self.source.endswith(".py") or os.sep in self.source

    def __str__(self) -> str:
        return f"{self.source}:{self.name}"


def parse_reference(text: str) -> Reference:
    """Split `path.py:NAME` or `package.module:NAME`; without a name it is `bindings`."""
    source, colon, name = text.rpartition(":")
    if not colon:
        return Reference(text, DEFAULT_NAME)
    if not source or not name.isidentifier():
        raise Misuse(
            f"Cannot load bindings from {text!r}: {name!r} after the colon is not a Python name, "
            "expected FILE_OR_MODULE or FILE_OR_MODULE:NAME"
        )
    return Reference(source, name)


async def load_bindings(texts: Iterable[str], stack: AsyncExitStack) -> list[CodeBindingNamespace]:
    """Load every namespace; context managers among them stay open as long as the stack.

    Raises:
        Misuse: a source or a name in it does not exist or holds something else.
    """
    found: list[CodeBindingNamespace] = []
    modules: dict[str, ModuleType] = {}
    for text in texts:
        reference = parse_reference(text)
        if reference.source not in modules:
            modules[reference.source] = _load_module(reference)
        value = _look_up(reference, modules[reference.source])
        found += await _open(reference, value, stack)
    return found


def _load_module(reference: Reference) -> ModuleType:
    return _load_file(reference.source) if reference.is_file else _import(reference.source)


def _load_file(source: str) -> ModuleType:
    path = Path(source).resolve()
    if not path.is_file():
        raise Misuse(f"Cannot load bindings from {source!r}: no such file, expected a Python file")
    # As for a script: what lies beside the file can be imported by it.
    sys.path.insert(0, str(path.parent))
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise Misuse(
            f"Cannot load bindings from {source!r}: its suffix is {path.suffix!r}, expected .py"
        )
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module  # dataclasses and pickle look their module up there
    spec.loader.exec_module(module)
    return module


def _import(name: str) -> ModuleType:
    sys.path.insert(0, os.getcwd())  # as `python -m` does
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        # Only the module that was asked for; one that it misses is a fault in the user's code.
        if error.name is None or not (name == error.name or name.startswith(error.name + ".")):
            raise
        raise Misuse(
            f"Cannot load bindings from {name!r}: there is no module {error.name!r}, "
            "expected an importable module or the path of a .py file"
        ) from None


def _look_up(reference: Reference, module: ModuleType) -> object:
    try:
        value: object = getattr(module, reference.name)
    except AttributeError:
        names = [name for name, value in vars(module).items() if _namespaces(value)]
        there = f" (there: {', '.join(names)})" if names else ""
        raise Misuse(
            f"Cannot load bindings from {reference.source!r}: it has no name {reference.name!r}, "
            f"expected {EXPECTED} under that name or under one given as "
            f"{reference.source}:NAME{there}"
        ) from None
    return value


def _namespaces(value: object) -> list[CodeBindingNamespace] | None:
    """Return the namespaces that a value is or lists; None when it is something else."""
    items = list(value) if isinstance(value, (list, tuple)) else [value]
    found = [item for item in items if isinstance(item, CodeBindingNamespace)]
    return found if len(found) == len(items) else None


async def _open(
    reference: Reference, value: object, stack: AsyncExitStack
) -> list[CodeBindingNamespace]:
    if callable(value):
        value = value()
    if inspect.isawaitable(value):
        value = await value
    if isinstance(value, AbstractAsyncContextManager):
        value = await stack.enter_async_context(value)
    elif isinstance(value, AbstractContextManager):
        value = stack.enter_context(value)
    found = _namespaces(value)
    if found is not None:
        return found
    raise Misuse(
        f"Cannot load bindings from {str(reference)!r}: it gives {_seen(value)}, "
        f"expected {EXPECTED}"
    )


def _seen(value: object) -> str:
    if isinstance(value, AsyncGenerator):
        return "an async generator (decorate its function with contextlib.asynccontextmanager)"
    if isinstance(value, Generator):
        return "a generator (decorate its function with contextlib.contextmanager)"
    return describe(value)
