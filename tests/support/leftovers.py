"""Sees what a test has left behind: processes, descriptors, temporary folders."""

from __future__ import annotations

import gc
import glob
import os
import tempfile
import time
from pathlib import Path

# What a test has started may take a moment to vanish from /proc after its owner has reaped it.
SETTLE_S = 3.0

Resources = tuple[set[str], dict[str, str], set[str]]


def snapshot_resources() -> Resources:
    """Return the descendants of this process, its descriptors, and our temporary folders."""
    return _descendants(), _descriptors(), _folders()


def assert_no_leftovers(before: Resources) -> None:
    """Wait until nothing is there that was not there before, and fail when something stays."""
    deadline_s = time.monotonic() + SETTLE_S
    while True:
        left = _left(before)
        if not left or time.monotonic() > deadline_s:
            break
        gc.collect()
        time.sleep(0.02)  # polls the system, where nothing can be waited for
    assert not left, f"left behind: {left}"


def _left(before: Resources) -> list[str]:
    processes, descriptors, folders = snapshot_resources()
    return [
        *(f"process {item}" for item in sorted(processes - before[0])),
        *(
            f"descriptor {number}: {target}"
            for number, target in sorted(descriptors.items())
            if number not in before[1]
        ),
        *(f"folder {item}" for item in sorted(folders - before[2])),
    ]


def _descendants() -> set[str]:
    parents: dict[str, str] = {}
    names: dict[str, str] = {}
    for folder in glob.glob("/proc/[0-9]*"):
        try:
            text = Path(folder, "stat").read_text()
        except OSError:
            continue
        pid = folder[6:]
        names[pid] = text[text.index("(") : text.rindex(")") + 1]
        parents[pid] = text[text.rindex(")") + 2 :].split()[1]
    found = set()
    for pid in parents:
        ancestor = pid
        while ancestor in parents:
            ancestor = parents[ancestor]
            if ancestor == str(os.getpid()):
                found.add(f"{pid} {names[pid]}")
                break
    return found


def _descriptors() -> dict[str, str]:
    found = {}
    for number in os.listdir("/proc/self/fd"):
        try:
            found[number] = os.readlink(f"/proc/self/fd/{number}")
        except OSError:
            continue
    return found


def _folders() -> set[str]:
    return set(glob.glob(os.path.join(tempfile.gettempdir(), f"code-runtime-{os.getpid()}-*")))
