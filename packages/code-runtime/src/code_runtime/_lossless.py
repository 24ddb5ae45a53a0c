"""Lossless JSON: the values that cross between host and program, as text in bytes.

Both ends apply one rule set: None, bool, str (lone surrogates included), finite numbers except
negative zero, integers that a double holds exactly, lists, dicts with string keys; any depth, no
cycles. The canonical text is what JavaScript's `JSON.stringify` prints, except that an integral
number beyond 2^53 keeps its exact digits.

Two lanes give the same bytes. The fast one is the C codec of `json`, used when a cheap check has
proved it exact; the exact one is iterative and handles what the C codec cannot: depth, spelled-out
surrogate pairs, number spellings, and the path of a refused value.

This file imports nothing but the standard library and runs on CPython 3.10, because a child
process gets a copy of it.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import chain, islice
from json.encoder import encode_basestring as _escape  # type: ignore[attr-defined]
from typing import Any, NoReturn, TypeAlias, cast

JsonValue: TypeAlias = "None | bool | int | float | str | list[JsonValue] | dict[str, JsonValue]"  # noqa: UP040
"""A value that crosses the boundary; an integral number is an `int`."""

_SAFE = 2**53
_PIECE = 65_536  # code points escaped at a time, so that metering a string needs no second copy
_LONG = 1_024  # a longer string leaves the buffer of small parts, which bounds that buffer
_BATCH = 1_024  # values proved, and parts joined, at a time
_FAST_DEPTH = 100  # containers that the C codec may recurse into, far below any stack limit
_PATH_SIDE = 80  # characters kept at each end of a long path
_TYPES = frozenset({type(None), bool, int, float, str, list, dict})
_KEYS = frozenset({str})


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


class _Odd(Exception):  # noqa: N818  a signal between two functions of this file
    """The fast lane has met something that only the exact lane can judge."""


def encode(value: object) -> bytes:
    """Serialise a value to its canonical JSON text.

    Returns:
        UTF-8 without spaces; a lone surrogate is a `\\udxxx` escape.

    Raises:
        LosslessJsonError: the value, or a part of it, is not lossless JSON.
    """
    text = _encode_fast(value)
    return b"".join(_pieces(value)) if text is None else text


def measure(value: object, limit: int | None = None) -> int | None:
    """Count the bytes of a value's canonical text without building that text.

    Units: bytes, in `limit` and in the result.

    Args:
        value: The value.
        limit: Stop as soon as the count is above it; None for no limit.

    Returns:
        The exact count, or None if it is above `limit`. A value that is both too large and not
        lossless gives whichever is met first.

    Raises:
        LosslessJsonError: a part of the value that was reached is not lossless JSON.
    """
    try:
        return _measure_fast(value, limit)
    except Exception:  # a type's own __hash__ may raise anything; the exact lane calls none
        return _sum(map(len, _pieces(value)), limit)


def decode(text: bytes) -> JsonValue:
    """Parse JSON text from an untrusted peer.

    Strict UTF-8 and strict JSON; of a repeated key the last value counts. A number without
    fraction arrives as int however it is spelled (`1.0`, `1e3`).

    Raises:
        LosslessJsonError: the text is not JSON, or a number in it cannot be held exactly:
            negative zero, overflow, underflow to zero, an integer that no double holds.
    """
    try:
        source = str(text, "utf-8")
    except UnicodeDecodeError as error:
        raise _refused(f"invalid UTF-8 at byte {error.start}") from None
    try:
        if _c_stack_is_safe():
            decoder = _SHORT_INTEGERS if _has_short_integers(text) else _ANY_INTEGERS
            with suppress(RecursionError):  # deeper than the C codec goes
                return cast("JsonValue", decoder.decode(source))
        return _decode_exact(source)
    except json.JSONDecodeError as error:
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
        return None  # every code point costs at least one byte (a spelled-out pair costs four)
    if len(text) <= _PIECE:
        cost = len(_quoted(text).encode())
        return None if limit is not None and cost > limit else cost
    return _sum(chain((2,), map(_inner_cost, _slices(text))), limit)


def fitting_prefix(text: str, budget: int) -> str:
    """Cut a string to the longest prefix of whole code points whose cost fits.

    Units: `budget` counts bytes of canonical JSON text, quotes included; below 2 nothing fits.

    Source: WT-078.
    """
    room = budget - 2
    end = 0
    for piece in _slices(text, max(1, min(_PIECE, budget))):
        cost = _inner_cost(piece)
        if cost > room:
            return text[: end + _fitting_length(piece, max(0, room))]
        room -= cost
        end += len(piece)
    return text


# Strings


def _quoted(text: str) -> str:
    """Spell a string as JSON; what is returned can always be encoded as UTF-8."""
    quoted: str = _escape(text)
    if _has_surrogates(quoted):
        return _combined(quoted).encode("utf-8", "backslashreplace").decode()
    return quoted


def _combined(text: str) -> str:
    """Turn each spelled-out surrogate pair into its character, as a trip through UTF-16 does."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")


