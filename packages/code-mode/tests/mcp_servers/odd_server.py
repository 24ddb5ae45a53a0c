"""An MCP server over stdio that does what no decent one does; standard library only.

Options, as arguments: `--list=bad|fields|one|large|many|endless|none`, `--stay` (it ignores the end of its
input and SIGTERM), `--child` (it starts a process that outlives it), `--mute` (it answers nothing),
`--exit=N` (it writes to standard error and exits at once), `--chatty` (it writes for people on its
standard output), `--count=FILE` (it adds a line to a file for each start).
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from typing import Any

OBJECT: dict[str, Any] = {"type": "object"}
SLOW_PATTERN = {"type": "object", "properties": {"a": {"type": "string", "pattern": "^(a+)+$"}}}
# Patterns of JavaScript that are none of Python.
LETTERS = {
    "type": "object",
    "properties": {"a": {"type": "string", "pattern": "^\\p{L}+$"}},
    "patternProperties": {"^\\p{L}$": {}},
    "additionalProperties": False,
}
OPTIONS = dict(
    [*argument.lstrip("-").split("=", 1), ""][:2]
    for argument in sys.argv[1:]
    if argument.startswith("--")
)
extra: list[str] = []


def send(message: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def notify(method: str, **params: Any) -> None:
    send({"method": method, "params": params})


def text(value: str) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": value}]}


def tool(name: str, **fields: Any) -> dict[str, Any]:
    return {"name": name, "description": f"Does {name}", "inputSchema": OBJECT, **fields}


def listing() -> list[Any]:
    kind = OPTIONS.get("list")
    if kind == "bad":
        return [
            tool("good"),
            tool("good"),
            {"name": "no_schema"},
            tool("text_schema", inputSchema={"type": "string"}),
            tool("bad_schema", inputSchema={"type": "object", "properties": {"a": {"type": 7}}}),
            tool("empty_schema", inputSchema={}),
            tool("", inputSchema=OBJECT),
            tool("n" * 300),
            tool("large", description="x" * 2_000_000),
            "no object",
            {"name": 7, "inputSchema": OBJECT},
            tool("run_code"),
        ]
    if kind == "fields":
        return [
            tool("good", title="Good", annotations={"readOnlyHint": True}, icons=[], unknown=5),
            tool("title", title=5),
            tool("hint", annotations={"readOnlyHint": "perhaps"}),
            tool("icon", icons=[{"src": 3}]),
            tool("icons", icons=[3] * 2_000),
            tool("letters", inputSchema=LETTERS, outputSchema=LETTERS),
        ]
    if kind == "one":
        return [tool("single")]
    if kind == "large":
        return [tool(f"tool_{number}", description="x" * 200_000) for number in range(60)]
    if kind == "many":
        return [tool(f"tool_{number:05}") for number in range(3_000)]
    number_schema = {
        "type": "object",
        "properties": {"n": {"type": "number"}},
        "required": ["n"],
    }
    return [
        *(tool(name) for name in HANDLERS),
        *(tool(name) for name in extra),
        tool("reads", annotations={"readOnlyHint": True}),
        tool("liar", outputSchema=number_schema),
        tool("counts", outputSchema=number_schema),
        tool("slow_pattern", inputSchema=SLOW_PATTERN, outputSchema=SLOW_PATTERN),
    ]


def crash(request: Any, arguments: dict[str, Any]) -> None:
    sys.stderr.write("about to crash\nfor a reason\n")
    sys.stderr.flush()
    os._exit(int(arguments.get("code", 7)))


def kill_self(request: Any, arguments: dict[str, Any]) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def progress(request: Any, arguments: dict[str, Any]) -> dict[str, Any]:
    token = request["params"]["_meta"]["progressToken"]
    steps = int(arguments["steps"])
    for step in range(1, steps + 1):
        notify(
            "notifications/progress", progressToken=token, progress=step, total=steps, message="go"
        )
    notify("notifications/message", level="info", data="a log\nof two lines")
    return text("done")


def grow(request: Any, arguments: dict[str, Any]) -> dict[str, Any]:
    extra.append(str(arguments["name"]))
    notify("notifications/tools/list_changed")
    return text("grown")


def shrink(request: Any, arguments: dict[str, Any]) -> dict[str, Any]:
    extra.clear()
    notify("notifications/tools/list_changed")
    return text("shrunk")


def hang(request: Any, arguments: dict[str, Any]) -> None:
    with open(arguments["file"], "a") as file:
        file.write(f"started {request['id']}\n")


def huge(request: Any, arguments: dict[str, Any]) -> dict[str, Any]:
    return text("x" * int(arguments["bytes"]))


def deep(request: Any, arguments: dict[str, Any]) -> None:
    depth = int(arguments["depth"])
    value = "[" * depth + "]" * depth
    sys.stdout.write(
        f'{{"jsonrpc": "2.0", "id": {request["id"]}, "result": {{"content": [], '
        f'"structuredContent": {{"v": {value}}}}}}}\n'
    )
    sys.stdout.flush()


def junk(request: Any, arguments: dict[str, Any]) -> dict[str, Any]:
    sys.stdout.write("listening on port 7\n\n{not json\n[1, 2]\n")
    send({"id": 999_999, "result": {}})
    send({"id": "no such", "error": {"code": 1, "message": "m"}})
    send({"method": "no/such/method", "params": {"a": 1}})
    send({"id": 5, "method": "sampling/createMessage", "params": {}})
    return text("after junk")


def answer(result: dict[str, Any]) -> Any:
    return lambda request, arguments: result


HANDLERS: dict[str, Any] = {
    "echo": lambda request, arguments: text(json.dumps(arguments, ensure_ascii=False)),
    "pid": lambda request, arguments: text(str(os.getpid())),
    "crash": crash,
    "kill_self": kill_self,
    "progress": progress,
    "grow": grow,
    "shrink": shrink,
    "hang": hang,
    "huge": huge,
    "deep": deep,
    "junk": junk,
    "fail": answer({**text("no luck today"), "isError": True}),
    "fail_silent": answer({"content": [], "isError": True}),
    "wrong_shape": answer({"content": "text"}),
    "no_content": answer({}),
    "image": answer({"content": [{"type": "image", "data": "AAAA", "mimeType": "image/png"}]}),
    "nothing": answer({"content": []}),
}
MORE: dict[str, Any] = {
    "letters": lambda request, arguments: {**text("x"), "structuredContent": arguments},
    "reads": answer(text("read")),
    "liar": answer({**text("x"), "structuredContent": {"n": "seven"}}),
    "slow_pattern": lambda request, arguments: {**text("x"), "structuredContent": arguments},
    "counts": answer({**text("x"), "structuredContent": {"n": 7}}),
}


def call(request: Any) -> None:
    params = request["params"]
    handler = HANDLERS.get(params["name"]) or MORE.get(params["name"])
    if handler is None:
        send({"id": request["id"], "error": {"code": -32602, "message": "no such tool"}})
        return
    result = handler(request, params.get("arguments") or {})
    if result is not None:
        send({"id": request["id"], "result": result})


def serve(request: Any) -> None:
    method = request.get("method")
    if method == "initialize":
        capabilities = {"tools": {"listChanged": True}, "logging": {}}
        if OPTIONS.get("list") == "none":
            capabilities = {}
        result = {
            "protocolVersion": request["params"]["protocolVersion"],
            "capabilities": capabilities,
            "serverInfo": {"name": "odd", "version": "1"},
        }
        send({"id": request["id"], "result": result})
    elif method == "tools/list":
        page: dict[str, Any] = {"tools": listing()}
        if OPTIONS.get("list") == "endless":
            page = {"tools": [tool(f"t{time.monotonic_ns()}")], "nextCursor": "again"}
        send({"id": request["id"], "result": page})
    elif method == "tools/call":
        call(request)
    elif method == "notifications/cancelled":
        if "cancelled" in OPTIONS:
            with open(OPTIONS["cancelled"], "a") as file:
                file.write(f"cancelled {request['params']['requestId']}\n")
    elif "id" in request and "method" in request:
        send({"id": request["id"], "error": {"code": -32601, "message": "no such method"}})


def main() -> None:
    if "count" in OPTIONS:
        with open(OPTIONS["count"], "a") as file:
            file.write("started\n")
    if "exit" in OPTIONS:
        sys.stderr.write("\x1b[31mcannot find\nthe database\n")
        sys.exit(int(OPTIONS["exit"]))
    if "stay" in OPTIONS:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if "child" in OPTIONS:
        subprocess.Popen(["sleep", "600"])
    if "chatty" in OPTIONS:
        sys.stdout.write("Welcome!\nListening on standard input\n")
    for line in sys.stdin:
        if "mute" not in OPTIONS:
            serve(json.loads(line))
    while "stay" in OPTIONS:
        signal.pause()


if __name__ == "__main__":
    main()
