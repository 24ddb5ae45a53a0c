"""The program as the body of an async function whose names are globals of `__main__`."""

from __future__ import annotations

import json
import sys
import textwrap
from pathlib import Path

import pytest
from fd3_host import CHILD, interpreters, run_program, start_child

from code_runtime import _lossless
from code_runtime_python._child import wire

INTERPRETERS = [pytest.param(path, id=path.split("/")[-3]) for path in interpreters()]

LANGUAGE = r'''"""A docstring."""
from __future__ import annotations
from math import *
import asyncio, json, os.path, sys
import collections.abc as abc
count = 0
total: int = 40
unset: str
def bump():
    global count
    count += 1
    return total
bump(); bump()
class Point:
    """A class of the top level."""
    x: Undefined = 1
    def later(self): return helper() + self.x
def helper(): return 10
for i in range(3): pass
with open("/dev/null") as handle: pass
try:
    1 / 0
except ZeroDivisionError as error:
    text = str(error)
match {"kind": "a", "rest": [1, 2, 3]}:
    case {"kind": name, "rest": [first, *others], **extra}: pass
if (walrus := 5) and [inner := j for j in range(4)]: pass
total += 2
squares = [k * total for k in (1, 2)]
def outer():
    depth = 1
    def inner():
        nonlocal depth
        depth += 1
        return depth
    return inner()
tools = 1
tools = tools + 1
exec("made = 7")
import pickle
copy = pickle.loads(pickle.dumps(Point()))
main = sys.modules["__main__"]
returned = "return" and await asyncio.sleep(0, result=3)
return {
    "count": count, "total": bump(), "pi": floor(pi), "later": copy.later(), "i": i, "text": text,
    "match": [name, first, others, extra], "walrus": [walrus, inner], "squares": squares,
    "outer": outer(), "tools": tools, "made": made, "qualname": Point.__qualname__,
    "main": [main.count, main.__name__, __name__, hasattr(main, "__file__"), main is abc],
    "annotation": Point.__annotations__["x"], "locals": locals()["total"], "vars": vars()["total"],
    "dir": "total" in dir(), "eval": eval("total + 1"), "returned": returned,
    "closed": handle.closed, "unset": "unset" in globals(), "argv": sys.argv,
}
'''

EXPECTED = {
    "count": 2, "total": 42, "pi": 3, "later": 11, "i": 2, "text": "division by zero",
    "match": ["a", 1, [2, 3], {}], "walrus": [5, 3], "squares": [42, 84], "outer": 2, "tools": 2,
    "made": 7, "qualname": "Point", "main": [3, "__main__", "__main__", False, False],
    "annotation": "Undefined", "locals": 42, "vars": 42, "dir": True, "eval": 43, "returned": 3,
    "closed": True, "unset": False, "argv": ["program.py"],
}  # fmt: skip


@pytest.mark.parametrize("python", INTERPRETERS)
def test_program_top_level_is_that_of_a_script(python: str) -> None:
    """PY-082, PY-085, PY-090, PY-091, PY-093, PY-096, PY-097, PY-098, PY-099, PY-103."""
    outcome = run_program(LANGUAGE, python=python)
    assert outcome.value == EXPECTED
    assert outcome.logs == []


@pytest.mark.parametrize("python", INTERPRETERS)
def test_program_keeps_positions_and_text(python: str) -> None:
    """PY-085: line ends, tabs and the text inside strings stay as they were."""
    program = 'text = """a\r\n  b\n\tc"""\r\nif text:\n\tline = __import__("sys")._getframe().f_lineno\r\nreturn [text, line]'
    assert run_program(program, python=python).value == ["a\n  b\n\tc", 5]


