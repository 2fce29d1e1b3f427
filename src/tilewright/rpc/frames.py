"""The wire format of the fleet: frames of a JSON object and raw bytes, both of a length that is stated and bounded.

    0   4 bytes   b"TWR1"
    4   4 bytes   length of the JSON text, little endian, at most `MOST_TEXT`
    8   8 bytes   length of the bytes behind it, at most what the reader grants for this frame
    16            the JSON object (UTF-8), then the bytes

Nothing is ever unpickled, and nothing is allocated by what a peer claims before it was compared with a bound. A frame
that has begun must be whole within `FRAME_SECONDS` a megabyte, so that a peer that stops or trickles holds nothing up.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import socket
import ssl
import struct
import time
from collections.abc import Iterator, Mapping
from typing import Any, BinaryIO

from tilewright.errors import RpcError

MAGIC = b"TWR1"
_HEADER = struct.Struct("<4sIQ")

#: The longest JSON text of a frame, in bytes.
MOST_TEXT = 1 << 20
#: Bytes that a frame may carry behind its text where the reader says nothing else.
MOST_BYTES = 4 << 30
#: Seconds in which a frame that has begun must have come, plus those for every megabyte of it.
FRAME_SECONDS, SECONDS_A_MEGABYTE = 10.0, 0.5

#: Bytes that are read or passed on at a time.
CHUNK = 1 << 20


class ConnectionLost(RpcError):
    """The peer at the other end of `channel` is gone: it closed the connection, died, or did not answer in time."""

    def __init__(self, message: str, channel: Channel | None = None) -> None:
        super().__init__(message)
        self.channel = channel


class BadFrame(RpcError):
    """A peer's message that is no frame of this protocol, or one beyond the bounds."""


