"""The page of messages has every text with which the packages speak to a user, and no other."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from source_messages import FORMS, Message, source_messages

PAGE = Path(__file__).parents[1] / "docs/reference/errors.md"

# What the source says to nobody: by file, or by the text itself.
SILENT_FILES = (
    r"_guard_(portable|process|program)\.py$",  # words between guard and host
    r"_execution/_reading\.py$",  # states of a loop
    r"_child/warm\.py$|_fatal\.py$|host/src/(scan|frames)\.ts$",
)
SILENT_TEXTS = (
    r"\\[bdsw]|\|.*\||^\(…=>|^import |^const |^async function|^\"use strict\"|^(return|await) \w+|await import\(",
    r"Callable|Generator|^<(Context|int)|^CodeCall\(|^calls=|^Traceback|^Exception Group Traceback",
    r"^(await break|False None|console __|undefined NaN|name message)",  # lists of names
    r"^(Expecting value|Extra data)$",  # the words of `json`, which has more of them
    r"^(load a plugin|a key of functions|register a cleanup|enter a child|Raised while)",
    r"^(start|watch|kill) (a|the) (program|warden|zygote)",  # an action of a message
    r"^(errors in|a line that says ready|nothing is sent|all that has|without await$|from import)",
    r"^(Event loop stopped|asyncio\.run|'yield' outside|Positions moved|Invalid assignment|Untermin)",
    r"^'import', and 'export'|^function …\(\)|^(global_name|globalName)\.member",
    r"(global_name|globalName)\.member",  # the class of errors has that field, a namespace has not
    r"^(it is …|set python_bin|return \d|return null|return 1 \+ 1|out of memory|preload module …)$",
    r"^(the comment|the template|the string|an array|an object|exit code …|is not a function)$",
    r"^Cannot (build|configure|declare bindings|run a program)( \w+| …)?: … is …, expected …$",
    r"^Cannot (start …|load plugin|…): …, expected …$",
    r"^(was ended by|ended with) ",  # part of a message
)


def is_silent(message: Message) -> bool:
    if any(re.search(form, message.path) for form in SILENT_FILES):
        return not message.text.startswith("Cannot ") or message.path.endswith("frames.ts")
    return any(re.search(form, message.text) for form in SILENT_TEXTS)


def spoken() -> set[str]:
    return {message.text for message in source_messages() if not is_silent(message)}


def groups() -> list[tuple[list[str], str]]:
    """Return the lists of messages, each with the paragraph below it."""
    found = []
    for part in re.findall(r"((?:^- `.*\n)+)\n((?:.+\n)*)", PAGE.read_text("utf-8"), re.MULTILINE):
        spans = [re.fullmatch(r"- (`+) ?(.+?) ?\1", line) for line in part[0].splitlines()]
        found.append(([span[2] if span else "" for span in spans], part[1]))
    return found


def shown() -> list[str]:
    return [text for texts, _ in groups() for text in texts]


def test_page_has_every_message_of_the_source() -> None:
    assert sorted(spoken() - set(shown())) == []


def test_page_has_no_message_that_is_gone() -> None:
    assert sorted(set(shown()) - spoken()) == []


def test_page_has_each_message_once_with_cause_and_remedy() -> None:
    texts = shown()
    assert sorted(texts) == sorted(set(texts))
    form = r"\*\*Cause\.\*\* \S.+\n\*\*Remedy\.\*\* \S.+\n"
    assert [below for _, below in groups() if re.fullmatch(form, below) is None] == []


def test_refusals_name_what_is_expected() -> None:
    """The form of a refusal is `Cannot <verb> <thing>: <what was seen>, expected <what>`."""
    short = {text for text in spoken() if text.startswith("Cannot ") and "expected" not in text}
    assert {text for text in short if not re.search(SHORT, text)} == set()


# Refusals whose second half comes from elsewhere, or for which there is nothing to expect.
SHORT = (
    r"^Cannot read (the|a) … ?frame|^Cannot read the (boot|run) frame|^Cannot read a reply frame"
    r"|^Cannot (call …: the (reply|argument must)|render the thrown|set the limits|read the completion)"
    r"|^Cannot (move descriptor|handle frame|start a (second )?worker|prepare run|enter the working)"
    r"|^Cannot (call|finish) …: (…$|\$…|the (run|call|tool) |no result)"
    r"|^Cannot close a block that|^Cannot import … from|^Cannot start the program: … of … bytes"
)


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS.keys())
def test_known_functions_say_a_refusal(form: str) -> None:
    assert form.startswith("Cannot ")
    assert ", expected {" in form


def test_messages_are_read_from_both_languages() -> None:
    """A message of each way to build one: a constant, a choice, a variable, a sum, a template."""
    assert {
        "Cannot build …: record is …, expected bool",
        "Cannot configure …: … is …, expected a positive number or None",
        "Cannot load plugin: an instance of …, expected a Service subclass, an async function of "
        "(ctx, config), or the name of an installed provider",
        "memory limit reached: the program and its processes used more than … MiB (memory_mb)",
        "Cannot configure PythonCodeRuntime: cpuSeconds is …, expected an exact integer, at most … s",
        "Cannot export from a program: expected `return` with the value instead",
        "SyntaxError: Cannot strip the types of this program: the type stripper failed on it, "
        "expected fewer levels of nested or chained expressions (keep data in strings or files, "
        "and split long expressions)",
    } <= spoken()
