"""What a program may look like: requests before a worker, types, imports, shape, syntax errors."""

from __future__ import annotations

import pytest
from run_requests import Provider, Run, build_request

from code_runtime import (
    AbortSignal,
    CodeBindingErrorClass,
    CodeBindingNamespace,
    CodeRunResult,
    Context,
    RuntimeDisposedError,
)
from code_runtime_worker_thread import WorkerThreadCodeRuntime

pytestmark = pytest.mark.anyio

WORKING_FORM = 'expected for example import { readFileSync } from "node:fs"'


def failure(result: CodeRunResult) -> tuple[list[str], str, str]:
    assert result.error is not None, result
    assert not result.has_value
    return result.logs, result.error.kind, result.error.message


def exception(
    reason: str, program: str, line: int, column: int, *frames: str
) -> tuple[list[str], str, str]:
    """Spell the whole failure of a program at a place, its source line and the caret included.

    A reason without an error type is a syntax error; without frames, the place is the only one.
    """
    header = reason if reason.split(":")[0].endswith("Error") else f"SyntaxError: {reason}"
    source = program.splitlines()[line - 1]
    padding = "".join("\t" if char == "\t" else " " for char in source[: column - 1])
    return (
        [],
        "exception",
        f"{header}\n  {line} | {source}\n  {' ' * len(str(line))} | {padding}^"
        + "".join(f"\n    at {frame}" for frame in frames or [f"program.ts:{line}:{column}"]),
    )


async def test_a_disposed_runtime_looks_at_nothing_else(anyio_backend: str) -> None:
    """WT-009: neither at bad namespaces nor at a signal that has fired."""
    async with Context() as ctx:
        handle = await ctx.plugin(WorkerThreadCodeRuntime)
        runtime = ctx.codeRuntime
        await handle.dispose()
        signal = AbortSignal()
        signal.abort("before")
        bad = [CodeBindingNamespace("1a", {})]
        with pytest.raises(RuntimeDisposedError) as caught:
            await runtime.run(build_request("const x =", bindings=bad, signal=signal))
    assert str(caught.value) == (
        "Cannot run a program: WorkerThreadCodeRuntime is disposed, "
        "expected a call before the end of its disposal"
    )


async def test_an_unrenderable_reason_that_has_fired_is_safe(run: Run) -> None:
    """WT-014, GP-001: `run` does not reject."""

    class Broken:
        def __str__(self) -> str:
            raise RuntimeError("no text")

    signal = AbortSignal()
    signal.abort(Broken())
    assert failure(await run("return 1", signal=signal)) == (
        [],
        "abort",
        "<unrenderable abort reason>",
    )


@pytest.mark.parametrize(
    ("program", "value"),
    [
        pytest.param("const x: number = 1; return x", 1, id="annotation"),
        pytest.param(
            "interface A { b: string }\ntype C<T> = A | T\ntype D = { [K in 'a' as `x${K}`]?: K }\n"
            "return 2",
            2,
            id="interface and type alias",
        ),
        pytest.param(
            "const f = <T,>(x: T): T => x; const g = f<number>; return g(3)", 3, id="generics"
        ),
        pytest.param(
            "return ({ a: 4 } as { a: number } satisfies object)!.a", 4, id="as, satisfies, !"
        ),
        pytest.param(
            "declare enum E { A }\ndeclare const q: number\ndeclare function f(): void\n"
            "declare module 'x' { export const a: number }\nreturn typeof E",
            "undefined",
            id="declare",
        ),
        pytest.param(
            "abstract class A<T> { abstract m(): T; private x?: number; protected readonly y = 5;\n"
            "  z!: string; declare q: string; static #p = 1; get p(): number { return A.#p + this.y } }\n"
            "class B extends A<void> implements Object { override m() {} }\n"
            "return [new B().p, Object.keys(new B())]",
            [6, ["x", "y", "z"]],
            id="abstract class and field modifiers",
        ),
        pytest.param(
            "function f(x: number): number\nfunction f(x: string): string\n"
            "function f(this: void, x: any) { return x }\nreturn f(7)",
            7,
            id="overloads and this parameter",
        ),
        pytest.param("let x!: number\nx = 8\nreturn x", 8, id="definite assignment"),
        pytest.param(
            "function ok(v: unknown): asserts v is string {}\nok(1)\n"
            "let s: typeof import('fs') | undefined\nreturn s === undefined",
            True,
            id="assertion function and import type",
        ),
        pytest.param(
            "let a = 1\ntype A = number\n;(() => 2)()\nreturn a", 1, id="separator after a type"
        ),
    ],
)
async def test_types_are_erased(run: Run, program: str, value: object) -> None:
    """WT-015, WT-016."""
    result = await run(program)
    assert (result.value, result.error) == (value, None)


