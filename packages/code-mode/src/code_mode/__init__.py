"""Show a model its tools as one `run_code` tool: it writes one program over them."""

from __future__ import annotations

from ._errors import (
    CodeModeError,
    ToolDefinitionError,
    ToolError,
    ToolExistsError,
    UnknownLanguageError,
)
from ._formats import as_anthropic_tools, as_mcp_tools, as_openai_chat_tools, as_openai_tools
from ._from_function import tool
from ._hooks import (
    CallEvent,
    CallSettled,
    CallStarted,
    Decision,
    Deny,
    Proceed,
    ToolCall,
    ToolHooks,
    ToolReply,
)
from ._mcp import McpConfigError, McpServerError, McpServers
from ._registry import ToolRegistry
from ._results import CallOutcome, ErrorCode, ToolCallRecord, ToolResult
from ._settings import Mode, RegistrySettings
from ._tools import JsonObject, Tool, ToolContext, ToolFunction, ToolOutput
from ._view import ToolView

__version__ = "0.1.0"

__all__ = [
    "CallEvent",
    "CallOutcome",
    "CallSettled",
    "CallStarted",
    "CodeModeError",
    "Decision",
    "Deny",
    "ErrorCode",
    "JsonObject",
    "McpConfigError",
    "McpServerError",
    "McpServers",
    "Mode",
    "Proceed",
    "RegistrySettings",
    "Tool",
    "ToolCall",
    "ToolCallRecord",
    "ToolContext",
    "ToolDefinitionError",
    "ToolError",
    "ToolExistsError",
    "ToolFunction",
    "ToolHooks",
    "ToolOutput",
    "ToolRegistry",
    "ToolReply",
    "ToolResult",
    "ToolView",
    "UnknownLanguageError",
    "as_anthropic_tools",
    "as_mcp_tools",
    "as_openai_chat_tools",
    "as_openai_tools",
    "tool",
]
