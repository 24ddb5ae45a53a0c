"""Make the warden a zygote, and make a fork of it look like a newly started interpreter.

A zygote imports the package of the child and the modules to preload once; every program is a fork
of its guard, which is a fork of the zygote. Such a program shares the zygote's memory until it
writes, so it must find nothing of the warden there, and nothing of another run: see
`_guard_program.ForkedProgram`. Hash seed, addresses and `/proc/self/cmdline` stay the zygote's.

Standard library only, CPython 3.10 or later; loaded by path.
"""

from __future__ import annotations

import gc
import importlib
import importlib.machinery
import importlib.util
import io
import os
import signal
import sys
import threading
import time
import types

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from code_runtime._guard_program import admit_tracers, clear_environment
else:
    from _guard_program import admit_tracers, clear_environment

_THREADS_END_S = 1.0
_CONTROL = 3


class Unfit(Exception):
    """Why this process cannot be a zygote."""

    def __init__(self, seen: str, expected: str) -> None:
        super().__init__(seen, expected)
        self.seen = seen
        self.expected = expected


class Entry:
    """The function that each program calls."""

    def __init__(self, function: Callable[[int], object]) -> None:
        self._function = function

    def program(self, env: dict[bytes, bytes]) -> Callable[[], object]:
        """Wrap what a program does, to be called with an empty stack."""

        def run() -> object:
            _refresh(env)
            return self._function(_CONTROL)

        return run


def prepare(arguments: list[str]) -> Entry:
    """Import what programs need.

    Args:
        arguments: the folder of the child's package, `module:function`, modules to preload.

    Raises:
        Unfit: something cannot be imported, or leaves this process unfit to be forked.
    """
    folder, entry, *preload = arguments
    for name in [name for name in sys.modules if name.startswith("_guard")]:
        del sys.modules[name]
    importlib.import_module("asyncio")
    function = _load_entry(folder, entry)
    for name in preload:
        _load(name, f"preload module {name!r}")
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    gc.collect()
    gc.freeze()
    return Entry(function)


def check_interpreter() -> None:
    """Refuse an interpreter that warden and guard are not written for.

    Raises:
        Unfit: this is one.
    """
    if sys.implementation.name != "cpython" or sys.version_info < (3, 10):
        seen = f"{sys.implementation.name} {sys.version.split()[0]}"
        raise Unfit(seen, "CPython 3.10 or later")


def _forget(package: str) -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == package]:
        del sys.modules[name]


def _load_entry(folder: str, entry: str) -> Callable[[int], object]:
    module, _, name = entry.partition(":")
    package = module.partition(".")[0]
    what = f"entry {entry!r}"
    _add_package(package, folder)
    function = getattr(_load(module, what), name.removesuffix("()"), None)
    if callable(function) and name.endswith("()"):
        function = _attempt(function, what, "a function")
        _forget(package)
    if not callable(function):
        raise Unfit(f"{what} is {function!r:.500}", "a function")
    result: Callable[[int], object] = function
    return result


def _add_package(name: str, folder: str) -> None:
    """Make a folder importable under this name, without a place on the path."""
    file = os.path.join(folder, "__init__.py")
    spec = importlib.util.spec_from_file_location(name, file, submodule_search_locations=[folder])
    if spec is None or spec.loader is None:
        raise Unfit(f"folder {folder!r}", "the folder of a package")
    package = importlib.util.module_from_spec(spec)
    sys.modules[name] = package
    execute = spec.loader.exec_module
    if os.path.exists(file):
        _attempt(lambda: execute(package), f"folder {folder!r}", "a package")


def _attempt(call: Callable[[], object], what: str, expected: str) -> object:
    try:
        return call()
    except BaseException as error:
        raise Unfit(f"{what} raised {error!a:.500}", expected) from error


def _load(name: str, what: str) -> types.ModuleType:
    before = _descriptors()
    _attempt(lambda: importlib.import_module(name), what, "an importable module")
    _check_threads(what)
    left = sorted(link for _number, link in _descriptors() - before)
    if left:
        # A program would have another file, or none, under this number.
        raise Unfit(
            f"{what} leaves descriptors open, of {left!r}",
            "one that opens none when it is imported",
        )
    return sys.modules[name]


def _descriptors() -> set[tuple[str, str]]:
    found = set()
    for name in os.listdir("/proc/self/fd"):
        try:
            found.add((name, os.readlink(f"/proc/self/fd/{name}")))
        except OSError:
            # The one that listed the folder.
            continue
    return found


def _thread_count() -> int:
    return len(os.listdir("/proc/self/task"))


def _check_threads(what: str) -> None:
    """Refuse threads: a lock that one holds when the process is forked is never released."""
    if _thread_count() == 1:
        return
    # Libraries that are made to be forked, such as OpenBLAS, end their threads before a fork and
    # start them again on use. Whether this is one is found out by a fork.
    pid = os.fork()
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)
    deadline = time.monotonic() + _THREADS_END_S
    while _thread_count() > 1:
        if time.monotonic() > deadline:
            raise Unfit(
                f"{what} leaves {_thread_count() - 1} threads running, which no fork ends",
                "one that starts none when it is imported",
            )
        time.sleep(0.001)


def _refresh(env: dict[bytes, bytes]) -> None:
    """Undo what makes this process differ from a new one."""
    # The names of the zygote's and the guard's objects are gone; the objects go here.
    gc.collect()
    admit_tracers()
    _reset_signals()
    clear_environment()
    os.environb.update(env)
    time.tzset()
    _reset_modules()
    _reopen_streams()
    sys.argv = [""]
    sys.orig_argv = [sys.executable, "-I"]
    main = types.ModuleType("__main__")
    main.__dict__["__builtins__"] = sys.modules["builtins"]
    main.__dict__.update(__annotations__={})
    sys.modules["__main__"] = main


def _reset_signals() -> None:
    """Treat signals as a new interpreter does; all have their default action before this."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)


def _reset_modules() -> None:
    """Refresh what modules keep for a process, and reseed what has no handler for forks."""
    tempfile = sys.modules.get("tempfile")
    if tempfile is not None:
        tempfile.__dict__["tempdir"] = None
    numpy_random = sys.modules.get("numpy.random")
    if numpy_random is not None:
        numpy_random.seed()
    thread = threading.main_thread()
    set_native_id = getattr(thread, "_set_native_id", None)
    if set_native_id is not None:
        set_native_id()


def _reopen_streams() -> None:
    """Open the three streams anew: they know the position and the size of blocks of other files."""
    for name, fd, mode in (("stdin", 0, "r"), ("stdout", 1, "w"), ("stderr", 2, "w")):
        old = getattr(sys, name)
        raw = io.FileIO(fd, mode, closefd=False)
        buffer = io.BufferedReader(raw) if fd == 0 else io.BufferedWriter(raw)
        stream = io.TextIOWrapper(
            buffer, encoding=old.encoding, errors=old.errors, line_buffering=fd == 2
        )
        raw.name = f"<{name}>"
        vars(stream)["mode"] = mode
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)
