"""How much the fuzz tests look at, and the values that all of them draw from.

`make test` draws the same examples each time, so that a failure is one of the commit. `make fuzz`
sets CODE_RUNTIME_FUZZ_FACTOR: so many times as many, drawn at random; a failure prints the blob
that draws it again.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, final

from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st

from code_runtime import BlockingCodeRuntime
from code_runtime._lossless import LosslessJsonError, encode
from code_runtime_python._frames import (
    AckMessage,
    CallMessage,
    ChildMessage,
    DoneMessage,
    FailMessage,
    LogMessage,
)
from code_runtime_worker_thread._node import list_candidates

Runtimes = dict[str, BlockingCodeRuntime]
"""A runtime for each language."""

FACTOR: Final = int(os.environ.get("CODE_RUNTIME_FUZZ_FACTOR", "0"))
# Many processes on a machine that others use too; `make fuzz` has no limit.
PATIENCE_S: Final = 300 if FACTOR == 0 else 0


def examples(count: int, *, processes: bool = False, **more: Any) -> settings:
    """Draw `count` examples, or so many times the factor of `make fuzz`.

    Args:
        count: How many.
        processes: Each example runs processes. To find the smallest that fails takes minutes then,
            which only `make fuzz` has.
        more: Further settings of Hypothesis.
    """
    without = {Phase.shrink, Phase.explain} if processes and FACTOR == 0 else set()
    return settings(
        phases=[phase for phase in Phase if phase not in without],
        max_examples=count * max(1, FACTOR),
        derandomize=FACTOR == 0,
        database=None,
        deadline=None,  # the machine decides how long an example takes
        print_blob=True,
        suppress_health_check=[
            HealthCheck.too_slow,
            HealthCheck.data_too_large,
            HealthCheck.filter_too_much,
            HealthCheck.large_base_example,
        ],
        **more,
    )


# Values

_UNITS: Final = '"\\/\0\n\r\x1f\x7f\x80é€\u2028\ufeff\uffff😀\U0010ffff\ud800\udbff\udc00\udfff'
texts: st.SearchStrategy[str] = st.text(
    st.sampled_from(_UNITS) | st.characters(codec=None), max_size=6
)
keys: st.SearchStrategy[str] = texts | st.sampled_from(
    ["", "__proto__", "constructor", "toString", "toJSON", "length", "0", "10", "2", "-1", "01"]
)
_edges: Final = [2**53, 2**53 - 1, 2**53 - 2, 2**52, 2**31, 2**32, 10**21, 10**22, 2**60, 2**1023]
integers: st.SearchStrategy[int] = (
    st.sampled_from([*_edges, *(-edge for edge in _edges), 0, 1, -1])
    | st.integers(-(2**53), 2**53)
    | st.integers(-(2**53), 2**53).flatmap(
        lambda odd: st.integers(0, 970).map(lambda shift: odd << shift)
    )
)
_odd_floats: Final = (
    *(5e-324, 2.2250738585072014e-308, 1e-7, 1e-6, 123e-7, 1e-5, 9.5e-5, 0.1, 1 / 3, 1.5, -0.5),
    *(4503599627370497.5, 9007199254740991.0, 1e21, 1e22, 1.7976931348623157e308),
)
floats: st.SearchStrategy[float] = st.sampled_from(_odd_floats) | st.floats(
    allow_nan=False, allow_infinity=False
).filter(lambda number: number != 0 or str(number) == "0.0")
scalars: st.SearchStrategy[Any] = st.none() | st.booleans() | integers | floats | texts


def _nested(args: tuple[Any, list[str | None]]) -> Any:
    value, steps = args
    for step in steps:
        value = [value] if step is None else {step: value}
    return value


_branches: st.SearchStrategy[Any] = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(keys, inner, max_size=4),
    max_leaves=12,
)
_depths: st.SearchStrategy[list[str | None]] = st.builds(
    lambda steps, times: steps * times,
    st.lists(st.none() | keys, min_size=1, max_size=3),
    st.sampled_from([0, 0, 0, 1, 8, 40]),
)


def _is_lossless(value: object) -> bool:
    """Tell whether no two keys of a dict are equal once their surrogates are combined."""
    try:
        encode(value)
    except LosslessJsonError:
        return False
    return True


values: st.SearchStrategy[Any] = st.tuples(_branches, _depths).map(_nested).filter(_is_lossless)


# Around the depths at which an encoder or decoder changes its lane.
depths: st.SearchStrategy[int] = st.sampled_from([0, 1, 99, 101, 199, 201, 990, 2_500])


def wrapped(value: object, depth: int) -> object:
    """Nest a value so deep as Hypothesis could not show it."""
    for level in range(depth):
        value = {"a": value} if level % 3 == 0 else [value]
    return value


def combined(text: str) -> str:
    """Combine spelled-out surrogate pairs, as every hop does."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")


