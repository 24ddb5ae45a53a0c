"""Which values cross between a program and Python, as completion, argument and resolution."""

from __future__ import annotations

import datetime
import decimal
import json
import math
import time
from collections import OrderedDict
from pathlib import Path
from typing import Any, cast

import pytest
from run_requests import Run

from code_runtime import CodeRunResult

pytestmark = pytest.mark.anyio

VECTORS = Path(__file__).parents[3] / "tests/vectors/json"

PLAIN = "plain objects, arrays, strings, finite numbers, booleans or null"
NUMBER = "null or a finite number"
EMPTY = "null, or no such member"


def failure(result: CodeRunResult) -> tuple[str, str]:
    assert result.error is not None, result
    assert not result.has_value
    return result.error.kind, result.error.message


async def cross(run: Run, expression: str) -> tuple[object, object]:
    """Send a value as an argument and back as resolution and completion; return what Python saw."""
    seen: list[object] = []

    def echo(value: object) -> object:
        seen.append(value)
        return value

    result = await run(f"const v: any = {expression};\nreturn await tools.echo(v)", {"echo": echo})
    assert result.error is None, result
    assert result.has_value
    (argument,) = seen
    return argument, result.value


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        pytest.param("null", None, id="null"),
        pytest.param("true", True, id="true"),
        pytest.param("false", False, id="false"),
        pytest.param("0", 0, id="zero"),
        pytest.param("1.5", 1.5, id="fraction"),
        pytest.param("-1e-7", -1e-7, id="small"),
        pytest.param("Number.MAX_VALUE", int(1.7976931348623157e308), id="WT-116 largest double"),
        pytest.param("Number.MIN_VALUE", 5e-324, id="smallest double"),
        pytest.param("2 ** 53", 2**53, id="WT-116 2^53"),
        pytest.param("2 ** 53 + 1", 2**53, id="WT-116 2^53 + 1 is 2^53 before it is sent"),
        pytest.param("-(2 ** 64)", -(2**64), id="WT-116 beyond 64 bits"),
        pytest.param("1e21", 10**21, id="WT-116 1e21"),
        pytest.param("1e23", int(1e23), id="WT-116 1e23 is the double, not ten to the 23rd"),
        pytest.param("1.0", 1, id="an integral number is an int"),
        pytest.param("''", "", id="empty string"),
        pytest.param("'a\\0b\\u2028\\x7f'", "a\0b\u2028\x7f", id="WT-096 NUL"),
        pytest.param("'😀é€'", "😀é€", id="characters of 4, 2 and 3 bytes"),
        pytest.param("'\\ud83d'", "\ud83d", id="WT-096 lone high surrogate"),
        pytest.param("'x\\ude00\\ud83dy'", "x\ude00\ud83dy", id="WT-096 surrogates, wrong order"),
        pytest.param(
            "({'\\ud800': '\\udfff'})", {"\ud800": "\udfff"}, id="WT-096 surrogate as key"
        ),
        pytest.param("({'': 1, '\\0': 2})", {"": 1, "\0": 2}, id="WT-096 empty key and NUL key"),
        pytest.param("[]", [], id="empty array"),
        pytest.param("({})", {}, id="empty object"),
        pytest.param("Object.create(null)", {}, id="WT-096 null prototype, empty"),
        pytest.param(
            "Object.assign(Object.create(null), {a: [1]})", {"a": [1]}, id="WT-096 null prototype"
        ),
        pytest.param("(x => [x, {x}])([1])", [[1], {"x": [1]}], id="WT-102 shared, no cycle"),
        pytest.param("({toJSON: 1})", {"toJSON": 1}, id="WT-103 toJSON as data"),
        pytest.param("({get a() { return [1] }})", {"a": [1]}, id="WT-104 getter"),
        pytest.param("new Proxy({a: 1}, {})", {"a": 1}, id="WT-106 proxy of an object"),
        pytest.param("new Proxy([1, 2], {})", [1, 2], id="WT-106 proxy of an array"),
        pytest.param(
            "new Proxy({a: 1}, {get: (o, k) => k === 'a' ? 'trapped' : o[k]})",
            {"a": "trapped"},
            id="WT-106 through its traps",
        ),
        pytest.param(
            "(await import('node:vm')).runInNewContext('[{a: [1]}, [], {}]')",
            [{"a": [1]}, [], {}],
            id="WT-107 other realm",
        ),
        pytest.param(
            "({['__proto__']: {a: 1}})", {"__proto__": {"a": 1}}, id="WT-108 own key __proto__"
        ),
        pytest.param(
            'JSON.parse(\'{"__proto__": null, "constructor": 2}\')',
            {"__proto__": None, "constructor": 2},
            id="WT-108 parsed __proto__",
        ),
        pytest.param(
            "({b: 1, a: 2, 10: 3, 2: 4})",
            {"2": 4, "10": 3, "b": 1, "a": 2},
            id="WT-109 order of keys",
        ),
        pytest.param("Object.freeze([Object.freeze({a: 1})])", [{"a": 1}], id="WT-109 frozen"),
        pytest.param("Object.seal({a: 1})", {"a": 1}, id="sealed"),
    ],
)
async def test_a_plain_value_crosses_in_every_place(
    run: Run, expression: str, value: object
) -> None:
    """WT-096, SC-029: argument, resolution and completion; types and order of keys included."""
    assert [repr(each) for each in await cross(run, expression)] == [repr(value)] * 2


