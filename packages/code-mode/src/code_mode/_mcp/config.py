"""The configuration of the MCP servers: the usual `mcpServers` JSON, and options of this package.

The JSON is the user's own and trusted: it names commands that are started with the user's rights.
Fields that other clients know and this one does not are left alone.
"""

from __future__ import annotations

import json
import os
import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal, TypeAlias, cast, final, get_args
from urllib.parse import urlsplit

from .._tools import is_limit, seen
from .errors import McpConfigError

Prefix: TypeAlias = Literal["auto", "always", "never"]
PREFIXES: Final[tuple[Prefix, ...]] = get_args(Prefix)
SERVERS: Final = "mcpServers"
_OPTIONS: Final = ("prefix", "connect_timeout_ms", "call_timeout_ms", "max_message_bytes")
_STDIO: Final = "stdio"
_HTTP: Final = ("http", "streamable-http", "streamableHttp", "streamable_http")
_VARIABLE: Final = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")
_MAX_ADDRESS_CHARS: Final = 200


@final
@dataclass(frozen=True, slots=True)
class StdioServer:
    """A server that is started as a child process and spoken to over its standard streams.

    Args:
        name: Its key in the config.
        command: The executable.
        args: Its arguments.
        env: Variables on top of the few that a server inherits (`HOME`, `LOGNAME`, `PATH`,
            `SHELL`, `TERM`, `USER`).
        cwd: Its working directory; None for that of this process.
    """

    name: str
    command: str
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    cwd: str | None = None

    @property
    def address(self) -> str:
        """The command line, for a person."""
        return _shorten(shlex.join((self.command, *self.args)))


@final
@dataclass(frozen=True, slots=True)
class HttpServer:
    """A server that is reached over streamable HTTP.

    Args:
        name: Its key in the config.
        url: Its endpoint.
        headers: Sent with every request.
    """

    name: str
    url: str = field(repr=False)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)

    @property
    def address(self) -> str:
        """The URL without user and query, which may hold secrets."""
        parts = urlsplit(self.url)
        return _shorten(f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}")


ServerEntry: TypeAlias = StdioServer | HttpServer


@final
@dataclass(frozen=True, slots=True)
class McpConfig:
    """All servers, and what holds for each of them.

    Units: `_ms` milliseconds, `_bytes` bytes.

    Args:
        servers: In the order of the config.
        prefix: Whether the names of tools begin with `<server>__` (see `names.py`).
        connect_timeout_ms: How long a server may take to start and to list its tools.
        call_timeout_ms: How long one call may take; None leaves it to the registry.
        max_message_bytes: How large one message of a server may be.
    """

    servers: tuple[ServerEntry, ...]
    prefix: Prefix = "auto"
    connect_timeout_ms: float = 30_000
    call_timeout_ms: float | None = 300_000
    max_message_bytes: int = 33_554_432


def read_config(config: object) -> McpConfig:
    """Read what `ctx.plugin(McpServers, config)` was given.

    Shape: the path of a JSON file, or a mapping with `mcpServers` (a mapping of names to servers,
    or the path of a JSON file that has one) and the options `prefix`, `connect_timeout_ms`,
    `call_timeout_ms` and `max_message_bytes`. In `command`, `args`, `env`, `cwd`, `url` and
    `headers`, `${NAME}` stands for a variable of the environment, `${NAME:-text}` for one with a
    default.

    Raises:
        McpConfigError: The file cannot be read, or a field has the wrong type; the message names
            it.
    """
    if isinstance(config, McpConfig):
        return config
    if isinstance(config, (str, os.PathLike)):
        config = {SERVERS: config}
    _check("config", config, isinstance(config, Mapping), "the path of a JSON file, or a mapping")
    given = cast("Mapping[object, object]", config)
    for key in given:
        known = f"the fields {', '.join((SERVERS, *_OPTIONS))}"
        _check("config", key, key == SERVERS or key in _OPTIONS, known)
    servers = given.get(SERVERS)
    if isinstance(servers, (str, os.PathLike)):
        servers = _read_file(Path(servers))
    make = cast("Callable[..., McpConfig]", McpConfig)
    return make(_read_servers(servers), **_read_options(given))


def _read_file(path: Path) -> object:
    where, expected = repr(str(path)), "a file of JSON with an object mcpServers"
    try:
        content: object = json.loads(path.read_bytes().decode("utf-8-sig"))
    except OSError as error:
        raise McpConfigError(where, error.strerror or "unreadable", expected) from None
    except (ValueError, RecursionError) as error:
        raise McpConfigError(where, f"not JSON ({error})", expected) from None
    if not isinstance(content, dict) or SERVERS not in content:
        raise McpConfigError(where, "JSON without the field mcpServers", expected)
    return cast("object", content[SERVERS])


