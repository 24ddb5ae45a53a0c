r"""Lossless JSON: the values that cross between host and program, as text in bytes.

Both ends apply one rule set: None, bool, str (lone surrogates included), finite numbers except
negative zero, integers that a double holds exactly, lists, dicts with string keys; any depth, no
cycles. The canonical text is what JavaScript's `JSON.stringify` prints, except that an integral
number beyond 2^53 keeps its exact digits. A lone surrogate is a `\udxxx` escape.

Two lanes give the same bytes. The fast one is the C codec of `json`, used when a cheap check has
proved it exact; the exact one is iterative and does what the C codec cannot: depth, spelled-out
surrogate pairs, number spellings, and the path of a refused value.

Standard library only, CPython 3.10 or later: a child process gets a copy of this file.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from itertools import chain, islice
from json.encoder import encode_basestring as _escape
from typing import Any, TypeAlias, cast

JsonValue: TypeAlias = "bool | int | float | str | list[JsonValue] | dict[str, JsonValue] | None"
"""A value that crosses the boundary; an integral number is an `int`."""

_Error = json.JSONDecodeError
_SAFE = 2**53
_PIECE = 8_192  # code points of a long string that are escaped at a time
_LONG = 1_024  # a longer string is not kept in a group of values, which bounds the group's size
_GROUP = 1_024  # values that are proved, and parts that are joined, at a time
_SMALL = 4  # groups, or pieces of long strings
_FEW_BRACKETS = 1_000  # containers that the C decoder may enter, whatever its recursion limit
_FAST_DEPTH = 100  # containers that the C encoder may recurse into, far below any stack limit
_TYPES = frozenset({type(None), bool, int, float, str, list, dict})


class LosslessJsonError(ValueError):
    """A value or text is not lossless JSON.

    Args:
        path: Where, such as `$.items[3].when`; the middle of a long path is left out. A refused
            text has the path `$`.
        reason: Why, such as `datetime is not JSON`.
    """

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(path, reason)
        self.path = path
        self.reason = reason

    def __str__(self) -> str:
        return f"{self.path}: {self.reason}"


def encode(value: object, spell: Callable[[object], bytes] | None = None) -> bytes:
    """Serialise a value to its canonical JSON text, UTF-8 without spaces.

    Args:
        value: The value.
        spell: A quicker encoder than that of `json`, for a large value that is proved to be spelled
            by all encoders alike.

    Raises:
        LosslessJsonError: the value, or a part of it, is not lossless JSON.
    """
    if _is_word(value):
        return _scalar_text(value).encode()
    pieces = _pieces(value)
    start = list(islice(pieces, 2))
    if len(start) == 1:  # small: the exact lane takes less time than the proof of the fast one
        return start[0]
    text = _encode_fast(value, spell or _spell)
    return b"".join(chain(start, pieces)) if text is None else text


def encode_start(value: object, size_bytes: int) -> bytes:
    """Serialise the beginning of a value: at least so many bytes of its text, or all of it.

    Raises:
        LosslessJsonError: a part of the value that was reached is not lossless JSON.
    """
    start = b""
    for piece in _pieces(value):
        start += piece
        if len(start) >= size_bytes:
            break
    return start


def encode_within(value: object, limit: int) -> bytes | None:
    """Serialise a value as `encode` does, unless its text has more than `limit` bytes.

    Returns:
        The text, or None if it is longer, which is found out without building all of it. Of a value
        that is both too large and not lossless, whichever is met first decides.

    Raises:
        LosslessJsonError: a part of the value that was reached is not lossless JSON.
    """
    pieces = _pieces(value)
    kept = list(islice(pieces, 2))
    if len(kept) == 2:
        with suppress(Exception):  # as in measure
            if _sum(map(_least_cost, _groups(value)), limit) is None:
                return None
            text = _spell(value)  # as in _encode_fast
            return text if len(text) <= limit else None
    size = sum(map(len, kept))
    while size <= limit:
        piece = next(pieces, None)
        if piece is None:
            return b"".join(kept)
        kept.append(piece)
        size += len(piece)
    return None


def encode_small(value: object) -> bytes | None:
    """Serialise a value if that takes no more than a few milliseconds.

    Returns:
        What `encode` returns, or None for a value of more than some thousand parts, or with a
        string of more than some ten thousand characters.

    Raises:
        LosslessJsonError: a part of the value that was reached is not lossless JSON.
    """
    if _is_word(value):
        return _scalar_text(value).encode()
    pieces = list(islice(_pieces(value), _SMALL + 1))
    return b"".join(pieces) if len(pieces) <= _SMALL else None


def measure(value: object, limit: int | None = None) -> int | None:
    """Count the bytes of a value's canonical text without building that text.

    Args:
        value: The value.
        limit: Stop as soon as the count is above it; None for no limit.

    Returns:
        The exact count, or None if it is above `limit`. Of a value that is both too large and not
        lossless, whichever is met first decides.

    Raises:
        LosslessJsonError: a part of the value that was reached is not lossless JSON.
    """
    sizes = map(len, _pieces(value))
    start = list(islice(sizes, 2))
    if len(start) == 1:
        return _sum(start, limit)
    try:
        return _sum(_group_costs(value), limit)
    except Exception:  # a type's own __hash__ may raise anything; the exact lane calls none
        return _sum(chain(start, sizes), limit)


def decode(text: bytes) -> JsonValue:
    """Parse JSON text from an untrusted peer: strict UTF-8, strict JSON.

    Of a repeated key the last value counts. A number without fraction arrives as int however it is
    spelled (`1.0`, `1e3`).

    Raises:
        LosslessJsonError: the text is not JSON, or a number in it cannot be held exactly:
            negative zero, overflow, underflow to zero, an integer that no double holds.
    """
    try:
        source = str(text, "utf-8")
        if len(text) <= _FEW_BRACKETS or _c_stack_is_safe(text):
            if b"." in text and _has_plain_numbers(text):
                reader = _PLAIN_NUMBERS
            else:
                odd = _has_negative_zero(text) or _LONG_DIGITS in text.translate(_DIGITS)
                reader = _ANY_INTEGERS if odd else _SHORT_INTEGERS
            try:
                return reader.read(source)
            except RecursionError:  # deeper than the C decoder goes
                return _decode_exact(source)
        return _decode_exact(source)
    except UnicodeDecodeError as error:
        raise _refused(f"invalid UTF-8 at byte {error.start}") from None
    except _Error as error:
        raise _refused(f"{error.msg} at character {error.pos}") from None


def snapshot(value: object) -> JsonValue:
    """Copy a value into a detached one, validated and in canonical form.

    Raises:
        LosslessJsonError: the value, or a part of it, is not lossless JSON.
    """
    return decode(encode(value))


def string_cost(text: str, limit: int | None = None) -> int | None:
    """Count the bytes of a string's canonical JSON text, quotes included.

    Args:
        text: The string.
        limit: Stop as soon as the count is above it; None for no limit.

    Returns:
        The exact count, or None if it is above `limit`.

    Source: WT-065, WT-076.
    """
    if limit is not None and len(text) + 2 > limit:
        return None  # each code point costs a byte at least, a spelled-out pair four
    if len(text) <= _PIECE:
        return _sum((2, _inner_cost(text)), limit)
    return _sum(chain((2,), map(_inner_cost, _slices(text))), limit)


def fitting_prefix(text: str, budget: int) -> str:
    """Cut a string to the longest prefix of whole code points whose cost fits.

    Units: `budget` counts bytes of canonical JSON text, quotes included; below 2 nothing fits.

    Source: WT-078.
    """
    room = budget - 2
    end = 0
    for piece in _slices(text):
        cost = _inner_cost(piece)
        if cost > room:
            for unit in _CODE_POINT.finditer(piece):
                room -= _inner_cost(unit.group())
                if room < 0:
                    return text[: end + unit.start()]
        room -= cost
        end += len(piece)
    return text


# Strings


def _quoted(text: str) -> str:
    """Spell a string as JSON; what is returned can always be encoded as UTF-8."""
    quoted = _escape(text)
    if _has_surrogates(quoted):
        return _combined(quoted).encode("utf-8", "backslashreplace").decode()
    return quoted


def _combined(text: str) -> str:
    """Turn each spelled-out surrogate pair into its character, as a trip through UTF-16 does."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")


