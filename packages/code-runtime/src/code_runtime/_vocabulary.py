"""What goes into a run and what comes out of it: plain, frozen data, checked when it is built.

A request is checked for types only. Whether its names are allowed is decided by the provider, in
`run` (SC-036).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from inspect import iscoroutinefunction
from types import MappingProxyType
from typing import Final, Literal, TypeAlias, final, get_args

from ._abort import AbortSignal
from ._errors import RequestError, RequestTypeError
from ._text import bounded_repr, describe, shorten

BindingFunction: TypeAlias = Callable[..., object]
"""A plain or async function of one argument: a JSON value in, a JSON value out."""

FailureKind: TypeAlias = Literal[
    "exception", "timeout", "abort", "worker-exit", "invalid-output", "output-limit"
]
CallOutcome: TypeAlias = Literal["ok", "error", "refused", "cancelled", "abandoned"]

FAILURE_KINDS: Final[tuple[FailureKind, ...]] = get_args(FailureKind)
CALL_OUTCOMES: Final[tuple[CallOutcome, ...]] = get_args(CallOutcome)

MAX_REPR_CHARS: Final = 2_000


@final
@dataclass(frozen=True, slots=True, repr=False)
class CodeBindingErrorClass:
    """The class of the errors that failed calls of one namespace raise inside the program (SC-032).

    Args:
        name: The name of the class, a global of the program.
        member_name_property: The property of an error that holds the name of the function that
            failed.
    """

    name: str
    member_name_property: str

    def __post_init__(self) -> None:
        _set(self, "name", _string(self, "name", self.name))
        prop = _string(self, "member_name_property", self.member_name_property)
        _set(self, "member_name_property", prop)

    def __repr__(self) -> str:
        name = bounded_repr(self.name, limit=150)
        return (
            f"CodeBindingErrorClass({name}, {bounded_repr(self.member_name_property, limit=150)})"
        )


@final
@dataclass(frozen=True, slots=True, repr=False)
class CodeBindingNamespace:
    """Functions of the host that a program sees as the members of one global object.

    The functions are copied once, here; a later change of the mapping has no effect. A function's
    name may be any string (SC-026). A member that cannot be called is visible to a TypeScript
    program and hidden from a Python one; a call of it is answered like that of an unknown one
    (SC-028).

    Args:
        global_name: The name of the global object.
        functions: The functions by name, each plain or async, of one argument.
        error_class: The class of the errors that a failed call raises inside the program; None for
            a plain error.

    Raises:
        RequestTypeError: A field has the wrong type.

    Examples:
        >>> from code_runtime import CodeBindingNamespace
        >>> CodeBindingNamespace("shop", {"price": {"tea": 3}.__getitem__})
        CodeBindingNamespace('shop', ['price'])
    """

    global_name: str
    functions: Mapping[str, BindingFunction]
    error_class: CodeBindingErrorClass | None = None

    def __post_init__(self) -> None:
        _set(self, "global_name", _string(self, "global_name", self.global_name))
        _set(self, "functions", _functions(self, self.functions))
        if not (self.error_class is None or isinstance(self.error_class, CodeBindingErrorClass)):
            raise _type_error(
                self, "error_class", self.error_class, "CodeBindingErrorClass or None"
            )

    def __reduce__(self) -> tuple[object, ...]:
        # A read-only mapping cannot be pickled or copied deeply; the dict behind it can.
        return type(self), (self.global_name, dict(self.functions), self.error_class)

    def __hash__(self) -> int:
        return hash((self.global_name, frozenset(self.functions), self.error_class))

    def __repr__(self) -> str:
        names = bounded_repr(list(self.functions), limit=400)
        error = "" if self.error_class is None else f", error_class={self.error_class!r}"
        return f"CodeBindingNamespace({bounded_repr(self.global_name, limit=150)}, {names}{error})"


@final
@dataclass(frozen=True, slots=True, repr=False, eq=False)
class CodeRunRequest:
    """One program and everything that its run may use (SC-007, SC-008).

    Units: `max_wall_ms` is in milliseconds of real time.

    Args:
        program: The source text.
        bindings: The namespaces that the program may call; kept as a tuple.
        signal: Ends the run when it fires.
        on_log: Called on the event loop with each log entry while the program runs. One that raises
            is called no more; the exception is raised from `run` once the run is over, with the
            result as its `result`.
        max_wall_ms: A time limit that can only lower the provider's; None leaves the provider's.
        record: Also keep the program, its language and duration, the time of each log, and previews
            of arguments and results of the calls; what `CodeRunResult.to_html` shows.

    Raises:
        RequestTypeError: A field has the wrong type.
        RequestError: `max_wall_ms` is not a positive, finite number.

    Examples:
        >>> from code_runtime import CodeBindingNamespace, CodeRunRequest, open_runtime
        >>> shop = CodeBindingNamespace("shop", {"price": {"tea": 3}.__getitem__})
        >>> request = CodeRunRequest("return 2 * await shop.price('tea')", [shop])
        >>> with open_runtime("python") as runtime:
        ...     runtime.run(request)
        CodeRunResult(logs=[], value=6, calls=<1 call>)
    """

    program: str
    bindings: Sequence[CodeBindingNamespace] = ()
    _: KW_ONLY
    signal: AbortSignal | None = None
    on_log: Callable[[str], object] | None = None
    max_wall_ms: float | None = None
    record: bool = False

    def __post_init__(self) -> None:
        _set(self, "program", _string(self, "program", self.program))
        _set(self, "bindings", _bindings(self, self.bindings))
        if not (self.signal is None or isinstance(self.signal, AbortSignal)):
            raise _type_error(self, "signal", self.signal, "AbortSignal or None")
        if not (self.on_log is None or callable(self.on_log)) or iscoroutinefunction(self.on_log):
            expected = "a plain function of one string, or None"
            raise _type_error(self, "on_log", self.on_log, expected)
        _check_wall(self, self.max_wall_ms)
        if type(self.record) is not bool:
            raise _type_error(self, "record", self.record, "bool")

    def __repr__(self) -> str:
        parts = [bounded_repr(self.program, limit=500)]
        if self.bindings:
            names = ", ".join(map(repr, self.bindings[:20]))
            parts.append(f"bindings=[{shorten(names, 1_200)}]")
        if self.signal is not None:
            parts.append(f"signal={self.signal!r}")
        if self.on_log is not None:
            parts.append("on_log=<function>")
        if self.max_wall_ms is not None:
            parts.append(f"max_wall_ms={bounded_repr(self.max_wall_ms, limit=40)}")
        if self.record:
            parts.append("record=True")
        return f"CodeRunRequest({', '.join(parts)})"


@final
@dataclass(frozen=True, slots=True, repr=False)
class CodeRunFailure:
    """Why a run failed (SC-039).

    Args:
        kind: `exception`: the program raised, or cannot be parsed; `timeout`: a time limit ended
            it; `abort`: the signal fired, or the runtime was disposed; `worker-exit`: what ran it
            died; `invalid-output`: it returned something that is not lossless JSON; `output-limit`:
            it gave more output than the provider allows.
        message: The reason for a reader, fit to be shown to the model that wrote the program.

    Raises:
        RequestError: There is no such kind.
        RequestTypeError: The message is no string.
    """

    kind: FailureKind
    message: str

    def __post_init__(self) -> None:
        if self.kind not in FAILURE_KINDS:
            raise RequestError(
                "CodeRunFailure", "kind", describe(self.kind), f"one of {', '.join(FAILURE_KINDS)}"
            )
        _set(self, "message", _string(self, "message", self.message))

    def __repr__(self) -> str:
        return f"CodeRunFailure({self.kind!r}, {bounded_repr(self.message, limit=700)})"


@final
@dataclass(frozen=True, slots=True, repr=False)
class CodeCall:
    """One call of a host function by the program.

    Units: milliseconds; `started_ms` counts from the start of the program.

    Args:
        namespace: The global that the program called.
        member: The function that it called.
        started_ms: When the call arrived.
        duration_ms: How long until it was answered or given up.
        outcome: `ok`; `error`: the function raised, or its result is not lossless JSON; `refused`:
            no function was called; `cancelled`: the run was over first; `abandoned`: it ignored
            that and still ran afterwards.
        argument_preview: The start of the argument as JSON, at most 2 KiB; None unless recorded.
        result_preview: The start of the result as JSON, or of the error, at most 2 KiB; None unless
            recorded.

    Raises:
        RequestError: There is no such outcome.
    """

    namespace: str
    member: str
    started_ms: float
    duration_ms: float
    outcome: CallOutcome
    _: KW_ONLY
    argument_preview: str | None = None
    result_preview: str | None = None

    def __post_init__(self) -> None:
        if self.outcome not in CALL_OUTCOMES:
            raise RequestError(
                "CodeCall", "outcome", describe(self.outcome), f"one of {', '.join(CALL_OUTCOMES)}"
            )

    def __repr__(self) -> str:
        target = ", ".join(bounded_repr(name, limit=150) for name in (self.namespace, self.member))
        times = f"started_ms={self.started_ms:.1f}, duration_ms={self.duration_ms:.1f}"
        previews = "".join(
            f", {name}={bounded_repr(text, limit=300)}"
            for name, text in (
                ("argument_preview", self.argument_preview),
                ("result_preview", self.result_preview),
            )
            if text is not None
        )
        return f"CodeCall({target}, {times}, {self.outcome!r}{previews})"


@final
@dataclass(frozen=True, slots=True, repr=False, eq=False)
class CodeRunResult:
    """What a run gave: its logs, and a value or a failure, never both (SC-035, SC-038).

    Two results are equal only if they are the same object: values may be nested deeper than Python
    can compare.

    Args:
        logs: What the program printed, in order.
        has_value: Whether the program ended by itself with a value; returning null is a value
            (SC-037).
        value: The value; None when there is none.
        error: Why the run failed; None when it did not.
        logs_truncated: Whether logs were dropped because they were over the provider's limit.
        calls: The calls of host functions in the order of their arrival, the first 10,000.
        calls_dropped: How many calls came after those.
        log_times_ms: When each log arrived, in milliseconds from the start of the program; None
            unless recorded.
        program: The source text of the program; None unless recorded.
        language: The language of the program, such as `typescript`; None unless recorded.
        elapsed_ms: How long the run took, in milliseconds from the start of the program; None
            unless recorded.

    Raises:
        RequestError: A value and a failure, or a value that `has_value` denies.
        RequestTypeError: A field has the wrong type.
    """

    logs: list[str]
    _: KW_ONLY
    has_value: bool = False
    value: object = None
    error: CodeRunFailure | None = None
    logs_truncated: bool = False
    calls: list[CodeCall] = field(default_factory=list)
    calls_dropped: int = 0
    log_times_ms: list[float] | None = None
    program: str | None = None
    language: str | None = None
    elapsed_ms: float | None = None

    def __post_init__(self) -> None:
        for name, content in (("logs", self.logs), ("calls", self.calls)):
            if not isinstance(content, list):
                raise _type_error(self, name, content, "list")
        if not (self.error is None or isinstance(self.error, CodeRunFailure)):
            raise _type_error(self, "error", self.error, "CodeRunFailure or None")
        if self.has_value and self.error is not None:
            raise RequestError(
                "CodeRunResult", "error", describe(self.error), "None beside a value"
            )
        if self.value is not None and not self.has_value:
            raise RequestError(
                "CodeRunResult", "value", describe(self.value), "None while has_value is False"
            )
        for name, text in (("program", self.program), ("language", self.language)):
            if not (text is None or isinstance(text, str)):
                raise _type_error(self, name, text, "str or None")

    @property
    def ok(self) -> bool:
        """Whether the program ended by itself, with or without a value."""
        return self.error is None

    def to_html(self) -> str:
        """Return one self-contained page that shows the run, for a browser.

        It shows the program with line numbers and the line that failed, a time line of the logs and
        the calls, and the value or the failure. It needs no network, no script and no other file,
        and has at most 6,000,000 bytes as UTF-8: of a larger run it shows a part and says so.
        Whatever the program gave is text in it, control characters are spelled out.

        Returns:
            An HTML document that can be encoded as UTF-8.

        Raises:
            RequestError: the run was not recorded, so its program is not known.
        """
        from ._report import render_page  # only who looks at a run pays for it

        if self.program is None:
            raise RequestError(
                "a page of CodeRunResult", "program", "None", "that of a run with record=True"
            )
        return render_page(self)

    def __repr__(self) -> str:
        parts = [f"logs={bounded_repr(self.logs, limit=500)}"]
        if self.has_value:
            parts.append(f"value={bounded_repr(self.value, limit=700)}")
        if self.error is not None:
            parts.append(f"error={self.error!r}")
        if self.logs_truncated:
            parts.append("logs_truncated=True")
        count = len(self.calls) + self.calls_dropped
        if count:
            parts.append(f"calls=<{count} call{'s' if count > 1 else ''}>")
        return f"CodeRunResult({', '.join(parts)})"


def _set(owner: object, name: str, value: object) -> None:
    object.__setattr__(owner, name, value)


def _type_error(owner: object, name: str, value: object, expected: str) -> RequestTypeError:
    return RequestTypeError(type(owner).__name__, name, describe(value), expected)


def _string(owner: object, name: str, value: object) -> str:
    if not isinstance(value, str):
        raise _type_error(owner, name, value, "str")
    # A subclass of str may override everything; only its characters are wanted.
    return value if type(value) is str else str.__str__(value)


def _functions(owner: object, value: object) -> Mapping[str, BindingFunction]:
    if not isinstance(value, Mapping):
        raise _type_error(owner, "functions", value, "a mapping of names to functions")
    copy: dict[str, BindingFunction] = {}
    for key, function in value.items():
        if not isinstance(key, str):
            raise _type_error(owner, "a key of functions", key, "str")
        copy[_string(owner, "a key of functions", key)] = function
    return MappingProxyType(copy)


def _bindings(owner: object, value: object) -> tuple[CodeBindingNamespace, ...]:
    if isinstance(value, (str, bytes, Mapping)) or not isinstance(value, Iterable):
        raise _type_error(owner, "bindings", value, "a list of CodeBindingNamespace")
    items = tuple(value)
    for index, item in enumerate(items):
        if not isinstance(item, CodeBindingNamespace):
            raise _type_error(owner, f"bindings[{index}]", item, "CodeBindingNamespace")
    return items


def _check_wall(owner: object, value: object) -> None:
    expected = "a positive, finite number of milliseconds, or None"
    if value is None:
        return
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise _type_error(owner, "max_wall_ms", value, expected)
    # `0 < value` is False for NaN, so one comparison refuses NaN, infinity, zero and negative
    # numbers.
    if not 0 < value < float("inf"):
        raise RequestError(type(owner).__name__, "max_wall_ms", describe(value), expected)
