"""Hashes of bytes by which frameworks choose bins for text: FarmHash's Fingerprint64 and SipHash-2-4.

The first is of https://github.com/google/farmhash, the second of https://www.aumasson.jp/siphash/siphash.pdf; both are
the same on every machine, which is why models may depend on them.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import reduce

_ALL = (1 << 64) - 1
_K0, _K1, _K2 = 0xC3A5C85C97CB3127, 0xB492B66FBE98F273, 0x9AE16A3B2F90404F
#: The factor by which TensorFlow joins fingerprints.
_JOIN = 0xC6A4A7935BD1E995
#: What it begins with where it crosses features.
_CROSSED = 0xDECAFCAFFE


def _word(data: bytes, at: int, size: int = 8) -> int:
    return int.from_bytes(data[at : at + size], "little")


def _right(value: int, by: int) -> int:
    """`value` rotated to the right."""
    value &= _ALL
    return (value >> by | value << (64 - by)) & _ALL


def _shifted(value: int) -> int:
    value &= _ALL
    return value ^ (value >> 47)


def _two(first: int, second: int, factor: int) -> int:
    """Two words in one."""
    a = _shifted((first ^ second) * factor)
    return _shifted((second ^ a) * factor) * factor & _ALL


def fingerprint(data: bytes) -> int:
    """FarmHash's Fingerprint64."""
    if len(data) <= 16:
        return _up_to_16(data)
    if len(data) <= 32:
        return _up_to_32(data)
    return _up_to_64(data) if len(data) <= 64 else _longer(data)


def _up_to_16(data: bytes) -> int:
    size = len(data)
    factor = _K2 + size * 2
    if size >= 8:
        a, b = _word(data, 0) + _K2, _word(data, size - 8)
        return _two((_right(b, 37) * factor + a) & _ALL, (_right(a, 25) + b) * factor & _ALL, factor)
    if size >= 4:
        return _two(size + (_word(data, 0, 4) << 3), _word(data, size - 4, 4), factor)
    if not size:
        return _K2
    y, z = data[0] + (data[size >> 1] << 8), size + (data[-1] << 2)
    return _shifted(y * _K2 ^ z * _K0) * _K2 & _ALL


def _up_to_32(data: bytes) -> int:
    size = len(data)
    factor = _K2 + size * 2
    a, b = _word(data, 0) * _K1, _word(data, 8)
    c, d = _word(data, size - 8) * factor, _word(data, size - 16) * _K2
    return _two((_right(a + b, 43) + _right(c, 30) + d) & _ALL, (a + _right(b + _K2, 18) + c) & _ALL, factor)


def _up_to_64(data: bytes) -> int:
    size = len(data)
    factor = _K2 + size * 2
    a, b = _word(data, 0) * _K2 & _ALL, _word(data, 8)
    c, d = _word(data, size - 8) * factor, _word(data, size - 16) * _K2
    y = (_right(a + b, 43) + _right(c, 30) + d) & _ALL
    z = _two(y, (a + _right(b + _K2, 18) + c) & _ALL, factor)
    e, f = _word(data, 16) * factor, _word(data, 24)
    g, h = (y + _word(data, size - 32)) * factor, (z + _word(data, size - 24)) * factor
    return _two((_right(e + f, 43) + _right(g, 30) + h) & _ALL, (e + _right(f + a, 18) + g) & _ALL, factor)


def _weak(data: bytes, at: int, a: int, b: int) -> tuple[int, int]:
    """32 bytes and two seeds in two words."""
    w, x, y, z = (_word(data, at + 8 * position) for position in range(4))
    a += w
    b = _right(b + a + z, 21)
    first = a
    a += x + y
    return (a + z) & _ALL, (b + _right(a, 44) + first) & _ALL


def _longer(data: bytes) -> int:
    """64 bytes at a time, the last 64 once more."""
    size = len(data)
    x, y = 81 * _K2 + _word(data, 0), 81 * _K1 + 113
    z = _shifted(y * _K2 + 113) * _K2
    v = w = (0, 0)
    factor = _K1
    blocks = (size - 1) // 64
    for block in range(blocks + 1):
        position, nine = block * 64, 1
        if block == blocks:
            position = size - 64
            factor, nine = _K1 + ((z & 0xFF) << 1), 9
            w = (w[0] + (size - 1 & 63), w[1])
            v = (v[0] + w[0], v[1])
            w = (w[0] + v[0], w[1])
        x = _right(x + y + v[0] + _word(data, position + 8), 37) * factor
        y = _right(y + v[1] + _word(data, position + 48), 42) * factor
        x = (x ^ w[1] * nine) & _ALL
        y += v[0] * nine + _word(data, position + 40)
        z = _right(z + w[0], 33) * factor
        v = _weak(data, position, v[1] * factor, x + w[0])
        w = _weak(data, position + 32, z + w[1], y + _word(data, position + 16))
        z, x = x & _ALL, z & _ALL
    one = _two(v[0], w[0], factor) + _shifted(y) * _K0 + z
    return _two(one & _ALL, (_two(v[1], w[1], factor) + x) & _ALL, factor)


def crossed(hashes: Iterable[int]) -> int:
    """Hashes of several features in one, as TensorFlow crosses them."""
    return reduce(_joined, hashes, _CROSSED)


def _joined(first: int, second: int) -> int:
    """Two fingerprints in one, as TensorFlow's FingerprintCat64 does."""
    result = (first ^ _JOIN ^ _shifted(second * _JOIN) * _JOIN) * _JOIN
    return _shifted(_shifted(result) * _JOIN)


def keyed_hash(data: bytes, key: tuple[int, int]) -> int:
    """SipHash-2-4 with the two words of `key`."""
    first, second = key[0] & _ALL, key[1] & _ALL
    state = [
        first ^ 0x736F6D6570736575, second ^ 0x646F72616E646F6D, first ^ 0x6C7967656E657261,
        second ^ 0x7465646279746573,
    ]  # fmt: skip
    whole = len(data) // 8 * 8
    words = [_word(data, at) for at in range(0, whole, 8)]
    for word in [*words, _word(data, whole) | (len(data) & 0xFF) << 56]:
        state[3] ^= word
        _rounds(state, 2)
        state[0] ^= word
    state[2] ^= 0xFF
    _rounds(state, 4)
    return state[0] ^ state[1] ^ state[2] ^ state[3]


def _rounds(v: list[int], count: int) -> None:
    for _ in range(count):
        v[0] = (v[0] + v[1]) & _ALL
        v[1] = _right(v[1], 51) ^ v[0]
        v[0] = _right(v[0], 32)
        v[2] = (v[2] + v[3]) & _ALL
        v[3] = _right(v[3], 48) ^ v[2]
        v[0] = (v[0] + v[3]) & _ALL
        v[3] = _right(v[3], 43) ^ v[0]
        v[2] = (v[2] + v[1]) & _ALL
        v[1] = _right(v[1], 47) ^ v[2]
        v[2] = _right(v[2], 32)
