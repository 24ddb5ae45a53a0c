"""What the registry shows a model, and what becomes of the model's own calls."""

from __future__ import annotations

import anyio
import pytest
from code_mode_host import LANGUAGES, open_tools, run_program

from code_mode import (
    CodeModeError,
    Tool,
    ToolDefinitionError,
    ToolExistsError,
    ToolOutput,
    ToolRegistry,
    ToolResult,
    UnknownLanguageError,
    tool,
)
from code_runtime import (
    CodeRunRequest,
    CodeRunResult,
    CodeRuntime,
    Context,
    ServiceMissingError,
)
from code_runtime_python import PythonCodeRuntime

pytestmark = pytest.mark.anyio
PIXEL = {"type": "image", "data": "AA==", "mimeType": "image/png"}


@tool
async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@tool(from_programs=False)
def login(user: str) -> str:
    """Ask the person to log in."""
    return f"welcome {user}"


class Nothing(CodeRuntime):
    """A runtime that is only loaded."""

    @property
    def language(self) -> str:
        return "python"

    @property
    def isolation(self) -> str:
        return "none"

    async def run(self, request: CodeRunRequest) -> CodeRunResult:
        return CodeRunResult([])


def _names(tools: tuple[Tool, ...]) -> list[str]:
    return [tool.name for tool in tools]


async def test_mode_decides_what_the_model_is_offered() -> None:
    """CM-002, CM-003, CM-004, CM-005."""
    async with open_tools(login, add) as tools:
        native, both = tools.view(mode="native"), tools.view(mode="both")
        assert _names(tools.wire_tools()) == ["run_code"]
        assert _names(native.wire_tools()) == ["add", "login"]
        assert _names(both.wire_tools()) == ["add", "login", "run_code"]
        assert native.sdk_text() == ""
        rule, _, text = tools.sdk_text().partition("\n\n")
        assert rule == (
            "`run_code` is the only tool that you can call directly; a direct call of any other "
            "name fails. The tools below are reached from inside its program."
        )
        assert both.sdk_text() == text
        assert "async def add(self, args: AddArgs) -> int:" in text
        assert "login" not in text


async def test_same_tools_give_the_same_text() -> None:
    """CM-006: and another set gives another one."""
    async with open_tools(add, login) as one, open_tools(login, add) as other:
        before = one.sdk_text()
        assert before == other.sdk_text()
        remove = one.register(Tool("later", "Comes later.", {}, call=len))
        assert "later" in one.sdk_text()
        remove()
        remove()
        assert one.sdk_text() == before


async def test_prompt_above_the_size_has_names_and_programs_look_them_up() -> None:
    async with open_tools(add, names_only_above_bytes=100) as tools:
        assert "AddArgs" not in tools.sdk_text()
        assert "add" in tools.sdk_text()
        result = await run_program(
            tools,
            """
            found = await tools.search_tools({"query": "numbers"})
            print(found)
            text = await tools.describe_tool({"name": found[0]["name"]})
            print("async def add(self, args: AddArgs) -> int:" in text)
            try:
                await tools.describe_tool({"name": "ad"})
            except ToolCallError as error:
                print(error)
            return await tools.add({"a": 1, "b": 2})
            """,
        )
    assert result.text.split("\n") == [
        "[{'name': 'add', 'description': 'Add two numbers.'}]",
        "True",
        "Cannot describe 'ad': there is no such tool, expected one of its names, such as add",
        "3",
    ]


@pytest.mark.parametrize("language", LANGUAGES)
async def test_run_code_speaks_of_the_language_of_the_runtime_alone(language: str) -> None:
    """CM-018, CM-019, CM-020, CM-021."""
    async with open_tools(language=language) as tools:
        (run_code,) = tools.wire_tools()
    other = {"python": "TypeScript", "typescript": "Python"}[language]
    properties = run_code.input_schema["properties"]
    text = f"{run_code.description} {properties}"
    assert other not in text
    assert "`code`" in run_code.description
    assert "`description`" in run_code.description
    assert "`await` every call" in run_code.description
    assert "Only what the program prints or returns comes back" in run_code.description
    assert "images of tools are attached after the run" in run_code.description
    assert run_code.input_schema["required"] == ["code", "description"]


