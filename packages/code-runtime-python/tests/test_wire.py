"""The frame shapes, encoders and child-side readers of the fd-3 wire, against the shared vectors."""

from __future__ import annotations

import json
import subprocess
import sys
import typing
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from code_runtime_python._child import inbound, wire
from code_runtime_python._child.lossless import JsonValue, decode, encode, measure

ROOT = Path(__file__).parents[3]
CHILD = ROOT / "packages/code-runtime-python/src/code_runtime_python/_child"
VECTORS = ROOT / "tests/vectors/fd3"


def read(name: str) -> typing.Any:
    return json.loads((VECTORS / f"{name}.json").read_text("utf-8"))


SHAPES = read("shapes")
FRAMES = read("frames")["frames"]
SPELLING = read("spelling")
MARKERS = read("markers")
INBOUND = read("hostile")["inbound"]


def type_name(hint: object) -> str:
    """Name a field type as the vectors do."""
    if hint == typing.get_type_hints(wire.Call)["args"]:
        return "json"
    if typing.get_origin(hint) is typing.Literal:
        return " | ".join(
            f'"{value}"' if isinstance(value, str) else str(value).lower()
            for value in typing.get_args(hint)
        )
    if typing.get_origin(hint) is list:
        return f"{type_name(typing.get_args(hint)[0])}[]"
    assert isinstance(hint, type)
    return hint.__name__


def test_wire_declares_the_shapes_and_field_types_of_the_vectors() -> None:
    declared = {
        name: shape
        for name, shape in vars(wire).items()
        if typing.is_typeddict(shape) and not name.startswith("_")
    }
    assert set(declared) == {shape["name"] for shape in SHAPES["shapes"]}
    for shape in SHAPES["shapes"]:
        kind = typing.cast("typing.Any", declared[shape["name"]])
        hints = typing.get_type_hints(kind)
        assert {
            name: (type_name(hint), name in kind.__required_keys__) for name, hint in hints.items()
        } == {field["name"]: (field["type"], field["required"]) for field in shape["fields"]}


def test_wire_has_the_constants_of_the_vectors() -> None:
    constants = SHAPES["constants"]
    assert {name: getattr(wire, name) for name in constants} == {
        **constants,
        "DONE_KINDS": tuple(constants["DONE_KINDS"]),
    }
    assert typing.get_args(wire.DoneKind) == wire.DONE_KINDS


def encode_shape(shape: str, frame: dict[str, typing.Any]) -> bytes:
    encoders: dict[str, Callable[[], bytes]] = {
        "Boot": lambda: wire.encode_boot(
            cpu_seconds=frame["cpuSeconds"],
            address_space_bytes=frame["addressSpaceBytes"],
            max_log_bytes=frame["maxLogBytes"],
            max_value_bytes=frame["maxValueBytes"],
            namespaces=frame["namespaces"],
        ),
        "Run": lambda: wire.encode_run(frame["program"]),
        "ReplyOk": lambda: wire.encode_reply(frame["id"], encode(frame["value"])),
        "ReplyError": lambda: wire.encode_reply_error(frame["id"], frame["message"]),
        "BootAck": wire.encode_boot_ack,
        "Call": lambda: wire.encode_call(
            frame["id"], frame["global"], frame["name"], encode(frame["args"])
        ),
        "Log": lambda: wire.encode_log(
            frame["text"], truncated="truncated" in frame, is_open="open" in frame
        ),
        "Done": lambda: (
            wire.encode_done_error(frame["error"]["kind"], frame["error"]["message"])
            if "error" in frame
            else wire.encode_done(encode(frame["value"]) if "value" in frame else None)
        ),
    }
    return encoders[shape]()


@pytest.mark.parametrize("vector", FRAMES, ids=lambda vector: vector["name"])
def test_encoders_write_the_line_of_the_vector(vector: dict[str, typing.Any]) -> None:
    assert encode_shape(vector["shape"], vector["frame"]) == vector["line"].encode() + b"\n"


