"""Read the process tree from /proc, and kill what is below a process.

Standard library only: the guard processes load this file by path, the host imports it.
Nothing that /proc shows is trusted to stay true: a process is signalled through a pidfd, and only
after the pidfd was opened and the parent was read again, so a reused pid is never hit.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

# Held processes cost one descriptor each; a default limit of descriptors is 1,024.
_HELD_COUNT = 256
_DEAD = frozenset("ZX")
# A process that waits for a disk ends when the disk has answered; nobody waits for it longer.
_DEATH_MS = 100


def read_file(path: str) -> bytes:
    """Read a small file of /proc whole; empty when it is gone."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return b""
    parts = []
    try:
        while part := os.read(fd, 65536):
            parts.append(part)
    except OSError:
        return b""
    finally:
        os.close(fd)
    return b"".join(parts)


def stat_of(pid: int) -> tuple[str, int, int] | None:
    """Read state letter, parent and session of a process; None when it is dead.

    A zombie leader with other threads is alive: the program may have ended its main thread only.
    """
    text = read_file(f"/proc/{pid}/stat")
    # The command name is the program's to choose and may hold spaces and parentheses.
    fields = text[text.rfind(b")") + 2 :].split()
    if len(fields) < 18:
        return None
    state = fields[0].decode("ascii", "replace")
    if state in _DEAD and int(fields[17]) <= 1:
        return None
    return state, int(fields[1]), int(fields[3])


def _all_pids() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


class Tree:
    """Finds the descendants of a process.

    Uses the children files of the kernel, and a scan of all parents where they are missing.
    """

    def __init__(self) -> None:
        me = os.getpid()
        self._has_children_files = os.path.exists(f"/proc/{me}/task/{me}/children")

    def below(self, root: int, *, prune: Collection[int] = ()) -> list[int]:
        """List descendants of a process, dead ones included, parents before children.

        Args:
            root: where to start; it is not in the result.
            prune: processes to leave out together with everything below them.
        """
        children = self._children if self._has_children_files else _parent_scan()
        found: dict[int, None] = {}
        stack = [root]
        while stack:
            for child in children(stack.pop()):
                if child not in found and child not in prune:
                    found[child] = None
                    stack.append(child)
        return list(found)

    @staticmethod
    def _children(pid: int) -> Iterator[int]:
        # A child belongs to the thread that forked it, so each thread has a list.
        try:
            threads = os.listdir(f"/proc/{pid}/task")
        except OSError:
            return
        for thread in threads:
            for child in read_file(f"/proc/{pid}/task/{thread}/children").split():
                yield int(child)

    def living(self, root: int, *, spare: Collection[int] = ()) -> list[int]:
        """List living descendants of a process, without those to spare."""
        return [pid for pid in self.below(root) if pid not in spare and stat_of(pid)]

    def memory_bytes(self, pids: Collection[int]) -> int:
        """Add up anonymous and shared memory, swapped pages included."""
        return sum(_memory_bytes(pid) for pid in pids)

    def proportional_bytes(self, pids: Collection[int]) -> int:
        """Add up the same memory with each shared page counted once; slow (page tables)."""
        return sum(_proportional_bytes(pid) for pid in pids)


def _parent_scan() -> Callable[[int], list[int]]:
    children: dict[int, list[int]] = {}
    for pid in _all_pids():
        seen = stat_of(pid)
        if seen:
            children.setdefault(seen[1], []).append(pid)
    return lambda pid: children.get(pid, [])


def _field_sum(text: bytes, names: tuple[bytes, ...]) -> tuple[int, int]:
    total = count = 0
    for line in text.splitlines():
        if line.startswith(names):
            total += int(line.split()[1]) * 1024
            count += 1
    return total, count


def _memory_bytes(pid: int) -> int:
    text = read_file(f"/proc/{pid}/status")
    return _field_sum(text, (b"RssAnon:", b"RssShmem:", b"VmSwap:"))[0]


def _proportional_bytes(pid: int) -> int:
    # Unreadable when the program made itself undumpable: the plain sum stands in.
    text = read_file(f"/proc/{pid}/smaps_rollup")
    total, count = _field_sum(text, (b"Pss_Anon:", b"Pss_Shmem:", b"SwapPss:"))
    return total if count >= 2 else _memory_bytes(pid)


