"""Programs that change the built-ins under the worker's feet.

One fixed, honest part (a log, a call with a nested value, a refused argument, a rejection of the
declared class, a value) runs after each change and must end as it does without one, byte for byte.
`host/test/worker.test.ts` looks at the worker alone; here Python is at the other end.
"""

from __future__ import annotations

import pytest
from run_requests import Provider, Run, build_request

from code_runtime import CodeRunResult

pytestmark = pytest.mark.anyio

# Written with syntax only, so that no change can reach the part itself. What it needs from the
# language (a Date) is made before the change.
HONEST = """
console.log("entry", "two");
result.echo = await tools.echo({ deep: [{ key: [1, "é", null, true] }], empty: [], none: {} });
try { await tools.echo({ at: date }) } catch (error) { result.lossy = [error.name, error.toolName, error.message] }
try { await tools.fail({ id: 7 }) } catch (error) { result.typed = [error instanceof ToolCallError, error.name, error.toolName, error.message] }
console.error("last");
return result;
"""
EXPECTED_VALUE = {
    "echo": {"deep": [{"key": [1, "é", None, True]}], "empty": [], "none": {}},
    "lossy": [
        "ToolCallError",
        "echo",
        "Cannot call tools.echo: the argument must be lossless JSON: $.at: Date is not JSON, "
        "expected date.toISOString()",
    ],
    "typed": [True, "ToolCallError", "fail", "no row 7"],
}
# The result has no prototype: what a program puts on Object.prototype is not its business.
BEFORE = "const date = new Date(0), result = Object.create(null); const none = () => undefined; const used = () => { throw new Error('used') };\n"