def _has_surrogates(text: str) -> bool:
    if text.isascii():
        return False
    try:
        text.encode()
    except UnicodeEncodeError:
        return True
    return False


def _inner_cost(text: str) -> int:
    return len(_quoted(text).encode()) - 2


def _slices(text: str, size: int = _PIECE) -> Iterator[str]:
    """Cut a string into pieces, never between the halves of a spelled-out pair."""
    start = 0
    while start < len(text):
        end = start + size
        if text[end - 1 : end] >= "\ud800" and _PAIR.match(text, end - 1):
            end += 1
        yield text[start:end]
        start = end


def _fitting_length(text: str, room: int) -> int:
    """Bisect for the prefix that fits; a pair counts as one code point, so ends are moved to it."""
    low, high = 0, min(len(text), room)
    while low < high:
        middle = (low + high + 1) // 2
        if _inner_cost(text[: _pair_end(text, middle)]) <= room:
            low = middle
        else:
            high = middle - 1
    return _pair_end(text, low)


def _pair_end(text: str, end: int) -> int:
    return end + 1 if end and _PAIR.match(text, end - 1) else end


_PAIR = re.compile("[\ud800-\udbff][\udc00-\udfff]")


# Numbers


def _exact(value: int) -> int:
    if not -_SAFE <= value <= _SAFE:
        bits = value.bit_length()
        low_bits = (value & -value).bit_length() - 1
        if bits > 1_024 or bits - low_bits > 53:
            shown = value if bits <= 128 else f"integer of {bits} bits"
            raise _refused(f"{shown} is not exactly representable as a double")
    return value


def _float_text(value: float) -> str:
    """Spell a float as JavaScript does; `repr` gives the same digits in another layout."""
    if not value:
        if str(value) == "-0.0":
            raise _refused("negative zero is not JSON")
        return "0"
    if value - value != 0:
        raise _refused(f"non-finite float {value!r} is not JSON")
    if value.is_integer():
        return str(int(value))
    text = repr(value)
    if "e" not in text:
        return text
    mantissa, _, power = text.partition("e")
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
    if len(token) > 310:  # the digits of 2^1024 and a sign; also keeps int() out of long digits
        raise _refused(f"number of {len(token)} characters overflows a double")
    return _exact(int(token))


def _read_float(token: str) -> int | float:
    value = float(token)
    if value % 1 > 0:  # a fraction; false for an integral number, infinity and zero
        return value
    shown = token if len(token) <= 40 else f"{token[:37]}..."
    if value - value != 0:
        raise _refused(f"number {shown} overflows a double")
    digits, power = _scientific(token)
    if not value:
        if digits:
            raise _refused(f"number {shown} underflows a double to zero")
        if token[0] == "-":
            raise _refused("negative zero is not JSON")
        return 0
    whole = int(value)
    if power >= 0 and (digits, power) not in (_scientific(repr(value)), _scientific(str(whole))):
        # Neither the shortest spelling nor the exact digits: an integer that was rounded.
        raise _refused(f"{shown} is not exactly representable as a double")
    return whole


def _scientific(token: str) -> tuple[str, int]:
    """Split a number into its significant digits and the power of ten behind them.

    The power is exact for any number whose double is neither zero nor infinite; for a zero it is 0.
    """
    mantissa, _, power = token.lower().lstrip("-").partition("e")
    whole, _, fraction = mantissa.partition(".")
    digits = (whole + fraction).lstrip("0")
    stripped = digits.rstrip("0")
    if not stripped or len(power) > 4_000:  # more digits than int() takes, and far out of range
        return stripped, 0
    return stripped, int(power or "0") - len(fraction) + len(digits) - len(stripped)


# Encoding, fast lane


