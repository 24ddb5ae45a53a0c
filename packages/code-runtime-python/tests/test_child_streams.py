"""What a program prints: lines, open lines, the ledger, and streams that behave like files."""

from __future__ import annotations

import json
import sys

import pytest
from fd3_host import MIB, interpreters, run_program, start_child

linux_only = pytest.mark.skipif(
    sys.platform != "linux", reason="RLIMIT_AS is not applied elsewhere"
)
INTERPRETERS = [pytest.param(path, id=path.split("/")[-3]) for path in interpreters()]


def marker(budget: int) -> str:
    return f"[code-runtime] logs truncated at {budget} bytes"


@pytest.mark.parametrize(
    ("program", "logs"),
    [
        pytest.param("print('a', 'b'); print('c')", ["a b", "c"], id="PY-124 two prints"),
        pytest.param("print()", [""], id="PY-125 empty"),
        pytest.param("print('a\\rb\\r\\nc')", ["a\rb\r", "c"], id="PY-126 LF only"),
        pytest.param("print('a', end=''); print('b', end='')", ["ab"], id="PY-127 tail"),
        pytest.param("print('a', end='', flush=True); print('b')", ["ab"], id="PY-129 flushed"),
        pytest.param("print('a', end='', flush=True)", ["a"], id="PY-131 open at the end"),
        pytest.param("import sys; print(sys.stdout.write(''), sys.stdout.flush())", ["0 None"], id="PY-133 empty write"),
        pytest.param("import sys\nprint('out', end=''); print('err', file=sys.stderr); print('put')", ["err", "output"], id="PY-145 tails of two streams"),
        pytest.param("import sys\nprint('out', end='', flush=True); print('err', file=sys.stderr); print('put')", ["out", "err", "put"], id="PY-145 open line of another stream"),
        pytest.param("import sys\nprint('a', end='', flush=True); print('b', end='', flush=True, file=sys.stderr)", ["a", "b"], id="PY-145 two open lines"),
        pytest.param("import sys\nprint('a', end=''); print('b', end='', file=sys.stderr)", ["a", "b"], id="PY-145 two tails"),
        pytest.param("print('a\\ud800b')", ["a\ud800b"], id="PY-142 lone surrogate unchanged"),
        pytest.param("print('[code-runtime] logs truncated at 65536 bytes')", [marker(65536)], id="PY-175 text of the marker"),
        pytest.param("import sys\nfor _ in range(2000000): sys.stdout.write('')", [], id="PY-133 two million empty writes"),
    ],
)  # fmt: skip
def test_print_gives_lines(program: str, logs: list[str]) -> None:
    """PY-124 to PY-145."""
    outcome = run_program(program)
    assert outcome.logs == logs
    assert outcome.done == {"type": "done"}


def test_flush_of_an_open_line_is_sent_at_once() -> None:
    """PY-128: it is there although the program is killed."""
    outcome = run_program("import os\nprint('half', end='', flush=True)\nos.kill(os.getpid(), 9)")
    assert (outcome.logs, outcome.done, outcome.exit_code) == (["half"], None, -9)


def test_complete_line_is_sent_before_print_returns() -> None:
    outcome = run_program("import os\nprint('whole')\nos._exit(7)")
    assert (outcome.logs, outcome.done, outcome.exit_code) == (["whole"], None, 7)


def test_fragments_of_an_open_line_are_billed_once() -> None:
    """PY-130, PY-166."""
    program = "for _ in range(16): print('x', end='', flush=True)\nprint('')\nprint('y' * 41)"
    outcome = run_program(program, maxLogBytes=64)
    assert outcome.logs == ["x" * 16, "y" * 41]
    program = program.replace("41", "42")
    assert run_program(program, maxLogBytes=64).logs == ["x" * 16, marker(64)]