def _read_servers(servers: object) -> tuple[ServerEntry, ...]:
    expected = "a mapping of names to servers"
    _check(SERVERS, servers, isinstance(servers, Mapping), expected)
    entries: list[ServerEntry] = []
    for name, entry in cast("Mapping[object, object]", servers).items():
        is_name = isinstance(name, str) and bool(name.strip())
        _check(f"a name in {SERVERS}", name, is_name, "a string that is not empty")
        where = f"{SERVERS}.{name}"
        _check(where, entry, isinstance(entry, Mapping), "an object with command or url")
        fields = cast("Mapping[str, object]", entry)
        disabled = fields.get("disabled", False)
        _check(f"{where}.disabled", disabled, isinstance(disabled, bool), "a boolean")
        if not disabled:
            entries.append(_read_entry(str(name), where, fields))
    return tuple(entries)


def _read_entry(name: str, where: str, fields: Mapping[str, object]) -> ServerEntry:
    if "command" in fields and "url" in fields:
        raise McpConfigError(where, "an object with both command and url", "one of the two")
    if "command" in fields:
        _check_transport(where, fields, (_STDIO,))
        cwd = fields.get("cwd")
        return StdioServer(
            name,
            _text(f"{where}.command", fields["command"], "the executable of the server"),
            _texts(f"{where}.args", fields.get("args")),
            _text_map(f"{where}.env", fields.get("env")),
            None if cwd is None else _text(f"{where}.cwd", cwd, "a folder"),
        )
    if "url" in fields:
        _check_transport(where, fields, _HTTP)
        url = _text(f"{where}.url", fields["url"], "an http or https URL")
        return HttpServer(
            name,
            _checked_url(f"{where}.url", url),
            _text_map(f"{where}.headers", fields.get("headers")),
        )
    raise McpConfigError(where, "an object with neither command nor url", "one of the two")


def _check_transport(where: str, fields: Mapping[str, object], allowed: tuple[str, ...]) -> None:
    for key in ("type", "transport"):
        if key in fields:
            value = fields[key]
            _check(f"{where}.{key}", value, value in allowed, " or ".join(map(repr, allowed[:2])))


def _checked_url(where: str, url: str) -> str:
    expected = "an http or https URL with a host"
    try:
        parts = urlsplit(url)
        is_right = parts.scheme in ("http", "https") and bool(parts.hostname)
    except ValueError:
        is_right = False
    if not is_right:
        raise McpConfigError(where, "something else", expected)  # it may hold a secret
    return url


def _read_options(given: Mapping[object, object]) -> dict[str, object]:
    options = {str(key): value for key, value in given.items() if key in _OPTIONS}
    if "prefix" in options:
        _check("prefix", options["prefix"], options["prefix"] in PREFIXES, " or ".join(PREFIXES))
    for name in ("connect_timeout_ms", "call_timeout_ms"):
        if name in options:
            value = options[name]
            may_be_none = name == "call_timeout_ms"
            expected = "a positive, finite number of milliseconds"
            is_right = is_limit(value) and (value is not None or may_be_none)
            _check(name, value, is_right, expected + (", or None" if may_be_none else ""))
    if "max_message_bytes" in options:
        count = options["max_message_bytes"]
        is_right = type(count) is int and count >= 1_024
        _check("max_message_bytes", count, is_right, "a whole number of at least 1,024 bytes")
    return options


def _text(where: str, value: object, expected: str) -> str:
    is_right = isinstance(value, str) and bool(value) and "\0" not in value
    _check(where, value, is_right, expected)
    return _expand(where, str(value))


def _texts(where: str, value: object) -> tuple[str, ...]:
    if value is None:
        return ()
    is_list = isinstance(value, Sequence) and not isinstance(value, (str, bytes))
    _check(where, value, is_list, "a list of strings")
    items = cast("Sequence[object]", value)
    for index, item in enumerate(items):
        is_right = isinstance(item, str) and "\0" not in item
        _check(f"{where}[{index}]", item, is_right, "a string")
    return tuple(_expand(f"{where}[{index}]", str(item)) for index, item in enumerate(items))


def _text_map(where: str, value: object) -> dict[str, str]:
    if value is None:
        return {}
    _check(where, value, isinstance(value, Mapping), "a mapping of strings to strings")
    texts: dict[str, str] = {}
    for key, item in cast("Mapping[object, object]", value).items():
        is_name = isinstance(key, str) and bool(key) and "\0" not in key
        _check(f"a name in {where}", key, is_name, "a string")
        if not isinstance(item, str) or "\0" in item:
            # Not shown: the values are often secrets.
            raise McpConfigError(f"{where}.{key}", f"of type {type(item).__name__}", "a string")
        texts[str(key)] = _expand(f"{where}.{key}", item)
    return texts


def _expand(where: str, text: str) -> str:
    def value_of(match: re.Match[str]) -> str:
        value = os.environ.get(match[1], match[2])
        if value is None:
            raise McpConfigError(where, f"{match[0]!r}", "the name of a variable that is set")
        return value

    return _VARIABLE.sub(value_of, text)


def _shorten(text: str) -> str:
    return text if len(text) <= _MAX_ADDRESS_CHARS else text[: _MAX_ADDRESS_CHARS - 1] + "…"


def _check(where: str, value: object, is_right: bool, expected: str) -> None:
    if not is_right:
        raise McpConfigError(where, seen(value), expected)
