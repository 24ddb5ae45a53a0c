"""Turns TypeScript programs that are, or export, one function into programs that call it."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from ._typescript_tokens import Token, outer_tokens

_MAY_BE: Final = re.compile(r"\bexport\s|=>|\bfunction\b")
# A line that begins or ends with one of these goes on with the expression of the line before.
_CONTINUES: Final = frozenset(
    [
        ".",
        "?.",
        "?",
        ":",
        "&&",
        "||",
        "??",
        "+",
        "-",
        "*",
        "/",
        "%",
        "=",
        "==",
        "===",
        "!=",
        "!==",
        "<",
        ">",
        "<=",
        ">=",
        "|",
        "&",
        "=>",
    ]
)
# Braces behind one of these are a type, not the body of a function.
_BEFORE_TYPE: Final = frozenset([":", "<", ",", "|", "&", "=>", "is", "keyof", "readonly"])
_STATEMENTS: Final = frozenset([";", "=", "return", "const", "let", "function", "class", "export"])
_DECLARES: Final = frozenset(["const", "let", "var"])
_OPERATORS: Final = _CONTINUES | {",", "!", "await", "return", "new", "typeof", "void", "=>"}
_TOOLS: Final = "tools"


class _Function(NamedTuple):
    """A function that ends a list of tokens.

    Args:
        begin: The index of its first token.
        end: The offset behind it.
        name: Its name, if it is a `function` with one.
        parameters: The offsets of what is between its round brackets, or of its only parameter.
    """

    begin: int
    end: int
    name: str | None
    parameters: tuple[int, int]


def call_function(code: str) -> str:
    """Let a program that is or exports one function return what the function returns.

    Args:
        code: A program.

    Returns:
        The program with a call around or behind the function, on the function's own lines;
        otherwise, and always in doubt, the program as it is.
    """
    if not _MAY_BE.search(code):
        return code
    tokens = outer_tokens(code)
    while tokens and tokens[-1].text == ";":
        tokens.pop()
    if not tokens:
        return code
    exports = [at for at in range(len(tokens) - 1) if _is_export(tokens, at)]
    if exports:
        return _called_export(code, tokens, exports[0]) if len(exports) == 1 else code
    if len(tokens) == 1 and tokens[0].text == "(":
        return _called_brackets(code, tokens[0])
    function = _function(code, tokens, 0)
    if function is not None:
        return _around(code, tokens[0].start, function)
    return _returned_call(code, tokens)


def _is_export(tokens: list[Token], at: int) -> bool:
    if tokens[at].text != "export" or tokens[at + 1].text != "default":
        return False
    return at == 0 or tokens[at - 1].text not in (".", "?.")


def _called_export(code: str, tokens: list[Token], at: int) -> str:
    function = _function(code, tokens, at + 2)
    if function is None:
        return code
    export, default = tokens[at], tokens[at + 1]
    # What is between the two words may hold a line end, behind which a `return` must not stand.
    kept = code[: export.start] + " " * 6 + code[export.end : default.start]
    if function.name is None and kept.endswith(" " * 7):
        kept = kept[:-7]
    whole = kept + " " * (len("export default") - len("export ") if function.name else 0)
    moved = whole + code[default.end :]
    shift = len(moved) - len(code)
    return _around(
        moved,
        len(whole),
        function._replace(
            end=function.end + shift,
            parameters=(function.parameters[0] + shift, function.parameters[1] + shift),
        ),
    )


def _called_brackets(code: str, brackets: Token) -> str:
    inside = outer_tokens(code, brackets.start + 1, brackets.end - 1)
    function = _function(code, inside, 0) if inside else None
    if function is None:
        return code
    arguments = _arguments(code, function)
    head, text = code[: brackets.start], code[brackets.start : brackets.end]
    return f"{head}return await {text}({arguments}){code[brackets.end :]}"


def _returned_call(code: str, tokens: list[Token]) -> str:
    """Wait for the async function that the last statement calls, and return what it gives.

    It is one that the program has declared, or one in place. Without that, `main();` would end the
    run before the function has done anything.
    """
    at = len(tokens) - 1
    # Behind the call may stand `.catch(…)` and the like.
    while at >= 4 and tokens[at].text == "(" and tokens[at - 2].text == ".":
        at -= 3
    if at < 1 or tokens[at].text != "(":
        return code
    called = tokens[at - 1]
    begin = at - 2 if at >= 2 and tokens[at - 2].text == "await" else at - 1
    before = tokens[begin - 1] if begin else None
    if called.text == "(":
        inside = outer_tokens(code, called.start + 1, called.end - 1) or []
        is_async = bool(inside) and inside[0].text == "async"
        is_ours = is_async and _function(code, inside, 0) is not None
        begins = before is None or before.text == ";"
    else:
        words = [token.text for token in tokens[:begin]]
        is_ours = any(
            words[at : at + 3] == ["async", "function", called.text]
            or (words[at] in _DECLARES and words[at + 1 : at + 4] == [called.text, "=", "async"])
            for at in range(len(words))
        )
        begins = before is not None and (
            before.text in (";", "{") or (tokens[begin].breaks and before.text not in _OPERATORS)
        )
    if not is_ours or not begins:
        return code
    start, end = tokens[begin].start, called.start
    return f"{code[:start]}return await {code[end:]}"


def _around(code: str, start: int, function: _Function) -> str:
    """Put a call around a function; a named one stays a declaration, which others may call."""
    arguments = _arguments(code, function)
    head, text, tail = code[:start], code[start : function.end], code[function.end :]
    if function.name is not None:
        return f"{head}{text} return await {function.name}({arguments});{tail}"
    return f"{head}return await ({text})({arguments}){tail}"


def _function(code: str, tokens: list[Token], begin: int) -> _Function | None:
    """Read the tokens from an index to the end as one function."""
    at = begin + 1 if tokens[begin : begin + 1] and tokens[begin].text == "async" else begin
    rest = tokens[at:]
    if not rest:
        return None
    if rest[0].text == "function":
        return _declared(rest, begin)
    return _arrow(code, rest, begin)


def _declared(rest: list[Token], begin: int) -> _Function | None:
    name = rest[1].text if len(rest) > 1 and rest[1].kind == "word" else None
    after = rest[2:] if name else rest[1:]
    if len(after) < 2 or after[0].text != "(" or after[1].text not in (":", "{"):
        return None
    bodies = [
        at
        for at, token in enumerate(after)
        if token.text == "{" and after[at - 1].text not in _BEFORE_TYPE
    ]
    if not bodies or bodies[0] != len(after) - 1:
        return None
    return _Function(begin, after[-1].end, name, (after[0].start + 1, after[0].end - 1))


def _arrow(code: str, rest: list[Token], begin: int) -> _Function | None:
    arrows = [at for at, token in enumerate(rest) if token.text == "=>"]
    if not arrows:
        return None
    head = rest[: arrows[0]]
    if len(head) == 1 and head[0].kind == "word":
        parameters = (head[0].start, head[0].end)
    elif head and head[0].text == "(" and (len(head) == 1 or head[1].text == ":"):
        parameters = (head[0].start + 1, head[0].end - 1)
    else:
        return None
    if len(head) == 2 or any(token.text in _STATEMENTS for token in head):
        return None
    body = rest[arrows[0] + 1 :]
    if not body or (body[0].text == "{" and len(body) > 1):
        return None
    is_one = body[0].text == "{" or _is_one_expression(body)
    return _Function(begin, body[-1].end, None, parameters) if is_one else None


def _is_one_expression(tokens: list[Token]) -> bool:
    """Tell whether tokens are surely one expression, without the help of line ends."""
    for at, token in enumerate(tokens):
        if token.text in (";", ","):
            return False
        if at and token.breaks and not {token.text, tokens[at - 1].text} & _CONTINUES:
            return False
    return True


def _arguments(code: str, function: _Function) -> str:
    """Give the tools, or an object of them where the function takes them out of one."""
    pattern = code[slice(*function.parameters)].lstrip()
    if not pattern.startswith("{"):
        return _TOOLS
    tokens = outer_tokens(pattern)
    if not tokens:
        return _TOOLS
    keys = outer_tokens(pattern, tokens[0].start + 1, tokens[0].end - 1) or []
    named = any(
        token.text == _TOOLS and (at == 0 or keys[at - 1].text == ",")
        for at, token in enumerate(keys)
    )
    return f"{{ {_TOOLS} }}" if named else _TOOLS
