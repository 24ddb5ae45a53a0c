"""The transport to a server over streamable HTTP: that of the SDK, with bounds."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager
from typing import TYPE_CHECKING, Final, cast, final

import httpx2
from mcp.client.streamable_http import streamable_http_client

from .tail import Tail

if TYPE_CHECKING:
    from mcp.client._transport import TransportStreams

    from .config import HttpServer

CONNECT_S: Final = 30.0


@final
class HttpTransport:
    """One connection to a server.

    Args:
        entry: The server.
        max_message_bytes: How large one of its messages may be; a larger one fails the request
            that it answers.
    """

    def __init__(self, entry: HttpServer, max_message_bytes: int) -> None:
        self.tail = Tail()  # always empty: what it writes stays where it runs
        self.is_ending = False
        self.reason = ""  # its end shows only in what the next request gives
        self.refusal = ""
        self.status = 200
        self._entry = entry
        self._max_message_bytes = max_message_bytes

    @asynccontextmanager
    async def open(self) -> AsyncGenerator[TransportStreams]:
        """Give the streams of a connection."""
        # A stream may be silent as long as a call takes; calls have a limit of their own.
        timeout = httpx2.Timeout(CONNECT_S, read=None)
        async with (
            httpx2.AsyncClient(
                headers=dict(self._entry.headers),
                timeout=timeout,
                event_hooks={"response": [self._watch]},
            ) as http_client,
            streamable_http_client(
                self._entry.url,
                http_client=http_client,
                max_sse_event_size=self._max_message_bytes,
            ) as streams,
        ):
            yield streams

    async def _watch(self, response: httpx2.Response) -> None:
        self.status = response.status_code
        if self.status >= 400:
            self.refusal = f"HTTP {self.status} {response.reason_phrase}".rstrip()
        kind = response.headers.get("content-type", "")
        # Event streams go on for as long as the connection; the SDK bounds each event.
        if not kind.startswith("text/event-stream") and isinstance(
            response.stream, httpx2.AsyncByteStream
        ):
            response.stream = _BoundedStream(response.stream, self._max_message_bytes)


class _TooLarge(httpx2.StreamError):
    """The body of a response is larger than a message may be."""


@final
class _BoundedStream(httpx2.AsyncByteStream):
    """The body of a response, up to a number of bytes."""

    def __init__(self, stream: httpx2.AsyncByteStream, max_bytes: int) -> None:
        self._stream = stream
        self._max_bytes = max_bytes

    async def __aiter__(self) -> AsyncIterator[bytes]:
        size_bytes = 0
        chunks = cast("AsyncGenerator[bytes]", aiter(self._stream))
        async with aclosing(chunks):
            async for chunk in chunks:
                size_bytes += len(chunk)
                if size_bytes > self._max_bytes:
                    raise _TooLarge(f"it sent a message of more than {self._max_bytes:,} bytes")
                yield chunk

    async def aclose(self) -> None:
        await self._stream.aclose()