@pytest.mark.parametrize("language", LANGUAGES)
async def test_program_calls_tools_and_its_output_comes_back(language: str) -> None:
    """CM-022, CM-028, CM-057, CM-062, CM-083: in mode code programs may call what models may not."""
    programs = {
        "python": 'print("sum"); return await tools.add({"a": 1, "b": 2})',
        "typescript": 'console.log("sum"); return await tools.add({ a: 1, b: 2 });',
    }
    async with open_tools(add, language=language) as tools:
        result = await run_program(tools, programs[language])
        silent = await run_program(tools, "return None" if language == "python" else "return null")
        nothing = await run_program(tools, "pass" if language == "python" else ";")
    assert (result.text, result.is_error) == ("sum\n3", False)
    assert result.value == {"logs": ["sum"], "result": 3}
    assert [(call.call_id, call.tool_name, call.outcome) for call in result.calls] == [
        ("outer:code:1", "add", "ok")
    ]
    assert (silent.text, silent.value) == ("null", {"logs": [], "result": None})
    assert (nothing.text, nothing.value) == ("The program completed with no output.", {"logs": []})


@pytest.mark.parametrize("language", LANGUAGES)
async def test_program_reaches_neither_run_code_nor_what_is_not_for_programs(language: str) -> None:
    """CM-023."""
    programs = {
        "python": 'return [hasattr(tools, n) for n in ("add", "run_code", "login")]',
        "typescript": 'return ["add", "run_code", "login"].map((n) => n in tools);',
    }
    async with open_tools(add, login, language=language, mode="both") as tools:
        result = await run_program(tools, programs[language])
    assert result.value == {"logs": [], "result": [True, False, False]}


async def test_direct_call_of_a_tool_in_mode_code_says_what_to_do() -> None:
    """CM-026, CM-027."""
    async with open_tools(add) as tools:
        known = await tools.call("add", {"a": 1, "b": 2})
        unknown = await tools.call("sub", {})
        native = await tools.view(mode="native").call("add", {"a": 1, "b": 2})
        hidden = await tools.view(mode="native").call("run_code", {})
    assert known == ToolResult(
        "Error: Unknown tool: add cannot be called directly, only `run_code` can; call it inside a "
        "program as a member of `tools`",
        is_error=True,
        error_code="UNKNOWN_TOOL",
    )
    assert unknown == ToolResult(
        "Error: Unknown tool: sub", is_error=True, error_code="UNKNOWN_TOOL"
    )
    assert native == ToolResult("3", value=3)
    assert hidden.text == "Error: Unknown tool: run_code"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "expected an object"),
        ({}, "`code` is missing or no string, expected both `code` and `description`"),
        (
            {"code": "pass"},
            "`description` is missing or no string, expected both `code` and `description`",
        ),
        (
            {"code": "pass", "description": " \n"},
            "`description` is blank, expected what the program does in 5 to 10 words",
        ),
        (
            {"code": "pass", "description": "a", "timeout": 3},
            "$: Additional properties are not allowed ('timeout' was unexpected), expected what "
            "its input schema allows",
        ),
    ],
)
async def test_run_code_refuses_wrong_arguments(arguments: object, message: str) -> None:
    """CM-018, CM-019."""
    async with open_tools() as tools:
        result = await tools.call("run_code", arguments)
    assert result == ToolResult(
        f"Error: Cannot call run_code: {message}", is_error=True, error_code="INVALID_ARGUMENTS"
    )


