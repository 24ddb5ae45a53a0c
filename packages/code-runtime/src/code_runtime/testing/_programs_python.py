"""The programs of the suite in Python."""

from __future__ import annotations

from collections.abc import Mapping
from textwrap import dedent
from types import MappingProxyType
from typing import Final

_SOURCES = {
    "relay": """
        value = await tools.give(None)
        await tools.take(value)
        return value
        """,
    "nothing": "n = 1",
    "comment": "# nothing",
    "return_null": "return None",
    "return_whole": "return 1.0",
    "return_lossy": """
        import datetime
        cycle = []
        cycle.append(cycle)
        values = {
            "nan": float("nan"), "infinity": float("inf"), "negative_zero": -0.0,
            "function": len, "cycle": cycle, "date": datetime.datetime(2026, 11, 29),
            "big_integer": 2**53 + 1, "nested": {"items": [1, float("nan")]},
        }
        return values[await tools.which(None)]
        """,
    "lossy_arguments": """
        cycle, messages = [], []
        cycle.append(cycle)
        for value in (float("nan"), float("inf"), -0.0, len, cycle):
            try:
                await tools.take(value)
            except ToolCallError as error:
                messages.append(str(error))
        return messages
        """,
    "return_long": "return 'x' * await tools.count(None)",
    "return_deep": """
        value = []
        for _ in range(await tools.count(None)):
            value = [value]
        return value
        """,
    "mutate": """
        value = await tools.give(None)
        value["changed"] = True
        return value
        """,
    "mutate_after_call": """
        import asyncio
        value = {"n": 1}
        task = asyncio.ensure_future(tools.take(value))
        await asyncio.sleep(0)
        value["n"] = 2
        await task
        return None
        """,
    "print_given": """
        texts = await tools.texts(None)
        for text in texts:
            print(text)
        return len(texts)
        """,
    "print_many": """
        count = await tools.count(None)
        for number in range(count):
            print("line", number)
        return count
        """,
    "print_and_look": """
        print("one")
        return await tools.look(None)
        """,
    "print_then_lossy": """
        print("before")
        return float("nan")
        """,
    "attempts": """
        results = []
        for number in range(await tools.count(None)):
            try:
                results.append([True, await tools.attempt(number)])
            except ToolCallError as error:
                results.append([False, str(error)])
        return results
        """,
    "parallel": """
        import asyncio
        count = await tools.count(None)
        return await asyncio.gather(*[tools.attempt(number) for number in range(count)])
        """,
    "hold": """
        print("up")
        return await tools.hold(None)
        """,
    "unawaited": """
        import asyncio
        task = asyncio.ensure_future(tools.hold(None))
        await asyncio.sleep(0)
        await tools.ready(None)
        return "done"
        """,
    "ticks": """
        print("up")
        while True:
            await tools.tick(None)
        """,
    "call_uncaught": "return await tools.attempt(0)",
    "error_class": """
        try:
            await tools.attempt(0)
        except Exception as error:
            kind = type(error).__name__
            return [isinstance(error, ToolCallError), kind, error.toolName, str(error)]
        """,
    "plain_error": """
        try:
            await plain.fail(0)
        except Exception as error:
            return [hasattr(error, "toolName"), str(error)]
        """,
    "two_namespaces": "return [await tools.echo(1), await other.echo(2)]",
    "odd_members": """
        names = ["", "a b", "__proto__", "constructor", "toString", "__class__"]
        return [await tools[name](number) for number, name in enumerate(names)]
        """,
    "undeclared": """
        failed = 0
        for name in ("missing", "toString", "hasOwnProperty"):
            try:
                await getattr(tools, name)(1)
            except Exception:
                failed += 1
        return failed
        """,
    "call_data": """
        try:
            await tools.data(1)
        except Exception:
            return True
        return False
        """,
    "call_shadow": "return await ToolCallError.echo(5)",
    "throw": """
        print("before")

        raise ValueError("conformance failure")
        """,
    "throw_unrenderable": """
        class Odd(Exception):
            def __str__(self):
                raise RuntimeError("no text")
            __repr__ = __str__
        raise Odd
        """,
    "throw_long": "raise ValueError('x' * await tools.count(None))",
    "syntax_error": """
        before = 1
        conformance_fault = = 2
        """,
    "exit": """
        import os
        print("before")
        os._exit(7)
        """,
    "wait": """
        import asyncio
        print("up")
        await asyncio.Event().wait()
        """,
    "hot": """
        print("up")
        while True:
            pass
        """,
    "block": """
        import time
        print("up")
        time.sleep(60)
        """,
    "mark_global": """
        import builtins, json, os, sys
        places = [globals(), os.environ, *map(vars, (builtins, json, os, sys))]
        found = any("mark" in place for place in places)
        for place in places:
            place["mark"] = "1"
        return found
        """,
    "break_builtins": """
        import asyncio, builtins, json, os, sys
        json.dumps = json.loads = os.write = os.read = sys.exit = None
        builtins.print = builtins.open = builtins.__import__ = None
        sys.modules.clear()
        sys.path.clear()
        return 1
        """,
    "working_directory": """
        import os, tempfile
        seen = [os.getcwd(), os.listdir("."), tempfile.gettempdir()]
        with open("left.txt", "w") as file:
            file.write("left")
        return seen
        """,
    "environment": """
        import os
        return os.environ.get("CODE_RUNTIME_CONFORMANCE")
        """,
    "heartbeat": """
        path, first = await tools.path(None), True
        while True:
            with open(path, "a") as file:
                file.write("x")
            if first:
                print("up")
            first = False
        """,
    "detached": """
        import asyncio, os, subprocess, sys
        path = await tools.path(None)
        loop = "while True:\\n    with open(sys.argv[1], 'a') as file: file.write('x')"
        subprocess.Popen(
            [sys.executable, "-S", "-c", "import sys\\n" + loop, path],
            start_new_session=True,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        while not (os.path.exists(path) and os.path.getsize(path)):
            await asyncio.sleep(0.01)
        return "done"
        """,
}

PYTHON_PROGRAMS: Final[Mapping[str, str | None]] = MappingProxyType(
    {key: dedent(source).strip() for key, source in _SOURCES.items()}
)
"""The programs of the suite in Python."""
