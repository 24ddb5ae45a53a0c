"""The built site: strict, its links lead somewhere, and each page works in a real browser."""

from __future__ import annotations

import functools
import http.server
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urldefrag, urljoin, urlsplit

import pytest
from browser import DESKTOP_PX, PHONE_PX, Page, PageReport, open_pages

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[1]
# Accessibility is looked at on one page of each kind: it takes longer than all the rest.
KINDS = (
    "index.html",
    "code-mode.html",
    "how-to/stream-logs-to-a-web-page.html",
    "reference/api/code_runtime.html",
    "reference/configuration.html",
    "reference/failures.html",
    "tutorial.html",
    "what-happens-in-a-run.html",
)
ORIGIN = "http://site"
# axe-core counts in four degrees; the theme's blocks of code are landmarks without names, which is
# a moderate fault of it.
COUNTED = ("(serious)", "(critical)")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, ROOT / "scripts" / "docs.py", "--site-dir", folder],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    assert "WARNING" not in done.stdout
    return folder


def pages_of(site: Path) -> list[str]:
    found = (path.relative_to(site).as_posix() for path in site.rglob("*.html"))
    return sorted(page for page in found if page != "404.html")


class Targets(HTMLParser):
    """The ids of a page, all that it links to or loads, and its images without a text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.ids: set[str] = set()
        self.links: list[str] = []
        self.silent_images: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "img" and not dict(attrs).get("alt"):
            self.silent_images.append(dict(attrs).get("src") or "")
        for name, value in attrs:
            if name == "id" and value:
                self.ids.add(value)
            elif name in ("href", "src") and value:
                self.links.append(value)


def test_links_and_anchors_of_the_site_lead_somewhere(site: Path) -> None:
    parsed = {page: Targets((site / page).read_text("utf-8")) for page in pages_of(site)}
    broken = []
    for page, targets in parsed.items():
        for link in targets.links:
            url, anchor = urldefrag(urljoin(f"{ORIGIN}/{page}", link))
            if not url.startswith(ORIGIN):
                continue  # another machine, or data
            parts = urlsplit(url)
            goal = unquote(parts.path).lstrip("/") or page
            there = (site / goal).is_file() or (site / goal / "index.html").is_file()
            known = parsed[goal].ids if goal in parsed else {anchor}
            if not there or (anchor and unquote(anchor) not in known):
                broken.append(f"{page}: {link}")
    assert broken == []
    assert [image for targets in parsed.values() for image in targets.silent_images] == []
    assert sum(len(targets.links) for targets in parsed.values()) > 1_000


def test_pages_of_the_repository_are_on_the_site(site: Path) -> None:
    packages = {f"packages/{path.parent.name}.html" for path in ROOT.glob("packages/*/README.md")}
    docs = {
        path.relative_to(ROOT / "docs").with_suffix(".html").as_posix()
        for path in ROOT.glob("docs/**/*.md")
    }
    roots = {"readme.html", "contributing.html", "changelog.html"}
    assert docs | packages | roots == set(pages_of(site))


class Quiet(http.server.SimpleHTTPRequestHandler):
    """A server of files that writes no log."""

    def log_message(self, format: str, *args: object) -> None: ...


@pytest.fixture(scope="module")
def address(site: Path) -> Iterator[str]:
    handler = functools.partial(Quiet, directory=os.fspath(site))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()
        thread.join()


def faults(report: PageReport) -> list[str]:
    """Return the problems of a page but the small faults of the theme."""
    small = [line for line in report.violations if not any(word in line for word in COUNTED)]
    return [line for line in report.problems if line.removeprefix("accessibility: ") not in small]


# What is left to draw, and what has been drawn with a size.
DIAGRAMS = """({
    left: document.querySelectorAll("pre.mermaid").length,
    drawn: [...document.querySelectorAll("div.mermaid")].filter((one) => one.offsetHeight > 40).length,
})"""


def look(address: str, page: str, width: int) -> Page:
    has_diagram = "```mermaid" in source_of(page)
    return Page(
        url=address + page,
        width=width,
        scheme="dark" if width == PHONE_PX else "light",
        wait_for="body:not(:has(pre.mermaid))" if has_diagram else None,
        expression=DIAGRAMS,
        axe=page in KINDS,
    )


def source_of(page: str) -> str:
    path = (ROOT / "docs" / page).with_suffix(".md")
    return path.read_text("utf-8") if path.exists() else ""


@pytest.mark.timeout(400)
@pytest.mark.parametrize("width", [PHONE_PX, DESKTOP_PX])
def test_pages_work_in_a_browser(site: Path, address: str, width: int) -> None:
    """No error, no request to elsewhere, no page that is too wide; diagrams drawn; accessible."""
    pages = pages_of(site)
    looks = [look(address, page, width) for page in pages]
    reports = dict(zip(pages, open_pages(looks, timeout_s=360), strict=True))
    assert {page: faults(report) for page, report in reports.items() if faults(report)} == {}
    assert {
        page: report.value
        for page, report in reports.items()
        if report.value != {"left": 0, "drawn": source_of(page).count("```mermaid")}
    } == {}


def test_search_finds_a_word_of_a_page(site: Path, address: str) -> None:
    found = open_pages(
        [
            Page(
                url=address + "index.html?q=subreaper",
                wait_for=".md-search-result__item",
                texts=[".md-search-result__item h1"],
                axe=False,
            )
        ]
    )
    assert "The guard" in " ".join(found[0].texts[".md-search-result__item h1"])
