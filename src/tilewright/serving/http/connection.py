"""One connection of HTTP/1.1: requests parsed by llhttp (httptools), bounded in bytes and in time, answered in order.

uvicorn bounds neither the time of a request's head nor a client that does not read; docs/serving.md has the figures.
"""

from __future__ import annotations

import asyncio
import time
import zlib
from collections import deque
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from tilewright.serving.http.inference import refuse
from tilewright.serving.http.routes import Routes
from tilewright.serving.models.batches import Request
from tilewright.serving.models.core import Core
from tilewright.serving.models.errors import RequestError, overloaded
from tilewright.serving.models.packages import package

if TYPE_CHECKING:
    from asyncio import Transport

#: Requests that one connection may have sent ahead of their turn.
MOST_AHEAD = 128
#: Heads that are known again, at most, and the bytes of each.
MOST_HEADS, LONGEST_HEAD = 256, 4096
_NEVER = float("inf")
_NOTHING = memoryview(b"")
_LINES = {status.value: f"HTTP/1.1 {status.value} {status.phrase}\r\n" for status in HTTPStatus}


class Fields:
    """The head of a request, parsed; clients repeat theirs."""

    __slots__ = ("encoding", "expects", "header_length", "keep", "length", "method", "path")

    def __init__(self) -> None:
        self.path, self.method, self.header_length, self.encoding = "", "", "", ""
        self.expects, self.keep = False, True
        self.length = 0


class Message:
    """One request: the fields of its head, and its body as it comes."""

    __slots__ = ("body", "fields", "pieces", "received")

    def __init__(self, fields: Fields) -> None:
        self.fields = fields
        self.received = 0
        self.pieces: list[bytes] = []
        self.body = memoryview(b"")


