"""Errors of Code Mode; the failure of a program or a tool is a `ToolResult`, never one of these."""

from __future__ import annotations


class CodeModeError(Exception):
    """Base of every error that code-mode raises."""


class ToolDefinitionError(CodeModeError, ValueError):
    """A tool, or the config of the registry, is not usable.

    Args:
        owner: What refuses, such as `Tool 'search'`.
        field: The field, such as `input_schema`.
        seen: What it held, in words.
        expected: What it may hold, in words.
    """

    def __init__(self, owner: str, field: str, seen: str, expected: str) -> None:
        super().__init__(owner, field, seen, expected)
        self.owner = owner
        self.field = field
        self.seen = seen
        self.expected = expected

    def __str__(self) -> str:
        return f"Cannot define {self.owner}: {self.field} is {self.seen}, expected {self.expected}"


class ToolExistsError(CodeModeError, ValueError):
    """A second tool of one name, or one of a reserved name, was registered.

    Args:
        name: The name.
        seen: Who has it, in words.
    """

    def __init__(self, name: str, seen: str) -> None:
        super().__init__(name, seen)
        self.name = name
        self.seen = seen

    def __str__(self) -> str:
        return f"Cannot register tool {self.name!r}: {self.seen}, expected a name of its own"


class UnknownLanguageError(CodeModeError, ValueError):
    """The loaded runtime's language has no SDK text (CM-008).

    Args:
        language: The language of the runtime.
        known: The languages that have one.
    """

    def __init__(self, language: str, known: tuple[str, ...]) -> None:
        super().__init__(language, known)
        self.language = language
        self.known = known

    def __str__(self) -> str:
        names = " or ".join(repr(name) for name in self.known)
        return f"Cannot render the SDK: the language is {self.language!r}, expected {names}"


class ToolError(CodeModeError):
    """What a tool raises to fail with exactly this text, for the program and the model to read."""
