"""The worker as a hostile peer: programs that speak to Python in its place, or change the ground
that its code stands on.

Every forged run is followed by an honest one, so that each test shows the host unharmed.
`test_hostile.py` has garbage on every descriptor and a flood of honest logs, `test_frames.py` the
decoder, `host/test/worker.test.ts` the worker's own behaviour after a program has changed its
built-ins.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import anyio
import pytest
from forgery import FORGE
from responsiveness import responsive_loop
from run_requests import Provider, Tools, build_request

from code_runtime import CodeBindingNamespace, CodeRunResult, CodeRuntime
from code_runtime._execution._calls import MAX_CALLS_IN_FLIGHT

pytestmark = pytest.mark.anyio

HOT = " for (;;);"


def failure(result: CodeRunResult) -> tuple[str, str]:
    assert result.error is not None, result
    return result.error.kind, result.error.message


def echo(value: object) -> object:
    return value


async def attack(
    runtime: CodeRuntime, program: str, tools: Tools | None = None, **request: object
) -> CodeRunResult:
    """Run a program that forges, then one that does not."""
    result = await runtime.run(build_request(FORGE + program, tools, **request))
    after = await runtime.run(build_request("return await tools.echo([1])", {"echo": echo}))
    assert (after.logs, after.value, after.error) == ([], [1], None)
    return result


@pytest.mark.parametrize("way", ["socket", "pipe"])
@pytest.mark.parametrize(
    ("junk", "reason"),
    [
        pytest.param(
            "raw([0xff, 0xff, 0xff, 0xff])",
            "Cannot read frame: 4294967295 bytes announced, expected at most 268435456 bytes",
            id="length-above-the-cap",
        ),
        pytest.param(
            "raw([0, 0, 0, 0])",
            "Cannot decode frame: ValueError, expected one MessagePack array",
            id="empty",
        ),
        pytest.param(
            "raw([0, 0, 0, 1, 0xc0])",
            "Cannot decode frame: no kind, expected an array that starts with one",
            id="nil",
        ),
        pytest.param(
            "raw([0, 0, 0, 1, 0xc1])",
            "Cannot decode frame: FormatError, expected one MessagePack array",
            id="no-messagepack",
        ),
        pytest.param(
            "raw([0, 0, 0, 3, 0x92, 50, 0xc4])",
            "Cannot decode frame: ValueError, expected one MessagePack array",
            id="cut-short",
        ),
        pytest.param(
            "raw(frame([0x91, 53], [0xc0]))",
            "Cannot decode frame: ExtraData, expected one MessagePack array",
            id="too-long",
        ),
        pytest.param(
            "raw(frame([0x90]))",
            "Cannot decode frame: no kind, expected an array that starts with one",
            id="no-kind",
        ),
        pytest.param(
            "raw(frame([0x91, 0xc3]))",
            "Cannot decode frame: no kind, expected an array that starts with one",
            id="kind-is-a-bool",
        ),
        pytest.param(
            "send(0xff)",
            "Cannot decode frame: unknown kind -1, expected one of the table",
            id="kind-is-negative",
        ),
        pytest.param(
            "send(54)",
            "Cannot decode frame: unknown kind 54, expected one of the table",
            id="kind-is-unknown",
        ),
        pytest.param(
            "raw(frame([0x81, 53, 0xc0]))",
            "Cannot decode frame: ValueError, expected one MessagePack array",
            id="map",
        ),
        pytest.param(
            "raw(frame([0xdd, 0xff, 0xff, 0xff, 0xff, 50]))",
            "Cannot decode frame: ValueError, expected one MessagePack array",
            id="array-of-4-billion",
        ),
        pytest.param(
            "raw(frame(Buffer.alloc(100_000, 0x91)))",
            "Cannot decode frame: StackError, expected one MessagePack array",
            id="nested-100,000-deep",
        ),
        pytest.param(
            "send(50)",
            "Cannot decode frame LOG: fields [], expected ['bytes']",
            id="log-without-text",
        ),
        pytest.param(
            "send(50, [0xc0])",
            "Cannot decode frame LOG: fields ['NoneType'], expected ['bytes']",
            id="log-of-nil",
        ),
        pytest.param(
            "send(50, [0xa1, 0x61])",
            "Cannot decode frame: ValueError, expected one MessagePack array",
            id="log-of-a-string",
        ),
        pytest.param(
            "send(50, bin('\"a\"'), [1])",
            "Cannot decode frame LOG: fields ['bytes', 'int'], expected ['bytes']",
            id="log-with-a-field-more",
        ),
        pytest.param(
            "send(50, [0x91, 1])",
            "Cannot decode frame LOG: fields ['tuple'], expected ['bytes']",
            id="log-of-a-list",
        ),
        pytest.param(
            "send(51, [0xc2])",
            "Cannot decode frame DONE: fields ['bool'], expected ['bytes']",
            id="completion-of-a-bool",
        ),
        pytest.param(
            "send(49, [0xff], bin('[\"tools\",\"echo\"]'), bin('1'))",
            "Cannot decode frame CALL: integer -1, expected 0 to 2**53-1",
            id="id-is-negative",
        ),
        pytest.param(
            "send(49, uint(2n ** 53n), bin('[\"tools\",\"echo\"]'), bin('1'))",
            "Cannot decode frame CALL: integer 9007199254740992, expected 0 to 2**53-1",
            id="id-is-unsafe",
        ),
        pytest.param(
            "send(49, [0xcb, 0x7f, 0xf8, 0, 0, 0, 0, 0, 0], bin('[\"tools\",\"echo\"]'), bin('1'))",
            "Cannot decode frame CALL: fields ['float', 'bytes', 'bytes'], "
            "expected ['int', 'bytes', 'bytes']",
            id="id-is-NaN",
        ),
        pytest.param(
            'send(49, [1], bin(\'["tools","echo"]\'))',
            "Cannot decode frame CALL: fields ['int', 'bytes'], expected ['int', 'bytes', 'bytes']",
            id="call-without-argument",
        ),
        pytest.param(
            "send(16, [1], bin('24'))", "the worker sent READY out of place", id="frame-of-main"
        ),
        pytest.param(
            "send(20, [1], bin('{}'))", "the worker sent GONE out of place", id="end-of-worker"
        ),
        pytest.param(
            "send(48, [1], bin('0123456789abcdef'))",
            "the worker sent HELLO out of place",
            id="second-handshake",
        ),
        pytest.param(
            "send(32, bin('{}'))", "the worker sent RUN out of place", id="frame-of-Python"
        ),
    ],
)
async def test_what_is_no_frame_ends_the_run(
    runtime: CodeRuntime, junk: str, reason: str, way: str
) -> None:
    """WT-175: with its process; an honest worker never writes such bytes."""
    seen: list[object] = []
    if way == "pipe":
        junk = f"throughPipe(); {junk}"
        reason = reason.replace("out of place", "through the pipe of its logs")
        # No line is longer than the budget for output.
        reason = reason.replace("at most 268435456", f"at most {64 * 1_048_576 + 64}")
    result = await attack(runtime, f"console.log('before'); {junk};{HOT}", {"echo": seen.append})
    assert (result.logs, failure(result), seen, result.calls) == (
        ["before"],
        ("worker-exit", f"the Node process was killed: {reason}"),
        [],
        [],
    )


@pytest.mark.parametrize(
    "ignored",
    [
        pytest.param("log('1')", id="log-of-a-number"),
        pytest.param("log('null')", id="log-of-null"),
        pytest.param("log('[\"a\"]')", id="log-of-a-list"),
        pytest.param("log('{')", id="log-of-no-JSON"),
        pytest.param("log('')", id="log-of-nothing"),
        pytest.param("log(Buffer.from([0x22, 0xff, 0x22]))", id="log-of-no-UTF-8"),
        pytest.param("log('['.repeat(100_000))", id="log-of-a-deep-value"),
        pytest.param('log(\'"a" "b"\')', id="log-of-two-strings"),
        pytest.param("fail('exception', '1')", id="failure-with-a-number"),
        pytest.param("fail('exception', '{\"message\":1}')", id="failure-with-an-object"),
        pytest.param("fail('', '\"forged\"')", id="failure-of-no-kind"),
        pytest.param("fail('Exception', '\"forged\"')", id="failure-of-an-unknown-kind"),
        pytest.param("fail(Buffer.from([0xff]), '\"forged\"')", id="failure-of-bytes"),
        pytest.param("fail('abort', '\"forged\"')", id="abort"),
        pytest.param("fail('timeout', '\"forged\"')", id="timeout"),
        pytest.param("fail('worker-exit', '\"forged\"')", id="worker-exit"),
    ],
)
async def test_a_frame_whose_text_says_nothing_is_dropped(
    runtime: CodeRuntime, ignored: str
) -> None:
    """WT-175, WT-177: the honest outcome stands."""
    program = f"{ignored}; console.log('own'); return await tools.echo('honest')"
    result = await attack(runtime, program, {"echo": echo})
    assert (result.logs, result.value, result.error) == (["own"], "honest", None)


async def test_a_flood_of_frames_that_say_nothing_does_no_harm(runtime: CodeRuntime) -> None:
    """WT-176."""
    program = (
        "const junk = [...Array(1000)].map(() => frame([0x92, 50], bin('1'))); "
        "for (let i = 0; i < 100; i++) raw(...junk); return 'honest'"
    )
    async with responsive_loop():
        result = await attack(runtime, program)
    assert (result.logs, result.value, result.error) == ([], "honest", None)


@pytest.mark.parametrize(
    ("forged", "logs", "value", "error"),
    [
        pytest.param("done('{\"a\":[1]}')", [], {"a": [1]}, None, id="value"),
        pytest.param("done(' [ 1 ] ')", [], [1], None, id="spaces"),
        pytest.param("done('{\"__proto__\":1}')", [], {"__proto__": 1}, None, id="proto"),
        pytest.param('done(\'{"a":1,"a":2}\')', [], {"a": 2}, None, id="repeated-name"),
        pytest.param("done('')", [], None, None, id="no-value"),
        pytest.param("done('1'); done('2')", [], 1, None, id="two"),
        pytest.param("done('1'); fail('exception', '\"x\"')", [], 1, None, id="failure-after-it"),
        pytest.param(
            "fail('exception', '\"x\"'); done('1')",
            [],
            None,
            ("exception", "x"),
            id="after-failure",
        ),
        pytest.param(
            "fail('invalid-output', '\"own words\"')",
            [],
            None,
            ("invalid-output", "own words"),
            id="invalid-output",
        ),
        pytest.param(
            "fail('output-limit', '\"own words\"')",
            [],
            None,
            ("output-limit", "own words"),
            id="output-limit",
        ),
        pytest.param("log('\"forged\"'); done('1')", ["forged"], 1, None, id="log-before"),
        pytest.param("done('1'); log('\"late\"')", [], 1, None, id="log-after"),
        pytest.param("console.log('a'); done('1')", ["a"], 1, None, id="honest-log-before"),
    ],
)
async def test_the_first_terminal_frame_wins(
    runtime: CodeRuntime,
    forged: str,
    logs: list[str],
    value: object,
    error: tuple[str, str] | None,
) -> None:
    """WT-178, WT-183, WT-063: at once, whatever the program does then."""
    result = await attack(runtime, forged + ";" + HOT)
    assert (result.logs, result.value) == (logs, value)
    assert result.has_value is (value is not None)
    assert (None if result.error is None else failure(result)) == error


async def test_value_and_failure_have_frames_of_their_own(runtime: CodeRuntime) -> None:
    """WT-179: upstream's message could carry both; a completion with a second field is no frame."""
    result = await attack(runtime, "send(51, bin('1'), bin('\"error\"'));" + HOT)
    assert failure(result) == (
        "worker-exit",
        "the Node process was killed: Cannot decode frame DONE: fields ['bytes', 'bytes'], "
        "expected ['bytes']",
    )


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        pytest.param("'nonsense'", "$: Expecting value at character 0", id="no-JSON"),
        pytest.param("'{\"a\":1'", "$: Expecting ',' delimiter at character 6", id="cut-short"),
        pytest.param("'1 2'", "$: Extra data at character 2", id="two"),
        pytest.param("'-0'", "$: negative zero is not JSON", id="negative-zero"),
        pytest.param("'NaN'", "$: number NaN is not a finite double", id="NaN"),
        pytest.param("'[1e999]'", "$: number 1e999 is not a finite double", id="overflow"),
        pytest.param(
            "'9007199254740993'",
            "$: 9007199254740993 is not exactly representable as a double",
            id="inexact-integer",
        ),
        pytest.param(
            "Buffer.from([0x22, 0xff, 0x22])", "$: invalid UTF-8 at byte 1", id="no-UTF-8"
        ),
        pytest.param("' '", "$: Expecting value at character 1", id="blank"),
    ],
)
async def test_a_forged_completion_that_does_not_decode_is_invalid_output(
    runtime: CodeRuntime, text: str, reason: str
) -> None:
    """WT-180, WT-113."""
    result = await attack(runtime, f"done({text});" + HOT)
    assert (result.has_value, failure(result)) == (
        False,
        ("invalid-output", f"The completion must be lossless JSON: {reason}"),
    )


