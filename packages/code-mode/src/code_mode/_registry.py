"""The registry of tools, read as `ctx.tools`: what the model is shown, and what its calls do."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from itertools import count
from typing import TYPE_CHECKING, ClassVar, Final, cast, final

from code_runtime import Service

from ._errors import ToolDefinitionError, ToolExistsError, UnknownLanguageError
from ._from_function import tool as tool_of
from ._pipeline import ToolPipeline
from ._sdk import LANGUAGES
from ._settings import MODES, OWNER, Mode, RegistrySettings, read_settings
from ._tools import RESERVED_NAMES, Tool, seen
from ._validation import ToolValidator
from ._view import ToolView

if TYPE_CHECKING:
    from code_runtime import AbortSignal, CodeRuntime, Context

    from ._results import ToolResult
    from ._tools import ToolFunction

SERVICE_KEY: Final = "tools"
_logger: Final = logging.getLogger("code_mode")


@final
class ToolRegistry(Service):
    """Own tools, show them to a model as one `run_code`, and run what it writes.

    It starts when a code runtime is there and stops before that goes. Its own methods are those of
    the view that shows every tool in the mode of the config; `view` makes others, one for each
    agent of a host.

    Args:
        ctx: The scope of the plugin.
        config: A `RegistrySettings`, or a mapping of its fields.

    Raises:
        ToolDefinitionError: A field of the config, or a tool in it, cannot be used.
        UnknownLanguageError: The runtime runs programs of a language that has no SDK text.
    """

    service_key: ClassVar[str | None] = SERVICE_KEY
    inject: ClassVar[tuple[str, ...]] = ("codeRuntime",)

    def __init__(self, ctx: Context, config: object = None) -> None:
        super().__init__(ctx, config)
        self.settings: RegistrySettings = read_settings(config)
        self.runtime: CodeRuntime = ctx.codeRuntime
        if self.runtime.language not in LANGUAGES:
            raise UnknownLanguageError(self.runtime.language, LANGUAGES)
        self._validators: dict[str, tuple[Tool, ToolValidator]] = {}
        self._built_in: dict[str, ToolValidator] = {}
        self._listeners: dict[object, Callable[[], object]] = {}
        self._numbers = count(1)
        self.pipeline = ToolPipeline(
            self.settings.hooks,
            self._find_validator,
            self.settings.call_timeout_ms,
            self.settings.on_event,
        )
        self._all = ToolView(self, self.settings.mode, None, ())
        self.register(*cast("Sequence[Tool]", self.settings.tools))

    @classmethod
    def of(cls, ctx: Context) -> ToolRegistry:
        """Return the registry of a context.

        Raises:
            ServiceMissingError: The context has none at the moment.
        """
        return cast("ToolRegistry", ctx[SERVICE_KEY])

    @property
    def language(self) -> str:
        """The language of the programs, `typescript` or `python`."""
        return self.runtime.language

    def register(self, *tools: Tool | ToolFunction) -> Callable[[], None]:
        """Add tools, all or none.

        Args:
            tools: Tools, and functions that `tool` makes tools of.

        Returns:
            A function that takes them away again; harmless when called twice.

        Raises:
            ToolExistsError: A name is taken, or reserved (CM-016).
            ToolDefinitionError: A tool cannot be used, such as one whose schema is no JSON Schema.
        """
        added: dict[str, tuple[Tool, ToolValidator]] = {}
        for item in tools:
            new = item if isinstance(item, Tool) else tool_of(item)
            if new.name in RESERVED_NAMES:
                raise ToolExistsError(new.name, "the name is reserved")
            if new.name in self._validators or new.name in added:
                raise ToolExistsError(new.name, "a tool of this name is registered")
            added[new.name] = (new, ToolValidator(new))
        self._validators |= added
        self._tell_change()

        def remove() -> None:
            count_before = len(self._validators)
            for name, entry in added.items():
                if self._validators.get(name) is entry:
                    del self._validators[name]
            if len(self._validators) != count_before:
                self._tell_change()

        return remove

    def on_change(self, listener: Callable[[], object]) -> Callable[[], None]:
        """Call a plain function after each change of the tools.

        Returns:
            A function that ends this.
        """
        token = object()
        self._listeners[token] = listener

        def remove() -> None:
            self._listeners.pop(token, None)

        return remove

    def view(
        self,
        *,
        mode: Mode | None = None,
        allow: Iterable[str] | None = None,
        deny: Iterable[str] = (),
    ) -> ToolView:
        """Make a view for one agent: some of the tools, in a mode of its own (CM-014, CM-017).

        Args:
            mode: How it is shown the tools; None for the mode of the config.
            allow: The names that it sees; None for all, later ones too.
            deny: The names that it does not see.

        Raises:
            ToolDefinitionError: The mode is none, or a filter names `run_code`.
        """
        if mode is not None and mode not in MODES:
            raise ToolDefinitionError(OWNER, "mode", seen(mode), f"one of {', '.join(MODES)}")
        names = None if allow is None else frozenset(allow)
        denied = frozenset(deny)
        for field, chosen in (("allow", names or ()), ("deny", denied)):
            for name in sorted(set(chosen) & set(RESERVED_NAMES)):
                raise ToolDefinitionError(OWNER, field, seen(name), "names of registered tools")
        return ToolView(self, mode or self.settings.mode, names, denied)

    def tools(self) -> tuple[Tool, ...]:
        """Return all tools, by name."""
        return self._all.tools()

    def sdk_text(self) -> str:
        """Return the text for the prompt; see `ToolView.sdk_text`."""
        return self._all.sdk_text()

    def wire_tools(self) -> tuple[Tool, ...]:
        """Return what the model is offered; see `ToolView.wire_tools`."""
        return self._all.wire_tools()

    async def call(
        self,
        name: str,
        arguments: object,
        *,
        signal: AbortSignal | None = None,
        on_log: Callable[[str], object] | None = None,
        call_id: str | None = None,
    ) -> ToolResult:
        """Do what the model asks for; see `ToolView.call`."""
        return await self._all.call(name, arguments, signal=signal, on_log=on_log, call_id=call_id)

    # What follows is for this package only.

    def registered(self) -> tuple[Tool, ...]:
        """Return all tools in the order of UTF-16 code units of their names (CM-032)."""
        tools = (entry[0] for entry in self._validators.values())
        return tuple(sorted(tools, key=lambda tool: tool.name.encode("utf-16-be", "surrogatepass")))

    def next_call_id(self) -> str:
        """Return an id for a call whose host has given none."""
        return f"call_{next(self._numbers)}"

    def _find_validator(self, tool: Tool) -> ToolValidator | None:
        if tool.name in RESERVED_NAMES:
            # Made anew for each view and run, with one schema each.
            if tool.name not in self._built_in:
                self._built_in[tool.name] = ToolValidator(tool)
            return self._built_in[tool.name]
        current, validator = self._validators.get(tool.name, (None, None))
        return validator if current is tool else None

    def _tell_change(self) -> None:
        for listener in tuple(self._listeners.values()):
            try:
                listener()
            except Exception:
                _logger.exception("a listener of changed tools raised")