async def test_the_shared_values_cross(run: Run) -> None:
    """WT-096, WT-066: each vector's canonical text, there and back."""
    cases = [
        case["canonical"]
        for name in ("values.json", "numbers.json")
        for case in json.loads((VECTORS / name).read_text("utf-8"))["cases"]
    ]
    texts = json.dumps(cases)
    argument, value = await cross(run, f"{texts}.map((t: string) => JSON.parse(t))")
    assert isinstance(argument, list)
    assert [repr(item) for item in argument] == [repr(json.loads(text)) for text in cases]
    assert repr(argument) == repr(value)


async def test_the_program_gets_plain_copies(run: Run) -> None:
    """WT-096, WT-108: prototypes, attributes and the key `__proto__` of a resolution."""
    sent = {"__proto__": {"x": 1}, "list": [1], "constructor": "c"}
    result = await run(
        """
        const v = await tools.get(0);
        const d = Object.getOwnPropertyDescriptor(v, "list");
        v.list.push(2); v.more = true;
        return [Object.getPrototypeOf(v) === Object.prototype, Array.isArray(v.list),
          Object.getPrototypeOf(v.list) === Array.prototype, d.writable, d.enumerable, d.configurable,
          Object.keys(v), v.x === undefined, v["__proto__"].x, v.list]
        """,
        {"get": lambda _: sent},
    )
    assert result.value == [
        *(True, True, True, True, True, True),
        ["__proto__", "list", "constructor", "more"],
        *(True, 1, [1, 2]),
    ]
    assert sent == {"__proto__": {"x": 1}, "list": [1], "constructor": "c"}