def exact(value: object) -> tuple[str, list[str]]:
    """Return the canonical text of a value and the types in it, for values of any depth."""
    types: list[str] = []
    pending = [value]
    while pending:
        item = pending.pop()
        types.append(type(item).__name__)
        if isinstance(item, list):
            pending.extend(item)
        elif isinstance(item, dict):
            pending.extend(item.values())
    return encode(value).decode(), types


def _is_index(key: str) -> bool:
    return key.isascii() and key.isdigit() and str(int(key)) == key and int(key) < 2**32 - 1


def in_javascript_order(value: Any) -> Any:
    """Order keys as a JavaScript object does: array indices first and ascending.

    Values are nested too deep for a recursion.
    """
    root = [value]
    pending: list[Any] = [root]
    while pending:
        container = pending.pop()
        for key in range(len(container)) if type(container) is list else list(container):
            item = container[key]
            if type(item) is list:
                item = list(item)
            elif type(item) is dict:
                indices = sorted(filter(_is_index, item), key=int)
                item = {name: item[name] for name in [*indices, *item]}
            container[key] = item
            if type(item) in (list, dict):
                pending.append(item)
    return root[0]


# The TypeScript side


def plain(message: ChildMessage | None) -> object:
    """Spell a message as `peer.ts` does."""
    match message:
        case None:
            return None
        case AckMessage():
            return {"kind": "boot-ack"}
        case CallMessage(call_id, global_name, name, args):
            text = encode(in_javascript_order(args)).decode()
            return {
                "kind": "call", "id": call_id, "global": global_name, "name": name, "args": text
            }  # fmt: skip
        case LogMessage(text, truncated, is_open):
            return {"kind": "log", "text": text, "truncated": truncated, "open": is_open}
        case DoneMessage(has_value, value, is_exact):
            shown = encode(in_javascript_order(value)).decode() if has_value else None
            return {"kind": "done", "hasValue": has_value, "value": shown, "isExact": is_exact}
        case FailMessage(kind, text):
            return {"kind": "fail", "failure": kind, "message": text}


@final
class NodePeer:
    """A Node process that runs functions of the TypeScript sources on batches of items."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process

    def ask(self, operation: str, items: list[Any]) -> list[Any]:
        """Apply an operation of `peer.ts` to each item; items and answers are JSON."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        line = json.dumps({"operation": operation, "items": items}).encode() + b"\n"
        self._process.stdin.write(line)
        self._process.stdin.flush()
        answers: list[Any] = json.loads(self._process.stdout.readline())
        assert len(answers) == len(items)
        return answers


def node_path() -> str:
    """Return the Node that a worker-thread provider takes."""
    found = [candidate.path for candidate in list_candidates() if candidate.path is not None]
    return found[0]


@contextmanager
def open_node_peer() -> Iterator[NodePeer]:
    """Start the Node process; it ends with the block."""
    script = Path(__file__).parents[1] / "fuzz" / "peer.ts"
    with subprocess.Popen(
        [node_path(), "--no-warnings", str(script)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=sys.stderr,
    ) as process:
        try:
            yield NodePeer(process)
        finally:
            process.kill()
