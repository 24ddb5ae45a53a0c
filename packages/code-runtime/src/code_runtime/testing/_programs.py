"""The programs that a language must supply to be checked: keys, and what each program must do.

`tools` is a namespace whose failed calls raise `ToolCallError` with the function's name as
`toolName`; a function that needs no argument is given null. A program prints each entry of the log
by one `print` or `console.log` of a single line.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

PROGRAM_KEYS: Final[Mapping[str, str]] = MappingProxyType(
    {
        # Values
        "relay": "asks tools.give for a value, passes it to tools.take, and returns it",
        "nothing": "does something and ends without returning",
        "comment": "is nothing but a comment",
        "return_null": "returns null",
        "return_whole": "returns the number one, spelled 1.0 where the language tells them apart",
        "return_lossy": (
            "asks tools.which for a name and returns what it stands for: nan, infinity, "
            "negative_zero, function (any function), cycle (a list that holds itself), date (a "
            "date object), big_integer (an integer, 2**53 + 1, that no double holds), nested (an "
            "object whose member `items` is the list of 1 and NaN)"
        ),
        "lossy_arguments": (
            "calls tools.take with each of NaN, infinity, negative zero, a function, a list that "
            "holds itself; catches what each call raises; returns the list of the five messages"
        ),
        "return_long": "asks tools.count for n and returns a text of n letters x",
        "return_deep": "asks tools.count for n and returns an empty list within n lists",
        "mutate": "asks tools.give for an object, sets its member `changed` to true, returns it",
        "mutate_after_call": (
            "makes an object with n = 1, starts a call of tools.take with it, sets n = 2 before "
            "it waits for the end of that call, and returns null"
        ),
        # Logs
        "print_given": "asks tools.texts for a list, prints each text, and returns their number",
        "print_many": "asks tools.count for n, prints `line 0` to `line <n-1>`, and returns n",
        "print_and_look": "prints `one`, then returns what tools.look gives",
        "print_then_lossy": "prints `before`, then returns NaN",
        # Calls
        "attempts": (
            "asks tools.count for n and calls tools.attempt with 0 to n-1, one after the other; "
            "returns a list with [true, result] or [false, message of the error] for each"
        ),
        "parallel": (
            "asks tools.count for n, starts tools.attempt with 0 to n-1 all at once, and returns "
            "the list of their results in that order"
        ),
        "hold": "prints `up`, then returns what tools.hold gives",
        "unawaited": (
            "starts a call of tools.hold without waiting for its end, then waits for tools.ready, "
            "and returns `done`"
        ),
        "ticks": "prints `up`, then calls tools.tick for ever, one call after the other",
        "call_uncaught": "returns what tools.attempt gives for 0, and catches nothing",
        "error_class": (
            "calls tools.attempt with 0, which fails; returns a list: whether the error is an "
            "instance of ToolCallError, the name of its class, its toolName, its message"
        ),
        "plain_error": (
            "calls plain.fail with 0, which fails and whose namespace has no error class; returns "
            "a list: whether the error has a toolName, its message"
        ),
        # Names
        "two_namespaces": "returns the list of tools.echo for 1 and other.echo for 2",
        "odd_members": (
            "calls the members of tools that are named by the empty text, `a b`, `__proto__`, "
            "`constructor`, `toString`, `__class__`, with 0 to 5; returns the list of the results"
        ),
        "undeclared": (
            "tries to call the members `missing`, `toString` and `hasOwnProperty` of tools, none "
            "of which is declared; returns the number of attempts that failed"
        ),
        "call_data": "tries to call tools.data, which is no function; returns true if that failed",
        "call_shadow": "returns what the function echo of the namespace ToolCallError gives for 5",
        # Ends
        "throw": (
            "prints `before`, and raises an error with the text `conformance failure`, which "
            "stands as a literal in the third line of the program"
        ),
        "throw_unrenderable": "raises an error whose conversion to text fails itself",
        "throw_long": "asks tools.count for n and raises an error with a text of n letters x",
        "syntax_error": "does not parse; the faulty line contains `conformance_fault`",
        "exit": "prints `before`, then ends its own process or worker at once with code 7",
        "wait": "prints `up`, then waits for ever without computing",
        "hot": "prints `up`, then computes for ever without letting anything else run",
        "block": "prints `up`, then blocks for a minute in one native call",
        # Isolation
        "mark_global": (
            "looks for a mark in every global place that the language lets a program change, "
            "leaves one in all of them, and returns whether it has found any"
        ),
        "break_builtins": "replaces what a runtime may use after the program, and returns 1",
        "working_directory": (
            "returns a list: the working directory, the list of names in it, the folder for "
            "temporary files; leaves a file in it"
        ),
        "environment": "returns the variable CODE_RUNTIME_CONFORMANCE of its environment, or null",
        "heartbeat": (
            "asks tools.path for a path and appends to that file for ever, without letting "
            "anything else run; prints `up` after the first time"
        ),
        "detached": (
            "asks tools.path for a path, starts a detached process that appends to that file for "
            "ever, waits until the file is not empty, and returns `done`"
        ),
    }
)
"""What the program of each key must do."""
