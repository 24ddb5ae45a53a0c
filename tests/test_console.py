"""The `console` of a program, and the real one behind it: one entry for each call."""

from __future__ import annotations

import pytest
from run_requests import Run

pytestmark = pytest.mark.anyio

X = "x" * 10_000


async def test_the_console_has_five_own_methods_and_no_prototype(run: Run) -> None:
    """WT-040."""
    result = await run(
        "return [Object.getPrototypeOf(console), Reflect.ownKeys(console), "
        "Object.values(console).map((method: any) => typeof method), console === globalThis.console]"
    )
    names = ["log", "info", "warn", "error", "debug"]
    assert result.value == [None, names, ["function"] * 5, False]


@pytest.mark.parametrize("name", ["table", "trace", "time", "assert", "dir", "toString"])
async def test_another_method_is_a_type_error(run: Run, name: str) -> None:
    """WT-040."""
    result = await run(f"console.log('before'); (console as any).{name}(1)")
    assert result.error is not None
    assert (result.logs, result.error.kind, result.error.message) == (
        ["before"],
        "exception",
        f"TypeError: console.{name} is not a function\n"
        f"  1 | console.log('before'); (console as any).{name}(1)\n"
        f"    | {' ' * 40}^\n"
        "    at program.ts:1:41",
    )


@pytest.mark.parametrize(
    ("calls", "logs"),
    [
        pytest.param(
            "console.log('a', 1, 'b'); console.info('c'); console.warn('d'); console.error('e'); "
            "console.debug('f')",
            ["a 1 b", "c", "d", "e", "f"],
            id="WT-041 each method, joined by one space",
        ),
        pytest.param(
            "const { log } = console; log('x'); [7, 8].forEach(console.log)",
            ["x", "7 0 [ 7, 8 ]", "8 1 [ 7, 8 ]"],
            id="WT-041 without a receiver",
        ),
        pytest.param(
            "console.log(); console.log(''); console.log('', ''); console.log(' '); console.log()",
            ["", "", " ", " ", ""],
            id="WT-042 empty entries",
        ),
        pytest.param(
            "console.log('%s and %d %% %o %c', 'x', 1, {}, 'css')",
            ["%s and %d %% %o %c x 1 {} css"],
            id="WT-043 no format directives",
        ),
        pytest.param(
            "console.log('a\\nb\\r\\nc\\n'); console.log('\\n')",
            ["a\nb\r\nc\n", "\n"],
            id="WT-044 line ends stay inside",
        ),
        pytest.param(
            "console.log('\\0\\x1b[31m\\ud800 \U0001f600\\u2028')",
            ["\0\x1b[31m\ud800 \U0001f600\u2028"],
            id="WT-041 any text unchanged",
        ),
        pytest.param(
            "console.log({ a: { b: { c: { d: { e: { f: 1 } } } } } })",
            ["{\n  a: {\n    b: { c: { d: { e: [Object] } } }\n  }\n}"],
            id="WT-045 depth",
        ),
        pytest.param(
            "console.log(Array(101).fill('').length, Array.from('x'.repeat(101)).map(() => 0))",
            ["101 [\n" + ("  " + "0, " * 11 + "0,\n") * 8 + "  0, 0, 0, 0,\n  ... 1 more item\n]"],
            id="WT-045 array items",
        ),
        pytest.param(
            "console.log(['x'.repeat(10_001)])",
            [f"[\n  '{X}'... 1 more character\n]"],
            id="WT-045 string inside",
        ),
        pytest.param(
            "console.log('x'.repeat(10_000) + '\\u20ac'.repeat(90_000))",
            [X + "€" * 90_000],
            id="WT-045 string argument is whole",
        ),
        pytest.param(
            "console.log({ x: 1, y: 2 }, [1,,3], new Map([[1, { a: 2 }]]), new Set([1]), -0, 5n)",
            ["{ x: 1, y: 2 } [ 1, <1 empty item>, 3 ] Map(1) { 1 => { a: 2 } } Set(1) { 1 } -0 5n"],
            id="WT-046 containers and numbers",
        ),
        pytest.param(
            "console.log(Symbol('s'), function foo() {}, () => {}, class Bar {}, "
            "class Baz extends Array {}, async function* g() {})",
            [
                "Symbol(s) [Function: foo] [Function (anonymous)] [class Bar] "
                "[class Baz extends Array] [AsyncGeneratorFunction: g]"
            ],
            id="WT-046 functions and classes",
        ),
        pytest.param(
            "console.log(new Date(0), null, undefined, true, /re/g, NaN, ['s'], Object.create(null), "
            "new (class Foo { a = 1 })(), new Uint8Array(2), Buffer.from('hi'), Promise.resolve(4))",
            [
                "1970-01-01T00:00:00.000Z null undefined true /re/g NaN [ 's' ] "
                "[Object: null prototype] {} Foo { a: 1 } Uint8Array(2) [ 0, 0 ] <Buffer 68 69> "
                "Promise { 4 }"
            ],
            id="WT-046 objects",
        ),
        pytest.param(
            "const o: any = { get a() { throw 1 }, toString() { throw 2 } }; o.o = o; console.log(o)",
            [
                "<ref *1> {\n  a: [Getter],\n  toString: [Function: toString],\n  o: [Circular *1]\n}"
            ],
            id="WT-046 getters and cycles",
        ),
        pytest.param(
            "console.log(tools, ToolCallError)",
            ["[Object: null prototype] { f: [Function: f] } [class ToolCallError extends Error]"],
            id="WT-046 bindings",
        ),
    ],
)
async def test_each_call_is_one_entry(run: Run, calls: str, logs: list[str]) -> None:
    """WT-041 to WT-046."""
    result = await run(calls, {"f": lambda _: 1})
    assert (result.logs, result.error) == (logs, None)


