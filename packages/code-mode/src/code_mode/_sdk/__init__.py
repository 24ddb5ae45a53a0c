"""The SDK text: the tools of a program, declared in the language of the runtime."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple, Protocol

from .._errors import UnknownLanguageError
from .._tools import Tool

LANGUAGES: Final = ("typescript", "python")


def render_sdk(language: str, tools: Sequence[Tool], *, names_only: bool = False) -> str:
    """Render what a model must know to write programs over some tools.

    Args:
        language: The language of the loaded runtime.
        tools: The tools that programs may call, in any order.
        names_only: Whether to list the names only, with the tools that find and describe the rest.

    Returns:
        Markdown; the same tools give the same text.

    Raises:
        UnknownLanguageError: No renderer has this name.
    """
    return _renderer(language).render_sdk(tools, names_only=names_only)


def describe_tool(language: str, tool: Tool) -> str:
    """Render the declaration of one tool alone, as source text.

    Args:
        language: The language of the loaded runtime.
        tool: The tool.

    Returns:
        Declarations without a Markdown fence.

    Raises:
        UnknownLanguageError: No renderer has this name.
    """
    return _renderer(language).describe(tool)


class _RenderSdk(Protocol):
    def __call__(self, tools: Sequence[Tool], *, names_only: bool = False) -> str: ...


class _Renderer(NamedTuple):
    render_sdk: _RenderSdk
    describe: Callable[[Tool], str]


def _typescript() -> _Renderer:
    from .typescript import describe, render_sdk

    return _Renderer(render_sdk, describe)


def _python() -> _Renderer:
    from .python import describe, render_sdk

    return _Renderer(render_sdk, describe)


_RENDERERS: Final[Mapping[str, Callable[[], _Renderer]]] = {
    "typescript": _typescript,
    "python": _python,
}


def _renderer(language: str) -> _Renderer:
    load = _RENDERERS.get(language)
    if load is None:
        raise UnknownLanguageError(language, LANGUAGES)
    return load()