def _has_surrogates(text: str) -> bool:
    return not text.isascii() and _SURROGATE.search(text) is not None


def _inner_cost(text: str) -> int:
    return len(_quoted(text).encode()) - 2


def _slices(text: str) -> Iterator[str]:
    """Cut a string into pieces, never between the halves of a spelled-out pair."""
    start = 0
    while start < len(text):
        end = start + _PIECE
        end += bool(_PAIR.match(text, end - 1))
        yield text[start:end]
        start = end


# Numbers


def _exact(value: int) -> int:
    """Pass an integer that a double holds: at most 53 bits between its first and last set bit."""
    if not -_SAFE <= value <= _SAFE:
        bits = value.bit_length()
        if bits > 1_024 or bits - (value & -value).bit_length() >= 53:
            shown = value if bits <= 128 else f"integer of {bits} bits"
            raise _refused(f"{shown} is not exactly representable as a double")
    return value


def _float_text(value: float) -> str:
    """Spell a float as JavaScript does; `repr` gives the same digits in another layout."""
    if value - value != 0:
        raise _refused(f"non-finite float {value!r} is not JSON")
    if value.is_integer():
        if str(value) == "-0.0":
            raise _refused("negative zero is not JSON")
        return str(int(value))
    mantissa, _, power = repr(value).partition("e")
    if not power:
        return mantissa
    exponent = -int(power)  # a fraction has no positive power
    if exponent > 6:
        return f"{mantissa}e-{exponent}"
    sign = "-" if value < 0 else ""
    return f"{sign}0.{'0' * (exponent - 1)}{mantissa.lstrip('-').replace('.', '')}"


