"""The page of real runs of both providers, looked at in a real browser.

The pages are made once; one Chromium opens all of them. What a page says is tested without a
browser in `packages/code-runtime/tests/test_report.py`.
"""

from __future__ import annotations

from dataclasses import dataclass

import anyio
import pytest
from browser import DESKTOP_PX, PHONE_PX, Action, Page, PageReport, Scheme, open_pages

from code_runtime import (
    CodeBindingNamespace,
    CodeCall,
    CodeRunFailure,
    CodeRunRequest,
    CodeRunResult,
    open_runtime,
)

TYPESCRIPT = """\
// Asks for three cities at once, then for one that does not exist.
type Weather = { city: string; temperature_c: number };

async function ask(city: string): Promise<Weather> {
  return await tools.weather({ city });
}

console.log("asking for three cities");
const rows = await Promise.all(["Berlin", "Lima", "Osaka"].map(ask));
for (const row of rows) console.log(`${row.city}: ${row.temperature_c} °C`);
console.log("<img src=x onerror=alert(1)>", "\\u001b[31mred", "\\ud800");
"""
PYTHON = """\
import asyncio

async def ask(city):
    print("asking for", city)
    return await tools.weather({"city": city})

async def main():
    rows = await asyncio.gather(*map(ask, ["Berlin", "Lima", "Osaka"]))
    print("<img src=x onerror=alert(1)>", "\\x1b[31mred", "\\ud800")
    return rows[-1 if FINE else 7]

"""
PROGRAMS = {
    "typescript-ok": ("worker-thread", TYPESCRIPT + "return { rows };\n"),
    "typescript-failed": ("worker-thread", TYPESCRIPT + 'return await ask("Atlantis");\n'),
    "typescript-timeout": ("worker-thread", TYPESCRIPT + "while (true) {}\n"),
    "python-ok": ("python", "FINE = True\n" + PYTHON + "return await main()\n"),
    "python-failed": ("python", "FINE = False\n" + PYTHON + "return await main()\n"),
    "python-nothing": ("python", "pass\n"),
}
# Past the link to the line and the choice of rows.
TO_FIRST_CALL: list[Action] = [("press", "Tab"), ("press", "Tab"), ("press", "Tab")]
pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]
SIZES = [PHONE_PX, DESKTOP_PX]
SCHEMES: list[Scheme] = ["light", "dark"]


class Together:
    """Holds calls back until three are in flight, so that they overlap whatever the machine does."""

    def __init__(self) -> None:
        self.count = 0
        self.all_here = anyio.Event()

    async def weather(self, argument: dict[str, str]) -> dict[str, object]:
        if argument["city"] == "Atlantis":
            raise ValueError("no such city: Atlantis")
        self.count += 1
        if self.count == 3:
            self.all_here.set()
        await self.all_here.wait()
        return {"city": argument["city"], "temperature_c": 21.5}


def run(provider: str, program: str) -> CodeRunResult:
    config = {"compute_ms": 1_000} if provider == "worker-thread" else {}
    tools = CodeBindingNamespace("tools", {"weather": Together().weather})
    with open_runtime(provider, config) as runtime:
        return runtime.run(CodeRunRequest(program, [tools], record=True))


def hostile(count: int) -> CodeRunResult:
    text = '</code></li></div></title></style><script>alert(1)</script><img src="//x.example/">'
    refresh = '<meta http-equiv="refresh" content="0;url=https://x.example/"><base href="//x">'
    text = f"{text}{refresh}<style>@import url(//x.example/)</style><svg onload=alert(1)>\x00\ud800"
    call = CodeCall(text, text, 1.0, 2.0, "error", argument_preview=text, result_preview=text)
    return CodeRunResult(
        [text] * count,
        error=CodeRunFailure("exception", text * 100),
        calls=[call] * count,
        log_times_ms=[index / 10 for index in range(count)],
        program=f"{text}\n" * count,
        language=text,
        elapsed_ms=6_000.0,
    )


@dataclass(frozen=True)
class Looked:
    """What is known of the pages of this module."""

    results: dict[str, CodeRunResult]
    reports: dict[str, PageReport]