@pytest.mark.parametrize(
    ("program", "value"),
    [
        pytest.param(
            "enum E { A, B = 5, C = 'c', D = B << 1, F = `t`.length }\n"
            "return [E.A, E[0], E.B, E.C, E.D, E.F]",
            [0, "A", 5, "c", 10, 1],
            id="enum",
        ),
        pytest.param("const enum E { A = 2 }\nreturn E.A", 2, id="const enum"),
        pytest.param(
            "namespace N { const hidden = 3; export const a = hidden\n"
            "  export namespace M { export function f() { return a } } }\nreturn N.M.f()",
            3,
            id="namespace",
        ),
        pytest.param("module N { export const a = 3 }\nreturn N.a", 3, id="module"),
        pytest.param(
            "class A { constructor(public x: number, private readonly y = 5, protected z?: string) {}\n"
            "  sum() { return this.x + this.y } }\nreturn [new A(4).sum(), Object.keys(new A(1))]",
            [9, ["x", "y", "z"]],
            id="parameter properties",
        ),
        pytest.param("return <number>(6 as unknown)", 6, id="angle-bracket assertion"),
        pytest.param(
            "enum E { A }\nconst { sep } = await import('node:path')\n"
            "{ using x = { [Symbol.dispose]() { console.log('disposed') } } }\n"
            "return [E.A, sep, arguments.length, await tools.echo(E[0])]",
            [0, "/", 3, "A"],
            id="beside await, using and arguments",
        ),
        pytest.param(
            "enum E { A }\nreturn [E.A, '\ud800 \ue000 \U0001f600']",
            [0, "\ud800 \ue000 \U0001f600"],
            id="beside a lone surrogate",
        ),
        pytest.param("\ufeffenum E { A }\nreturn E.A", 0, id="after a byte order mark"),
    ],
)
async def test_syntax_that_cannot_be_erased_runs(run: Run, program: str, value: object) -> None:
    """WT-017, WT-018: better than a refusal (issue 2, section 3)."""
    result = await run(program, {"echo": lambda text: text})
    assert (result.value, result.error) == (value, None)


@pytest.mark.parametrize(
    ("program", "reason", "line", "column", "frames"),
    [
        pytest.param(
            "type A = number\nconst f = (x: A): never => {\n\tthrow new TypeError(`bad ${x}`)\n}\nf(1)",
            "TypeError: bad 1",
            3,
            8,
            ("f (program.ts:3:8)", "program.ts:5:1"),
            id="erased",
        ),
        pytest.param(
            "enum E {\n  A,\n}\nclass P { constructor(private x: E) { this.#fail() }\n"
            "  #fail(): never { throw new RangeError(E[this.x]) } }\n\n  new P(E.A)",
            "RangeError: A",
            5,
            26,
            ("#fail (program.ts:5:26)", "new P (program.ts:4:49)", "program.ts:7:3"),
            id="enum and parameter property",
        ),
        pytest.param(
            "namespace N {\n  export function f() {\n    throw new TypeError('deep')\n  }\n}\nN.f()",
            "TypeError: deep",
            3,
            11,
            ("Object.f (program.ts:3:11)", "program.ts:6:3"),
            id="namespace",
        ),
        pytest.param(
            "import { join } from 'node:path'\r\nimport fs from 'node:fs'\r\n\r\n  null!.x",
            "TypeError: Cannot read properties of null (reading 'x')",
            4,
            9,
            (),
            id="after imports and CR LF",
        ),
        pytest.param(
            "let a = 1\rlet b: number = 2\rthrow new Error('x')",
            "Error: x",
            3,
            7,
            (),
            id="lone CR",
        ),
        pytest.param("let a = 1;\u2028  throw new Error('x')", "Error: x", 2, 9, (), id="U+2028"),
    ],
)
async def test_positions_are_those_of_the_program_as_written(
    run: Run, program: str, reason: str, line: int, column: int, frames: tuple[str, ...]
) -> None:
    """WT-015, WT-147: line and column, whatever was rewritten (issue 2, section 3)."""
    assert failure(await run(program)) == exception(reason, program, line, column, *frames)