@pytest.mark.parametrize(
    ("program", "done"),
    [
        pytest.param("", {"type": "done"}, id="empty"),
        pytest.param("# nothing", {"type": "done"}, id="comment"),
        pytest.param('"""doc"""', {"type": "done"}, id="docstring"),
        pytest.param("7", {"type": "done"}, id="last-expression"),
        pytest.param("if True:\n    return", {"type": "done"}, id="bare-return"),
        pytest.param("return None", {"type": "done", "value": None}, id="return-none"),
        pytest.param(
            "try:\n    return 1\nfinally:\n    return None",
            {"type": "done", "value": None},
            id="finally",
        ),
        pytest.param(
            "for _ in 1,:\n    return (1,)[0],", {"type": "done", "error": ...}, id="tuple"
        ),
        pytest.param(
            "def f():\n    return 3\nreturn f()", {"type": "done", "value": 3}, id="nested"
        ),
    ],
)
def test_program_value_is_what_a_return_with_an_expression_gives(
    program: str, done: object
) -> None:
    """PY-083, PY-084, PY-101: nothing returned, or a bare return, is no value; None is one."""
    outcome = run_program(program)
    assert outcome.done is not None
    assert {key: ... if key == "error" else item for key, item in outcome.done.items()} == done
    assert outcome.exit_code == 0


@pytest.mark.parametrize("python", INTERPRETERS)
@pytest.mark.parametrize(
    ("program", "lines"),
    [
        pytest.param(
            "x = 1\ny = (",
            [
                '  File "program.py", line 2',
                "    y = (",
                "        ^",
                "SyntaxError: '(' was never closed",
            ],
            id="parser",
        ),
        pytest.param(
            "def f():\n    await x",
            [
                '  File "program.py", line 2',
                "    await x",
                "    ^^^^^^^",
                "SyntaxError: 'await' outside async function",
            ],
            id="await",
        ),
        pytest.param(
            "x = 1\nnonlocal x",
            [
                '  File "program.py", line 2',
                "    nonlocal x",
                "    ^^^^^^^^^^",
                "SyntaxError: name 'x' is assigned to before nonlocal declaration",
            ],
            id="nonlocal",
        ),
        pytest.param(
            "x = 1\n  # c\nyield x",
            [
                '  File "program.py", line 3',
                "    yield x",
                "    ^^^^^^^",
                "SyntaxError: 'yield' outside function",
            ],
            id="yield",
        ),
        pytest.param(
            "x = 1\nfrom __future__ import annotations",
            [
                '  File "program.py", line 2',
                "    from __future__ import annotations",
                "SyntaxError: from __future__ imports must occur at the beginning of the file",
            ],
            id="future",
        ),
        pytest.param(
            "  x = 1",
            ['  File "program.py", line 1', "    x = 1", "IndentationError: unexpected indent"],
            id="indent",
        ),
    ],
)
def test_program_syntax_error_shows_the_place(python: str, program: str, lines: list[str]) -> None:
    """PY-086, PY-087, PY-088, PY-092, PY-094, PY-095; carets differ between versions."""
    message = run_program(program, python=python).message.split("\n")
    assert [line for line in message if line.strip("^ ")] == [
        line for line in lines if line.strip("^ ")
    ]
    caret = [line for line in message if not line.strip("^ ")]
    assert len(caret) <= 1
    if "^" in "".join(lines) and not python.split("/")[-3].startswith("3.10"):
        assert caret == [line for line in lines if not line.strip("^ ")]


@pytest.mark.parametrize(
    ("program", "end"),
    [
        pytest.param("x = '\0'", ("SyntaxError: source code string cannot contain null bytes", "ValueError: source code string cannot contain null bytes"), id="nul"),
        pytest.param("\ufeffx = 1", ("SyntaxError: invalid non-printable character U+FEFF",), id="bom"),
        pytest.param("(" * 300 + ")" * 300, ("SyntaxError: too many nested parentheses",), id="parentheses"),
        pytest.param("x = " + "-" * 100_000 + "1", ("MemoryError", "MemoryError: Parser stack overflowed - Python source too complex to parse", "RecursionError: maximum recursion depth exceeded during compilation"), id="depth"),
        pytest.param("x = '\ud800'", ("UnicodeEncodeError: 'utf-8' codec can't encode character '\\ud800' in position 5: surrogates not allowed",), id="surrogate"),
        pytest.param("def g():\n    from math import *", ("SyntaxError: import * only allowed at module level",), id="nested-star"),
        pytest.param("def g():\n    yield 1\nawait g()", ("TypeError: object generator can't be used in 'await' expression",), id="generator"),
    ],
)  # fmt: skip
def test_program_that_cannot_be_compiled_is_an_exception(
    program: str, end: tuple[str, ...]
) -> None:
    """PY-089, PY-091, PY-094, PY-102."""
    assert run_program(program).message.split("\n")[-1] in end


