"""Rules of the names that a request may use, and of what a program finds under them."""

from __future__ import annotations

from collections.abc import Iterable

from code_runtime._abort import AbortSignal
from code_runtime._errors import BindingNameError
from code_runtime._names import ERROR_OWNED, PROGRAM_OWNED, RESERVED_WORDS, RUNTIME_OWNED
from code_runtime._runtime import CodeRuntime
from code_runtime._vocabulary import CodeBindingErrorClass, CodeBindingNamespace, CodeRunRequest

from ._expect import expect, expect_same, expect_value
from ._rule import rule
from ._subject import Subject, tools_namespace


@rule()
async def a_global_name_is_an_identifier(subject: Subject) -> None:
    """A global name is a letter or underscore, then letters, digits and underscores.

    SC-013.
    """
    wrong = ["", "1a", "$tools", "a$b", "a b", "a-b", "tools\n", "é", "a.b", "\uff54ools"]
    async with subject.open() as runtime:
        for name in wrong:
            await _expect_refusal(runtime, [_named(name)], "bindings[0].global_name")


@rule()
async def reserved_words_are_refused(subject: Subject) -> None:
    """No global name is a reserved word of any language of a provider.

    SC-014, SC-015, SC-024.
    """
    async with subject.open() as runtime:
        for name in sorted(RESERVED_WORDS):
            await _expect_refusal(runtime, [_named(name)], "bindings[0].global_name")


@rule()
async def names_of_runtimes_are_refused(subject: Subject) -> None:
    """No global name is one that a runtime uses itself, or that programs need.

    SC-016, SC-017.
    """
    async with subject.open() as runtime:
        for name in sorted(RUNTIME_OWNED | PROGRAM_OWNED):
            await _expect_refusal(runtime, [_named(name)], "bindings[0].global_name")


@rule()
async def a_global_name_is_used_once(subject: Subject) -> None:
    """Two namespaces of a request have different names.

    SC-018.
    """
    async with subject.open() as runtime:
        twice = [_named("tools"), _named("tools")]
        await _expect_refusal(runtime, twice, "bindings[1].global_name")


@rule()
async def an_error_class_follows_the_rules_of_globals(subject: Subject) -> None:
    """The name of an error class is allowed only where a global name would be.

    SC-013, SC-014, SC-016.
    """
    async with subject.open() as runtime:
        for name in ("", "a b", "$x", "class", "None", "console", "Error", "Failure\n"):
            bindings = [_named("tools", CodeBindingErrorClass(name, "member"))]
            await _expect_refusal(runtime, bindings, "bindings[0].error_class.name")


@rule()
async def an_error_class_has_a_name_of_its_own(subject: Subject) -> None:
    """The name of an error class is neither that of a namespace nor that of another class.

    SC-019.
    """
    failure = CodeBindingErrorClass("Failure", "member")
    lists = [
        ([_named("Failure", failure)], 0),
        ([_named("tools", failure), _named("Failure")], 0),
        ([_named("tools", failure), _named("other", failure)], 1),
    ]
    async with subject.open() as runtime:
        for bindings, index in lists:
            await _expect_refusal(runtime, bindings, f"bindings[{index}].error_class.name")


@rule()
async def a_member_property_is_free_in_errors(subject: Subject) -> None:
    """The property with the member's name is none that errors of some language have.

    SC-021, SC-022.
    """
    async with subject.open() as runtime:
        for name in ("", "__dict__", "__x__", *sorted(ERROR_OWNED)):
            bindings = [_named("tools", CodeBindingErrorClass("Failure", name))]
            field = "bindings[0].error_class.member_name_property"
            await _expect_refusal(runtime, bindings, field)


@rule("return_null")
async def allowed_names_are_accepted(subject: Subject) -> None:
    """Every other name is accepted, so that a list is valid for all providers or for none.

    SC-020, SC-022 to SC-024.
    """
    names = ["_x", "x1", "X", "tools_2", "__tools", "of", "async_", "Console", "self", "ToolError"]
    properties = ["toolName", "a b", "tool-name", "cause", "code", "__", "____", "__mid", "_x"]
    async with subject.open() as runtime:
        bindings = [_named(name) for name in names]
        bindings += [
            _named(f"other{index}", CodeBindingErrorClass(f"Failure{index}", name))
            for index, name in enumerate(properties)
        ]
        result = await runtime.run(subject.request("return_null", bindings=bindings))
        expect_value(result, None)