def _read_integer(token: str) -> int:
    if len(token) <= 15 and token != "-0":
        return int(token)
    if token == "-0":
        raise _refused("negative zero is not JSON")
    if len(token) > 310:  # the digits of 2^1024 and a sign; int() of more has a quadratic cost
        raise _refused(f"number of {len(token)} digits is not a finite double")
    return _exact(int(token))


def _read_float(token: str) -> int | float:
    value = float(token)
    if value % 1 > 0:  # a fraction; false for an integral number, infinity and zero
        return value
    shown = token if len(token) <= 40 else f"{token[:37]}..."
    if value - value != 0:
        raise _refused(f"number {shown} is not a finite double")
    digits, power = _scientific(token)
    if not value:
        if digits:
            raise _refused(f"number {shown} underflows a double to zero")
        if token[0] == "-":
            raise _refused("negative zero is not JSON")
        return 0
    whole = int(value)
    if power >= 0 and (digits, power) not in (_scientific(repr(value)), _scientific(str(whole))):
        # neither the shortest spelling nor the exact digits: an integer that was rounded
        raise _refused(f"{shown} is not exactly representable as a double")
    return whole


def _scientific(token: str) -> tuple[str, int]:
    """Split a number, whose double is not infinite, into its digits and their power of ten."""
    mantissa, _, power = token.lower().lstrip("-").partition("e")
    whole, _, fraction = mantissa.partition(".")
    digits = (whole + fraction).lstrip("0")
    stripped = digits.rstrip("0")
    sign, magnitude = power[:1], power.lstrip("+-0")
    if not stripped or len(magnitude) > 18:  # int() may refuse long digits
        return stripped, 0
    exponent = int(magnitude or "0") * (-1 if sign == "-" else 1)
    return stripped, exponent - len(fraction) + len(digits) - len(stripped)


# Encoding and measuring, fast lane


class _Odd(Exception):
    """The fast lane has met something that only the exact lane can judge."""


def _groups(value: object) -> Iterator[tuple[Any, ...]]:
    """Walk a value in C loops and prove that the C encoder spells it exactly, or raise _Odd.

    One cursor is kept for each level, never a stack as wide as a list. A group is some values of
    one level, their types, and the integers, floats, lists and dicts among them.
    """
    pending: list[Iterator[Any]] = [iter((value,))]
    while pending:
        values = list(islice(pending[-1], _GROUP))
        if not values:
            pending.pop()
            continue
        types = set(map(type, values))
        if not types <= _TYPES:
            raise _Odd
        integers = [item for item in values if type(item) is int] if int in types else []
        floats = [item for item in values if type(item) is float] if float in types else []
        lists = [item for item in values if type(item) is list] if list in types else []
        dicts = [item for item in values if type(item) is dict] if dict in types else []
        if integers and (min(integers) < -_SAFE or max(integers) > _SAFE):
            raise _Odd
        if floats and not _has_plain_spelling(floats):
            raise _Odd
        if dicts and not set(map(type, chain.from_iterable(dicts))) <= {str}:
            raise _Odd
        yield values, types, integers, floats, lists, dicts
        if lists or dicts:
            if len(pending) > _FAST_DEPTH:  # a cycle ends here too
                raise _Odd
            members = map(dict.values, dicts)
            pending.append(chain(chain.from_iterable(lists), chain.from_iterable(members)))