@pytest.mark.parametrize("depth", [3_000, 500_000])
async def test_a_deep_forged_completion_is_returned_as_such(
    runtime: CodeRuntime, depth: int
) -> None:
    """WT-184: no recursion in the host."""
    program = f"done('['.repeat({depth}) + ']'.repeat({depth}));{HOT}"
    async with responsive_loop():
        result = await attack(runtime, program)
    assert (result.error, repr(result)[:24]) == (None, "CodeRunResult(logs=[], v")
    levels, value = 0, result.value
    while value:
        assert isinstance(value, list)
        levels, value = levels + 1, value[0]
    assert levels == depth - 1


async def test_forged_output_over_the_cap_is_output_limit(provider: Provider) -> None:
    """WT-181, WT-182, WT-183, WT-185, WT-186: charged like honest output, whatever it claims to be."""
    cut = ("output-limit", "Output is larger than 96 bytes")
    cases: list[tuple[str, list[str], tuple[str, str]]] = [
        ("done('\"' + 'x'.repeat(10_000) + '\"')", [], cut),
        ("done('[' + '1,'.repeat(60) + '1]')", [], cut),
        ("fail('exception', '\"' + 'x'.repeat(10_000) + '\"')", [], cut),
        ("fail('output-limit', '\"' + 'x'.repeat(10_000) + '\"')", [], cut),
        ("fail('output-limit', '\"fits\"')", [], ("output-limit", "fits")),
        ("log('\"kept\"'); limit()", ["kept"], cut),
        # 96 bytes less the quoted message (32) and the list (2) leave 62: 30 quotes as \" and two more.
        ("log(JSON.stringify('\"'.repeat(1_000_000)))", ['"' * 30], cut),
        # 64 bytes for the list: 2, then 3 + 1 for each entry but the first.
        ("for (;;) log('\"a\"')", ["a"] * 15, cut),
    ]
    async with provider(max_output_bytes=96) as runtime:
        for forged, logs, error in cases:
            result = await attack(runtime, f"{forged};{HOT}")
            assert (result.logs, result.has_value, failure(result)) == (logs, False, error)


