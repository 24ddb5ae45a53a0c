"""Tools of MCP servers: what a call gives, and what bad servers can do."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import anyio
import pytest
from processes import processes_with

from code_mode import Tool, ToolRegistry, ToolResult
from code_mode._mcp import McpServerError, McpServers
from code_runtime import AbortSignal, Context

OddServer = Callable[..., dict[str, object]]
OpenServers = Callable[..., AbstractAsyncContextManager[tuple[ToolRegistry, McpServers, Context]]]

Until = Callable[[Callable[[], bool]], Awaitable[None]]

pytestmark = pytest.mark.anyio
NOT_KNOWN = "Whether the call was carried out is not known; the next call starts the server again"
LAST_WORDS = "Last lines of its standard error:\nabout to crash\nfor a reason\n"


async def call(registry: ToolRegistry, name: str, /, **arguments: object) -> ToolResult:
    return await registry.call(name, arguments)


def has_text(path: Path, text: str) -> bool:
    return path.exists() and text in path.read_text()


def is_gone(pid: int) -> bool:
    return not Path(f"/proc/{pid}").exists()


async def wait_for_tools(registry: ToolRegistry, changed: Callable[[set[str]], bool]) -> set[str]:
    event = anyio.Event()
    remove = registry.on_change(lambda: event.set())
    with anyio.fail_after(30):
        while not changed(names := {tool.name for tool in registry.tools()}):
            await event.wait()
            event = anyio.Event()
    remove()
    return names


async def test_results_become_values_attachments_and_errors(
    odd_server: OddServer, open_servers: OpenServers
) -> None:
    async with open_servers({"odd": odd_server()}) as (registry, servers, _):
        assert await call(registry, "echo", a="ü") == ToolResult('{"a": "ü"}', value='{"a": "ü"}')
        assert await call(registry, "nothing") == ToolResult("", value="")
        assert (await call(registry, "counts")).value == {"n": 7}
        image = {"type": "image", "data": "AAAA", "mimeType": "image/png"}
        text = "[image image/png]"
        assert await call(registry, "image") == ToolResult(text, value=text, attachments=(image,))
        for name, error in {
            "fail": "no luck today",
            "fail_silent": "The tool failed and did not say why",
            "wrong_shape": "MCP server 'odd': what it gave is not of the form of MCP",
            "liar": "Cannot use the result of liar: $.n: 'seven' is not of type 'number', expected "
            "its output schema",
        }.items():
            result = ToolResult(f"Error: {error}", is_error=True, error_code="TOOL_FAILED")
            assert await call(registry, name) == result
        assert servers.problems == ()


async def test_read_only_tools_alone_may_overlap(
    odd_server: OddServer, open_servers: OpenServers
) -> None:
    async with open_servers({"odd": odd_server()}) as (registry, _, _):
        assert [tool.name for tool in registry.tools() if tool.parallel] == ["reads"]


async def test_progress_and_logs_of_a_call_become_live_lines(
    odd_server: OddServer, open_servers: OpenServers
) -> None:
    lines: list[str] = []
    async with open_servers({"odd": odd_server()}) as (registry, _, _):
        result = await registry.call("progress", {"steps": 1}, on_log=lines.append)
        assert result.value == "done"
    assert sorted(lines) == ["[progress] 1/1 go", "[progress] a log of two lines"]


async def test_progress_is_bounded(odd_server: OddServer, open_servers: OpenServers) -> None:
    lines: list[str] = []
    async with open_servers({"odd": odd_server()}) as (registry, _, _):
        await registry.call("progress", {"steps": 2_000}, on_log=lines.append)
    assert 0 < len(lines) <= 1_000


async def test_changed_list_of_tools_is_registered_anew(
    odd_server: OddServer, open_servers: OpenServers
) -> None:
    async with open_servers({"odd": odd_server()}) as (registry, _, _):
        before = {tool.name: tool for tool in registry.tools()}
        await call(registry, "grow", name="newcomer")
        names = await wait_for_tools(registry, lambda names: "newcomer" in names)
        assert names == {*before, "newcomer"}
        kept = {tool.name: tool for tool in registry.tools()}
        assert all(kept[name] is before[name] for name in before)  # untouched
        await call(registry, "shrink")
        assert await wait_for_tools(registry, lambda names: "newcomer" not in names) == set(before)


async def test_name_that_a_second_server_gets_later_is_prefixed_for_both(
    odd_server: OddServer, open_servers: OpenServers
) -> None:
    config = {"a": odd_server(), "b": odd_server("--list=one")}
    async with open_servers(config) as (registry, _, _):
        assert "single" in {tool.name for tool in registry.tools()}
        await call(registry, "grow", name="single")
        names = await wait_for_tools(registry, lambda names: "a__single" in names)
        assert {"a__single", "b__single"} <= names
        assert "single" not in names


async def test_tool_of_the_host_keeps_its_name(
    odd_server: OddServer, open_servers: OpenServers
) -> None:
    own = Tool("echo", "Ours", {"type": "object"}, call=lambda arguments: "ours")
    async with open_servers({"odd": odd_server()}, tools=[own]) as (registry, servers, _):
        assert (await call(registry, "echo")).value == "ours"
        assert (await call(registry, "odd__echo")).value == "{}"
        assert servers.problems == ()


async def test_bad_tools_are_left_out_and_reported(
    odd_server: OddServer, open_servers: OpenServers
) -> None:
    async with open_servers({"odd": odd_server("--list=bad")}) as (registry, servers, _):
        names = [tool.name for tool in registry.tools()]
        assert names == ["empty_schema", "good", "odd__run_code"]
        sentences = [problem.split(", expected")[0] for problem in servers.problems]
    assert sentences == [
        "MCP server 'odd': Left out tool 'no_schema': inputSchema is something else",
        "MCP server 'odd': Left out tool 'text_schema': inputSchema is something else",
        "MCP server 'odd': Left out tool 'large': it has 2,000,071 bytes",
        "MCP server 'odd': Left out tool number 10: it is not an object",
        "MCP server 'odd': Left out tool number 11: it has no name",
        "Left out tool 'good' of MCP server 'odd': it is listed twice",
        "Left out tool '' of MCP server 'odd': its name has 0 characters",
        f"Left out tool {'n' * 79 + '…'!r} of MCP server 'odd': its name has 300 characters",
        "Left out tool 'bad_schema' of MCP server 'odd': Cannot define tool 'bad_schema': "
        "input_schema is no JSON Schema (7 is not valid under any of the given schemas)",
    ]


async def test_wrong_field_of_a_tool_leaves_out_that_tool_alone(
    odd_server: OddServer, open_servers: OpenServers
) -> None:
    """The SDK refuses a list as a whole."""
    async with open_servers({"odd": odd_server("--list=fields")}) as (registry, servers, _):
        assert [tool.name for tool in registry.tools()] == ["good", "letters"]
        assert [tool.parallel for tool in registry.tools()] == [True, False]
        problems = servers.problems
    mcp = "is not of the form of MCP"
    boolean = "Input should be a valid boolean, unable to interpret input"
    assert problems == (
        f"MCP server 'odd': Left out tool 'title': title {mcp} (Input should be a valid string)",
        f"MCP server 'odd': Left out tool 'hint': annotations.readOnlyHint {mcp} ({boolean})",
        f"MCP server 'odd': Left out tool 'icon': icons.0.src {mcp} (Input should be a valid "
        "string)",
        f"MCP server 'odd': Left out tool 'icons': it {mcp}",
    )


async def test_pattern_that_python_does_not_know_is_left_to_the_server(
    odd_server: OddServer, open_servers: OpenServers
) -> None:
    async with open_servers({"odd": odd_server("--list=fields")}) as (registry, _, _):
        for value in ({"a": "é"}, {"a": "1", "ü": 1}):
            assert (await registry.call("letters", value)).value == value
        assert (await registry.call("letters", {"a": 1})).text == (
            "Error: Cannot call letters: $.a: 1 is not of type 'string', expected what its input "
            "schema allows"
        )


@pytest.mark.parametrize(
    ("kind", "count", "left_out"),
    [
        ("many", 1_000, ["after the first 1,000"]),
        ("large", 41, ["after the first 41"]),
        ("endless", 100, ["after the first 100 pages"]),
        ("none", 0, []),
    ],
)
async def test_list_of_tools_is_bounded(
    kind: str, count: int, left_out: list[str], odd_server: OddServer, open_servers: OpenServers
) -> None:
    async with open_servers({"odd": odd_server(f"--list={kind}")}) as (registry, servers, _):
        assert len(registry.tools()) == count
        sentence = "MCP server 'odd': Left out all tools"
        assert servers.problems == tuple(f"{sentence} {which}" for which in left_out)


async def test_large_result_fails_and_the_server_goes_on(
    odd_server: OddServer, open_servers: OpenServers
) -> None:
    async with open_servers({"odd": odd_server()}, max_message_bytes=100_000) as (registry, _, _):
        pid = await call(registry, "pid")
        assert len(str((await call(registry, "huge", bytes=90_000)).value)) == 90_000
        result = await call(registry, "huge", bytes=10_000_000)
        assert (
            result.text == "Error: MCP server 'odd': it sent a message of more than 100,000 bytes"
        )
        assert await call(registry, "pid") == pid


async def test_message_that_cannot_be_parsed_fails_the_call(
    odd_server: OddServer, open_servers: OpenServers
) -> None:
    async with open_servers({"odd": odd_server()}) as (registry, _, _):
        result = await call(registry, "deep", depth=100_000)
        fault = "it sent a message that is not JSON-RPC 2.0"
        assert result.text == f"Error: MCP server 'odd': {fault}"
        assert (await call(registry, "echo")).value == "{}"


async def test_pattern_of_a_server_cannot_hold_up_the_host(
    odd_server: OddServer, open_servers: OpenServers
) -> None:
    async with open_servers({"odd": odd_server()}) as (registry, _, _):
        value = {"a": "a" * 100 + "!"}  # the pattern would take for ever to say no
        assert (await registry.call("slow_pattern", value)).value == value
        assert (await registry.call("slow_pattern", {"a": 1})).is_error


async def test_junk_between_messages_is_ignored(
    odd_server: OddServer, open_servers: OpenServers
) -> None:
    async with open_servers({"odd": odd_server("--chatty")}) as (registry, servers, _):
        assert (await call(registry, "junk")).value == "after junk"
        assert servers.problems == ()


async def test_arguments_that_cannot_be_sent_are_refused(
    odd_server: OddServer, open_servers: OpenServers
) -> None:
    async with open_servers({"odd": odd_server()}) as (registry, _, _):
        assert (await call(registry, "echo", a="\ud800")).text == (
            "Error: Cannot send the arguments: a string holds an unpaired surrogate, expected text "
            "that has a UTF-8 form"
        )
        deep: list[object] = []
        for _ in range(64):
            deep = [deep]
        assert (await call(registry, "echo", a=deep)).text == (
            "Error: Cannot send the arguments: they are nested too deep, expected at most 64 levels"
        )
        assert (await call(registry, "echo", a="b")).value == '{"a": "b"}'


@pytest.mark.parametrize(
    ("tool", "end"),
    [
        ("crash", f"it exited with code 7\n{LAST_WORDS}"),
        ("kill_self", "it was killed by SIGKILL"),
    ],
)
async def test_crash_fails_the_call_and_the_next_one_starts_the_server_again(
    tool: str, end: str, odd_server: OddServer, open_servers: OpenServers
) -> None:
    async with open_servers({"odd": odd_server()}) as (registry, _, _):
        first = await call(registry, "pid")
        lost = f"Error: MCP server 'odd' was lost during the call: {end}. {NOT_KNOWN}"
        assert (await call(registry, tool)).text == lost
        second = await call(registry, "pid")
        assert second.is_error is False
        assert second != first


async def test_crash_while_idle_costs_at_most_one_call(
    odd_server: OddServer, open_servers: OpenServers, until: Until
) -> None:
    async with open_servers({"odd": odd_server()}) as (registry, _, _):
        pid = int(str((await call(registry, "pid")).value))
        os.kill(pid, 9)
        await until(lambda: is_gone(pid))
        result = await call(registry, "pid")
        if result.is_error:  # the news of the end may still be on its way
            assert "was lost during the call: it was killed by SIGKILL. " in result.text
            result = await call(registry, "pid")
        assert result.is_error is False


async def test_server_that_does_not_come_back_fails_the_call(
    odd_server: OddServer, open_servers: OpenServers, tmp_path: Path
) -> None:
    folder = tmp_path / "here"
    folder.mkdir()
    starts = tmp_path / "starts"
    entry = odd_server(f"--count={starts}", cwd=str(folder))
    async with open_servers({"odd": entry}) as (registry, _, _):
        folder.rmdir()
        await call(registry, "crash")
        result = await call(registry, "pid")
        # Without the command line, which may hold secrets.
        assert result.text == (
            f"Error: Cannot connect to MCP server 'odd': No such file or directory: "
            f"{str(folder)!r}, expected a server that lists its tools"
        )
        folder.mkdir()
        assert (await call(registry, "pid")).is_error is False
    assert starts.read_text() == "started\n" * 2


async def test_cancelled_task_cancels_the_call_at_the_server(
    odd_server: OddServer, open_servers: OpenServers, tmp_path: Path, until: Until
) -> None:
    log = tmp_path / "log"
    async with open_servers({"odd": odd_server(f"--cancelled={log}")}) as (registry, _, _):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(registry.call, "hang", {"file": str(log)})
            await until(lambda: has_text(log, "started"))
            tasks.cancel_scope.cancel()
        await until(lambda: has_text(log, "cancelled"))
        assert (await call(registry, "echo")).value == "{}"
    (_, started), (_, cancelled) = (line.split() for line in log.read_text().splitlines())
    assert started == cancelled  # the same request


async def test_signal_cancels_the_call_at_the_server(
    odd_server: OddServer, open_servers: OpenServers, tmp_path: Path, until: Until
) -> None:
    log = tmp_path / "log"
    signal = AbortSignal()
    results: list[ToolResult] = []
    async with open_servers({"odd": odd_server(f"--cancelled={log}")}) as (registry, _, _):

        async def hang() -> None:
            results.append(await registry.call("hang", {"file": str(log)}, signal=signal))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(hang)
            await until(lambda: has_text(log, "started"))
            await anyio.to_thread.run_sync(signal.abort, "enough")  # from whatever thread
        await until(lambda: has_text(log, "cancelled"))
    assert [(result.is_error, result.error_code) for result in results] == [(True, "ABORTED")]


async def test_call_that_is_never_answered_ends_after_its_limit(
    odd_server: OddServer, open_servers: OpenServers, tmp_path: Path, until: Until
) -> None:
    log = tmp_path / "log"
    entry = odd_server(f"--cancelled={log}")
    async with open_servers({"odd": entry}, call_timeout_ms=300) as (registry, _, _):
        result = await call(registry, "hang", file=str(log))
        assert result.text == (
            "Error: Cannot finish hang: no result after 300 ms, expected one within that time"
        )
        await until(lambda: has_text(log, "cancelled"))


async def test_server_that_cannot_start_is_an_error_at_load(
    odd_server: OddServer, open_servers: OpenServers, capfd: pytest.CaptureFixture[str]
) -> None:
    entry = odd_server("--exit=3")
    with pytest.raises(McpServerError) as caught:
        async with open_servers({"fine": odd_server(), "odd": entry}):
            raise AssertionError("it was loaded")
    address = caught.value.address
    assert "--exit=3" in address
    assert str(caught.value) == (
        f"Cannot connect to MCP server 'odd' ({address}): it exited with code 3, expected a server "
        "that lists its tools\nLast lines of its standard error:\n\x1b[31mcannot find\nthe database"
    )
    assert capfd.readouterr() == ("", "")  # nothing of it reaches the terminal


async def test_missing_command_is_an_error_at_load(open_servers: OpenServers) -> None:
    with pytest.raises(McpServerError) as caught:
        async with open_servers({"odd": {"command": "no-such-command", "args": ["-x"]}}):
            raise AssertionError("it was loaded")
    assert str(caught.value) == (
        "Cannot connect to MCP server 'odd' (no-such-command -x): No such file or directory: "
        "'no-such-command', expected a server that lists its tools"
    )


async def test_mute_server_is_an_error_at_load(
    odd_server: OddServer, open_servers: OpenServers
) -> None:
    with pytest.raises(McpServerError, match=r": no answer after 500 ms, expected a server"):
        async with open_servers({"odd": odd_server("--mute")}, connect_timeout_ms=500):
            raise AssertionError("it was loaded")


@pytest.mark.slow
async def test_server_that_will_not_leave_is_killed_with_its_children(
    odd_server: OddServer, open_servers: OpenServers
) -> None:
    mark = f"--mark={os.getpid()}-stay"
    async with open_servers({"odd": odd_server("--stay", "--child", mark)}) as (registry, _, _):
        assert (await call(registry, "echo")).value == "{}"
        assert len(processes_with(mark)) == 1
    assert processes_with(mark) == []


async def test_child_of_a_server_ends_with_it(
    odd_server: OddServer, open_servers: OpenServers
) -> None:
    async with open_servers({"odd": odd_server("--child")}) as (registry, _, _):
        assert (await call(registry, "echo")).value == "{}"
    # What is left fails the test in its fixture.


async def test_disposed_servers_take_their_tools_away(
    odd_server: OddServer, open_servers: OpenServers
) -> None:
    async with open_servers({}) as (registry, _, ctx):
        async with ctx.child() as inner:
            await inner.plugin(McpServers, {"mcpServers": {"odd": odd_server()}})
            assert "echo" in {tool.name for tool in registry.tools()}
        assert registry.tools() == ()