@pytest.mark.parametrize(
    ("program", "value"),
    [
        pytest.param(
            'import fs, { readFileSync as r, type Stats } from "node:fs";\n'
            "import * as path from 'path'\nimport type { X } from 'anything'\n"
            'import os = require("os")\nimport "node:fs"\n'
            "return [fs.readFileSync === r, path.join('a', 'b'), typeof os.tmpdir]",
            [True, "a/b", "function"],
            id="every form",
        ),
        pytest.param(
            "// first\n'use strict'\nconst a = 'b'\nimport { join } from 'node:path'\n"
            "return join('a', a)",
            "a/b",
            id="after other statements",
        ),
        pytest.param("return join('a', 'b')\nimport { join } from 'path'", "a/b", id="hoisted"),
        pytest.param(
            "import { setTimeout as sleep } from 'node:timers/promises'\nreturn await sleep(1, 'x')",
            "x",
            id="renamed",
        ),
        pytest.param(
            "import { sep } from 'node:path'; enum E { A }\nreturn sep + E[0]",
            "/A",
            id="beside a transform",
        ),
        pytest.param("export {}\nreturn 1", 1, id="empty export"),
    ],
)
async def test_static_imports_of_node_built_ins_run(run: Run, program: str, value: object) -> None:
    """WT-019: better than a refusal (issue 2, section 3)."""
    result = await run(program)
    assert (result.value, result.error) == (value, None)


@pytest.mark.parametrize(
    ("program", "reason", "line", "column"),
    [
        pytest.param(
            'import _ from "lodash"',
            'Cannot import "lodash": programs have no packages and no files of their own, expected '
            'a Node built-in, for example import { readFileSync } from "node:fs"',
            1,
            15,
            id="package",
        ),
        pytest.param(
            'const a = 1\nimport { b } from "./b.mjs"',
            'Cannot import "./b.mjs": programs have no packages and no files of their own, expected '
            'a Node built-in, for example import { readFileSync } from "node:fs"',
            2,
            19,
            id="file",
        ),
        pytest.param(
            'import { nope } from "node:fs"',
            'Cannot import "nope" from "node:fs": the module has no such export '
            "(a type needs `import type`)",
            1,
            10,
            id="export that is not there",
        ),
        pytest.param(
            'import { a b } from "node:fs"',
            f"Cannot read this import declaration: {WORKING_FORM}",
            1,
            14,
            id="malformed",
        ),
        pytest.param(
            "import", f"Cannot read this import declaration: {WORKING_FORM}", 1, 7, id="unfinished"
        ),
        pytest.param(
            "import { join } from 'path'\nimport { join } from 'node:path'",
            'Cannot import "join" twice: expected one import of the name',
            2,
            10,
            id="twice",
        ),
        pytest.param(
            'if (true) { import fs from "node:fs" }',
            "Cannot import inside a block: expected import declarations at the top of the program",
            1,
            13,
            id="inside a block",
        ),
        pytest.param(
            'import fs from "node:fs"\nlet fs = 1',
            "Identifier 'fs' has already been declared",
            2,
            5,
            id="declared again",
        ),
        pytest.param(
            'enum E { A }\nimport * as tools from "node:fs"',
            "Identifier 'tools' has already been declared",
            2,
            13,
            id="name of a binding",
        ),
        pytest.param(
            "const a = 1\nexport default a",
            "Cannot export from a program: expected `return` with the value instead",
            2,
            1,
            id="export default",
        ),
        pytest.param(
            "export const a = 1",
            "Cannot export from a program: expected `return` with the value instead",
            1,
            1,
            id="export const",
        ),
    ],
)
async def test_other_imports_and_exports_are_refused_with_the_working_form(
    run: Run, program: str, reason: str, line: int, column: int
) -> None:
    """WT-019, WT-012, WT-026."""
    assert failure(await run(program, {"f": lambda _: 1})) == exception(
        reason, program, line, column
    )