@pytest.mark.parametrize(
    ("program", "log"),
    [
        pytest.param(
            "type A = number\nconsole.log(new Error('boom'))",
            "Error: boom\n    at program.ts:2:13",
            id="erased",
        ),
        pytest.param(
            "enum E { A }\n  console.log(new Error('boom'))",
            "Error: boom\n    at program.ts:2:15",
            id="transformed",
        ),
        pytest.param(
            "console.log({ e: new TypeError('in') })",
            "{\n  e: TypeError: in\n      at program.ts:1:18\n}",
            id="inside",
        ),
        pytest.param(
            "console.log(new Error('outer', { cause: new Error('inner') }))",
            "Error: outer\n    at program.ts:1:13 {\n"
            "  [cause]: Error: inner\n      at program.ts:1:41\n}",
            id="cause",
        ),
        pytest.param(
            "console.log(new AggregateError([new Error('a')], 'all'))",
            "AggregateError: all\n    at program.ts:1:13 {\n"
            "  [errors]: [\n    Error: a\n        at program.ts:1:33\n  ]\n}",
            id="aggregate",
        ),
        pytest.param(
            "import fs from 'node:fs'\ntry { fs.readFileSync('/nope') } catch (e) { console.log(e) }",
            "Error: ENOENT: no such file or directory, open '/nope'\n    at program.ts:2:10 {\n"
            "  errno: -2,\n  code: 'ENOENT',\n  syscall: 'open',\n  path: '/nope'\n}",
            id="from a module",
        ),
        pytest.param(
            "try { await tools.f(1) } catch (e) { console.log(e) }",
            "ToolCallError: no row\n    at program.ts:1:19 {\n  toolName: 'f'\n}",
            id="from a binding",
        ),
    ],
)
async def test_a_logged_error_shows_frames_of_the_program_only(
    run: Run, program: str, log: str
) -> None:
    """WT-047: better than upstream, which shows frames and paths of the host."""

    def fail(_: object) -> None:
        raise LookupError("no row")

    result = await run(program, {"f": fail})
    assert (result.logs, result.error) == ([log], None)


async def test_a_throwing_inspect_method_reaches_the_program(run: Run) -> None:
    """WT-048: at the call site, and nothing else is broken."""
    program = """
const custom = Symbol.for("nodejs.util.inspect.custom")
try { console.log({ [custom]() { throw new Error("caught") } }) } catch (e: any) { console.log(e.message) }
console.log({ [custom]: () => "shown" })
console.log({ [custom]() { throw new RangeError("loose") } })
"""
    result = await run(program)
    assert result.error is not None
    assert (result.logs, result.error.kind, result.error.message) == (
        ["caught", "shown"],
        "exception",
        "RangeError: loose\n"
        '  5 | console.log({ [custom]() { throw new RangeError("loose") } })\n'
        f"    | {' ' * 33}^\n"
        "    at [nodejs.util.inspect.custom] (program.ts:5:34)\n"
        "    at program.ts:5:9",
    )


async def test_a_hostile_proxy_is_shown_without_its_traps(run: Run) -> None:
    """WT-048."""
    result = await run(
        """
        let traps = 0
        const handler: any = new Proxy({}, { get: () => () => { traps++; throw new Error("trap") } })
        const { proxy, revoke } = Proxy.revocable({}, {})
        revoke()
        console.log(new Proxy({ a: 1 }, handler), [new Proxy([1], handler)], proxy)
        return traps
        """
    )
    assert (result.logs, result.value) == (["{ a: 1 } [ [ 1 ] ] <Revoked Proxy>"], 0)


async def test_the_real_console_is_a_write_to_a_stream(run: Run) -> None:
    """WT-049: with its line end, in its place among the other entries."""
    result = await run(
        """
        const real = globalThis.console
        real.log("a", { b: 1 }); console.log("own"); real.error("%s!", "c"); real.group("g")
        real.log("d\\ne"); real.groupEnd(); real.table([{ f: 1 }]); real.log()
        """
    )
    assert result.logs == [
        "a { b: 1 }\n",
        "own",
        "c!\n",
        "g\n",
        "  d\n  e\n",
        "┌─────────┬───┐\n│ (index) │ f │\n├─────────┼───┤\n│ 0       │ 1 │\n└─────────┴───┘\n",
        "\n",
    ]


async def test_replaced_intrinsics_do_not_reach_the_console(run: Run) -> None:
    """WT-041, GP-008: entries are whole whatever a program does to the language."""
    result = await run(
        """
        const fail = () => { throw new Error("hijacked") }
        for (const prototype of [String.prototype, Array.prototype, Object.prototype, Function.prototype]) {
          for (const name of Object.getOwnPropertyNames(prototype)) {
            if (name !== "constructor" && typeof Object.getOwnPropertyDescriptor(prototype, name)?.value === "function")
              Object.defineProperty(prototype, name, { value: fail })
          }
        }
        console.log("text", 1, "more")
        """
    )
    assert result.logs == ["text 1 more"]
