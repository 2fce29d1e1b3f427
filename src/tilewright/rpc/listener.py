"""A socket that listens, and a thread for each connection: what device servers and trackers have in common."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable

from tilewright.errors import EnvironmentError_, RpcError
from tilewright.rpc.frames import BadFrame, Channel, ConnectionLost, spelled
from tilewright.rpc.identity import Bundle, Impostor, Peer, require_loopback, secured

Serve = Callable[[Channel, Peer], None]

#: Connections whose peers have not shown a certificate yet, at a time: who sends nothing takes no one's turn.
_MOST_HANDSHAKES = 64


class Listener:
    """Accepts connections of peers of some roles, from the moment it is made until `close`."""

    def __init__(
        self, position: tuple[str, int], bundle: Bundle | None, roles: tuple[str, ...], most: int, serve: Serve
    ) -> None:
        """`serve(channel, peer)` runs in a thread for each connection, which ends with it; `most` may be at a time.

        Without a `bundle` only this machine may connect, and peers have no name. Raises `EnvironmentError_` where the
        address cannot be listened on or the bundle cannot be used, `InputError` where it is not this machine alone.
        """
        if bundle is None:
            require_loopback(position[0])
        else:
            bundle.context(listening=True)
        self._bundle, self._roles, self._most, self._serve = bundle, roles, most, serve
        self._socket = _listen(*position)
        self.address: tuple[str, int] = self._socket.getsockname()[:2]
        self.refused = 0
        self.closed = threading.Event()
        self._lock = threading.Lock()
        self._channels: set[Channel] = set()
        self._handshakes: dict[socket.socket, None] = {}
        threading.Thread(target=self._accept, name="accept", daemon=True).start()

    @property
    def channels(self) -> list[Channel]:
        """The connections that are open."""
        with self._lock:
            return list(self._channels)

    def close(self) -> None:
        """Stop listening, and end all connections."""
        self.closed.set()
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        for channel in self.channels:
            channel.close()

    def _accept(self) -> None:
        while not self.closed.is_set():
            try:
                connection, position = self._socket.accept()
            except OSError:  # too many files, or the end
                if self.closed.wait(0.05):
                    return
                continue
            if len(self.channels) >= self._most:
                connection.close()
                continue
            pending = self._begin_handshake(connection)
            arguments = (connection, spelled(*position[:2]), pending)
            threading.Thread(target=self._open, args=arguments, daemon=True).start()

    def _begin_handshake(self, connection: socket.socket) -> socket.socket:
        """Count a connection whose peer has not identified itself; of too many the one that has waited longest ends.

        Returns what the connection is counted by: a duplicate, as TLS takes the socket itself away.
        """
        pending = connection.dup()
        with self._lock:
            self._handshakes[pending] = None
            longest = next(iter(self._handshakes)) if len(self._handshakes) > _MOST_HANDSHAKES else None
            if longest is not None:
                del self._handshakes[longest]
                with contextlib.suppress(OSError):  # its thread finds it closed
                    longest.shutdown(socket.SHUT_RDWR)
        return pending

    def _open(self, connection: socket.socket, position: str, pending: socket.socket) -> None:
        """One connection from its handshake to its end; nothing that a peer does ends the listener."""
        peer = Peer("user", "")  # over plaintext nobody says who he is
        try:
            if self._bundle is not None:
                connection, peer = secured(connection, self._bundle, listening=True, roles=self._roles)
            channel = Channel(connection, str(peer) if peer.name else position)
        except (Impostor, RpcError, OSError, EnvironmentError_):
            self.refused += 1
            connection.close()
            return
        finally:
            with self._lock:
                self._handshakes.pop(pending, None)
                pending.close()
        with self._lock:
            self._channels.add(channel)
        try:
            self._serve(channel, peer)
        except (ConnectionLost, BadFrame):
            pass
        finally:
            channel.close()
            with self._lock:
                self._channels.discard(channel)


def _listen(host: str, port: int) -> socket.socket:
    """A socket that listens there; port 0 is any free one. "::" listens for IPv4 too, where the system does that."""
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0][0]
        both = host == "::" and socket.has_dualstack_ipv6()
        return socket.create_server((host, port), family=family, backlog=128, dualstack_ipv6=both)
    except OSError as error:
        raise EnvironmentError_(f"cannot listen on {spelled(host, port)}: {error.strerror or error}") from None
