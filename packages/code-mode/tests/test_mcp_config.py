"""The configuration of MCP servers, and the names that their tools get."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from code_mode._mcp.config import HttpServer, McpConfig, StdioServer, read_config
from code_mode._mcp.errors import McpConfigError
from code_mode._mcp.names import assign_names

SERVERS = {
    "files": {
        "command": "npx",
        "args": ["-y", "server files"],
        "env": {"TOKEN": "${MCP_TEST_TOKEN}", "MODE": "${MCP_TEST_MODE:-plain}"},
        "cwd": "/tmp",
        "autoApprove": ["x"],
    },
    "web": {
        "type": "http",
        "url": "https://user:secret@example.com/mcp?key=secret",
        "headers": {"Authorization": "Bearer ${MCP_TEST_TOKEN}"},
    },
    "off": {"command": 7, "disabled": True},
}


def test_usual_json_is_read_from_a_mapping_or_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MCP_TEST_TOKEN", "t")
    monkeypatch.delenv("MCP_TEST_MODE", raising=False)
    path = tmp_path / "servers.json"
    path.write_text("\ufeff" + json.dumps({"mcpServers": SERVERS, "other": 1}))
    files = StdioServer(
        "files", "npx", ("-y", "server files"), {"TOKEN": "t", "MODE": "plain"}, "/tmp"
    )
    web = HttpServer(
        "web", "https://user:secret@example.com/mcp?key=secret", {"Authorization": "Bearer t"}
    )
    expected = McpConfig((files, web))
    assert read_config({"mcpServers": SERVERS}) == expected
    assert read_config(path) == expected
    assert read_config(str(path)) == expected
    assert read_config({"mcpServers": path, "prefix": "never"}) == McpConfig((files, web), "never")
    assert read_config(expected) is expected


def test_addresses_and_reprs_hold_no_secrets() -> None:
    files = StdioServer("files", "npx", ("-y", "server files"), {"TOKEN": "secret"})
    web = HttpServer("web", "https://user:secret@example.com/mcp?key=secret", {"a": "secret"})
    assert files.address == "npx -y 'server files'"
    assert web.address == "https://example.com/mcp"
    assert "secret" not in repr((files, web))
    assert StdioServer("long", "x" * 999).address == "x" * 199 + "…"


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (None, "config is None, expected the path of a JSON file, or a mapping"),
        ({}, "mcpServers is None, expected a mapping of names to servers"),
        (
            {"servers": {}},
            "config is 'servers', expected the fields mcpServers, prefix, connect_timeout_ms, "
            "call_timeout_ms, max_message_bytes",
        ),
        ({"mcpServers": {" ": {}}}, "a name in mcpServers is ' ', expected a string that is not"),
        ({"mcpServers": {"a": 1}}, "mcpServers.a is 1, expected an object with command or url"),
        ({"mcpServers": {"a": {}}}, "mcpServers.a is an object with neither command nor url"),
        (
            {"mcpServers": {"a": {"command": "x", "url": "http://h"}}},
            "mcpServers.a is an object with both command and url, expected one of the two",
        ),
        ({"mcpServers": {"a": {"command": ""}}}, "mcpServers.a.command is '', expected the exec"),
        (
            {"mcpServers": {"a": {"command": "x", "args": "y"}}},
            "mcpServers.a.args is 'y', expected a list of strings",
        ),
        (
            {"mcpServers": {"a": {"command": "x", "args": ["y", 1]}}},
            "mcpServers.a.args[1] is 1, expected a string",
        ),
        (
            {"mcpServers": {"a": {"command": "x", "env": {"B": 12345}}}},
            "mcpServers.a.env.B is of type int, expected a string",
        ),
        ({"mcpServers": {"a": {"command": "x", "cwd": 1}}}, "mcpServers.a.cwd is 1, expected a"),
        (
            {"mcpServers": {"a": {"command": "x", "type": "http"}}},
            "mcpServers.a.type is 'http', expected 'stdio'",
        ),
        (
            {"mcpServers": {"a": {"url": "http://h", "transport": "sse"}}},
            "mcpServers.a.transport is 'sse', expected 'http' or 'streamable-http'",
        ),
        (
            {"mcpServers": {"a": {"url": "ftp://user:secret@h"}}},
            "mcpServers.a.url is something else, expected an http or https URL with a host",
        ),
        (
            {"mcpServers": {"a": {"url": "http://h", "headers": []}}},
            "mcpServers.a.headers is an object of type list, expected a mapping of strings",
        ),
        (
            {"mcpServers": {"a": {"command": "x", "args": ["${MCP_TEST_UNSET}"]}}},
            "mcpServers.a.args[0] is '${MCP_TEST_UNSET}', expected the name of a variable that is",
        ),
        (
            {"mcpServers": {"a": {"command": "x", "disabled": "no"}}},
            "mcpServers.a.disabled is 'no', expected a boolean",
        ),
        ({"mcpServers": {}, "prefix": "x"}, "prefix is 'x', expected auto or always or never"),
        (
            {"mcpServers": {}, "connect_timeout_ms": None},
            "connect_timeout_ms is None, expected a positive, finite number of milliseconds",
        ),
        (
            {"mcpServers": {}, "call_timeout_ms": 0},
            "call_timeout_ms is 0, expected a positive, finite number of milliseconds, or None",
        ),
        (
            {"mcpServers": {}, "max_message_bytes": 10},
            "max_message_bytes is 10, expected a whole number of at least 1,024 bytes",
        ),
    ],
)
def test_config_that_cannot_be_used_names_the_field(config: object, message: str) -> None:
    with pytest.raises(McpConfigError) as caught:
        read_config(config)
    assert str(caught.value).startswith(f"Cannot use the MCP config: {message}")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"\xff", "is not JSON ('utf-8' codec can't decode"),
        (b"[", "is not JSON ("),
        (b"[" * 100_000, "is not JSON ("),
        (b"{}", "is JSON without the field mcpServers"),
    ],
    ids=["no text", "cut", "deep", "other"],
)
def test_file_that_cannot_be_used_is_named(content: bytes, message: str, tmp_path: Path) -> None:
    path = tmp_path / "servers.json"
    path.write_bytes(content)
    with pytest.raises(McpConfigError) as caught:
        read_config(path)
    assert str(caught.value).startswith(f"Cannot use the MCP config: {str(path)!r} {message}")
    assert str(caught.value).endswith("expected a file of JSON with an object mcpServers")


TOOLS = {"a": ["x", "y", "run_code", "y"], "b": ["x", "z"]}
TWICE = "Left out tool 'y' of MCP server 'a': it is listed twice"


@pytest.mark.parametrize(
    ("prefix", "names", "problems"),
    [
        ("auto", ["a__x", "y", "a__run_code", "b__x", "z"], [TWICE]),
        ("always", ["a__x", "a__y", "a__run_code", "b__x", "b__z"], [TWICE]),
        (
            "never",
            ["x", "y", "z"],
            [
                "Left out tool 'run_code' of MCP server 'a': 'run_code' is reserved",
                TWICE,
                "Left out tool 'x' of MCP server 'b': server 'a' has 'x' already",
            ],
        ),
    ],
)
def test_names_follow_the_rule(prefix: str, names: list[str], problems: list[str]) -> None:
    assigned, found = assign_names(TOOLS, prefix)  # type: ignore[arg-type]
    assert (list(assigned.values()), found) == (names, problems)


def test_names_do_not_depend_on_the_order_of_servers() -> None:
    turned = dict(reversed(TOOLS.items()))
    assert assign_names(turned, "auto")[0] == assign_names(TOOLS, "auto")[0]


def test_name_that_looks_like_a_prefixed_one_is_left_out() -> None:
    tools = {"a": ["x"], "b": ["x"], "c": ["a__x"]}
    names, problems = assign_names(tools, "auto")
    assert names == {("a", "x"): "a__x", ("b", "x"): "b__x"}
    reason = "server 'a' has 'a__x' already"
    assert problems == [f"Left out tool 'a__x' of MCP server 'c': {reason}"]
