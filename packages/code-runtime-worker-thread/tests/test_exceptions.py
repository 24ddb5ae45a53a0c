"""What a program's own failure says: class, message, source line with a caret, its own frames only."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

import pytest
from run_requests import Run

import code_runtime_worker_thread
from code_runtime import CodeRunResult

pytestmark = pytest.mark.anyio

UNRENDERABLE = "Cannot render the thrown value: converting it to text failed"


def exception(result: CodeRunResult) -> str:
    assert result.error is not None, result
    assert not result.has_value
    assert result.error.kind == "exception", result.error
    return result.error.message


def shown(program: str, *frames: str) -> str:
    """Build the lines below a header: source line, caret, frames.

    The place is that of the first frame.
    """
    match = re.search(r"(\d+):(\d+)\)?$", frames[0])
    assert match is not None
    line, column = int(match[1]), int(match[2])
    source = program.split("\n")[line - 1]
    start = f"  {line} | "
    caret = " " * (len(start) - 2) + "| " + re.sub(r"[^\t]", " ", source[: column - 1]) + "^"
    return "\n".join(["", start + source, caret, *(f"    at {frame}" for frame in frames)])


@pytest.mark.parametrize(
    ("program", "header", "frames"),
    [
        pytest.param('throw new Error("boom")', "Error: boom", ["program.ts:1:7"], id="error"),
        pytest.param(
            'function f() { throw new TypeError("bad") }\nconst g = () => f();\ng()',
            "TypeError: bad",
            ["f (program.ts:1:22)", "g (program.ts:2:17)", "program.ts:3:1"],
            id="frames of functions",
        ),
        pytest.param(
            'const f = async () => { await null; throw new Error("late") };\n\nawait f()',
            "Error: late",
            ["f (program.ts:1:43)", "async program.ts:3:1"],
            id="async frames",
        ),
        pytest.param(
            'class Mine extends Error { constructor(m: string) { super(m); this.name = "Mine" } }\n'
            'throw new Mine("own")',
            "Mine: own",
            ["program.ts:2:7"],
            id="class of the program",
        ),
        pytest.param('throw new Error("")', "Error", ["program.ts:1:7"], id="no message"),
        pytest.param(
            'throw new Error("two\\nlines")',
            "Error: two\nlines",
            ["program.ts:1:7"],
            id="two lines",
        ),
        pytest.param(
            '[1].map((x: number) => { throw new Error("in map") })',
            "Error: in map",
            ["program.ts:1:32", "program.ts:1:5"],
            id="through a built-in",
        ),
        pytest.param(
            '\tthrow new Error("tab")', "Error: tab", ["program.ts:1:8"], id="tab before the caret"
        ),
        pytest.param(
            'interface A { x: number }\nconst a = { x: 1 } as A satisfies A;\nthrow new Error("t")',
            "Error: t",
            ["program.ts:3:7"],
            id="types taken out",
        ),
        pytest.param(
            'import fs from "node:fs"; fs.readFileSync("/none")',
            "Error: ENOENT: no such file or directory, open '/none'",
            ["program.ts:1:30"],
            id="from a built-in module",
        ),
        pytest.param(
            "null!.foo",
            "TypeError: Cannot read properties of null (reading 'foo')",
            ["program.ts:1:7"],
            id="engine error",
        ),
        pytest.param(
            "undeclared = 1",
            "ReferenceError: undeclared is not defined",
            ["program.ts:1:12"],
            id="WT-027 strict mode",
        ),
        pytest.param(
            'throw Object.assign(new Error("first"), { message: "changed" })',
            "Error: changed",
            ["program.ts:1:21"],
            id="message changed before anyone looked",
        ),
        pytest.param(
            'const e = new Error("a\\n    at fake (program.ts:9:9)\\n    at /etc/x.js:1:1"); throw e',
            "Error: a\n    at fake (program.ts:9:9)\n    at /etc/x.js:1:1",
            ["program.ts:1:11"],
            id="message that looks like frames",
        ),
        pytest.param(
            'eval("throw new Error(1)")', "Error: 1", ["program.ts:1:1"], id="inside eval"
        ),
        pytest.param(
            'throw new DOMException("stop", "AbortError")',
            "AbortError: stop",
            ["program.ts:1:7"],
            id="DOMException",
        ),
        pytest.param(
            "return { get then() { throw new Error('in then') } }",
            "Error: in then",
            ["get then (program.ts:1:29)"],
            id="thenable that throws",
        ),
    ],
)
async def test_an_error_shows_where_it_was_thrown(
    run: Run, program: str, header: str, frames: list[str]
) -> None:
    """WT-143, WT-147, GP-005, SC-036: lines and columns as written, and no frame of the host."""
    assert exception(await run(program)) == header + shown(program, *frames)


@pytest.mark.parametrize(
    ("program", "message"),
    [
        pytest.param("throw 'text'", "text", id="WT-145 string"),
        pytest.param("throw ''", "", id="WT-145 empty string"),
        pytest.param("throw 'a\\ud800'", "a\ud800", id="WT-145 lone surrogate"),
        pytest.param("throw 42", "42", id="WT-145 number"),
        pytest.param("throw -0", "0", id="WT-145 minus zero"),
        pytest.param("throw null", "null", id="WT-145 null"),
        pytest.param("throw undefined", "undefined", id="WT-145 undefined"),
        pytest.param("throw 10n", "10", id="WT-145 BigInt"),
        pytest.param("throw Symbol('s')", "Symbol(s)", id="WT-145 symbol"),
        pytest.param("throw { a: 1 }", "[object Object]", id="WT-145 object"),
        pytest.param("throw [1, 2]", "1,2", id="WT-145 array"),
        pytest.param("throw { toString: () => 'mine' }", "mine", id="WT-145 own text"),
        pytest.param(
            "const e = new Error('m'); e.stack = undefined; throw e", "m", id="WT-144 no stack"
        ),
        pytest.param(
            "const e = new Error('m'); delete (e as any).stack; throw e",
            "m",
            id="WT-144 stack deleted",
        ),
        pytest.param(
            "const e: any = new Error('m'); e.stack = 42; throw e", "42", id="WT-144 other stack"
        ),
        pytest.param("throw { toString() { throw 1 } }", UNRENDERABLE, id="WT-146 toString throws"),
        pytest.param("throw Object.create(null)", UNRENDERABLE, id="WT-146 null prototype"),
        pytest.param(
            "throw Object.defineProperty(new Error('x'), 'stack', { get() { throw 1 } })",
            UNRENDERABLE,
            id="WT-146 stack throws",
        ),
        pytest.param(
            "throw new Proxy(new Error('x'), { getPrototypeOf() { throw 1 } })",
            UNRENDERABLE,
            id="WT-146 trap throws",
        ),
        pytest.param(
            "const { proxy, revoke } = Proxy.revocable({}, {}); revoke(); throw proxy",
            UNRENDERABLE,
            id="WT-146 revoked proxy",
        ),
        pytest.param(
            "throw { [Symbol.toPrimitive]: () => ({}) }", UNRENDERABLE, id="WT-146 no primitive"
        ),
        pytest.param(
            "throw { toString: () => { for (;;) throw 1 } }",
            UNRENDERABLE,
            id="WT-146 loop that ends",
        ),
        pytest.param(
            "Error.prepareStackTrace = () => 'my stack'; throw new Error('x')",
            "my stack",
            id="WT-149 own stack format",
        ),
        pytest.param(
            "Error.prepareStackTrace = () => { throw 1 }; throw new Error('x')",
            UNRENDERABLE,
            id="WT-149 own stack format that throws",
        ),
        pytest.param(
            "Error.stackTraceLimit = 0; throw new Error('x')", "Error: x", id="no frames at all"
        ),
        pytest.param(
            "const { proxy, revoke } = Proxy.revocable({}, {}); revoke(); return proxy",
            "TypeError: Cannot perform 'get' on a proxy that has been revoked",
            id="WT-147 no frame of what is put around the program",
        ),
    ],
)
async def test_a_thrown_value_is_shown_as_its_text(run: Run, program: str, message: str) -> None:
    """WT-144, WT-145, WT-146, WT-149; the runtime is as good as before."""
    assert exception(await run(program)) == message
    assert (await run("return 'fine'")).value == "fine"


async def test_a_class_test_of_the_program_changes_nothing_else(run: Run) -> None:
    """WT-149."""
    program = (
        "Object.defineProperty(Error, Symbol.hasInstance, { value: () => false });\n"
        "throw new RangeError('x')"
    )
    assert exception(await run(program)) == "RangeError: x" + shown(program, "program.ts:2:7")
    after = await run("return new Error() instanceof Error")
    assert after.value is True


async def test_causes_follow_their_error(run: Run) -> None:
    """WT-148, GP-005."""
    program = (
        'const inner = new RangeError("inner", { cause: "a reason" });\n'
        'throw new Error("outer", { cause: inner })'
    )
    assert exception(await run(program)) == (
        "Error: outer"
        + shown(program, "program.ts:2:7")
        + "\nCaused by: RangeError: inner"
        + shown(program, "program.ts:1:15")
        + "\nCaused by: a reason"
    )


async def test_members_of_an_aggregate_follow_it(run: Run) -> None:
    """WT-148, GP-005: with their own causes; those that do not render included."""
    program = (
        'const one = new Error("one"), two = new TypeError("two", { cause: 5 });\n'
        'throw new AggregateError([one, "three", two, Object.create(null)], "many")'
    )
    assert exception(await run(program)) == (
        "AggregateError: many"
        + shown(program, "program.ts:2:7")
        + "\nError 1 of 4: Error: one"
        + shown(program, "program.ts:1:13")
        + "\nError 2 of 4: three"
        + "\nError 3 of 4: TypeError: two"
        + shown(program, "program.ts:1:37")
        + "\nCaused by: 5"
        + f"\nError 4 of 4: {UNRENDERABLE}"
    )


async def test_promise_any_shows_what_was_rejected(run: Run) -> None:
    """WT-148."""
    program = 'await Promise.any([tools.fail(1), Promise.reject(new Error("two"))])'

    def fail(_: object) -> None:
        raise LookupError("no row")

    assert exception(await run(program, {"fail": fail})) == (
        "AggregateError: All promises were rejected\nError 1 of 2: ToolCallError: no row"
        + shown(program, "program.ts:1:26")
        + "\nError 2 of 2: Error: two"
        + shown(program, "program.ts:1:50")
    )


@pytest.mark.parametrize(
    ("program", "parts"),
    [
        pytest.param(
            "const a: any = new Error('a'), b: any = new Error('b', { cause: a }); a.cause = b; throw a",
            2,
            id="circle",
        ),
        pytest.param(
            "let e: any = new Error('0'); for (let i = 0; i < 100_000; i++) "
            "e = new Error('n', { cause: e }); throw e",
            11,
            id="long chain",
        ),
        pytest.param(
            "throw new AggregateError(Array.from({ length: 1000 }, () => new Error('n')))",
            11,
            id="many members",
        ),
        pytest.param(
            "const wide = (n: number): any => n === 0 ? new Error('leaf') : "
            "new AggregateError([wide(n - 1), wide(n - 1)]); throw wide(8)",
            40,
            id="tree",
        ),
    ],
)
async def test_the_parts_of_an_error_are_bounded(run: Run, program: str, parts: int) -> None:
    """WT-148: a circle ends, and so does what is long or wide."""
    message = exception(await run(program))
    assert len(re.findall(r"^    \|", message, re.MULTILINE)) == parts
    assert len(message) < 20_000


async def test_a_cause_that_throws_is_left_out(run: Run) -> None:
    """WT-146, WT-148."""
    program = "throw Object.defineProperty(new Error('x'), 'cause', { get() { throw 1 } })"
    assert exception(await run(program)) == "Error: x" + shown(program, "program.ts:1:29")


@pytest.mark.parametrize(
    ("program", "header", "frame"),
    [
        pytest.param(
            "const f = (n: number): number => f(n) + 1;\nf(0)",
            "RangeError: Maximum call stack size exceeded",
            "f (program.ts:1:",
            id="stack overflow",
        ),
        pytest.param(
            "'x'.repeat(2 ** 30)",
            "RangeError: Invalid string length",
            "program.ts:1:5",
            id="string length",
        ),
        pytest.param(
            "new Array(-1)", "RangeError: Invalid array length", "program.ts:1:1", id="array length"
        ),
        pytest.param(
            "10n ** 10_000_000_000n",
            "RangeError: Maximum BigInt size exceeded",
            "program.ts:1:5",
            id="BigInt size",
        ),
        pytest.param(
            "decodeURIComponent('%')", "URIError: URI malformed", "program.ts:1:1", id="URI"
        ),
    ],
)
async def test_limits_of_the_engine_are_ordinary_exceptions(
    run: Run, program: str, header: str, frame: str
) -> None:
    """WT-150: the same program can go on after catching one."""
    message = exception(await run(program))
    assert message.startswith(f"{header}\n  1 | ")
    assert f"\n    at {frame}" in message
    caught = await run(
        f"let text = ''; try {{ {program} }} catch (e) {{ text = String(e) }} return await tools.echo(text)",
        {"echo": lambda value: value},
    )
    assert (caught.value, caught.error) == (header, None)


@pytest.mark.parametrize(
    ("program", "header", "frames"),
    [
        pytest.param(
            "enum Level { Low, High }\nconst f = (x: Level) => {\n  throw new Error(`level ${x}`);\n};\n"
            "f(Level.High)",
            "Error: level 1",
            ["f (program.ts:3:9)", "program.ts:5:1"],
            id="enum",
        ),
        pytest.param(
            "class P { constructor(private x: number) {}\n  go() { throw new Error(`at ${this.x}`) } }\n\n"
            "   new P(3).go()",
            "Error: at 3",
            ["P.go (program.ts:2:16)", "program.ts:4:13"],
            id="parameter property",
        ),
        pytest.param(
            "namespace N { export const a = 1 }\n\n   throw new Error('n' + N.a)",
            "Error: n1",
            ["program.ts:3:10"],
            id="namespace",
        ),
        pytest.param(
            "enum E { A }\n\n\nawait tools.fail({ e: E.A })",
            "ToolCallError: no row",
            ["program.ts:4:13"],
            id="call of a binding",
        ),
    ],
)
async def test_transformed_programs_show_the_places_as_written(
    run: Run, program: str, header: str, frames: list[str]
) -> None:
    """WT-147: syntax that has no stripped form."""

    def fail(_: object) -> None:
        raise LookupError("no row")

    message = exception(await run(program, {"fail": fail}))
    assert message == header + shown(program, *frames)


UNAWAITED = "\nNothing awaited the promise when it failed"


@pytest.mark.parametrize(
    ("program", "message"),
    [
        pytest.param(
            "setTimeout(() => { throw new TypeError('t') }, 1); await new Promise(() => {})",
            "TypeError: t{Timeout._onTimeout (program.ts:1:26)}",
            id="timer",
        ),
        pytest.param(
            "queueMicrotask(() => { throw new TypeError('m') }); await new Promise(() => {})",
            "TypeError: m{program.ts:1:30}",
            id="microtask",
        ),
        pytest.param(
            "Promise.reject(new TypeError('nobody')); await new Promise(() => {})",
            "TypeError: nobody{program.ts:1:16}" + UNAWAITED,
            id="rejection",
        ),
        pytest.param(
            "Promise.reject('text'); await new Promise(() => {})",
            "text" + UNAWAITED,
            id="rejection with a string",
        ),
        pytest.param(
            "Promise.reject(undefined); await new Promise(() => {})",
            "undefined" + UNAWAITED,
            id="rejection with undefined",
        ),
        pytest.param(
            "Promise.reject(Object.create(null)); await new Promise(() => {})",
            UNRENDERABLE + UNAWAITED,
            id="rejection that does not render",
        ),
        pytest.param(
            "setTimeout(() => { throw null }, 1); await new Promise(() => {})",
            "null",
            id="timer that throws null",
        ),
        pytest.param(
            "import { EventEmitter } from 'node:events'; new EventEmitter().emit('error', new Error('e'))",
            "Error: e{program.ts:1:78}",
            id="error event",
        ),
    ],
)
async def test_an_error_that_nothing_catches_is_an_exception(
    run: Run, program: str, message: str
) -> None:
    """WT-166, WT-141, GP-005: with type, message and place; upstream reports the worker's death."""
    match = re.search(r"\{(.*)\}", message)
    if match is not None:
        message = message.replace(match[0], shown(program, match[1]))
    result = await run(f"{program}")
    assert exception(result) == message


