"""The pictures of the pages show what the commands print now."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from checkout_scripts import screenshots

ROOT = Path(__file__).parents[1]
SHOTS = {shot.name: shot for shot in screenshots.SHOTS}


@pytest.mark.parametrize("name", SHOTS)
def test_picture_shows_what_the_command_prints(name: str) -> None:
    """When this fails, look at the new text, and run `python scripts/screenshots.py`."""
    picture = (screenshots.IMAGES / f"{name}.svg").read_text("utf-8")
    now = screenshots.render(SHOTS[name], screenshots.capture(SHOTS[name]))
    shown, seen = (screenshots.normalised(screenshots.text_of(svg)) for svg in (picture, now))
    assert shown == seen
    assert shown.startswith(f"$ {SHOTS[name].command}\n")


def test_folder_holds_the_pictures_and_no_others() -> None:
    assert {path.stem for path in screenshots.IMAGES.iterdir()} == set(SHOTS)


@pytest.mark.parametrize("name", SHOTS)
def test_picture_needs_no_network_and_has_a_title(name: str) -> None:
    svg = (screenshots.IMAGES / f"{name}.svg").read_text("utf-8")
    assert re.findall(r"https?://[^\s\"')]+", svg) == ["http://www.w3.org/2000/svg"]
    assert f"<title>{SHOTS[name].title}</title>" in svg
    assert svg.startswith('<svg role="img" ')


def test_text_of_a_picture_keeps_gaps_and_signs() -> None:
    screen = "a  \x1b[31mb & <c>\x1b[0m\n\n   d 1.5 s"
    svg = screenshots.render(screenshots.Shot("x", "cat", "A screen"), screen)
    assert screenshots.text_of(svg) == "$ cat\na  b & <c>\n\n   d 1.5 s"
    assert screenshots.normalised("⠙ running 12.3 s") == screenshots.normalised("⠋ running 0.4 s")
