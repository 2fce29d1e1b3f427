"""Random numbers as LiteRT's kernels draw them, made when the model is imported.

Where a model has seeds, every run draws the numbers of the interpreter's first one; where it has none, which LiteRT
makes up anew in each process, those of a seed that is drawn from the operator's name.

Salmon et al., Parallel random numbers: as easy as 1, 2, 3 (SC 2011): Philox4x32 of ten rounds, Threefry2x32 of twenty.
"""

from __future__ import annotations

from binascii import crc32
from math import prod

import numpy as np

from tilewright.frontend.idioms import cast, constant, like
from tilewright.frontend.tflite.node import Node, converts
from tilewright.relay import op
from tilewright.relay.ir.expr import Constant, Expr

_WORD = np.uint64(0xFFFFFFFF)
#: Numbers that an operator may make; more would be a file of no size that fills the memory.
_MOST = 1 << 26


def philox(key: tuple[int, int], counter: tuple[int, int, int, int], blocks: int) -> np.ndarray:
    """uint32 [blocks, 4]: the words at `counter` and those behind it, of a counter of 128 bits counted in 64."""
    low = (np.uint64(counter[1]) << np.uint64(32)) + np.uint64(counter[0])
    positions = low + np.arange(blocks, dtype=np.uint64)
    a, b = positions & _WORD, positions >> np.uint64(32)
    c, d = np.full(blocks, counter[2], np.uint64), np.full(blocks, counter[3], np.uint64)
    first, second = np.uint64(key[0]), np.uint64(key[1])
    shift = np.uint64(32)
    for _ in range(10):
        p, q = a * np.uint64(0xD2511F53), c * np.uint64(0xCD9E8D57)
        a, b, c, d = (q >> shift) ^ b ^ first, q & _WORD, (p >> shift) ^ d ^ second, p & _WORD
        first, second = (first + np.uint64(0x9E3779B9)) & _WORD, (second + np.uint64(0xBB67AE85)) & _WORD
    return np.stack([a, b, c, d], axis=1).astype(np.uint32)


def threefry(key: tuple[int, int], counter: tuple[int, int], blocks: int) -> np.ndarray:
    """uint32 [blocks, 2]: the words at `counter` and those behind it."""
    positions = (np.uint64(counter[1]) << np.uint64(32)) + np.uint64(counter[0]) + np.arange(blocks, dtype=np.uint64)
    keys = [np.uint32(key[0]), np.uint32(key[1]), np.uint32(key[0] ^ key[1] ^ 0x1BD11BDA)]
    a, b = (positions & _WORD).astype(np.uint32) + keys[0], (positions >> np.uint64(32)).astype(np.uint32) + keys[1]
    for turn in range(5):
        for left in ((13, 15, 26, 6), (17, 29, 16, 24))[turn % 2]:
            a = a + b
            b = ((b << np.uint32(left)) | (b >> np.uint32(32 - left))) ^ a
        a, b = a + keys[(turn + 1) % 3], b + keys[(turn + 2) % 3] + np.uint32(turn + 1)
    return np.stack([a, b], axis=1)