def test_log_frame_is_a_whole_entry_unless_told() -> None:
    assert wire.encode_log("a") == b'{"type":"log","text":"a"}\n'


def test_child_reads_a_mebibyte_in_16_turns() -> None:
    assert wire.READ_BYTES * 16 == 2**20


READERS: dict[str, Callable[[bytes], object]] = {
    "Boot": inbound.read_boot,
    "Run": inbound.read_run,
    "ReplyOk": inbound.read_reply,
    "ReplyError": inbound.read_reply,
}


@pytest.mark.parametrize(
    "vector",
    [vector for vector in FRAMES if vector["shape"] in READERS],
    ids=lambda vector: vector["name"],
)
def test_child_reads_what_its_host_writes(vector: dict[str, typing.Any]) -> None:
    assert READERS[vector["shape"]](vector["line"].encode()) == vector["frame"]


@pytest.mark.parametrize("vector", INBOUND, ids=lambda vector: vector["name"])
def test_child_refuses_a_frame_that_is_not_the_expected_one(vector: dict[str, str]) -> None:
    """PY-069."""
    reader = {"boot": inbound.read_boot, "run": inbound.read_run, "reply": inbound.read_reply}
    with pytest.raises(inbound.FrameError, match=f"Cannot read (the|a) {vector['expected']} frame"):
        reader[vector["expected"]](vector["line"].encode())


def test_reply_id_finds_the_id_without_the_value() -> None:
    """5.3 item 10: a reply that cannot be decoded fails its own call only."""
    assert inbound.reply_id(wire.encode_reply(17, b'"' + b"x" * 100)) == 17
    assert inbound.reply_id(wire.encode_reply_error(0, "m")) == 0
    assert inbound.reply_id(wire.encode_run("return 1")) is None
    assert inbound.reply_id(b'{"type":"reply","id":-1,"ok":true') is None


@pytest.mark.parametrize("vector", SPELLING["cases"], ids=lambda vector: vector["name"])
def test_values_are_spelled_and_metered_as_in_the_vectors(vector: dict[str, typing.Any]) -> None:
    """PY 2.2 and 2.3."""
    value = decode(vector["text"].encode())
    assert encode(value) == vector["canonical"].encode()
    assert measure(value) == vector["cost"]


@pytest.mark.parametrize("vector", MARKERS["log"], ids=lambda vector: str(vector["budget"]))
def test_log_marker_is_the_text_of_the_vectors(vector: dict[str, typing.Any]) -> None:
    assert wire.log_marker(vector["budget"]) == vector["text"]


def test_smallest_log_budget_holds_its_own_marker() -> None:
    def fits(budget: int) -> bool:
        return len(encode([wire.log_marker(budget)])) <= budget

    assert next(budget for budget in range(1, 200) if fits(budget)) == MARKERS["smallest"]
    assert all(map(fits, range(MARKERS["smallest"], 5_000)))
    assert fits(wire.MIN_LOG_BYTES)


@pytest.mark.parametrize("vector", MARKERS["fit"], ids=lambda vector: vector["name"])
def test_fit_message_cuts_as_in_the_vectors(vector: dict[str, typing.Any]) -> None:
    """PY-117, PY-118, PY-119."""
    assert wire.fit_message(vector["message"], vector["budget"]) == vector["result"]


@given(st.text(), st.integers(17, 200))
def test_fit_message_is_within_its_budget(message: str, budget: int) -> None:
    fitted = wire.fit_message(message, budget)
    assert len(encode(fitted)) <= budget
    assert fitted == message or message.startswith(fitted.removesuffix(wire.CUT_MARKER))


json_values: st.SearchStrategy[JsonValue] = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@given(st.integers(0, 2**53 - 1), json_values)
def test_reply_splices_any_value_unchanged(call_id: int, value: JsonValue) -> None:
    line = wire.encode_reply(call_id, encode(value))
    assert line.count(b"\n") == 1
    assert inbound.read_reply(line) == {
        "type": "reply",
        "id": call_id,
        "ok": True,
        "value": decode(encode(value)),
    }