async def test_a_program_may_handle_what_nothing_catches(run: Run) -> None:
    """WT-166."""
    result = await run(
        """
        const seen: string[] = [];
        process.on("unhandledRejection", (e: any) => { seen.push(e.message) });
        process.on("uncaughtException", (e: any) => { seen.push(e.message) });
        Promise.reject(new Error("one")); setTimeout(() => { throw new Error("two") }, 1);
        await new Promise(r => setTimeout(r, 20)); return seen
        """
    )
    assert (result.value, result.error) == (["one", "two"], None)


async def test_an_error_after_the_end_changes_nothing(run: Run) -> None:
    """WT-167."""
    result = await run("setTimeout(() => { throw new Error('late') }, 0); return 1")
    assert (result.value, result.error) == (1, None)


HOST_PATHS = re.compile(
    "|".join(
        re.escape(part)
        for part in (
            str(Path(code_runtime_worker_thread.__file__).parent),
            sys.prefix,
            os.getcwd(),
            "worker.mjs",
            "host.mjs",
            "node:internal",
            "file://",
        )
    )
)


@pytest.mark.parametrize(
    "program",
    [
        "await import('./missing.js')",
        "await import('node:nothing')",
        "await import('left-pad')",
        "import { createRequire } from 'node:module'; createRequire(process.cwd() + '/x')('./y')",
        "import fs from 'node:fs'; await fs.promises.readFile('missing.txt')",
        "import fs from 'node:fs'; fs.readFileSync('missing.txt')",
        "import assert from 'node:assert'; assert.deepEqual({ a: 1 }, { a: 2 })",
        "import { Worker } from 'node:worker_threads'; new Worker('./missing.js'); "
        "await new Promise(() => {})",
        "import vm from 'node:vm'; vm.runInNewContext('throw new Error(1)')",
        "import vm from 'node:vm'; vm.runInThisContext('throw new Error(1)', { filename: 'own.js' })",
        "import { execFileSync } from 'node:child_process'; execFileSync('./missing')",
        "import { spawn } from 'node:child_process'; spawn('./missing'); await new Promise(() => {})",
        "import net from 'node:net'; net.connect('/missing.sock'); await new Promise(() => {})",
        "structuredClone(() => 1)",
        "Buffer.alloc(-1)",
        "process.chdir('/')",
        "new URL('nonsense')",
        "new Function('throw new Error(1)')()",
        "process.emit('uncaughtException', new Error('e')); await new Promise(() => {})",
        "process.stdout.write(5 as any)",
        "tools.echo = 1 as any",
        "await tools.echo(10n)",
        "console.log({ [Symbol.for('nodejs.util.inspect.custom')]() { throw new Error('i') } })",
        "const f = (): any => tools.echo(f()); f()",
        "const f = () => { console.log(1); f() }; f()",
        "throw { get message() { return new Error().stack } }",
        "throw new Error(new Error('inner').stack)",
    ],
)
async def test_no_message_shows_a_path_of_the_host(run: Run, program: str) -> None:
    """WT-147, WT-030, GP-005, GP-012."""
    result = await run(program, {"echo": lambda value: value})
    message = exception(result)
    assert HOST_PATHS.search(message) is None, message
    assert all(
        re.fullmatch(r"    at (async )?([\w$. <>\[\]]+ \()?program\.ts:\d+:\d+\)?", line)
        for line in message.split("\n")
        if line.startswith("    at ")
    ), message