def _batches(value: object) -> Iterator[tuple[list[Any], set[type], list[Any], list[Any]]]:
    """Walk a value in groups, in C loops, and prove that the C encoder spells it exactly.

    One cursor is kept for each level, never a stack as wide as a list.

    Yields:
        The values of a group, their types, the lists and the dicts among them.

    Raises:
        _Odd: something needs the exact lane.
    """
    pending: list[Iterator[Any]] = [iter((value,))]
    while pending:
        batch = list(islice(pending[-1], _BATCH))
        if not batch:
            pending.pop()
            continue
        types = set(map(type, batch))
        if not types <= _TYPES:
            raise _Odd
        if int in types:
            integers = [item for item in batch if type(item) is int]
            if min(integers) < -_SAFE or max(integers) > _SAFE:
                raise _Odd
        if float in types:
            _prove_floats([item for item in batch if type(item) is float])
        lists = [item for item in batch if type(item) is list] if list in types else []
        dicts = [item for item in batch if type(item) is dict] if dict in types else []
        if dicts and not set(map(type, chain.from_iterable(dicts))) <= _KEYS:
            raise _Odd
        yield batch, types, lists, dicts
        if lists or dicts:
            if len(pending) > _FAST_DEPTH:  # a cycle ends here too
                raise _Odd
            values = chain.from_iterable(map(dict.values, dicts))
            pending.append(chain(chain.from_iterable(lists), values))


def _prove_floats(floats: list[float]) -> None:
    """Pass the floats that `repr` spells like JavaScript: fractions without an exponent."""
    if any(map(float.is_integer, floats)) or not min(map(abs, floats)) >= 1e-4:
        raise _Odd
    if not abs(sum(floats)) < float("inf"):  # infinity and NaN survive a sum
        raise _Odd


def _encode_fast(value: object) -> bytes | None:
    try:
        for _ in _batches(value):
            pass
        # Another thread may change the value between proof and spelling. The C encoder itself
        # cannot be interrupted, so the text is JSON all the same, and the far side checks it.
        return _ENCODER.encode(value).encode()
    except Exception:  # a type's own __hash__ may raise anything; the exact lane calls none
        return None


def _measure_fast(value: object, limit: int | None) -> int | None:
    bound = float("inf") if limit is None else limit
    total = 0
    for batch, types, lists, dicts in _batches(value):
        if lists:
            total += sum(map(len, lists)) + len(lists) + sum(not item for item in lists)
        if dicts:
            total += 2 * sum(map(len, dicts)) + len(dicts) + sum(not item for item in dicts)
            if total > bound:
                return None
            total += _strings_cost(chain.from_iterable(dicts), bound - total)
        if str in types:
            strings = (item for item in batch if type(item) is str)
            total += _strings_cost(strings, bound - total)
        if int in types:
            total += sum(len(str(item)) for item in batch if type(item) is int)
        if float in types:
            total += sum(len(repr(item)) for item in batch if type(item) is float)
        if bool in types or type(None) in types:
            words = (item for item in batch if item is None or type(item) is bool)
            total += sum(5 if item is False else 4 for item in words)
        if total > bound:
            return None
    return total


def _strings_cost(strings: Iterator[str], bound: float) -> int:
    """Add up costs; above the bound some number above it is enough."""
    total = 0
    while batch := list(islice(strings, _BATCH)):
        if max(map(len, batch)) > _LONG:
            limit = None if bound == float("inf") else max(0, int(bound) - total)
            for text in batch:
                if _has_surrogates(text):
                    raise _Odd
                cost = string_cost(text, limit)
                if cost is None:
                    return int(bound) + 1
                total += cost
        else:
            total += sum(map(len, map(str.encode, map(_escape, batch))))
        if total > bound:
            break
    return total


# Encoding, exact lane


class _Open:
    """A container that the walk is in, with its one cursor."""

    __slots__ = ("closer", "combined", "container", "cursor", "size")

    def __init__(self, container: list[Any] | dict[Any, Any]) -> None:
        self.container = container
        self.size = len(container)
        self.combined = False  # whether its keys were compared with their pairs combined
        self.closer = "]" if type(container) is list else "}"
        self.cursor: Iterator[Any] = iter(
            container if type(container) is list else container.items()  # type: ignore[union-attr]
        )


def _pieces(value: object) -> Iterator[bytes]:
    """Yield the canonical text in pieces, checking each value as it is met."""
    walk: list[_Open] = []
    try:
        yield from _walk(value, walk)
    except LosslessJsonError as error:
        raise LosslessJsonError(_path(walk), error.reason) from None
    except RuntimeError:  # what an iterator of a dict says
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
        for entry in frame.cursor if frame else root:
            if len(parts) >= _BATCH:
                yield "".join(parts).encode()
                parts.clear()
            item = entry
            if keyed:
                key, item = entry
                lead = f"{lead}{_key_text(key, frame)}:"
            kind = type(item)
            if kind is str and len(item) <= _LONG:
                parts.append(lead + _quoted(item))
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


def _scalar_text(item: object) -> str:
    kind = type(item)
    if kind is int:
        return str(_exact(cast("int", item)))
    if kind is float:
        return _float_text(cast("float", item))
    if item is None:
        return "null"
    if kind is bool:
        return "true" if item else "false"
    raise _refused(f"{_type_name(kind)} is not JSON")