REFUSED = [
    pytest.param("-0", "$: -0 is not JSON", "0 (write x + 0)", id="WT-097 -0"),
    pytest.param("NaN", "$: NaN is not JSON", NUMBER, id="WT-097 NaN"),
    pytest.param("Infinity", "$: Infinity is not JSON", NUMBER, id="WT-097 Infinity"),
    pytest.param("-Infinity", "$: -Infinity is not JSON", NUMBER, id="WT-097 -Infinity"),
    pytest.param("10n", "$: BigInt is not JSON", "Number(x) or String(x)", id="WT-097 BigInt"),
    pytest.param("Symbol('s')", "$: symbol is not JSON", PLAIN, id="WT-097 symbol"),
    pytest.param("(() => 1)", "$: function is not JSON", "a value", id="WT-097 function"),
    pytest.param(
        "Object.assign(() => 1, {a: 1})",
        "$: function is not JSON",
        "a value",
        id="WT-097 function with properties",
    ),
    pytest.param("[undefined]", "$[0]: undefined is not JSON", EMPTY, id="WT-097 undefined item"),
    pytest.param("({a: undefined})", "$.a: undefined is not JSON", EMPTY, id="WT-097 member"),
    pytest.param("new Date(0)", "$: Date is not JSON", "date.toISOString()", id="WT-099 Date"),
    pytest.param("/a/g", "$: RegExp is not JSON", "regexp.source", id="WT-099 RegExp"),
    pytest.param(
        "new Map([[1, 2]])", "$: Map is not JSON", "Object.fromEntries(map)", id="WT-099 Map"
    ),
    pytest.param("new Set([1])", "$: Set is not JSON", "[...set]", id="WT-099 Set"),
    pytest.param("new WeakMap()", "$: WeakMap is not JSON", PLAIN, id="WT-099 WeakMap"),
    pytest.param("new Uint8Array(2)", "$: Uint8Array is not JSON", PLAIN, id="WT-099 typed array"),
    pytest.param("new ArrayBuffer(2)", "$: ArrayBuffer is not JSON", PLAIN, id="WT-099 buffer"),
    pytest.param("Buffer.from('a')", "$: Uint8Array is not JSON", PLAIN, id="WT-099 Buffer"),
    pytest.param("new Error('x')", "$: Error is not JSON", "error.message", id="WT-099 Error"),
    pytest.param("new Number(1)", "$: Number is not JSON", PLAIN, id="WT-099 boxed number"),
    pytest.param("new String('a')", "$: String is not JSON", PLAIN, id="WT-099 boxed string"),
    pytest.param("new Boolean(false)", "$: Boolean is not JSON", PLAIN, id="WT-099 boxed boolean"),
    pytest.param(
        "Object(1n)", "$: BigInt is not JSON", "Number(x) or String(x)", id="WT-099 boxed BigInt"
    ),
    pytest.param("new URL('http://a/')", "$: URL is not JSON", "url.href", id="WT-099 URL"),
    pytest.param("[1].values()", "$: Array Iterator is not JSON", PLAIN, id="WT-099 iterator"),
    pytest.param(
        "new (class P { x = 1 })",
        "$: an instance of class P is not JSON",
        PLAIN,
        id="WT-099 class instance",
    ),
    pytest.param(
        "new (class extends Object {})",
        "$: an instance of a class is not JSON",
        PLAIN,
        id="WT-099 subclass of Object",
    ),
    pytest.param("Math", "$: Math is not JSON", PLAIN, id="WT-099 Math"),
    pytest.param("JSON", "$: JSON is not JSON", PLAIN, id="WT-099 JSON"),
    pytest.param("globalThis", "$: global is not JSON", PLAIN, id="WT-099 globalThis"),
    pytest.param(
        "(function () { return arguments })()",
        "$: Arguments is not JSON",
        PLAIN,
        id="WT-099 arguments",
    ),
    pytest.param("[, 1]", "$: an array with holes is not JSON", PLAIN, id="WT-100 hole"),
    pytest.param("Array(2)", "$: an array with holes is not JSON", PLAIN, id="WT-100 sparse"),
    pytest.param(
        "Object.assign([1], {x: 1})",
        "$: an array with extra properties is not JSON",
        PLAIN,
        id="WT-100 extra property",
    ),
    pytest.param(
        "Object.defineProperty([1], 'x', {value: 1})",
        "$: an array with extra properties is not JSON",
        PLAIN,
        id="WT-100 hidden property",
    ),
    pytest.param(
        "Object.assign([1], {[Symbol()]: 1})",
        "$: an array with extra properties is not JSON",
        PLAIN,
        id="WT-100 symbol property",
    ),
    pytest.param(
        "Object.assign([, 1], {x: 1})",
        "$: an array with holes is not JSON",
        PLAIN,
        id="WT-100 hole made up for",
    ),
    pytest.param(
        "new (class A extends Array {})",
        "$: an array with a prototype of its own is not JSON",
        PLAIN,
        id="WT-100 subclass",
    ),
    pytest.param(
        "Object.setPrototypeOf([1], null)",
        "$: an array with a prototype of its own is not JSON",
        PLAIN,
        id="WT-100 no prototype",
    ),
    pytest.param(
        "Object.setPrototypeOf([1], Object.create(Array.prototype))",
        "$: an array with a prototype of its own is not JSON",
        PLAIN,
        id="WT-100 forged chain",
    ),
    pytest.param(
        "Object.defineProperty({}, 'x', {value: 1})",
        "$: an object with hidden or symbol keys is not JSON",
        PLAIN,
        id="WT-101 hidden property",
    ),
    pytest.param(
        "({[Symbol()]: 1})",
        "$: an object with hidden or symbol keys is not JSON",
        PLAIN,
        id="WT-101 symbol key",
    ),
    pytest.param(
        "Object.create({a: 1})",
        "$: an object with a prototype of its own is not JSON",
        PLAIN,
        id="WT-101 other prototype",
    ),
    pytest.param(
        "Object.create(Object.create(null))",
        "$: an object with a prototype of its own is not JSON",
        PLAIN,
        id="WT-101 null-prototype object as prototype",
    ),
    pytest.param(
        "(() => { const a = []; a[0] = a; return a })()",
        "$[0]: a cycle is not JSON",
        PLAIN,
        id="WT-102 cycle",
    ),
    pytest.param(
        "(() => { const a = {}; a.b = {c: [a]}; return a })()",
        "$.b.c[0]: a cycle is not JSON",
        PLAIN,
        id="WT-102 long cycle",
    ),
    pytest.param(
        "({toJSON() { return 1 }})", "$.toJSON: function is not JSON", "a value", id="WT-103 toJSON"
    ),
    pytest.param(
        "({get a() { throw 1 }})",
        "$.a: reading it threw an error",
        "a value that can be read",
        id="WT-104 getter that throws",
    ),
    pytest.param(
        "(() => { const a = [1, 2]; Object.defineProperty(a, 0, {enumerable: true, "
        "configurable: true, get() { a.length = 1; return 1 }}); return a })()",
        "$[1]: undefined is not JSON",
        EMPTY,
        id="WT-105 array that shrinks while it is read",
    ),
    pytest.param(
        "new Proxy({}, {ownKeys() { throw 1 }})",
        "$: reading it threw an error",
        "a value that can be read",
        id="WT-106 proxy that throws",
    ),
    pytest.param(
        "(() => { function Object() {} const p = {constructor: Object}; Object.prototype = p; "
        "return globalThis.Object.create(p) })()",
        "$: an instance of class Object is not JSON",
        PLAIN,
        id="WT-107 forged Object",
    ),
    pytest.param(
        "(() => { function Array() {} const p = []; "
        "globalThis.Object.defineProperty(p, 'constructor', {value: Array}); Array.prototype = p; "
        "return globalThis.Object.setPrototypeOf([1], p) })()",
        "$: an array with a prototype of its own is not JSON",
        PLAIN,
        id="WT-107 forged Array",
    ),
    pytest.param(
        "(() => { Function.prototype.toString = () => 'function Object() { [native code] }'; "
        "function F() {} const p = {constructor: F}; F.prototype = p; return Object.create(p) })()",
        "$: an instance of class F is not JSON",
        PLAIN,
        id="WT-107 forged function text",
    ),
    pytest.param(
        "(() => { const {proxy, revoke} = Proxy.revocable(function () {}, {}); "
        "const p = {constructor: proxy}; revoke(); return Object.create(p) })()",
        "$: reading it threw an error",
        "a value that can be read",
        id="WT-107 revoked constructor",
    ),
    pytest.param(
        "({items: [0, 1, {when: new Date(0)}]})",
        "$.items[2].when: Date is not JSON",
        "date.toISOString()",
        id="path",
    ),
    pytest.param(
        "({'a b': {'': {é: NaN}}})",
        '$["a b"][""]["é"]: NaN is not JSON',
        NUMBER,
        id="path of odd keys",
    ),
    pytest.param(
        "[Promise.resolve(1)]",
        "$[0]: a Promise that was not awaited",
        "a value: add await",
        id="promise",
    ),
    pytest.param(
        "({sum: tools.echo(1)})",
        "$.sum: a Promise (call of tools.echo was not awaited)",
        "a value: add await",
        id="promise of a call",
    ),
]