async def test_a_long_source_line_is_cut_around_the_caret(run: Run) -> None:
    """WT-147."""
    program = "/* " + "y" * 5_000 + " */ throw new Error('far') /* " + "z" * 5_000 + " */"
    header, source, caret, frame = exception(await run(program)).split("\n")
    assert (header, frame) == ("Error: far", "    at program.ts:1:5014")
    assert source.startswith("  1 | …")
    assert source.endswith("…")
    assert len(source) <= 170
    assert source[caret.index("^") :].startswith("new Error('far')")


async def test_a_message_of_a_megabyte_arrives_whole(run: Run) -> None:
    """WT-143, SC-040."""
    program = "throw new Error('x'.repeat(1_000_000))"
    message = exception(await run(program))
    assert message == "Error: " + "x" * 1_000_000 + shown(program, "program.ts:1:7")


async def test_a_failure_keeps_the_logs_in_order_and_has_no_value(run: Run) -> None:
    """SC-035, SC-038, SC-039, SC-041: plain text, whatever the level or the channel."""
    result = await run(
        """
        console.log("a"); console.error("b"); process.stdout.write("c"); console.warn({ d: 1 });
        throw new Error("e")
        """
    )
    assert exception(result).startswith("Error: e\n")
    assert (result.logs, result.value) == (["a", "b", "c", "{ d: 1 }"], None)
    quiet = await run("throw 'x'")
    assert (quiet.logs, exception(quiet)) == ([], "x")
