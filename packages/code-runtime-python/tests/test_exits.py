"""How a program can end: exits, signals, descriptors, and frames that it forges."""

from __future__ import annotations

import os
import resource
import time

import pytest
from python_forgery import FORGE
from run_requests import Provider, Run, build_request

from code_runtime import CodeRunResult
from code_runtime_python._session import MAX_NAME_CHARS

pytestmark = pytest.mark.anyio

MIB = 1_048_576


def failure(result: CodeRunResult) -> tuple[str, str]:
    assert result.error is not None, result
    return result.error.kind, result.error.message


def ended(text: str) -> tuple[str, str]:
    return "worker-exit", f"the Python process {text} before completing"


@pytest.mark.parametrize(
    ("statement", "last"),
    [
        ("import sys; sys.exit(3)", "SystemExit: 3"),
        ("import sys; sys.exit(0)", "SystemExit: 0"),
        ("raise SystemExit", "SystemExit"),
        ("raise KeyboardInterrupt", "KeyboardInterrupt"),
        ("raise GeneratorExit", "GeneratorExit"),
        ("raise BaseException('odd')", "BaseException: odd"),
    ],
)
async def test_exits_of_the_interpreter_are_exceptions(run: Run, statement: str, last: str) -> None:
    """PY-211, PY-214, PY-215."""
    kind, message = failure(await run(statement))
    assert (kind, message.splitlines()[-1]) == ("exception", last)


@pytest.mark.parametrize(
    ("statement", "text"),
    [
        ("os._exit(7)", "ended with code 7"),
        ("os._exit(0)", "ended with code 0"),
        ("os.kill(os.getpid(), signal.SIGKILL)", "was ended by SIGKILL"),
        ("os.kill(os.getpid(), signal.SIGSEGV)", "was ended by SIGSEGV"),
        ("os.kill(os.getpid(), signal.SIGTERM)", "was ended by SIGTERM"),
        ("os.abort()", "was ended by SIGABRT"),
        ("os.kill(os.getpid(), signal.SIGXCPU)", "was ended by SIGXCPU"),
        ("os.kill(os.getpid(), 40)", "was ended by signal 40"),
        ("os.execv('/bin/sh', ['sh', '-c', 'exit 9'])", "ended with code 9"),
    ],
)
async def test_ends_of_the_process_are_worker_exit(run: Run, statement: str, text: str) -> None:
    """PY-216, PY-217, PY-218: a forged SIGXCPU is told from a CPU limit by measurement."""
    before_s = time.monotonic()
    result = await run(f"import os, signal\nprint('a')\n{statement}\nawait tools.x(1)", {"x": id})
    assert (result.logs, failure(result)) == (["a"], ended(text))
    assert time.monotonic() - before_s < 2


async def test_a_done_right_before_the_end_counts(run: Run) -> None:
    """PY-219: a process that ends by itself is read to the last byte."""
    for ending in ("os._exit(3)", "os.kill(os.getpid(), 9)"):
        result = await run(
            f"{FORGE}\nfor _ in range(300): send(type='log', text='x')\n"
            f"send(type='done', value='y' * 300_000)\n{ending}"
        )
        assert (len(result.logs), result.value) == (300, "y" * 300_000)


async def test_a_done_counts_although_calls_hold_the_reader(run: Run) -> None:
    """PY-197, PY-219, PY-283: 1,400 calls are out, of which the host has read 1,024."""
    import anyio

    program = (
        "import asyncio\ntasks = [asyncio.ensure_future(tools.never(i)) for i in range(1400)]\n"
        "await asyncio.sleep(0.1)\n{end}"
    )

    async def never(_: object) -> None:
        await anyio.sleep_forever()

    with anyio.fail_after(10):
        result = await run(program.format(end="return 'value'"), {"never": never})
        assert (result.value, result.error) == ("value", None)
        result = await run(program.format(end="import os; os._exit(7)"), {"never": never})
    assert failure(result) == ended("ended with code 7")


async def test_closing_descriptor_3_changes_nothing(run: Run) -> None:
    """PY-220: the channel is another one, and a file under the number 3 stays a file."""
    result = await run(
        "import os\n"
        "try:\n    os.close(3)\nexcept OSError:\n    pass\n"
        "file = os.open('mine', os.O_CREAT | os.O_RDWR)\nawait tools.echo(1)\nprint('a')\n"
        "return [file, os.path.getsize('mine')]",
        {"echo": lambda value: value},
    )
    assert isinstance(result.value, list), result
    assert (result.logs, result.value[1]) == (["a"], 0)