@rule()
async def the_first_bad_name_is_reported(subject: Subject) -> None:
    """All global names are looked at before any error class, and the first fault is raised.

    SC-025.
    """
    bindings = [_named("tools", CodeBindingErrorClass("class", "name")), _named("a b")]
    async with subject.open() as runtime:
        await _expect_refusal(runtime, bindings, "bindings[1].global_name")
        bindings = [_named("tools", CodeBindingErrorClass("class", "name"))]
        await _expect_refusal(runtime, bindings, "bindings[0].error_class.name")


@rule("print_given")
async def a_refused_request_starts_nothing(subject: Subject) -> None:
    """A request with a bad name is refused before anything runs, with a fired signal too.

    SC-036, WT-010, PY-038, PY-049.
    """
    signal = AbortSignal()
    signal.abort("before")
    called: list[object] = []

    def texts(value: object) -> list[str]:
        called.append(value)
        return ["ran"]

    bindings = [tools_namespace({"texts": texts}), _named("class")]
    async with subject.open() as runtime:
        for fields in ({}, {"signal": signal}):
            request = subject.request(
                "print_given", bindings=bindings, on_log=called.append, **fields
            )
            try:
                result: object = await runtime.run(request)
            except BindingNameError:
                continue
            expect(False, "the answer to a bad name", result, "BindingNameError")
    expect_same("what was called", called, [])


@rule("odd_members")
async def any_text_names_a_function(subject: Subject) -> None:
    """The name of a function is any text, and each is an own member of its namespace.

    SC-026.
    """
    names = ["", "a b", "__proto__", "constructor", "toString", "__class__"]

    def function(name: str) -> object:
        return lambda value: f"{name} got {value}"

    result = await subject.run("odd_members", {name: function(name) for name in names})  # type: ignore[misc]
    expect_value(result, [f"{name} got {number}" for number, name in enumerate(names)])


@rule("undeclared")
async def an_undeclared_member_cannot_be_called(subject: Subject) -> None:
    """A program reaches the functions that are declared to it, and no others.

    SC-027, SC-044.
    """
    result = await subject.run("undeclared", {"present": lambda value: value})
    expect_value(result, 3)
    reached = [call.member for call in result.calls if call.outcome != "refused"]
    expect_same("the functions that were reached", reached, [])


@rule("call_data")
async def a_member_that_is_no_function_cannot_be_called(subject: Subject) -> None:
    """A member that is no function is answered like an unknown one, and the run goes on.

    SC-028.
    """
    result = await subject.run("call_data", {"data": 5})  # type: ignore[dict-item]
    expect_value(result, True)


@rule("two_namespaces")
async def namespaces_are_separate(subject: Subject) -> None:
    """Functions of the same name in two namespaces are two functions.

    SC-012, WT-140.
    """
    bindings = [
        CodeBindingNamespace("tools", {"echo": lambda value: ["tools", value]}),
        CodeBindingNamespace("other", {"echo": lambda value: ["other", value]}),
    ]
    result = await subject.run("two_namespaces", bindings=bindings)
    expect_value(result, [["tools", 1], ["other", 2]])
    expect_same("the journal", [call.namespace for call in result.calls], ["tools", "other"])


@rule("call_shadow")
async def a_namespace_may_be_named_like_an_error_class(subject: Subject) -> None:
    """`ToolCallError` is an ordinary global name as long as no error class claims it.

    SC-020, SC-034.
    """
    bindings = [CodeBindingNamespace("ToolCallError", {"echo": lambda value: value})]
    expect_value(await subject.run("call_shadow", bindings=bindings), 5)


def _named(name: str, error_class: CodeBindingErrorClass | None = None) -> CodeBindingNamespace:
    return CodeBindingNamespace(name, {}, error_class)


async def _expect_refusal(
    runtime: CodeRuntime, bindings: Iterable[CodeBindingNamespace], field: str
) -> None:
    listed = list(bindings)
    try:
        result: object = await runtime.run(CodeRunRequest("", listed))
    except BindingNameError as error:
        expect_same(f"the refused field of {listed!r}", error.field, field)
    else:
        expect(False, f"the answer to {listed!r}", result, "BindingNameError")
