"""Everything written past the console: both streams, descriptors 1 and 2, and what children print."""

from __future__ import annotations

import pytest
from run_requests import Provider, Run, build_request

from code_runtime import AbortSignal, CodeRunResult

pytestmark = pytest.mark.anyio

NODE = (
    'import fs from "node:fs"; import { execFileSync, spawn, spawnSync } from "node:child_process";'
)


def logs_of(result: CodeRunResult) -> list[str]:
    assert result.error is None, result.error
    return result.logs


def failure(result: CodeRunResult) -> tuple[list[str], str, str]:
    assert result.error is not None, result
    return result.logs, result.error.kind, result.error.message


@pytest.mark.parametrize(
    ("program", "logs"),
    [
        pytest.param(
            "console.log('1'); process.stdout.write('2\\n'); process.stderr.write('3'); console.error('4')",
            ["1", "2\n", "3", "4"],
            id="WT-050 one order, text verbatim",
        ),
        pytest.param(
            "for (let i = 0; i < 3; i++) { console.log(i); process.stdout.write(`w${i}`); "
            "globalThis.console.error(`r${i}`) }",
            ["0", "w0", "r0\n", "1", "w1", "r1\n", "2", "w2", "r2\n"],
            id="WT-050 the real console among them",
        ),
        pytest.param(
            "process.stdout.write(Buffer.from('é€')); process.stderr.write(Buffer.from('\U0001f600'))",
            ["é€", "\U0001f600"],
            id="WT-053 Buffer",
        ),
        pytest.param(
            "process.stdout.write('aGk=', 'base64'); process.stdout.write('6869', 'hex'); "
            "process.stdout.write('hi', 'utf16le'); process.stdout.write('h', 'latin1'); "
            "process.stdout.write('é', 'UTF-8' as any)",
            ["hi", "hi", "h\0i\0", "h", "é"],
            id="WT-054 encodings count",
        ),
        pytest.param(
            "process.stdout.write(new Uint8Array([104, 105])); "
            "process.stdout.write(new Uint16Array([0x6968]) as any); "
            "process.stdout.write(new DataView(new Uint8Array([33]).buffer) as any)",
            ["hi", "hi", "!"],
            id="WT-055 typed arrays are bytes",
        ),
        pytest.param(
            "process.stdout.write(''); process.stdout.write(Buffer.alloc(0)); console.log('end')",
            ["", "end"],
            id="WT-056 an empty text is an entry, no bytes are none",
        ),
        pytest.param(
            "process.stdout.write('\\ud800'); process.stdout.write('\\0\\x1b[2J')",
            ["\ud800", "\0\x1b[2J"],
            id="WT-050 any text unchanged",
        ),
        pytest.param(
            "const { Writable } = await import('node:stream'); const { stdout } = process\n"
            "console.log('1'); Writable.prototype.write.call(stdout, '2'); stdout.cork()\n"
            "Writable.prototype.write.call(stdout, '3'); stdout.uncork(); console.log('4'); stdout.end('5')\n"
            "await new Promise((resolve) => stdout.once('finish', resolve)); stdout.write('6'); console.log('7')",
            ["1", "2", "3", "4", "5", "6", "7"],
            id="WT-059, GP-007 through the prototype, in true order, after the end too",
        ),
        pytest.param(
            "const { pipeline } = await import('node:stream/promises')\n"
            "await pipeline(['a', Buffer.from('b')], process.stdout); console.log('c')",
            ["a", "b", "c"],
            id="WT-059 a pipeline",
        ),
        pytest.param(
            "const { Worker } = await import('node:worker_threads')\n"
            "const worker = new Worker('process.stdout.write(`inner`); console.error(`é`)', { eval: true })\n"
            "await new Promise((resolve) => worker.on('exit', resolve))",
            ["inner", "é\n"],
            id="WT-059 nested worker",
        ),
        pytest.param(
            "for (const byte of Buffer.from('a€\U0001f600z')) process.stdout.write(Buffer.of(byte))",
            ["a", "€", "\U0001f600", "z"],
            id="WT-060, GP-006 a character in several writes",
        ),
        pytest.param(
            "process.stdout.write(Buffer.of(0xe2, 0x82)); process.stderr.write('x'); "
            "process.stdout.write('y'); process.stderr.write(Buffer.of(0xf0, 0x9f))",
            ["x", "\ufffdy", "\ufffd"],
            id="WT-060 a character that is never finished, each stream by itself",
        ),
        pytest.param(
            "process.stdout.destroy(); await new Promise(setImmediate); process.stdout.write('late')",
            ["late"],
            id="WT-057 for the worker's life",
        ),
        pytest.param(
            "process.stdout.write('once'); setTimeout(() => process.stdout.write('too late'))",
            ["once"],
            id="WT-057, WT-063 after the end nothing counts",
        ),
    ],
)
async def test_stream_writes_are_entries(run: Run, program: str, logs: list[str]) -> None:
    """WT-050, WT-053 to WT-060."""
    assert logs_of(await run(program)) == logs