# What a page should not have, so that the tests below see that they would see it.
FAULTY = """<!doctype html><html><title>x</title><body><h1>x</h1><img src="https://x.example/y.png">
<p style="width: 3000px">wide</p><script>throw new Error("oops")</script></body></html>"""


@pytest.fixture(scope="module")
def looked(tmp_path_factory: pytest.TempPathFactory, module_leaves_nothing: None) -> Looked:
    folder = tmp_path_factory.mktemp("pages")
    results = {name: run(*given) for name, given in PROGRAMS.items()}
    results |= {"hostile": hostile(20), "huge": hostile(10_000)}
    urls = {}
    for name, result in results.items():
        path = folder / f"{name}.html"
        path.write_text(result.to_html(), encoding="utf-8")
        urls[name] = path.as_uri()
    faulty = folder / "faulty.html"
    faulty.write_text(FAULTY, encoding="utf-8")
    pages = _pages(urls) | {"faulty": Page(url=faulty.as_uri(), width=PHONE_PX)}
    return Looked(
        results, dict(zip(pages, open_pages(list(pages.values()), timeout_s=280), strict=True))
    )


def _pages(urls: dict[str, str]) -> dict[str, Page]:
    plain = {
        f"{name}-{width}-{scheme}": Page(
            url=url,
            width=width,
            scheme=scheme,
            texts=("h1", ".pill", ".fails", ".calls", "mark", ".what", "a"),
            axe=name != "huge",  # which takes its time for each of thousands of elements
        )
        for name, url in urls.items()
        for width in SIZES
        for scheme in SCHEMES
    }
    failed = urls["typescript-failed"]
    return plain | {
        "opened-by-keyboard": Page(
            url=failed,
            actions=[*TO_FIRST_CALL, ("press", "Enter"), ("press", "Tab"), ("press", "Space")],
            texts=("details[open] .io",),
        ),
        "calls-only": Page(
            url=failed, actions=[("click", "#show-calls")], texts=(".rows > li:visible",)
        ),
        "logs-only": Page(
            url=failed, actions=[("click", "#show-logs")], texts=(".rows > li:visible",)
        ),
        "bad-only": Page(
            url=failed,
            actions=[("focus", "#show-all"), ("press", "ArrowLeft")],
            texts=(".rows > li:visible",),
        ),
        "link": Page(
            url=failed,
            height=300,
            actions=[("press", "Tab"), ("press", "Enter")],
            expression="[location.hash, document.querySelector('.fails')"
            ".getBoundingClientRect().top < 300]",
        ),
        "without-scripts": Page(
            url=failed,
            javascript=False,
            actions=[("focus", ".call summary"), ("press", "Enter")],
            texts=("details[open] .io",),
        ),
        "bars": Page(
            url=failed,
            expression="[...document.querySelectorAll('.bar')].map("
            "bar => { const box = bar.getBoundingClientRect(); return [box.left, box.right]; })",
        ),
    }


NAMES = [*PROGRAMS, "hostile", "huge"]


@pytest.mark.parametrize("width", SIZES)
@pytest.mark.parametrize("name", NAMES)
def test_page_has_no_fault_in_a_browser(looked: Looked, name: str, width: int) -> None:
    """Accessible, no wider than the screen, nothing in the console, nothing asked for."""
    seen = {
        key: (report.problems, report.requests)
        for key, report in looked.reports.items()
        if key.startswith(f"{name}-{width}-")
    }
    assert seen == {f"{name}-{width}-{scheme}": ([], []) for scheme in SCHEMES}


def test_faults_of_a_page_are_seen(looked: Looked) -> None:
    report = looked.reports["faulty"]
    assert report.overflow_px > 2_000
    rules = {line.split(" ")[0] for line in report.violations}
    assert {"html-has-lang", "image-alt"} <= rules
    assert report.outside_requests == report.failed_requests == ["https://x.example/y.png"]
    assert "Error: oops" in report.console_errors
    kinds = {problem.split(":")[0] for problem in report.problems}
    assert {"accessibility", "console", "asks outside", "failed"} <= kinds


