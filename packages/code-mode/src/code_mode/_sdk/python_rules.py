"""What a model reads above the Python declarations."""

from __future__ import annotations

from typing import Final

_HEADING: Final = "## Writing Python for `run_code`"

_BEFORE: Final = """\
`run_code` takes two string arguments, both required: `code`, the program, and `description`, what \
it does in active voice and 5 to 10 words.

- `code` is the body of an async function in Python: `await` and `return` work at its top level.
- The declarations below are for the program only. They do not make a name directly callable: no \
tool in them can be called except from inside `code`.
- Of all the names below, exactly two exist while the program runs: `tools` and `ToolCallError`. \
The TypedDict classes and the type aliases only tell you shapes; constructing one is a NameError. \
Build plain dicts and lists."""

_ALL_TOOLS: Final = """\
- Call a tool with one dict: `await tools.name({"key": value})`. Use `await tools["name"](…)` for \
a name that is no identifier, is a keyword of Python or starts with an underscore."""

_SOME_TOOLS: Final = """\
- Call a tool with one dict: `await tools.name({"key": value})`, or `await tools["name"](…)` for a \
name that is listed so. Only the names are listed here; every one of them can be called.
- Find a tool: `await tools.search_tools({"query": "words"})` returns a list of \
`{"name": …, "description": …}`. Read its types before you call it: \
`print(await tools.describe_tool({"name": "its_name"}))`."""

_AFTER: Final = """\
- Arguments must be lossless JSON: dict with string keys, list, str, int, float, bool, None. A \
call returns a JSON value of the declared type, not text to parse. Of `Any` nothing is known, it \
is often text: print one before you rely on its form.
- A failed call raises `ToolCallError`. Its `toolName` is the tool and `str(error)` the reason; \
catch it with `try`/`except` to go on without that result.
- Independent calls that only read may overlap: `await asyncio.gather(tools.a({…}), tools.b({…}))` \
after `import asyncio`. Calls that change something run alone, in the order in which they were \
made. Await a call first when the next one needs its result.
- Only what the program prints and what it returns at the top level reaches you; use either or \
both. A returned value must be lossless JSON too. Images in the results of calls are attached \
after the run; all other intermediate results stay inside the program."""


def rules(*, names_only: bool) -> str:
    """Give the heading and the rules (CM-043).

    Args:
        names_only: Whether the declarations are left out, for the program to ask for.
    """
    tools = _SOME_TOOLS if names_only else _ALL_TOOLS
    return f"{_HEADING}\n\n{_BEFORE}\n{tools}\n{_AFTER}"
