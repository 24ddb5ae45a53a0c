"""The public face of `code_runtime`: what it exports, how it is documented, typed, and how light it is."""

from __future__ import annotations

import dataclasses
import importlib.metadata
import inspect
import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import pytest

import code_runtime

ROOT = Path(__file__).parent.parent


def test_exports_are_fixed() -> None:
    assert code_runtime.__all__ == [
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
    assert all(hasattr(code_runtime, name) for name in code_runtime.__all__)


def test_version_is_that_of_the_distribution() -> None:
    assert code_runtime.__version__ == importlib.metadata.version("code-runtime")


def _documented() -> list[tuple[str, object]]:
    found: list[tuple[str, object]] = []
    for name in code_runtime.__all__:
        item = getattr(code_runtime, name)
        if not (inspect.isclass(item) or inspect.isfunction(item)):
            continue  # an alias of a type
        found.append((name, item))
        if inspect.isclass(item):
            found += [
                (f"{name}.{member}", value)
                for member, value in vars(item).items()
                if not member.startswith("_") and (callable(value) or isinstance(value, property))
            ]
    return found


@pytest.mark.parametrize("item", [pytest.param(item, id=name) for name, item in _documented()])
def test_everything_public_has_a_docstring(item: object) -> None:
    text = inspect.getdoc(item) or ""
    assert text.split("\n")[0].rstrip().endswith((".", ")"))
    assert not text.startswith(getattr(item, "__name__", "?") + "(")  # not the generated one


def test_every_error_derives_from_the_base() -> None:
    errors = [name for name in code_runtime.__all__ if name.endswith("Error")]
    assert len(errors) == 14
    for name in errors:
        kind = getattr(code_runtime, name)
        assert issubclass(kind, code_runtime.CodeRuntimeError)
        if kind is not code_runtime.CodeRuntimeError:
            builtin = (TypeError, ValueError, LookupError, RuntimeError)
            assert issubclass(kind, builtin), f"{name} derives from no built-in error"


def test_keyword_only_fields_stay_keyword_only() -> None:
    positional = {
        name: [field.name for field in dataclasses.fields(kind) if not field.kw_only]
        for name in code_runtime.__all__
        if dataclasses.is_dataclass(kind := getattr(code_runtime, name))
    }
    assert positional == {
        "CodeBindingErrorClass": ["name", "member_name_property"],
        "CodeBindingNamespace": ["global_name", "functions", "error_class"],
        "CodeCall": ["namespace", "member", "started_ms", "duration_ms", "outcome"],
        "CodeRunFailure": ["kind", "message"],
        "CodeRunRequest": ["program", "bindings"],
        "CodeRunResult": ["logs"],
    }


def test_import_is_light() -> None:
    """The command line, providers and package metadata are loaded by those who use them."""
    program = "import code_runtime, json, sys; print(json.dumps(sorted(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-I", "-c", program], capture_output=True, check=True, text=True
    )
    loaded = {str(name) for name in json.loads(done.stdout)}
    heavy = {
        "asyncio",
        "trio",
        "typer",
        "rich",
        "msgpack",
        "importlib.metadata",
        "code_runtime._cli",
        "code_runtime._report",
        "code_runtime_worker_thread",
        "subprocess",
        "threading",
        "logging",
    }
    assert loaded & heavy == set()


def test_package_is_marked_as_typed() -> None:
    assert (Path(code_runtime.__file__).parent / "py.typed").exists()


class _Fake(code_runtime.CodeRuntime):
    @property
    def language(self) -> str:
        return "x"

    @property
    def isolation(self) -> str:
        return "y"

    async def run(self, request: code_runtime.CodeRunRequest) -> code_runtime.CodeRunResult:
        return code_runtime.CodeRunResult([request.program])


async def _apply(ctx: code_runtime.Context, config: dict[str, int]) -> None:
    ctx.on_dispose(_cleanup)


async def _cleanup() -> None:
    pass


async def _add(args: dict[str, int]) -> int:
    return args["a"] + args["b"]


if TYPE_CHECKING:
    from typing import assert_type

    # What a user writes, checked by mypy and pyright along with the rest of the tests.
    MaybeRuntime: TypeAlias = code_runtime.CodeRuntime | None
    MaybeService: TypeAlias = code_runtime.Service | None
    MaybeText: TypeAlias = str | None

    async def _types() -> None:
        async with code_runtime.Context() as ctx:
            assert_type(ctx, code_runtime.Context)
            handle = await ctx.plugin(_Fake, {"compute_ms": 5_000})
            await ctx.plugin("worker-thread")
            await ctx.plugin(_apply, {"a": 1})
            assert_type(handle, code_runtime.PluginHandle)
            assert_type(handle.state, code_runtime.PluginState)
            assert_type(ctx.codeRuntime, code_runtime.CodeRuntime)
            assert_type(ctx["codeRuntime"], code_runtime.CodeRuntime)
            assert_type(ctx.get("codeRuntime"), MaybeRuntime)
            assert_type(ctx["other"], code_runtime.Service)
            assert_type(ctx.get("other"), MaybeService)
            async with ctx.child() as inner:
                assert_type(inner, code_runtime.Context)
            request = code_runtime.CodeRunRequest(
                program="return 1",
                bindings=[code_runtime.CodeBindingNamespace("tools", {"add": _add, "p": print})],
                on_log=print,
                max_wall_ms=5,
            )
            result = await ctx.codeRuntime.run(request)
            assert_type(result.logs, list[str])
            assert_type(result.value, object)
            assert_type(result.ok, bool)
            assert_type(result.program, MaybeText)
            assert_type(result.to_html(), str)
            if result.error is not None:
                assert_type(result.error.kind, code_runtime.FailureKind)
            assert_type(result.calls[0].outcome, code_runtime.CallOutcome)
        with code_runtime.open_runtime(_Fake) as runtime:
            assert_type(runtime, code_runtime.BlockingCodeRuntime)
            assert_type(runtime.run(request), code_runtime.CodeRunResult)
        ctx.codeRuntime = runtime  # type: ignore[misc, assignment]  # pyright: ignore[reportAttributeAccessIssue]
        code_runtime.CodeRunRequest(5)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


@pytest.mark.slow
@pytest.mark.timeout(180)
def test_public_types_are_complete() -> None:
    """`pyright --verifytypes` finds no unknown type on the public face."""
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "pyright",
            "--ignoreexternal",
            "--outputjson",
            "--verifytypes",
            "code_runtime",
        ],
        capture_output=True,
        check=False,
        cwd=ROOT,
        text=True,
    )
    report = json.loads(done.stdout)["typeCompleteness"]
    unknown = [
        f"{symbol['name']}: {message['message']}"
        for symbol in report["symbols"]
        if symbol["isExported"] and not symbol["isTypeKnown"]
        for message in symbol["diagnostics"]
    ]
    assert unknown == []
