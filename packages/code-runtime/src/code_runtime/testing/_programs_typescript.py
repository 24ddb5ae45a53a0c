"""The programs of the suite in TypeScript."""

from __future__ import annotations

from collections.abc import Mapping
from textwrap import dedent
from types import MappingProxyType
from typing import Final

_SOURCES = {
    "relay": """
        const value = await tools.give(null);
        await tools.take(value);
        return value;
        """,
    "nothing": "const n: number = 1;",
    "comment": "// nothing",
    "return_null": "return null;",
    "return_whole": "return 1.0;",
    "return_lossy": """
        const cycle: unknown[] = [];
        cycle.push(cycle);
        const values: Record<string, unknown> = {
          nan: NaN, infinity: Infinity, negative_zero: -0,
          function: () => 1, cycle, date: new Date(0),
          big_integer: 2n ** 53n + 1n, nested: { items: [1, NaN] },
        };
        return values[await tools.which(null)];
        """,
    "lossy_arguments": """
        const cycle: unknown[] = [];
        cycle.push(cycle);
        const messages: string[] = [];
        for (const value of [NaN, Infinity, -0, () => 1, cycle]) {
          try {
            await tools.take(value);
          } catch (error) {
            messages.push((error as Error).message);
          }
        }
        return messages;
        """,
    "return_long": "return 'x'.repeat(await tools.count(null));",
    "return_deep": """
        let value: unknown[] = [];
        const count: number = await tools.count(null);
        for (let level = 0; level < count; level++) value = [value];
        return value;
        """,
    "mutate": """
        const value = await tools.give(null);
        value.changed = true;
        return value;
        """,
    "mutate_after_call": """
        const value = { n: 1 };
        const call = tools.take(value);
        value.n = 2;
        await call;
        return null;
        """,
    "print_given": """
        const texts: string[] = await tools.texts(null);
        for (const text of texts) console.log(text);
        return texts.length;
        """,
    "print_many": """
        const count: number = await tools.count(null);
        for (let number = 0; number < count; number++) console.log("line", number);
        return count;
        """,
    "print_and_look": """
        console.log("one");
        return await tools.look(null);
        """,
    "print_then_lossy": """
        console.log("before");
        return NaN;
        """,
    "attempts": """
        const results: [boolean, unknown][] = [];
        const count: number = await tools.count(null);
        for (let number = 0; number < count; number++) {
          try {
            results.push([true, await tools.attempt(number)]);
          } catch (error) {
            results.push([false, (error as Error).message]);
          }
        }
        return results;
        """,
    "parallel": """
        const count: number = await tools.count(null);
        const numbers = Array.from({ length: count }, (_, number) => number);
        return await Promise.all(numbers.map((number) => tools.attempt(number)));
        """,
    "hold": """
        console.log("up");
        return await tools.hold(null);
        """,
    "unawaited": """
        void tools.hold(null);
        await tools.ready(null);
        return "done";
        """,
    "ticks": """
        console.log("up");
        for (;;) await tools.tick(null);
        """,
    "call_uncaught": "return await tools.attempt(0);",
    "error_class": """
        try {
          await tools.attempt(0);
        } catch (error: any) {
          return [error instanceof ToolCallError, error.name, error.toolName, error.message];
        }
        """,
    "plain_error": """
        try {
          await plain.fail(0);
        } catch (error: any) {
          return ["toolName" in error, error.message];
        }
        """,
    "two_namespaces": "return [await tools.echo(1), await other.echo(2)];",
    "odd_members": """
        const names = ["", "a b", "__proto__", "constructor", "toString", "__class__"];
        const results: unknown[] = [];
        for (const [number, name] of names.entries()) results.push(await tools[name](number));
        return results;
        """,
    "undeclared": """
        let failed = 0;
        for (const name of ["missing", "toString", "hasOwnProperty"]) {
          try {
            await tools[name](1);
          } catch {
            failed++;
          }
        }
        return failed;
        """,
    "call_data": """
        try {
          await tools.data(1);
        } catch {
          return true;
        }
        return false;
        """,
    "call_shadow": "return await ToolCallError.echo(5);",
    "throw": """
        console.log("before");

        throw new Error("conformance failure");
        """,
    "throw_unrenderable": """
        throw {
          toString() { throw new Error("no text"); },
          get stack() { throw new Error("none"); },
        };
        """,
    "throw_long": "throw new Error('x'.repeat(await tools.count(null)));",
    "syntax_error": """
        const before = 1;
        const conformance_fault = = 2;
        """,
    "exit": """
        console.log("before");
        process.exit(7);
        """,
    "wait": """
        console.log("up");
        await new Promise(() => {});
        """,
    "hot": """
        console.log("up");
        for (;;);
        """,
    "block": """
        console.log("up");
        process.getBuiltinModule("child_process").execSync("sleep 60");
        """,
    "mark_global": """
        const places: any[] = [
          globalThis, Object.prototype, Array.prototype, Function.prototype, JSON, Math, console,
          process, process.env, process.getBuiltinModule("fs"),
        ];
        let found = false;
        for (const place of places) {
          found ||= Object.hasOwn(place, "mark");
          Object.defineProperty(place, "mark", {
            value: "1", configurable: true, enumerable: place === process.env, writable: true,
          });
        }
        return found;
        """,
    "break_builtins": """
        const fs: any = process.getBuiltinModule("fs");
        const broken = (): never => { throw new Error("broken"); };
        fs.writeSync = fs.readSync = JSON.stringify = JSON.parse = broken;
        Array.prototype.push = Array.prototype.map = Array.prototype.join = broken;
        Object.keys = Object.getPrototypeOf = Reflect.ownKeys = String.fromCharCode = broken;
        Uint8Array.prototype.set = Uint8Array.prototype.subarray = Map.prototype.get = broken;
        return 1;
        """,
    "working_directory": """
        import fs from "node:fs";
        import os from "node:os";
        const seen = [process.cwd(), fs.readdirSync("."), os.tmpdir()];
        fs.writeFileSync("left.txt", "left");
        return seen;
        """,
    "environment": "return process.env.CODE_RUNTIME_CONFORMANCE ?? null;",
    "heartbeat": """
        import fs from "node:fs";
        const path: string = await tools.path(null);
        fs.appendFileSync(path, "x");
        console.log("up");
        for (;;) fs.appendFileSync(path, "x");
        """,
    "detached": """
        import fs from "node:fs";
        import { spawn } from "node:child_process";
        const path: string = await tools.path(null);
        const loop = 'while :; do printf x >> "$0"; done';
        spawn("/bin/sh", ["-c", loop, path], { detached: true, stdio: "ignore" }).unref();
        while (!fs.existsSync(path) || fs.statSync(path).size === 0) {
          await new Promise((resolve) => setTimeout(resolve, 10));
        }
        return "done";
        """,
}

TYPESCRIPT_PROGRAMS: Final[Mapping[str, str | None]] = MappingProxyType(
    {key: dedent(source).strip() for key, source in _SOURCES.items()}
)
"""The programs of the suite in TypeScript."""