@pytest.mark.parametrize(
    ("program", "budget", "logs"),
    [
        pytest.param("print('x' * 60)", 64, ["x" * 60], id="PY-164 fits"),
        pytest.param("print('x' * 61)", 64, [marker(64)], id="PY-164 does not fit"),
        pytest.param("print('x' * 100)\nprint('y' * 10, end='')", 104, ["x" * 100, marker(104)], id="PY-165"),
        pytest.param("print('x' * 30, end='', flush=True)\nprint('x' * 30)", 64, ["x" * 60], id="PY-166 exact"),
        pytest.param("print('x' * 40, end='', flush=True)\nprint('x' * 40)\nprint(1)", 64, ["x" * 40, marker(64)], id="PY-132 held text first"),
        pytest.param("for _ in range(10000): print()", 64, [""] * 21 + [marker(64)], id="PY-170 blank lines"),
        pytest.param("for _ in range(500): print('\\0' * 10)", 256, ["\0" * 10] * 4 + [marker(256)], id="PY-171 control characters"),
        pytest.param("for _ in range(1): print('\\ud800' * 1000)", 4096, [marker(4096)], id="PY-172 lone surrogates"),
        pytest.param("print('\\0' * 11)", 64, [marker(64)], id="PY-172"),
        pytest.param("import sys\nfor _ in range(200000): sys.stdout.write('x')", 4096, [marker(4096)], id="PY-135 drip"),
        pytest.param("import sys\nsys.stdout.write('line\\n' * 500000)", 256, ["line"] * 36 + [marker(256)], id="PY-137 many lines in one write"),
        pytest.param("import sys\nsys.stdout.write('\\n' * 500 + 'tail')", 65536, [""] * 500 + ["tail"], id="many frames in one write"),
    ],
)  # fmt: skip
def test_ledger_admits_what_fits_and_then_one_marker(
    program: str, budget: int, logs: list[str]
) -> None:
    """PY-163 to PY-174: the list of entries is never larger than the budget; the run goes on."""
    outcome = run_program(program + "\nreturn 1", maxLogBytes=budget)
    assert outcome.logs == logs
    assert outcome.value == 1
    entries = [entry for entry in logs if entry != marker(budget)]
    assert len(json.dumps(entries, separators=(",", ":"))) <= budget
    assert [frame.get("truncated") for frame in outcome.frames].count(True) == (
        marker(budget) in logs
    )


def test_drip_is_truncated_during_the_run() -> None:
    """PY-136."""
    program = """
import sys
for _ in range(100_000): print("x", end="")
try:
    sys._getframe().f_globals["tools"]
finally:
    await tools.now(None)
"""
    kinds: list[str] = []

    def now(args: object) -> object:
        return args

    outcome = run_program(program, {"tools.now": now}, maxLogBytes=1024)
    kinds = [frame["type"] for frame in outcome.frames]
    assert kinds == ["boot-ack", "log", "call", "done"]
    assert outcome.logs == [marker(1024)]


@linux_only
@pytest.mark.parametrize(
    ("program", "budget", "space"),
    [
        pytest.param("import sys\nsys.stdout.write('x' * (340 << 20) + '\\n')", 1024, 800, id="PY-138 terminated"),
        pytest.param("import sys\nsys.stdout.write('x'); sys.stdout.write('x' * (340 << 20))", 1024, 400, id="PY-138 pending"),
        pytest.param("import sys\ntext = '\\n' + 'x' * (150 << 20)\nsys.stdout.write(text)", 1024, 384, id="PY-139 tail"),
        pytest.param("print('x' * (100 << 20))", 1024, 256, id="PY-140"),
        pytest.param("print('\\0' * (24 << 20))", 32 * MIB, 512, id="PY-171 control characters"),
    ],
)  # fmt: skip
def test_large_text_that_does_not_fit_is_never_copied(
    program: str, budget: int, space: int
) -> None:
    """PY-138, PY-139, PY-140, PY-171; the program itself needs 300 MiB and more."""
    outcome = run_program(program + "\nreturn 1", maxLogBytes=budget, addressSpaceBytes=space * MIB)
    assert outcome.logs in ([marker(budget)], ["", marker(budget)])
    assert outcome.value == 1