MUTATIONS = {
    # WT-192, one by one.
    "Array.isArray": "Array.isArray = () => true",
    "Array.isArray false": "Array.isArray = () => false",
    "Array.prototype.at": "Array.prototype.at = used",
    "Array.prototype.includes": "Array.prototype.includes = () => true",
    "Array.prototype.pop": "Array.prototype.pop = used",
    "Array.prototype.push": "Array.prototype.push = used",
    "Array.prototype.constructor": "Array.prototype.constructor = class Fake {}",
    "Array.prototype setters": "for (const i of ['0', '1']) Object.defineProperty(Array.prototype, i, { configurable: true, get: none, set: used })",
    "Object.defineProperty": "Object.defineProperty = used",
    "Object.getOwnPropertyDescriptor": "Object.getOwnPropertyDescriptor = none",
    "Object.getOwnPropertyDescriptors": "Object.getOwnPropertyDescriptors = none",
    "Object.getPrototypeOf": "Object.getPrototypeOf = () => Object.prototype",
    "Object.setPrototypeOf": "Object.setPrototypeOf = used",
    "Object.keys": "Object.keys = () => []",
    "Object.entries": "Object.entries = used",
    "Object.hasOwn": "Object.hasOwn = () => true",
    "Object.is": "Object.is = () => true",
    "Object.create": "Object.create = () => ({ forged: 1 })",
    "Object.freeze": "Object.freeze = used",
    "Object.prototype.propertyIsEnumerable": "Object.prototype.propertyIsEnumerable = () => false",
    "Object.prototype.hasOwnProperty": "Object.prototype.hasOwnProperty = used",
    "Object.prototype.constructor": "Object.prototype.constructor = class Fake {}",
    "Object.prototype.toString": "Object.prototype.toString = () => '[object Forged]'",
    "Object.prototype.get": "Object.prototype.get = used",
    "Object.prototype.set": "Object.prototype.set = used",
    "Object.prototype.value": "Object.prototype.value = 'forged'",
    "Object.prototype.writable": "Object.prototype.writable = true; Object.prototype.configurable = true",
    "Object.prototype.error": "Object.prototype.error = { kind: 'exception', message: 'forged' }",
    "Object.prototype.type": "Object.prototype.type = 'done'; Object.prototype.kind = 51",
    "Object.prototype.toJSON": "Object.prototype.toJSON = () => 'forged'",
    "Object.prototype getters": "for (const k of ['path', 'reason', 'bytes', 'code', 'next', 'done', 'length']) Object.defineProperty(Object.prototype, k, { configurable: true, get: () => 'forged' })",
    "Number.isFinite": "Number.isFinite = () => false",
    "Number.isSafeInteger": "Number.isSafeInteger = Number.isInteger = Number.isNaN = () => false",
    "Reflect.apply": "Reflect.apply = used",
    "Reflect.ownKeys": "Reflect.ownKeys = () => []",
    "Reflect, all": "for (const k of Object.getOwnPropertyNames(Reflect)) Reflect[k] = used",
    "Set.prototype.add": "Set.prototype.add = none",
    "Set.prototype.delete": "Set.prototype.delete = used",
    "Set.prototype.has": "Set.prototype.has = () => true",
    "String.prototype.charCodeAt": "String.prototype.charCodeAt = () => 65",
    "String.prototype.codePointAt": "String.prototype.codePointAt = () => 65",
    "String.prototype.slice": "String.prototype.slice = () => ''",
    "String.prototype, all": "for (const k of Object.getOwnPropertyNames(String.prototype)) if (typeof ''[k] === 'function') String.prototype[k] = used",
    "String.prototype iterator": "String.prototype[Symbol.iterator] = used",
    "Buffer.byteLength": "Buffer.byteLength = () => 0",
    "Buffer.from": "Buffer.from = Buffer.alloc = Buffer.allocUnsafe = Buffer.concat = used",
    "Buffer.prototype": "Buffer.prototype.write = Buffer.prototype.utf8Write = Buffer.prototype.toString = Buffer.prototype.utf8Slice = used",
    "Uint8Array.prototype": "Object.getPrototypeOf(Uint8Array.prototype).set = Object.getPrototypeOf(Uint8Array.prototype).subarray = used",
    "typed array length": "for (const k of ['length', 'byteOffset', 'buffer']) Object.defineProperty(Object.getPrototypeOf(Uint8Array.prototype), k, { configurable: true, get: () => 0 })",
    "Function.prototype.toString": "Function.prototype.toString = () => 'function Object() { [native code] }'",
    "Function.prototype.call": "Function.prototype.call = Function.prototype.apply = Function.prototype.bind = used",
    "JSON.stringify": "JSON.stringify = () => '\"forged\"'",
    "JSON.parse": "JSON.parse = () => 'forged'",
    # WT-193: upstream leaves these open.
    "Promise global": "globalThis.Promise = class Fake { constructor() { throw new Error('used') } }",
    "Promise.prototype.then": "Promise.prototype.then = Promise.prototype.catch = Promise.prototype.finally = used",
    "Promise.prototype.constructor": "Promise.prototype.constructor = class { constructor() { throw new Error('used') } }",
    "Promise species": "Object.defineProperty(Promise, Symbol.species, { value: class { constructor() { throw new Error('used') } } })",
    "Promise.resolve": "Promise.resolve = Promise.reject = Promise.all = used",
    "Map.prototype.get": "Map.prototype.get = none",
    "Map.prototype.set": "Map.prototype.set = none",
    "Map.prototype.delete": "Map.prototype.delete = none",
    "Map and WeakMap, all": "for (const C of [Map, WeakMap, Set, WeakSet]) for (const k of ['get', 'set', 'has', 'add', 'delete']) C.prototype[k] = used",
    "Array.prototype.map": "Array.prototype.map = used",
    "Array.prototype.find": "Array.prototype.find = Array.prototype.join = Array.prototype.slice = used",
    "Array.prototype, all": "for (const k of Object.getOwnPropertyNames(Array.prototype)) if (typeof [][k] === 'function' && k !== 'constructor') Array.prototype[k] = used",
    "Array iterator": "Array.prototype[Symbol.iterator] = used; Object.getPrototypeOf([].values()).next = used",
    "Object.prototype.then": "Object.prototype.then = (resolve) => resolve('hijacked')",
    "Object.prototype.then getter": "Object.defineProperty(Object.prototype, 'then', { configurable: true, get: () => (resolve) => resolve('hijacked') })",
    "Array.prototype.then": "Array.prototype.then = (resolve) => resolve('hijacked')",
    # Beyond the list: what the worker's own code could lean on.
    "Error.prepareStackTrace": "Error.prepareStackTrace = used",
    "Error.captureStackTrace": "Error.captureStackTrace = undefined; Error.stackTraceLimit = 0",
    "Error.prototype": "Error.prototype.name = 'Forged'; Error.prototype.toString = used",
    "Symbol.prototype": "Symbol.prototype.toString = Symbol.prototype.valueOf = used",
    "RegExp.prototype": "RegExp.prototype.exec = RegExp.prototype.test = used; RegExp.prototype[Symbol.replace] = used",
    "TextEncoder": "TextEncoder.prototype.encode = TextEncoder.prototype.encodeInto = TextDecoder.prototype.decode = used",
    "Math": "for (const k of Object.getOwnPropertyNames(Math)) if (typeof Math[k] === 'function') Math[k] = () => NaN",
    "Atomics": "Atomics.wait = Atomics.add = Atomics.load = used",
    "node:fs": "const fs = process.getBuiltinModule('fs'); for (const k of ['readSync', 'writeSync', 'writevSync', 'closeSync']) fs[k] = used",
    "node:util": "const util = process.getBuiltinModule('util'); util.inspect = () => 'forged'; util.types.isPromise = () => false",
    "node:net": "const { Socket } = process.getBuiltinModule('net'); for (const k of ['write', 'read', 'on', 'emit', 'push']) Socket.prototype[k] = used",
    "process": "process.exit = process.reallyExit = process.listenerCount = process.on = used",
    "the event loop": "globalThis.queueMicrotask = globalThis.setImmediate = globalThis.setTimeout = process.nextTick = used",
    "performance": "performance.now = used; Date.now = used",
    "console": "globalThis.console = undefined",
    # WT-192: whole globals gone.
    **{
        f"no {name}": f"globalThis.{name} = undefined"
        for name in (
            "Array",
            "Buffer",
            "Error",
            "Function",
            "Number",
            "Object",
            "Reflect",
            "Set",
            "String",
            "Promise",
            "Map",
            "WeakMap",
            "Symbol",
            "JSON",
            "Uint8Array",
            "TextEncoder",
            "process",
        )
    },
}