def _key_text(key: object, frame: _Open | None) -> str:
    if type(key) is not str:
        raise _refused(f"non-string dict key of type {_type_name(type(key))}")
    if frame is not None and not frame.combined and _has_surrogates(key):
        frame.combined = True
        seen: set[str] = set()
        for other in frame.container:
            name = _combined(other) if type(other) is str else ""
            if type(other) is str and name in seen:
                raise _refused("duplicate key after combining surrogates")
            seen.add(name)
    return _quoted(key)


def _type_name(kind: type) -> str:
    name = cast("str", _TYPE_NAME(kind))  # not an attribute look-up: a metaclass may define one
    return name if len(name) <= 60 else f"{name[:57]}..."


def _path(walk: list[_Open]) -> str:
    head, tail = "$", ""
    for index, frame in enumerate(walk):
        step = _step(frame)
        if len(head) + len(step) > _PATH_SIDE:
            break
        head += step
    else:
        return head
    for frame in reversed(walk[index:]):
        step = _step(frame)
        if len(tail) + len(step) > _PATH_SIDE:
            return f"{head}...{tail}"
        tail = step + tail
    return head + tail


def _step(frame: _Open) -> str:
    """Name the member that a container's cursor has handed out last."""
    index = len(frame.container) - cast("Any", frame.cursor).__length_hint__() - 1
    if frame.closer == "]":
        return f"[{index}]"
    key: object = next(islice(frame.container, max(0, index), None), None)
    if type(key) is not str:
        return ""  # the key itself is refused
    if len(key) <= 40 and key.isascii() and key.isidentifier():
        return f".{key}"
    return f"[{json.dumps(key if len(key) <= 10 else key[:9] + '…', ensure_ascii=True)}]"


# Decoding


def _c_stack_is_safe() -> bool:
    """Tell whether the C decoder stops in time on deep text.

    Before CPython 3.12 the recursion limit alone protects the C stack, and a host may raise it.
    """
    return sys.version_info >= (3, 12) or sys.getrecursionlimit() <= 5_000


def _has_short_integers(text: bytes) -> bool:
    """Tell whether every integer is surely exact; digits inside strings may spoil the proof."""
    return not _NEGATIVE_ZERO.search(text) and _LONG_DIGITS not in text.translate(_DIGITS)


def _refuse_constant(token: str) -> NoReturn:
    raise _refused(f"{token} is not JSON")


def _decode_exact(source: str) -> JsonValue:
    """Parse without recursion: depth costs two list entries for each open container."""
    containers: list[Any] = []
    keys: list[str] = []  # of the open dicts, the member that is being read
    position = _skip(source, 0)
    while True:
        opener = source[position : position + 1]
        value: Any
        if opener == "[" or opener == "{":  # noqa: PLR1714  faster than a look-up, on each token
            value = [] if opener == "[" else {}
            position = _skip(source, position + 1)
            if source[position : position + 1] != _CLOSERS[opener]:
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
    if match.group(1) or match.group(2):
        return _read_float(token), match.end()
    return _read_integer(token), match.end()


def _refused(reason: str) -> LosslessJsonError:
    """Refuse with the root as path; the walk of the exact lane puts in the path that it is at."""
    return LosslessJsonError("$", reason)


def _unexpected(position: int) -> LosslessJsonError:
    return _refused(f"Unexpected text at character {position}")


def _sum(costs: Iterator[int], limit: int | None) -> int | None:
    total = 0
    for cost in costs:
        total += cost
        if limit is not None and total > limit:
            return None
    return total


_ENCODER = json.JSONEncoder(
    ensure_ascii=False, allow_nan=False, check_circular=False, separators=(",", ":")
)
_ANY_INTEGERS = json.JSONDecoder(
    parse_int=_read_integer, parse_float=_read_float, parse_constant=_refuse_constant
)
_SHORT_INTEGERS = json.JSONDecoder(parse_float=_read_float, parse_constant=_refuse_constant)
_scan_string: Callable[[str, int, bool], tuple[str, int]] = json.decoder.scanstring  # type: ignore[attr-defined]
_TYPE_NAME: Callable[[type], object] = type.__dict__["__name__"].__get__
_NEGATIVE_ZERO = re.compile(rb"-0(?=[,\]}\s]|\Z)")
_LONG_DIGITS = b"0" * 16  # 15 digits are always exact
_DIGITS = bytes(0x30 if 0x30 <= code <= 0x39 else code for code in range(256))
_SPACE = re.compile(r"[ \t\n\r]*")
_SCALAR = re.compile(r"-?(?:0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?|true|false|null")
_WORDS: dict[str, JsonValue] = {"null": None, "true": True, "false": False}
_CLOSERS = {"[": "]", "{": "}"}