@pytest.mark.parametrize(
    ("program", "reason", "line", "column"),
    [
        pytest.param("const x =", "Expression expected", 1, 10, id="WT-020 end"),
        pytest.param("let a = 1\n\tfoo(;", "Expression expected", 2, 6, id="WT-020 tab"),
        pytest.param(
            "if (a) {\n  foo(",
            "Expression expected: the '(' is never closed",
            2,
            6,
            id="WT-020 unclosed bracket",
        ),
        pytest.param(
            "const a = `x${1}",
            "Unterminated template: the template is never closed",
            1,
            11,
            id="WT-020 unclosed template",
        ),
        pytest.param("enum A { B }\nfoo(;", "Expression expected", 2, 5, id="WT-020 transformed"),
        pytest.param(
            "with (a) {}",
            "The 'with' statement is not supported. All symbols in a 'with' block will have type "
            "'any'.",
            1,
            1,
            id="WT-021 with",
        ),
        pytest.param(
            "return 010",
            "Legacy octal literals are not available when targeting ECMAScript 5 and higher",
            1,
            8,
            id="WT-021 octal",
        ),
        pytest.param(
            "return '\\07'",
            "Octal escape sequences are not allowed in strict mode.",
            1,
            10,
            id="WT-021 octal escape",
        ),
        pytest.param(
            "return 1; }\nglobalThis.escaped = 1; async function x() {",
            "Unexpected identifier 'globalThis'",
            2,
            1,
            id="WT-022 escape",
        ),
        pytest.param(
            "}; console.log('outside'); (async () => {return 1});{",
            "Unexpected token ';'",
            1,
            2,
            id="WT-022 escape by a call",
        ),
        pytest.param(
            "enum A { B }\n} console.log('outside'); function x() {",
            "Cannot close a block that the program did not open",
            2,
            1,
            id="WT-022 escape with a transform",
        ),
        pytest.param(
            "const tools = 1",
            "Identifier 'tools' has already been declared",
            1,
            7,
            id="WT-026 namespace",
        ),
        pytest.param(
            "\n  let ToolCallError = 1",
            "Identifier 'ToolCallError' has already been declared",
            2,
            7,
            id="WT-026 error class",
        ),
        pytest.param(
            "enum E { A }\nconst console = E",
            "Identifier 'console' has already been declared",
            2,
            7,
            id="WT-026 console",
        ),
        pytest.param(
            "return import.meta.url",
            "Cannot use 'import.meta' outside a module",
            1,
            15,
            id="WT-028 import.meta",
        ),
        pytest.param("yield 1", "Expected ';', '}' or <eof>", 1, 7, id="WT-028 yield"),
        pytest.param(
            "class A { @dec m() {} }",
            "Cannot run a decorator: Node has none, expected a plain call of the function",
            1,
            11,
            id="WT-031 decorator",
        ),
        pytest.param(
            "class A { accessor x = 1 }", "Unexpected identifier 'x'", 1, 20, id="WT-031 accessor"
        ),
        pytest.param(
            "#!/usr/bin/env node\nreturn 1",
            "Cannot run a hashbang line: expected a program without it",
            1,
            1,
            id="WT-032 hashbang",
        ),
        pytest.param(
            "undeclared = 1", "ReferenceError: undeclared is not defined", 1, 12, id="WT-027"
        ),
    ],
)
async def test_a_program_that_cannot_run_is_told_why_and_where(
    run: Run, program: str, reason: str, line: int, column: int
) -> None:
    """WT-012: reason, source line, caret and place, and never a path; nothing was printed."""
    assert failure(await run(program, {"f": lambda _: 1})) == exception(
        reason, program, line, column
    )


@pytest.mark.parametrize(
    ("program", "message"),
    [
        pytest.param(
            "let 中 = '😀'; foo(;",
            "SyntaxError: Expression expected\n"
            "  1 | let 中 = '😀'; foo(;\n"
            "    |                    ^\n"
            "    at program.ts:1:19",
            id="wide characters",
        ),
        pytest.param(
            "\x1b[2J return",
            "SyntaxError: Unexpected character '\\u{1b}'\n"
            "  1 | \ufffd[2J return\n"
            "    | ^\n"
            "    at program.ts:1:1",
            id="control character",
        ),
    ],
)
async def test_the_caret_stands_below_the_place_on_a_terminal(
    run: Run, program: str, message: str
) -> None:
    """WT-020: a column counts UTF-16 units, the caret counts terminal columns."""
    assert failure(await run(program)) == ([], "exception", message)