@pytest.mark.parametrize(("expression", "fault", "hint"), REFUSED)
async def test_a_lossy_value_is_refused_as_completion_and_as_argument(
    run: Run, expression: str, fault: str, hint: str
) -> None:
    """WT-097 to WT-107, WT-115, WT-122, SC-030, SC-042: the path, the fault and a way out.

    As an argument it never reaches Python, and the run goes on.
    """
    seen: list[object] = []

    def echo(value: object) -> object:
        seen.append(value)
        return value

    completion = await run(f"const v: any = {expression};\nreturn v", {"echo": lambda v: v})
    assert failure(completion) == (
        "invalid-output",
        f"The completion must be lossless JSON: {fault}, expected {hint}",
    )
    caught = await run(
        f"""
        const v: any = {expression};
        try {{ await tools.other(v) }} catch (e: any) {{ return [e instanceof ToolCallError, e.message] }}
        """,
        {"echo": lambda v: v, "other": echo},
    )
    text = f"Cannot call tools.other: the argument must be lossless JSON: {fault}, expected {hint}"
    assert (caught.value, caught.error, seen) == ([True, text], None, [])
    assert [call.member for call in caught.calls] == (["echo"] if "echo" in expression else [])


async def test_undefined_is_no_value_and_no_argument(run: Run) -> None:
    """WT-098, SC-035, SC-037, WT-121."""
    for program in ("", "return", "return undefined", "return void 0"):
        result = await run(program)
        assert (result.has_value, result.error, result.logs) == (False, None, [])
    null = await run("return null")
    assert (null.has_value, null.value, null.error) == (True, None, None)
    argument = await run(
        "try { await tools.echo(undefined) } catch (e: any) { return e.message }",
        {"echo": lambda v: v},
    )
    assert argument.value == (
        "Cannot call tools.echo: the argument must be lossless JSON: $: undefined is not JSON, "
        f"expected {EMPTY}"
    )


