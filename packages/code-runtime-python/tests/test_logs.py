"""The log budget and the native streams: line by line, and through real runs."""

from __future__ import annotations

import json

import pytest
from run_requests import Provider, Run, build_request

from code_runtime._execution._logs import LogObserver
from code_runtime_python._child.wire import MAX_FRAGMENTS, log_marker
from code_runtime_python._logs import LineLog


class Book:
    """A log with what its observer has seen."""

    def __init__(self, max_bytes: int) -> None:
        self.shown: list[str] = []
        self.marker = log_marker(max_bytes)
        self.log = LineLog(max_bytes, LogObserver(self.shown.append, record=False))

    def opened(self, text: str) -> None:
        self.log.add_part(text, is_open=True)

    def closed(self, text: str) -> None:
        self.log.add_part(text, is_open=False)

    def entries(self) -> list[str]:
        self.log.finish()
        return self.log.entries


def test_a_list_of_entries_fits_the_budget_to_the_byte() -> None:
    """PY-163, PY-164: 60 characters fit 64 bytes, 61 do not."""
    fits, over = Book(64), Book(64)
    fits.log.add_line("x" * 60)
    over.log.add_line("x" * 61)
    assert len(json.dumps(fits.entries())) == 64
    assert (over.entries(), over.log.truncated) == ([over.marker], True)


def test_what_does_not_fit_is_dropped_with_the_marker() -> None:
    """PY-165: the exact fit stays."""
    book = Book(104)
    book.log.add_line("x" * 100)
    assert not book.log.truncated
    book.log.add_line("y" * 10)
    assert book.entries() == ["x" * 100, book.marker]


@pytest.mark.parametrize(
    ("first", "second", "kept"),
    [(30, 30, [60]), (29, 30, [59]), (40, 40, [40, None])],
)
def test_an_open_line_pays_its_quotes_once(first: int, second: int, kept: list[int | None]) -> None:
    """PY-129, PY-132, PY-166."""
    book = Book(64)
    book.opened("x" * first)
    book.closed("x" * second)
    expected = [book.marker if size is None else "x" * size for size in kept]
    assert book.entries() == expected
    assert book.shown == expected


def test_forged_open_lines_are_bounded() -> None:
    """PY-167, PY-168."""
    large, flood, mixed = Book(64), Book(64), Book(64)
    large.opened("x" * 61)
    assert large.entries() == [large.marker]
    for _ in range(2000):
        flood.opened("x")
    flood.closed("y")
    assert flood.entries() == ["x" * 60, flood.marker]
    mixed.opened("x" * 28)
    mixed.closed("y" * 31)
    mixed.opened("z")
    assert mixed.entries() == ["x" * 28 + "y" * 31, mixed.marker]


def test_many_parts_become_one_entry() -> None:
    """PY-130, PY-131, PY-169: sealed in between, and an empty part costs nothing."""
    book = Book(4096)
    book.opened("")
    assert book.log.room_bytes == 4095
    for _ in range(3000):
        book.opened("x")
        assert book.log._open is not None
        assert len(book.log._open) <= MAX_FRAGMENTS
    book.opened("")
    assert book.log.room_bytes == 4095 - 3003
    assert book.entries() == ["x" * 3000]


def test_parts_before_a_marker_are_kept() -> None:
    """PY-132, PY-169."""
    book = Book(2000)
    for _ in range(1500):
        book.opened("x")
    book.opened("y" * 600)
    assert book.entries() == ["x" * 1500, book.marker]


def test_a_line_beside_an_open_one_stands_behind_its_beginning() -> None:
    """PY-145: better than upstream, which lists it before."""
    book = Book(64)
    book.opened("a")
    book.log.add_line("native")
    book.closed("b")
    assert book.entries() == ["ab", "native"]