async def test_a_long_line_is_cut_around_the_place(run: Run) -> None:
    program = "return '" + "x" * 300 + "' + foo(;" + " // y" * 100
    _, kind, message = failure(await run(program))
    first, source, caret, place = message.split("\n")
    assert (kind, first, place) == (
        "exception",
        "SyntaxError: Expression expected",
        "    at program.ts:1:317",
    )
    assert len(source) == len("  1 | ") + 160
    assert source[len(caret) - 1] == ";"


@pytest.mark.parametrize(
    "program",
    ["", " \n\t", "// only", "/* only */", "interface A {}", "1 // last", "return", "return\n1"],
)
async def test_a_program_without_a_value_is_visible_as_such(run: Run, program: str) -> None:
    """WT-023: no value and no output (issue 2, section 3)."""
    result = await run(program)
    assert (result.has_value, result.logs, result.error) == (False, [], None)


async def test_parameters_come_in_the_order_of_declaration(run: Run) -> None:
    """WT-024, WT-025, WT-028, WT-029."""
    bindings = [
        CodeBindingNamespace("second", {"f": lambda _: 1}, CodeBindingErrorClass("E1", "member")),
        CodeBindingNamespace("first", {}),
        CodeBindingNamespace("third", {}, CodeBindingErrorClass("A2", "member")),
    ]
    result = await run(
        """
        const g = globalThis as any
        return [
          [...arguments].map((value, index) => value === [second, first, third, E1, A2, console][index]),
          [g.second, g.first, g.E1].every((value) => value === undefined), g.console !== console,
          this === undefined, (function () { return this === undefined })(), typeof require,
          typeof module, typeof exports, typeof __filename,
        ]
        """,
        bindings=bindings,
    )
    assert (result.value, result.error) == (
        [[True] * 6, True, True, True, True, *["undefined"] * 4],
        None,
    )


async def test_reassigned_bindings_are_whole_in_the_next_run(run: Run) -> None:
    """WT-026."""
    program = "tools = 5 as any; ToolCallError = 6 as any; console = 7 as any; return [tools, ToolCallError, console]"
    for _ in range(2):
        result = await run(program, {"f": lambda _: 1})
        assert (result.value, result.error) == ([5, 6, 7], None)


async def test_what_a_function_body_may_hold(run: Run) -> None:
    """WT-028, WT-031, WT-032: dynamic import, for await, using, directives, code after return."""
    program = """"use strict"
      const { join } = await import("node:path")
      let sum = 0
      for await (const n of [1, Promise.resolve(2)]) sum += n
      { await using a = { async [Symbol.asyncDispose]() { console.log("disposed") } } }
      if (sum === 3) return join("a", String(sum))
      throw new Error("ignored")
      return 2"""
    result = await run(program)
    assert (result.logs, result.value, result.error) == (["disposed"], "a/3", None)


async def test_nothing_is_printed_on_the_streams_of_the_host(
    provider: Provider, capfd: pytest.CaptureFixture[str]
) -> None:
    """WT-033: no experimental-feature warning, of either mode."""
    async with provider() as runtime:
        for program in ("const a: number = 1", "enum E { A }", "console.log(1)", "const x ="):
            await runtime.run(build_request(program))
    assert capfd.readouterr() == ("", "")


async def test_the_stripper_survives_what_breaks_it(run: Run) -> None:
    """WT-012: deep nesting is told, and the next program finds another host."""
    deep = "return " + "(" * 2_000 + "1" + ")" * 2_000
    assert failure(await run(deep)) == (
        [],
        "exception",
        "SyntaxError: Cannot strip the types of this program: the type stripper failed on it, "
        "expected fewer levels of nested or chained expressions (keep data in strings or files, "
        "and split long expressions)",
    )
    assert (await run("const a: number = 1; return a")).value == 1
