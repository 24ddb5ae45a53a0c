"""Errors of the contract; a program's own failure is never one, but a value in the result."""

from __future__ import annotations


class CodeRuntimeError(Exception):
    """Base of every error that code-runtime and its providers raise.

    Each subclass takes its data as positional arguments, keeps them as public fields, builds its
    text in `__str__`, and can be pickled.
    """


class RequestError(CodeRuntimeError, ValueError):
    """A field of a request, binding, or result has a value that the contract does not allow.

    Args:
        owner: The class or call that refuses, such as `CodeRunRequest`.
        field: The field, such as `max_wall_ms` or `bindings[1]`.
        seen: What the field held, in words.
        expected: What it may hold, in words.
    """

    def __init__(self, owner: str, field: str, seen: str, expected: str) -> None:
        super().__init__(owner, field, seen, expected)
        self.owner = owner
        self.field = field
        self.seen = seen
        self.expected = expected

    def __str__(self) -> str:
        return f"Cannot build {self.owner}: {self.field} is {self.seen}, expected {self.expected}"


class RequestTypeError(RequestError, TypeError):
    """A field of a request, binding, or result has the wrong type."""


class ConfigError(CodeRuntimeError, ValueError):
    """A field of a provider's config has a value that the provider does not allow.

    Args:
        owner: The provider, such as `WorkerThreadCodeRuntime`.
        field: The field, such as `compute_ms`.
        seen: What the field held, in words.
        expected: What it may hold, in words, with the unit.
    """

    def __init__(self, owner: str, field: str, seen: str, expected: str) -> None:
        super().__init__(owner, field, seen, expected)
        self.owner = owner
        self.field = field
        self.seen = seen
        self.expected = expected

    def __str__(self) -> str:
        return (
            f"Cannot configure {self.owner}: {self.field} is {self.seen}, expected {self.expected}"
        )


class ConfigTypeError(ConfigError, TypeError):
    """A provider's config, or a field of it, has the wrong type."""


class BindingNameError(CodeRuntimeError, ValueError):
    """A namespace, error class, or member property has a name that no provider accepts.

    Args:
        field: Where the name stands, such as `bindings[0].global_name`.
        name: The name.
        expected: The rule that it breaks, in words.
    """

    def __init__(self, field: str, name: str, expected: str) -> None:
        super().__init__(field, name, expected)
        self.field = field
        self.name = name
        self.expected = expected

    def __str__(self) -> str:
        name = self.name if len(self.name) <= 120 else self.name[:119] + "…"
        return f"Cannot declare bindings: {self.field} is {name!r}, expected {self.expected}"


class RuntimeDisposedError(CodeRuntimeError, RuntimeError):
    """A runtime was asked to run a program after its disposal had begun (SC-036).

    Args:
        runtime: The class of the runtime.
    """

    def __init__(self, runtime: str) -> None:
        super().__init__(runtime)
        self.runtime = runtime

    def __str__(self) -> str:
        return (
            f"Cannot run a program: {self.runtime} is disposed, "
            "expected a call before the end of its disposal"
        )


class ForkedHostError(CodeRuntimeError, RuntimeError):
    """A runtime was used in a forked copy of the process that started it.

    Args:
        runtime: The class of the runtime.
        owner_pid: The process that started it.
        seen_pid: The process that used it.
    """

    def __init__(self, runtime: str, owner_pid: int, seen_pid: int) -> None:
        super().__init__(runtime, owner_pid, seen_pid)
        self.runtime = runtime
        self.owner_pid = owner_pid
        self.seen_pid = seen_pid

    def __str__(self) -> str:
        return (
            f"Cannot use {self.runtime}: process {self.seen_pid} is a fork of process "
            f"{self.owner_pid} that started it, expected a Context of its own in each process"
        )


class HostStartError(CodeRuntimeError, RuntimeError):
    """A provider could not start what it needs to run programs.

    Args:
        thing: What does not start, such as `the Node host`.
        seen: What went wrong, in words.
        expected: What would work, in words.
    """

    def __init__(self, thing: str, seen: str, expected: str) -> None:
        super().__init__(thing, seen, expected)
        self.thing = thing
        self.seen = seen
        self.expected = expected

    def __str__(self) -> str:
        return f"Cannot start {self.thing}: {self.seen}, expected {self.expected}"


class ServiceMissingError(CodeRuntimeError, AttributeError, LookupError):
    """A context was asked for a service that no plugin provides at the moment.

    It is an `AttributeError` for `ctx.codeRuntime` and a `LookupError` for `ctx["codeRuntime"]`.

    Args:
        key: The key of the service.
    """

    def __init__(self, key: str) -> None:
        super().__init__(key)
        self.key = key

    def __str__(self) -> str:
        loader = (
            'ctx.plugin("worker-thread")' if self.key == "codeRuntime" else "ctx.plugin(Provider)"
        )
        return (
            f"Cannot read service {self.key!r}: no active plugin of this context provides it, "
            f"expected `await {loader}` before"
        )


class ServiceExistsError(CodeRuntimeError, RuntimeError):
    """A second provider for one key was loaded into one context (SC-002).

    Args:
        key: The key of the service.
        present: The provider that is there.
        refused: The provider that was refused.
    """

    def __init__(self, key: str, present: str, refused: str) -> None:
        super().__init__(key, present, refused)
        self.key = key
        self.present = present
        self.refused = refused

    def __str__(self) -> str:
        return (
            f"Cannot load {self.refused}: service {self.key!r} is already registered by "
            f"{self.present}, expected one provider per context "
            "(dispose the first, or load the second in `ctx.child()`)"
        )


class PluginTypeError(CodeRuntimeError, TypeError):
    """Something that is no plugin was loaded.

    Args:
        seen: What was loaded, in words.
        expected: What can be loaded, in words.
    """

    def __init__(self, seen: str, expected: str) -> None:
        super().__init__(seen, expected)
        self.seen = seen
        self.expected = expected

    def __str__(self) -> str:
        return f"Cannot load plugin: {self.seen}, expected {self.expected}"


class PluginNotFoundError(CodeRuntimeError, LookupError):
    """No installed package offers a plugin of this name.

    Args:
        name: The name that was asked for.
        installed: The names that are installed.
    """

    def __init__(self, name: str, installed: tuple[str, ...] = ()) -> None:
        super().__init__(name, installed)
        self.name = name
        self.installed = installed

    def __str__(self) -> str:
        names = ", ".join(repr(name) for name in self.installed)
        seen = f"no installed package offers it (installed: {names or 'none'})"
        hint = (
            f"`pip install code-runtime-{self.name}`"
            if self.name in _KNOWN
            else "an installed provider"
        )
        return f"Cannot load plugin {self.name!r}: {seen}, expected {hint}"


class ContextStateError(CodeRuntimeError, RuntimeError):
    """A context or plugin was used at a point of its life where that is impossible.

    Args:
        action: What was tried, such as `load a plugin`.
        seen: The state that forbids it, in words.
        expected: What would work, in words.
    """

    def __init__(self, action: str, seen: str, expected: str) -> None:
        super().__init__(action, seen, expected)
        self.action = action
        self.seen = seen
        self.expected = expected

    def __str__(self) -> str:
        return f"Cannot {self.action}: {self.seen}, expected {self.expected}"


_KNOWN = ("worker-thread", "python")