def _has_plain_spelling(floats: list[float]) -> bool:
    """Tell whether all are finite fractions that `repr` spells without an exponent."""
    if any(map(float.is_integer, floats)) or not min(map(abs, floats)) >= 1e-4:
        return False
    return abs(sum(floats)) < float("inf")  # infinity and NaN survive a sum


def _spell(value: object) -> bytes:
    return _ENCODER.encode(value).encode()


def _encode_fast(value: object, spell: Callable[[object], bytes] = _spell) -> bytes | None:
    try:
        for _ in _groups(value):
            pass
        # Another thread may change the value between proof and spelling. The encoder itself cannot
        # be interrupted, so the text is JSON all the same, of what the value is by then.
        return spell(value)
    except Exception:  # as in measure
        return None


def _least_cost(group: tuple[Any, ...]) -> int:
    """Return what the values of a group cost at least; quicker than what they cost."""
    values, types, _integers, _floats, _lists, dicts = group
    strings = [item for item in values if type(item) is str] if str in types else []
    keys = chain.from_iterable(dicts)
    return len(values) + sum(map(len, strings)) + sum(map(len, keys))


def _group_costs(value: object) -> Iterator[int]:
    for values, types, integers, floats, lists, dicts in _groups(value):
        if lists:
            yield sum(map(len, lists)) + len(lists) + lists.count([])
        if dicts:
            yield 2 * sum(map(len, dicts)) + len(dicts) + dicts.count({})
            yield from _string_costs(chain.from_iterable(dicts))
        strings = [item for item in values if type(item) is str] if str in types else []
        yield from _string_costs(strings)
        yield sum(map(len, map(str, integers))) + sum(map(len, map(repr, floats)))
        words = len(values) - len(strings) - len(integers) - len(floats) - len(lists) - len(dicts)
        yield 4 * words + (sum(item is False for item in values) if bool in types else 0)


def _string_costs(strings: Iterable[str]) -> Iterator[int]:
    cursor = iter(strings)
    while group := list(islice(cursor, _GROUP)):
        if max(map(len, group)) <= _LONG:
            # Surrogates raise here: the exact lane compares keys with their pairs combined.
            yield len(_escape("".join(group)).encode()) - 2 + 2 * len(group)
            continue
        for text in group:
            if _has_surrogates(text):
                raise _Odd
            yield 2
            yield from map(_inner_cost, _slices(text))


# Encoding and measuring, exact lane


class _Open:
    """A container that the walk is in, with its one cursor."""

    __slots__ = ("closer", "combined", "container", "cursor", "size")

    def __init__(self, container: list[Any] | dict[Any, Any]) -> None:
        self.container = container
        self.size = len(container)
        self.combined = False  # whether its keys were compared with their pairs combined
        self.closer = "}" if isinstance(container, dict) else "]"
        members = container.items() if isinstance(container, dict) else container
        self.cursor: Iterator[Any] = iter(members)


def _pieces(value: object) -> Iterator[bytes]:
    """Yield the canonical text in pieces, checking each value as it is met."""
    walk: list[_Open] = []
    try:
        yield from _walk(value, walk)
    except LosslessJsonError as error:
        raise LosslessJsonError(_path(walk), error.reason) from None
    except RuntimeError:  # what the cursor of a dict says
        raise LosslessJsonError(_path(walk), "value changed while it was read") from None


def _walk(value: object, walk: list[_Open]) -> Iterator[bytes]:
    """Walk depth first; `walk` is the caller's, so that it can name the path of a refusal."""
    parts: list[str] = []
    on_path: set[int] = set()
    root: Iterator[Any] = iter((value,))
    lead = ""
    while True:
        frame = walk[-1] if walk else None
        keyed = frame is not None and frame.closer == "}"
        for item in frame.cursor if frame else root:
            if len(parts) >= _GROUP:
                yield "".join(parts).encode()
                parts.clear()
            if frame and keyed:
                key, item = item
                lead = f"{lead}{_key_text(key, frame)}:"
            kind = type(item)
            if kind is str and len(item) <= _LONG:
                parts.append(lead + _quoted(item))
            elif kind is int and -_SAFE <= item <= _SAFE:
                parts.append(f"{lead}{item}")
            elif kind is str:
                parts.append(lead + '"')
                for piece in _slices(item):
                    yield ("".join(parts) + _quoted(piece)[1:-1]).encode()
                    parts.clear()
                parts.append('"')
            elif kind is list or kind is dict:
                if id(item) in on_path:
                    raise _refused("circular reference")
                on_path.add(id(item))
                walk.append(_Open(item))
                parts.append(lead + ("[" if kind is list else "{"))
                lead = ""
                break
            else:
                parts.append(lead + _scalar_text(item))
            lead = ","
        else:
            if frame is None:
                yield "".join(parts).encode()
                return
            if len(frame.container) != frame.size:
                raise _refused("value changed while it was read")
            parts.append(frame.closer)
            on_path.discard(id(frame.container))
            walk.pop()
            lead = ","