@pytest.mark.parametrize(
    ("budget", "line", "count", "kept"),
    [
        pytest.param(64, "", 10_000, 21, id="blank"),
        pytest.param(256, "\0" * 10, 500, 4, id="controls"),
        pytest.param(64, "\0" * 11, 1, 0, id="one of controls"),
        pytest.param(4096, "\ud800" * 1000, 1, 0, id="surrogates"),
        pytest.param(128, "\0" * 4_194_304, 1, 0, id="huge"),
    ],
)
def test_an_entry_costs_its_json_text(budget: int, line: str, count: int, kept: int) -> None:
    """PY-170, PY-171, PY-172."""
    book = Book(budget)
    for _ in range(count):
        book.log.add_line(line)
    assert book.entries() == [line] * kept + [book.marker]
    assert len(json.dumps(book.entries()[:-1])) <= budget + kept  # json.dumps adds a space each


def test_a_truncation_of_the_child_is_one_here() -> None:
    """PY-162, PY-173: one marker, at the end, and nothing after it."""
    book = Book(1000)
    book.opened("open")
    book.log.truncate()
    book.log.truncate()
    book.log.add_line("native")
    book.opened("late")
    assert (book.entries(), book.log.room_bytes) == (["open", book.marker], 0)


def test_the_text_of_the_marker_is_an_ordinary_entry() -> None:
    """PY-175."""
    book = Book(200)
    book.log.add_line(book.marker)
    assert (book.entries(), book.log.truncated) == ([book.marker], False)


WRITE = "import os\n"


@pytest.mark.anyio
@pytest.mark.parametrize("fd", [1, 2])
@pytest.mark.parametrize(
    ("program", "logs"),
    [
        pytest.param("os.write({fd}, b'line\\n')", ["line"], id="line"),
        pytest.param("os.write({fd}, b'one\\ntwo\\nthree')", ["one", "two", "three"], id="three"),
        pytest.param(
            "left = b'x' * 200_000\nwhile left: left = left[os.write({fd}, left):]",
            ["x" * 200_000],
            id="no line end",
        ),
        pytest.param(
            "for char in '\\u00e9\\u20ac\\U0001F600':\n"
            "    for byte in char.encode(): os.write({fd}, bytes([byte])); time.sleep(0.002)",
            ["é€\U0001f600"],
            id="split characters",
        ),
        pytest.param("os.write({fd}, b'a\\xe2\\x82')", ["a\ufffd"], id="incomplete"),
        pytest.param("os.write({fd}, b'\\xe2\\x82a')", ["\ufffda"], id="broken"),
        pytest.param("os.write({fd}, b'a\\xff\\xfeb\\n')", ["a\ufffd\ufffdb"], id="illegal"),
        pytest.param("subprocess.run(['/bin/echo', 'hello'], stdout={fd})", ["hello"], id="child"),
        pytest.param("os.write({fd}, b'a\\r\\n\\nb\\n')", ["a\r", "", "b"], id="line ends"),
    ],
)
async def test_native_bytes_are_entries(run: Run, fd: int, program: str, logs: list[str]) -> None:
    """PY-126, PY-149, PY-150, PY-151, PY-152, PY-154."""
    result = await run("import os, subprocess, time\n" + program.format(fd=fd))
    assert (result.logs, result.error) == (logs, None)


@pytest.mark.anyio
async def test_native_streams_of_python_are_captured(run: Run) -> None:
    """PY-079, PY-159: also when the program buffers them."""
    result = await run(
        "import io, sys\nsys.__stdout__.write('out\\n')\n"
        "sys.__stdout__ = io.TextIOWrapper(io.BufferedWriter(io.FileIO(1, 'w', closefd=False)))\n"
        "sys.__stdout__.write('buffered\\n')\nreturn 1"
    )
    assert (result.logs, result.value) == (["out", "buffered"], 1)


@pytest.mark.anyio
async def test_each_stream_keeps_its_order(run: Run) -> None:
    """PY-160: between the streams, the order is not promised."""
    result = await run(
        "import os\nfor i in range(300):\n"
        "    print('print', i)\n    os.write(1, b'out %d\\n' % i)\n    os.write(2, b'err %d\\n' % i)"
    )
    for name in ("print", "out", "err"):
        own = [line for line in result.logs if line.startswith(name)]
        assert own == [f"{name} {number}" for number in range(300)]