SCRIPT = """
import json, sys, types
before = set(sys.modules)
package = types.ModuleType("child")
package.__path__ = [sys.argv[1]]
sys.modules["child"] = package
from child import wire, inbound, lossless
def load(name):
    with open(sys.argv[2] + "/" + name + ".json", encoding="utf-8") as file:
        return json.load(file)
lines = []
for vector in load("frames")["frames"]:
    frame, shape = vector["frame"], vector["shape"]
    spliced = {key: lossless.encode(value) for key, value in frame.items()}
    if shape == "Call":
        line = wire.encode_call(frame["id"], frame["global"], frame["name"], spliced["args"])
    elif shape == "Log":
        line = wire.encode_log(frame["text"], truncated="truncated" in frame, is_open="open" in frame)
    elif shape == "Done" and "error" in frame:
        line = wire.encode_done_error(frame["error"]["kind"], frame["error"]["message"])
    elif shape == "Done":
        line = wire.encode_done(spliced.get("value"))
    elif shape == "BootAck":
        line = wire.encode_boot_ack()
    else:
        read = {"Boot": inbound.read_boot, "Run": inbound.read_run}.get(shape, inbound.read_reply)
        assert read(vector["line"].encode()) == frame, vector
        continue
    assert line == vector["line"].encode() + b"\\n", (vector, line)
    lines.append(line)
for vector in load("spelling")["cases"]:
    value = lossless.decode(vector["text"].encode())
    assert lossless.encode(value) == vector["canonical"].encode(), vector
    assert lossless.measure(value) == vector["cost"], vector
for vector in load("markers")["log"]:
    assert wire.log_marker(vector["budget"]) == vector["text"], vector
for vector in load("markers")["fit"]:
    assert wire.fit_message(vector["message"], vector["budget"]) == vector["result"], vector
for vector in load("hostile")["inbound"]:
    read = {"boot": inbound.read_boot, "run": inbound.read_run, "reply": inbound.read_reply}
    try:
        read[vector["expected"]](vector["line"].encode())
    except inbound.FrameError:
        continue
    raise AssertionError(vector)
known = {*sys.stdlib_module_names, "child"}
outside = [name for name in sys.modules if name not in before and name.split(".")[0] not in known]
assert not outside, outside
print(len(lines))
"""


def interpreters() -> list[str]:
    """This interpreter and those of the supported range that the machine has."""
    found = sorted(Path.home().glob(".pyenv/versions/3.1[0-9].*/bin/python"))
    return [sys.executable, *map(str, found)]


@pytest.mark.parametrize("interpreter", interpreters())
def test_child_itself_passes_the_vectors(interpreter: str) -> None:
    """The child's own copy of the wire, isolated, on each CPython from 3.10 on; standard library only."""
    finished = subprocess.run(
        [interpreter, "-I", "-B", "-c", SCRIPT, CHILD, VECTORS],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (finished.stdout, finished.stderr) == ("15\n", "")


PAGE = ROOT / "docs/reference/fd3-protocol.md"


def test_page_lists_the_shapes_field_types_and_constants_of_the_vectors() -> None:
    rows = [
        [cell.strip().strip("`").replace("\\|", "|") for cell in line.strip("| ").split(" | ")]
        for line in PAGE.read_text("utf-8").splitlines()
        if line.startswith("| ")
    ]
    shapes = [
        [
            shape["name"],
            shape["direction"],
            field["name"],
            field["type"],
            "yes" if field["required"] else "no",
        ]
        for shape in SHAPES["shapes"]
        for field in shape["fields"]
    ]
    assert [row[:5] for row in rows if row[0] in {shape[0] for shape in shapes}] == shapes
    constants = {row[0]: row[1] for row in rows if row[0] in SHAPES["constants"]}
    assert constants == {
        name: value
        if isinstance(value, str)
        else f"{value:,}"
        if isinstance(value, int)
        else ", ".join(value)
        for name, value in SHAPES["constants"].items()
    }