@linux_only
def test_logs_are_sent_before_the_value_is_spelled() -> None:
    """PY-141: the two peaks do not add up."""
    program = "text = '\\U0001f600' * 33_000_000\nprint(text, end='')\nreturn text"
    outcome = run_program(
        program, maxLogBytes=8 * MIB, maxValueBytes=8 * MIB, addressSpaceBytes=512 * MIB
    )
    assert outcome.failure == ("output-limit", f"The value is larger than {8 * MIB} bytes")
    assert outcome.logs == [marker(8 * MIB)]


@pytest.mark.parametrize("python", INTERPRETERS)
def test_streams_behave_like_files(python: str) -> None:
    """PY-143, PY-144: what common code asks of a stream is there."""
    program = r"""
import codecs, contextlib, io, logging, os, subprocess, sys, warnings
out = sys.stdout
facts = [out.encoding, out.errors, out.newlines, out.isatty(), out.fileno(), sys.stderr.fileno(),
    out.name, out.mode, out.line_buffering, out.readable(), out.writable(), out.seekable(), out.closed]
assert isinstance(out, io.TextIOBase) and isinstance(out.buffer, io.BufferedIOBase)
out.reconfigure(encoding="utf-8", line_buffering=True)
out.buffer.write("é".encode()[:1]); out.buffer.write("é".encode()[1:] + b"\n")
out.buffer.write(bytearray(b"bytes "))
print("and text")
codecs.getwriter("utf-8")(out.buffer).write("writer\n")
io.TextIOWrapper(out.buffer, encoding="utf-8", write_through=True).write("wrapped\n")
out.writelines(["x\n", "y\n"])
with contextlib.redirect_stdout(io.StringIO()) as caught: print("hidden")
logging.warning("logged")
warnings.warn("warned")
out.close()
print("after close", file=out)
for wrong in (5, b"x", None, 0):
    try: out.write(wrong)
    except TypeError as error: print(error)
subprocess.run(["echo", "native"], stdout=sys.stdout, env={"PATH": os.defpath})
sys.__stdout__.write("under\n")
sys.stdout = io.TextIOWrapper(out.buffer, encoding="utf-8")
print("left in a buffer")
return facts
"""
    outcome = run_program(program, python=python)
    assert outcome.value == [
        "utf-8",
        "surrogatepass",
        None,
        False,
        1,
        2,
        "<stdout>",
        "w",
        True,
        False,
        True,
        False,
        False,
    ]
    assert outcome.logs == [
        "é", "bytes and text", "writer", "wrapped", "x", "y", "WARNING:root:logged",
        "program.py:16: UserWarning: warned", '  warnings.warn("warned")', "after close",
        "write() argument must be str, not int", "write() argument must be str, not bytes",
        "write() argument must be str, not NoneType", "write() argument must be str, not int",
        "left in a buffer",
    ]  # fmt: skip
    assert outcome.native == {1: "native\nunder\n", 2: ""}


def test_settlement_survives_a_broken_stream() -> None:
    """PY-144, PY-146: the original streams count, and a flush that raises changes nothing."""
    program = """
import sys
print("tail", end="")
class Broken:
    def flush(self): raise SystemExit(3)
    def __eq__(self, other): raise SystemExit(4)
sys.stdout = sys.stderr = sys.__stdout__ = Broken()
return 1
"""
    outcome = run_program(program)
    assert (outcome.value, outcome.logs) == (1, ["tail"])


def test_incomplete_character_at_the_end_becomes_a_replacement() -> None:
    """PY-152, for bytes that a program writes to `sys.stdout.buffer`."""
    assert run_program("import sys\nsys.stdout.buffer.write(b'a\\xe2\\x82')").logs == ["a\ufffd"]


def test_native_streams_are_unbuffered_and_flushed_before_the_end() -> None:
    """PY-079, PY-159."""
    program = """
import io, os, sys
sys.__stdout__.write("at once")
sys.__stdout__ = io.TextIOWrapper(io.BufferedWriter(io.FileIO(1, "w", closefd=False)))
sys.__stdout__.write("at the end")
os.write(2, b"raw")
return 1
"""
    outcome = run_program(program)
    assert (outcome.value, outcome.native) == (1, {1: "at onceat the end", 2: "raw"})