@pytest.mark.parametrize(
    ("namespace", "member"),
    [
        ("tools", "undeclared"),
        ("tools", "constructor"),
        ("tools", "toString"),
        ("tools", "__proto__"),
        ("tools", "hasOwnProperty"),
        ("tools", ""),
        ("tools", "items"),
        ("tools", "__class__"),
        ("__proto__", "echo"),
        ("constructor", "name"),
        ("", ""),
        ("console", "log"),
    ],
)
async def test_a_forged_call_of_what_is_not_declared_is_answered(
    runtime: CodeRuntime, namespace: str, member: str
) -> None:
    """WT-187: with a failure that names it; no function runs and the run goes on."""
    seen: list[object] = []
    # The answer to the forged id goes to the program's own first call, which has the same id.
    program = (
        f"call(1, [{namespace!r}, {member!r}], '1'); "
        "try { await tools.echo(2) } catch (error) { console.log(error.message) } return 'on'"
    )
    result = await attack(runtime, program, {"echo": seen.append})
    assert (result.logs, result.value, result.error, seen) == (
        [f"Unknown binding: {namespace}.{member}"],
        "on",
        None,
        [],
    )
    assert [(item.namespace, item.member, item.outcome) for item in result.calls] == [
        (namespace, member, "refused")
    ]