class Text(str):
    """A subclass of str."""


class Whole(int):
    """A subclass of int."""


def python_cycle() -> object:
    value: dict[str, object] = {}
    value["self"] = [value]
    return value


class Odd:
    """Of no type that JSON has."""


RESOLUTIONS: dict[str, tuple[object, str]] = {
    "WT-124 NaN": (math.nan, "$: non-finite float nan is not JSON"),
    "WT-124 infinity": ([math.inf], "$[0]: non-finite float inf is not JSON"),
    "minus zero": ({"a": -0.0}, "$.a: negative zero is not JSON"),
    "WT-124 function": (print, "$: builtin_function_or_method is not JSON"),
    "tuple": ((1, 2), "$: tuple is not JSON"),
    "set": ({1}, "$: set is not JSON"),
    "bytes": (b"a", "$: bytes is not JSON"),
    "datetime": (
        {"rows": [{"when": datetime.datetime(2026, 1, 1)}]},
        "$.rows[0].when: datetime is not JSON",
    ),
    "Decimal": (decimal.Decimal(1), "$: Decimal is not JSON"),
    "object": (Odd(), "$: Odd is not JSON"),
    "str subclass": (Text("a"), "$: Text is not JSON"),
    "int subclass": (Whole(1), "$: Whole is not JSON"),
    "OrderedDict": (OrderedDict(a=1), "$: OrderedDict is not JSON"),
    "inexact int": ([2**53 + 1], "$[0]: 9007199254740993 is not exactly representable as a double"),
    "huge int": (10**400, "$: integer of 1329 bits is not exactly representable as a double"),
    "int key": ({1: 2}, "$: non-string dict key of type int"),
    "cycle": (python_cycle(), "$.self[0]: circular reference"),
    "ten to the 23rd": (
        10**23,
        "$: 100000000000000000000000 is not exactly representable as a double",
    ),
}


async def test_a_lossy_resolution_rejects_its_call_only(run: Run) -> None:
    """WT-124, SC-030: the message has the path; the run goes on."""
    tools = {name: (lambda _, value=value: value) for name, (value, _) in RESOLUTIONS.items()}
    result = await run(
        """
        const out: any = {};
        for (const name of Object.keys(tools)) {
          try { out[name] = ["accepted", await tools[name](0)] }
          catch (e: any) { out[name] = e.toolName === name ? e.message : "wrong name" }
        }
        return out
        """,
        tools,
    )
    assert result.value == {
        name: f"Binding resolution must be lossless JSON: {text}"
        for name, (_, text) in RESOLUTIONS.items()
    }
    assert {call.outcome for call in result.calls} == {"error"}


