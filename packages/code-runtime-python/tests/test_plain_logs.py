"""Floods of plain lines: taken in bulk, with the same result as one by one."""

from __future__ import annotations

import json

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from run_requests import Provider, build_request

from code_runtime._execution._logs import LogObserver
from code_runtime_python._frames import (
    LogError,
    LogMessage,
    LogReader,
    parse_log,
    plain_log,
    plain_logs,
)
from code_runtime_python._logs import LineLog


def frame(text: str) -> bytes:
    return json.dumps({"type": "log", "text": text}, separators=(",", ":")).encode()


PIECES = st.one_of(
    st.text(st.characters(min_codepoint=32, max_codepoint=126, exclude_characters='"\\')).map(
        frame
    ),
    st.text(max_size=3).map(frame),
    st.sampled_from(
        [
            b'{"type":"log","text":"}',
            b'"}',
            b'{"type":"log","text":"',
            b'{"type":"log","text":""}',
            b'{"type":"log","text":"a","open":true}',
            b'{"type":"log","text":"a"}{"type":"log","text":"b"}',
            b'{"type":"log","text":"a\xff"}',
            b'{"type":"log","text":"a\x7f"}',
            b'{"type":"call","id":0,"global":"a","name":"b","args":null}',
            b" ",
        ]
    ),
)


@given(st.lists(PIECES, min_size=2, max_size=6))
@example([frame("a"), b'{"type":"log","text":"}'])
@example([b'{"type":"log","text":"}', frame("a")])
@example([frame("a"), b'{"type":"log","text":"b"}{"type":"log","text":"c"}'])
def test_plain_logs_knows_what_plain_log_knows(lines: list[bytes]) -> None:
    """PY-124: all lines of the child that are one plain entry, or none."""
    each = [plain_log(line) for line in lines]
    assert plain_logs(lines) == (None if None in each else each)


LOG = b'{"type":"log","text":'


@pytest.mark.parametrize(
    ("line", "message"),
    [
        pytest.param(b'"a"}', LogMessage("a", False, False), id="plain"),
        pytest.param(b'""}', LogMessage("", False, False), id="empty"),
        pytest.param(b'"\\"\\u00e9"}', LogMessage('"é', False, False), id="escapes"),
        pytest.param(
            b'"\\ud83d\\ude00\\ud800"}', LogMessage("\U0001f600\ud800", False, False), id="pair"
        ),
        pytest.param(b'"a\\n","open":true}', LogMessage("a\n", False, True), id="open"),
        pytest.param(b'"a","open":true}', LogMessage("a", False, True), id="plain open"),
        pytest.param(b'"a","truncated":true}', LogMessage("a", True, False), id="marker"),
    ],
)
def test_log_frames_of_the_pipe_are_read(line: bytes, message: LogMessage) -> None:
    """PY-124: whole or by pieces, joined or not."""
    assert parse_log(LOG + line) == message
    reader = LogReader()
    assert list(reader.push(LOG)) == []
    assert list(reader.push(line + b"\n" + LOG)) == [message]
    assert list(reader.push(line + b"\n")) == [message]


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"{}",
        LOG,
        LOG + b'"',
        LOG + b'"a"',
        LOG + b'"a"} ',
        LOG + b'"a","open":false}',
        LOG + b'"a","open":true,"truncated":true}',
        LOG + b'"\xff"}',
        LOG + b'"\t"}',
        LOG + b'"\\x"}',
        b" " + LOG + b'"a"}',
        b'{"type":"call","id":0,"global":"a","name":"b","args":null}',
        b'{"type": "log","text":"\\n"}',
    ],
)
def test_other_lines_of_the_pipe_are_refused(line: bytes) -> None:
    with pytest.raises(LogError) as caught:
        parse_log(line)
    assert str(caught.value) == "what came through the pipe of its logs is no log frame"
    reader = LogReader()
    messages = reader.push(LOG + b'"a"}\n' + LOG + b'"b"}\n' + (line or b"?") + b"\n")
    assert [next(messages), next(messages)] == [LogMessage(text, False, False) for text in "ab"]
    with pytest.raises(LogError):
        next(messages)