class Hunt:
    """Kills what is below a process: stop, scan, kill, until two scans in a row are empty.

    A process is stopped first, so that a fork bomb cannot outrun the scan, and killed when a scan
    shows nothing new. Attributes: `immune`, processes that the system does not let us signal.
    """

    def __init__(self, tree: Tree, root: int, beat: Callable[[], None]) -> None:
        self._tree = tree
        self._root = root
        self._beat = beat
        self.immune: set[int] = set()

    def step(self, *, prune: Collection[int] = (), spare: Collection[int] = ()) -> bool:
        """Kill what is found now; True when two scans in a row found nothing.

        Args:
            prune: processes to leave alone together with everything below them.
            spare: processes to leave alone while what is below them is killed.
        """
        for _ in range(2):
            held: dict[int, int] = {}
            try:
                while self._hold_new(held, prune, spare):
                    self._beat()
                for fd in held.values():
                    _send(fd, signal.SIGKILL)
            finally:
                for fd in held.values():
                    os.close(fd)
            if held:
                return False
        return True

    def _hold_new(
        self, held: dict[int, int], prune: Collection[int], spare: Collection[int]
    ) -> bool:
        below = self._tree.below(self._root, prune=prune)
        family = {self._root, *below}
        is_new = False
        for pid in below:
            if pid in held or pid in spare or pid in self.immune:
                continue
            if len(held) >= _HELD_COUNT:
                return False
            fd = self._stop(pid, family)
            if fd is not None:
                held[pid] = fd
                is_new = True
        return is_new

    def _stop(self, pid: int, family: set[int]) -> int | None:
        try:
            fd = os.pidfd_open(pid)
        except OSError:
            return None
        # Read after the pidfd was opened: a reused pid would show a parent outside the family.
        seen = stat_of(pid)
        if seen and seen[1] in family:
            if _send(fd, signal.SIGSTOP):
                return fd
            if stat_of(pid):
                self.immune.add(pid)
        os.close(fd)
        return None


def _send(fd: int, number: signal.Signals) -> bool:
    try:
        signal.pidfd_send_signal(fd, number)
    except OSError:
        return False
    return True


def remove_tree(path: str) -> None:
    """Delete a directory and all that is in it, following no link; give up silently on a refusal.

    Works through descriptors, so a path longer than the limit of the system does not stop it.
    Nobody else may be writing there.
    """
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
    names: list[str] = []
    fd = -1
    try:
        fd = os.open(path, flags)
        while True:
            deeper = _empty(fd)
            if deeper is not None:
                os.chmod(deeper, 0o700, dir_fd=fd)
                below = os.open(deeper, flags, dir_fd=fd)
                names.append(deeper)
            elif names:
                below = os.open("..", flags, dir_fd=fd)
            else:
                break
            os.close(fd)
            fd = below
            if deeper is None:
                os.rmdir(names.pop(), dir_fd=fd)
        os.rmdir(path)
    except OSError:
        return
    finally:
        if fd >= 0:
            os.close(fd)


def _empty(fd: int) -> str | None:
    """Delete the entries of a directory; return the first folder that is not empty."""
    with os.scandir(fd) as entries:
        for entry in entries:
            if not entry.is_dir(follow_symlinks=False):
                os.unlink(entry.name, dir_fd=fd)
                continue
            try:
                os.rmdir(entry.name, dir_fd=fd)
            except OSError:
                return entry.name
    return None


def kill_stray(pid: int, pidfd: int, pipes: Collection[tuple[int, int]]) -> None:
    """Kill a program whose guard and warden are both dead, and what can be told to be its own.

    That is: what is below it, what is in its session, and what holds one of its pipes open for
    writing. A process that left all three cannot be told from a stranger.

    Args:
        pid: the program process.
        pidfd: a descriptor of the same process; a reused pid is not hit.
        pipes: device and inode of the pipes that were given to the program alone.
    """
    tree = Tree()
    mine = {1, os.getpid(), os.getppid()}
    for _ in range(20):
        is_there = _send(pidfd, signal.SIGSTOP)
        targets = set(tree.living(pid)) if is_there else set()
        # A session keeps its number reserved; only a dead program's number can be a stranger's.
        session = pid if is_there or not stat_of(pid) else 0
        for other in _all_pids():
            seen = stat_of(other)
            if seen and other not in mine and (seen[2] == session or _writes_to(other, pipes)):
                targets.update((other, *tree.living(other)))
        targets -= mine
        _send(pidfd, signal.SIGKILL)
        _kill_and_wait(targets)
        if not targets:
            return


def _kill_and_wait(pids: Collection[int]) -> None:
    """Kill processes, and wait for their ends: a dying one has closed its pipes before its end."""
    opened: list[int] = []
    try:
        for pid in pids:
            with contextlib.suppress(OSError):
                if len(opened) < _HELD_COUNT:
                    opened.append(os.pidfd_open(pid))
                else:
                    os.kill(pid, signal.SIGKILL)
        dying = {fd for fd in opened if _send(fd, signal.SIGKILL)}
        poller = select.poll()
        for fd in dying:
            poller.register(fd, select.POLLIN)
        while dying and (dead := {fd for fd, _ in poller.poll(_DEATH_MS)}):
            for fd in dead:
                poller.unregister(fd)
            dying -= dead
    finally:
        for fd in opened:
            os.close(fd)


def _writes_to(pid: int, pipes: Collection[tuple[int, int]]) -> bool:
    folder = f"/proc/{pid}/fd"
    try:
        names = os.listdir(folder) if pipes else []
        for name in names:
            # The mode bits of the link tell how the descriptor was opened: our reading end of
            # the same pipe, and a fork of the host that has it too, must not match.
            if os.lstat(f"{folder}/{name}").st_mode & 0o600 == 0o200:
                info = os.stat(f"{folder}/{name}")
                if (info.st_dev, info.st_ino) in pipes:
                    return True
    except OSError:
        return False
    return False
