"""One contract for running a program that a language model wrote against functions of its host."""

from __future__ import annotations

from ._abort import AbortSignal
from ._context import Context
from ._errors import (
    BindingNameError,
    CodeRuntimeError,
    ConfigError,
    ConfigTypeError,
    ContextStateError,
    ForkedHostError,
    HostStartError,
    PluginNotFoundError,
    PluginTypeError,
    RequestError,
    RequestTypeError,
    RuntimeDisposedError,
    ServiceExistsError,
    ServiceMissingError,
)
from ._handle import PluginHandle, PluginState
from ._open import BlockingCodeRuntime, open_runtime
from ._runtime import CodeRuntime
from ._service import Service
from ._vocabulary import (
    BindingFunction,
    CallOutcome,
    CodeBindingErrorClass,
    CodeBindingNamespace,
    CodeCall,
    CodeRunFailure,
    CodeRunRequest,
    CodeRunResult,
    FailureKind,
)

__version__ = "0.1.0"

__all__ = [
    "AbortSignal",
    "BindingFunction",
    "BindingNameError",
    "BlockingCodeRuntime",
    "CallOutcome",
    "CodeBindingErrorClass",
    "CodeBindingNamespace",
    "CodeCall",
    "CodeRunFailure",
    "CodeRunRequest",
    "CodeRunResult",
    "CodeRuntime",
    "CodeRuntimeError",
    "ConfigError",
    "ConfigTypeError",
    "Context",
    "ContextStateError",
    "FailureKind",
    "ForkedHostError",
    "HostStartError",
    "PluginHandle",
    "PluginNotFoundError",
    "PluginState",
    "PluginTypeError",
    "RequestError",
    "RequestTypeError",
    "RuntimeDisposedError",
    "Service",
    "ServiceExistsError",
    "ServiceMissingError",
    "open_runtime",
]