def _is_word(value: object) -> bool:
    """Tell whether a value is None, a bool or a number."""
    kind = type(value)  # not looked for in a set: a metaclass may define __hash__
    return value is None or kind is bool or kind is int or kind is float


def _scalar_text(item: Any) -> str:
    kind = type(item)
    if kind is int:
        return str(_exact(item))
    if kind is float:
        return _float_text(item)
    if item is None:
        return "null"
    if kind is bool:
        return "true" if item else "false"
    raise _refused(f"{_type_name(kind)} is not JSON")


def _key_text(key: object, frame: _Open) -> str:
    if type(key) is not str:
        raise _refused(f"non-string dict key of type {_type_name(type(key))}")
    if not frame.combined and _has_surrogates(key):
        frame.combined = True
        names = [_combined(name) for name in frame.container if type(name) is str]
        if len(set(names)) != len(names):
            raise _refused("duplicate key after combining surrogates")
    return _quoted(key)


def _type_name(kind: type) -> str:
    return cast("str", _TYPE_NAME(kind))[:60]  # no attribute look-up: a metaclass may define one


def _path(walk: list[_Open]) -> str:
    shown = walk if len(walk) <= 40 else walk[:20] + walk[-20:]
    path = "$" + "".join(map(_step, shown))
    whole = len(shown) == len(walk) and len(path) <= 200
    return path if whole else f"{path[:98]}...{path[-98:]}"


def _step(frame: _Open) -> str:
    """Name the member that a container's cursor has handed out last."""
    index = len(frame.container) - cast("Any", frame.cursor).__length_hint__() - 1
    if frame.closer == "]":
        return f"[{index}]"
    key: object = next(islice(frame.container, max(0, index), None), None)
    if type(key) is not str:
        return ""  # the key itself is refused
    key = key if len(key) <= 40 else f"{key[:37]}..."
    return f".{key}" if key.isascii() and key.isidentifier() else f"[{json.dumps(key)}]"


# Decoding


def _has_plain_numbers(text: bytes) -> bool:
    """Tell whether any C parser reads all numbers exactly, and as int or float as they should be.

    None has more than 15 digits, so no two spell the same double; none has an exponent, none is a
    negative zero, and a fraction is one: not `1.0`. Text in strings may look like such a number.
    """
    digits = text.translate(_DIGITS, b".")
    if _LONG_DIGITS in digits or b"0e" in digits or b"0E" in digits:
        return False
    return not (_has_negative_zero(text) or _ZERO_FRACTION.search(text))


def _c_stack_is_safe(text: bytes) -> bool:
    # Before CPython 3.12 only the recursion limit stops the C decoder; a host may have raised it.
    limited = sys.version_info >= (3, 12) or sys.getrecursionlimit() <= 5_000
    return limited or text.count(b"[") + text.count(b"{") <= _FEW_BRACKETS


def _has_negative_zero(text: bytes) -> bool:
    return b"-0" in text and _NEGATIVE_ZERO.search(text) is not None


class _Reader:
    """The C scanner with its settings; nothing that a program may replace in `json` matters."""

    __slots__ = ("_scan",)

    def __init__(self, decoder: json.JSONDecoder) -> None:
        self._scan: Any = vars(decoder)["scan_once"]

    def read(self, source: str) -> JsonValue:
        """Parse a text; raises what `JSONDecoder.decode` raises."""
        # Few peers write space around a value, and to look for it takes longer than to read it.
        value: JsonValue
        start = 0 if source[:1] > " " else _skip(source, 0)
        try:
            value, end = self._scan(source, start)
        except StopIteration as error:
            raise _Error("Expecting value", source, error.value) from None
        if end < len(source):
            end = _skip(source, end)
        if end != len(source):
            raise _Error("Extra data", source, end)
        return value