class Channel:
    """Frames over a connected socket (plain, TLS, or of a pair). One thread may read while another writes."""

    def __init__(self, connection: socket.socket, peer: str) -> None:
        self.socket = connection
        self.peer = peer
        self.left = 0  # bytes of the frame at hand that were not read yet
        #: True where several buffers can be sent at once, as TLS and Windows cannot.
        self._gathers = hasattr(connection, "sendmsg") and not isinstance(connection, ssl.SSLSocket)
        if connection.family in (socket.AF_INET, socket.AF_INET6):
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)

    def send(self, message: Mapping[str, Any], data: Any = b"", seconds: float | None = None) -> None:
        """Send one frame; `data` is bytes or a contiguous buffer. Raises `ConnectionLost`."""
        view = memoryview(data).cast("B") if len(data) else memoryview(b"")
        head = memoryview(_head(message, view.nbytes))
        sent = 0
        if self._gathers:  # in one call: the reader wakes once
            with self._sending(head.nbytes + view.nbytes, seconds):
                sent = self.socket.sendmsg([head, view])
        self.send_bytes(head[sent:], seconds)
        self.send_bytes(view[max(sent - head.nbytes, 0) :], seconds)

    def send_head(self, message: Mapping[str, Any], size: int) -> None:
        """Send the beginning of a frame whose `size` bytes are sent with `send_bytes` afterwards."""
        self.send_bytes(_head(message, size))

    def send_bytes(self, data: Any, seconds: float | None = None) -> None:
        """Send raw bytes of a frame. Raises `ConnectionLost` if the peer does not receive them in time."""
        if len(data):
            with self._sending(len(data), seconds):
                self.socket.sendall(data)

    @contextlib.contextmanager
    def _sending(self, size: int, seconds: float | None) -> Iterator[None]:
        """A `with` block that sends so many bytes; raises `ConnectionLost` where that fails."""
        try:
            self.socket.settimeout(_budget(size) if seconds is None else seconds)
            yield
        except (OSError, ValueError) as error:
            raise ConnectionLost(f"{self.peer} does not accept data: {_reason(error)}", self) from None

    def send_file(self, message: Mapping[str, Any], file: BinaryIO) -> None:
        """Send one frame with the contents of a file, without a copy here where the connection is plain.

        Raises `ConnectionLost` if the file is cut short meanwhile, or where the peer takes nothing for a while.
        """
        size = os.fstat(file.fileno()).st_size
        self.send_head(message, size)
        with self._sending(size, FRAME_SECONDS):
            sent = self.socket.sendfile(file, 0, size) if size else 0
        if sent < size:
            self.close()  # the frame cannot be ended
            raise ConnectionLost(f"a file became shorter while it was sent to {self.peer}", self)

    def receive(self, idle: float | None = None, most: int = MOST_BYTES) -> tuple[dict[str, Any], bytearray]:
        """The next frame. `idle` is how many seconds it may take to begin. Raises `ConnectionLost`, `BadFrame`."""
        message, size = self.receive_head(idle, most)
        data = bytearray(size)
        self.receive_into(data)
        return message, data

    def receive_head(self, idle: float | None = None, most: int = MOST_BYTES) -> tuple[dict[str, Any], int]:
        """The object of the next frame, and how many bytes follow, which the caller reads with `receive_into`."""
        head = bytearray(_HEADER.size)
        self._fill(memoryview(head), idle, first=True)
        magic, length, size = _HEADER.unpack(head)
        if magic != MAGIC:
            raise BadFrame(f"{self.peer} does not speak this protocol: a frame begins with {bytes(head[:4])!r}")
        if length > MOST_TEXT or size > most:
            raise BadFrame(f"{self.peer} announces a frame of {length} + {size} bytes; {MOST_TEXT} + {most} are taken")
        text = bytearray(length)
        self.receive_into(text)
        self.left = size
        try:
            message = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise BadFrame(f"{self.peer} sent a frame that is no JSON text ({type(error).__name__})") from None
        if not isinstance(message, dict):
            raise BadFrame(f"{self.peer} sent a frame that is no JSON object")
        return message, size

    def receive_into(self, buffer: Any) -> None:
        """Fill a writable buffer with raw bytes of the frame."""
        view = memoryview(buffer).cast("B") if len(buffer) else memoryview(bytearray())
        self._fill(view, _budget(view.nbytes), first=False)
        self.left = max(self.left - view.nbytes, 0)

    def drop(self) -> None:
        """Discard the rest of the current frame."""
        buffer = bytearray(min(self.left, CHUNK))
        while self.left:
            self.receive_into(memoryview(buffer)[: min(self.left, CHUNK)])

    def forward(self, other: Channel) -> None:
        """Pass what is left of the frame at hand on to another channel, a chunk at a time."""
        buffer = memoryview(bytearray(min(self.left, CHUNK)))
        while self.left:
            part = buffer[: min(self.left, CHUNK)]
            self.receive_into(part)
            other.send_bytes(part)

    def ready(self, seconds: float) -> bool:
        """True if a frame or the end of the connection can be read within `seconds`."""
        if getattr(self.socket, "pending", lambda: 0)():
            return True
        try:
            return bool(select.select([self.socket], [], [], seconds)[0])
        except (OSError, ValueError):
            return True

    def close(self) -> None:
        """End the connection; a peer that waits for a frame notices at once."""
        with contextlib.suppress(OSError):
            self.socket.shutdown(socket.SHUT_RDWR)
        with contextlib.suppress(OSError):
            self.socket.close()

    def _fill(self, view: memoryview, seconds: float | None, first: bool) -> None:
        """Fill `view`; `seconds` is for its first byte if it is the `first` of a frame, else for all of it."""
        deadline = None if first else time.monotonic() + (seconds or 0.0)
        done = 0
        try:
            while done < len(view):
                self.socket.settimeout(seconds if deadline is None else max(deadline - time.monotonic(), 1e-3))
                count = self.socket.recv_into(view[done:])
                if not count:
                    raise ConnectionLost(f"{self.peer} has closed the connection", self)
                done += count
                if deadline is None:
                    deadline = time.monotonic() + FRAME_SECONDS
        except (OSError, ValueError) as error:
            raise ConnectionLost(f"{self.peer} does not answer: {_reason(error)}", self) from None


def _head(message: Mapping[str, Any], size: int) -> bytes:
    """The beginning of a frame with `size` bytes behind it. Raises `BadFrame`."""
    text = json.dumps(message, separators=(",", ":")).encode()
    if len(text) > MOST_TEXT:
        raise BadFrame(f"a message of {len(text)} bytes is longer than the {MOST_TEXT} that a frame may have")
    return _HEADER.pack(MAGIC, len(text), size) + text


def spelled(host: str, port: int) -> str:
    """An address as text: `127.0.0.1:9090`, `[::1]:9090`."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _budget(size: int) -> float:
    """Seconds in which `size` bytes must have come or gone."""
    return FRAME_SECONDS + SECONDS_A_MEGABYTE * size / (1 << 20)


def _reason(error: Exception) -> str:
    return "no byte came or went in time" if isinstance(error, TimeoutError) else str(error) or type(error).__name__
