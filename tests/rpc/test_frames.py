"""Frames: what goes in comes out, and what is no frame ends the connection, in bounded memory and time."""

from __future__ import annotations

import json
import random
import socket
import struct
import threading

import pytest

from tilewright.rpc import frames
from tilewright.rpc.frames import MOST_TEXT, BadFrame, Channel, ConnectionLost


@pytest.fixture
def ends():
    a, b = socket.socketpair()
    yield Channel(a, "left"), Channel(b, "right")
    a.close()
    b.close()


def test_a_frame_arrives_as_it_was_sent(ends):
    left, right = ends
    left.send({"verb": "x", "text": "ü", "n": 2**60}, b"abc")
    assert right.receive(1.0) == ({"verb": "x", "text": "ü", "n": 2**60}, b"abc")


def test_a_frame_is_sent_in_one_call_whatever_part_of_it_is_taken(ends):
    left, right = ends
    calls = []

    class Watched(socket.socket):
        room = 1 << 20

        def sendmsg(self, buffers):
            calls.append(b"".join(buffers)[: self.room])
            return self.send(calls[-1])

    left.socket = Watched(fileno=left.socket.detach())
    for room in (1 << 20, 30, 7):  # of a header of 16 bytes and a text of 7
        Watched.room = room
        left.send({"n": 1}, b"abcdefghij")
        assert right.receive(1.0) == ({"n": 1}, b"abcdefghij")
    assert [len(sent) for sent in calls] == [33, 30, 7]
    left.socket.close()


def test_a_large_frame_is_passed_on_in_pieces(ends):
    left, right = ends
    c, d = socket.socketpair()
    onward, last = Channel(c, "c"), Channel(d, "d")
    data = random.Random(0).randbytes(3 << 20)
    threads = [
        threading.Thread(target=left.send, args=({"n": 1}, data)),
        threading.Thread(target=lambda: _pass(right, onward)),
    ]
    for thread in threads:
        thread.start()
    assert last.receive(5.0) == ({"n": 1}, data)
    for thread in threads:
        thread.join()
    c.close()
    d.close()


def _pass(source, target):
    message, size = source.receive_head(5.0)
    target.send_head(message, size)
    source.forward(target)


@pytest.mark.parametrize(
    "sent, said",
    [
        (b"GET / HTTP/1.1\r\n\r\n", "does not speak this protocol"),
        (struct.pack("<4sIQ", b"TWR1", MOST_TEXT + 1, 0), "announces a frame"),
        (struct.pack("<4sIQ", b"TWR1", 2, 1 << 60) + b"{}", "announces a frame"),
        (struct.pack("<4sIQ", b"TWR1", 3, 0) + b"{a}", "no JSON text"),
        (struct.pack("<4sIQ", b"TWR1", 2, 0) + b"[]", "no JSON object"),
        (struct.pack("<4sIQ", b"TWR1", 200_000, 0) + b"[" * 200_000, "no JSON text"),
    ],
)
def test_what_is_no_frame_is_refused(ends, sent, said):
    left, right = ends
    threading.Thread(target=left.socket.sendall, args=(sent,)).start()
    with pytest.raises(BadFrame, match=said):
        right.receive(1.0)


def test_a_peer_that_leaves_within_a_frame_is_lost(ends):
    left, right = ends
    left.socket.sendall(struct.pack("<4sIQ", b"TWR1", 100, 0) + b"{")
    left.close()
    with pytest.raises(ConnectionLost, match="closed"):
        right.receive(1.0)


def test_a_peer_that_says_nothing_is_given_up(ends):
    with pytest.raises(ConnectionLost, match="in time"):
        ends[1].receive(0.05)


def test_a_peer_that_trickles_is_given_up(ends, monkeypatch):
    monkeypatch.setattr(frames, "FRAME_SECONDS", 0.2)
    left, right = ends
    stop = threading.Event()

    def trickle():
        text = struct.pack("<4sIQ", b"TWR1", 1000, 0)
        for byte in text + b" " * 1000:
            if stop.wait(0.03):
                return
            left.socket.sendall(bytes([byte]))

    thread = threading.Thread(target=trickle)
    thread.start()
    with pytest.raises(ConnectionLost):
        right.receive(1.0)
    assert thread.is_alive(), "the time is that of the whole message, not of each byte"
    stop.set()
    thread.join()


def test_random_damage_never_raises_anything_else():
    generator = random.Random(7)
    text = json.dumps({"verb": "have", "id": 1, "digest": "0" * 64, "bytes": 3}).encode()
    whole = struct.pack("<4sIQ", b"TWR1", len(text), 4) + text + b"abcd"
    met = set()
    for _ in range(300):
        damaged = bytearray(whole)
        for _ in range(generator.randint(1, 6)):
            damaged[generator.randrange(len(damaged))] = generator.randrange(256)
        a, b = socket.socketpair()
        a.sendall(damaged[: generator.randint(1, len(damaged))])
        a.close()
        try:
            Channel(b, "fuzz").receive(0.5, most=1 << 20)
        except (BadFrame, ConnectionLost) as problem:
            met.add(type(problem))
        b.close()
    assert met == {BadFrame, ConnectionLost}