async def test_failed_program_is_an_error_that_lists_its_calls() -> None:
    """CM-086."""
    async with open_tools(add) as tools:
        result = await run_program(
            tools,
            """
            print("begin")
            await tools.add({"a": 1, "b": 2})
            raise ValueError("no")
            """,
        )
    assert (result.is_error, result.error_code, result.value) == (True, "CODE_RUN_FAILED", None)
    assert result.text.split("\n") == [
        "Error: (exception) Traceback (most recent call last):",
        '  File "program.py", line 3, in <module>',
        '    raise ValueError("no")',
        "ValueError: no",
        "",
        "Captured output:",
        "begin",
        "",
        "Tool calls of the program until then; do not repeat what must happen only once:",
        '1. add({"a":1,"b":2}) finished',
    ]


async def test_attachments_follow_the_order_of_the_calls_also_after_a_failure() -> None:
    """CM-077, CM-078."""
    names = iter("ab")
    draw = Tool(
        "draw", "", {}, call=lambda args: ToolOutput("drawn", [PIXEL | {"name": next(names)}])
    )
    async with open_tools(draw) as tools:
        good = await run_program(tools, "return await tools.draw({})")
        bad = await run_program(tools, "await tools.draw({})\nraise SystemExit")
    assert (good.text, good.attachments) == ("drawn", (PIXEL | {"name": "a"},))
    assert (bad.is_error, bad.attachments) == (True, (PIXEL | {"name": "b"},))


async def test_attachments_have_a_limit_in_all() -> None:
    block = {"type": "image", "data": "A" * 9_000_000, "mimeType": "image/png"}
    draw = Tool("draw", "", {}, call=lambda args: ToolOutput(None, [block]))
    async with open_tools(draw) as tools:
        result = await run_program(tools, "for _ in range(4):\n    await tools.draw({})")
    assert result.attachments == (
        block,
        block,
        {"type": "text", "text": "2 more attachments left out: too much in all"},
    )


async def test_large_value_reaches_the_program_whole_and_the_model_in_part() -> None:
    """CM-089."""
    big = Tool("big", "", {}, call=lambda arguments: "x" * 300_000)
    async with open_tools(big, max_result_chars=1_000) as tools:
        result = await run_program(
            tools, "text = await tools.big({}); print(len(text)); return text"
        )
    assert result.text.startswith("300000\nxxx")
    assert "\n… 299087 characters left out; print or return less …\n" in result.text
    assert len(result.text) <= 1_000
    assert result.value == {"logs": ["300000"], "result": "x" * 300_000}


async def test_listener_that_raises_does_not_undo_a_change(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def fail() -> None:
        raise LookupError("gone")

    async with open_tools() as tools:
        tools.on_change(fail)
        tools.register(add)
        assert _names(tools.tools()) == ["add"]
    assert [record.getMessage() for record in caplog.records] == [
        "a listener of changed tools raised"
    ]


async def test_registry_follows_the_life_of_the_runtime() -> None:
    """CM-013, CM-087."""
    async with Context() as ctx:
        handle = await ctx.plugin(ToolRegistry, {"tools": [add]})
        states: list[str] = [handle.state]
        with pytest.raises(ServiceMissingError):
            ToolRegistry.of(ctx)
        runtime = await ctx.plugin(PythonCodeRuntime)
        with anyio.fail_after(10):
            while ctx.get("tools") is None:
                await anyio.lowlevel.checkpoint()
        states.append(handle.state)
        tools = ToolRegistry.of(ctx)
        assert getattr(ctx, "tools") is tools  # noqa: B009
        await runtime.dispose()
        states.append(handle.state)
        assert states == ["pending", "active", "pending"]
        result = await run_program(tools, "pass")
    assert result.is_error
    assert result.text == (
        "Error: Cannot run a program: PythonCodeRuntime is disposed, "
        "expected a call before the end of its disposal"
    )


async def test_language_without_a_text_is_refused_at_load() -> None:
    """CM-008, CM-009."""

    class Strange(Nothing):
        @property
        def language(self) -> str:
            return "constructor"

    async with Context() as ctx:
        await ctx.plugin(Strange)
        with pytest.raises(UnknownLanguageError) as caught:
            await ctx.plugin(ToolRegistry)
    assert str(caught.value) == (
        "Cannot render the SDK: the language is 'constructor', expected 'typescript' or 'python'"
    )


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"mode": "none"}, "mode is 'none', expected one of code, native, both"),
        (
            {"max_parallel_calls": 0},
            "max_parallel_calls is 0, expected a whole number of 1 or more",
        ),
        (
            {"max_parallel_calls": 2.5},
            "max_parallel_calls is 2.5, expected a whole number of 1 or more",
        ),
        ({"max_calls": True}, "max_calls is True, expected a whole number of 1 or more"),
        (
            {"call_timeout_ms": float("nan")},
            "call_timeout_ms is nan, expected a positive, finite number of milliseconds, or None",
        ),
        ({"tools": "add"}, "tools is 'add', expected a list"),
        ({"hooks": [1]}, "hooks[0] is 1, expected a ToolHooks"),
        ({"on_event": 1}, "on_event is 1, expected a function, or None"),
        ([], "config is an object of type list, expected a mapping of fields"),
        (
            {"tool": []},
            "config is 'tool', expected the fields tools, mode, max_parallel_calls, max_calls, "
            "call_timeout_ms, max_result_chars, names_only_above_bytes, hooks, on_event",
        ),
    ],
)
async def test_wrong_config_is_refused_at_load(config: object, message: str) -> None:
    """CM-001."""
    async with Context() as ctx:
        await ctx.plugin(Nothing)
        with pytest.raises(ToolDefinitionError) as caught:
            await ctx.plugin(ToolRegistry, config)
    assert str(caught.value) == f"Cannot define ToolRegistry: {message}"