@pytest.mark.parametrize(
    ("argument", "error"),
    [
        pytest.param("1 as any", "ERR_INVALID_ARG_TYPE", id="number"),
        pytest.param("{} as any", "ERR_INVALID_ARG_TYPE", id="object"),
        pytest.param("undefined as any", "ERR_INVALID_ARG_TYPE", id="undefined"),
        pytest.param("null as any", "ERR_STREAM_NULL_VALUES", id="null"),
        pytest.param("'a', 'nope' as any", "ERR_UNKNOWN_ENCODING", id="encoding"),
    ],
)
async def test_other_chunks_are_refused_as_node_does(run: Run, argument: str, error: str) -> None:
    """WT-055: better than upstream, which logs their text."""
    program = f"try {{ process.stdout.write({argument}) }} catch (e: any) {{ return [e instanceof TypeError, e.code] }}"
    result = await run(program)
    assert (result.logs, result.value) == ([], [True, error])


async def test_write_returns_true_and_calls_back_later(run: Run) -> None:
    """WT-051, WT-052: once, with null, in second and third position."""
    result = await run(
        """
        const seen: unknown[] = []
        const note = (name: string) => (...given: unknown[]) => { seen.push([name, ...given]) }
        const returned = [
          process.stdout.write("a", note("second")), process.stderr.write("b", "utf8", note("third")),
          process.stdout.write("x".repeat(1e6)), process.stdout.write(""),
        ]
        seen.push("returned")
        await new Promise((resolve) => process.stdout.write("c", resolve))
        return [returned, seen]
        """
    )
    assert result.value == [
        [True] * 4,
        ["returned", ["second", None], ["third", None]],
    ]


async def test_a_write_above_the_budget_ends_the_run_and_not_in_a_hang(provider: Provider) -> None:
    """WT-052, WT-080: a program that awaits its flush."""
    program = (
        "await new Promise((resolve) => process.stdout.write('x'.repeat(100), resolve)); for (;;);"
    )
    async with provider(max_output_bytes=80) as runtime:
        result = await runtime.run(build_request(program, max_wall_ms=20_000))
    assert failure(result) == (
        ["x" * 44],
        "output-limit",
        "Output is larger than 80 bytes",
    )


ENDS = [
    pytest.param("process.exit(3)", "worker-exit", id="exit"),
    pytest.param("throw new Error('x')", "exception", id="exception"),
    pytest.param("process.kill(process.pid, 'SIGKILL'); for (;;);", "worker-exit", id="kill"),
    pytest.param("return () => {}", "invalid-output", id="invalid output"),
    pytest.param("await tools.abort(0); for (;;);", "abort", id="abort in a hot loop"),
    pytest.param("for (;;);", "timeout", id="timeout"),
]


