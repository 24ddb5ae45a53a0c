"""Reading /proc, and deleting trees, with real processes and files."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from code_runtime._guard_proc import Hunt, Tree, kill_stray, remove_tree, stat_of

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the guard needs Linux")

FAMILY = """
import os, time
if os.fork() == 0:
    if os.fork() == 0:
        os.write(1, b'ready\\n')
    while True: time.sleep(100)
zombie = os.fork()
if zombie == 0: os._exit(0)
os.waitid(os.P_PID, zombie, os.WEXITED | os.WNOWAIT)
os.write(1, b'ready\\n')
while True: time.sleep(100)
"""


@pytest.fixture
def family() -> Iterator[int]:
    """Run a process with a child, a grandchild, and a dead child."""
    command = [sys.executable, "-I", "-S", "-c", FAMILY]
    with subprocess.Popen(command, stdout=subprocess.PIPE, start_new_session=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == process.stdout.readline()
        yield process.pid
        os.killpg(process.pid, signal.SIGKILL)


@pytest.mark.parametrize("has_children_files", [True, False])
def test_tree_lists_what_is_below(family: int, has_children_files: bool) -> None:
    tree = Tree()
    assert tree._has_children_files
    tree._has_children_files = has_children_files
    living = tree.living(family)
    assert len(living) == 2
    assert len(tree.living(os.getpid())) >= 3
    assert tree.living(family, spare=living[:1]) == living[1:]
    assert tree.below(family, prune=tree.below(family)) == []
    assert tree.memory_bytes(living) > 0
    assert 0 < tree.proportional_bytes(living) <= tree.memory_bytes(living)


@pytest.mark.parametrize("has_children_files", [True, False])
def test_hunt_leaves_what_is_spared(family: int, has_children_files: bool) -> None:
    tree = Tree()
    tree._has_children_files = has_children_files
    beats: list[int] = []
    hunt = Hunt(tree, family, lambda: beats.append(1))
    assert hunt.step(prune=tree.below(family))
    child, grandchild = sorted(tree.living(family))
    while not hunt.step(spare=[child]):
        pass
    assert beats
    assert stat_of(grandchild) is None
    assert stat_of(child) is not None
    while not hunt.step():
        pass
    assert stat_of(child) is None
    assert stat_of(family) is not None
    assert hunt.immune == set()


def test_stat_of_reads_past_a_hostile_name() -> None:
    code = (
        "import os, time\n"
        "open('/proc/self/comm', 'w').write('x) Z 1 (')\n"
        "os.write(1, b'ready\\n'); time.sleep(100)"
    )
    command = [sys.executable, "-I", "-S", "-c", code]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        seen = stat_of(process.pid)
        assert seen is not None
        assert seen[1:] == (os.getpid(), os.getsid(0))
        process.kill()


def test_kill_stray_finds_session_and_pipe_but_no_stranger() -> None:
    """The program is dead; a child of its session and one that left all but its pipe live on."""
    code = """
import os, time
if os.fork() == 0:
    if os.fork() == 0:
        os.setsid()
        os.close(0)
    os.write(1, b'%d\\n' % os.getpid())
    while True: time.sleep(100)
"""
    reader, writer = os.pipe()
    command = [sys.executable, "-I", "-S", "-c", code]
    program = subprocess.Popen(command, stdout=writer, start_new_session=True)
    stranger = subprocess.Popen(["/bin/sleep", "100"], stdin=reader, start_new_session=True)
    pidfd = os.pidfd_open(program.pid)
    info = os.fstat(writer)
    os.close(writer)
    seen = b""
    while seen.count(b"\n") < 2:
        seen += os.read(reader, 100)
    processes = list(map(int, seen.split()))
    kill_stray(program.pid, pidfd, [(info.st_dev, info.st_ino)])
    # They have ended, and are not only about to: a dying process closes its pipe first.
    assert [stat_of(pid) for pid in processes] == [None, None]
    # The end of the pipe says that nobody has it open for writing.
    assert os.read(reader, 1) == b""
    assert stranger.poll() is None
    stranger.kill()
    stranger.wait()
    program.wait()
    os.close(reader)
    os.close(pidfd)


def test_remove_tree_follows_no_link(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "kept").touch()
    folder = tmp_path / "folder"
    (folder / "closed" / "below").mkdir(parents=True)
    (folder / "closed" / "below" / "file").touch()
    (folder / "link").symlink_to(outside, target_is_directory=True)
    (folder / "dangling").symlink_to("nowhere")
    os.mkfifo(folder / "pipe")
    (folder / "closed").chmod(0)
    remove_tree(str(folder))
    assert not folder.exists()
    assert (outside / "kept").exists()


def test_remove_tree_goes_deeper_than_a_path_can_name(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    fd = os.open(folder, os.O_RDONLY)
    for _ in range(1500):
        os.mkdir("a-rather-long-name", dir_fd=fd)
        below = os.open("a-rather-long-name", os.O_RDONLY, dir_fd=fd)
        os.close(fd)
        fd = below
    os.close(fd)
    remove_tree(str(folder))
    assert not folder.exists()


def test_remove_tree_refuses_a_link_and_nothing(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "folder", target_is_directory=True)
    remove_tree(str(tmp_path / "link"))
    remove_tree(str(tmp_path / "nothing"))
    assert (tmp_path / "folder").exists()
    assert (tmp_path / "link").is_symlink()