async def test_exact_integers_cross_in_both_languages(run: Run) -> None:
    """WT-116: beyond 2^53 a Python int is taken only if a double holds it, digit by digit."""
    numbers = [2**53, -(2**53), 2**60, 2**64, 2**1023, 10**21, 10**22, int(1e23)]
    result = await run(
        "const n = await tools.get(0); return [n, n.map((x: number) => String(BigInt(x)))]",
        {"get": lambda _: numbers},
    )
    assert repr(result.value) == repr([numbers, [str(number) for number in numbers]])


async def test_lone_surrogates_cross_in_both_directions(run: Run) -> None:
    """WT-075, WT-096: as text and as keys, in logs, values, names and messages."""
    sent = {"\ud800": "a\udc00b", "k": "\ud83d\ude00"}  # the last is one character, spelled as two

    def check(value: object) -> object:
        assert value == "\udfff"
        raise ValueError("bad \ud801 text")

    result = await run(
        """
        const v = await tools["get\\ud800"](0);
        console.log("log \\udc00");
        let message = "";
        try { await tools.check("\\udfff") } catch (e: any) { message = e.message }
        return [v, v["\\ud800"].charCodeAt(1), v.k.length, message]
        """,
        {"get\ud800": lambda _: sent, "check": check},
    )
    assert result.logs == ["log \udc00"]
    assert result.value == [
        {"\ud800": "a\udc00b", "k": "\U0001f600"},
        0xDC00,
        2,
        "bad \ud801 text",
    ]


async def test_getters_are_read_once(run: Run) -> None:
    """WT-104."""
    result = await run(
        """
        let count = 0;
        const v = { get a() { return ++count } };
        const list: any[] = []; Object.defineProperty(list, 0, { enumerable: true, get() { return ++count } });
        return [await tools.echo(v), await tools.echo(list), count]
        """,
        {"echo": lambda value: value},
    )
    assert result.value == [{"a": 1}, [2], 2]


async def test_the_argument_is_a_copy_of_the_moment_of_the_call(run: Run) -> None:
    """WT-110, in both directions."""
    seen: list[Any] = []

    def keep(value: Any) -> object:  # plain: trio starts tasks in any order
        seen.append(value)
        if len(seen) == 2:
            seen[0]["a"].append("by Python")
        return value

    result = await run(
        """
        const v: any = { a: [1] };
        const first = tools.keep(v); v.a.push(2); const second = tools.keep(v); v.a = null;
        const [x, y] = await Promise.all([first, second]); x.a.push(3);
        return [x, y, v]
        """,
        {"keep": keep},
    )
    assert isinstance(result.value, list)
    assert result.value[1:] == [{"a": [1, 2]}, {"a": None}]
    assert seen[1] == {"a": [1, 2]}


def depth_of(value: object) -> int:
    depth = 0
    while value:
        value = value[0] if isinstance(value, list) else cast("dict[str, object]", value)["a"]
        depth += 1
    return depth


@pytest.mark.parametrize(
    ("depth", "wrap"),
    [
        pytest.param(3_000, "[v]", id="3,000 arrays"),
        pytest.param(100_000, "[v]", id="100,000 arrays"),
        pytest.param(100_000, "{a: v}", id="100,000 objects"),
    ],
)
async def test_any_depth_crosses(run: Run, depth: int, wrap: str) -> None:
    """WT-111, WT-077: as argument, resolution and completion."""
    argument, value = await cross(
        run,
        f"(() => {{ let v: any = []; for (let i = 0; i < {depth}; i++) v = {wrap}; return v }})()",
    )
    assert (depth_of(argument), depth_of(value)) == (depth, depth)


@pytest.mark.slow
@pytest.mark.timeout(180)
@pytest.mark.parametrize("anyio_backend", ["asyncio"], indirect=True)
async def test_a_million_levels_cross(run: Run) -> None:
    """WT-111: values do not depend on the event loop, so one is enough."""
    argument, value = await cross(
        run, "(() => { let v: any = []; for (let i = 0; i < 1e6; i++) v = {a: v}; return v })()"
    )
    assert (depth_of(argument), depth_of(value)) == (1_000_000, 1_000_000)