def _words(node: Node, count: int) -> np.ndarray:
    """The first `count` words of an operator's generator, and up to three more."""
    if not 0 <= count <= _MOST:
        node.unsupported(f"{count} random numbers; up to {_MOST} are supported")
    seed, further = int(node.option("seed", 0)), int(node.option("seed2", 0))
    if seed == 0 and further == 0:
        further = crc32(node.span.encode())
    return philox(_halves(seed), (0, 0, *_halves(further)), -(-count // 4)).reshape(-1)


def _halves(seed: int) -> tuple[int, int]:
    """The words of a seed as LiteRT has it: the lower 32 bits, with their sign."""
    low = seed & 0xFFFFFFFF
    return low, 0xFFFFFFFF if low >> 31 else 0


def _unit(words: np.ndarray) -> np.ndarray:
    """float32 numbers of [0, 1) by the low 23 bits of words."""
    return ((words & np.uint32(0x7FFFFF)) | np.uint32(127 << 23)).view(np.float32) - np.float32(1)


@converts("RANDOM_UNIFORM", "RANDOM_STANDARD_NORMAL")
def convert_random(node: Node) -> Expr:
    """Inputs: shape. Numbers of [0, 1), or of the normal distribution by the method of Box and Muller."""
    shape = node.ints(0, "shape")
    if min(shape, default=0) < 0 or node.output().dtype != "float32":
        node.unsupported(f"random numbers of type {node.output().dtype} and shape {shape}")
    count = prod(shape)
    words = _words(node, count)
    if node.name == "RANDOM_UNIFORM":
        return constant(_unit(words)[:count].reshape(shape), "float32")
    pairs = words.reshape(-1, 2)
    radius = np.sqrt(np.float32(-2) * np.log(np.maximum(_unit(pairs[:, 0]), np.float32(1e-7))))
    angle = np.float32(2 * np.pi) * _unit(pairs[:, 1])
    numbers = np.stack([np.sin(angle) * radius, np.cos(angle) * radius], axis=1)
    return constant(numbers.reshape(-1)[:count].reshape(shape), "float32")


@converts("MULTINOMIAL")
def convert_multinomial(node: Node) -> Expr:
    """Inputs: logits [B, classes], number of samples. Classes drawn by where a number falls among the sums."""
    if node.rank() != 2:
        node.bad(f"it takes logits of two dimensions, not {list(node.shape())}")
    samples, batch = node.ints(1, "number of samples")[0], node.shape()[0]
    if not isinstance(batch, int) or samples < 0:
        node.unsupported(f"{samples} samples of {batch} rows")
    pairs = _words(node, 2 * samples * batch).reshape(-1, 2)[: samples * batch].astype(np.uint64)
    mantissa = ((pairs[:, 0] & np.uint64(0xFFFFF)) << np.uint64(32)) | pairs[:, 1]
    unit = (mantissa | np.uint64(1023 << 52)).view(np.float64) - 1.0
    logits = node[0]
    finite = op.isfinite(logits)
    least = like(float(np.finfo(np.float32).min), logits)
    largest = op.max(op.where(finite, logits, least), axis=(1,), keepdims=True)
    weights = op.exp(cast(logits, "float64") - cast(largest, "float64"))
    sums = op.cumsum(op.where(finite, weights, 0), axis=1)
    total = op.strided_slice(sums, begin=(-1,), end=(node.shape()[1],), strides=(1,), axes=(1,))
    wanted = unit.reshape(batch, samples) * total
    below = op.expand_dims(sums, axis=1) <= op.expand_dims(wanted, axis=2)
    return op.sum(cast(below, node.output().dtype), axis=(2,))


@converts("STABLEHLO_RNG_BIT_GENERATOR")
def convert_bits(node: Node) -> list[Expr]:
    """Inputs: state of 64-bit numbers, which must be known. Results: the state behind what was taken, and words."""
    state = node.static(0, "state").astype(np.uint64).view(np.uint32)
    output = node.output(1)
    kind = np.dtype(output.dtype)
    algorithm = node.choice("algorithm", ("DEFAULT", "PHILOX", "THREEFRY"), default=0)
    if kind.kind not in "iu" or kind.itemsize < 4 or state.size not in ((4,) if algorithm == "THREEFRY" else (4, 6)):
        node.unsupported(f"{kind} numbers from a state of {state.size // 2}")
    count = prod(output.shape) * kind.itemsize // 4
    if not 0 <= count <= _MOST:
        node.unsupported(f"{count} random words; up to {_MOST} are supported")
    a, b, c, d = (int(word) for word in state[:4])
    width = 2 if algorithm == "THREEFRY" else 4
    blocks = -(-count // width)
    if width == 2:
        words = threefry((a, b), (c, d), blocks)
    else:
        e, f = (int(word) for word in (state[4:] if state.size == 6 else state[:2]))
        words = philox((a, b), (c, d, e, f), blocks)
    after = state.copy().view(np.uint64)
    after[1] += np.uint64(blocks)
    return [Constant(after), Constant(words.reshape(-1)[:count].copy().view(kind).reshape(output.shape))]
