"""What the author of a program sees of an exception."""

from __future__ import annotations

import json
import re
import time

import pytest
from fd3_host import MIB, Rejection, interpreters, run_program

INTERPRETERS = [pytest.param(path, id=path.split("/")[-3]) for path in interpreters()]
MARK = "\u2026 [truncated]"


def version(python: str) -> tuple[int, ...]:
    return tuple(int(part) for part in python.split("/")[-3].split(".")[:2])


@pytest.mark.parametrize("python", INTERPRETERS)
def test_traceback_shows_the_lines_of_the_program_and_one_for_the_library(python: str) -> None:
    """PY-105, PY-106, PY-107, PY-109, PY-110: source lines, carets from 3.11 on, no path of the host."""
    program = """import json
def parse(text):
    return json.loads(text)
def both():
    try:
        parse("{")
    except ValueError as error:
        raise KeyError("no such") from error
x = sorted([2, 1],
           key=lambda item: both())
"""
    message = run_program(program, python=python).message
    lines = [line for line in message.split("\n") if not re.fullmatch(r" +[~^]+", line)]
    assert lines == [
        "Traceback (most recent call last):",
        '  File "program.py", line 6, in both',
        '    parse("{")',
        '  File "program.py", line 3, in parse',
        "    return json.loads(text)",
        "  Library json.decoder, line " + re.findall(r"decoder, line (\d+)", message)[0] + ", in raw_decode (3 library frames)",
        "json.decoder.JSONDecodeError: Expecting property name enclosed in double quotes: line 1 column 2 (char 1)",
        "",
        "The above exception was the direct cause of the following exception:",
        "",
        "Traceback (most recent call last):",
        '  File "program.py", line 9, in <module>',
        "    x = sorted([2, 1],",
        *(["               key=lambda item: both())"] if version(python) >= (3, 13) else []),
        '  File "program.py", line 10, in <lambda>',
        "    key=lambda item: both())",
        '  File "program.py", line 8, in both',
        '    raise KeyError("no such") from error',
        "KeyError: 'no such'",
    ]  # fmt: skip


@pytest.mark.parametrize("python", INTERPRETERS)
def test_traceback_has_carets_where_the_interpreter_knows_columns(python: str) -> None:
    message = run_program("a, b = 1, 0\nc = a + a / b", python=python).message
    carets = [line for line in message.split("\n") if re.fullmatch(r" +[~^]+", line)]
    assert carets == (["            ~~^~~"] if version(python) >= (3, 11) else [])


@pytest.mark.parametrize("python", INTERPRETERS)
def test_traceback_of_a_failed_call_ends_at_its_await(python: str) -> None:
    """PY-106: nothing of the machinery, in the message or in what the program prints itself."""
    program = """
import asyncio, traceback
try:
    await tools.no(1)
except RuntimeError:
    print(traceback.format_exc())
async def task():
    return await tools.no(2)
await asyncio.gather(asyncio.create_task(tools.no(3)), task())
"""

    def no(args: object) -> object:
        raise Rejection(f"no {args}")

    outcome = run_program(program, {"tools.no": no}, python=python)
    assert outcome.message.split("\n")[:3] == [
        "Traceback (most recent call last):",
        '  File "program.py", line 9, in <module>',
        "    await asyncio.gather(asyncio.create_task(tools.no(3)), task())",
    ]
    assert outcome.message.endswith("\nRuntimeError: no 3")
    assert "code-runtime" not in outcome.message
    printed = "\n".join(outcome.logs)
    assert "    await tools.no(1)\n" in printed
    assert "_child" not in printed


@pytest.mark.parametrize("python", INTERPRETERS)
def test_traceback_of_a_long_chain_is_cut(python: str) -> None:
    """PY-111, PY-112: on a copy; the exceptions themselves stay as they are."""
    program = """
class Strict(Exception):
    def __setattr__(self, name, value): raise TypeError("frozen")
error = Strict("first")
for number in range(3000):
    try:
        raise Strict(f"link {number}") from error
    except Strict as caught:
        error = caught
raise error
"""
    started_s = time.monotonic()
    lines = run_program(program, python=python, maxValueBytes=MIB).message.split("\n")
    assert time.monotonic() - started_s < 5
    assert lines[0] == "[more than 100 linked exceptions: the rest is not shown]"
    assert [line for line in lines if line.startswith("Strict")] == [f"Strict: link {number}" for number in range(2900, 3000)]  # fmt: skip


@pytest.mark.parametrize(
    "python", [item for item in INTERPRETERS if version(str(item.values[0])) >= (3, 11)]
)
def test_traceback_of_groups(python: str) -> None:
    """PY-106, PY-113, PY-210."""
    program = """
import asyncio
async def fail(number):
    raise ValueError(number)
async with asyncio.TaskGroup() as group:
    group.create_task(fail(1))
    group.create_task(fail(2))
"""
    lines = [
        line
        for line in run_program(program, python=python).message.split("\n")
        if not re.fullmatch(r"[ |]+[~^]+", line) and "Library" not in line
    ]
    assert lines == [
        "Exception Group Traceback (most recent call last):",
        '  File "program.py", line 5, in <module>',
        "    async with asyncio.TaskGroup() as group:",
        "ExceptionGroup: unhandled errors in a TaskGroup (2 sub-exceptions)",
        "  +---------------- 1 ----------------",
        "  | Traceback (most recent call last):",
        '  |   File "program.py", line 4, in fail',
        "  |     raise ValueError(number)",
        "  | ValueError: 1",
        "  +---------------- 2 ----------------",
        "  | Traceback (most recent call last):",
        '  |   File "program.py", line 4, in fail',
        "  |     raise ValueError(number)",
        "  | ValueError: 2",
        "  +------------------------------------",
    ]  # fmt: skip
    nested = "error = ValueError(0)\nfor n in range(150): error = ExceptionGroup(f'g{n}', [error])\nraise error"
    message = run_program(nested, python=python, maxValueBytes=MIB).message
    assert message.count("ExceptionGroup: g") == 100
    assert message.count("[more than 100 linked exceptions: the rest is not shown]") == 1
    wide = "raise ExceptionGroup('wide', [ValueError(n) for n in range(5000)])"
    message = run_program(wide, python=python, maxValueBytes=MIB).message
    assert message.count("| ValueError") == 99
    assert message.count("[more than 100 linked exceptions: the rest is not shown]") == 1


