"""What the same task costs in tokens: by native tool calls, and by one `run_code`.

    python -m bench.tokens

The tools are those of two real MCP servers (files, memory) over a folder of made-up invoices. Both
ways get the same answer; the script checks it. Counted is what a model has to read and write, with
the tokenizer o200k_base of the npm package gpt-tokenizer:

* tools: the declarations, as they stand in every prompt;
* written: the calls, or the program;
* read: the results;
* all turns: the sum of what each turn of the conversation reads, without a cache of prompts. Calls
  that do not depend on each other are made in one turn.
"""

from __future__ import annotations

import json
import random
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, cast

import anyio
import typer
from rich.console import Console
from rich.table import Table

from code_mode import McpServers, Tool, ToolRegistry, as_openai_tools
from code_runtime import Context

ROOT: Final = Path(__file__).resolve().parent.parent
NODE: Final = ROOT / ".setup" / "bin" / "node"
SERVERS: Final = ROOT / "node_modules" / "@modelcontextprotocol"
COUNT: Final = """
import { encode } from "gpt-tokenizer/encoding/o200k_base";
let text = "";
for await (const chunk of process.stdin) text += chunk;
console.log(JSON.stringify(JSON.parse(text).map((item) => encode(item).length)));
"""
PROGRAMS: Final = {
    "one file": """
const file = await tools.read_text_file({ path: "invoice-07.txt" });
return file.content.split("\\n")[0];
""",
    "40 files summed": """
const { content } = await tools.list_directory({ path: "." });
const names = [...content.matchAll(/^\\[FILE\\] (.+)$/gm)].map((match) => match[1]);
const files = await Promise.all(names.map((path) => tools.read_text_file({ path })));
const amounts = files.map((file) => Number(/Total: (\\d+)/.exec(file.content)[1]));
return amounts.reduce((sum, amount) => sum + amount, 0);
""",
    "40 files into a graph": """
const { content } = await tools.list_directory({ path: "." });
const names = [...content.matchAll(/^\\[FILE\\] (.+)$/gm)].map((match) => match[1]);
const files = await Promise.all(names.map((path) => tools.read_text_file({ path })));
const late = names.filter((_, index) => files[index].content.includes("Status: late"));
await tools.create_entities({
  entities: late.map((name) => ({ name, entityType: "invoice", observations: ["late"] })),
});
return late.length;
""",
}


@dataclass(frozen=True)
class Conversation:
    """What a model reads and writes for one task."""

    tools: str
    written: Sequence[Sequence[str]]
    read: Sequence[Sequence[str]]


def write_invoices(folder: Path) -> None:
    """Write 40 invoices of about a page each; the same ones every time."""
    rng = random.Random(40)
    for number in range(40):
        items = [f"{rng.randint(1, 9)} x item {rng.randint(100, 999)}" for _ in range(25)]
        status = rng.choice(["paid", "open", "late"])
        lines = [f"Invoice {number:02}", f"Status: {status}", *items]
        text = "\n".join([*lines, f"Total: {rng.randint(10, 900)}", ""])
        (folder / f"invoice-{number:02}.txt").write_text(text)


def native_turns(task: str, folder: Path) -> list[list[tuple[str, dict[str, object]]]]:
    """Return the calls that a model makes for a task without programs, by turn."""
    if task == "one file":
        return [[("read_text_file", {"path": "invoice-07.txt"})]]
    names = sorted(path.name for path in folder.iterdir())
    turns: list[list[tuple[str, dict[str, object]]]] = [
        [("list_directory", {"path": "."})],
        [("read_text_file", {"path": name}) for name in names],
    ]
    if task.endswith("graph"):
        late = [name for name in names if "Status: late" in (folder / name).read_text()]
        entities = [
            {"name": name, "entityType": "invoice", "observations": ["late"]} for name in late
        ]
        turns.append([("create_entities", {"entities": entities})])
    return turns


async def by_native_calls(tools: ToolRegistry, task: str, folder: Path) -> Conversation:
    """Do a task call by call."""
    view = tools.view(mode="native")
    written, read = [], []
    for calls in native_turns(task, folder):
        written.append([json.dumps({"name": name, "arguments": args}) for name, args in calls])
        results = [await view.call(name, args) for name, args in calls]
        assert not any(result.is_error for result in results), results
        read.append([result.text for result in results])
    return Conversation(_declare(view.wire_tools()), written, read)


async def by_run_code(tools: ToolRegistry, task: str) -> Conversation:
    """Do a task by one program."""
    arguments = {"code": PROGRAMS[task], "description": f"Does the task: {task}"}
    result = await tools.call("run_code", arguments)
    assert not result.is_error, result.text
    declared = _declare(tools.wire_tools()) + tools.sdk_text()
    written = json.dumps({"name": "run_code", "arguments": arguments})
    return Conversation(declared, [[written]], [[result.text]])


def _declare(tools: Sequence[Tool]) -> str:
    return json.dumps(as_openai_tools(tools))


def count_tokens(texts: Sequence[str]) -> list[int]:
    """Count the tokens of each text."""
    command = [str(NODE), "--input-type=module", "-e", COUNT]
    done = subprocess.run(
        command, input=json.dumps(texts), cwd=ROOT, capture_output=True, text=True, check=True
    )
    return cast("list[int]", json.loads(done.stdout))


def price(conversation: Conversation) -> tuple[int, int, int, int]:
    """Return tokens of tools, written, read, and read over all turns."""
    turns = [
        "".join(texts)
        for pair in zip(conversation.written, conversation.read, strict=True)
        for texts in pair
    ]
    tools, *parts = count_tokens([conversation.tools, *turns])
    written, read = parts[::2], parts[1::2]
    # Each turn reads the declarations and everything before it; the last one gives the answer.
    history = [sum(parts[: 2 * turn]) for turn in range(len(written) + 1)]
    return tools, sum(written), sum(read), tools * len(history) + sum(history)


async def measure() -> list[tuple[str, str, tuple[int, int, int, int]]]:
    """Do every task both ways."""
    rows = []
    with tempfile.TemporaryDirectory(prefix="tokens-") as name:
        folder = Path(name) / "invoices"
        folder.mkdir()
        write_invoices(folder)
        memory = {"MEMORY_FILE_PATH": str(Path(name) / "memory.jsonl")}
        servers = {
            "files": _server("server-filesystem", [str(folder)], {}),
            "memory": _server("server-memory", [], memory),
        }
        async with Context() as ctx:
            await ctx.plugin("worker-thread")
            await ctx.plugin(ToolRegistry)
            await ctx.plugin(McpServers, {"mcpServers": servers})
            tools = ToolRegistry.of(ctx)
            for task in PROGRAMS:
                native = price(await by_native_calls(tools, task, folder))
                rows.append((task, "native calls", native))
                rows.append((task, "run_code", price(await by_run_code(tools, task))))
    return rows


def _server(package: str, args: list[str], env: dict[str, str]) -> dict[str, object]:
    script = SERVERS / package / "dist" / "index.js"
    return {"command": str(NODE), "args": [str(script), *args], "env": env}


def main() -> None:
    """Print the table of `docs/code-mode.md`."""
    table = Table("task", "way", "tools", "written", "read", "all turns")
    for task, way, numbers in anyio.run(measure):
        table.add_row(task, way, *(f"{number:,}" for number in numbers))
    Console(width=100).print(table)


if __name__ == "__main__":
    typer.run(main)