def test_record_holds_program_language_and_duration(looked: Looked) -> None:
    for name, (provider, program) in PROGRAMS.items():
        result = looked.results[name]
        language = "python" if provider == "python" else "typescript"
        assert (result.program, result.language) == (program, language)
        assert result.elapsed_ms is not None
        moments = [call.started_ms + call.duration_ms for call in result.calls]
        moments += result.log_times_ms or []
        assert all(0 <= moment_ms <= result.elapsed_ms for moment_ms in moments)


def test_page_of_a_failed_typescript_program_marks_line_and_column(looked: Looked) -> None:
    report = looked.reports[f"typescript-failed-{DESKTOP_PX}-light"]
    assert report.texts["h1"] == ["Failed run of a TypeScript program"]
    assert report.texts[".pill"] == ["✕ exception"]
    assert report.texts["a"] == ["Line 5 of the program"]
    [failing] = report.texts[".fails"]
    assert failing.split("\n") == [
        "5",
        "  return await tools.weather({ city });",
        "✕ The program failed here",
    ]
    assert report.texts["mark"] == ["weather"]


def test_page_of_a_failed_python_program_marks_the_line_and_its_callers(looked: Looked) -> None:
    report = looked.reports[f"python-failed-{PHONE_PX}-dark"]
    assert report.texts["h1"] == ["Failed run of a Python program"]
    assert [text.split("\n")[1] for text in report.texts[".fails"]] == [
        "    return rows[-1 if FINE else 7]"
    ]
    assert [text.split("\n")[1] for text in report.texts[".calls"]] == ["return await main()"]


def test_page_of_a_timeout_marks_no_line(looked: Looked) -> None:
    report = looked.reports[f"typescript-timeout-{DESKTOP_PX}-light"]
    assert (report.texts[".pill"], report.texts[".fails"]) == (["✕ timeout"], [])


@pytest.mark.parametrize("name", ["typescript-ok", "python-ok"])
def test_page_shows_logs_and_calls_of_a_run(looked: Looked, name: str) -> None:
    report = looked.reports[f"{name}-{DESKTOP_PX}-dark"]
    assert report.texts[".pill"] == ["✓ Completed"]
    calls = [text for text in report.texts[".what"] if text.startswith("tools.weather ✓ ok ")]
    assert len(calls) == 3
    [hostile_log] = [text for text in report.texts[".what"] if "onerror" in text]
    assert hostile_log.startswith("<img src=x onerror=alert(1)> \\x1b[31mred ")


def test_bars_of_overlapping_calls_overlap(looked: Looked) -> None:
    bars = looked.reports["bars"].value
    assert isinstance(bars, list)
    assert len(bars) == 4
    first = bars[:3]  # all three were in flight when the third came
    assert max(left for left, _ in first) < min(right for _, right in first)


@pytest.mark.parametrize("page", ["opened-by-keyboard", "without-scripts"])
def test_details_of_a_call_are_opened_by_keyboard(looked: Looked, page: str) -> None:
    report = looked.reports[page]
    assert report.problems == []
    opened = report.texts["details[open] .io"]
    assert opened[0].startswith('Argument\n{"city":"Berlin"}\nResult\n{"city":"Berlin",')
    assert len(opened) == (2 if page == "opened-by-keyboard" else 1)


def test_rows_are_chosen_without_scripts(looked: Looked) -> None:
    shown = {
        name: [text.split("\n")[-1] for text in looked.reports[name].texts[".rows > li:visible"]]
        for name in ("calls-only", "logs-only", "bad-only")
    }
    assert [text.split(" ")[2] for text in shown["calls-only"]] == ["ok"] * 3 + ["error"]
    assert [text.split(" ")[2] for text in shown["bad-only"]] == ["error"]
    assert len(shown["logs-only"]) == 5
    assert shown["logs-only"][:2] == ["asking for three cities", "Berlin: 21.5 °C"]


def test_link_of_the_failure_leads_to_its_line(looked: Looked) -> None:
    assert looked.reports["link"].value == ["#L5", True]
