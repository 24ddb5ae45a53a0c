"""Values there and back: through programs of both languages, and through both implementations.

What stays within the Python implementation is in `test_lossless_properties.py`.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from fuzzing import (
    NodePeer,
    Runtimes,
    depths,
    exact,
    examples,
    in_javascript_order,
    plain,
    texts,
    values,
    wrapped,
)
from hypothesis import example, given
from hypothesis import strategies as st

from code_runtime import CodeBindingNamespace, CodeRunRequest
from code_runtime._lossless import decode, encode
from code_runtime_python._frames import parse_child_frame

PROGRAMS = {
    "typescript": """
        const kept = [];
        for (const value of await tools.give(null)) kept.push(await tools.take(value));
        console.log(kept.length);
        return kept;
    """,
    "python": """
kept = []
for value in await tools.give(None):
    kept.append(await tools.take(value))
print(len(kept))
return kept
""",
}


@pytest.mark.parametrize("language", PROGRAMS)
@examples(20, processes=True)
@given(st.lists(values, max_size=8), depths)
@example([2**53, 2**1023, 5e-324, 1e21, "\ud800", {"\udfff": 1, "1": 2, "__proto__": 3}], 2_500)
def test_values_cross_to_a_program_and_back_unchanged(
    runtimes: Runtimes, language: str, drawn: list[Any], depth: int
) -> None:
    """SC-029, WT-096, WT-109: as a result, as an argument and as the completion of one run."""
    sent = [*drawn[:-1], *(wrapped(value, depth) for value in drawn[-1:])]
    seen: list[object] = []

    def take(value: object) -> object:
        seen.append(value)
        return value

    tools = CodeBindingNamespace("tools", {"give": lambda _: sent, "take": take})
    result = runtimes[language].run(CodeRunRequest(PROGRAMS[language], [tools]))
    assert result.error is None, result.error
    assert result.logs == [str(len(drawn))]
    arrived = decode(encode(sent))
    expected = exact(in_javascript_order(arrived) if language == "typescript" else arrived)
    assert exact(result.value) == expected
    assert exact(seen) == expected


@examples(35, processes=True)
@given(st.lists(values, max_size=20), depths)
def test_encoders_of_both_languages_write_the_same_bytes(
    peer: NodePeer, drawn: list[Any], depth: int
) -> None:
    """PY 2.2, WT-065: the worker's, the Node host's in both its lanes, and Python's."""
    sent = [*drawn, *(wrapped(value, depth) for value in drawn[-1:])]
    spelled = [encode(in_javascript_order(decode(encode(value)))).decode() for value in sent]
    wanted = [[text, text, text, len(text.encode())] for text in spelled]
    assert peer.ask("spell", spelled) == wanted


spellings = st.builds(
    lambda value, ascii_only, indent: json.dumps(value, ensure_ascii=ascii_only, indent=indent),
    values.filter(lambda value: len(encode(value)) < 400),
    st.booleans(),
    st.sampled_from([None, 0, "\t"]),
)
numbers = st.from_regex(r"-?[0-9]{1,25}(\.[0-9]{1,20})?([eE][-+]?[0-9]{1,4})?", fullmatch=True)
soup = st.text(st.sampled_from('[]{},:"\\ \n\t\r01-+.eEtrufalsn€\ufeff\ud800/u\x1f'), max_size=30)
ODD_TEXTS = (
    *("NaN", "-Infinity", "0x1", "01", "1.", ".5", "+1", "''", "[1,]", '{"a":1,}', "\ufeff1", "-0"),
    *("-0.0", "-0e5", "0e5", "1e400", "1e-400", "9007199254740993", "9007199254740993.0"),
    *('"\\ud800"', '"\\u00"', "1e23", "1e22", "123456789012345678901234567890.0"),
)
anything = spellings | numbers | soup | st.sampled_from(ODD_TEXTS)


def utf8(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


HEADS = (
    b'{"type":"done","value":%b}',
    b'{"type":"call","id":0,"global":"t","name":"f","args":%b}',
    b'{"type":"call","id":%b,"global":"t","name":"f","args":1}',
    b'{"type":"log","text":%b}',
    b'{"type":%b}',
    b'{"type":"done","error":{"kind":"exception","message":%b}}',
    b'{"type":"done","error":%b}',
    b'\xef\xbb\xbf{"type":"done","value":[%b]}',
    b"%b",
)
heads = st.sampled_from(HEADS)
child_lines = st.builds(lambda head, text: head % text, heads, anything.map(utf8) | st.binary())


@st.composite
def edited_lines(draw: st.DrawFn) -> bytes:
    line = bytearray(draw(child_lines))
    for _ in range(draw(st.integers(0, 2))):
        at = draw(st.integers(0, len(line)))
        line[at : at + draw(st.integers(0, 2))] = draw(st.binary(max_size=2))
    return bytes(line).replace(b"\n", b" ")


@examples(120, processes=True)
@given(st.lists(edited_lines(), max_size=10))
def test_both_hosts_judge_a_line_of_a_child_alike(peer: NodePeer, drawn: list[bytes]) -> None:
    """PY-228 to PY-231: the same message, or both drop it; whatever the text."""
    answers = peer.ask("line", [line.hex() for line in drawn])
    for line, answer in zip(drawn, answers, strict=True):
        assert (line, plain(parse_child_frame(line))) == (line, answer)


@examples(40, processes=True)
@given(st.lists(texts, max_size=10))
def test_texts_cost_the_same_in_both_languages(peer: NodePeer, drawn: list[str]) -> None:
    """WT-065: strings are where a count of units and a count of bytes part."""
    spelled = [encode(text).decode() for text in drawn]
    assert [answer[3] for answer in peer.ask("spell", spelled)] == [
        len(text.encode()) for text in spelled
    ]