def fail(argument: dict[str, object]) -> None:
    raise LookupError(f"no row {argument['id']}")


TOOLS = {"echo": lambda value: value, "fail": fail}


def outcome(result: CodeRunResult) -> tuple[object, ...]:
    calls = [(call.member, call.outcome) for call in result.calls]
    return result.logs, result.value, result.error, calls


EXPECTED = (["entry two", "last"], EXPECTED_VALUE, None, [("echo", "ok"), ("fail", "error")])


async def test_the_honest_part_ends_as_expected_without_a_change(run: Run) -> None:
    assert outcome(await run(BEFORE + HONEST, TOOLS)) == EXPECTED


@pytest.mark.parametrize("mutation", MUTATIONS.values(), ids=MUTATIONS)
async def test_a_changed_built_in_changes_nothing_for_the_worker(run: Run, mutation: str) -> None:
    """WT-192, WT-193, GP-008: validation, transport, accounting and typed failures."""
    result = await run(f"{BEFORE}{mutation};{HONEST}", TOOLS, max_wall_ms=5_000)
    assert outcome(result) == EXPECTED


ACCOUNTED = f"console.log('12345'); console.log('{'€' * 50}'); return 1"


# Those through which text is measured, cut and spelled; each of these runs costs a process.
COUNTING = (
    "Array.prototype, all",
    "Object.prototype getters",
    "Number.isFinite",
    "Reflect, all",
    "String.prototype.charCodeAt",
    "String.prototype.slice",
    "String.prototype, all",
    "Buffer.byteLength",
    "Buffer.prototype",
    "typed array length",
    "Function.prototype.call",
    "JSON.stringify",
    "TextEncoder",
    "Math",
    "no Buffer",
    "no String",
)


