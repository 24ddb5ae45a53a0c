"""The frames between Python and a Node host: one table, one encoder, one strict decoder.

Python talks to two peers in one Node process: the main thread (control socket, descriptor 3) and
the worker thread (a Unix socket of its own). Neither is trusted: every body is size-capped, decoded
into one flat array and checked field by field against the table before anything acts on it.

Shape: 4-byte big-endian body length, then one MessagePack array: the kind, then the fields. All
text travels as JSON bytes, because a lone surrogate survives in JSON and not in a MessagePack
string.

Source: docs/reference/worker-frames.md.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import msgpack

from ._log_frames import cost_bytes, read_plain_logs

PROTOCOL_VERSION: Final = 2
MAX_BODY_BYTES: Final = 268_435_456
MAX_UINT: Final = 2**53 - 1

SPAWN: Final = 1
PREPARE: Final = 2
TERMINATE: Final = 3
READY: Final = 16
PREPARED: Final = 17
REFUSED: Final = 18
BUSY: Final = 19
GONE: Final = 20
RUN: Final = 32
REPLY: Final = 33
HELLO: Final = 48
CALL: Final = 49
LOG: Final = 50
DONE: Final = 51
FAIL: Final = 52
LIMIT: Final = 53
# Not on the wire: many LOG frames in one message, as texts and what they cost as JSON.
LOGS: Final = -1


class ProtocolError(Exception):
    """A peer sent bytes that are no frame of the table; the peer is killed for it."""


class FrameKind(NamedTuple):
    """One row of the frame table."""

    name: str
    field_names: tuple[str, ...]
    field_types: tuple[type, ...]
    integer_indices: tuple[int, ...]


def _kind(name: str, **fields: type) -> FrameKind:
    types = tuple(fields.values())
    integers = tuple(index for index, kind in enumerate(types) if kind is int)
    return FrameKind(name, tuple(fields), types, integers)


FRAMES: Final[dict[int, FrameKind]] = {
    SPAWN: _kind("SPAWN", socket_path=bytes, log_path=bytes, nonce=bytes, heap_bytes=int),
    PREPARE: _kind("PREPARE", run=int, directory=bytes, program=bytes),
    TERMINATE: _kind("TERMINATE", run=int),
    READY: _kind("READY", version=int, node=bytes),
    PREPARED: _kind("PREPARED", run=int, prepared=bytes),
    REFUSED: _kind("REFUSED", run=int, message=bytes, retire=bool),
    BUSY: _kind("BUSY", run=int, busy_us=int),
    GONE: _kind("GONE", run=int, detail=bytes),
    RUN: _kind("RUN", request=bytes),
    REPLY: _kind("REPLY", id=int, ok=bool, payload=bytes),
    HELLO: _kind("HELLO", version=int, nonce=bytes),
    CALL: _kind("CALL", id=int, target=bytes, argument=bytes),
    LOG: _kind("LOG", text=bytes),
    DONE: _kind("DONE", value=bytes),
    FAIL: _kind("FAIL", kind=bytes, message=bytes),
    LIMIT: _kind("LIMIT"),
}

Field = int | bool | bytes
# The fields of a decoded message have the types of its row; `decode_body` has checked them.
Message = tuple[int, tuple[Any, ...]]

_SHORT_ARRAY: Final = 0x90
_LENGTH = struct.Struct(">I")
_pack_length = _LENGTH.pack
# The begin of the body of a LOG frame whose text has a length of one byte, which follows.
_SHORT_LOG_HEAD: Final = bytes((_SHORT_ARRAY + 2, LOG, 0xC4))
_pack_body = msgpack.Packer(use_bin_type=True, autoreset=True).pack


def encode_frame(kind: int, *fields: Field) -> bytes:
    """Encode one frame, length prefix included.

    Raises:
        ProtocolError: the body would be larger than `MAX_BODY_BYTES`.
    """
    body: bytes = _pack_body((kind, *fields))
    if len(body) > MAX_BODY_BYTES:
        raise ProtocolError(
            f"Cannot send frame {FRAMES[kind].name}: {len(body)} bytes, "
            f"expected at most {MAX_BODY_BYTES} bytes"
        )
    return _pack_length(len(body)) + body


def decode_body(body: bytes | bytearray | memoryview) -> Message:
    """Decode one frame body into its kind and its checked fields.

    Raises:
        ProtocolError: the body is not one array of a known kind with exactly its fields.
    """
    try:
        items = msgpack.unpackb(
            body,
            raw=True,
            use_list=False,
            max_array_len=8,
            max_map_len=0,
            max_ext_len=0,
            max_str_len=0,
            max_bin_len=MAX_BODY_BYTES,
        )
    except Exception as error:
        raise ProtocolError(
            f"Cannot decode frame: {type(error).__name__}, expected one MessagePack array"
        ) from error
    if type(items) is not tuple or not items or type(items[0]) is not int:
        raise ProtocolError("Cannot decode frame: no kind, expected an array that starts with one")
    if body[0] & 0xF0 != _SHORT_ARRAY:
        raise ProtocolError("Cannot decode frame: a long head, expected the short one of an array")
    kind, fields = items[0], items[1:]
    row = FRAMES.get(kind)
    if row is None:
        raise ProtocolError(f"Cannot decode frame: unknown kind {kind}, expected one of the table")
    if tuple(map(type, fields)) != row.field_types:
        raise ProtocolError(
            f"Cannot decode frame {row.name}: fields {[type(f).__name__ for f in fields]}, "
            f"expected {[t.__name__ for t in row.field_types]}"
        )
    for index in row.integer_indices:
        if not 0 <= fields[index] <= MAX_UINT:
            raise ProtocolError(
                f"Cannot decode frame {row.name}: integer {fields[index]}, expected 0 to 2**53-1"
            )
    return kind, fields


class FrameReader:
    """Cuts a byte stream into messages.

    Units: `max_body_bytes` counts one body without its length prefix. Bytes that are held never
    exceed that plus one read chunk.

    Attributes:
        joins_logs: Whether LOG frames may come as one LOGS message: a list of texts, and what they
            cost as JSON, commas not counted.
    """

    __slots__ = ("_buffer", "_max_body_bytes", "joins_logs")

    def __init__(self, max_body_bytes: int = MAX_BODY_BYTES) -> None:
        self._buffer = bytearray()
        self._max_body_bytes = max_body_bytes
        self.joins_logs = False

    @property
    def held_bytes(self) -> int:
        """Bytes of a frame that is not complete yet."""
        return len(self._buffer)

    def feed(self, chunk: bytes) -> Iterator[Message]:
        """Take a chunk and yield the messages that it completes.

        The iterator must be exhausted, or the reader dropped, before the next chunk is fed.

        Raises:
            ProtocolError: a length above the cap, or a body that does not decode.
        """
        buffer = self._buffer
        buffer += chunk
        offset, available = 0, len(buffer)
        try:
            if self.joins_logs and buffer[4:7] == _SHORT_LOG_HEAD:
                logs = read_plain_logs(buffer)
                if logs is not None:
                    texts, offset = logs
                    yield LOGS, (texts, cost_bytes(len(texts), offset))
            while available - offset >= 4:
                (length,) = _LENGTH.unpack_from(buffer, offset)
                if length > self._max_body_bytes:
                    raise ProtocolError(
                        f"Cannot read frame: {length} bytes announced, "
                        f"expected at most {self._max_body_bytes} bytes"
                    )
                end = offset + 4 + length
                if end > available:
                    break
                body = buffer[offset + 4 : end]
                if body.startswith(_SHORT_LOG_HEAD) and length > 3 and body[3] == length - 4:
                    # Most frames of a talkative program, spelled as the worker spells them.
                    message: Message = LOG, (bytes(body[4:]),)
                else:
                    message = decode_body(body)
                offset = end
                yield message
        finally:
            del buffer[:offset]