async def test_closing_the_channel_is_worker_exit_at_once(run: Run) -> None:
    """PY-220."""
    before_s = time.monotonic()
    result = await run(f"{FORGE}\nprint('a')\nos.close(CHANNEL)\ntime.sleep(60)")
    assert (result.logs, *failure(result)) == (
        ["a"],
        "worker-exit",
        "the Python process was killed: it closed its channel",
    )
    assert time.monotonic() - before_s < 3


async def test_bytes_before_the_completion_make_it_junk(run: Run) -> None:
    """PY-221: what follows an unfinished line is a part of it."""
    result = await run(f"{FORGE}\nraw(b'{{\"type\":')\nreturn 1")
    assert failure(result) == ended("ended with code 0")


async def test_a_forked_copy_cannot_speak_for_the_program(run: Run) -> None:
    """PY-222: whichever of them returns first."""
    result = await run(
        "import os, time\nif os.fork() == 0:\n    return 'copy'\ntime.sleep(0.1)\nreturn 'original'"
    )
    assert (result.value, result.error) == ("original", None)


async def test_setsid_is_refused(run: Run) -> None:
    """PY-224."""
    kind, message = failure(await run("import os\nos.setsid()"))
    assert (kind, message.splitlines()[-1]) == (
        "exception",
        "PermissionError: [Errno 1] Operation not permitted",
    )


async def test_garbage_is_dropped(run: Run) -> None:
    """PY-226, PY-227, PY-228, PY-229: the real completion counts."""
    result = await run(
        FORGE
        + r"""
for line in [b"", b"garbage", b"null", b"[]", b"7", b'{"type":"unknown"}', b'{"type":"done","error":1}',
             b'{"type":"done","error":{"kind":"timeout","message":"no"}}', b'{"type":"log","text":5}',
             b'{"type":"done","value":"\xff"}', b'{"type":"done","value":9007199254740993}', b"{" * 50_000]:
    raw(line + b"\n")
raw(b'{"type":"log","text":"one"}\n{"type":"log","te')
raw(b'xt":"two"}\n')
return "real"
"""
    )
    assert (result.logs, result.value, result.error) == (["one", "two"], "real", None)


@pytest.mark.parametrize(
    ("done", "expected"),
    [
        pytest.param(
            "b'[' * 20_000 + b']' * 20_000",
            ("output-limit", "The value is larger than 1000 bytes"),
            id="deep",
        ),
        pytest.param(
            "b'\"' + b'x' * 999 + b'\"'",
            ("output-limit", "The value is larger than 1000 bytes"),
            id="oversized",
        ),
        pytest.param(
            "b'1e400'",
            ("invalid-output", "The completion must be lossless JSON: a number is not exact"),
            id="infinite",
        ),
        pytest.param(
            "b'[-0,\"' + b'x' * 1000 + b'\"]'",
            ("output-limit", "The value is larger than 1000 bytes"),
            id="both",
        ),
    ],
)
async def test_a_forged_completion_is_judged_by_the_host(
    provider: Provider, done: str, expected: tuple[str, str]
) -> None:
    """PY-229."""
    async with provider(max_value_bytes=1000) as runtime:
        result = await runtime.run(
            build_request(
                f'{FORGE}\nraw(b\'{{"type":"done","value":\' + {done} + b\'}}\\n\')\nreturn 1'
            )
        )
        fits = await runtime.run(build_request("return 'x' * 998"))
    assert failure(result) == expected
    assert fits.value == "x" * 998


async def test_a_forged_completion_without_value_is_one(run: Run) -> None:
    """PY-229."""
    result = await run(f"{FORGE}\nsend(type='done')\nreturn 1")
    assert (result.has_value, result.error) == (False, None)


@pytest.mark.parametrize(
    ("most", "text", "message"),
    [
        pytest.param(64, "'x' * 48_000_000", "x" * 49 + "… [truncated]", id="large"),
        pytest.param(32, "'x' * 17 + '\\U0001F600' * 9", "x" * 17 + "… [truncated]", id="pair"),
        pytest.param(
            66, "'E' + '\\U0001F600' * 20", "E" + "\U0001f600" * 12 + "… [truncated]", id="emoji"
        ),
        pytest.param(4, "'x' * 50", "… [truncated]", id="marker"),
        pytest.param(66, "'é' * 20", "é" * 20, id="untouched"),
    ],
)
async def test_a_forged_failure_message_is_cut_by_the_host(
    provider: Provider, most: int, text: str, message: str
) -> None:
    """PY-119 to PY-122: PY-120, PY-121."""
    async with provider(max_value_bytes=most) as runtime:
        before_kb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        result = await runtime.run(
            build_request(
                f"{FORGE}\nsend(type='done', error={{'kind': 'exception', 'message': {text}}})"
            )
        )
        grown_kb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before_kb
    assert failure(result) == ("exception", message)
    assert grown_kb < 262_144


