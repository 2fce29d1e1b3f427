"""Training with differential privacy: gradients of each sample clipped, and normal noise on their sum (DP-SGD).

    step = private_step(loss, [w, b], SGD(0.1), samples=32, clip=1.0, noise=1.1)
    trainer = Trainer(step, tilewright.compile(step.module), {"w": …, "b": …})
    trainer(x=x, y=y, sampled=np.ones(32, "float32"), noise_key=key)

Abadi et al., Deep Learning with Differential Privacy (CCS 2016), algorithm 1. Noise is of the generator Philox4x32-10
(Salmon et al., SC 2011) by the method of Box and Muller: a function of a key that the caller draws and keeps secret,
and of the number of the step, which is part of the optimizer's state. `privacy.py` computes what a training has spent.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from tilewright.errors import InputError, TypeMismatchError
from tilewright.relay import op
from tilewright.relay.ir.expr import Constant, Expr, Function, Tuple, Var, const
from tilewright.relay.ir.infer_type import infer_type
from tilewright.relay.ir.module import IRModule
from tilewright.relay.ir.type import TensorType
from tilewright.relay.ir.type_of import tensor_type_of
from tilewright.relay.ir.visitor import free_vars, substitute
from tilewright.relay.op.gradients.adjoint import adjoints
from tilewright.training.rules.optimizer import Optimizer
from tilewright.training.step import TrainingStep

_ROUNDS = 10
#: The multipliers of both halves of a block, and what is added to both halves of the key each round.
_MULTIPLIERS, _WEYL = (0xD2511F53, 0xCD9E8D57), (0x9E3779B9, 0xBB67AE85)
_WORD = 0xFFFFFFFF
#: Bits of a word that become a number of (0, 1): float32 holds them exactly.
_UNIFORM_BITS = 24


def private_step(
    loss: Expr, parameters: Sequence[Var], optimizer: Optimizer, *, samples: int, clip: float, noise: float
) -> TrainingStep:
    """A step of DP-SGD by the scalar `loss` of one sample, whose inputs have a first dimension of 1.

    The step's inputs are those of `samples` samples, `sampled` (1.0 for those that the draw took, else 0.0) and
    `noise_key` (two uint32). Each sample's gradient, over all parameters, is scaled to a norm of at most `clip`; to
    their sum comes noise of the deviation `noise` times `clip`, and `samples` divides it. The loss returned is the mean
    of those sampled: it is not private. Raises InputError, TypeMismatchError.
    """
    if samples < 1 or clip <= 0 or noise < 0:
        raise InputError(f"DP-SGD needs samples >= 1, clip > 0 and noise >= 0, not {samples}, {clip} and {noise}")
    kind = tensor_type_of(loss)
    if kind.shape != () or not kind.dtype.is_float:
        raise TypeMismatchError(f"the loss must be one number of floating point, not {kind}")
    singles = [var for var in free_vars(loss) if var not in set(parameters)]
    inputs = [Var(var.name, _batched(var, samples)) for var in singles]
    sampled, key = Var("sampled", TensorType((samples,), "float32")), Var("noise_key", TensorType((2,), "uint32"))
    counter = Var("noise_step", TensorType((), "uint32"))
    losses, gradients = _clipped(loss, parameters, dict(zip(singles, inputs, strict=True)), sampled, clip)
    types = [tensor_type_of(parameter) for parameter in parameters]
    noisy = [
        (total + normals(key, counter, index, of.shape) * (noise * clip)) * (1 / samples)
        for index, (total, of) in enumerate(zip(gradients, types, strict=True))
    ]
    initial = optimizer.initial_state(parameters)
    state = [Var(name, TensorType(value.shape, str(value.dtype))) for name, value in initial.items()]
    moved, remembered = optimizer.update(parameters, noisy, state)
    mean = losses / op.maximum(op.sum(sampled), const(1.0, "float32"))
    names = ["loss", *[p.name for p in parameters], *initial, "noise_step"]
    body = Tuple([mean, *moved, *remembered, counter + const(1, "uint32")])
    taken = (*inputs, sampled, key)
    main = Function([*taken, *parameters, *state, counter], body, attrs={"output_names": names})
    whole = {**initial, "noise_step": np.zeros((), np.uint32)}
    return TrainingStep(infer_type(IRModule.from_expr(main)), taken, tuple(parameters), whole, 0)


def _batched(var: Var, samples: int) -> TensorType:
    """The type of an input of one sample for all of them. Raises `TypeMismatchError`."""
    kind = tensor_type_of(var)
    if not kind.shape or kind.shape[0] != 1:
        raise TypeMismatchError(
            f"the input {var.name} is {kind}: the loss is of one sample, with a first dimension of 1"
        )
    return TensorType((samples, *kind.shape[1:]), kind.dtype)


def _clipped(
    loss: Expr, parameters: Sequence[Var], inputs: dict[Var, Var], sampled: Var, clip: float
) -> tuple[Expr, list[Expr]]:
    """The sums over the samples of losses and of clipped gradients, those of samples not drawn left out."""
    total: Expr | None = None
    sums: list[Expr] = []
    for index in range(tensor_type_of(sampled).shape[0]):
        one: dict[Expr, Expr] = {var: _sample(batch, index) for var, batch in inputs.items()}
        own = substitute(loss, one)
        gradients = adjoints(own, parameters)
        squares = [op.sum(gradient * gradient) for gradient in gradients]
        norm = squares[0]
        for square in squares[1:]:
            norm = norm + square
        taken = op.reshape(_sample(sampled, index), newshape=())
        scale = taken / op.maximum(op.sqrt(norm) * (1 / clip), const(1.0, "float32"))
        scaled = [gradient * scale for gradient in gradients]
        sums = [a + b for a, b in zip(sums, scaled, strict=True)] if sums else scaled
        total = own * taken if total is None else total + own * taken
    assert total is not None
    return total, sums


def _sample(batch: Expr, index: int) -> Expr:
    return op.strided_slice(batch, begin=(index,), end=(index + 1,), strides=None, axes=(0,))


def normals(key: Expr, step: Expr, index: int, shape: Sequence[int]) -> Expr:
    """Independent normal numbers (float32) of `shape`: the stream `index` of a step, for a key of two uint32."""
    count = math.prod(shape)
    words = philox(key, step, index, -(-count // 4))
    scale = const(2.0**-_UNIFORM_BITS, "float32")
    unit = [
        (op.cast(op.right_shift(word, const(32 - _UNIFORM_BITS, "uint64")), "float32") + const(0.5, "float32")) * scale
        for word in words
    ]
    found: list[Expr] = []
    for first, second in (unit[:2], unit[2:]):
        radius = op.sqrt(op.log(first) * const(-2.0, "float32"))
        found += [radius * part for part in _turned(second)]
    flat = op.concatenate(found, axis=0)
    return op.reshape(op.strided_slice(flat, begin=(0,), end=(count,), strides=None, axes=(0,)), newshape=tuple(shape))


def _turned(turns: Expr) -> tuple[Expr, Expr]:
    """Cosine and sine of 2 pi `turns`, for numbers of (0, 1), from half the angle.

    By Taylor's series, which err by less than 1e-7 up to pi / 2: the operators take any angle, by float64 and branches.
    """
    half = (turns - const(0.5, "float32")) * const(math.pi, "float32")
    square = half * half
    cosine, sine = (
        _series(square, [(-1) ** n / math.factorial(2 * n + odd) for n in range(7 - odd)]) for odd in (0, 1)
    )
    sine = sine * half
    return sine * sine * const(2.0, "float32") - const(1.0, "float32"), sine * cosine * const(-2.0, "float32")


def _series(x: Expr, coefficients: Sequence[float]) -> Expr:
    """The polynomial with these coefficients, from the constant one on."""
    found: Expr = const(coefficients[-1], "float32")
    for coefficient in reversed(coefficients[:-1]):
        found = found * x + const(coefficient, "float32")
    return found


def philox(key: Expr, step: Expr, index: int, blocks: int) -> list[Expr]:
    """The four words (uint64 below 2^32) of Philox4x32-10 for the counters (block, index, step, 0)."""
    half = const(32, "uint64")
    keys = [op.cast(op.reshape(_sample(key, part), newshape=()), "uint64") for part in range(2)]
    numbers = Constant(np.arange(blocks, dtype=np.uint64))
    zero = Constant(np.zeros(blocks, np.uint64))
    d: Expr = zero
    a: Expr = numbers
    b: Expr = zero + const(index, "uint64")
    c: Expr = zero + op.cast(step, "uint64")
    for turn in range(_ROUNDS):
        first, second = (_word(k + const(turn * w & _WORD, "uint64")) for k, w in zip(keys, _WEYL, strict=True))
        p, q = a * const(_MULTIPLIERS[0], "uint64"), c * const(_MULTIPLIERS[1], "uint64")
        mixed = [op.right_shift(q, half), b, first], [op.right_shift(p, half), d, second]
        a, c = (op.bitwise_xor(op.bitwise_xor(x, y), z) for x, y, z in mixed)
        b, d = _word(q), _word(p)
    return [a, b, c, d]


def _word(value: Expr) -> Expr:
    return op.bitwise_and(value, const(_WORD, "uint64"))