@pytest.mark.parametrize("joins", [False, True])
def test_line_of_the_pipe_has_64_kib_at_most(joins: bool) -> None:
    room = 65_536 - len(LOG) - 3
    reader = LogReader()
    reader.joins_logs = joins
    expected: LogMessage | list[str] = LogMessage("x" * room, False, False)
    if joins:
        expected = ["x" * room]
    assert list(reader.push(LOG + b'"' + b"x" * room + b'"}\n')) == [expected]
    with pytest.raises(LogError):
        list(reader.push(LOG + b'"' + b"x" * (room + 1) + b'"}\n'))


def test_log_reader_joins_plain_entries_when_it_may() -> None:
    chunk = LOG + b'"a"}\n' + LOG + b'"b"}\n' + LOG
    joining, single = LogReader(), LogReader()
    joining.joins_logs = True
    assert list(joining.push(chunk)) == [["a", "b"]]
    assert list(joining.push(b'"\\n"}\n')) == [LogMessage("\n", False, False)]
    assert list(single.push(chunk)) == [LogMessage(text, False, False) for text in "ab"]
    assert list(single.push(b'"\\n"}\n')) == [LogMessage("\n", False, False)]


def quiet(max_bytes: int) -> LineLog:
    return LineLog(max_bytes, LogObserver(None, record=False))


@given(st.lists(st.text("ab ", max_size=9), min_size=1, max_size=9), st.integers(64, 128))
def test_lines_in_bulk_cost_what_they_cost_one_by_one(texts: list[str], max_bytes: int) -> None:
    """PY-163, PY-164."""
    bulk, single = quiet(max_bytes), quiet(max_bytes)
    if not bulk.add_plain_lines(texts):
        assert (bulk.entries, bulk.room_bytes) == ([], max_bytes - 1)
        for text in texts:
            bulk.add_part(text, is_open=False)
        assert bulk.truncated
    for text in texts:
        single.add_part(text, is_open=False, cost_bytes=len(text) + 2)
    assert (bulk.entries, bulk.room_bytes) == (single.entries, single.room_bytes)


def test_lines_in_bulk_fit_to_the_byte() -> None:
    """PY-164: 63 bytes for entries, each with quotes and a comma."""
    log = quiet(64)
    assert log.add_plain_lines(["a" * 17, "b" * 17])
    assert not log.add_plain_lines(["c" * 21])
    assert log.add_plain_lines(["c" * 20])
    assert not log.add_plain_lines([""])
    assert log.entries == ["a" * 17, "b" * 17, "c" * 20]
    assert (log.room_bytes, log.truncated) == (0, False)


def test_lines_in_bulk_are_not_taken_where_each_one_counts() -> None:
    shown: list[str] = []
    observed = LineLog(64, LogObserver(shown.append, record=False))
    recorded = LineLog(64, LogObserver(None, record=True))
    opened, full = quiet(64), quiet(64)
    opened.add_part("a", is_open=True)
    full.truncate()
    for log in (observed, recorded, opened, full):
        before = list(log.entries)
        assert not log.add_plain_lines(["x", "y"])
        assert log.entries == before
    assert shown == []


MIXED = """
for start in range(0, 6_000, 1_500):
    for number in range(start, start + 1_500): print("line", number)
    print(f"é {await tools.echo(start)}")
print("open", end="", flush=True)
print("ed")
"""


@pytest.mark.anyio
@pytest.mark.parametrize("is_observed", [False, True])
async def test_flood_with_calls_keeps_every_line_in_order(
    provider: Provider, is_observed: bool
) -> None:
    """PY-124, WT-058: what is read in bulk and what is not are one list."""
    expected = [
        entry
        for start in range(0, 6_000, 1_500)
        for entry in (*(f"line {number}" for number in range(start, start + 1_500)), f"é {start}")
    ]
    shown: list[str] = []
    async with provider() as runtime:
        result = await runtime.run(
            build_request(
                MIXED, {"echo": lambda value: value}, on_log=shown.append if is_observed else None
            )
        )
    assert (result.error, result.logs) == (None, [*expected, "opened"])
    assert shown == (result.logs if is_observed else [])


@pytest.mark.anyio
async def test_flood_over_the_budget_is_cut_at_the_same_line(provider: Provider) -> None:
    """PY-165, PY-173."""
    program = 'for number in range(5_000): print(f"{number:07d}")\nreturn 1'
    async with provider(max_log_bytes=20_000) as runtime:
        result = await runtime.run(build_request(program))
    assert (result.value, result.logs_truncated) == (1, True)
    assert result.logs == [
        *(f"{number:07d}" for number in range(1_999)),
        "[code-runtime] logs truncated at 20000 bytes",
    ]
