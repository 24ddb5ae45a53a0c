"""What a zygote imports: modules to preload, and the start-up errors of those that do not fit."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import anyio
import pytest
from forked_programs import CHILD, forked

from code_runtime import _guarded
from code_runtime._guard_proc import read_file, stat_of
from code_runtime._guarded import GuardError, Zygote, open_warden

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="a zygote needs Linux")

ENTRY = "_fixture.main:serve"
PYENV = Path.home() / ".pyenv" / "versions"


@pytest.mark.anyio
async def test_preloaded_modules_are_imported_once() -> None:
    code = "say(repr([n in sys.modules for n in ('decimal', 'json.tool', 'asyncio', 'wave')]))"
    zygote = Zygote(CHILD, ENTRY, ("decimal", "json.tool"))
    async with open_warden(zygote=zygote) as warden, forked(warden, code) as program:
        assert await program.line() == "[True, True, True, False]"


@pytest.mark.anyio
async def test_entry_that_is_called_at_the_start_leaves_no_module() -> None:
    code = "say(repr([n for n in sys.modules if 'fixture' in n]))"
    zygote = Zygote(CHILD, "_fixture.main:load()")
    async with open_warden(zygote=zygote) as warden, forked(warden, code) as program:
        assert await program.line() == "[]"


@pytest.mark.anyio
async def test_folder_without_an_init_file_is_a_package(tmp_path: Path) -> None:
    (tmp_path / "main.py").write_bytes((Path(CHILD) / "main.py").read_bytes())
    zygote = Zygote(str(tmp_path), "_plain.main:serve")
    async with open_warden(zygote=zygote) as warden, forked(warden, "say('hello')") as program:
        assert await program.line() == "hello"


@pytest.mark.anyio
async def test_threads_that_end_before_a_fork_are_accepted() -> None:
    """OpenBLAS, which numpy brings, has handlers for forks that do this."""
    code = "say(repr(len(os.listdir('/proc/self/task'))))"
    zygote = Zygote(CHILD, ENTRY, ("_fixture.ends_thread",))
    async with open_warden(zygote=zygote) as warden, forked(warden, code) as program:
        assert await program.line() == "1"


IMPORTABLE = "expected an importable module"


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("zygote", "message"),
    [
        pytest.param(
            Zygote(CHILD, ENTRY, ("decimal", "no_such.module")),
            "preload module 'no_such.module' raised ModuleNotFoundError(\"No module named"
            f" 'no_such'\"), {IMPORTABLE}",
            id="missing",
        ),
        pytest.param(
            Zygote(CHILD, ENTRY, ("_fixture.fails",)),
            f"preload module '_fixture.fails' raised ValueError('line one\\nline two'),"
            f" {IMPORTABLE}",
            id="raises",
        ),
        pytest.param(
            Zygote(CHILD, ENTRY, ("_fixture.exits",)),
            f"preload module '_fixture.exits' raised SystemExit(3), {IMPORTABLE}",
            id="exits",
        ),
        pytest.param(
            Zygote(CHILD, ENTRY, ("_fixture.leaves_thread",)),
            "preload module '_fixture.leaves_thread' leaves 1 threads running, which no fork ends,"
            " expected one that starts none when it is imported",
            id="thread",
        ),
        pytest.param(
            Zygote(CHILD, ENTRY, ("_fixture.leaves_file",)),
            "preload module '_fixture.leaves_file' leaves descriptors open, of ['/dev/zero'],"
            " expected one that opens none when it is imported",
            id="descriptor",
        ),
        pytest.param(
            Zygote(CHILD, "_fixture.absent:serve"),
            "entry '_fixture.absent:serve' raised ModuleNotFoundError(\"No module named"
            f" '_fixture.absent'\"), {IMPORTABLE}",
            id="entry without module",
        ),
        pytest.param(
            Zygote("/nowhere", ENTRY),
            "entry '_fixture.main:serve' raised ModuleNotFoundError(\"No module named"
            f" '_fixture.main'\"), {IMPORTABLE}",
            id="no folder",
        ),
        pytest.param(
            Zygote(CHILD, "_fixture.main:absent"),
            "entry '_fixture.main:absent' is None, expected a function",
            id="entry without function",
        ),
        pytest.param(
            Zygote(CHILD, "_fixture.main:NUMBER"),
            "entry '_fixture.main:NUMBER' is 7, expected a function",
            id="entry is no function",
        ),
        pytest.param(
            Zygote(CHILD, "_fixture.main:refuse()"),
            "entry '_fixture.main:refuse()' raised LookupError('not today'), expected a function",
            id="entry raises",
        ),
    ],
)
async def test_zygote_that_cannot_start_says_why(zygote: Zygote, message: str) -> None:
    with pytest.raises(GuardError) as caught:
        async with open_warden(zygote=zygote):
            pass
    assert str(caught.value) == f"Cannot start a zygote: {message}"


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("zygote", "message"),
    [
        (Zygote("child", ENTRY), "folder is 'child', expected an absolute path"),
        (
            Zygote(CHILD, "main"),
            "entry is 'main', expected 'module:function' or 'module:function()'",
        ),
        (
            Zygote(CHILD, "a b:c"),
            "entry is 'a b:c', expected 'module:function' or 'module:function()'",
        ),
        (Zygote(CHILD, ENTRY, ("a.",)), "preload holds 'a.', expected names of modules"),
    ],
)
async def test_zygote_of_wrong_shape_is_refused(zygote: Zygote, message: str) -> None:
    with pytest.raises(ValueError, match="Cannot") as caught:
        async with open_warden(zygote=zygote):
            pass
    assert str(caught.value) == f"Cannot start a zygote: {message}"


@pytest.mark.anyio
async def test_zygote_refuses_an_old_interpreter() -> None:
    pythons = sorted(PYENV.glob("3.9.*/bin/python"))
    if not pythons:
        pytest.skip("needs CPython 3.9")
    version = pythons[0].parent.parent.name
    with pytest.raises(GuardError) as caught:
        async with open_warden(python=str(pythons[0]), zygote=Zygote(CHILD, ENTRY)):
            pass
    assert str(caught.value) == (
        f"Cannot start a zygote: cpython {version}, expected CPython 3.10 or later"
    )


@pytest.mark.anyio
async def test_import_that_hangs_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_guarded, "_PRELOAD_S", 0.5)
    begin = anyio.current_time()
    with pytest.raises(GuardError) as caught:
        async with open_warden(zygote=Zygote(CHILD, ENTRY, ("_fixture.hangs",))):
            pass
    assert anyio.current_time() - begin < 1.5
    assert str(caught.value) == (
        "Cannot start a zygote: no answer in 0.5 s, expected a line that says ready"
    )


@pytest.mark.anyio
async def test_cancelled_start_leaves_nothing() -> None:
    with anyio.move_on_after(0.2):
        async with open_warden(zygote=Zygote(CHILD, ENTRY, ("_fixture.hangs",))):
            pass


@pytest.mark.anyio
async def test_module_that_hangs_at_the_end_does_not_hold_up_the_zygote() -> None:
    begin = anyio.current_time()
    async with open_warden(zygote=Zygote(CHILD, ENTRY, ("_fixture.hangs_at_exit",))) as warden:
        begin = anyio.current_time()
    assert anyio.current_time() - begin < 1.5
    assert stat_of(warden.pid) is None


HOST = """
import sys
import anyio
from code_runtime._guarded import Zygote, open_warden

async def main():
    async with open_warden(zygote=Zygote(sys.argv[1], sys.argv[2], ("_fixture.hangs",))):
        pass

anyio.run(main)
"""


def test_host_that_dies_while_a_module_is_imported_leaves_nothing() -> None:
    with subprocess.Popen([sys.executable, "-c", HOST, CHILD, ENTRY]) as host:
        children = f"/proc/{host.pid}/task/{host.pid}/children"
        deadline = time.monotonic() + 20
        while True:
            assert time.monotonic() < deadline
            pids = read_file(children).split()
            # Asleep in the import: Python polls nothing while it starts.
            if pids and read_file(f"/proc/{int(pids[0])}/wchan") in SLEEPING:
                break
            time.sleep(0.01)
        zygote = int(pids[0])
        host.kill()
    deadline = time.monotonic() + 2
    while stat_of(zygote):
        assert time.monotonic() < deadline
        time.sleep(0.01)


SLEEPING = (b"hrtimer_nanosleep", b"common_nsleep", b"do_nanosleep")
