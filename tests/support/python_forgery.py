"""A preamble for Python programs that write raw bytes into the socket to their host.

The program shares its process with the child's code, finds the socket and can say to the host
whatever the child could say, and more. Frames: docs/reference/fd3-protocol.md.
"""

from __future__ import annotations

FORGE = r"""
import json, os, select, socket, stat, sys, time

def _highest(is_kind):
    numbers = [int(name) for name in os.listdir("/proc/self/fd")]
    found = []
    for number in numbers:
        try:
            if is_kind(os.fstat(number).st_mode):
                found.append(number)
        except OSError:
            pass
    return max(found)  # the child moves its own to high numbers

CHANNEL = _highest(stat.S_ISSOCK)

def raw(data, fd=CHANNEL):
    rest = memoryview(data)
    while rest:
        try:
            rest = rest[os.write(fd, rest):]
        except BlockingIOError:
            select.select([], [fd], [])

def send(**frame):
    raw(json.dumps(frame, ensure_ascii=False).encode("utf-8", "surrogatepass") + b"\n")

def call(id, name, args=None, space="tools"):
    raw(b'{"type":"call","id":%s,"global":%s,"name":%s,"args":%s}\n' % tuple(
        json.dumps(item).encode() for item in (id, space, name, args)))
"""

THROUGH_PIPE = (
    FORGE
    + r"""
PIPE = _highest(stat.S_ISFIFO)

def through_pipe(data):
    raw(data, PIPE)
"""
)
"""The same, and the pipe of its logs."""