class Connection(asyncio.Protocol):
    """The server's side of a connection. `deadline` is when it is closed unless something comes, or is taken."""

    def __init__(self, core: Core, routes: Routes, connections: set[Connection]) -> None:
        self._core, self._routes, self._connections = core, routes, connections
        self._limits = core.limits
        self._parser = package("httptools").HttpRequestParser(self)
        self._message = self._answered = Message(Fields())
        self._ahead: deque[Message] = deque()
        self._busy = self._lost = self._keep = self._full = False
        self._closing = self._ended = False
        self._head_bytes = 0
        self._begun = 0.0
        self._data = b""
        self._running: Request | None = None
        self.deadline = 0.0

    # what asyncio calls

    def connection_made(self, transport: Any) -> None:
        """Greet a client, or refuse it where there are too many."""
        self._transport: Transport = transport
        transport.set_write_buffer_limits(high=1 << 16)
        self._connections.add(self)
        self._core.connections += 1
        self.deadline = time.monotonic() + self._limits.head_seconds
        if self._core.connections > self._limits.connections:
            self._refuse(overloaded(f"the server has {self._limits.connections} connections, which is its limit"))

    def connection_lost(self, error: Exception | None) -> None:
        """Forget the client, and what it waits for."""
        self._lost = True
        self._connections.discard(self)
        self._core.connections -= 1
        self._core.release(sum(message.received for message in self._ahead) + self._message.received)
        self._message.received = 0
        self._ahead.clear()
        if self._running is not None:
            self._running.gone = True
        self._parser = None  # which refers to this

    def data_received(self, data: bytes) -> None:
        """Parse what came."""
        if self._closing or self._parser is None:
            return
        if not (self._begun or self._busy or self._full) and self._take_known(data):
            return
        now = time.monotonic()
        self._data = b"" if self._begun else data
        self._begun = self._begun or now
        try:
            self._head_bytes += len(data)
            self._parser.feed_data(data)
            if self._head_bytes > self._limits.headers and not self._message.fields.method:
                raise RequestError(f"the head of a request has more than {self._limits.headers} bytes", 431)
        except RequestError as error:
            self._refuse(error)
        except Exception as error:
            cause = error.__context__ if isinstance(error.__context__, RequestError) else None
            self._refuse(cause or RequestError(f"this is not HTTP: {str(error)[:100]}"))
        else:
            if self._begun:
                self._renew(now)
        self._data = b""

    def _take_known(self, data: bytes) -> bool:
        """Begin to answer a whole request whose head was parsed before; False for others."""
        end = data.find(b"\r\n\r\n") + 4
        fields = self._routes.heads.get(data[:end])
        if fields is None or len(data) != end + fields.length:
            return False
        try:
            self._core.reserve(fields.length)
        except RequestError:
            return False  # the parser's callback will say so
        message = Message(fields)
        message.body, message.received = memoryview(data)[end:], fields.length
        self._begin(message)
        return True

    def _keep_head(self, fields: Fields) -> None:
        """Know the head from now on, where it and its body came as one piece."""
        size, heads = len(self._data) - fields.length, self._routes.heads
        whole = 0 < size <= LONGEST_HEAD and self._data.find(b"\r\n\r\n") + 4 == size
        if whole and fields.keep and not fields.expects:
            if len(heads) >= MOST_HEADS:
                heads.clear()
            heads[self._data[:size]] = fields

    def eof_received(self) -> bool:
        """Keep half of the connection open while answers are due."""
        self._ended = True
        return self._busy or bool(self._ahead)

    def pause_writing(self) -> None:
        """Wait a while for a client that does not read."""
        self._full = True
        self._transport.pause_reading()
        self.deadline = time.monotonic() + self._limits.write_seconds

    def resume_writing(self) -> None:
        """Go on with a client that reads again."""
        self._full = False
        self._renew(time.monotonic())
        self._transport.resume_reading()
        self._next()

    # what the parser calls

    def on_message_begin(self) -> None:
        self._message = Message(Fields())
        self._begun = self._begun or time.monotonic()

    def on_url(self, url: bytes) -> None:
        self._message.fields.path += url.decode("latin-1")

    def on_header(self, name: bytes, value: bytes) -> None:
        key, fields = name.lower(), self._message.fields
        if key == b"inference-header-content-length":
            fields.header_length = value.decode("latin-1")
        elif key == b"content-length":
            fields.length = int(value) if value.isdigit() and len(value) < 20 else 0
        elif key == b"content-encoding":
            fields.encoding = value.decode("latin-1").lower()
        elif key == b"expect":
            fields.expects = value.lower() == b"100-continue"

    def on_headers_complete(self) -> None:
        message, fields = self._message, self._message.fields
        fields.method = self._parser.get_method().decode("latin-1")
        if self._parser.should_upgrade():
            raise RequestError("this server speaks HTTP/1.1 alone", 400)
        if self._head_bytes > self._limits.headers + (1 << 18):
            raise RequestError(f"the head of a request has more than {self._limits.headers} bytes", 431)
        if fields.length > self._limits.body:
            raise _too_large(fields.length, self._limits.body)
        if fields.length:
            self._core.reserve(fields.length)
            message.received = fields.length
        if fields.expects and fields.length:
            self._transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")

    def on_body(self, data: bytes) -> None:
        message = self._message
        message.pieces.append(data)
        if not message.fields.length:  # in chunks, whose sum nobody knows
            if message.received + len(data) > self._limits.body:
                raise _too_large(message.received + len(data), self._limits.body)
            self._core.reserve(len(data))
            message.received += len(data)

    def on_message_complete(self) -> None:
        message = self._message
        pieces, fields = message.pieces, message.fields
        message.body = memoryview(pieces[0] if len(pieces) == 1 else b"".join(pieces))
        pieces.clear()
        self._message = Message(Fields())
        self._head_bytes = 0
        self._begun = 0.0
        fields.keep = self._parser.should_keep_alive()
        self._keep_head(fields)
        if self._busy or self._ahead or self._full:
            self._ahead.append(message)
            if len(self._ahead) > MOST_AHEAD:
                raise RequestError(f"a connection may have {MOST_AHEAD} requests that wait for their turn", 429)
        else:
            self._begin(message)

    # answers

    def _begin(self, message: Message) -> None:
        fields = message.fields
        self._busy, self._keep, self._answered = True, fields.keep, message
        if not self._full:
            self.deadline = _NEVER  # the queue has a limit of its own
        try:
            body = message.body if not fields.encoding else _decoded(message, self._limits.body)
        except RequestError as error:
            refuse(error, self._respond)
            return
        # an inference whose client leaves is not run; its bytes are counted until then
        self._running = self._routes.answer(fields.method, fields.path, fields.header_length, body, self._respond)

    def _respond(self, status: int, headers: str, pieces: list[Any]) -> None:
        message, self._running = self._answered, None
        self._core.release(message.received)
        message.received, message.body = 0, _NOTHING
        if status >= 400:
            self._core.refused[status] = self._core.refused.get(status, 0) + 1
        if self._lost:
            return
        keep = self._keep and (not self._ended or bool(self._ahead))
        length = sum(map(len, pieces))
        close = "" if keep else "Connection: close\r\n"
        head = f"{_LINES[status]}{headers}Content-Length: {length}\r\n{close}\r\n"
        self._transport.write(b"".join([head.encode("latin-1"), *pieces]))
        self._busy = False
        if not keep:
            self._closing = True
            self._transport.close()
            self._renew(time.monotonic())
            return
        if not self._full:
            self._renew(time.monotonic())
            self._next()

    def _next(self) -> None:
        """Begin the next request that was sent ahead of its turn, in a turn of the loop of its own."""
        if self._ahead and not self._busy and not self._closing:
            self._busy = True
            asyncio.get_running_loop().call_soon(self._begin, self._ahead.popleft())

    def _refuse(self, error: RequestError) -> None:
        """Answer a request that cannot be read to its end, and close."""
        self._keep = False
        self._core.release(self._message.received)
        self._message.received = 0
        if not self._busy:
            refuse(error, self._respond)
        self._closing = True
        self._transport.close()
        self._renew(time.monotonic())

    # time

    def _renew(self, now: float) -> None:
        """Set the deadline by what is awaited now."""
        limits = self._limits
        if self._transport.is_closing() or self._transport.get_write_buffer_size():
            self.deadline = now + limits.write_seconds
        elif self._busy:
            self.deadline = _NEVER
        elif not self._begun:
            self.deadline = now + limits.idle_seconds
        elif not self._message.fields.method:
            self.deadline = self._begun + limits.head_seconds
        else:
            self.deadline = min(now + limits.stall_seconds, self._begun + limits.body_seconds)

    def expire(self) -> None:
        """The deadline is over: say so to a client that was in the midst of a request, and close."""
        if self._begun and not self._busy and not self._transport.is_closing():
            self._refuse(RequestError("the request took too long to come", 408))
            self.deadline = time.monotonic() + 1.0
        else:
            self._transport.abort()

    def abort(self) -> None:
        """Close without an answer."""
        self._transport.abort()

    def close_when_idle(self) -> None:
        """Close at once where nothing is awaited, else with the next response."""
        self._keep = False
        if not self._busy and not self._begun:
            self._transport.close()


def _too_large(length: int, limit: int) -> RequestError:
    return RequestError(f"the request has a body of {length} bytes, and {limit} are the limit", 413)


def _decoded(message: Message, most: int) -> memoryview:
    """A body without its compression. Raises `RequestError` for others than gzip and deflate, or above `most` bytes."""
    if message.fields.encoding not in ("gzip", "deflate"):
        raise RequestError(f"Content-Encoding {message.fields.encoding[:40]!r}: gzip and deflate are understood", 415)
    inflate = zlib.decompressobj(zlib.MAX_WBITS | 32)
    try:
        data = inflate.decompress(message.body, most + 1)
    except zlib.error as error:
        raise RequestError(f"the body is no {message.fields.encoding}: {error}") from None
    if len(data) > most:
        raise RequestError(f"the body has more than {most} bytes without its compression", 413)
    return memoryview(data)
