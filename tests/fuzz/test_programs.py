"""Programs that nobody wrote: each ends as a typed result within its wall, and the next one runs."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import hypothesmith
import pytest
from fuzzing import FACTOR, Runtimes, examples, keys, texts
from hypothesis import example, given
from hypothesis import strategies as st

from code_runtime import CodeBindingErrorClass, CodeBindingNamespace, CodeRunRequest, CodeRunResult
from code_runtime._vocabulary import CALL_OUTCOMES, FAILURE_KINDS

# Nothing of this machine may be in a message for a model.
ROOT: Final = str(Path(__file__).parents[2])
WALL_MS: Final = 2_000
HONEST: Final = {
    "typescript": "console.log('a'); return await tools.echo([1])",
    "python": "print('a')\nreturn await tools.echo([1])",
}


def echo(value: object) -> object:
    return value


def fail(value: object) -> object:
    raise ValueError(str(value)[:50])


TOOLS: Final = [
    CodeBindingNamespace(
        "tools", {"echo": echo, "fail": fail}, CodeBindingErrorClass("ToolError", "member")
    )
]


def check(runtimes: Runtimes, language: str, program: str) -> CodeRunResult:
    """Run a program, judge the form of its result, and run an honest one."""
    runtime = runtimes[language]
    result = runtime.run(CodeRunRequest(program, TOOLS, max_wall_ms=WALL_MS))
    assert type(result) is CodeRunResult
    assert all(type(entry) is str for entry in result.logs)
    assert all(call.outcome in CALL_OUTCOMES for call in result.calls)
    if result.error is not None:
        assert result.error.kind in FAILURE_KINDS
        assert ROOT not in result.error.message, result.error.message
        assert not result.has_value
    after = runtime.run(CodeRunRequest(HONEST[language], TOOLS))
    assert (after.logs, after.value, after.error) == (["a"], [1], None), program
    return result


# From the grammar of Python


@examples(12, processes=True)
@given(hypothesmith.from_grammar() | hypothesmith.from_grammar("eval_input"))
def test_program_from_the_grammar_of_python_ends_as_a_result(
    runtimes: Runtimes, program: str
) -> None:
    check(runtimes, "python", program)


if FACTOR:  # to draw one takes seconds

    @examples(1, processes=True)
    @given(hypothesmith.from_node())
    def test_program_from_the_nodes_of_python_ends_as_a_result(
        runtimes: Runtimes, program: str
    ) -> None:
        check(runtimes, "python", program)


# Programs that run: one tree, spelled in both languages

LEAVES: Final = (
    *(
        ("1", "1"),
        ("0", "0"),
        ("-2.5", "-2.5"),
        ("2**60", "2**60"),
        ("'é'", "'é'"),
        ("None", "null"),
    ),
    *(("True", "true"), ("a", "a"), ("b", "b"), ("[]", "[]"), ("{}", "({})"), ("tools", "tools")),
    *(
        ("float('nan')", "NaN"),
        ("-0.0", "-0"),
        ("'\\ud800'", "'\\ud800'"),
        ("print", "console.log"),
    ),
    *(("ToolError", "ToolError"), ("object()", "new Map()"), ("1j", "1n"), ("b''", "undefined")),
)
EXPRESSIONS: Final = (
    *(("(%s + %s)", "(%s + %s)"), ("(%s * %s)", "(%s * %s)"), ("(%s < %s)", "(%s < %s)")),
    *(
        ("[%s, %s]", "[%s, %s]"),
        ("{'k': %s, %s: 1}", "({k: %s, [%s]: 1})"),
        ("(%s)[%s]", "(%s)[%s]"),
    ),
    *(("str(%s)", "String(%s)"), ("f'{%s}'", "`${%s}`"), ("print(%s)", "console.log(%s)")),
    *(("(await tools.echo(%s))", "(await tools.echo(%s))"), ("tools.echo(%s)", "tools.echo(%s)")),
    *(("(await tools.fail(%s))", "(await tools.fail(%s))"), ("(%s).member", "(%s).member")),
    *(("(%s if %s else 1)", "(%s ? %s : 1)"), ("(lambda a: %s)(%s)", "((a: unknown) => %s)(%s)")),
    *(("[%s for b in %s]", "[...%s].map((b) => %s)"), ("(await %s)", "(await %s)")),
    *(("(a := %s)", "(a = %s)"), ("list(%s)", "[...%s]"), ("(%s)()", "(%s)()"), ("not %s", "!%s")),
)
STATEMENTS: Final = (
    *(("a = %s", "a = %s;"), ("return %s", "return %s;"), ("raise ValueError(%s)", "throw %s;")),
    *(
        ("print(%s)", "console.log(%s);"),
        ("%s", "%s;"),
        ("assert %s", "if (!%s) throw new Error()"),
    ),
)
BLOCKS: Final = (
    *(("if %s:", "if (%s) {", "}"), ("for b in %s:", "for (const b of %s) {", "}")),
    *(
        ("while %s:", "while (%s) {", "break; }"),
        ("async def f(a=%s):", "async function f(a = %s) {", "}"),
    ),
)
Spelled = tuple[str, str]


def fill(template: Spelled, parts: tuple[Spelled, ...]) -> Spelled:
    counts = [form.count("%s") for form in template]
    python, typescript = ([part[index] for part in parts] for index in (0, 1))
    return (
        template[0] % tuple(python[: counts[0]]),
        template[1] % tuple(typescript[: counts[1]]),
    )


expressions: st.SearchStrategy[Spelled] = st.recursive(
    st.sampled_from(LEAVES),
    lambda inner: st.builds(fill, st.sampled_from(EXPRESSIONS), st.tuples(inner, inner)),
    max_leaves=6,
)
statements: st.SearchStrategy[Spelled] = st.builds(
    fill, st.sampled_from(STATEMENTS), st.tuples(expressions)
)


def block(template: tuple[str, str, str], head: Spelled, body: list[Spelled]) -> Spelled:
    start = fill(template[:2], (head,))
    ends = ["    break"] if template[0].startswith("while") else []
    lines = [f"    {line}" for part, _ in body for line in part.split("\n")]
    return (
        "\n".join([start[0], *lines, "    pass", *ends]),
        "\n".join([start[1], *(part for _, part in body), template[2]]),
    )


def attempt(body: list[Spelled]) -> Spelled:
    lines = [f"    {line}" for part, _ in body for line in part.split("\n")]
    return (
        "\n".join(["try:", *lines, "    pass", "except Exception as b:", "    print(b)"]),
        "\n".join(["try {", *(part for _, part in body), "} catch (b) { console.log(b) }"]),
    )


programs: st.SearchStrategy[list[Spelled]] = st.lists(
    st.recursive(
        statements,
        lambda inner: (
            st.builds(block, st.sampled_from(BLOCKS), expressions, st.lists(inner, max_size=3))
            | st.builds(attempt, st.lists(inner, max_size=3))
        ),
        max_leaves=6,
    ),
    min_size=1,
    max_size=6,
)
STARTS: Final = ("a = b = 1", "let a: any = 1, b: any = 1;")


@pytest.mark.parametrize("language", HONEST)
@examples(25, processes=True)
@given(programs)
def test_program_that_parses_ends_as_a_result(
    runtimes: Runtimes, language: str, program: list[Spelled]
) -> None:
    index = 0 if language == "python" else 1
    lines = [STARTS[index], *(part[index] for part in program)]
    result = check(runtimes, language, "\n".join(lines))
    # What was drawn is a program: it fails by what it does, or by what only a compiler can see.
    assert result.error is None or result.error.kind in {"exception", "invalid-output"}


# Pieces of honest programs, in any order

PYTHON_PIECES: Final = (
    *(
        "await",
        "tools",
        ".",
        "echo",
        "fail",
        "(",
        ")",
        "[",
        "]",
        "{",
        "}",
        ":",
        ",",
        "=",
        "==",
        "*",
    ),
    *("**", "+", "-", "1", "0", "1.5", "1e999", "'a'", "b''", "f'{a!r}'", '"""', "#", "\\", "\n"),
    *(
        "\n    ",
        "\n  ",
        "\t",
        "return",
        "yield",
        "raise",
        "try:",
        "except ToolError as a:",
        "finally:",
    ),
    *(
        "async def a():",
        "def a(*b):",
        "class a:",
        "lambda a:",
        "for a in b:",
        "while a:",
        "with a:",
    ),
    *(
        "if 1:",
        "else:",
        "match a:",
        "case a:",
        "import asyncio",
        "from __future__ import annotations",
    ),
    *("a", "b", "print", "None", "True", ";", "@", "->", "...", "del", "global a", "nonlocal a"),
    *("assert", "pass", "break", "continue", "in", "is", "not", "and", "or", ":=", "é", "\u2028"),
    *("\ufeff", "\0", "\ud800", "\x0c", "\r", "$", "?", "int", "asyncio.gather", "a.send(None)"),
)
TYPESCRIPT_PIECES: Final = (
    *(
        "await",
        "tools",
        ".",
        "echo",
        "fail",
        "(",
        ")",
        "[",
        "]",
        "{",
        "}",
        ":",
        ",",
        "=",
        "===",
        "*",
    ),
    *(
        "+",
        "-",
        "1",
        "0",
        "1.5",
        "1n",
        "'a'",
        "`${a}`",
        "`",
        "//",
        "/*",
        "*/",
        "/a/g",
        "\\",
        "\n",
        "...",
    ),
    *(
        "return",
        "yield",
        "throw",
        "try {",
        "} catch (a) {",
        "} finally {",
        "async () =>",
        "=>",
        "?.",
    ),
    *(
        "function a()",
        "class A",
        "extends",
        "for (const a of b)",
        "while (a)",
        "if (a)",
        "else",
        ";",
    ),
    *(
        "const",
        "let",
        "var",
        "import a from 'node:path'",
        "export",
        "enum E { A }",
        "namespace N { }",
    ),
    *(
        "interface I",
        "type T = number",
        "as const",
        "as",
        "satisfies",
        "<T>",
        "<",
        ">",
        "!",
        "?",
        "??",
    ),
    *(
        ": number",
        "abstract",
        "private",
        "readonly",
        "declare",
        "#a",
        "@a",
        "this",
        "new",
        "delete",
    ),
    *("a", "b", "console.log", "null", "undefined", "JSON", "Promise.all", "Symbol.iterator", "é"),
    *("\u2028", "\ufeff", "\0", "\ud800", "\r", "$", "using", "import.meta", "new.target", "super"),
    *(
        "switch (a) {",
        "case 1:",
        "default:",
        "label:",
        "break",
        "debugger",
        "with (a)",
        "void 0",
        "<!--",
    ),
)
PYTHON_PROGRAMS: Final = (
    "import asyncio\nsums = await asyncio.gather(*(tools.echo(n) for n in range(3)))\nreturn sum(sums)",
    "try:\n    await tools.fail('x')\nexcept ToolError as error:\n    print(error.member, error)\n",
    "class A:\n    def __repr__(self):\n        return 'A'\n\nprint(A(), end='')\nreturn {'a': [1, 2.5]}",
    "def walk(n):\n    return n if n < 1 else walk(n - 1)\n\nreturn walk(5_000)",
    "match await tools.echo({'a': 1}):\n    case {'a': a}:\n        print(f'{a:>5}')\n    case _:\n        raise OSError",
)
TYPESCRIPT_PROGRAMS: Final = (
    "const sums: number[] = await Promise.all([1, 2].map((n) => tools.echo(n)));\nreturn sums;",
    "try { await tools.fail('x') } catch (error) { console.log((error as ToolError).member, `${error}`) }",
    "enum Color { Red, Green = 'g' }\nnamespace N { export const a = 1 }\nreturn [Color.Red, N.a];",
    "class A<T> { constructor(private readonly x: T) {} get(): T { return this.x } }\nreturn new A(1).get()",
    "import path from 'node:path';\nconst f = (n: number): number => n < 1 ? 0 : f(n - 1);\nreturn f(1e5)",
)