def test_program_compiler_warnings_are_logs() -> None:
    """PY-104."""
    outcome = run_program("x = 1 is 1")
    literal = "'int' literal" if sys.version_info >= (3, 12) else "a literal"
    assert outcome.logs == [
        f'program.py:1: SyntaxWarning: "is" with {literal}. Did you mean "=="?',
        "  x = 1 is 1",
    ]


def test_program_annotations_stay_objects_without_a_future_import() -> None:
    """PY-100."""
    outcome = run_program("def f(x: int): pass\nreturn f.__annotations__['x'] is int")
    assert outcome.value is True


def test_program_finds_a_fresh_main_and_no_machinery() -> None:
    """PY-078, PY-097, PY-098: neither the folder nor the modules of the child can be tripped over."""
    program = """
        import sys, __main__
        names = sorted(name for name in globals() if name not in ("sys", "__main__", "names"))
        mine = [name for name in sys.modules if "child" in name or name in ("wire", "channel", "main")]
        return [names, mine, sorted(vars(__main__)) == sorted(globals()),
                [path for path in sys.path if "_child" in path], sys.flags.isolated,
                "" in sys.path or "." in sys.path]
    """
    names = [
        "__builtins__",
        "__doc__",
        "__loader__",
        "__name__",
        "__package__",
        "__spec__",
        "tools",
    ]
    outcome = run_program(textwrap.dedent(program), {"tools.a": lambda args: args})
    assert outcome.value == [names, [], True, [], 1, False]


def test_program_star_import_failure_shows_only_the_program() -> None:
    """PY-091, PY-106."""
    message = run_program("x = 1\nfrom nowhere_at_all import *").message
    assert message == (
        'Traceback (most recent call last):\n  File "program.py", line 2, in <module>\n'
        "    from nowhere_at_all import *\nModuleNotFoundError: No module named 'nowhere_at_all'"
    )


def test_lossless_is_the_file_of_the_host() -> None:
    host = Path(_lossless.__file__)
    assert (CHILD.parent / "lossless.py").read_bytes() == host.read_bytes()


def test_frames_that_are_written_in_place_are_those_of_the_wire() -> None:
    """Section 1.2: `ledger.py`, `bindings.py` and `main.py` splice text into frames themselves."""
    names = ["é\ud800"]
    with start_child() as child:
        child.boot([{"global": "tools", "names": names}])
        child.read_until("boot-ack")
        program = (
            "print('a\\ud800')\nprint('b', end='', flush=True)\nreturn await tools['é\\ud800'](1)"
        )
        child.send({"type": "run", "program": program})
        lines = [child._reader.readline() for _ in range(3)]
        child.send_bytes(wire.encode_reply(0, b"2"))
        lines.append(child._reader.readline())
    assert lines == [
        wire.encode_log("a\ud800"),
        wire.encode_log("b", is_open=True),
        wire.encode_call(0, "tools", names[0], b"1"),
        wire.encode_done(b"2"),
    ]


def test_program_of_megabytes_starts_quickly() -> None:
    """PY-080: the frames of the handshake are not read byte by byte."""
    program = f"text = {json.dumps('x' * 4_000_000)}\nimport time\nreturn [len(text), time.process_time() < 5]"
    assert run_program(program).value == [4_000_000, True]
