"""Process trees and their memory, from /proc."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple


def family_of(pid: int) -> list[int]:
    """Return a process and all its descendants."""
    parents: dict[int, int] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            fields = (folder / "stat").read_text().rsplit(")", 1)[1].split()
        except OSError:
            continue
        parents[int(folder.name)] = int(fields[1])
    family, pending = [pid], [pid]
    while pending:
        parent = pending.pop()
        children = [child for child, ancestor in parents.items() if ancestor == parent]
        family += children
        pending += children
    return family


def pss_mb(pid: int) -> float:
    """Return the proportional set size of a process tree, in MB of 10^6 bytes.

    Pages that several processes share count once, in equal parts.
    """
    total_kib = 0
    for member in family_of(pid):
        try:
            text = Path(f"/proc/{member}/smaps_rollup").read_text()
        except OSError:
            continue
        total_kib += sum(int(line.split()[1]) for line in text.splitlines() if line[:4] == "Pss:")
    return total_kib * 1_024 / 1_000_000


class Usage(NamedTuple):
    """Processor time of a process tree, in seconds, and how often its root has slept."""

    host_s: float
    others_s: float
    host_sleeps: int


def usage_of(pid: int) -> Usage:
    """Return what a process and its family have used so far, those that were reaped included."""
    ticks = os.sysconf("SC_CLK_TCK")
    own = others = 0
    for member in family_of(pid):
        try:
            text = Path(f"/proc/{member}/stat").read_text()
        except OSError:
            continue
        user, system, child_user, child_system = map(int, text.rsplit(")", 1)[1].split()[11:15])
        others += child_user + child_system
        if member == pid:
            own = user + system
        else:
            others += user + system
    return Usage(own / ticks, others / ticks, _sleeps_of(pid))


def _sleeps_of(pid: int) -> int:
    total = 0
    for folder in Path(f"/proc/{pid}/task").iterdir():
        for line in (folder / "status").read_text().splitlines():
            if line.startswith("voluntary_ctxt_switches"):
                total += int(line.split()[1])
    return total