async def test_a_fault_deep_inside_is_found_and_its_path_is_short(run: Run) -> None:
    """WT-111, WT-115."""
    result = await run("let v: any = NaN; for (let i = 0; i < 100_000; i++) v = [v]; return v")
    kind, message = failure(result)
    assert kind == "invalid-output"
    start = "The completion must be lossless JSON: $" + "[0]" * 8 + "…"
    assert message == start + "[0]" * 40 + f": NaN is not JSON, expected {NUMBER}"

    def deep(_: object) -> object:
        value: object = math.nan
        for _index in range(100_000):
            value = [value]
        return value

    caught = await run(
        "try { await tools.deep(0) } catch (e: any) { return e.message }", {"deep": deep}
    )
    assert isinstance(caught.value, str)
    assert caught.value.startswith("Binding resolution must be lossless JSON: $[0][0]")
    assert len(caught.value) < 400


async def test_a_million_small_objects_take_seconds(run: Run) -> None:
    """WT-117, GP-011: 23 s upstream; the bound leaves room for a busy machine."""
    before_s = time.monotonic()
    result = await run("return Array.from({length: 1_000_000}, (_, i) => ({ id: i, ok: true }))")
    took_s = time.monotonic() - before_s
    assert isinstance(result.value, list)
    assert (len(result.value), result.value[999_999]) == (1_000_000, {"id": 999_999, "ok": True})
    assert took_s < 12


@pytest.mark.parametrize(
    "attack",
    [
        pytest.param("Array.isArray = () => true", id="Array.isArray"),
        pytest.param("Object.getPrototypeOf = () => Object.prototype", id="getPrototypeOf"),
        pytest.param("Reflect.ownKeys = () => []", id="Reflect.ownKeys"),
        pytest.param("Object.keys = () => ['b']", id="Object.keys"),
        pytest.param("JSON.stringify = () => '1'; JSON.parse = () => 2", id="JSON"),
        pytest.param("(Object.prototype as any).get = () => 7", id="descriptor-like member"),
        pytest.param("(Object.prototype as any).value = 7", id="inherited value"),
        pytest.param("(globalThis as any).Map = undefined", id="Map"),
        pytest.param("Map.prototype.get = () => '\"x\":'", id="Map.prototype.get"),
        pytest.param("Set.prototype.has = () => true", id="Set.prototype.has"),
        pytest.param("(Array.prototype as any)[0] = 'in the prototype'", id="Array.prototype[0]"),
        pytest.param(
            "Object.defineProperty(Array.prototype, 1, {set() { throw 1 }, get: () => 9})",
            id="setter of Array.prototype",
        ),
        pytest.param("(Object.prototype as any).toJSON = () => 'hijacked'", id="inherited toJSON"),
        pytest.param("(String.prototype as any).toJSON = () => 'hijacked'", id="toJSON of strings"),
        pytest.param("(Number.prototype as any).toString = () => '8'", id="Number toString"),
        pytest.param("Function.prototype.call = Function.prototype.apply = null as any", id="call"),
        pytest.param("(globalThis as any).Promise = undefined", id="GP-008 Promise"),
        pytest.param("Buffer.byteLength = () => 0; Buffer.concat = null as any", id="Buffer"),
        pytest.param("String.prototype.charCodeAt = () => 34", id="charCodeAt"),
        pytest.param("Number.isSafeInteger = () => false", id="isSafeInteger"),
    ],
)
async def test_a_program_that_breaks_built_ins_sends_the_same_values(run: Run, attack: str) -> None:
    """WT-192, WT-193, WT-194, BF-019."""
    seen: list[object] = []

    def echo(value: object) -> object:
        seen.append(value)
        return value

    result = await run(
        f"""
        const sparse = [, 1], date = new Date(0), good = {{ a: [1, "x", null], b: {{}} }};
        {attack};
        let refused = 0;
        try {{ await tools.echo(sparse) }} catch {{ refused++ }}
        try {{ await tools.echo(date) }} catch {{ refused++ }}
        const back = await tools.echo(good);
        return {{ refused, back, text: "x\\"y", n: 2 ** 60 }}
        """,
        {"echo": echo},
    )
    good = {"a": [1, "x", None], "b": {}}
    assert seen == [good]
    assert (result.value, result.error) == (
        {"refused": 2, "back": good, "text": 'x"y', "n": 2**60},
        None,
    )