@pytest.mark.parametrize(
    "target", ["'tools.echo'", "{}", "[]", "['tools']", "['tools', 1]", "['tools', 'echo', 'x']"]
)
async def test_a_forged_call_whose_target_is_no_pair_of_names_is_refused(
    runtime: CodeRuntime, target: str
) -> None:
    """WT-187, WT-175."""
    seen: list[object] = []
    result = await attack(runtime, f"call(1, {target}, '1'); return 'on'", {"echo": seen.append})
    assert (result.value, result.error, seen) == ("on", None, [])
    assert [(item.namespace, item.member, item.outcome) for item in result.calls] == [
        ("?", "?", "refused")
    ]


async def test_only_what_a_mapping_lists_can_be_called(runtime: CodeRuntime) -> None:
    """WT-188: in Python what is not listed is not there; upstream finds hidden members."""
    seen: list[object] = []

    class Hiding(Mapping[str, object]):
        def __getitem__(self, key: str) -> object:
            return seen.append

        def __iter__(self) -> Iterator[str]:
            yield "shown"

        def __len__(self) -> int:
            return 1

    result = await attack(
        runtime,
        "call(1, ['tools', 'hidden'], '1'); await tools.shown(2); return Object.keys(tools)",
        bindings=[CodeBindingNamespace("tools", Hiding())],  # type: ignore[arg-type]
    )
    # The honest call has the forged one's id: it is never run, and gets its answer.
    assert failure(result)[1].startswith("Error: Unknown binding: tools.hidden\n")
    assert seen == []


