"""Random ONNX programs on a vector whose length only a run knows: branches and loops around what changes it."""

from __future__ import annotations

import re
from random import Random

#: Steps from the vector X to the vector Y; N is a number of the step, `few` an input.
STEPS = (
    "Y = Sin(X)",
    "gN = Greater(X, zero) Y = Compress(X, gN)",
    "Y, iN, rN, cN = Unique(X)",
    "wN = NonZero(X) tN = Transpose(wN) Y = GatherND(X, tN)",
    "sN = Shape(X) mN = Min(sN, few) Y, iN = TopK(X, mN)",
    "sN = Size(X) rN = Range(no, sN, one) fN = Cast <to = 1> (rN) Y = Add(X, fN)",
    "Y = Slice(X, ones, few)",
    "dN = Concat <axis = 0> (few, few) pN = Mul(dN, dN) Y = Pad(X, pN)",
    "sN = Size(X) eN = Mod(sN, two) bN = Cast <to = 9> (eN) "
    "Y = If(bN) <then_branch = t () => (float[AN] vN) { vN = Concat <axis = 0> (X, X) }, "
    "else_branch = e () => (float[BN] uN) { uN = Neg(X) }>",
    "Y = Loop(trips, , X) <body = b (int64 iN, bool cN, float[AN] vN) => (bool dN, float[BN] uN) "
    "{ dN = Identity(cN) gN = Cos(vN) hN = Slice(gN, zeros, few) uN = Concat <axis = 0> (vN, hN) }>",
    "lN, qN = Loop(trips, , X) <body = b (int64 iN, bool cN, float[AN] vN) => (bool dN, float[AN] uN, float[AN] wN) "
    "{ dN = Identity(cN) uN = Cos(vN) wN = Mul(uN, vN) }> Y = Reshape(qN, flat)",
)
_CONSTANTS = (
    "zero = Constant <value = float {0}>() no = Constant <value = int64 {0}>() one = Constant <value = int64 {1}>() "
    "two = Constant <value = int64 {2}>() zeros = Constant <value = int64[1] {0}>() "
    "ones = Constant <value = int64[1] {1}>() flat = Constant <value = int64[1] {-1}>()"
)


def open_program(random: Random) -> str:
    """The text of a graph of some steps, with the inputs x, few [1] and trips."""
    chosen = random.sample(STEPS, random.randint(2, 5))
    names = ["x", *[f"y{i}" for i in range(1, len(chosen))], "y"]
    lines = []
    for i, step in enumerate(chosen):
        named = re.sub(r"\bX\b", names[i], re.sub(r"\bY\b", names[i + 1], step))
        lines.append(re.sub(r"\b([A-Za-z])N\b", rf"\g<1>{i}", named))
    return f"g (float[L] x, int64[1] few, int64 trips) => (float[M] y) {{ {_CONSTANTS} {' '.join(lines)} }}"
