"""The output budget through real runs: logs, then a value or a failure message, under one cap."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any, cast

import pytest
from run_requests import Provider, Run, build_request

from code_runtime import AbortSignal, CodeRunResult, CodeRuntime, Context
from code_runtime._lossless import encode, measure
from code_runtime_worker_thread import WorkerThreadCodeRuntime

pytestmark = pytest.mark.anyio

VECTORS = Path(__file__).parents[3] / "tests/vectors/ledger"


def load(name: str) -> list[dict[str, Any]]:
    content = cast("dict[str, Any]", json.loads((VECTORS / name).read_text("utf-8")))
    return cast("list[dict[str, Any]]", content["cases"])


def caps(cases: list[dict[str, Any]]) -> list[Any]:
    """Group vectors by cap, since each cap needs a runtime of its own."""
    groups: dict[int, list[dict[str, Any]]] = {}
    for case in cases:
        groups.setdefault(case["cap"], []).append(case)
    return [
        pytest.param(cap, group, id=f"cap {cap}: {' '.join(sorted({c['spec'] for c in group}))}")
        for cap, group in groups.items()
    ]


def expand(text: str | dict[str, Any]) -> str:
    return text if isinstance(text, str) else text["repeat"] * text["times"]


def literal(text: str | dict[str, Any]) -> str:
    """Spell a string of a vector as TypeScript; a long one as a repetition."""
    if isinstance(text, str):
        return json.dumps(text)
    return f"{json.dumps(text['repeat'])}.repeat({text['times']})"


def print_all(logs: list[Any]) -> str:
    return "".join(f"console.log({literal(log)});" for log in logs)


def ending(end: dict[str, Any]) -> str:
    """Spell the end of a vector as TypeScript."""
    if "message" in end:
        return f"throw {literal(end['message'])}"
    if "string" in end:
        return f"return {literal(end['string'])}"
    if "value_bytes" in end:  # n zeros cost 2n + 1
        return f"return Array({(end['value_bytes'] - 1) // 2}).fill(0)"
    return f"return {json.dumps(end['value'])}" if "value" in end else ""


def summary(result: CodeRunResult) -> dict[str, Any]:
    """Describe a result as the vectors do."""
    if result.error is None:
        cost = measure(result.value) if result.has_value else 0
        return {"outcome": "ok", "logs": result.logs, "total": total(result.logs, cost)}
    assert not result.has_value
    if result.error.kind == "output-limit":
        assert result.logs_truncated
        return {
            "outcome": "output-limit",
            "logs": result.logs,
            "message": result.error.message,
        }
    assert result.error.kind == "exception"
    cost = measure(result.error.message)
    return {"outcome": "failure", "logs": result.logs, "total": total(result.logs, cost)}


def total(logs: list[str], cost: int | None) -> int:
    assert cost is not None
    return len(encode(cast("Any", logs))) + cost


def failure(result: CodeRunResult) -> tuple[str, str]:
    assert result.error is not None, result
    assert not result.has_value
    return result.error.kind, result.error.message


@pytest.mark.parametrize(("cap", "cases"), caps(load("outcomes.json")))
async def test_a_run_ends_as_the_shared_vectors_say(
    provider: Provider, cap: int, cases: list[dict[str, Any]]
) -> None:
    """WT-065 to WT-094; the ids name the lines. SC-038, SC-042.

    Among them WT-067, WT-069, WT-070, WT-071, WT-072, WT-073, WT-074, WT-081, WT-082, WT-083,
    WT-085, WT-086, WT-087.
    """
    found, expected = {}, {}
    async with provider(max_output_bytes=cap, spare_hosts=1) as runtime:
        for case in cases:
            result = await runtime.run(build_request(print_all(case["logs"]) + ending(case["end"])))
            found[case["name"]] = summary(result)
            expected[case["name"]] = {"logs": [expand(log) for log in case["logs"]]}
            expected[case["name"]].update(case["expected"])
    assert found == expected


@pytest.mark.parametrize(("cap", "cases"), caps(load("admission.json")))
async def test_the_worker_sends_what_the_shared_vectors_say(
    provider: Provider, cap: int, cases: list[dict[str, Any]]
) -> None:
    """WT-067, WT-078, WT-079, WT-080: what arrives live is what the worker has let through.

    After its limit the program cannot go on, so a loop without end does not keep the run.
    """
    found, expected = {}, {}
    async with provider(max_output_bytes=cap, spare_hosts=1) as runtime:
        for case in cases:
            seen: list[str] = []
            loop = "for (;;);" if case["exceeded"] else ""
            result = await runtime.run(
                build_request(print_all(case["entries"]) + loop, on_log=seen.append)
            )
            found[case["name"]] = (seen, result.error and result.error.kind)
            kind = "output-limit" if case["exceeded"] else None
            expected[case["name"]] = (case["kept"], kind)
    assert found == expected


@pytest.mark.parametrize(
    ("cap", "cases"), caps([case for case in load("early.json") if case["kind"] == "abort"])
)
async def test_a_failure_before_the_program_is_charged_too(
    provider: Provider, cap: int, cases: list[dict[str, Any]]
) -> None:
    """WT-013, BF-012."""
    async with provider(max_output_bytes=cap, spare_hosts=1) as runtime:
        for case in cases:
            signal = AbortSignal()
            signal.abort(case["message"])
            result = await runtime.run(build_request("return 1", signal=signal))
            assert (result.logs, failure(result)) == (
                [],
                (case["expected"]["kind"], case["expected"]["message"]),
            )


async def test_a_syntax_error_is_charged_too(provider: Provider) -> None:
    """WT-013."""
    async with provider(max_output_bytes=4) as runtime:
        result = await runtime.run(build_request("const x ="))
    assert (result.logs, failure(result)) == ([], ("output-limit", ""))


@pytest.fixture(scope="module")
async def cap_100(anyio_backend: str, module_leaves_nothing: None) -> AsyncIterator[CodeRuntime]:
    """A runtime whose cap is 100 bytes."""
    async with Context() as ctx:
        await ctx.plugin(WorkerThreadCodeRuntime, {"max_output_bytes": 100})
        yield ctx.codeRuntime


@pytest.mark.parametrize(
    ("value", "cost"),
    [
        pytest.param('"\\"\\\\"', 6, id="WT-065 quote and backslash"),
        pytest.param('"\\b\\t\\n\\f\\r"', 12, id="WT-065 short escapes"),
        pytest.param('"\\0\\x1f"', 14, id="WT-065 other controls"),
        pytest.param('"\\ud800"', 8, id="WT-065 WT-075 lone high surrogate"),
        pytest.param('"\\udc00\\ud800"', 14, id="WT-065 WT-075 surrogates in the wrong order"),
        pytest.param('"😀"', 6, id="WT-065 astral"),
        pytest.param('"\\x7f/\\u2028€é"', 12, id="WT-065 DEL, slash, U+2028, euro, e acute"),
        pytest.param("null", 4, id="WT-066 null"),
        pytest.param("true", 4, id="WT-066 true"),
        pytest.param("false", 5, id="WT-066 false"),
        pytest.param("-1.5e-7", 7, id="WT-066 small number"),
        pytest.param("1e21", 22, id="WT-066 1e21 in full (differs: 5)"),
        pytest.param("2 ** 60", 19, id="WT-066 2^60"),
        pytest.param("[1, [], 'a']", 10, id="WT-066 array"),
        pytest.param("({'': 1, k: {}})", 13, id="WT-066 object"),
    ],
)
async def test_a_value_costs_what_its_text_has(cap_100: CodeRuntime, value: str, cost: int) -> None:
    """WT-068, WT-069: equal to the cap passes, one byte more does not.

    Python's own meter and the worker's agree on each value.
    """
    room = 100 - 4 - cost  # an empty log list and one entry cost four bytes
    fits = await cap_100.run(build_request(f"console.log('x'.repeat({room})); return {value}"))
    assert fits.error is None, fits
    assert measure(fits.value) == cost
    over = await cap_100.run(build_request(f"console.log('x'.repeat({room + 1})); return {value}"))
    assert failure(over) == ("output-limit", "Output is larger than 100 bytes")
    assert over.logs == ["x" * min(room + 1, 100 - 33 - 4)]


async def test_an_unpaired_surrogate_comes_back_unchanged(cap_100: CodeRuntime) -> None:
    """WT-075."""
    result = await cap_100.run(
        build_request("console.log('a\\ud800'); console.log('\\udc00'); return ['\\ude00\\ud83d']")
    )
    assert (result.logs, result.value) == (["a\ud800", "\udc00"], ["\ude00\ud83d"])


async def test_measuring_does_not_need_what_a_program_can_break(cap_100: CodeRuntime) -> None:
    """WT-076, WT-192."""
    result = await cap_100.run(
        build_request(
            """
            const quotes = '"'.repeat(10_000);
            JSON.stringify = () => { throw 1 };
            (String.prototype as any).charCodeAt = () => 65;
            (Buffer as any).byteLength = () => 0;
            console.log("kept"); return quotes
            """
        )
    )
    assert (result.logs, failure(result)) == (
        ["kept"],
        ("output-limit", "Output is larger than 100 bytes"),
    )


@pytest.mark.parametrize(("cap", "fits"), [(10_006, True), (10_005, False)])
async def test_5000_nested_arrays_cost_exactly_10004_bytes(
    provider: Provider, cap: int, fits: bool
) -> None:
    """WT-077."""
    async with provider(max_output_bytes=cap, spare_hosts=1) as runtime:
        result = await runtime.run(
            build_request("let v: any = null; for (let i = 0; i < 5000; i++) v = [v]; return v")
        )
    if fits:
        assert measure(result.value) == 10_004
    else:
        assert failure(result) == ("output-limit", "Output is larger than 10005 bytes")


async def test_a_thousand_lines_keep_their_start(provider: Provider) -> None:
    """WT-084: also a flood of empty ones."""
    async with provider(max_output_bytes=300, spare_hosts=1) as runtime:
        lines = await runtime.run(
            build_request("for (let i = 0; i < 1000; i++) console.log('line ' + i); for (;;);")
        )
        empty = await runtime.run(build_request("for (;;) console.log()"))
    assert failure(lines) == ("output-limit", "Output is larger than 300 bytes")
    assert lines.logs[0] == "line 0"
    assert lines.logs[:-1] == [f"line {index}" for index in range(len(lines.logs) - 1)]
    assert len(encode(cast("Any", lines.logs))) <= 300 - 33
    assert failure(empty) == ("output-limit", "Output is larger than 300 bytes")
    assert empty.logs == [""] * ((300 - 33 - 1) // 3)


async def test_a_huge_error_never_crosses(provider: Provider) -> None:
    """WT-087: a real Error, whose stack holds the message once more."""
    async with provider(max_output_bytes=64, spare_hosts=1) as runtime:
        result = await runtime.run(build_request("throw new Error('x'.repeat(1_000_000))"))
    assert (result.logs, failure(result)) == (
        [],
        ("output-limit", "Output is larger than 64 bytes"),
    )


async def test_a_refusal_that_does_not_fit_is_the_limit(provider: Provider) -> None:
    """WT-088."""
    async with provider(max_output_bytes=100, spare_hosts=1) as runtime:
        whole = await runtime.run(build_request("return NaN"))
        cut = await runtime.run(build_request("console.log('x'.repeat(40)); return NaN"))
    assert failure(whole) == (
        "invalid-output",
        "The completion must be lossless JSON: $: NaN is not JSON, expected null or a finite number",
    )
    assert failure(cut) == ("output-limit", "Output is larger than 100 bytes")
    assert cut.logs == ["x" * 40]


def abort_now(signal: AbortSignal) -> Callable[[object], None]:
    return lambda _: signal.abort("because the user has pressed the button")


@pytest.mark.parametrize(
    ("program", "config"),
    [
        pytest.param("for (;;);", {"compute_ms": 50}, id="compute"),
        pytest.param("await new Promise(() => {})", {"max_wall_ms": 50}, id="wall"),
        pytest.param("process.exit(3)", {}, id="exit"),
        pytest.param("process.kill(process.pid, 'SIGKILL'); for (;;);", {}, id="kill"),
        pytest.param("tools.stop(0); for (;;);", {}, id="abort"),
    ],
)
async def test_the_messages_of_other_ends_are_charged_too(
    provider: Provider, program: str, config: dict[str, object]
) -> None:
    """WT-089."""
    signal = AbortSignal()
    async with provider(max_output_bytes=20, spare_hosts=1, **config) as runtime:
        result = await runtime.run(
            build_request(program, {"stop": abort_now(signal)}, signal=signal)
        )
    assert (result.logs, failure(result)) == ([], ("output-limit", "Output is larger"))


async def test_a_large_container_is_returned_exactly(run: Run) -> None:
    """WT-090, WT-072: under the default cap."""
    result = await run("return Array.from({length: 50_000}, (_, i) => i)")
    assert result.value == list(range(50_000))


WRITE = 'import fs from "node:fs"; const write = (s: string) => fs.writeSync(1, s + "\\n");'


async def test_raw_output_over_the_cap_is_cut_where_it_overflows(provider: Provider) -> None:
    """WT-091, WT-092: bytes that only the host side can count."""
    async with provider(max_output_bytes=80, spare_hosts=1) as runtime:
        result = await runtime.run(
            build_request(WRITE + "write('a'.repeat(20)); write('b'.repeat(100)); for (;;);")
        )
    assert failure(result) == ("output-limit", "Output is larger than 80 bytes")
    assert result.logs == ["a" * 20, "b" * (80 - 32 - 2 - 22 - 1 - 2)]


async def test_raw_and_console_output_share_one_budget(provider: Provider) -> None:
    """WT-091: each part alone would fit."""
    async with provider(max_output_bytes=64, spare_hosts=1) as runtime:
        result = await runtime.run(
            build_request(
                WRITE
                + "console.log('a'.repeat(28)); await tools.wait(0); write('b'.repeat(40)); return 1",
                {"wait": lambda _: None},
            )
        )
    assert failure(result) == ("output-limit", "Output is larger than 64 bytes")
    assert result.logs == ["a" * 28]


@pytest.mark.parametrize("end", ["return 1", "tools.stop(0); for (;;);", "process.exit(0)"])
async def test_raw_output_that_is_read_late_replaces_the_outcome(
    provider: Provider, end: str
) -> None:
    """WT-093: the pipe is emptied before the result, whoever won."""
    signal = AbortSignal()
    async with provider(max_output_bytes=100, spare_hosts=1) as runtime:
        result = await runtime.run(
            build_request(
                WRITE + f"write('y'.repeat(200)); {end}",
                {"stop": abort_now(signal)},
                signal=signal,
            )
        )
    assert failure(result) == ("output-limit", "Output is larger than 100 bytes")
    assert result.logs == ["y" * (100 - 33 - 4)]


async def test_raw_output_is_charged_before_the_value(provider: Provider) -> None:
    """WT-094: the same value fits without it."""
    async with provider(max_output_bytes=39, spare_hosts=1) as runtime:
        tools = {"wait": lambda _: None}
        start = WRITE + "console.log('first'); await tools.wait(0);"
        fits = await runtime.run(build_request(start + "return 'xyz'", tools))
        late = await runtime.run(
            build_request(start + "write('late output of the pipe'); return 'xyz'", tools)
        )
    assert (fits.logs, fits.value) == (["first"], "xyz")
    assert (late.logs, failure(late)) == (
        ["fir"],
        ("output-limit", "Output is larger than 39 bytes"),
    )


async def test_calls_are_never_charged(provider: Provider) -> None:
    """WT-095: 100 MB come back under a cap of 64 bytes, and 10 MB go out."""
    text = "r" * 100_000_000
    sizes: list[int] = []

    def take(value: object) -> str:
        assert isinstance(value, str)
        sizes.append(len(value))
        return text

    async with provider(max_output_bytes=64, spare_hosts=1) as runtime:
        result = await runtime.run(
            build_request(
                "return (await tools.take('a'.repeat(10_000_000))).length", {"take": take}
            )
        )
    assert (sizes, result.value, result.error) == ([10_000_000], 100_000_000, None)
