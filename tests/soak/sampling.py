"""What the host process holds at a moment: memory, descriptors, tasks, threads, processes, files."""

from __future__ import annotations

import asyncio
import ctypes
import gc
import os
import sys
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from processes import descendants, processes_with
from tests.soak.trials import MARKER

PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
# What must be equal at every quiet point, the threads at the last one only: the event loop's
# library keeps an idle thread for ten seconds.
COUNTS = ("descriptors", "tasks", "processes", "left_over_processes", "files")
LAST_COUNTS = (*COUNTS, "threads")


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """What was there after `run_count` runs, with none in flight.

    Units: `_bytes` of resident memory. `sizes_bytes` has each descendant by process number and
    start time, `family_bytes` is their sum. `heap_bytes` is what the host has allocated of the C
    library, free parts of its heap not counted (0 where it does not tell), `blocks` the number of
    small blocks that the interpreter has allocated, `objects` that of the objects with a cycle
    collector.
    """

    run_count: int
    seconds: float
    host_bytes: int
    heap_bytes: int
    blocks: int
    family_bytes: int
    objects: int
    descriptors: int
    tasks: int
    threads: int
    processes: int
    left_over_processes: int
    files: int
    sizes_bytes: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Inventory:
    """The same by name, to say what has grown."""

    descriptors: Counter[str]
    tasks: Counter[str]
    processes: Counter[str]
    left_over_processes: Counter[str]
    files: Counter[str]

    def difference(self, earlier: Inventory) -> dict[str, dict[str, int]]:
        """Return what there is more or less of than earlier."""
        changes: dict[str, dict[str, int]] = {}
        for kind in ("descriptors", "tasks", "processes", "left_over_processes", "files"):
            counts = Counter(getattr(self, kind))
            counts.subtract(getattr(earlier, kind))
            changed = {name: count for name, count in counts.items() if count}
            if changed:
                changes[kind] = changed
        return changes


def take_inventory(folder: str) -> Inventory:
    """List what there is; `folder` is the temporary folder."""
    return Inventory(
        Counter(_link(f"/proc/self/fd/{number}") for number in os.listdir("/proc/self/fd")),
        Counter(_task_names()),
        Counter(_command(pid) for pid, _ in descendants(os.getpid())),
        Counter(line.split(" ", 1)[1] for line in processes_with(MARKER)),
        Counter(path for _, names, files in os.walk(folder) for path in (*names, *files)),
    )


def take_sample(run_count: int, seconds: float, folder: str) -> Sample:
    """Measure; `folder` is the temporary folder."""
    _return_free_memory()
    family = descendants(os.getpid())
    sizes = {f"{pid} {start}": _resident_bytes(pid) for pid, start in family}
    inventory = take_inventory(folder)
    return Sample(
        run_count=run_count,
        seconds=round(seconds, 1),
        host_bytes=_resident_bytes(os.getpid()),
        heap_bytes=_heap_bytes(),
        blocks=sys.getallocatedblocks(),
        family_bytes=sum(sizes.values()),
        objects=len(gc.get_objects()),
        descriptors=inventory.descriptors.total(),
        tasks=inventory.tasks.total(),
        threads=len(os.listdir("/proc/self/task")),
        processes=len(family),
        left_over_processes=inventory.left_over_processes.total(),
        files=inventory.files.total(),
        sizes_bytes=sizes,
    )


def _task_names() -> list[str]:
    trio = sys.modules.get("trio")
    if trio is None or not trio.lowlevel.in_trio_run():
        return [_name_of(task.get_coro()) for task in asyncio.all_tasks()]
    names, pending = [], [trio.lowlevel.current_root_task()]
    while pending:
        task = pending.pop()
        names.append(str(task.name))
        pending += [child for nursery in task.child_nurseries for child in nursery.child_tasks]
    return names


def _name_of(coroutine: object) -> str:
    return str(getattr(coroutine, "__qualname__", coroutine))


def _resident_bytes(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * PAGE_BYTES
    except OSError:
        return 0


class _HeapInfo(ctypes.Structure):
    """`struct mallinfo2` of glibc."""

    _fields_ = tuple(
        (name, ctypes.c_size_t)
        for name in (
            *("arena", "ordblks", "smblks", "hblks", "hblkhd"),
            *("usmblks", "fsmblks", "uordblks", "fordblks", "keepcost"),
        )
    )


def _return_free_memory() -> None:
    """Let the C library give back what is free in its heaps, so that resident memory is in use."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


def _heap_bytes() -> int:
    function = getattr(ctypes.CDLL(None), "mallinfo2", None)
    if function is None:
        return 0
    function.restype = _HeapInfo
    info = function()
    return int(info.uordblks + info.hblkhd)


def _command(pid: int) -> str:
    try:
        line = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
        return line[:80] or Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return "gone"


def _link(path: str) -> str:
    try:
        # The number of a socket or a pipe says nothing.
        return os.readlink(path).split(":[")[0]
    except OSError:
        return "gone"