@pytest.mark.parametrize(("end", "kind"), ENDS)
async def test_what_was_written_before_any_end_is_in_the_result(
    run: Run, end: str, kind: str
) -> None:
    """WT-058, WT-062: on every channel, each in its order."""
    program = f"""{NODE}
    for (let i = 0; i < 100; i++) {{
      process.stdout.write(`s${{i}}`); fs.writeSync(1, `one${{i}}\\n`); fs.writeSync(2, `two${{i}}\\n`)
    }}
    execFileSync("/bin/sh", ["-c", "for i in 0 1 2; do echo child$i; done"], {{ stdio: "inherit" }})
    fs.writeSync(2, "y".repeat(100_000)); console.log("last"); {end}"""
    signal = AbortSignal()
    result = await run(
        program,
        {"abort": lambda _: signal.abort("enough")},
        signal=signal,
        max_wall_ms=3_000 if kind == "timeout" else 60_000,
    )
    logs, seen, _ = failure(result)
    assert seen == kind
    by_channel = {
        start: [log for log in logs if log.startswith(start)]
        for start in ("s", "one", "two", "child", "y", "last")
    }
    assert by_channel == {
        "s": [f"s{i}" for i in range(100)],
        "one": [f"one{i}" for i in range(100)],
        "two": [f"two{i}" for i in range(100)],
        "child": ["child0", "child1", "child2"],
        "y": ["y" * 100_000],
        "last": ["last"],
    }
    assert len(logs) == 305


@pytest.mark.parametrize("fd", [1, 2])
@pytest.mark.parametrize(
    ("program", "logs"),
    [
        pytest.param("fs.writeSync(FD, 'a\\nb\\n')", ["a", "b"], id="lines"),
        pytest.param("fs.writeSync(FD, 'a'); fs.writeSync(FD, 'b')", ["ab"], id="no line end"),
        pytest.param(
            "fs.writeSync(FD, '\\n\\na\\r\\n\\n')", ["", "", "a\r", ""], id="empty lines, CR kept"
        ),
        pytest.param(
            "for (const byte of Buffer.from('a€\U0001f600z')) fs.writeSync(FD, Buffer.of(byte))",
            ["a€\U0001f600z"],
            id="WT-060 a character in several writes",
        ),
        pytest.param(
            "fs.writeSync(FD, 'x' + '€'.repeat(100_000) + '\\n' + '\U0001f600'.repeat(50_000))",
            ["x" + "€" * 100_000, "\U0001f600" * 50_000],
            id="WT-062 larger than a pipe",
        ),
        pytest.param(
            "fs.writeSync(FD, ('y'.repeat(99) + '\\n').repeat(3_000))",
            ["y" * 99] * 3_000,
            id="many lines at once",
        ),
        pytest.param(
            "fs.writeSync(FD, Buffer.of(0xff, 0x61, 0x0a, 0xc3))",
            ["\ufffda", "\ufffd"],
            id="no UTF-8",
        ),
        pytest.param(
            "fs.writeFileSync('/proc/self/fd/FD', 'p\\n'); fs.writeFileSync('/proc/self/fd/FD', 'q')",
            ["p", "q"],
            id="by a path",
        ),
        pytest.param(
            "const s = fs.createWriteStream('', { fd: FD, autoClose: false }); s.write('a\\n'); "
            "await new Promise((resolve) => s.end('b', resolve))",
            ["a", "b"],
            id="file stream",
        ),
        pytest.param(
            "spawnSync('/bin/sh', ['-c', 'echo a >&FD; printf b >&FD'], { stdio: 'inherit' })",
            ["a", "b"],
            id="child",
        ),
        pytest.param(
            "const child = spawn('/bin/sh', ['-c', 'echo a >&FD; exec sleep 0'], { stdio: 'inherit' }); "
            "await new Promise((resolve) => child.on('exit', resolve)); fs.writeSync(FD, 'b')",
            ["a", "b"],
            id="child beside the program",
        ),
        pytest.param(
            "spawnSync(process.execPath, ['-e', 'fs.writeSync(FD, `n\\\\n`.repeat(50_000))'], { stdio: 'inherit' })",
            ["n"] * 50_000,
            id="Node child",
        ),
        pytest.param(
            "fs.writeSync(FD, 'FATAL ERROR: mine\\n#\\n\\n<--- Last few GCs --->\\nend\\n')",
            ["FATAL ERROR: mine", "#", "", "<--- Last few GCs --->", "end"],
            id="text that looks like the engine's last words",
        ),
    ],
)
async def test_descriptors_are_captured_one_line_one_entry(
    run: Run, program: str, logs: list[str], fd: int
) -> None:
    """WT-064, GP-003, WT-061 (deviation): by number, by path and from children, in order."""
    text = program.replace("FD", str(fd))
    assert logs_of(await run(f"{NODE} {text}")) == logs


