"""Programs that end by themselves, or fail where nobody listens, and what comes after an end.

`test_lifecycle.py` has the aborts, `test_hostile.py` exits with 300 logs before them, kills, full
heaps and left-over children.
"""

from __future__ import annotations

import stat
from collections.abc import Callable
from pathlib import Path

import anyio
import pytest
from run_requests import Provider, Run, build_request

from code_runtime import AbortSignal, CodeRunResult
from code_runtime_worker_thread._node import find_node

pytestmark = pytest.mark.anyio


def failure(result: CodeRunResult) -> tuple[str, str]:
    assert result.error is not None, result
    return result.error.kind, result.error.message


@pytest.mark.parametrize(
    ("program", "code"),
    [
        pytest.param("process.exit(7)", 7, id="code"),
        pytest.param("process.exit(0)", 0, id="zero"),
        pytest.param("process.exit()", 0, id="none"),
        pytest.param("process.exitCode = 9; process.exit()", 9, id="exitCode"),
        pytest.param("process.exit(256)", 256, id="above-a-byte"),
        pytest.param("process.exit(-1)", -1, id="negative"),
        pytest.param("process.reallyExit(5)", 5, id="reallyExit"),
        pytest.param("try { process.exit(4) } finally { console.log('no') }", 4, id="finally"),
        pytest.param("try { process.exit(4) } catch { return 1 }", 4, id="catch"),
        pytest.param(
            "setTimeout(() => process.exit(3)); await new Promise(() => {})", 3, id="timer"
        ),
    ],
)
async def test_an_exit_is_worker_exit_with_its_code(run: Run, program: str, code: int) -> None:
    """WT-164: exit codes of a worker are no bytes, and no code of the program runs after one."""
    result = await run(f"console.log('before'); {program}")
    assert (result.logs, result.has_value, failure(result)) == (
        ["before"],
        False,
        ("worker-exit", f"worker exited with code {code} before completing"),
    )


@pytest.mark.parametrize("end", ["process.exit(3)", "process.reallyExit(3)", "throw 3", "return 3"])
async def test_calls_before_an_end_are_made(run: Run, end: str) -> None:
    """The first goes out at once, further ones of the same step before the end."""
    seen: list[object] = []
    await run(f"tools.note(1); tools.note(2); tools.note(3); {end}", {"note": seen.append})
    assert seen == [1, 2, 3]


async def test_a_listener_of_the_exit_may_still_print(run: Run) -> None:
    """WT-058, WT-164."""
    result = await run("process.on('exit', (code) => console.log('code', code)); process.exit(3)")
    assert (result.logs, failure(result)) == (
        ["code 3"],
        ("worker-exit", "worker exited with code 3 before completing"),
    )


async def test_an_exit_listener_that_never_ends_does_not_hold_a_completion(run: Run) -> None:
    """WT-167."""
    result = await run("process.on('exit', () => { for (;;); }); return 'done'")
    assert (result.value, result.error) == ("done", None)


async def test_a_program_that_drops_what_keeps_it_alive_exits_with_code_0(run: Run) -> None:
    """WT-165."""
    result = await run(
        "console.log('before'); process.removeAllListeners(); "
        "for (const handle of process._getActiveHandles()) handle.unref(); "
        "await new Promise(() => {})"
    )
    assert (result.logs, failure(result)) == (
        ["before"],
        ("worker-exit", "worker exited with code 0 before completing"),
    )


async def test_the_way_to_the_main_thread_is_not_there_to_be_closed(run: Run) -> None:
    """WT-165: the port that upstream's program could close is hidden, and nothing is sent by it."""
    result = await run("return (await import('node:worker_threads')).parentPort")
    assert (result.value, result.error) == (None, None)


async def test_an_abort_call_is_an_ordinary_exception(run: Run) -> None:
    """WT-164: Node has no `process.abort` in a worker."""
    assert failure(await run("process.abort()")) == (
        "exception",
        "TypeError [ERR_WORKER_UNSUPPORTED_OPERATION]: process.abort() is not supported in workers\n"
        "  1 | process.abort()\n"
        "    |         ^\n"
        "    at program.ts:1:9",
    )


FOREVER = "\nawait new Promise(() => {});"
NOBODY = "\nNothing awaited the promise when it failed"