def _decode_exact(source: str) -> JsonValue:
    """Parse without recursion: an open container costs one or two list entries."""
    containers: list[Any] = []
    keys: list[str] = []  # of the open dicts, the member that is being read
    position = _skip(source, 0)
    while True:
        value: Any
        opener = source[position : position + 1]
        if opener == "[" or opener == "{":
            value = [] if opener == "[" else {}
            position = _skip(source, position + 1)
            if source[position : position + 1] != ("]" if opener == "[" else "}"):
                containers.append(value)
                if opener == "{":
                    position = _read_key(source, position, keys)
                continue
            position += 1
        else:
            value, position = _read_scalar(source, position)
        while containers:
            parent = containers[-1]
            is_list = type(parent) is list
            if is_list:
                parent.append(value)
            else:
                parent[keys.pop()] = value
            position = _skip(source, position)
            mark = source[position : position + 1]
            if mark == ",":
                position = _skip(source, position + 1)
                if not is_list:
                    position = _read_key(source, position, keys)
                break
            if mark != ("]" if is_list else "}"):
                raise _unexpected(position)
            value = containers.pop()
            position += 1
        else:
            position = _skip(source, position)
            if position != len(source):
                raise _unexpected(position)
            return cast("JsonValue", value)


def _skip(source: str, position: int) -> int:
    return cast("re.Match[str]", _SPACE.match(source, position)).end()


def _read_key(source: str, position: int, keys: list[str]) -> int:
    if source[position : position + 1] != '"':
        raise _unexpected(position)
    key, position = _scan_string(source, position + 1, True)
    keys.append(key)
    position = _skip(source, position)
    if source[position : position + 1] != ":":
        raise _unexpected(position)
    return _skip(source, position + 1)


def _read_scalar(source: str, position: int) -> tuple[object, int]:
    if source[position : position + 1] == '"':
        return _scan_string(source, position + 1, True)
    match = _SCALAR.match(source, position)
    if match is None:
        raise _unexpected(position)
    token = match.group()
    if token in _WORDS:
        return _WORDS[token], match.end()
    read = _read_float if match.group(1) or match.group(2) else _read_integer
    return read(token), match.end()


def _unexpected(position: int) -> LosslessJsonError:
    return _refused(f"Unexpected text at character {position}")


def _refused(reason: str) -> LosslessJsonError:
    return LosslessJsonError("$", reason)  # the exact lane puts in the path that its walk is at


def _sum(costs: Iterable[int], limit: int | None) -> int | None:
    total = 0
    for cost in costs:
        total += cost
        if limit is not None and total > limit:
            return None
    return total


_ENCODER = json.JSONEncoder(
    ensure_ascii=False, allow_nan=False, check_circular=False, separators=(",", ":")
)
_ANY_INTEGERS = _Reader(
    json.JSONDecoder(parse_int=_read_integer, parse_float=_read_float, parse_constant=_read_float)
)
_SHORT_INTEGERS = _Reader(json.JSONDecoder(parse_float=_read_float, parse_constant=_read_float))
_PLAIN_NUMBERS = _Reader(json.JSONDecoder(parse_constant=_read_float))
_scan_string: Callable[[str, int, bool], tuple[str, int]] = vars(json.decoder)["scanstring"]
_TYPE_NAME: Callable[[type], object] = vars(type)["__name__"].__get__
_SURROGATE = re.compile("[\ud800-\udfff]")
_PAIR = re.compile("[\ud800-\udbff][\udc00-\udfff]")
_CODE_POINT = re.compile("[\ud800-\udbff][\udc00-\udfff]|.", re.DOTALL)
_NEGATIVE_ZERO = re.compile(rb"-0(?=[,\]}\s]|\Z)")
_ZERO_FRACTION = re.compile(rb"\.0+(?![0-9])")
_LONG_DIGITS = b"0" * 16  # 15 digits are always exact
_DIGITS = bytes(0x30 if 0x30 <= code <= 0x39 else code for code in range(256))
_SPACE = re.compile(r"[ \t\n\r]*")
_SCALAR = re.compile(r"-?(?:0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?|true|false|null")
_WORDS: dict[str, JsonValue] = {"null": None, "true": True, "false": False}
