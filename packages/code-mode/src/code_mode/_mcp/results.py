"""What an MCP tool gave, turned into a value for the program and blocks for the model."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from .._errors import ToolError
from .._tools import JsonObject, ToolOutput

if TYPE_CHECKING:
    from mcp_types import CallToolResult, ContentBlock

NO_TEXT: Final = "The tool failed and did not say why"


def read_result(result: CallToolResult) -> ToolOutput:
    """Turn a result into a value and attachments.

    The value is the structured content when there is some; else the texts, joined by newlines and
    never parsed, those of embedded text resources included. Images, sounds, binary resources and
    links become attachments; when there is nothing else, the value names them in brackets.

    Raises:
        ToolError: The tool has failed, with its own text.
    """
    if result.is_error:
        raise ToolError(_failure(result))
    texts = [text for text in map(_text_of, result.content) if text is not None]
    others = [block for block in result.content if _text_of(block) is None]
    attachments = tuple(_to_json(block) for block in others)
    if _has_structure(result, texts):
        return ToolOutput(result.structured_content, attachments)
    if not texts:
        texts = [_placeholder(block) for block in others]
    return ToolOutput("\n".join(texts), attachments)


def _has_structure(result: CallToolResult, texts: list[str]) -> bool:
    if result.structured_content is not None:
        return True
    # An explicit null is a value of its own for newer servers; older ones mean "none" by it.
    return "structured_content" in result.model_fields_set and not texts and not result.content


def _failure(result: CallToolResult) -> str:
    texts = [text for text in map(_text_of, result.content) if text]
    if not texts and result.structured_content is not None:
        texts = [json.dumps(result.structured_content, ensure_ascii=False, default=str)]
    return "\n".join(texts).strip() or NO_TEXT


def _text_of(block: ContentBlock) -> str | None:
    if block.type == "text":
        return block.text
    if block.type == "resource":
        text: object = getattr(block.resource, "text", None)
        return text if isinstance(text, str) else None
    return None


def _placeholder(block: ContentBlock) -> str:
    if block.type == "image" or block.type == "audio":
        return f"[{block.type} {block.mime_type}]"
    if block.type == "resource_link":
        return f"[link {block.uri}]"
    uri: object = getattr(getattr(block, "resource", None), "uri", "")
    return f"[resource {uri}]"


def _to_json(block: ContentBlock) -> JsonObject:
    return block.model_dump(mode="json", by_alias=True, exclude_none=True)