@pytest.mark.parametrize(
    ("program", "message"),
    [
        pytest.param(
            "setTimeout(() => {\n  throw new TypeError('late');\n}, 1);",
            "TypeError: late\n"
            "  2 |   throw new TypeError('late');\n"
            "    |         ^\n"
            "    at Timeout._onTimeout (program.ts:2:9)",
            id="timer",
        ),
        pytest.param(
            "function tick() {\n  missing.call();\n}\nsetImmediate(tick);",
            "ReferenceError: missing is not defined\n"
            "  2 |   missing.call();\n"
            "    |   ^\n"
            "    at Immediate.tick (program.ts:2:3)",
            id="immediate",
        ),
        pytest.param(
            "queueMicrotask(() => { throw new Error('tiny') });",
            "Error: tiny\n"
            "  1 | queueMicrotask(() => { throw new Error('tiny') });\n"
            "    |                              ^\n"
            "    at program.ts:1:30",
            id="microtask",
        ),
        pytest.param(
            "import { EventEmitter } from 'node:events';\n"
            "new EventEmitter().emit('error', new Error('unheard'));",
            "Error: unheard\n"
            "  2 | new EventEmitter().emit('error', new Error('unheard'));\n"
            "    |                                  ^\n"
            "    at program.ts:2:34",
            id="error-event",
        ),
        pytest.param(
            "const inner: Error = new TypeError('inner');\n"
            "setTimeout(() => { throw new Error('outer', { cause: inner }) });",
            "Error: outer\n"
            "  2 | setTimeout(() => { throw new Error('outer', { cause: inner }) });\n"
            "    |                          ^\n"
            "    at Timeout._onTimeout (program.ts:2:26)\n"
            "Caused by: TypeError: inner\n"
            "  1 | const inner: Error = new TypeError('inner');\n"
            "    |                      ^\n"
            "    at program.ts:1:22",
            id="cause",
        ),
        pytest.param("setTimeout(() => { throw null });", "null", id="null"),
        pytest.param("setImmediate(() => { throw 'text' });", "text", id="string"),
        pytest.param("process.nextTick(() => { throw Symbol('s') });", "Symbol(s)", id="symbol"),
    ],
)
async def test_an_uncaught_error_is_an_exception_with_its_place(
    run: Run, program: str, message: str
) -> None:
    """WT-166, GP-005: type, message, source line and position of the program as written."""
    result = await run(program + FOREVER)
    assert (result.logs, result.has_value, failure(result)) == ([], False, ("exception", message))


@pytest.mark.parametrize(
    ("program", "message"),
    [
        pytest.param(
            "console.log('before');\nPromise.reject(new RangeError('lost'));",
            "RangeError: lost\n"
            "  2 | Promise.reject(new RangeError('lost'));\n"
            "    |                ^\n"
            "    at program.ts:2:16",
            id="error",
        ),
        pytest.param(
            "console.log('before');\nasync function work() {\n  throw new Error('async');\n}\nwork();",
            "Error: async\n"
            "  3 |   throw new Error('async');\n"
            "    |         ^\n"
            "    at work (program.ts:3:9)\n"
            "    at program.ts:5:1",
            id="async-function",
        ),
        pytest.param("console.log('before'); Promise.reject(42);", "42", id="number"),
        pytest.param(
            "console.log('before'); Promise.reject({ a: 1 });", "[object Object]", id="object"
        ),
        pytest.param("console.log('before'); Promise.reject();", "undefined", id="undefined"),
    ],
)
async def test_an_unhandled_rejection_is_an_exception_that_says_so(
    run: Run, program: str, message: str
) -> None:
    """WT-166, GP-005: upstream reports a dead worker, without type and stack."""
    result = await run(program + FOREVER)
    assert (result.logs, failure(result)) == (["before"], ("exception", message + NOBODY))


async def test_a_failed_call_that_nobody_awaited_is_named(run: Run) -> None:
    """WT-141, GP-005."""

    def fail(_: object) -> None:
        raise LookupError("no such row")

    result = await run(f"tools.fail({{ id: 5 }});{FOREVER}", {"fail": fail})
    assert failure(result) == (
        "exception",
        "ToolCallError: no such row\n"
        "  1 | tools.fail({ id: 5 });\n"
        "    |       ^\n"
        "    at program.ts:1:7\n"
        "Nothing awaited the call of tools.fail when it failed: write await tools.fail(...), "
        "or Promise.all for several calls",
    )