async def test_captured_output_never_reaches_the_host(
    provider: Provider, capfd: pytest.CaptureFixture[str]
) -> None:
    """WT-064, GP-003."""
    program = f"""{NODE}
    fs.writeSync(1, "a\\n"); fs.writeSync(2, "b\\n"); process.stdout.write("c")
    execFileSync("/bin/sh", ["-c", "echo d; echo e >&2"], {{ stdio: "inherit" }})
    globalThis.console.error("f"); process.emitWarning("g")"""
    async with provider() as runtime:
        logs = logs_of(await runtime.run(build_request(program)))
    assert sorted(logs) == ["a", "b", "c", "d", "e", "f\n"]
    assert capfd.readouterr() == ("", "")


async def test_captured_output_is_charged_to_the_ledger(provider: Provider) -> None:
    """WT-064, WT-091: the budget holds for bytes that the worker cannot see."""
    program = f"{NODE} fs.writeSync(1, 'a'.repeat(20) + '\\n' + 'b'.repeat(100) + '\\n'); return 1"
    async with provider(max_output_bytes=80) as runtime:
        result = await runtime.run(build_request(program))
    assert failure(result) == (
        ["a" * 20, "b" * 21],
        "output-limit",
        "Output is larger than 80 bytes",
    )


async def test_unfinished_lines_belong_to_their_own_run(provider: Provider) -> None:
    """WT-061, SC-043: a host that serves many runs carries nothing over."""
    async with provider(spare_hosts=1, max_concurrent_runs=1) as runtime:
        for index in range(6):
            program = (
                f"{NODE} fs.writeSync(1, 'x{index}'); fs.writeSync(2, Buffer.of(0xe2)); return 1"
            )
            logs = logs_of(await runtime.run(build_request(program)))
            assert sorted(logs) == [f"x{index}", "\ufffd"]


async def test_commands_leave_no_empty_entries(run: Run) -> None:
    """WT-056 (deviation): execSync writes the child's empty stderr to process.stderr."""
    result = await run(
        """
        import { execSync } from "node:child_process"
        const out = execSync("echo out").toString()
        try { execSync("echo why >&2; exit 3") } catch (error: any) { console.log(error.status) }
        return out
        """
    )
    assert (result.logs, result.value) == (["why\n", "3"], "out\n")


async def test_logs_of_both_kinds_arrive_while_the_program_runs(run: Run) -> None:
    """WT-058, SC-006."""
    seen: list[str] = []
    program = f"""{NODE}
    process.stdout.write("stream"); fs.writeSync(1, "line\\n")
    while (await tools.count(0) < 2) await new Promise((resolve) => setTimeout(resolve, 5))
    return 1"""
    result = await run(program, {"count": lambda _: len(seen)}, on_log=seen.append)
    assert (sorted(seen), result.value) == (["line", "stream"], 1)


async def test_lines_that_are_in_the_pipe_at_the_end_are_all_kept(run: Run) -> None:
    """WT-062: in order, although the reader is in the middle of a chunk when the run ends."""
    for _ in range(5):
        result = await run(
            "const fs = await import('node:fs');\n"
            "for (let i = 0; i < 40; i++)\n"
            "  fs.writeSync(1, Array.from({length: 1000}, (_, n) => `${i * 1000 + n}\\n`).join(''));"
        )
        assert result.logs == [str(number) for number in range(40_000)]
