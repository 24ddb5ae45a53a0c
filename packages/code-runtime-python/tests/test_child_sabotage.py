"""Programs that rebind what they can reach: the verdict stays."""

from __future__ import annotations

import pytest
from fd3_host import interpreters, run_program

INTERPRETERS = [pytest.param(path, id=path.split("/")[-3]) for path in interpreters()]


def echo(args: object) -> object:
    return args


BUILTINS = """
import builtins
for name in [name for name in vars(builtins) if name not in ("__import__", "__build_class__")]:
    builtins.__dict__[name] = None
"""


@pytest.mark.parametrize("python", INTERPRETERS)
def test_value_is_sent_although_every_builtin_is_gone(python: str) -> None:
    """PY-284, PY-286: after its last await."""
    program = f'print("before")\nx = await tools.echo(1)\n{BUILTINS}\nreturn [x, 1.5, "é", {{"a": 2**60}}]'
    outcome = run_program(program, {"tools.echo": echo}, python=python)
    assert outcome.value == [1, 1.5, "é", {"a": 2**60}]
    assert outcome.logs == ["before"]


@pytest.mark.parametrize("python", INTERPRETERS)
def test_exception_is_told_although_every_builtin_is_gone(python: str) -> None:
    """PY-284, PY-285."""
    program = f"print('tail', end='')\nError = ValueError\n{BUILTINS}\nraise Error('told')"
    outcome = run_program(program, python=python)
    assert outcome.message.split("\n")[-1] == "ValueError: told"
    assert outcome.logs == ["tail"]


@pytest.mark.parametrize("python", INTERPRETERS)
def test_calls_and_logs_work_although_modules_are_broken(python: str) -> None:
    """PY-284, PY-287: names that encoding, decoding, dispatch and sending might use."""
    program = """
import asyncio, codecs, decimal, io, json, os, re, select, signal, socket, sys, threading, time, traceback
decimal.setcontext(decimal.Context(prec=2, traps=[decimal.Inexact]))
for module, names in {
    json: "JSONEncoder JSONDecoder dumps loads JSONDecodeError decoder encoder",
    json.encoder: "encode_basestring c_make_encoder JSONEncoder float encode_basestring_ascii",
    json.decoder: "scanstring JSONDecoder JSONDecodeError WHITESPACE",
    json.JSONDecoder: "decode raw_decode", json.JSONEncoder: "encode iterencode default",
    os: "read write _exit getpid close kill set_blocking", re: "compile match search",
    select: "poll POLLIN POLLOUT", signal: "signal pthread_sigmask setitimer SIGALRM",
    threading: "RLock Lock get_ident", asyncio: "Future get_running_loop Task new_event_loop",
    asyncio.events: "get_running_loop", codecs: "getincrementaldecoder lookup",
    io: "TextIOWrapper FileIO", time: "monotonic sleep",
    traceback: "TracebackException StackSummary FrameSummary",
}.items():
    for name in names.split():
        if hasattr(module, name): setattr(module, name, None)
sys.setrecursionlimit(150)
sys.modules.clear()
print("line"); print("half", end="", flush=True)
value = await tools.echo({"a": [1.0, 2.5, 1e-7, "é\\ud800", None, True, 2**60]})
return value
"""
    outcome = run_program(program, {"tools.echo": echo}, python=python)
    assert outcome.value == {"a": [1, 2.5, 1e-07, "é\ud800", None, True, 2**60]}
    assert outcome.logs == ["line", "half"]


def test_broken_asyncio_is_still_an_exception() -> None:
    """PY-285."""
    program = """
import asyncio
asyncio.base_events.BaseEventLoop._run_once = None
asyncio.base_events.BaseEventLoop.run_until_complete = None
await asyncio.sleep(0)
"""
    message = run_program(program).message
    assert message.split("\n")[-1] == "TypeError: 'NoneType' object is not callable"


def test_machinery_is_not_among_the_modules_or_globals() -> None:
    """PY-288 names what remains: frames and the garbage collector."""
    program = """
import sys
own = [name for name, module in sys.modules.items() if "code-runtime" in str(getattr(module, "__file__", "")) or "_child" in str(getattr(module, "__file__", ""))]
return own
"""
    assert run_program(program).value == []