@pytest.mark.anyio
@pytest.mark.parametrize(
    "program",
    [
        pytest.param("left = b'x' * 2_000_000", id="no line end"),
        pytest.param("left = b'\\0' * 4000", id="controls"),
        pytest.param("left = b'\\xff' * 4000", id="illegal"),
        pytest.param("left = ('\\u20ac' * 100_000).encode()", id="wide"),
    ],
)
async def test_a_native_flood_is_cut_off(provider: Provider, program: str) -> None:
    """PY-153, PY-155, PY-171: by decoded and escaped size; no broken character is shown."""
    async with provider(max_log_bytes=4096) as runtime:
        result = await runtime.run(
            build_request(
                f"import os\nos.write(1, b'first\\n')\n{program}\n"
                "while left: left = left[os.write(1, left):]\nreturn 1"
            )
        )
    assert (result.logs, result.value) == (["first", log_marker(4096)], 1)
    assert result.logs_truncated


@pytest.mark.anyio
async def test_both_native_streams_share_the_budget(provider: Provider) -> None:
    """PY-156, PY-157: the second line of a chunk whose first is over is dropped too."""
    async with provider(max_log_bytes=100) as runtime:
        shared = await runtime.run(
            build_request("import os\nos.write(1, b'x' * 60)\nos.write(2, b'y' * 60)")
        )
        chunk = await runtime.run(
            build_request("import os\nos.write(1, b'x' * 98 + b'\\nsecond\\n')")
        )
    assert len(shared.logs) == 2
    assert shared.logs[0] in ("x" * 60, "y" * 60)
    assert shared.logs[1] == log_marker(100)
    assert chunk.logs == [log_marker(100)]


@pytest.mark.anyio
async def test_a_drip_of_native_bytes_is_one_entry(run: Run) -> None:
    """PY-158."""
    result = await run("import os\nfor _ in range(60_000): os.write(1, b'x')\nreturn 1")
    assert (result.logs, result.value) == (["x" * 60_000], 1)


@pytest.mark.anyio
async def test_child_and_host_cut_off_at_the_same_entry(provider: Provider) -> None:
    """PY-163, PY-164, PY-165, PY-170, PY-173, PY-174: a run goes on, with one marker at the end."""
    programs = {
        "print('x' * 60)": ["x" * 60],
        "print('x' * 61)": [log_marker(64)],
        "for _ in range(10_000): print()": [""] * 21 + [log_marker(64)],
        # The call makes sure that the host has seen both lines before the native one.
        "print('a' * 20)\nprint('b' * 60)\nawait tools.seen(None)\nos.write(1, b'late\\n')": [
            "a" * 20,
            log_marker(64),
        ],
        "for c in 'abcdefghijklmnop': print(c, end='', flush=True)": ["abcdefghijklmnop"],
    }
    async with provider(max_log_bytes=64) as runtime:
        for program, logs in programs.items():
            request = build_request(
                f"import os\n{program}\nreturn 'value'", {"seen": lambda _: None}
            )
            result = await runtime.run(request)
            assert (result.logs, result.value) == (logs, "value")
            assert result.logs_truncated is (logs[-1] == log_marker(64))


@pytest.mark.anyio
async def test_an_open_line_survives_a_kill(provider: Provider) -> None:
    """PY-128, PY-131, PY-161: and the native bytes of an unfinished line."""
    async with provider(max_wall_ms=400) as runtime:
        result = await runtime.run(
            build_request(
                "import os\nprint('open', end='', flush=True)\nos.write(2, b'native')\n"
                "while True: pass"
            )
        )
    assert sorted(result.logs) == ["native", "open"]


@pytest.mark.anyio
async def test_a_log_after_the_completion_is_dropped(run: Run) -> None:
    """PY-147, PY-219: on the channel; native bytes until the end of the process are kept."""
    from python_forgery import FORGE

    result = await run(
        f"{FORGE}\nsend(type='done', value=1)\nsend(type='log', text='late')\n"
        "os.write(1, b'native\\n')\nos._exit(0)"
    )
    assert (result.logs, result.value) == (["native"], 1)
