"""Finds processes of a test in /proc."""

from __future__ import annotations

from pathlib import Path


def processes_with(word: str) -> list[str]:
    """List the living processes whose command line holds a word."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            line = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")
        except OSError:
            continue
        if word in line:
            found.append(f"{folder.name} {line}")
    return found


def descendants(pid: int) -> list[tuple[int, str]]:
    """List the descendants of a process with their start times."""
    table: dict[int, tuple[int, str]] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            fields = (folder / "stat").read_text().rsplit(")", 1)[1].split()
        except OSError:
            continue
        table[int(folder.name)] = (int(fields[1]), fields[19])
    found, pending = [], [pid]
    while pending:
        parent = pending.pop()
        for child, (ancestor, start) in table.items():
            if ancestor == parent:
                found.append((child, start))
                pending.append(child)
    return found


def alive(family: list[tuple[int, str]]) -> list[int]:
    """Return those of a list of processes that still live (a zombie does not)."""
    living = []
    for pid, start in family:
        try:
            fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
        except OSError:
            continue
        if fields[19] == start and fields[0] not in ("Z", "X"):
            living.append(pid)
    return living