@pytest.mark.parametrize(
    "argument",
    ["", " ", "-0", "NaN", "1e999", "{", "[1", "1 1", "undefined", "'a'", "9007199254740993"],
)
async def test_a_forged_lossy_argument_reaches_no_function(
    runtime: CodeRuntime, argument: str
) -> None:
    """WT-123, SC-030."""
    seen: list[object] = []
    program = (
        f'call(1, ["tools", "echo"], "{argument}"); '
        "try { await tools.echo(2) } catch (error) { console.log(error.message) } return 'on'"
    )
    result = await attack(runtime, program, {"echo": seen.append})
    assert (result.logs, result.value, seen) == (
        ["Binding arguments must be lossless JSON"],
        "on",
        [],
    )


@pytest.mark.parametrize(
    ("ids", "accepted"),
    [
        pytest.param("[1, 1, 1]", [1], id="repeated"),
        pytest.param("[5, 4, 5, 3, 6]", [5, 6], id="falling"),
        pytest.param("[0, 0]", [], id="zero"),
        pytest.param("[1, 2 ** 53 - 1, 2]", [1, 2**53 - 1], id="greatest"),
    ],
)
async def test_an_id_that_does_not_rise_is_ignored(
    runtime: CodeRuntime, ids: str, accepted: list[int]
) -> None:
    """WT-189: never run twice, never answered twice."""
    seen: list[object] = []
    program = f"for (const id of {ids}) call(id, ['tools', 'note'], String(id)); return 'on'"
    result = await attack(runtime, program, {"note": seen.append})
    assert (result.value, seen, len(result.calls)) == ("on", accepted, len(accepted))


async def test_a_forged_id_steals_the_answer_of_the_programs_own_call(
    runtime: CodeRuntime,
) -> None:
    """WT-190: harm to nobody else."""
    program = "call(1, ['tools', 'echo'], '\"forged\"'); return await tools.echo('own')"
    result = await attack(runtime, program, {"echo": echo})
    assert (result.value, len(result.calls)) == ("forged", 1)


async def test_a_forged_high_id_leaves_the_programs_own_calls_without_answer(
    runtime: CodeRuntime,
) -> None:
    """WT-189, WT-191: until the wall ceiling, and with no function called."""
    seen: list[object] = []
    program = "call(1000, ['tools', 'note'], '0'); return await tools.note(1)"
    result = await attack(runtime, program, {"note": seen.append}, max_wall_ms=400)
    assert (seen, failure(result)) == ([0], ("timeout", "wall-clock ceiling exceeded: 400 ms"))


@pytest.mark.parametrize(
    ("program", "kind"),
    [
        pytest.param(
            # Takes the answers out of the socket before the worker sees them.
            "const taken = Buffer.alloc(100), pending = tools.echo(1); let count = 0; "
            "while (count < 10) { try { count += fs.readSync(sockets[0], taken) } catch {} } "
            "return await pending",
            "timeout",
            id="takes-answers",
        ),
        pytest.param(
            "for (const fd of sockets) fs.closeSync(fd); return await tools.echo(1)",
            "worker-exit",
            id="closes-the-socket",
        ),
        pytest.param(
            "for (const handle of process._getActiveHandles()) handle.destroy?.(); "
            "return await tools.echo(1)",
            "worker-exit",
            id="destroys-handles",
        ),
    ],
)
async def test_a_program_that_breaks_its_own_transport_harms_itself(
    runtime: CodeRuntime, program: str, kind: str
) -> None:
    """WT-191."""
    result = await attack(
        runtime, "console.log('before'); " + program, {"echo": echo}, max_wall_ms=2_000
    )
    assert (result.logs, result.has_value, failure(result)[0]) == (["before"], False, kind)


async def test_a_flood_of_forged_calls_runs_no_more_than_the_cap_at_once(
    runtime: CodeRuntime,
) -> None:
    """WT-189, GP-014: the host stops reading, so a flood slows the program and not the host."""
    running, most = 0, 0

    async def hold(_: object) -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        try:
            await anyio.sleep_forever()
        finally:
            running -= 1

    program = "for (let id = 1; ; id++) call(id, ['tools', 'hold'], '1')"
    async with responsive_loop():
        result = await attack(runtime, program, {"hold": hold}, max_wall_ms=1_500)
    assert failure(result) == ("timeout", "wall-clock ceiling exceeded: 1500 ms")
    assert (running, most) == (0, MAX_CALLS_IN_FLIGHT)