def test_input_finds_an_empty_stdin() -> None:
    """PY-062."""
    outcome = run_program("import sys\nprint(repr(sys.stdin.read()))\nreturn input('name? ')")
    assert outcome.message.endswith("EOFError: EOF when reading a line")
    assert outcome.logs == ["''", "name? "]


@pytest.mark.parametrize("attempt", range(3))
def test_threads_that_print_at_the_end_do_not_harm_it(attempt: int) -> None:
    """PY-147, PY-148, PY-206: frames of several threads never interleave."""
    program = """
import threading, time
def chatter(name):
    while True: print(name * 50, end="" if name == "b" else "\\n")
for name in "abcd": threading.Thread(target=chatter, args=(name,), daemon=True).start()
time.sleep(0.05)
return "x" * 300_000
"""
    outcome = run_program(program, maxLogBytes=50 * MIB, maxValueBytes=MIB)
    assert outcome.value == "x" * 300_000
    assert outcome.frames[-1]["type"] == "done"


def test_print_in_a_signal_handler_cannot_deadlock_or_tear_a_frame() -> None:
    """PY-225: the handler's lines come between the others, whole."""
    program = """
import signal, sys
ticks = 0
def tick(number, frame):
    global ticks
    ticks += 1
    sys.stdout.write("tick " + "t" * 2_000 + "\\n")
signal.signal(signal.SIGALRM, tick)
signal.setitimer(signal.ITIMER_REAL, 0.0005, 0.0005)
lines = 0
while ticks < 200:
    sys.stdout.write("line " + "x" * 2_000 + "\\n")
    lines += 1
signal.setitimer(signal.ITIMER_REAL, 0)
return [lines, ticks]
"""
    outcome = run_program(program, maxLogBytes=100 * MIB)
    lines, ticks = outcome.value
    assert outcome.logs.count("line " + "x" * 2_000) == lines
    assert outcome.logs.count("tick " + "t" * 2_000) == ticks
    assert len(outcome.logs) == lines + ticks


def test_signal_handler_that_raises_cannot_tear_a_frame() -> None:
    program = """
import signal, sys
class Late(Exception): pass
def late(number, frame): raise Late
signal.signal(signal.SIGALRM, late)
interrupted = 0
while interrupted < 200:
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.0004)
        while True: sys.stdout.write("x" * 3_000 + "\\n")
    except Late:
        interrupted += 1
return interrupted
"""
    outcome = run_program(program, maxLogBytes=200 * MIB)
    assert outcome.value == 200
    assert set(outcome.logs) == {"x" * 3_000}


def test_signal_handler_that_prints_and_raises_ends_no_later_line() -> None:
    """PY-225: what it printed stands by itself, whatever it interrupted."""
    program = """
import signal, sys
class Late(Exception): pass
def late(number, frame):
    print("handler", 2)
    raise Late
signal.signal(signal.SIGALRM, late)
interrupted = 0
while interrupted < 300:
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.0003)
        while True: sys.stdout.write("line\\n")
    except Late:
        interrupted += 1
return interrupted
"""
    outcome = run_program(program, maxLogBytes=200 * MIB)
    assert outcome.value == 300
    assert set(outcome.logs) == {"line", "handler 2"}
    assert outcome.logs.count("handler 2") == 300


def test_slow_reader_loses_nothing() -> None:
    """A full socket slows the program down; the frames are whole when the host reads again."""
    with start_child() as child:
        child.boot(maxLogBytes=8 * MIB)
        child.read_until("boot-ack")
        child.send({"type": "run", "program": "for i in range(20000): print(i, 'y' * 100)"})
        child.read_until("done")
        logs = [frame["text"] for frame in child.frames if frame["type"] == "log"]
    assert logs == [f"{i} {'y' * 100}" for i in range(20_000)]
