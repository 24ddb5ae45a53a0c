"""Programs in another common form: the text that is run, and real runs of it."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from scenario_files import read_scenarios

from code_mode._program import normalize_program
from code_mode._typescript_tokens import outer_tokens
from code_runtime import (
    CodeBindingErrorClass,
    CodeBindingNamespace,
    CodeRunRequest,
    CodeRuntime,
    Context,
)
from code_runtime_python import PythonCodeRuntime
from code_runtime_worker_thread import WorkerThreadCodeRuntime

ROOT = Path(__file__).parents[3]
LANGUAGES = ("typescript", "python")

# Fences


@pytest.mark.parametrize("language", [*LANGUAGES, "lua"])
@pytest.mark.parametrize(
    ("given_text", "expected"),
    [
        ("```ts\nreturn 1\n```", "\nreturn 1\n"),
        ("\n\n```python title=x\nreturn 1\n\n```\n \n", "\n\n\nreturn 1\n\n"),
        ("~~~~\nreturn 1\n~~~~~", "\nreturn 1\n"),
        ("````\nx = 1\n```\n````", "\nx = 1\n```\n"),
        ("```\r\nreturn 1\r\n```\r\n", "\r\nreturn 1\r\n"),
        ("  ```js\n  return 1\n    + 2\n  ```", "\nreturn 1\n  + 2\n"),
        ("```\n```", "\n"),
    ],
)
def test_a_fence_around_the_whole_text_is_emptied(
    given_text: str, expected: str, language: str
) -> None:
    assert normalize_program(given_text, language) == expected


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize(
    "text",
    [
        pytest.param("```ts\nreturn 1", id="not closed"),
        pytest.param("return 1\n```", id="not opened"),
        pytest.param("```", id="one line"),
        pytest.param("```ts\nreturn 1\n~~~", id="closed by another"),
        pytest.param("````\nreturn 1\n```", id="closed by less"),
        pytest.param("```\na\n```\ntext\n```\nb\n```", id="two blocks"),
        pytest.param("```a`b\nreturn 1\n```", id="backticks behind the first"),
        pytest.param("Here it is:\n```\nreturn 1\n```", id="text before"),
        pytest.param("    ```\nreturn 1\n```", id="indented as code"),
        pytest.param("", id="empty"),
    ],
)
def test_another_fence_stays(text: str, language: str) -> None:
    assert normalize_program(text, language) == text


# TypeScript

TYPESCRIPT: Mapping[str, tuple[str, str]] = {
    "exported declaration": (
        "export default async function main(tools: any): Promise<{ a: number }> {\n  return 1;\n}\n// end\n",
        "               async function main(tools: any): Promise<{ a: number }> {\n  return 1;\n} return await main(tools);\n// end\n",
    ),
    "exported declaration behind helpers": (
        "const a = /}/;\nfunction b() { return `${a}}`; }\nexport default function f() { return b(); };",
        "const a = /}/;\nfunction b() { return `${a}}`; }\n               function f() { return b(); } return await f(tools);;",
    ),
    "exported function without a name": (
        "export default async function ({ search, get }: Tools) { return 1; }",
        "return await ( async function ({ search, get }: Tools) { return 1; })(tools)",
    ),
    "exported arrow": (
        'import { x } from "node:fs";\nexport default async ({ tools }: { tools: any }): Promise<void> => {\n};',
        'import { x } from "node:fs";\nreturn await ( async ({ tools }: { tools: any }): Promise<void> => {\n})({ tools });',
    ),
    "exported over two lines": (
        "export // all\n  default async () => 3;",
        "       // all\n  return await ( async () => 3)(tools);",
    ),
    "arrow": (
        "// What it does\nasync () => {\n  return 1;\n}\n",
        "// What it does\nreturn await (async () => {\n  return 1;\n})(tools)\n",
    ),
    "arrow of one parameter": ("t => t.x;", "return await (t => t.x)(tools);"),
    "arrow of a renamed key": (
        "async ({ tools: t, ...rest }) => [1, 2]",
        "return await (async ({ tools: t, ...rest }) => [1, 2])({ tools })",
    ),
    "arrow of a key with another value": (
        "async ({ a = tools }) => ({ a })",
        "return await (async ({ a = tools }) => ({ a }))(tools)",
    ),
    "arrow over lines": (
        "async () => tools\n  .list()\n  .map((x) => { return x; })",
        "return await (async () => tools\n  .list()\n  .map((x) => { return x; }))(tools)",
    ),
    "arrow with a type of functions": (
        "(a: () => void): (() => void) => {}",
        "return await ((a: () => void): (() => void) => {})(tools)",
    ),
    "arrow in brackets": (
        "(async () => {\n  return 1;\n});",
        "return await (async () => {\n  return 1;\n})(tools);",
    ),
    "function in brackets": (
        "/* a */ (function ({ tools }) { return 1; }) // b",
        "/* a */ return await (function ({ tools }) { return 1; })({ tools }) // b",
    ),
    "one declaration": (
        "async function main(): Promise<Array<{ a: 1 }>> { return []; }",
        "async function main(): Promise<Array<{ a: 1 }>> { return []; } return await main(tools);",
    ),
    "function without a name": (
        "async function () { return 1; }",
        "return await (async function () { return 1; })(tools)",
    ),
    "arrow called in place": (
        "(async () => {\n  return 1;\n})();",
        "return await (async () => {\n  return 1;\n})();",
    ),
    "arrow called in place behind helpers": (
        "const x = 1;\nawait (async () => x)();",
        "const x = 1;\nreturn await (async () => x)();",
    ),
    "declaration and call": (
        "async function main() {\n  return 1;\n}\n\nmain();",
        "async function main() {\n  return 1;\n}\n\nreturn await main();",
    ),
    "declaration and call that handles failures": (
        "const main = async () => {\n  return 1;\n};\nawait main().then(show).catch(fail)",
        "const main = async () => {\n  return 1;\n};\nreturn await main().then(show).catch(fail)",
    ),
    "fenced": ("```ts\nasync () => 1\n```\n", "\nreturn await (async () => 1)(tools)\n"),
}


@pytest.mark.parametrize(("text", "expected"), TYPESCRIPT.values(), ids=TYPESCRIPT)
def test_a_typescript_function_is_called(text: str, expected: str) -> None:
    assert normalize_program(text, "typescript") == expected
    assert expected.count("\n") == text.count("\n") - (2 if text.startswith("`") else 0) + (
        1 if text.startswith("`") else 0
    )


@pytest.mark.parametrize(
    "text",
    [
        "return 1;",
        "const f = async () => 1;",
        "async () => 1\nfoo()",
        "async () => { return 1; }\nfoo()",
        "() => 1, 2",
        "() => 1; 2",
        "async () => {",
        "(() => 1)();",
        "const a = b\n(async () => {})()",
        "await (async () => 1)() + 1",
        "(async () => {}).name",
        "function a() {}\nfunction b() {}",
        "function a() {}\na();",
        "async function a() {}\nconst b = a();",
        "async function a() {}\nconst b =\n  a()",
        "async function a() {}\nif (x) a();",
        "async function a() {}\ntools.a();",
        "const a = async () => 1;\nreturn a();",
        "function a(): void {}\nwhile (x) {}",
        "function* a() {}",
        "async function* a() {}",
        "export default function* () {}",
        "export default 3;",
        "export default { a: 1 };",
        "export default async () => 1;\nexport default async () => 2;",
        "export default async function main() {}\nmain();",
        "export const a = () => 1;",
        "async <T>(x: T) => x",
        'const t = "export default () => 1";',
        "const t = `\nexport default () => 1`;",
        "// export default () => 1\n",
        "x = () => 1",
        "a ? (b) : c => 1",
        "`${() => 1}`",
        "() => /[/",
        "async () => '\n'",
        "(a) => { return ]; }",
        "class A { f() { return () => 1; } }",
    ],
)
def test_another_typescript_program_stays(text: str) -> None:
    assert normalize_program(text, "typescript") == text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a /b/ c", ["a", "/", "b", "/", "c"]),
        ("a = /b[/]\\//g.c", ["a", "=", "/b[/]\\//g", ".", "c"]),
        ("f(1) / 2 // 3", ["f", "(", "/", "2"]),
        ("return /(/", ["return", "/(/"]),
        ("'a\\'b' \"c\"", ["'a\\'b'", '"c"']),
        ("`a${`b${c}`}` d", ["`", "d"]),
        ("x?.5:1 ?. y ?? z", ["x", "?", ".5", ":", "1", "?.", "y", "??", "z"]),
        ("#a @b $c ö9", ["#a", "@b", "$c", "ö9"]),
    ],
)
def test_outer_tokens_are_those_outside_of_brackets(text: str, expected: list[str]) -> None:
    tokens = outer_tokens(text)
    assert tokens is not None
    assert [token.text for token in tokens] == expected


@pytest.mark.parametrize("text", ["(", ")", "(]", "'", "`", "`${", "`${a`", "/* ", "= /[/"])
def test_a_text_that_never_ends_has_no_tokens(text: str) -> None:
    assert outer_tokens(text) is None


# Python

PYTHON: Mapping[str, tuple[str, str]] = {
    "indented as a whole": (
        "\n    import json\n    print(json.dumps(\n        [1]))\n",
        "\nimport json\nprint(json.dumps(\n    [1]))\n",
    ),
    "asyncio.run": (
        "import asyncio\nasync def main():\n    return 1\n\nasyncio.run(main())\n",
        "import asyncio\nasync def main():\n    return 1\n\nreturn await (main())\n",
    ),
    "asyncio.run of what returns nothing": (
        "async def main():\n    print('ä')\nasyncio.run(main()) # go",
        "async def main():\n    print('ä')\nawait (main()) # go",
    ),
    "asyncio.run over lines": (
        "x = 'ä'; asyncio.run(\n    main(x),\n)",
        "x = 'ä'; return await (\n    main(x)\n)",
    ),
    "asyncio.run behind a guard": (
        "async def main():\n    return 1\nif __name__ == '__main__':\n    print(2)\n    asyncio.run(main())",
        "async def main():\n    return 1\nif __name__ == '__main__':\n    print(2)\n    return await (main())",
    ),
    "guard the other way round": (
        'if "__main__" == __name__: asyncio.run(go())',
        'if "__main__" == __name__: return await (go())',
    ),
    "anyio.run": ("anyio.run(main)", "return await (main)()"),
    "anyio.run with arguments": (
        "anyio.run(\n    main,\n    1,\n    [2],\n)",
        "return await (\n    main)(\n    1,\n    [2],\n)",
    ),
    "main": (
        '"""It."""\nimport json\nLIMIT: int = 3\nWORDS = "a b".split()\n\ndef helper(x):\n    return x\n\nasync def main():\n    return helper(LIMIT)\n',
        '"""It."""\nimport json\nLIMIT: int = 3\nWORDS = "a b".split()\n\ndef helper(x):\n    return x\n\nasync def main():\n    return helper(LIMIT)\nreturn await main()',
    ),
    "main with the tools": (
        "def main(tools, limit=3):\n    return 1",
        "def main(tools, limit=3):\n    return 1\nreturn main(tools)",
    ),
    "the only function": (
        "class A:\n    def f(self):\n        return go()\n\nasync def go():\n    print(1)",
        "class A:\n    def f(self):\n        return go()\n\nasync def go():\n    print(1)\nawait go()",
    ),
    "fenced": (
        "```python\ndef go():\n    return 1\n```",
        "\ndef go():\n    return 1\nreturn go()",
    ),
}


@pytest.mark.parametrize(("text", "expected"), PYTHON.values(), ids=PYTHON)
def test_a_python_function_is_called(text: str, expected: str) -> None:
    assert normalize_program(text, "python") == expected


@pytest.mark.parametrize(
    "text",
    [
        "return 1",
        "def main(:\n    return 1",
        "def main():\n    return 1\nreturn main()",
        "def main():\n    return 1\nprint(main())",
        "def a():\n    return 1\ndef b():\n    return 2",
        "def main():\n    return 1\ndef main():\n    return 2",
        "def main(x):\n    return 1",
        "def main(*, x):\n    return 1",
        "def main():\n    yield 1",
        "async def main():\n    yield 1",
        "@once\ndef main():\n    return 1",
        "def main():\n    return 1\nX = main()",
        "def main():\n    return 1\nX = await tools.a({})",
        "def main():\n    return 1\nX = tools",
        "def main():\n    return 1\nclass A:\n    x = main()",
        "def main():\n    return 1\nfor x in y:\n    pass",
        "asyncio.run(main(), debug=True)",
        "asyncio.run()",
        "asyncio.run(*all)",
        "anyio.run(*all)",
        "asyncio.run((main()))",
        "x = asyncio.run(main())",
        "asyncio.run(main())\nprint(1)",
        "subprocess.run(x)",
        "if __name__ == '__main__':\n    asyncio.run(main())\nelse:\n    pass",
        "if __name__ == 'other':\n    asyncio.run(main())",
        "X = 1\nclass A: pass",
        "def main(): \0",
        "def main(): '\ud800'",
        "def main(): return " + "(" * 5_000,
    ],
)
def test_another_python_program_stays(text: str) -> None:
    assert normalize_program(text, "python") == text


@pytest.mark.filterwarnings("error")
def test_a_python_program_with_odd_escapes_is_read() -> None:
    assert normalize_program("def f(): return '\\d'", "python").endswith("\nreturn f()")


# Everything else


def test_programs_of_the_repository_stay() -> None:
    programs = [
        (language, program)
        for scenario in read_scenarios()
        for language, program in scenario.programs.items()
    ]
    programs += [("typescript", path.read_text()) for path in (ROOT / "examples").glob("*.ts")]
    programs.append(("python", (ROOT / "examples/rain.py").read_text()))
    vectors = "\n".join(path.read_text() for path in (ROOT / "tests/vectors").glob("*/*.json"))
    # One that begins with white space is no program of Python, and loses it.
    strings = [text for text in re.findall(r'"((?:[^"\\]|\\.)*)"', vectors) if text[:1] != " "]
    programs += [(language, text) for text in set(strings) for language in LANGUAGES]
    assert len(programs) > 2_000
    for language, program in programs:
        assert normalize_program(program, language) == program


PIECES = st.lists(
    st.sampled_from(
        [
            *("export ", "default ", "async ", "function ", "main", "x", "tools", "é", "\u2028"),
            *(
                "(",
                ")",
                "()",
                "{",
                "}",
                "{}",
                "[",
                "]",
                "=>",
                "() => ",
                ":",
                ";",
                ",",
                ".",
                "=",
                "#",
            ),
            *(
                "`",
                "${",
                "'",
                '"',
                "/",
                "//",
                "/*",
                "*/",
                "\\",
                "\n",
                "\n    ",
                " ",
                "\ud800",
                "\0",
            ),
            *(
                "def main():",
                "return 1",
                "x = 1",
                "class A:",
                "asyncio.run(main())",
                "anyio.run(",
                "1",
            ),
            *("if __name__ == '__main__':", "```", "~~~", "export default function main() {}\n"),
        ]
    ),
    max_size=30,
).map("".join)


@given(PIECES, st.sampled_from(LANGUAGES))
@example("/" + "*" * 5, "typescript")
def test_a_program_that_goes_on_behind_a_function_stays(text: str, language: str) -> None:
    """Whatever stands before, a program that ends in another statement has no form of these."""
    program = (
        text + {"typescript": "\n;last(1, 2);\n;done()", "python": "\n\nlast(1, 2)\n"}[language]
    )
    assert normalize_program(program, language) == program


@given(PIECES, st.sampled_from(LANGUAGES))
def test_lines_keep_their_numbers(text: str, language: str) -> None:
    if "```" in text or "~~~" in text:
        return
    changed = normalize_program(text, language)
    before, after = text.split("\n"), changed.split("\n")
    assert len(before) <= len(after) <= len(before) + 1
    if language == "typescript":
        assert len(after) == len(before)


@pytest.mark.parametrize(
    "text",
    [
        "(" * 200_000 + ")" * 200_000,
        "`${" * 100_000 + "}`" * 100_000,
        "async () => " * 50_000 + "1",
        "export default " + "{}" * 100_000,
        "/*" * 100_000 + "=>",
        "a / " * 100_000 + "=>",
        "function f() " + "{" * 100_000 + "}" * 100_000,
    ],
    ids=["brackets", "templates", "arrows", "exports", "comments", "slashes", "blocks"],
)
def test_large_programs_are_read(text: str) -> None:
    changed = normalize_program(text, "typescript")
    assert changed.count("\n") == 0


# Real runs


@pytest.fixture(scope="module")
async def runtimes(
    anyio_backend: str, module_leaves_nothing: None
) -> AsyncIterator[Mapping[str, CodeRuntime]]:
    """A runtime for each language."""
    async with AsyncExitStack() as stack:
        opened: dict[str, CodeRuntime] = {}
        for provider in (WorkerThreadCodeRuntime, PythonCodeRuntime):
            ctx = await stack.enter_async_context(Context())
            await ctx.plugin(provider)
            opened[ctx.codeRuntime.language] = ctx.codeRuntime
        yield opened


def request(program: str, language: str) -> CodeRunRequest:
    functions = {"double": lambda args: 2 * args["x"]}
    errors = CodeBindingErrorClass("ToolCallError", "toolName")
    return CodeRunRequest(
        normalize_program(program, language), [CodeBindingNamespace("tools", functions, errors)]
    )


RUNS: Mapping[str, tuple[str, str]] = {
    "typescript exported declaration": (
        "typescript",
        "type T = any;\nexport default async function main({ tools }: { tools: T }): Promise<{ v: number }> {\n  const v: number = await tools.double({ x: 4 });\n  BODY\n  return { v };\n}\n// end",
    ),
    "typescript exported arrow": (
        "typescript",
        "const x: number = 4;\nexport default async (t: any): Promise<object> => {\n  const v = await t.double({ x });\n  BODY\n  return { v };\n};\n",
    ),
    "typescript arrow": (
        "typescript",
        "// one\nasync () => {\n  const v = await tools.double({ x: 4 });\n  BODY\n  return { v };\n}",
    ),
    "typescript arrow with a wrong key": (
        "typescript",
        "async ({ double }) => {\n  const v = await double({ x: 4 });\n  void 0;\n  BODY\n  return { v };\n};",
    ),
    "typescript function in brackets": (
        "typescript",
        "(async function (tools: any) {\n  const v = await tools.double({ x: 4 });\n\n  BODY\n  return { v };\n});",
    ),
    "typescript declaration": (
        "typescript",
        "async function main() {\n  const v = await tools.double({ x: 4 });\n\n  BODY\n  return { v };\n}",
    ),
    "typescript fence": (
        "typescript",
        "```typescript\nconst v = await tools.double({ x: 4 });\n\nBODY\nreturn { v };\n```",
    ),
    "typescript fenced export": (
        "typescript",
        "```ts\nexport default async () => {\n  const v = await tools.double({ x: 4 });\n  BODY\n  return { v };\n}\n```\n",
    ),
    "python asyncio.run": (
        "python",
        "import asyncio\nasync def main():\n    v = await tools.double({'x': 4})\n    BODY\n    return {'v': v}\nasyncio.run(main())",
    ),
    "python guard": (
        "python",
        "async def main():\n    v = await tools.double({'x': 4})\n    pass\n    BODY\n    return {'v': v}\nif __name__ == '__main__':\n    import asyncio\n    asyncio.run(\n        main(),\n    )",
    ),
    "python anyio.run": (
        "python",
        "async def main(x):\n    v = await tools.double({'x': x})\n\n    BODY\n    return {'v': v}\nanyio.run(main, 4)",
    ),
    "python main": (
        "python",
        "X = 4\nasync def main():\n    v = await tools.double({'x': X})\n    BODY\n    return {'v': v}",
    ),
    "python the only function": (
        "python",
        "async def go(tools):\n    v = await tools.double({'x': 4})\n\n    BODY\n    return {'v': v}\n\n",
    ),
    "python fence": (
        "python",
        "~~~python\nv = await tools.double({'x': 4})\n\nBODY\nreturn {'v': v}\n~~~",
    ),
}
BODIES = {
    "typescript": ("", 'throw new Error("broken");', r"program\.ts:(\d+)"),
    "python": ("pass", "raise ValueError('broken')", r"line (\d+)"),
}


@pytest.mark.anyio
@pytest.mark.parametrize(("language", "program"), RUNS.values(), ids=RUNS)
async def test_a_program_in_another_form_gives_its_value(
    runtimes: Mapping[str, CodeRuntime], language: str, program: str
) -> None:
    good, _, _ = BODIES[language]
    result = await runtimes[language].run(request(program.replace("BODY", good), language))
    assert result.error is None
    assert result.value == {"v": 8}


@pytest.mark.anyio
@pytest.mark.parametrize(("language", "program"), RUNS.values(), ids=RUNS)
async def test_a_failure_is_on_the_line_of_the_given_text(
    runtimes: Mapping[str, CodeRuntime], language: str, program: str
) -> None:
    _, bad, place = BODIES[language]
    result = await runtimes[language].run(request(program.replace("BODY", bad), language))
    assert result.error is not None
    assert "broken" in result.error.message
    assert re.search(r"^\s*BODY", program, re.MULTILINE)
    lines = [int(number) for number in re.findall(place, result.error.message)]
    assert (
        program.split("\n").index(next(x for x in program.split("\n") if "BODY" in x)) + 1 in lines
    )


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("language", "program"),
    [
        ("typescript", "async () => { console.log(1); }"),
        ("python", "async def main():\n    print(1)\nasyncio.run(main())"),
        ("python", "def main():\n    print(1)\n"),
    ],
)
async def test_a_function_that_returns_nothing_gives_no_value(
    runtimes: Mapping[str, CodeRuntime], language: str, program: str
) -> None:
    result = await runtimes[language].run(request(program, language))
    assert (result.error, result.has_value, result.logs) == (None, False, ["1"])
