"""Start of a child process: loads this folder as a package of a private name, then serves fd 3.

Run as `python -I <folder>/__main__.py`. A zygote, which forks children, loads it once:
`scope = runpy.run_path("<folder>/__main__.py", run_name="child"); serve = scope["rehearse"]()`.

Nothing is put on `sys.path`. The modules get a copy of the builtins, so that a program which
rebinds a builtin does not change what the machinery does, and their code carries a label in place
of its file name, so that no traceback shows a path of the host.

Standard library only, CPython 3.10 or later.
"""

from __future__ import annotations

import _imp
import builtins
import os
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from importlib.machinery import ModuleSpec, SourceFileLoader
from types import CodeType, ModuleType
from typing import NoReturn, cast

PACKAGE = "_code_runtime_child"
LABEL = "<code-runtime>"


class _Loader(SourceFileLoader):
    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """Make the module with builtins of its own; functions take them when they are defined."""
        module = ModuleType(spec.name)
        module.__dict__["__builtins__"] = _builtins
        return module

    def get_code(self, fullname: str) -> CodeType | None:
        """Return the code under a label in place of its file name."""
        code = super().get_code(fullname)
        _imp._fix_co_filename(code, f"{LABEL}/{fullname.rpartition('.')[2]}.py")  # type: ignore[attr-defined]
        return code


class _Finder:
    """Finds the modules of the package; on `sys.meta_path` only while they are loaded."""

    def __init__(self, folder: str) -> None:
        self._folder = folder

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return the spec of a module of the package, None for every other."""
        package, _, name = fullname.partition(".")
        if package != PACKAGE:
            return None
        file = os.path.join(self._folder, f"{name or '__init__'}.py")
        spec = ModuleSpec(fullname, _Loader(fullname, file), origin=file, is_package=not name)
        spec.has_location = True  # so that compiled code is cached
        return spec


def load(*, rehearsed: bool = False) -> Callable[[int], NoReturn]:
    """Import the child and return its `serve`, leaving no trace in `sys.modules`.

    Args:
        rehearsed: Whether to go once through a run.
    """
    finder = _Finder(os.path.dirname(os.path.abspath(__file__)))
    sys.meta_path.insert(0, finder)
    try:
        module = import_module(f"{PACKAGE}.main")
    finally:
        sys.meta_path.remove(finder)
        for name in [name for name in sys.modules if name.partition(".")[0] == PACKAGE]:
            del sys.modules[name]
    if rehearsed:
        module.rehearse()
    return cast("Callable[[int], NoReturn]", module.serve)


def rehearse() -> Callable[[int], NoReturn]:
    """Load the child in a zygote, and go once through a run: what that leaves is there for all."""
    return load(rehearsed=True)


_builtins = dict(vars(builtins))

if __name__ == "__main__":
    load()(3)
