"""A preamble for Python programs that write raw bytes into the socket to their host.

The program shares its process with the child's code, finds the socket and can say to the host
whatever the child could say, and more. Frames: docs/reference/fd3-protocol.md.
"""

from __future__ import annotations

FORGE = r"""
import json, os, select, socket, stat, sys, time

def _channel():
    numbers = [int(name) for name in os.listdir("/proc/self/fd")]
    found = []
    for number in numbers:
        try:
            if stat.S_ISSOCK(os.fstat(number).st_mode):
                found.append(number)
        except OSError:
            pass
    return max(found)  # the child moves it to a high number

CHANNEL = _channel()

def raw(data):
    rest = memoryview(data)
    while rest:
        try:
            rest = rest[os.write(CHANNEL, rest):]
        except BlockingIOError:
            select.select([], [CHANNEL], [])

def send(**frame):
    raw(json.dumps(frame, ensure_ascii=False).encode("utf-8", "surrogatepass") + b"\n")

def call(id, name, args=None, space="tools"):
    raw(b'{"type":"call","id":%s,"global":%s,"name":%s,"args":%s}\n' % tuple(
        json.dumps(item).encode() for item in (id, space, name, args)))
"""

THROUGH_PIPE = (
    FORGE
    + r"""
PIPE = max(
    number for number in map(int, os.listdir("/proc/self/fd"))
    if os.path.exists(f"/proc/self/fd/{number}") and stat.S_ISFIFO(os.fstat(number).st_mode)
)  # as the socket

def through_pipe(data):
    rest = memoryview(data)
    while rest:
        try:
            rest = rest[os.write(PIPE, rest):]
        except BlockingIOError:
            select.select([], [PIPE], [])
"""
)
"""The same, and the pipe of its logs."""