def soup(pieces: tuple[str, ...]) -> st.SearchStrategy[str]:
    gaps = st.sampled_from([" ", " ", "", "\n"])
    return st.lists(st.sampled_from(pieces) | texts, max_size=25).flatmap(
        lambda drawn: gaps.map(lambda gap: gap.join(drawn))
    )


@st.composite
def mutants(draw: st.DrawFn, programs: tuple[str, ...], pieces: tuple[str, ...]) -> str:
    """Put pieces into an honest program, and take parts of it out or double them."""
    program = draw(st.sampled_from(programs))
    for _ in range(draw(st.integers(1, 4))):
        start = draw(st.integers(0, len(program)))
        end = draw(st.integers(start, min(len(program), start + 12)))
        middle = draw(
            st.sampled_from(pieces) | st.sampled_from(["", program[start:end] * 2]) | keys
        )
        program = program[:start] + middle + program[end:]
    return program


@examples(25, processes=True)
@given(soup(PYTHON_PIECES) | mutants(PYTHON_PROGRAMS, PYTHON_PIECES))
@example("")
@example("\0")
@example("return " + "(" * 5_000)
@example("-" * 100_000 + "1")
@example("x = " + "[" * 300 + "]" * 300)
@example("return " + "9" * 5_000)
def test_program_of_pieces_of_python_ends_as_a_result(runtimes: Runtimes, program: str) -> None:
    check(runtimes, "python", program)


@examples(25, processes=True)
@given(soup(TYPESCRIPT_PIECES) | mutants(TYPESCRIPT_PROGRAMS, TYPESCRIPT_PIECES))
@example("")
@example("\0")
@example("return " + "(" * 5_000)
@example("return " + "-" * 10_001 + "1")
@example("return " + "[" * 3_000 + "]" * 3_000)
@example("}")
@example("}); (async () => {")
@example("/*")
@example("`${")
def test_program_of_pieces_of_typescript_ends_as_a_result(runtimes: Runtimes, program: str) -> None:
    check(runtimes, "typescript", program)