async def test_a_program_may_listen_for_its_own_errors(run: Run) -> None:
    """WT-166: with a listener of its own an error is handled."""
    result = await run(
        """
        process.on("uncaughtException", (error) => console.log("seen", error.message));
        process.on("unhandledRejection", (reason) => console.log("seen", reason));
        setTimeout(() => { throw new Error("one") }); Promise.reject("two");
        await new Promise((resolve) => setTimeout(resolve, 50)); return "done"
        """
    )
    assert (sorted(result.logs), result.value, result.error) == (
        ["seen one", "seen two"],
        "done",
        None,
    )


@pytest.mark.parametrize(
    "late",
    [
        pytest.param("setTimeout(() => { throw new Error('late') });", id="timer"),
        pytest.param("Promise.reject(new Error('late'));", id="rejection"),
        pytest.param("setTimeout(() => process.exit(9));", id="exit"),
        pytest.param("setImmediate(() => { for (;;); });", id="loop"),
        pytest.param("setTimeout(() => console.log('late'));", id="log"),
        pytest.param("setTimeout(() => process.stdout.write('late'));", id="write"),
        pytest.param("setTimeout(() => tools.count(1));", id="call"),
    ],
)
async def test_what_comes_after_the_completion_changes_nothing(run: Run, late: str) -> None:
    """WT-137, WT-167, WT-063."""
    seen: list[object] = []
    program = f"console.log('own'); {late} return 'done'"
    result = await run(program, {"count": seen.append})
    assert (result.logs, result.value, result.error, seen) == (["own"], "done", None, [])


async def test_an_abort_after_the_completion_does_not_win(run: Run) -> None:
    """WT-162: a signal that fires while the run cleans up finds the outcome chosen."""
    signal = AbortSignal()

    async def hold(_: object) -> None:
        try:
            await anyio.sleep_forever()
        finally:
            signal.abort("too late")

    result = await run("tools.hold(0); return 'done'", {"hold": hold}, signal=signal)
    assert (result.value, result.error, signal.aborted) == ("done", None, True)


async def test_the_first_abort_wins_over_whatever_follows(run: Run) -> None:
    """WT-162, WT-138: nor does the value that the program would have returned."""
    signal = AbortSignal()

    def stop(_: object) -> str:
        signal.abort("first")
        signal.abort("second")
        return "value"

    result = await run("return await tools.stop(0)", {"stop": stop}, signal=signal)
    assert (result.has_value, failure(result)) == (False, ("abort", "first"))


@pytest.fixture
async def breakable_node(tmp_path: Path) -> tuple[str, Callable[[bool], None]]:
    """A Node binary that can be made to fail at its start."""
    real = (await find_node()).path
    switch, wrapper = tmp_path / "broken", tmp_path / "node"
    wrapper.write_text(f'#!/bin/sh\n[ -e {switch} ] && exit 3\nexec {real} "$@"\n')
    wrapper.chmod(wrapper.stat().st_mode | stat.S_IXUSR)
    return str(wrapper), lambda broken: switch.touch() if broken else switch.unlink()


async def test_a_worker_that_does_not_start_fails_its_own_run(
    provider: Provider, breakable_node: tuple[str, Callable[[bool], None]]
) -> None:
    """WT-169: and a later run tries again."""
    node_bin, set_broken = breakable_node
    async with provider(node_bin=node_bin, spare_hosts=1, runs_per_host=1) as runtime:
        set_broken(True)
        results = [await runtime.run(build_request("return 1")) for _ in range(4)]
        set_broken(False)
        # A boot that began before may still fail the run that waits for it.
        after = await runtime.run(build_request("return 2"))
        while after.error is not None:
            results.append(after)
            after = await runtime.run(build_request("return 2"))
    # The hosts that were ready when the binary broke still serve.
    assert [result.value for result in results if result.error is None] != [1] * 4
    assert {failure(result) for result in results if result.error is not None} == {
        ("worker-exit", "worker did not start: the Node process closed its control socket")
    }
    assert (after.value, after.error) == (2, None)
