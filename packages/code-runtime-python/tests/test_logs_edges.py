"""The Python host's log list: charges to the byte, the order of its entries, and who is told when."""

from __future__ import annotations

import pytest

from code_runtime._execution._logs import LogObserver
from code_runtime_python._child.wire import MAX_FRAGMENTS
from code_runtime_python._logs import LineLog

MARKER = "[code-runtime] logs truncated at 64 bytes"


class Told:
    """A log of 64 bytes and what its observer was shown."""

    def __init__(self, max_bytes: int = 64) -> None:
        self.shown: list[str] = []
        self.observer = LogObserver(self.shown.append, record=True)
        self.log = LineLog(max_bytes, self.observer)

    @property
    def marks_count(self) -> int:
        return len(self.observer.times_ms(100_000) or [])


def test_log_list_starts_with_all_but_one_byte() -> None:
    """PY-163."""
    told = Told()
    assert (told.log.entries, told.log.room_bytes, told.log.truncated) == ([], 63, False)


def test_log_line_costs_its_text_quotes_and_comma_and_is_shown_at_once() -> None:
    """PY-163."""
    told = Told()
    told.log.add_line("x" * 10)
    assert (told.log.entries, told.log.room_bytes) == (["x" * 10], 50)
    told.log.add_line("")
    assert (told.log.entries, told.log.room_bytes) == (["x" * 10, ""], 47)
    assert (told.shown, told.marks_count) == (["x" * 10, ""], 2)


@pytest.mark.parametrize("given_cost", [False, True])
def test_log_line_fits_exactly_or_not(given_cost: bool) -> None:
    """PY-164: with the cost known or not."""
    told = Told()
    told.log.add_line("x" * 60, 62 if given_cost else None)
    assert (told.log.entries, told.log.room_bytes, told.log.truncated) == (["x" * 60], 0, False)
    told = Told()
    told.log.add_line("x" * 61, 63 if given_cost else None)
    assert (told.log.entries, told.log.room_bytes, told.log.truncated) == ([MARKER], 0, True)
    assert (told.shown, told.marks_count) == ([MARKER], 1)


def test_log_cost_that_is_known_is_not_counted_again() -> None:
    """The cost that comes with a frame is the charge."""
    told = Told()
    told.log.add_line("x", 12)
    assert told.log.room_bytes == 50
    told.log.add_part("y", is_open=True, cost_bytes=22)
    assert told.log.room_bytes == 27
    told.log.add_part("z", is_open=True, cost_bytes=22)
    assert told.log.room_bytes == 7
    told.log.add_part("z", is_open=False, cost_bytes=9)
    assert told.log.room_bytes == 0
    assert told.log.entries == ["x", "yzz"]
    assert not told.log.truncated


def test_log_part_that_stands_alone_is_a_line() -> None:
    told = Told()
    told.log.add_part("x", is_open=False, cost_bytes=12)
    assert (told.log.entries, told.log.room_bytes) == (["x"], 50)


def test_log_open_line_pays_quotes_once_and_is_shown_when_it_ends() -> None:
    """PY-166, PY-168: marked when it begins, shown when it is complete."""
    told = Told()
    told.log.add_part("x" * 10, is_open=True)
    assert (told.log.room_bytes, told.shown, told.marks_count) == (50, [], 1)
    assert told.log.entries == [""]  # its place; the text comes when it is complete
    told.log.add_part("y" * 10, is_open=True)
    assert (told.log.room_bytes, told.shown, told.marks_count) == (40, [], 1)
    told.log.add_part("", is_open=True)
    told.log.add_part("z" * 10, is_open=False)
    whole = "x" * 10 + "y" * 10 + "z" * 10
    assert (told.log.entries, told.log.room_bytes) == ([whole], 30)
    assert (told.shown, told.marks_count) == ([whole], 1)
    told.log.finish()
    assert told.shown == [whole]


@pytest.mark.parametrize(("length", "fits"), [(60, True), (61, False)])
def test_log_open_line_fits_exactly_or_not(length: int, fits: bool) -> None:
    """PY-167."""
    told = Told()
    told.log.add_part("x" * length, is_open=True)
    assert told.log.truncated is not fits
    told.log.finish()
    assert told.log.entries == ["x" * 60 if fits else MARKER]


@pytest.mark.parametrize(("length", "fits"), [(50, True), (51, False)])
def test_log_later_part_fits_exactly_or_not(length: int, fits: bool) -> None:
    """PY-166: what was open already stays when a later part does not fit."""
    told = Told()
    told.log.add_part("x" * 10, is_open=True)
    told.log.add_part("y" * length, is_open=True)
    assert told.log.truncated is not fits
    told.log.finish()
    assert told.log.entries == (["x" * 10 + "y" * 50] if fits else ["x" * 10, MARKER])
    assert told.shown == told.log.entries


def test_log_open_line_keeps_its_place_when_lines_come_meanwhile() -> None:
    """PY-131: native output while a line is open."""
    told = Told()
    told.log.add_line("a")
    told.log.add_part("b", is_open=True)
    told.log.add_line("c")
    assert told.shown == ["a", "c"]
    told.log.add_part("d", is_open=False)
    told.log.add_line("e")
    assert told.log.entries == ["a", "bd", "c", "e"]
    assert told.shown == ["a", "c", "bd", "e"]
    assert told.marks_count == 4


def test_log_empty_open_part_begins_no_line() -> None:
    """PY-169."""
    told = Told()
    told.log.add_part("", is_open=True)
    assert (told.log.entries, told.log.room_bytes, told.marks_count) == ([], 63, 0)
    told.log.add_part("a", is_open=False)
    assert told.log.entries == ["a"]


def test_log_truncation_ends_an_open_line_and_drops_what_follows() -> None:
    told = Told()
    told.log.add_part("a", is_open=True)
    told.log.truncate()
    told.log.truncate()
    told.log.add_line("b")
    told.log.add_part("c", is_open=True)
    told.log.add_part("d", is_open=False)
    told.log.finish()
    assert (told.log.entries, told.log.room_bytes, told.log.truncated) == (["a", MARKER], 0, True)
    assert (told.shown, told.marks_count) == (["a", MARKER], 2)


def test_log_line_is_refused_when_not_even_its_quotes_fit() -> None:
    """PY-163: 1 byte of room is left, an empty entry costs 3."""
    told = Told()
    told.log.add_line("x" * 59)
    assert told.log.room_bytes == 1
    told.log.add_line("")
    assert told.log.entries == ["x" * 59, MARKER]


def test_log_open_line_of_many_parts_holds_few_objects() -> None:
    """PY-169: the parts are joined whenever there are as many as a host holds."""
    told = Told(1_000_000)
    most = 0
    for _ in range(5_000):
        told.log.add_part("x", is_open=True)
        most = max(most, len(told.log._open or []))
    assert most == MAX_FRAGMENTS - 1
    told.log.finish()
    assert told.log.entries == ["x" * 5_000]