async def test_forged_call_ids_are_dropped(run: Run) -> None:
    """PY-230, PY-231: only the successor of the last id counts."""
    seen: list[object] = []

    def echo(value: object) -> object:
        seen.append(value)
        return value

    result = await run(
        f"{FORGE}\nfor number in range(2000, 0, -1): call(number, 'echo', 'forged')\n"
        "call(0.5, 'echo'); call(-1, 'echo'); call('0', 'echo')\n"
        'raw(b\'{"type":"call","id":0,"global":"tools","name":"echo",'
        '"args":9007199254740993}\\n\')\n'
        "return await tools.echo('honest')",
        {"echo": echo},
    )
    assert (result.value, seen, len(result.calls)) == ("honest", ["honest"], 1)


async def test_a_forged_call_of_an_unknown_name_is_answered_briefly(run: Run) -> None:
    """PY-193: with 8 MiB in its name. The call with the id that it has taken fails, no other."""
    before_s = time.monotonic()
    result = await run(
        f"{FORGE}\ncall(0, 'x' * 8_388_608)\n"
        "try:\n    await tools.echo('hit')\n"
        "except ToolCallError as error:\n    print(error)\n"
        "return await tools.echo('honest')",
        {"echo": lambda value: value},
    )
    name = "x" * (MAX_NAME_CHARS - 1) + "…"
    assert (result.logs, result.value) == ([f"Unknown binding: tools.{name}"], "honest")
    assert time.monotonic() - before_s < 5
    assert max(len(call.member) for call in result.calls) <= MAX_NAME_CHARS


@pytest.mark.parametrize(
    ("program", "is_over"),
    [
        pytest.param("raw(log(65 * M))", True, id="log of 65 MiB"),
        pytest.param("raw(b'x' * (64 * M) + b'AAAA\\n')", True, id="4 bytes over"),
        pytest.param("raw(b'x' * (64 * M) + b'\\n' + log(5))", False, id="exactly"),
        pytest.param(
            "for _ in range(16_384): raw(b'x' * 4096)\nraw(b'x' * 12_289 + b'\\n')",
            True,
            id="in pieces",
        ),
    ],
)
async def test_the_cap_of_a_line(run: Run, program: str, is_over: bool) -> None:
    """PY-232."""
    head = (
        f"{FORGE}\nM = 1_048_576\n"
        'def log(size): return b\'{"type":"log","text":"\' + b\'y\' * size + b\'"}\\n\'\n'
    )
    result = await run(f"{head}{program}\nreturn 1")
    if is_over:
        assert failure(result) == (
            "worker-exit",
            "the Python process was killed: Cannot read a frame: line without end, "
            f"expected at most {64 * MIB} bytes",
        )
    else:
        assert (result.logs, result.value, result.error) == (["yyyyy"], 1, None)


async def test_a_drip_of_single_bytes_is_junk_and_costs_little(run: Run) -> None:
    """PY-233."""
    before_s = time.monotonic()
    result = await run(
        f"{FORGE}\nfor _ in range(60_000): raw(b'x')\nraw(b'\\n')\nreturn await tools.echo(5)",
        {"echo": lambda value: value},
    )
    assert result.value == 5
    assert time.monotonic() - before_s < 10


async def test_the_program_can_signal_its_host_group_and_only_itself_is_hit(run: Run) -> None:
    """PY-224: it leads a session and a group of its own."""
    result = await run(
        "import os, signal\nos.killpg(0, signal.SIGTERM)\nawait tools.x(1)", {"x": id}
    )
    assert failure(result) == ended("was ended by SIGTERM")
    assert os.getpid()


async def test_output_of_a_killed_program_is_kept_up_to_its_last_line(run: Run) -> None:
    """PY-128, PY-262: nothing that was printed before the kill is lost."""
    result = await run(
        "import os\nfor i in range(2000): print(i)\nprint('open', end='', flush=True)\nos._exit(1)"
    )
    assert result.logs == [*map(str, range(2000)), "open"]
