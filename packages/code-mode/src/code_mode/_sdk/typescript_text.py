"""The fixed sentences and declarations of the TypeScript SDK text."""

from __future__ import annotations

from typing import Final

HEADING: Final = "## Writing code for `run_code`\n"

RULES: Final = """\
`run_code` takes two arguments, both required: `code`, the program, and `description`, what the
program does, in 5 to 10 words.

- `code` is the body of an async function in TypeScript: `await` and `return` work at its top level.
  Types are removed before it runs and nothing checks them, so annotations are advisory. Use only
  syntax that can be erased: no `enum`, no `namespace`, no parameter properties.
- Call a tool with `await tools.name(args)`, with quotes where the name is no identifier:
  `await tools["odd-name"](args)`. The args are one object, `{}` if there is nothing to say.
- Arguments must be lossless JSON: null, booleans, finite numbers, strings, arrays and plain
  objects; no `undefined`, `Date`, `BigInt` or function. The result is a JSON value of the declared
  type, ready to use: do not parse it. Where that type is `JsonValue`, look at one result before
  you build on it.
- A call that fails rejects with a `ToolCallError`, which has `toolName` and `message`; catch it to
  go on without that result.
- Independent calls that only read may overlap: `await Promise.all([tools.a({}), tools.b({})])`.
  Calls that change something run one at a time, in the order in which you make them. `await` a
  call before the ones that depend on it.
- The output is what the program returns and what it prints with `console.log`, nothing else.
  Results in between stay out of the conversation: filter and combine them in the program and
  return what matters. Images in tool results are attached after the run.
- The declarations below are bindings of the SDK for use inside the program. They do not make any of
  these names a tool that you can call directly.
"""

FINDING: Final = """\
- There are too many tools to declare here. In the program, `await tools.search_tools({ query })`
  gives the ones that fit some words as `[{ name, description }]`, and
  `await tools.describe_tool({ name })` gives the declaration of one tool as text. Return or print
  it, read it, then call the tool in your next program. Every tool listed below can be called.
"""

JSON_VALUE: Final = """\
type JsonValue = null | boolean | number | string | JsonValue[] | { [key: string]: JsonValue };
"""

TOOL_CALL_ERROR: Final = """\
declare class ToolCallError extends Error {
  readonly name: "ToolCallError";
  readonly toolName: ToolName;
}
"""

TOOL_NAME: Final = "type ToolName = keyof ToolOutputMap;\n"

TOOLS: Final = """\
declare const tools: {
  [Name in ToolName]: (args: ToolArgsMap[Name]) => Promise<ToolOutputMap[Name]>;
};
"""

FINDING_ARGS: Final = """\
interface ToolArgsMap {
  /** Finds tools by words of their names and descriptions, the best first. */
  search_tools: {
    query: string;
    /** How many to give at most (1 to 100, default 10) */
    limit?: number;
  };
  /** Gives the declaration of one tool: its arguments and its result. */
  describe_tool: {
    name: string;
  };
}
"""

FINDING_OUTPUT: Final = """\
interface ToolOutputMap {
  search_tools: {
    name: string;
    description: string;
  }[];
  describe_tool: string;
}
"""

LISTED_NAME: Final = "type ToolName = keyof ToolOutputMap | ListedToolName;\n"

LISTED_TOOLS: Final = """\
declare const tools: {
  [Name in keyof ToolOutputMap]: (args: ToolArgsMap[Name]) => Promise<ToolOutputMap[Name]>;
} & {
  [Name in ListedToolName]: (args: Record<string, JsonValue>) => Promise<JsonValue>;
};
"""

# What a type alias must not be called: it would hide one of these.
TAKEN_NAMES: Final = (
    *("JsonValue", "ToolArgsMap", "ToolOutputMap", "ToolName", "ListedToolName", "ToolCallError"),
    *("Record", "Promise", "Error", "Array"),
)