@pytest.mark.parametrize(
    ("program", "last"),
    [
        pytest.param("class E(Exception):\n    def __str__(self): raise SystemExit\n    __repr__ = __str__\nraise E", "E: <exception str() failed>", id="PY-114 str"),
        pytest.param("class M(type):\n    __module__ = property(lambda self: 1 / 0)\n    def __getattribute__(self, name): raise SystemExit\nclass E(Exception, metaclass=M): pass\nraise E('text')", "E: text", id="PY-115 metaclass"),
        pytest.param("class M(type):\n    @property\n    def __name__(self): 1 / 0\nclass E(Exception, metaclass=M): pass\nraise E('text')", "E: text", id="PY-115 name"),
        pytest.param("class E(Exception):\n    __cause__ = __context__ = __traceback__ = __notes__ = property(lambda self: 1 / 0)\nraise E('text')", "E: text", id="properties"),
        pytest.param("class E(NameError):\n    name = property(lambda self: 1 / 0)\n    def __getattribute__(self, name): raise SystemExit\nraise E('text')", "E: text", id="name error"),
        pytest.param("raise type('x' * 1_000_000, (Exception,), {})('text')", "x" * 200 + ": text", id="name of a megabyte"),
        pytest.param("raise ValueError('a\\ud800b')", "ValueError: a?b", id="PY-116 surrogate"),
        pytest.param("e = ValueError('text')\ne.__notes__ = ['a note', 5]\nraise e", "a note", id="note"),
        pytest.param("raise ValueError", "ValueError", id="no text"),
        pytest.param("import decimal\nraise decimal.InvalidOperation('x')", "decimal.InvalidOperation: x", id="module"),
        pytest.param("import sys\nsys.setrecursionlimit(40)\ndef f(): f()\nf()", "RecursionError: maximum recursion depth exceeded", id="recursion"),
        pytest.param("import sys\nsys.setrecursionlimit(10**6)\ndef f(): g = (i for i in [1]); f()\nsys.setrecursionlimit(300)\nf()", "RecursionError: maximum recursion depth exceeded", id="many frames"),
        pytest.param("import asyncio\nasync def main(): pass\nm = main()\nasyncio.run(m)", "The program already runs in an event loop: write `await main()` at its top level", id="PY-205 asyncio.run"),
    ],
)  # fmt: skip
def test_exception_of_any_kind_is_told(program: str, last: str) -> None:
    """PY-114, PY-115, PY-116, PY-205."""
    message = run_program(program).message
    assert message.split("\n")[-1].removesuffix(" while calling a Python object") == last
    assert len(message) < 12_000


@pytest.mark.parametrize(
    ("budget", "start", "exact"),
    [
        pytest.param(1024, "Traceback (most recent call last):\n", True, id="PY-117"),
        pytest.param(40, "Traceback (most rec", False, id="PY-119 40 bytes"),
        pytest.param(4, "", False, id="PY-119 4 bytes"),
        pytest.param(1, "", False, id="1 byte"),
    ],
)
def test_message_is_cut_to_the_budget(budget: int, start: str, exact: bool) -> None:
    """PY-117, PY-119: the mark counts; where not even the mark fits, it stands alone."""
    message = run_program("raise ValueError('é' * 8_000_000)", maxValueBytes=budget).message
    assert message.startswith(start)
    assert message.endswith(MARK)
    cost = len(json.dumps(message, ensure_ascii=False).encode())
    assert cost <= max(budget, 17)
    if exact:
        assert cost > budget - 2


def test_message_of_control_characters_is_cut_by_its_spelled_size() -> None:
    """PY-118."""
    message = run_program("raise ValueError('\\0' * 524_288)", maxValueBytes=4096).message
    assert 4080 < len(json.dumps(message, ensure_ascii=False).encode()) <= 4096


def test_exception_without_a_frame_of_the_program_is_its_last_line() -> None:
    """PY-108."""
    program = "import asyncio\nfuture = asyncio.get_running_loop().create_future()\nfuture.set_exception(ValueError('x'))\n"
    program += "import signal, threading\nawait asyncio.sleep(0)\nraise_from_c = threading.Thread\n"
    assert run_program(program + "return await future").message.endswith("ValueError: x")


def test_rendering_that_fails_is_still_an_exception() -> None:
    """PY-115, PY-285: the program has broken the modules that render."""
    program = """
import linecache, traceback
traceback.StackSummary = traceback.TracebackException = traceback.FrameSummary = None
linecache.getline = linecache.getlines = linecache.checkcache = linecache.cache = None
traceback.linecache = None
raise ValueError("still told")
"""
    message = run_program(program).message
    assert message.split("\n")[-1] == "ValueError: still told"
    assert '  File "program.py", line 6, in <module>' in message