async def test_names_are_taken_once_and_some_are_reserved() -> None:
    """CM-016."""
    messages: list[str] = []
    async with open_tools(add) as tools:
        for name in ("run_code", "search_tools", "describe_tool", "add"):
            with pytest.raises(ToolExistsError) as caught:
                tools.register(Tool("good", "", {}, call=len), Tool(name, "", {}, call=len))
            messages.append(str(caught.value))
        assert _names(tools.tools()) == ["add"]
        for name in ("allow", "deny"):
            with pytest.raises(CodeModeError) as refused:
                tools.view(**{name: ["run_code"]})  # type: ignore[arg-type]
            messages.append(str(refused.value))
    assert messages == [
        *(
            f"Cannot register tool {name!r}: the name is reserved, expected a name of its own"
            for name in ("run_code", "search_tools", "describe_tool")
        ),
        "Cannot register tool 'add': a tool of this name is registered, expected a name of its own",
        "Cannot define ToolRegistry: allow is 'run_code', expected names of registered tools",
        "Cannot define ToolRegistry: deny is 'run_code', expected names of registered tools",
    ]


async def test_view_filters_text_bindings_and_direct_calls() -> None:
    """CM-014, CM-015, CM-017: run_code itself is never filtered."""
    async with open_tools(add, login) as tools:
        few = tools.view(allow=["login"], deny=["login"])
        native = tools.view(mode="native", allow=["login"])
        assert _names(few.wire_tools()) == ["run_code"]
        assert few.tools() == ()
        arguments = {"code": 'return hasattr(tools, "add")', "description": "Looks for add"}
        assert (await few.call("run_code", arguments)).text == "false"
        assert (await native.call("add", {"a": 1, "b": 2})).error_code == "UNKNOWN_TOOL"
        assert (await native.call("login", {"user": "me"})).text == "welcome me"


async def test_listener_hears_of_each_change() -> None:
    changes: list[list[str]] = []
    async with open_tools() as tools:
        stop = tools.on_change(lambda: changes.append(_names(tools.tools())))
        remove = tools.register(add, login)
        remove()
        remove()
        stop()
        tools.register(add)
    assert changes == [["add", "login"], []]


async def test_run_code_tool_can_be_called_by_itself() -> None:
    async with open_tools(add) as tools:
        (run_code,) = tools.wire_tools()
        arguments = {"code": "return await tools.add({'a': 1, 'b': 2})", "description": "Adds"}
        value = await run_code.call(arguments)  # type: ignore[misc]
    assert value == {"logs": [], "result": 3}