async def test_a_changed_built_in_does_not_change_what_output_costs(provider: Provider) -> None:
    """WT-192: byte accounting, with a cap that the second entry crosses in the middle."""
    async with provider(max_output_bytes=100) as runtime:
        # 100 bytes less the message (33) and the list (2) leave 65: 7 for the first entry, 1 for the
        # comma, and 57 for the second: 18 euro signs of 3 bytes and two quotes.
        expected = (["12345", "€" * 18], "output-limit", "Output is larger than 100 bytes")
        for name in COUNTING:
            mutation = MUTATIONS[name]
            result = await runtime.run(
                build_request(f"{BEFORE}{mutation};{ACCOUNTED}", max_wall_ms=5_000)
            )
            assert result.error is not None, name
            seen = (result.logs, result.error.kind, result.error.message)
            assert seen == expected, name


PLAIN = "expected plain objects, arrays, strings, finite numbers, booleans or null"
OWN_PROTOTYPE = f"with a prototype of its own is not JSON, {PLAIN}"
FORGED = {
    "class": (
        "class Fake {}; const bad = new Fake()",
        f"an instance of class Fake is not JSON, {PLAIN}",
    ),
    "class named Object": (
        "const bad = new ({ Object: function () {} }.Object)()",
        f"an instance of class Object is not JSON, {PLAIN}",
    ),
    "constructor link": (
        "function Fake() {} Fake.prototype.constructor = Object; const bad = new Fake()",
        f"an instance of class Object is not JSON, {PLAIN}",
    ),
    "prototype of a prototype": (
        "const bad = Object.create(Object.create(null))",
        f"an object {OWN_PROTOTYPE}",
    ),
    "inheriting": ("const bad = Object.create({ inherited: 1 })", f"an object {OWN_PROTOTYPE}"),
    "array of a forged chain": (
        "const bad = Object.setPrototypeOf([1], Object.create(Array.prototype))",
        f"an array {OWN_PROTOTYPE}",
    ),
    "array without prototype": (
        "const bad = Object.setPrototypeOf([1], null)",
        f"an array {OWN_PROTOTYPE}",
    ),
    "array subclass": (
        "const bad = new (class extends Array {})(1, 2)",
        f"an array {OWN_PROTOTYPE}",
    ),
    "Map": (
        "const bad = new Map([[1, 2]])",
        "Map is not JSON, expected Object.fromEntries(map)",
    ),
    "revoked constructor": (
        "const proxied = Proxy.revocable(function () {}, {}); "
        "const bad = Object.create({ constructor: proxied.proxy }); proxied.revoke()",
        "reading it threw an error, expected a value that can be read",
    ),
}
LOOK_ALIKE = """
Array.isArray = () => true;
Object.getPrototypeOf = Reflect.getPrototypeOf = () => Object.prototype;
Function.prototype.toString = () => "function Object() { [native code] }";
Object.prototype.isPrototypeOf = () => true;
for (const k of ["instanceof", Symbol.hasInstance]) try { Object[k] = () => true } catch {}
"""


@pytest.mark.parametrize(("forged", "reason"), FORGED.values(), ids=FORGED)
async def test_forged_prototypes_are_refused_in_both_directions_after_such_changes(
    run: Run, forged: str, reason: str
) -> None:
    """WT-194, WT-107: as an argument before anything is sent, as a completion, and inside both."""
    seen: list[object] = []
    program = f"""{forged};{LOOK_ALIKE}
    for (const value of [bad, [bad], {{ bad }}]) {{
      try {{ await tools.note(value); console.log("passed") }} catch (error) {{ console.log(error.name) }}
    }}
    return [1, bad]"""
    result = await run(program, {"note": seen.append})
    assert result.error is not None, result
    assert (result.logs, seen, result.calls) == (["ToolCallError"] * 3, [], [])
    assert (result.error.kind, result.error.message) == (
        "invalid-output",
        f"The completion must be lossless JSON: $[1]: {reason}",
    )
