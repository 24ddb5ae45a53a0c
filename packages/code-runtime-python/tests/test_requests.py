"""What a request may hold: names that no program could live with are refused before a process is used."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pytest
from run_requests import Run

from code_runtime import (
    BindingNameError,
    CodeBindingErrorClass,
    CodeBindingNamespace,
    CodeRunRequest,
    CodeRuntime,
    RequestTypeError,
)

pytestmark = pytest.mark.anyio

IDENTIFIER = "a letter A-Z, a-z or underscore, then letters, digits, underscores"
RESERVED = "a word that neither TypeScript nor Python reserves"
OWNED = "a name that no runtime uses itself"


def echo(value: object) -> object:
    return value


async def refusal(runtime: CodeRuntime, *bindings: CodeBindingNamespace) -> str:
    with pytest.raises(BindingNameError) as caught:
        await runtime.run(CodeRunRequest("raise SystemExit", bindings))
    prefix = "Cannot declare bindings: "
    assert str(caught.value).startswith(prefix)
    return str(caught.value).removeprefix(prefix)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        *[(name, IDENTIFIER) for name in ("$tools", "1a", "a-b", "a b", "", "é", "a\n")],
        *[(name, RESERVED) for name in ("class", "lambda", "typeof", "match", "type", "_")],
        *[
            (name, OWNED)
            for name in ("console", "__dsh_main__", "__builtins__", "__name__", "__debug__")
        ],
    ],
)
async def test_global_name_is_one_that_both_languages_can_live_with(
    runtime: CodeRuntime, name: str, expected: str
) -> None:
    """PY-038, PY-039, PY-040; PY-043 for the name of an error class."""
    seen = await refusal(runtime, CodeBindingNamespace(name, {"echo": echo}))
    assert seen == f"bindings[0].global_name is {name!r}, expected {expected}"
    error_class = CodeBindingErrorClass(name, "member")
    seen = await refusal(runtime, CodeBindingNamespace("tools", {"echo": echo}, error_class))
    assert seen == f"bindings[0].error_class.name is {name!r}, expected {expected}"


async def test_two_namespaces_need_two_names(runtime: CodeRuntime) -> None:
    """PY-041."""
    tools = CodeBindingNamespace("tools", {"echo": echo})
    assert await refusal(runtime, tools, tools) == (
        "bindings[1].global_name is 'tools', expected one namespace for each global name"
    )


@pytest.mark.parametrize("name", ["tools", "other", "OtherError"])
async def test_error_class_needs_a_name_of_its_own(runtime: CodeRuntime, name: str) -> None:
    """PY-042: not that of its namespace, of another, or of another class."""
    other = CodeBindingNamespace("other", {}, CodeBindingErrorClass("OtherError", "member"))
    tools = CodeBindingNamespace("tools", {}, CodeBindingErrorClass(name, "member"))
    assert await refusal(runtime, other, tools) == (
        f"bindings[1].error_class.name is {name!r}, "
        "expected a name that no namespace and no other error class has"
    )


@pytest.mark.parametrize(
    "name",
    ["", "args", "name", "message", "stack", "with_traceback", "add_note", "__class__", "__x__"],
)
async def test_member_property_leaves_the_error_intact(runtime: CodeRuntime, name: str) -> None:
    """PY-044."""
    tools = CodeBindingNamespace("tools", {}, CodeBindingErrorClass("ToolError", name))
    assert (await refusal(runtime, tools)).startswith(
        f"bindings[0].error_class.member_name_property is {name!r}, expected a name that is not "
        "empty, not of the form '__x__', and none of "
    )


async def test_member_property_may_be_no_identifier(run: Run) -> None:
    """PY-044."""

    def fail(value: object) -> object:
        raise ValueError("no")

    error_class = CodeBindingErrorClass("ToolError", "tool-name")
    result = await run(
        "try:\n    await tools.fail(1)\nexcept ToolError as error:\n"
        "    return getattr(error, 'tool-name')",
        bindings=[CodeBindingNamespace("tools", {"fail": fail}, error_class)],
    )
    assert result.value == "fail"


class Accessors(Mapping[str, object]):
    """A mapping that counts how often it is read and gives something else each time."""

    def __init__(self) -> None:
        self.reads: list[str] = []

    def __getitem__(self, name: str) -> object:
        if name == "broken":
            raise LookupError("no such member")
        self.reads.append(name)
        count = len(self.reads)
        return lambda value: [count, value]

    def __iter__(self) -> Iterator[str]:
        return iter(["count"])

    def __len__(self) -> int:
        return 1


async def test_members_are_read_once(run: Run) -> None:
    """PY-046: when the namespace is built; a mapping that changes its answers changes nothing."""
    functions = Accessors()
    namespace = CodeBindingNamespace("tools", functions)  # type: ignore[arg-type]
    for _ in range(2):
        result = await run(
            "return [await tools.count('a'), await tools['count']('b')]", bindings=[namespace]
        )
        assert result.value == [[1, "a"], [1, "b"]]
    assert functions.reads == ["count"]


async def test_accessor_that_raises_is_the_error_of_the_host() -> None:
    """PY-045: where the namespace is built, before there is a request."""

    class Broken(Accessors):
        def __iter__(self) -> Iterator[str]:
            return iter(["count", "broken"])

    with pytest.raises(LookupError, match="no such member"):
        CodeBindingNamespace("tools", Broken())  # type: ignore[arg-type]


async def test_members_that_cannot_be_called_are_not_shown(run: Run) -> None:
    """PY-047."""
    tools = {"echo": echo, "data": 5, "none": None}
    result = await run(
        "return [dir(tools), hasattr(tools, 'data'), await tools.echo(1)]",
        tools,  # type: ignore[arg-type]
    )
    assert result.value == [["echo"], False, 1]


async def test_members_may_be_named_like_internals(run: Run) -> None:
    """PY-048."""
    names = ["__proto__", "constructor", "__class__", "__dict__", "__await__"]
    tools = {name: (lambda value, name=name: [name, value]) for name in names}
    result = await run(
        "return [await tools.__class__(0), [await tools[name](1) for name in sorted(tools)]]",
        tools,
    )
    assert result.value == [["__class__", 0], [[name, 1] for name in sorted(names)]]


@pytest.mark.parametrize("request_", ["return 1", None, {"program": "return 1"}])
async def test_run_takes_a_request_only(runtime: CodeRuntime, request_: object) -> None:
    with pytest.raises(RequestTypeError) as caught:
        await runtime.run(request_)  # type: ignore[arg-type]
    assert caught.value.field == "request"


async def test_request_has_no_field_for_policy_or_directory() -> None:
    """PY-051: a limit of its own is `max_wall_ms`, which can only be lower than the provider's."""
    for field in ("timeout", "cwd", "sandbox"):
        with pytest.raises(TypeError, match=f"unexpected keyword argument '{field}'"):
            CodeRunRequest("return 1", **{field: None})  # type: ignore[arg-type]


async def test_wall_of_a_request_can_only_lower_that_of_the_provider(run: Run) -> None:
    """PY-051."""
    result = await run("import asyncio\nawait asyncio.sleep(60)", max_wall_ms=200)
    assert result.error is not None
    assert (result.error.kind, result.error.message) == (
        "timeout",
        "wall-clock ceiling exceeded: 200 ms",
    )
